"""The git endpoints of the forge: who may, then `git http-backend`, both bodies streamed.

Paths given to git are the forge's own; of a request it hears service, protocol version, type and encoding.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Final

from gateway.forge.access import NOBODY, Refusal, git_caller, refuse_git
from gateway.forge.answering import ForgeHandler
from gateway.forge.faults import Fault, Moment, Point
from gateway.forge.git_process import GitProcess
from gateway.forge.journal import Seen
from gateway.forge.repositories import Repository
from gateway.forge.state import State
from gateway.forge.update_rules import VARIABLE

# owner, name (with or without .git), what of it.
GIT_PATH: Final = r"/([^/]+)/([^/]+?)(?:\.git)?/(info/refs|git-upload-pack|git-receive-pack)"
_SERVICES: Final = frozenset({"git-upload-pack", "git-receive-pack"})
_PROTOCOL = re.compile(r"[A-Za-z0-9=:._-]{1,64}")
_ENCODINGS: Final = frozenset({"gzip", "x-gzip"})
# How GitHub's two programs call themselves.
_AGENTS: Final[Mapping[str, str]] = {
    "git-upload-pack": "git/github-0123456789ab",
    "git-receive-pack": "github/spokes-receive-pack-0123456789abcdef0123456789abcdef01234567",
}
_POINTS: Final[Mapping[tuple[bool, str], Point]] = {
    (True, "git-upload-pack"): Point.UPLOAD_REFS,
    (False, "git-upload-pack"): Point.UPLOAD,
    (True, "git-receive-pack"): Point.RECEIVE_REFS,
    (False, "git-receive-pack"): Point.RECEIVE,
}


class GitHandler(ForgeHandler):
    """One request to git."""

    def initialize(self, state: State) -> None:
        """tornado's constructor."""
        super().initialize(state)
        self._caller = NOBODY
        self._refusal: Refusal | None = None
        self._process: GitProcess | None = None
        self._relay: asyncio.Task[None] | None = None
        self._taken = 0
        self._timer: asyncio.TimerHandle | None = None
        self._late: asyncio.Task[None] | None = None

    async def prepare(self) -> None:
        """Judges the request; starts git when there is nothing against it."""
        owner, name, what = self.path_args
        state = self._state
        self._caller = caller = git_caller(state, self.request.headers.get("Authorization"))
        state.journal.note(
            Seen(self.request.method or "", self.request.uri or "", caller.credential, caller.number)
        )
        refs = what == "info/refs"
        service = self.get_query_argument("service", "") if refs else what
        if service not in _SERVICES or self.request.method != ("GET" if refs else "POST"):
            self._refusal = Refusal(404, "Not Found")
            return
        self._fault = state.faults.take(_POINTS[refs, service])
        repository = state.repositories.find(f"{owner}/{name}")
        self._refusal = (
            self._refuse_form(refs, service)
            or refuse_git(state, caller, repository, write=service == "git-receive-pack")
            or self._moved(owner, name, repository)
        )
        self._watch_body()
        if self._fault is not None and self._fault.answers:
            await self._fail(self._fault)
        elif self._refusal is None and repository is not None:
            await self._start(repository, refs, service)

    async def data_received(self, chunk: bytes) -> None:
        """A piece of the body; the next is not read before git has taken this one."""
        self._watch_body()
        cut = self._fault.cut_request if self._fault else None
        if cut is not None and self._taken + len(chunk) >= cut:
            chunk = chunk[: cut - self._taken]
        self._taken += len(chunk)
        if self._process is not None:
            await self._process.feed(chunk)
        if cut is not None and self._taken >= cut:
            self.cut()

    async def get(self, *_: str) -> None:
        """References."""
        await self._answer()

    async def post(self, *_: str) -> None:
        """A service."""
        await self._answer()

    def on_connection_close(self) -> None:
        """The client has gone. What it had not sent to the end must not happen; what it had, git finishes."""
        super().on_connection_close()
        self._rest()
        if self._process is not None and not self._body_ended:
            self._process.terminate()

    def on_finish(self) -> None:
        """tornado's."""
        super().on_finish()
        self._rest()

    # --- Judging ----------------------------------------------------------------------------------

    def _refuse_form(self, refs: bool, service: str) -> Refusal | None:
        headers = self.request.headers
        if not refs and headers.get("Content-Type") != f"application/x-{service}-request":
            return Refusal(415, "Unsupported Media Type")
        encoding = headers.get("Content-Encoding", "")
        if encoding and encoding not in _ENCODINGS:
            return Refusal(415, "Unsupported Media Type")
        return None

    def _moved(self, owner: str, name: str, repository: Repository | None) -> Refusal | None:
        """A renamed repository's old name leads to the new one."""
        if repository is None or repository.full_name.lower() == f"{owner}/{name}".lower():
            return None
        rest = (self.request.uri or "").split("/", 3)[3]
        root = f"{self.request.protocol}://{self.request.host}"
        return Refusal(301, "", {"Location": f"{root}/{repository.full_name}.git/{rest}"})

    # --- Answering --------------------------------------------------------------------------------

    async def _start(self, repository: Repository, refs: bool, service: str) -> None:
        headers = self.request.headers
        cgi = {
            "PATH_INFO": f"/{repository.path.name}/{'info/refs' if refs else service}",
            "REQUEST_METHOD": "GET" if refs else "POST",
            "QUERY_STRING": f"service={service}" if refs else "",
            "CONTENT_TYPE": "" if refs else f"application/x-{service}-request",
            "REMOTE_USER": "x-access-token",
            "GIT_USER_AGENT": _AGENTS[service],
        }
        if service == "git-receive-pack" and not refs:
            cgi[VARIABLE] = self._rules(repository)
        if headers.get("Content-Encoding"):
            cgi["HTTP_CONTENT_ENCODING"] = "gzip"
        protocol = headers.get("Git-Protocol", "")
        if _PROTOCOL.fullmatch(protocol):
            cgi["GIT_PROTOCOL"] = protocol
        self._process = await self._state.processes.start(cgi, with_input=not refs)
        self._relay = asyncio.create_task(self._relay_answer(self._process))

    def _rules(self, repository: Repository) -> str:
        """What the hook is to check, for a token that may push."""
        token = self._caller.token
        return json.dumps(
            {
                "workflows": token is not None and token.may("workflows", "write"),
                "rules": [(rule.pattern, rule.reason, rule.messages) for rule in repository.rules],
            }
        )

    async def _answer(self) -> None:
        self._rest()
        self._body_ended = True
        if self._relay is not None and self._process is not None:
            self._process.end_input()
            await self._relay
        elif self._fault is not None and self._fault.answers:
            if self._fault.moment is Moment.LATE or self._fault.stall:
                await self.say_fault(self._fault)
        elif self._refusal is not None:
            await self._say(self._refusal)

    async def _say(self, refusal: Refusal) -> None:
        self.say_status(refusal.status)
        for name, value in refusal.headers.items():
            self.set_header(name, value)
        self.write(refusal.text)

    async def _relay_answer(self, process: GitProcess) -> None:
        """What git says, as it says it. A client that has gone does not keep git from its work."""
        fault = self._fault or Fault()
        head = await process.head()
        self.say_status(head.status)
        for name, value in head.headers.items():
            self.set_header(name, value)
        await self.send(fault.before_answer)
        limit = fault.answer_limit
        while piece := await process.read():
            if limit is not None:
                piece, limit = piece[:limit], limit - min(len(piece), limit)
            await self.send(piece)
        await self._state.processes.finish(process)
        if fault.stall_answer is not None:
            await self._gone.wait()
        if fault.cut_answer is not None:
            self.cut()

    # --- Failing ----------------------------------------------------------------------------------

    async def _fail(self, fault: Fault) -> None:
        """Does at once what is not to wait for the body's end."""
        if fault.moment is Moment.ABRUPT:
            await self.fail_at_once(fault)
        elif fault.moment is Moment.EARLY and not fault.stall:
            await self.say_fault(fault)

    def _watch_body(self) -> None:
        """Starts the time anew after which a body that rests is a 408."""
        self._rest()
        patience = self._state.faults.body_patience
        if patience > 0 and not self._body_ended:
            self._timer = asyncio.get_running_loop().call_later(patience, self._time_out)

    def _time_out(self) -> None:
        self._late = asyncio.create_task(self._too_slow())

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _too_slow(self) -> None:
        if self._body_ended or self._gone.is_set():
            return
        if not self._headers_written:
            await self.say_fault(Fault(408, b"Request Timeout"))
        self.cut()
