"""One push from its first byte to its last: commands read, judged, kinds proven, a person asked, forwarded, reported.

The order is the point: nothing is minted before the verdict, nothing sent before the log took the token's record,
nothing answered before the push's own record. What goes wrong on the way is a refusal with a sentence for each ref.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from gateway.policy.decision import Decision, Verdict
from gateway.policy.push import OVERRIDABLE, PushRequest, UpdateKind
from gateway.policy.repositories import RepositoryName
from gateway.push.access import Comparison, PushRefused, Readable
from gateway.push.ancestry import certain_kind
from gateway.push.asking import ask_about
from gateway.push.capabilities import OFFERED, ObjectFormat, Report
from gateway.push.commands import Command, CommandError, CommandReader, Probe, PushCommands
from gateway.push.content import Content
from gateway.push.context import PUSHES_AT_ONCE, PushContext
from gateway.push.deletions import Deletions, find_deletions
from gateway.push.forwarding import Failure, Forwarding
from gateway.push.inbound import ClientGone, ClientStalled, Inbound
from gateway.push.kinds import KindFinder
from gateway.push.pkt import FLUSH
from gateway.push.reply import Reply, Talk
from gateway.push.report import INNOCENT, Status, UpstreamReport, one_line, refused, report
from gateway.push.spool import SpoolError
from gateway.push.upstream import UNKNOWN
from gateway.push.verdicts import (
    RefVerdict,
    allowed_commands,
    asked_refs,
    judge_refs,
    open_refs,
    sinks,
)
from gateway.push_authorizer import PushCode, PushRecord, RefOutcome

CONTENT_TYPE: Final = "application/x-git-receive-pack-request"
# Seconds that the record of a push waits for GitHub to say what kind of update it was.
_KINDS: Final = 10.0

_LEFT: Final = "the client left before the push was over"
_STALLED: Final = "the client sent nothing for too long"
_CLOSED: Final = "the session was closed"
_CHANGED: Final = "the rule that allowed it has ended meanwhile, so push again"
_FAILED: Final = "the gateway failed; what became of the push shows git ls-remote"
_TOO_MANY: Final = (
    f"{PUSHES_AT_ONCE} pushes of this session are under way: push again when one of them is over"
)
_WRONG_TYPE: Final = f"the body of a push is of the type {CONTENT_TYPE}"
_NOT_RECORDED: Final = "it was pushed, but the gateway could not record that"
_NO_REPORT: Final = "the push failed, and the git client asked for no report"

_log = logging.getLogger(__name__)


class Reception:
    """One POST to `git-receive-pack`. Changes; `run` once."""

    def __init__(self, context: PushContext, name: RepositoryName, inbound: Inbound, reply: Reply) -> None:
        self._context = context
        self._name = name
        self._inbound = inbound
        self._reply = reply
        self._start = context.clock()
        self._content: Content | None = None
        self._forwarding: Forwarding | None = None
        self._push: PushCommands | None = None
        self._refs: tuple[RefVerdict, ...] = ()
        self._statuses: list[Status] = []
        self._approver = ""
        self._deletions = Deletions()
        self._forwarded = False
        self._recorded = False
        self._counted = False

    async def run(self, content_type: str, encoding: str, length: int | None) -> None:
        """Receives the push and answers it. What was announced of the body: its type, "" or its coding, its length.
        Never raises but to be cancelled; one record is written whatever happens."""
        try:
            await self._guarded(content_type, encoding, length)
        except ClientStalled:
            await self._last_words(408, PushCode.TIMEOUT, _STALLED)
        except asyncio.CancelledError:
            self._record_end(PushCode.CLOSED, _CLOSED)
            raise
        except ClientGone:
            self._record_end(PushCode.CLIENT_GONE, _LEFT)
        except Exception:
            _log.exception("a push failed and is refused")
            await self._after_fault()
        finally:
            if self._content is not None:
                self._content.close()
            self._context.running -= self._counted
            self._inbound.drop()

    async def _guarded(self, content_type: str, encoding: str, length: int | None) -> None:
        """The same, with refusals as exceptions."""
        try:
            await self._receive(content_type, encoding, length)
        except CommandError as error:
            await self._turn_away(error.status, PushRefused(PushCode.MALFORMED, error.sentence))
        except PushRefused as refusal:
            await self._turn_away(403 if refusal.denied else 503, refusal)
        except SpoolError as error:
            await self._turn_away(503, PushRefused(PushCode.LIMIT, error.sentence))

    async def _receive(self, content_type: str, encoding: str, length: int | None) -> None:
        if content_type.lower() != CONTENT_TYPE:
            raise CommandError(415, _WRONG_TYPE)
        content = self._content = Content(self._inbound, encoding, length)
        readable, object_format = await self._context.access.with_format(self._name)
        self._name = readable.repository.name
        push = await _read_commands(content, object_format)
        if isinstance(push, Probe):
            await self._reply.send(b"")
            return
        self._push = push
        self._refs = judge_refs(push, certain_kind, self._judge)
        if self._context.running >= PUSHES_AT_ONCE:
            raise PushRefused(PushCode.LIMIT, _TOO_MANY)
        self._context.running += 1
        self._counted = True
        await self._go_through(push, content, readable, object_format)

    async def _go_through(
        self, push: PushCommands, content: Content, readable: Readable, object_format: ObjectFormat
    ) -> None:
        """From the commands on: decide, and deny or forward."""
        comparison = self._context.access.comparison(readable)
        talk = Talk(self._reply, push.capabilities, self._context.label, self._context.sleep)
        curious = bool(asked_refs(self._refs)) and self._context.door.attended
        finder = content.finder = KindFinder(object_format, self._refs, comparison, curious=curious)
        if not sinks(push, self._refs) and open_refs(self._refs):
            await self._find_kinds(content, finder)
            self._judge_again()
        if not sinks(push, self._refs) and asked_refs(self._refs):
            await self._ask(push, content, finder, talk)
            self._judge_again()
        if sinks(push, self._refs):
            await self._deny(push, content, finder, comparison, talk)
        else:
            await self._forward(push, content, readable, finder, talk)

    # --- Deciding ---------------------------------------------------------------------------------

    def _judge(self, command: Command, kinds: Sequence[UpdateKind]) -> Sequence[Decision]:
        requests = [PushRequest(self._name, command.ref, kind) for kind in kinds]
        return self._context.door.judge(self._context.session, requests)

    async def _find_kinds(self, content: Content, finder: KindFinder) -> None:
        """Holds the push until its kinds are known: proven, or not to be proven."""
        await content.hold(self._context.spool_folder, lambda: not finder.looking)
        await finder.finish()

    async def _ask(self, push: PushCommands, content: Content, finder: KindFinder, talk: Talk) -> None:
        """Asks a person about what must be asked, once the kinds are known; then the rules again, as they are now."""
        asked = asked_refs(self._refs)
        if self._context.door.attended and talk.possible:
            await self._find_kinds(content, finder)
        answer = await ask_about(
            self._context, self._name, push, asked, finder.subjects, content, self._inbound, talk
        )
        for ref in asked:
            before = ref.decision
            assert before is not None  # it is ASK
            if answer.allowed:
                self._approver = answer.approver
                ref.settle(Decision(Verdict.ALLOW, before.rule, answer.reason))
            else:
                ref.settle(Decision(Verdict.DENY, before.rule, f"{before.reason}; {answer.reason}"))

    def _judge_again(self) -> None:
        """A rule may have come to its end, or begun to deny, while somebody thought or the push came in. What nobody
        had to be asked about then is not asked about now."""
        for ref in self._refs:
            if not isinstance(ref.command, Command) or ref.verdict is not Verdict.ALLOW:
                continue
            for now in self._judge(ref.command, tuple(ref.possible)):
                if now.code == OVERRIDABLE and ref.approved:
                    continue  # a person has overridden it, whether they are still there or not
                if now.verdict is Verdict.DENY:
                    ref.settle(now)
                elif now.verdict is Verdict.ASK and not ref.approved:
                    ref.settle(Decision(Verdict.DENY, now.rule, f"{now.reason}; {_CHANGED}"))

    # --- Denying ----------------------------------------------------------------------------------

    async def _deny(
        self,
        push: PushCommands,
        content: Content,
        finder: KindFinder,
        comparison: Comparison,
        talk: Talk,
    ) -> None:
        """Reads the push to its end, since a client that is still sending hears nothing, and refuses all of it."""
        comparison.refused = True
        if not self._inbound.whole and not talk.quiet:
            await talk.say("this push is refused; what is still being sent is read and thrown away")
        async with talk.kept_alive():
            await self._read_out(content)
        await self._learn_kinds(finder)
        label = self._context.label
        self._statuses = [refused(ref.name, self._reason(ref) or INNOCENT, label) for ref in self._refs]
        await self._answer(push, PushCode.DENIED, "")

    def _reason(self, ref: RefVerdict) -> str:
        decision = ref.decision
        return decision.reason if decision is not None and decision.verdict is Verdict.DENY else ""

    async def _read_out(self, content: Content) -> None:
        """To the end of the body. One that cannot be decoded is read all the same."""
        try:
            await content.drain()
        except CommandError:
            await content.discard()

    # --- Forwarding -------------------------------------------------------------------------------

    async def _forward(
        self, push: PushCommands, content: Content, readable: Readable, finder: KindFinder, talk: Talk
    ) -> None:
        async with talk.kept_alive():
            forwarding = self._forwarding = Forwarding(self._context, push, content, talk)
            outcome = await forwarding.run(readable.repository, allowed_commands(self._refs))
            self._forwarded = not isinstance(outcome, Failure) or outcome.code is PushCode.OUTCOME_UNKNOWN
            self._statuses = self._merged(outcome)
            await self._learn_kinds(finder)
            await self._flag_deletions(readable, talk)
            if not self._inbound.gone:
                await content.discard()  # GitHub may have answered before the push was over
        code, reason, unpack = PushCode.NONE, "", "ok"
        if isinstance(outcome, Failure):
            code, reason = outcome.code, outcome.sentence
        else:
            unpack = outcome.unpack or "ok"
            if not outcome.complete:
                code, reason = PushCode.OUTCOME_UNKNOWN, outcome.fault
            if outcome.fault:
                await talk.say(outcome.fault)
        await self._answer(push, code, reason, unpack)

    async def _flag_deletions(self, readable: Readable, talk: Talk) -> None:
        """Of what GitHub took."""
        is_protected = self._context.is_protected
        pairs = zip(self._refs, self._statuses, strict=True)
        taken = [
            (ref.command, ref.kind) for ref, status in pairs if status.ok and isinstance(ref.command, Command)
        ]
        if is_protected is not None and taken:
            comparison = self._context.access.comparison(readable)
            self._deletions = await find_deletions(comparison, taken, is_protected)
            if told := self._deletions.told:
                await talk.say(told)

    def _merged(self, outcome: UpstreamReport | Failure) -> list[Status]:
        """A status for every ref: GitHub's for those that were sent, ours for the rest."""
        label = self._context.label
        told = {} if isinstance(outcome, Failure) else {status.ref: status for status in outcome.statuses}
        statuses = []
        for ref in self._refs:
            if reason := self._reason(ref):
                statuses.append(refused(ref.name, reason, label))
            elif isinstance(outcome, Failure):
                statuses.append(Status(ref.name, False, one_line(f"{label}: {outcome.sentence}")))
            else:
                statuses.append(told[ref.name])
        return statuses

    async def _learn_kinds(self, finder: KindFinder) -> None:
        """For the record: what the pack did not prove, GitHub may know."""
        try:
            async with asyncio.timeout(_KINDS):
                await finder.finish()
        except TimeoutError:
            _log.info("GitHub took too long to say what kind of update a push was")

    # --- Answering --------------------------------------------------------------------------------

    async def _turn_away(self, status: int, refusal: PushRefused) -> None:
        """The whole push, for one reason: with a line per ref where they are known, else with an HTTP status."""
        push, label = self._push, self._context.label
        policy = "policy: " if refusal.denied else ""
        if self._content is not None:
            await self._content.discard()
        else:
            await self._inbound.drain()
        if push is None:
            self._record(refusal.code, refusal.sentence)
            await self._reply.say(status, f"{label} {policy or 'gateway: '}{refusal.sentence}")
            return
        line = one_line(f"{label} {policy}".strip() + (" " if policy else ": ") + refusal.sentence)
        self._statuses = [Status(ref.name, False, line) for ref in self._refs]
        await self._answer(push, refusal.code, refusal.sentence)

    async def _answer(self, push: PushCommands, code: PushCode, reason: str, unpack: str = "ok") -> None:
        """The record, then the report."""
        if not self._record(code, reason):
            self._statuses = [
                Status(one.ref, False, one_line(f"{self._context.label}: {_NOT_RECORDED}")) if one.ok else one
                for one in self._statuses
            ]
        capabilities = push.capabilities
        if capabilities.report is not Report.NONE:
            await self._reply.send(report(self._statuses, capabilities, unpack))
        elif all(status.ok for status in self._statuses):
            await self._reply.send(FLUSH if capabilities.sideband else b"")
        else:
            lines = [f"{one.ref}: {one.reason}" for one in self._statuses if not one.ok]
            await self._reply.say(403, "\n".join([_NO_REPORT, *lines]))

    async def _after_fault(self) -> None:
        """A line per ref still, if that can be; the record in any case."""
        self._forwarded = self._forwarded or self._in_githubs_hands
        try:
            await self._turn_away(500, PushRefused(PushCode.INTERNAL, _FAILED))
        except (ClientGone, ClientStalled):
            self._record(PushCode.INTERNAL, _FAILED)

    async def _last_words(self, status: int, code: PushCode, sentence: str) -> None:
        """For a push that cannot be read to its end: no report would arrive."""
        self._record(code, sentence)
        try:
            await self._reply.say(status, f"{self._context.label}: {sentence}")
        except ClientGone:
            pass

    @property
    def _in_githubs_hands(self) -> bool:
        """May GitHub be doing, or have done, what was asked, without our having heard of it?"""
        return self._forwarding is not None and self._forwarding.whole and not self._statuses

    def _record_end(self, code: PushCode, reason: str) -> None:
        """The client leaves or the session ends in the middle of it."""
        if self._in_githubs_hands:
            self._forwarded = True
            self._record(PushCode.OUTCOME_UNKNOWN, f"{reason}: {UNKNOWN}")
        else:
            self._record(code, reason)

    def _record(self, code: PushCode, reason: str) -> bool:
        """The record of this push, once."""
        if self._recorded:
            return True
        self._recorded = True
        statuses = [status.reason or "ok" for status in self._statuses]
        statuses += [reason] * (len(self._refs) - len(statuses))
        record = PushRecord(
            str(self._name),
            tuple(_outcome(ref, status) for ref, status in zip(self._refs, statuses, strict=True)),
            bytes=self._inbound.received,
            duration_ms=self._context.milliseconds_since(self._start),
            approver=self._approver,
            code=code,
            reason=reason,
            agent=self._push.capabilities.agent if self._push else "",
            forwarded=self._forwarded,
            deleted=self._deletions.names,
            deleted_unknown=self._deletions.unknown,
        )
        return self._context.door.record(self._context.session, record)


async def _read_commands(content: Content, object_format: ObjectFormat) -> PushCommands | Probe:
    reader = CommandReader(object_format, frozenset(OFFERED))
    while data := await content.read():
        rest = reader.feed(data)
        if isinstance(reader.result, PushCommands) and rest is not None:
            content.give_back(rest)
            return reader.result
    return reader.finish()


def _outcome(ref: RefVerdict, status: str) -> RefOutcome:
    command = ref.command
    # Whoever never learnt what it was must take it for the worst.
    decision = ref.decision or ref.possible[ref.kind]
    return RefOutcome(
        ref=command.ref if isinstance(command, Command) else command.shown,
        old=command.old,
        new=command.new,
        kind=ref.kind,
        verdict=decision.verdict,
        rule=decision.rule,
        reason=decision.reason,
        status=status,
    )
