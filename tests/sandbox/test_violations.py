"""Storms become counts, and lines of stderr become violations where they tell of a refusal."""

import pytest

from sandbox.events import SandboxViolation
from sandbox.violations import (
    LINE_LIMIT,
    MANY,
    MOST_KINDS,
    WINDOW,
    Coalescer,
    RefusalReader,
    Told,
    parse_refusal,
)

ONE = SandboxViolation("file-write-create", "/w/.env", "open", "*.env")


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def counts(violations: list[SandboxViolation]) -> list[tuple[str, int]]:
    return [(violation.target, violation.count) for violation in violations]


# --- Counting -------------------------------------------------------------------------------------


def test_the_first_is_told_at_once_and_the_rest_is_counted() -> None:
    clock = Clock()
    coalescer = Coalescer(clock)
    assert coalescer.add(ONE) == ONE
    assert [coalescer.add(ONE) for _ in range(1000)] == [None] * 1000
    assert list(coalescer.due()) == []
    clock.now += WINDOW
    assert counts(list(coalescer.due())) == [("/w/.env", 1000)]
    assert list(coalescer.due(everything=True)) == []


def test_the_next_after_the_window_brings_the_count_along() -> None:
    clock = Clock()
    coalescer = Coalescer(clock)
    coalescer.add(ONE)
    coalescer.add(ONE)
    clock.now += WINDOW
    told = coalescer.add(ONE)
    assert told is not None and told.count == 2
    assert list(coalescer.due(everything=True)) == []


def test_what_does_not_repeat_is_forgotten() -> None:
    clock = Clock()
    coalescer = Coalescer(clock)
    coalescer.add(ONE)
    clock.now += WINDOW
    assert list(coalescer.due()) == []
    assert coalescer.add(ONE) == ONE


@pytest.mark.parametrize(
    "other",
    [
        SandboxViolation("file-write-data", "/w/.env", "open", "*.env"),
        SandboxViolation("file-write-create", "/w/key.pem", "open", "*.env"),
        SandboxViolation("file-write-create", "/w/.env", "open", "*.pem"),
    ],
    ids=["action", "target", "rule"],
)
def test_what_is_told_apart(other: SandboxViolation) -> None:
    coalescer = Coalescer(Clock())
    assert [coalescer.add(ONE), coalescer.add(other)] == [ONE, other]


def test_the_raw_text_alone_makes_no_other_one() -> None:
    coalescer = Coalescer(Clock())
    coalescer.add(ONE)
    assert coalescer.add(SandboxViolation(ONE.action, ONE.target, "rename", ONE.rule)) is None


def test_counts_that_come_along_are_added() -> None:
    coalescer = Coalescer(Clock())
    coalescer.add(ONE)
    coalescer.add(SandboxViolation(ONE.action, ONE.target, "", ONE.rule, count=41))
    assert counts(list(coalescer.due(everything=True))) == [("/w/.env", 41)]


def test_no_more_kinds_than_there_is_room_for() -> None:
    """A storm of different names: the first are told, the rest is one number for each action."""
    coalescer = Coalescer(Clock())
    told = [coalescer.add(SandboxViolation("file-write-create", f"/w/{n}.pem", "")) for n in range(10_000)]
    shown = [violation for violation in told if violation is not None]
    assert len(shown) == MOST_KINDS + 1
    assert counts(shown)[-1] == (MANY, 1)
    assert counts(list(coalescer.due(everything=True))) == [(MANY, 10_000 - MOST_KINDS - 1)]


# --- Reading stderr -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "action", "target"),
    [
        ("touch: cannot touch '/etc/x': Permission denied", "file-write-create", "/etc/x"),
        ("mkdir: cannot create directory ‘/usr/a b’: Permission denied", "file-write-create", "/usr/a b"),
        ("rm: cannot remove '.git/config': Operation not permitted", "file-write-unlink", ".git/config"),
        ("mv: cannot move 'a' to '/w/.env': Permission denied", "file-write-unlink", "/w/.env"),
        ("chmod: changing permissions of 'x': Operation not permitted", "file-write-mode", "x"),
        ("bash: line 1: /etc/passwd: Permission denied", "unknown", "/etc/passwd"),
        ("cat: /srv/me/.ssh/id: Permission denied", "unknown", "/srv/me/.ssh/id"),
        ("PermissionError: [Errno 13] Permission denied: '/etc/x'", "unknown", "/etc/x"),
        ("Error: EACCES: permission denied, open '/w/.env'", "file-read-data", "/w/.env"),
        ("Error: EPERM: operation not permitted, unlink '/w/.env'", "file-write-unlink", "/w/.env"),
        ("Error: connect EACCES /run/docker.sock", "network-outbound", ""),
        ("fatal: Unable to create '/w/.git/index.lock': Permission denied", "file-write-create", "/w/.git/index.lock"),
        ("open /w/key.pem: permission denied: Permission denied", "file-read-data", "denied"),
        ("Operation not permitted", "unknown", ""),
        ("sh: 1: ./run: Permission denied", "unknown", "./run"),
    ],
)  # fmt: skip
def test_refusals(line: str, action: str, target: str) -> None:
    assert parse_refusal(line.encode()) == SandboxViolation(action, target, line)


