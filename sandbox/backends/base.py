"""What a backend is: a probe, and a launch that gives a wrap in which commands run. `__init__.py` lists them."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from signal import SIGKILL
from socket import socket
from typing import Protocol

from sandbox.events import SandboxEvent
from sandbox.probing.probe import Probe as Probe
from sandbox.quarantine import Finding
from sandbox.spec import SandboxHandle, SandboxSpec

# Seconds for a wrap to come up and hand its listeners over: a cold start from a slow network home takes several.
LAUNCH_DEADLINE = 30.0
# Seconds for the words exchanged after that; both ends only wait for each other.
WORD_DEADLINE = 10.0
# Seconds for a killed tree to be gone; only a process stuck in the kernel (a dead NFS server) takes longer.
TEARDOWN_DEADLINE = 10.0
# Bytes of a command's output, and of its input, that wait in this process before whoever writes them has to.
BUFFERED = 256 << 10
# Statuses of a command that was killed and could not tell; and of one that a failure of the wrap itself took along.
KILLED, FAILED = 128 + SIGKILL, 125


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


class Stdio(Enum):
    """Where a command's three standard streams lead."""

    PIPES = "pipes"  # to the caller, as events and by `write`
    INHERIT = "inherit"  # to wherever the caller's own lead


@dataclass(frozen=True, slots=True)
class Command:
    """One command to run in a wrap.

    `environment` is all it gets. `workdir` is absolute (empty: the spec's). Signals in `ignored` start out ignored
    (`nohup`). After `timeout` seconds it is killed with everything it started (None: never). `stdin` is all of its
    input (None: `write` gives it; only with PIPES).

    A `foreground` command takes the place of the wrap's own first process: it has the caller's terminal and streams
    (INHERIT), and no other command runs in this wrap before or after it. Any other runs beside the rest, with PIPES
    in a session of its own.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    workdir: str = ""
    stdio: Stdio = Stdio.PIPES
    foreground: bool = False
    ignored: Collection[int] = ()
    timeout: float | None = None
    stdin: bytes | None = None


class Execution(Protocol):
    """A command that was started. Any method may be called from any thread; one thread iterates.

    Iterating gives Stdout, Stderr, Violation, then Killed if somebody ended it or the wrap, and Exit last. Whoever
    does not read holds the command up as a full pipe would: no more than `base.BUFFERED` bytes wait here. The command's
    end ends the iteration, whatever it has left in the background still holds its streams.
    """

    def __iter__(self) -> Iterator[SandboxEvent]:
        """Its events from here on, up to Exit."""

    def write(self, data: bytes) -> None:
        """Gives it input; blocks while too much of it waits. BrokenPipeError when it takes no more."""

    def close_stdin(self) -> None:
        """Ends its input, after what was written. May be called again."""

    def signal(self, number: int) -> None:
        """Sends a signal to the command itself. Nothing happens when it is over."""

    def kill(self) -> None:
        """Kills it with everything it started. Nothing happens when it is over."""

    def wait(self) -> int:
        """Blocks until it is over and returns the exit status of the contract: own, 128+N, 126, 127; 125 when a process
        of the wrap's own was killed or failed, and the command with it.

        What it writes meanwhile still has to be read by somebody, and stays to be read afterwards.
        """


class Running(Protocol):
    """A wrap that is up. `destroy` of its backend always follows.

    The three sockets listen, are close-on-exec and non-blocking; the gateway accepts on them. They stay owned by the
    wrap: `destroy` closes them.
    """

    @property
    def handle(self) -> SandboxHandle:
        """Its state at this moment."""

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
    def process(self) -> int | None:
        """A pidfd of a process that lives as long as the wrap, by which its namespaces can be joined; None where there
        is none. It stays owned by the wrap."""

    @property
    def inside(self) -> Inside:
        """Home, PATH and the like inside the wrap."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of this wrap, a line each; usually nothing."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """After `destroy`: what was left that git on the host would have obeyed, and what became of it."""

    def events(self) -> Iterator[SandboxEvent]:
        """The wrap's events from the first on; blocks for the next, ends when the wrap is destroyed. For one reader."""


# Called with each event of a wrap, from whatever thread it came up in; it must neither block nor raise.
type OnEvent = Callable[[SandboxEvent], None]


class Backend(Protocol):
    """One way to wrap. Everything but `exec` of a foreground command and iterating may be called from any thread."""

    @property
    def name(self) -> str:
        """`native`, `none` or `microvm`."""

    def probe(self) -> Probe:
        """Whether it works on this host; looked at once per process."""

    def launch(self, spec: SandboxSpec, on_event: OnEvent | None = None) -> Running:
        """Brings a wrap up (state warm). GatewayError says why it could not."""

    def exec(self, running: Running, command: Command) -> Execution:
        """Starts a command (state active).

        GatewayError when the wrap is suspended or over, when the command cannot be said (NUL bytes, too long), and
        for a foreground command beside others.
        """

    def suspend(self, running: Running) -> None:
        """Stops every process in an active wrap: none runs when this returns. GatewayError in another state."""

    def resume(self, running: Running) -> None:
        """Lets go on what `suspend` has stopped. GatewayError when the wrap is not suspended."""

    def destroy(self, running: Running) -> None:
        """Kills every process, closes the listeners, removes temporary files. From every state; may be called again."""
