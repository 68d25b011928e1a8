"""What happens in a wrap, as values: what a command writes, how it ends, and what was refused it. They decide nothing.

Two streams carry them. A command's own (`Execution`, iterated): Stdout and Stderr as they come, Violation where one
was read from stderr, Killed when somebody ended it, and Exit, always and last. A wrap's (`Running.events()` and
`launch(on_event=…)`): Starting, Ready, each Violation, and Killed when the wrap ended although nobody destroyed it.
"""

from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    """Who ended a command: the kernel for want of memory, its time limit, or somebody by hand."""

    OOM = "oom"
    TIMEOUT = "timeout"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True)
class SandboxViolation:
    """Something the wrap refused. The same words on every platform.

    `action` is Seatbelt's name of the operation (`file-write-create`, `network-outbound`, …), `target` the path or
    address, `raw` the line that told of it, `rule` what refused it where that is known, `count` how often it happened.
    """

    action: str
    target: str
    raw: str
    rule: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class Starting:
    """The wrap is being brought up."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The wrap is up and waits for commands."""


@dataclass(frozen=True, slots=True)
class Stdout:
    """Bytes of a command's standard output, never empty, cut wherever they happened to come."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Stderr:
    """Bytes of a command's standard error, likewise."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Violation:
    """The wrap refused something."""

    violation: SandboxViolation


@dataclass(frozen=True, slots=True)
class Killed:
    """A command, or the wrap with all its commands, did not end by itself."""

    cause: Cause


@dataclass(frozen=True, slots=True)
class Exit:
    """A command is over: its own status, 128+N by signal N, 126 and 127 as a shell gives them."""

    code: int


type SandboxEvent = Starting | Ready | Stdout | Stderr | Violation | Killed | Exit
