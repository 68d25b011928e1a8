"""The honest table: which boundary holds for whom, wrapped and not. Data only; what it rests on stands beside it.

`enforced` holds whatever the process does. `soft` holds as long as the program asks, or keeps to what it was told; one
that wants past it gets past it. Nothing is claimed here without a test (tests/doctor/test_boundaries.py names them).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Hold(StrEnum):
    """How far a boundary holds."""

    ENFORCED = "enforced"
    SOFT = "soft"
    NOT_AT_ALL = "not at all"


class Who(StrEnum):
    """What runs inside. A terminal is a person's own shell (`--profile terminal`), under `native` where that was asked
    for by name."""

    CLAUDE = "Claude Code"
    ACP = "ACP agent"
    BASH = "harness bash"
    TERMINAL = "terminal"


NATIVE: Final = "native"
NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class Cell:
    """One boundary for one of those inside: in the native wrap, and without a wrap."""

    native: Hold
    none: Hold

    def under(self, backend: str) -> Hold:
        """What holds in the backend that is in force; one that is not known holds nothing."""
        return self.native if backend == NATIVE else self.none


_HELD: Final = Cell(Hold.ENFORCED, Hold.NOT_AT_ALL)
_HELD_THEN_SOFT: Final = Cell(Hold.ENFORCED, Hold.SOFT)
_SOFT: Final = Cell(Hold.SOFT, Hold.SOFT)
_NOTHING: Final = Cell(Hold.NOT_AT_ALL, Hold.NOT_AT_ALL)
_SOFT_THEN_NOTHING: Final = Cell(Hold.SOFT, Hold.NOT_AT_ALL)


@dataclass(frozen=True, slots=True)
class Boundary:
    """A row: what it keeps, for each of those inside, and what that rests on."""

    name: str
    keeps: str
    cells: Mapping[Who, Cell]
    rests_on: str


def _row(
    name: str, keeps: str, claude: Cell, acp: Cell, bash: Cell, terminal: Cell, rests_on: str
) -> Boundary:
    return Boundary(name, keeps, dict(zip(Who, (claude, acp, bash, terminal), strict=True)), rests_on)


BOUNDARIES: Final[tuple[Boundary, ...]] = (
    _row(
        "worktree", "writing ends at the worktree, `--bind` and the private home; in modes but `chat` at that home",
        _HELD, _HELD, _HELD, _NOTHING,
        "mounts. A terminal writes its whole home",
    ),
    _row(
        "path confinement", "names under file rules are neither written nor made, the host's secrets not read",
        _HELD, _HELD, _HELD, _SOFT_THEN_NOTHING,
        "supervisor and Landlock; for a terminal a list of hidden places, and no file rules",
    ),
    _row(
        "tool surface", "tools that change something are not offered in the modes that only read",
        _SOFT, _SOFT, _SOFT, _NOTHING,
        "Claude Code's managed settings or arguments; others ask `GET /agent/tools`, if they ask",
    ),
    _row(
        "guardrails", "actions are judged, asked about and recorded before they happen",
        _SOFT, _SOFT, _SOFT, _NOTHING,
        "Claude Code's hook; others ask `POST /agent/tool-call`, if they ask. They see what is said, not what is done",
    ),
    _row(
        "credentials", "nothing inside can push, and your other logins are not there",
        _HELD, _HELD, _HELD, _SOFT_THEN_NOTHING,
        "an environment and a home without logins, read tokens only; for a terminal a list of hidden places",
    ),
    _row(
        "push gate", "pushes to the forge are judged ref by ref, and recorded",
        _HELD_THEN_SOFT, _HELD_THEN_SOFT, _HELD_THEN_SOFT, _NOTHING,
        "nothing inside holds a token that can push; under `none` git's settings alone lead there",
    ),
    _row(
        "egress", "connections go to listed hosts only, and are recorded",
        _HELD_THEN_SOFT, _HELD_THEN_SOFT, _HELD_THEN_SOFT, _NOTHING,
        "a network namespace with three listeners (macOS: three ports); under `none` variables that one may ignore",
    ),
    _row(
        "OS wrap", "other files, processes and system calls are out of reach, the audit log among them",
        _HELD, _HELD, _HELD, _HELD,
        "bubblewrap, seccomp (macOS: Seatbelt); no boundary against a hole in the kernel",
    ),
)  # fmt: skip


def as_markdown(boundaries: Sequence[Boundary] = BOUNDARIES) -> str:
    """The table for README, each cell as "native / none"."""
    head = ["`native` / `none`", *Who, "rests on"]
    rows = [
        [
            f"**{row.name}**: {row.keeps}",
            *(_both(cell) for cell in row.cells.values()),
            row.rests_on,
        ]
        for row in boundaries
    ]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _both(cell: Cell) -> str:
    return cell.native.value if cell.native is cell.none else f"{cell.native} / {cell.none}"


def as_text(backend: str | None = None, boundaries: Sequence[Boundary] = BOUNDARIES) -> str:
    """The table for a terminal: under one backend, or both of them side by side."""
    head = ["boundary", *Who]
    rows = [[row.name, *(_shown(cell, backend) for cell in row.cells.values())] for row in boundaries]
    widths = [max(len(line[column]) for line in (head, *rows)) for column in range(len(head))]
    table = (
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in (head, *rows)
    )
    under = f"under {backend}" if backend else "under native / under none"
    return "\n".join([f"what holds, {under}:", *table])


def _shown(cell: Cell, backend: str | None) -> str:
    return _both(cell) if backend is None else cell.under(backend).value


def as_json(boundaries: Sequence[Boundary] = BOUNDARIES) -> list[dict[str, object]]:
    """For programs."""
    return [
        {
            "name": row.name,
            "keeps": row.keeps,
            "holds": {
                who.value: {NATIVE: cell.native.value, NONE: cell.none.value}
                for who, cell in row.cells.items()
            },
            "rests_on": row.rests_on,
        }
        for row in boundaries
    ]
