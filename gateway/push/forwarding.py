"""The way of an allowed push to GitHub: a token for it alone, a question whether that works, the bytes, the report.

Whatever fails is one sentence, and says whether the push may have happened. Nothing is tried a second time once bytes
were sent: nobody knows what became of them. Decides nothing about refs.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from gateway.credentials.rest import GitHubError
from gateway.credentials.token import Repository, Token
from gateway.errors import AuditError
from gateway.push.commands import Command, CommandError, PushCommands, emit, needs_pack
from gateway.push.content import Content
from gateway.push.context import PushContext
from gateway.push.inbound import ClientStalled
from gateway.push.reply import Talk
from gateway.push.report import ReportParser, UpstreamReport
from gateway.push.spool import SpoolError
from gateway.push.upstream import UNKNOWN, UpstreamError
from gateway.push_authorizer import PushCode

_NO_ATOMIC: Final = "this GitHub does not know atomic pushes"
_NOT_RECORDED: Final = "the gateway could not record the token for this push, so nothing was pushed"
_STALLED: Final = "the client sent nothing for too long"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no report. `sentence` is a line for every ref."""

    code: PushCode
    sentence: str


@dataclass(slots=True)
class Forwarding:
    """One push on its way. Changes: `whole` once GitHub may have all of it, and so may do what it says: where a pack
    ends stands in the pack, so it may be over long before its client says so."""

    context: PushContext
    push: PushCommands
    content: Content
    talk: Talk
    whole: bool = False

    async def run(self, repository: Repository, subset: Sequence[Command]) -> UpstreamReport | Failure:
        """Forwards these commands. ClientGone while the client's bytes are still needed; the token is revoked before
        anything comes out of here."""
        try:
            async with self.context.credentials.write_token(repository) as token:
                now = token.repositories[0]
                if now.name != repository.name:
                    # The rules were asked about the old name; the next push is judged under the new one.
                    self.context.access.note_rename(now)
                    sentence = f"{repository.name} is called {now.name} by now: push again"
                    return Failure(PushCode.UNAVAILABLE, sentence)
                return await self._with_token(now, token, subset)
        except GitHubError as error:
            return Failure(PushCode.UNAVAILABLE, error.sentence)
        except AuditError:
            return Failure(PushCode.INTERNAL, _NOT_RECORDED)
        except UpstreamError as error:
            code = PushCode.OUTCOME_UNKNOWN if error.unknown else PushCode.UNAVAILABLE
            return Failure(code, error.sentence)
        except ClientStalled:
            return self._broken_off(PushCode.TIMEOUT, _STALLED)
        except SpoolError as error:
            return self._broken_off(PushCode.LIMIT, error.sentence)
        except CommandError as error:
            return self._broken_off(PushCode.MALFORMED, error.sentence)

    def _broken_off(self, code: PushCode, sentence: str) -> Failure:
        """The rest of the push cannot be sent."""
        if self.whole:
            return Failure(PushCode.OUTCOME_UNKNOWN, f"{sentence}: {UNKNOWN}")
        return Failure(code, sentence)

    async def _with_token(
        self, repository: Repository, token: Token, subset: Sequence[Command]
    ) -> UpstreamReport | Failure:
        offered = await self.context.upstream.greet(repository, token)
        if self.push.capabilities.atomic and "atomic" not in offered:
            return Failure(PushCode.UNSUPPORTED, _NO_ATOMIC)
        self.content.check()
        head = emit(self.push, subset)
        rest = self.content.remaining if needs_pack(subset) else 0
        length = None if rest is None else len(head) + rest
        parser = ReportParser([command.wire_name for command in subset])
        async with aclosing(self._body(head, needs_pack(subset))) as body:
            return await self.context.upstream.push(repository, token, body, length, parser, self.talk.show)

    async def _body(self, head: bytes, with_pack: bool) -> AsyncGenerator[bytes]:
        """Our own commands, then what the client sent after its own."""
        self.whole = not with_pack
        yield head
        if with_pack:
            async with aclosing(self.content.pass_on()) as pieces:
                async for piece in pieces:
                    self.whole = True
                    yield piece
            self.whole = True
