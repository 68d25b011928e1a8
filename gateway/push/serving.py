"""The push gateway of one session as a whole: its routes, what runs for it, its end.

Composition only: addresses are read by `target`, refs listed by `advertisement`, pushes received by `receiver`.
"""

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
from tornado.web import RequestHandler

from gateway.credentials.broker import SessionCredentials
from gateway.credentials.github_app import GitHubApp
from gateway.policy.repositories import RepositoryName
from gateway.push import advertisement
from gateway.push.access import PushRefused, Readable, RepositoryAccess
from gateway.push.advertisement import Advertisement, AdvertisementError, list_refs_request
from gateway.push.capabilities import ObjectFormat
from gateway.push.context import PushContext
from gateway.push.handlers import Announced, BrokenAnswer, PushHandler
from gateway.push.inbound import Inbound
from gateway.push.receiver import Reception
from gateway.push.reply import RESULT_TYPE
from gateway.push.target import Refusal
from gateway.push.upstream import Upstream, UpstreamError
from gateway.push_authorizer import PushAuthorizer, PushCode, PushRecord
from gateway.session import Session

# The spelling of GitHub in an address; a stand-in on loopback answers to it as well.
_GITHUB: Final = "github.com"
_PREFIX: Final = "/git/"
_MALFORMED: Final = frozenset({400, 404, 405})
# Lists of refs under way at a time: a client that reads slowly keeps a connection to GitHub, of which pushes and the
# ends of their tokens need some as well.
_LISTS_AT_ONCE: Final = 8

_log = logging.getLogger(__name__)


class PushGateway:
    """Everything below `/git/` for one session. Changes; used from one event loop.

    `app` is None without a configured App. `linked` are the repositories the session may push to; `sessions` those
    that are live in this process, to name the owner of a secret that is not this session's. `client` and `credentials`
    stay their owner's. `is_protected`: whether the session may not write a path of the repository; what a push deletes
    of these is flagged.
    """

    def __init__(
        self,
        *,
        session: Session,
        door: PushAuthorizer,
        app: GitHubApp | None,
        credentials: SessionCredentials,
        client: httpx.AsyncClient,
        github_url: str,
        label: str,
        linked: Collection[RepositoryName],
        sessions: Iterable[Session] = (),
        spool_folder: Path | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        is_protected: Callable[[str], bool] | None = None,
    ) -> None:
        upstream = Upstream(client, github_url, sleep)
        access = RepositoryAccess(
            linked,
            session.workspace,
            app,
            credentials,
            upstream,
            network=session.egress.network,
            mode=session.mode,
        )
        self._context = PushContext(
            session,
            door,
            access,
            credentials,
            upstream,
            label,
            clock,
            spool_folder,
            sleep,
            is_protected=is_protected,
        )
        self._sessions = sessions
        self._lists = asyncio.Semaphore(_LISTS_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self.hosts = _spellings(github_url)
        self.label = label

    def routes(self) -> list[tuple[str, type[RequestHandler], Mapping[str, Any]]]:
        """For the agent listener."""
        return [(_PREFIX + ".*", PushHandler, {"served": self})]

    async def read_credential(self, name: RepositoryName) -> tuple[str, str] | None:
        """User name and password with which git fetches from a repository of the session; None where it has none."""
        return await self._context.access.read_credential(name)

    def fault(self, name: RepositoryName) -> str:
        """Why `read_credential` has none, in a sentence for an agent."""
        return self._context.access.fault(name)

    async def close(self) -> None:
        """Ends what is under way, write tokens included, and takes nothing more."""
        self._closed = True
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))
        self._context.door.flush(self._context.session.id)

    # --- What the handler asks --------------------------------------------------------------------

    def start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Runs a request's work."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        if self._closed:
            task.cancel()
        return task

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, BrokenAnswer):
            _log.error("a request to the push gateway failed", exc_info=error)

    def admits(self, secrets: list[str]) -> bool:
        """Whether the request shows this session's secret, and nothing else."""
        shown = secrets[0] if len(secrets) == 1 else ""
        if _same(shown, self._context.session.secret):
            return True
        other = next((one.id for one in self._sessions if _same(shown, one.secret)), "")
        if other:
            reason = f"the secret is that of session {other}, this is session {self._context.session.id}"
        else:
            reason = (
                "the secret of the session is wrong" if secrets else "the secret of the session is missing"
            )
        self._record("", PushCode.WRONG_SECRET, reason)
        return False

    def note_refusal(self, name: RepositoryName | None, target: str, refusal: Refusal) -> None:
        """Records a request that is none of a push's."""
        code = PushCode.MALFORMED if refusal.status in _MALFORMED else PushCode.UNSUPPORTED
        self._record(str(name or ""), code, f"{refusal.text}: {target}")

    def note_malformed(self, first_line: str, fault: str) -> None:
        """Records a head that the agent listener refused, if it was to become a push."""
        if _PREFIX in first_line:
            self._record("", PushCode.MALFORMED, f"{fault}: {first_line}")

    async def receive(
        self, name: RepositoryName, inbound: Inbound, reply: PushHandler, announced: Announced
    ) -> None:
        """Answers `git-receive-pack`."""
        reply.begin(RESULT_TYPE)
        reception = Reception(self._context, name, inbound, reply)
        await reception.run(announced.content_type, announced.encoding, announced.length)

    async def advertise(self, name: RepositoryName, reply: PushHandler) -> None:
        """Answers `info/refs`."""
        start = self._context.clock()
        try:
            try:
                readable, object_format = await self._context.access.with_format(name)
                reply.begin(advertisement.RESULT_TYPE)
                async with self._lists:
                    await self._list_refs(readable, object_format, reply)
            except (UpstreamError, AdvertisementError) as error:
                raise PushRefused(PushCode.UNAVAILABLE, str(error)) from None
        except PushRefused as refusal:
            self._record(str(name), refusal.code, refusal.sentence, start)
            if reply.begun:
                raise BrokenAnswer from None
            policy = " policy" if refusal.denied else ""
            await reply.say(403 if refusal.denied else 503, f"{self.label}{policy}: {refusal.sentence}")

    async def _list_refs(self, readable: Readable, object_format: ObjectFormat, reply: PushHandler) -> None:
        """Streams the refs; once more under the repository's new name, should it have one by now."""
        try:
            await self._stream_refs(readable, object_format, reply)
        except UpstreamError as error:
            if not error.moved or reply.begun:
                raise
            readable = await self._context.access.follow(readable)
            await self._stream_refs(readable, object_format, reply)

    async def _stream_refs(self, readable: Readable, object_format: ObjectFormat, reply: PushHandler) -> None:
        listing = Advertisement(object_format)
        request = list_refs_request(object_format)
        async with self._context.upstream.list_refs(readable.repository, readable.token, request) as pieces:
            async for piece in pieces:
                if made := listing.feed(piece):
                    await reply.send(made)
        await reply.send(listing.finish())

    def _record(self, name: str, code: PushCode, reason: str, start: float | None = None) -> None:
        duration = 0 if start is None else self._context.milliseconds_since(start)
        record = PushRecord(name, code=code, reason=reason, duration_ms=duration)
        self._context.door.record(self._context.session, record)


def _same(shown: str, secret: str) -> bool:
    """Compared in constant time, and an empty text is nobody's secret."""
    return bool(shown) and hmac.compare_digest(shown.encode("utf-8", "replace"), secret.encode())


def _spellings(github_url: str) -> frozenset[str]:
    """How an address may spell the forge."""
    parts = urlsplit(github_url)
    return frozenset({parts.netloc, _GITHUB}) if parts.scheme == "http" else frozenset({parts.netloc})
