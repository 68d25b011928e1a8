"""The forge as a whole: starts, listens on loopback, stops with everything it has started."""

import asyncio
import ipaddress
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application

from gateway.errors import GatewayError
from gateway.forge.activity import Activity
from gateway.forge.answering import ForgeHandler
from gateway.forge.app import PERMISSIONS, App, register_app
from gateway.forge.app_api import PREFIX, ROUTES
from gateway.forge.faults import Faults
from gateway.forge.git_http import GIT_PATH, GitHandler
from gateway.forge.git_process import GitProcesses
from gateway.forge.journal import Journal
from gateway.forge.repositories import Repositories, find_git
from gateway.forge.state import State
from gateway.forge.tokens import Clock, Tokens

# Bytes of a request's body: GitHub takes pushes of up to 2 GiB.
_BODY: Final = 2 * 1024**3
_HEAD: Final = 64 * 1024
# Bytes read from a connection at once; git sends packs in pieces of 64 KiB, and several wait in the socket.
_PIECE: Final = 256 * 1024
# Seconds a connection may rest between two requests.
_IDLE: Final = 75


def _now() -> datetime:
    return datetime.now(UTC)


class Forge:
    """A GitHub of one's own. Repositories and the App may be made before it starts, and from any thread.

    `root`: an existing folder of its own, in which everything lies. `host` must be a loopback address. `git`: the
    program, otherwise the one on PATH. `app`: one that is registered already. GatewayError when there is no usable git.
    """

    def __init__(
        self,
        root: Path,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        git: str | None = None,
        clock: Clock = _now,
        app: App | None = None,
    ) -> None:
        if not _is_loopback(host):
            raise GatewayError(
                f"{host} is no loopback address", "the embedded forge serves this machine alone"
            )
        root = root.resolve()
        folder = root / "repositories"
        folder.mkdir(exist_ok=True)
        program, activity = find_git(root, git), Activity()
        self._host, self._port = host, port
        self._server: HTTPServer | None = None
        # For the handlers; what there is to know and to change stands in the properties below.
        self.state = State(
            clock=clock,
            git=program,
            processes=GitProcesses(program, folder, root / "git.log", activity),
            repositories=Repositories(folder, program),
            tokens=Tokens(clock),
            faults=Faults(),
            journal=Journal(),
            activity=activity,
            app=app,
        )

    # --- What there is ----------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Of git, without a slash at its end. Known when it has started."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    @property
    def api_url(self) -> str:
        """Of the REST API, without a slash at its end."""
        return self.url + PREFIX

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._port

    @property
    def faults(self) -> Faults:
        """What goes wrong."""
        return self.state.faults

    @property
    def tokens(self) -> Tokens:
        """What was minted."""
        return self.state.tokens

    @property
    def requests(self) -> Journal:
        """What was asked."""
        return self.state.journal

    @property
    def repositories(self) -> Repositories:
        """All of them; also renaming, suspending."""
        return self.state.repositories

    def create_app(self, permissions: Mapping[str, str] = PERMISSIONS) -> tuple[int, str]:
        """The App's number and private key (PEM). Asked again, it is the same App with the same key."""
        if self.state.app is None:
            self.state.app = register_app(permissions)
        return self.state.app.id, self.state.app.private_key_pem

    def create_repository(
        self,
        full_name: str,
        object_format: str = "sha1",
        *,
        private: bool = True,
        installed: bool = True,
        fork_of: str = "",
    ) -> Path:
        """An empty repository; the path of the bare repository. `installed`: the App is, on it."""
        return self.state.repositories.create(
            full_name, object_format=object_format, private=private, installed=installed, fork_of=fork_of
        ).path

    # --- Life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listens, in the running loop. OSError when the port is taken."""
        sockets = bind_sockets(self._port, address=self._host)
        self._port = sockets[0].getsockname()[1]
        routes: tuple[tuple[str, type[ForgeHandler]], ...] = ((GIT_PATH, GitHandler), *ROUTES)
        handlers = [(path, handler, {"state": self.state}) for path, handler in routes]
        self._server = HTTPServer(
            Application(handlers, log_function=lambda _: None),
            max_body_size=_BODY,
            max_header_size=_HEAD,
            chunk_size=_PIECE,
            idle_connection_timeout=_IDLE,
        )
        self._server.add_sockets(sockets)

    async def stop(self) -> None:
        """Cuts what is open and ends every process. May be called again."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()
            # At once: a connection may wait for its git, and the other way round.
            await asyncio.gather(server.close_all_connections(), self.state.processes.stop())
        await self.state.processes.stop()

    def wait_until_idle(self, timeout: float = 30.0) -> bool:
        """Blocks until no request is under way and no git runs; False after `timeout` seconds. Not for the forge's own
        thread."""
        return self.state.activity.wait_until_idle(timeout)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