@pytest.mark.parametrize(
    "line", ["", "No such file or directory", "permission denied", "XEPERMX", "EACCESSIBLE", "not permitted"]
)
def test_other_lines(line: str) -> None:
    assert parse_refusal(line.encode()) is None


LINE = b"touch: cannot touch 'x': Permission denied\n"


@pytest.mark.parametrize("size", [1, 3, 7, 40, 10_000])
def test_pieces_of_any_size(size: int) -> None:
    data = (b"before\n" + LINE) * 5 + b"after: Operation not permitted"
    reader = RefusalReader()
    found = [violation for at in range(0, len(data), size) for violation in reader.read(data[at : at + size])]
    assert [violation.target for violation in found] == ["x"] * 5
    assert [violation.target for violation in reader.end()] == ["after"]
    assert reader.end() == []


def test_line_without_an_end_costs_no_memory() -> None:
    """Its tail counts, and it is bounded in the violation as well."""
    reader = RefusalReader()
    for _ in range(100):
        assert reader.read(b"x" * 65_536) == []
    assert len(reader._line) == LINE_LIMIT
    (found,) = reader.read(b"y: Permission denied\n")
    assert len(found.raw) <= LINE_LIMIT


def test_bytes_that_are_no_text() -> None:
    (found,) = RefusalReader().read(b"\xff\x00'\xfe': Permission denied\n")
    assert found.target == "\N{REPLACEMENT CHARACTER}"


# --- What was told already ------------------------------------------------------------------------


def read(line: str) -> SandboxViolation:
    found = parse_refusal(line.encode())
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("target", "line", "known"),
    [
        ("/w/.env", "/bin/sh: 1: cannot create .env: Permission denied", True),
        ("/w/sub/.env", "touch: cannot touch './sub/.env': Permission denied", True),
        ("/w/.git/hooks", "mv: cannot move '.git/hooks/' to 'x': Permission denied", True),
        ("/w/a b.key", "touch: cannot touch 'a b.key': Permission denied", True),
        ("/w/.env", "touch: cannot touch 'my.env': Permission denied", False),
        ("/w/e", "touch: cannot touch '.env': Permission denied", False),
        ("/w/.env", "rm: cannot remove '.git/hooks/x': Read-only file system", False),
        ("", "touch: cannot touch 'any.key': Permission denied", True),
    ],
)
def test_a_line_about_what_was_told_is_no_second_violation(target: str, line: str, known: bool) -> None:
    clock = Clock()
    told = Told(clock)
    assert not told.knows(read(line))
    told.note(SandboxViolation("file-write-create", target, "openat", "a rule"))
    assert told.knows(read(line)) is known
    clock.now += WINDOW + 1
    assert not told.knows(read(line))


def test_what_is_remembered_of_the_told_is_bounded() -> None:
    told = Told(Clock())
    for number in range(MOST_KINDS + 1):
        told.note(SandboxViolation("file-write-create", f"/w/{number}.key", "openat", "*.key"))
    assert not told.knows(read("touch: cannot touch '0.key': Permission denied"))
    assert told.knows(read("touch: cannot touch '1.key': Permission denied"))


@pytest.mark.parametrize(
    ("line", "action", "target"),
    [
        ("rm: cannot remove '.git/hooks/x': Read-only file system", "file-write-unlink", ".git/hooks/x"),
        ("sh: 1: cannot create /usr/x: Read-only file system", "file-write-create", "/usr/x"),
        ("Error: EROFS: read-only file system, unlink '/w/x'", "file-write-unlink", "/w/x"),
    ],
)
def test_read_only_mounts_refuse_as_well(line: str, action: str, target: str) -> None:
    assert (read(line).action, read(line).target) == (action, target)


def test_lines_of_the_wraps_own_are_no_violations() -> None:
    reader = RefusalReader()
    assert reader.read(b"agent-gateway: ./plain: Permission denied\nx: Permission denied\n") == [
        SandboxViolation("unknown", "x", "x: Permission denied")
    ]
    assert reader.read(b"agent-gateway: ./plain: Permission denied") == reader.end() == []
