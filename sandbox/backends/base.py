"""What a backend is: a probe, and a launch that gives a running wrap. Members are listed in `backends/__init__.py`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from socket import socket
from typing import Protocol

from sandbox.quarantine import Finding
from sandbox.spec import SandboxSpec

# Seconds for a wrap to come up and hand its listeners over: a cold start from a slow network home takes several.
LAUNCH_DEADLINE = 30.0
# Seconds for the words exchanged after that; both ends only wait for each other.
WORD_DEADLINE = 10.0
# Seconds for a killed tree to be gone; only a process stuck in the kernel (a dead NFS server) takes longer.
TEARDOWN_DEADLINE = 10.0


@dataclass(frozen=True, slots=True)
class Probe:
    """Can this backend run here? `note` says what the layer is, `hint` what to do when it is not available.

    `requires_install` names the missing packages; it is empty when something other than a package is in the way.
    """

    available: bool
    note: str = ""
    requires_install: tuple[str, ...] = ()
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The three listeners as the wrapped process sees them, all on 127.0.0.1."""

    http_port: int
    socks_port: int
    gateway_port: int


@dataclass(frozen=True, slots=True)
class Inside:
    """What the environment needs to know about the place where CMD runs.

    `path` is PATH, `tmpdir` a writable directory for temporary files, `git_config` the path of the generated git
    configuration (empty: none), `connect` the connect helper as a command, `roots` the directories to be seen,
    `variables` what points toolchains to where they are, `credential` git's credential helper as a command, `gh_config`
    an empty directory for gh (empty: none).
    """

    home: str
    path: str
    tmpdir: str
    git_config: str
    connect: tuple[str, ...]
    roots: tuple[str, ...]
    variables: Mapping[str, str]
    credential: tuple[str, ...] = ()
    gh_config: str = ""


class Running(Protocol):
    """A wrap that is up. CMD starts with `start` and is over when `wait` returns; `destroy` always follows.

    The three sockets listen, are close-on-exec and non-blocking; the gateway accepts on them. They stay owned by the
    wrap: `destroy` closes them.
    """

    @property
    def backend(self) -> str:
        """The name of the backend really in force."""

    @property
    def http(self) -> socket:
        """Listener of the HTTP proxy."""

    @property
    def socks(self) -> socket:
        """Listener of the SOCKS5 proxy."""

    @property
    def gateway(self) -> socket:
        """Listener of the push gateway and agent API."""

    @property
    def endpoints(self) -> Endpoints:
        """Where the wrapped process finds the three."""

    @property
    def inside(self) -> Inside:
        """Home, PATH and the like inside the wrap."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of this wrap, a line each; usually nothing."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """After `destroy`: what CMD left that git on the host would have obeyed, and what became of it."""

    def start(
        self, argv: Sequence[str], environment: Mapping[str, str], workdir: str, ignored: Collection[int] = ()
    ) -> None:
        """Sends the word: CMD becomes `argv` in `workdir`. Signals in `ignored` start out ignored (`nohup`).

        GatewayError if the wrap is gone, the message is out of bounds or it was started before.
        """

    def signal(self, number: int) -> None:
        """Sends a signal to CMD itself. Nothing happens when CMD is over."""

    def wait(self) -> int:
        """Blocks until CMD is over and returns the exit status of the contract: own, 128+N, 126, 127."""

    def destroy(self) -> None:
        """Kills the whole tree, closes the listeners, removes temporary files. May be called again."""


class Backend(Protocol):
    """One way to wrap."""

    @property
    def name(self) -> str:
        """`native`, `none` or `microvm`."""

    def probe(self) -> Probe:
        """Whether it works on this host; looked at once per process."""

    def launch(self, spec: SandboxSpec) -> Running:
        """Brings a wrap up, up to the point where CMD waits for the word. GatewayError says why it could not."""
