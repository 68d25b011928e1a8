"""The command section: hostile bytes by the number of their row, properties, and what real clients send."""

import os
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
from dulwich.client import HttpGitClient
from dulwich.objects import ObjectID
from dulwich.refs import Ref, check_ref_format
from dulwich.repo import Repo
from hypothesis import given, settings
from hypothesis import strategies as st
from urllib3 import PoolManager

from gateway.policy.record import MAX_ITEMS
from gateway.push.capabilities import ID_LENGTHS, OFFERED, ObjectFormat, Report
from gateway.push.commands import (
    COMMAND_LIMIT,
    REF_LIMIT,
    SECTION_LIMIT,
    BadRef,
    Command,
    CommandError,
    CommandReader,
    Probe,
    PushCommands,
    emit,
    fault_of_name,
    is_zero,
    needs_pack,
)
from gateway.push.pkt import FLUSH, pkt
from gateway.push.report import ReportParser, Status, report
from tests.fakes.push_receiver import Pusher, PushReceiver

ALL = frozenset(OFFERED)
ZERO, A, B = "0" * 40, "a" * 40, "b" * 40
CAPABILITIES = b"\0 report-status-v2 side-band-64k object-format=sha1 agent=git/2.39.5"
PACK = b"PACK\0\0\0\2\0\0\0\0"


def line(name: bytes | str, old: str = A, new: str = B) -> bytes:
    return f"{old} {new} ".encode() + (name if isinstance(name, bytes) else name.encode())


def first(name: bytes | str = "refs/heads/main", old: str = A, new: str = B) -> bytes:
    return line(name, old, new) + CAPABILITIES


def section(*lines: bytes) -> bytes:
    return b"".join(map(pkt, lines)) + FLUSH


def read(data: bytes, object_format: ObjectFormat = "sha1") -> PushCommands:
    """All at once; there is no pack."""
    reader = CommandReader(object_format, ALL)
    assert reader.feed(data) == b""
    result = reader.finish()
    assert isinstance(result, PushCommands)
    return result


def bad(name: bytes) -> BadRef:
    """What becomes of a name that no rule can judge."""
    (command,) = read(section(first(name))).commands
    assert isinstance(command, BadRef)
    assert command.ref_bytes == name
    return command


# --- What is understood -----------------------------------------------------------------------------


def test_what_git_sends() -> None:
    data = section(first("refs/heads/main"), line("refs/tags/v1", ZERO), line("refs/heads/old", A, ZERO))
    reader = CommandReader("sha1", ALL)
    assert reader.result is None
    assert reader.feed(data + PACK) == PACK
    push = reader.finish()
    assert isinstance(push, PushCommands)
    assert push.commands == (
        Command(A, B, "refs/heads/main"),
        Command(ZERO, B, "refs/tags/v1"),
        Command(A, ZERO, "refs/heads/old"),
    )
    assert push.good == push.commands
    assert (push.size, push.has_pack, push.shallow) == (len(data), True, ())
    assert push.capabilities.report is Report.V2
    assert reader.feed(b"more of it") == b"more of it"


@pytest.mark.parametrize(
    "lines",
    [
        (first() + b"\n", line("refs/heads/b") + b"\n"),  # dulwich and go-git end lines
        (line("refs/heads/main"), line("refs/heads/b")),  # no capabilities at all
        (line("refs/heads/main") + b"\0", line("refs/heads/b")),
        (line("refs/heads/main") + b"\n", line("refs/heads/b")),
    ],
    ids=["line ends", "no capabilities", "none behind the zero byte", "none but a line end"],
)
def test_other_ways_to_write_it(lines: tuple[bytes, ...]) -> None:
    push = read(section(*lines))
    assert push.commands == (Command(A, B, "refs/heads/main"), Command(A, B, "refs/heads/b"))


def test_shallow_lines() -> None:
    push = read(section(f"shallow {A}".encode(), f"shallow {B}\n".encode(), first()))
    assert push.shallow == (A, B)
    assert push.commands == (Command(A, B, "refs/heads/main"),)


def test_ids_of_the_other_format() -> None:
    (command,) = read(section(line("refs/heads/main", "a" * 64, "0" * 64)), "sha256").commands
    assert command == Command("a" * 64, "0" * 64, "refs/heads/main")


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        ([Command(A, ZERO, "refs/heads/a")], False),
        ([Command(A, ZERO, "refs/heads/a"), Command(ZERO, B, "refs/heads/b")], True),
        ([BadRef(A, B, b"main", "main", "no")], True),
        ([BadRef(A, ZERO, b"main", "main", "no")], False),
        ([], False),
    ],
)
def test_pack_follows_unless_all_are_deletes(commands: list[Command | BadRef], expected: bool) -> None:
    assert needs_pack(commands) is expected


def test_zero_ids() -> None:
    assert is_zero(ZERO)
    assert is_zero("0" * 64)
    assert not is_zero("0" * 39 + "1")


def test_probe() -> None:
    """git's question before a body of more than 1 MiB."""
    reader = CommandReader("sha1", ALL)
    assert reader.feed(b"00") is None
    assert reader.feed(b"00") == b""
    assert reader.feed(b"") == b""
    assert reader.finish() == Probe()


@pytest.mark.parametrize("pieces", [(FLUSH + PACK,), (FLUSH, PACK), (FLUSH, b"", b"0")])
def test_probe_with_a_body(pieces: tuple[bytes, ...]) -> None:
    reader = CommandReader("sha1", ALL)
    with pytest.raises(CommandError, match="no commands") as caught:
        for piece in pieces:
            reader.feed(piece)
    assert caught.value.status == 400
    with pytest.raises(CommandError):
        reader.finish()


# --- What is refused as a whole ---------------------------------------------------------------------

SHORT = "a" * 39
# Row and what, bytes, status, what the sentence says.
REFUSED = [
    ("1: 0001", b"0001" + section(first()), 400, "length 1"),
    ("1: 0002", b"0002" + section(first()), 400, "length 2"),
    ("1: 0003", b"0003" + section(first()), 400, "length 3"),
    ("1: 0001 instead of the flush", pkt(first()) + b"0001", 400, "length 1"),
    ("2: a signed length", b"+04a" + section(first()), 400, "hexadecimal"),
    ("2: a length with a space", b" 04a" + section(first()), 400, "hexadecimal"),
    ("2: a length with a prefix", b"0x4a" + section(first()), 400, "hexadecimal"),
    ("2: no length", b"PACK" + PACK, 400, "hexadecimal"),
    ("3: fff5", b"fff5" + b"x" * 65525, 400, "65520"),
    ("3: ffff", b"ffff" + b"x" * 65535, 400, "65520"),
    ("4: an empty packet first", b"0004" + section(first()), 400, "empty packet"),
    ("4: an empty packet later", pkt(first()) + b"0004" + FLUSH, 400, "empty packet"),
    ("4: a line end alone", section(b"\n"), 400, "two ids"),
    (
        "6: 3,000 commands",
        section(first(), *(line(f"refs/heads/b{n}") for n in range(3000))),
        413,
        str(COMMAND_LIMIT),
    ),
    (
        "6: 1 MiB without a flush",
        pkt(first()) + 17 * pkt(line(b"refs/heads/" + b"x" * 65000)),
        413,
        str(SECTION_LIMIT),
    ),
    ("6: 1 MiB of shallow lines", pkt(f"shallow {A}".encode()) * 20_165, 413, str(SECTION_LIMIT)),
    ("7: two zero bytes", section(line(b"refs/heads/ok\0main\0 atomic")), 400, "zero byte"),
    ("7: a zero byte among the capabilities", section(line(b"refs/heads/ok\0 atomic\0quiet")), 400, "zero byte"),
    (
        "8: capabilities on a second line",
        section(first(), line(b"refs/heads/c2\0 atomic push-options")),
        400,
        "zero byte",
    ),
    ("8: a zero byte on a second line", section(line("refs/heads/a"), line(b"refs/heads/b\0")), 400, "zero byte"),
    (
        "11: push-cert",
        section(b"push-cert\0 report-status", b"certificate version 0.1\n", line("refs/heads/main"))
        + section(b"push-cert-end\n"),
        400,
        "signed pushes",
    ),
    ("11: push-cert after a command", section(first(), b"push-cert\n"), 400, "signed pushes"),
    ("12: shallow after a command", section(first(), f"shallow {A}".encode()), 400, "shallow"),
    ("12: shallowX", section(f"shallowX {A}".encode(), first()), 400, "shallow"),
    ("12: shallow, not hexadecimal", section(b"shallow " + b"g" * 40, first()), 400, "shallow"),
    ("12: shallow in upper case", section(f"shallow {A.upper()}".encode(), first()), 400, "shallow"),
    ("12: shallow, too short", section(f"shallow {SHORT}".encode(), first()), 400, "shallow"),
    ("12: shallow of the other format", section(b"shallow " + b"a" * 64, first()), 400, "shallow"),
    ("12: shallow with more behind it", section(f"shallow {A} {B}".encode(), first()), 400, "shallow"),
    ("12: shallow with two line ends", section(f"shallow {A}\n\n".encode(), first()), 400, "shallow"),
    ("12: shallow with a zero byte", section(f"shallow {A}".encode() + CAPABILITIES, first()), 400, "shallow"),
    ("12: shallow without commands", section(f"shallow {A}".encode()), 400, "no commands"),
    ("12: unshallow", section(f"unshallow {A}".encode(), first()), 400, "two ids"),
    ("22: upper case", section(line("refs/heads/main", A.upper())), 400, "lower case"),
    ("22: upper case of the new one", section(line("refs/heads/main", A, B.upper())), 400, "lower case"),
    ("22: 50 digits", section(line("refs/heads/main", "a" * 50, "b" * 50)), 400, "format, sha1"),
    ("22: 39 digits", section(line("refs/heads/main", SHORT)), 400, "format, sha1"),
    ("22: the other format's ids", section(line("refs/heads/main", "a" * 64, "b" * 64)), 400, "format, sha1"),
    ("22: one of each", section(line("refs/heads/main", A, "b" * 64)), 400, "format, sha1"),
    ("23: the other format", section(line(b"refs/heads/main\0 object-format=sha256")), 400, "format is sha1"),
    ("25: push-options", section(line(b"refs/heads/main\0 push-options")), 400, "not offered"),
    ("no new id", section(f"{A} refs/heads/main".encode()), 400, "two ids"),
    ("no name", section(f"{A} {B} ".encode()), 400, "two ids"),
    ("no name and capabilities", section(f"{A} {B} ".encode() + CAPABILITIES), 400, "two ids"),
    ("tabs", section(f"{A}\t{B}\trefs/heads/main".encode()), 400, "two ids"),
    ("two spaces between the ids", section(f"{A}  {B} refs/heads/main".encode()), 400, "two ids"),
    ("a space first", section(f" {A} {B} refs/heads/main".encode()), 400, "two ids"),
    ("a request of protocol version 2", section(b"command=ls-refs"), 400, "two ids"),
    ("a fetch", section(f"want {A}".encode()), 400, "two ids"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "status", "sentence"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_refused_as_a_whole(data: bytes, status: int, sentence: str) -> None:
    reader = CommandReader("sha1", ALL)
    for _ in range(2):  # and it stays refused, whatever comes then
        with pytest.raises(CommandError, match=sentence) as caught:
            reader.feed(data)
        assert caught.value.status == status
        assert caught.value.sentence.isprintable()
        data = section(first())
    with pytest.raises(CommandError):
        reader.finish()
    assert reader.result is None


@pytest.mark.parametrize("data", [b"", b"00", pkt(first()), pkt(first())[:-3], pkt(first()) + b"000"])
def test_end_before_the_flush(data: bytes) -> None:
    """Row 5."""
    reader = CommandReader("sha1", ALL)
    assert reader.feed(data) is None
    with pytest.raises(CommandError, match="in the middle") as caught:
        reader.finish()
    assert caught.value.status == 400


def test_limits_are_reached_but_not_passed() -> None:
    names = [f"refs/heads/b{n}" for n in range(COMMAND_LIMIT - 1)]
    assert len(read(section(first(), *map(line, names))).commands) == COMMAND_LIMIT
    with pytest.raises(CommandError, match=str(COMMAND_LIMIT)):
        read(section(first(), *map(line, names), line("refs/heads/one-more")))
    lines = [f"shallow {A}".encode()] * ((SECTION_LIMIT - 4 - len(pkt(first()))) // 52)
    push = read(section(*lines, first()))
    assert SECTION_LIMIT - 52 < push.size <= SECTION_LIMIT
    assert COMMAND_LIMIT <= MAX_ITEMS, "one record holds them all"


# --- What gets a line of its own in the report ------------------------------------------------------

# Row and what, name, reason.
FUNNY = [
    ("9: a line end inside", b"refs/heads/main\nrefs/heads/ok", "funny refname"),
    ("9: a carriage return", b"refs/heads/main\r", "funny refname"),
    ("9: a tab", b"refs/heads/ma\tin", "funny refname"),
    ("9: delete", b"refs/heads/main\x7f", "funny refname"),
    ("9: a control character of Unicode", "refs/heads/main\x9b2J".encode(), "funny refname"),
    ("10: a line end before the zero byte", b"refs/heads/main\n", "funny refname"),
    ("13: a way up", b"refs/heads/../evil", "funny refname"),
    ("13: a way out", b"refs/../../x", "funny refname"),
    ("13: two slashes", b"refs/heads//main", "funny refname"),
    ("13: a slash at the end", b"refs/heads/", "funny refname"),
    ("13: .lock", b"refs/heads/main.lock", "funny refname"),
    ("13: .lock in between", b"refs/heads/a.lock/b", "funny refname"),
    ("13: @{", b"refs/heads/main@{1}", "funny refname"),
    ("13: a dot at the end", b"refs/heads/main.", "funny refname"),
    ("13: a dot first", b"refs/heads/.main", "funny refname"),
    ("13: a space", b"refs/heads/main x", "funny refname"),
    ("13: a space first", b" refs/heads/main", "funny refname"),
    ("13: a space at the end", b"refs/heads/main ", "funny refname"),
    ("13: an escape sequence", b"refs/heads/\x1b[31mred", "funny refname"),
    ("13: a star", b"refs/heads/*", "funny refname"),
    ("13: a backslash", b"refs\\heads\\main", "funny refname"),
    ("13: a colon", b"refs/heads/a:b", "funny refname"),
    ("14: HEAD", b"HEAD", "funny refname"),
    ("14: a name alone", b"main", "funny refname"),
    ("14: heads without refs", b"heads/main", "funny refname"),
    ("14: refs alone", b"refs/", "funny refname"),
    ("14: one part behind refs", b"refs/main", "funny refname"),
    ("14: refs in upper case", b"REFS/heads/main", "funny refname"),
    ("19: no UTF-8", b"refs/heads/m\xffin", "funny refname (not UTF-8)"),
    ("19: overlong UTF-8", b"refs/heads/\xc0\xaf", "funny refname (not UTF-8)"),
    ("19: a surrogate", b"refs/heads/\xed\xa0\x80", "funny refname (not UTF-8)"),
    ("too long", b"refs/heads/" + b"x" * REF_LIMIT, f"funny refname (longer than {REF_LIMIT} bytes)"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "reason"), [row[1:] for row in FUNNY], ids=[row[0] for row in FUNNY])
def test_funny_name(name: bytes, reason: str) -> None:
    command = bad(name)
    assert command.reason == reason
    assert command.shown.isprintable()
    assert len(command.shown) < 210
    wire = command.wire_name.encode("utf-8", "surrogateescape")
    assert not any(one <= 0x20 or one == 0x7F for one in wire), (
        "the name would end within a line of the report"
    )
    assert len(wire) <= REF_LIMIT


@pytest.mark.parametrize(
    ("name", "shown", "wire"),
    [
        (b"refs/heads/m\xffin", r"refs/heads/m\xffin", "refs/heads/m\udcffin"),
        (b"refs/main", "refs/main", "refs/main"),
        (b"main", "main", "main"),
        (b"refs/heads/a b", "refs/heads/a b", r"refs/heads/a\x20b"),
        (
            b"refs/heads/main\nrefs/heads/ok",
            r"refs/heads/main\nrefs/heads/ok",
            r"refs/heads/main\nrefs/heads/ok",
        ),
        (b"refs/heads/\x1b[2J", r"refs/heads/\x1b[2J", r"refs/heads/\x1b[2J"),
        ("refs/heads/\u202emain\n".encode(), r"refs/heads/\u202emain\n", r"refs/heads/\u202emain\n"),
        (b"x" * 300, "x" * 200 + "...", "x" * 200 + "..."),
        (b"refs/" + b"x" * 2000, "refs/" + "x" * 195 + "...", "refs/" + "x" * 195 + "..."),
    ],
)
def test_name_as_it_is_shown_and_reported(name: bytes, shown: str, wire: str) -> None:
    """git knows its own ref again where it could have one of that name; everything else is escaped."""
    command = bad(name)
    assert (command.shown, command.wire_name) == (shown, wire)


# Row and what, refs, reasons.
TWINS = [
    (
        "16: the same ref twice",
        ("refs/heads/a", "refs/heads/b", "refs/heads/a"),
        ("the same ref stands twice in this push", "", "the same ref stands twice in this push"),
    ),
    (
        "17: the same ref in another case",
        ("refs/heads/Main", "refs/heads/b", "refs/heads/main"),
        (
            "another ref in this push differs only in upper and lower case",
            "",
            "another ref in this push differs only in upper and lower case",
        ),
    ),
    (
        "17: letters that fold into two",
        ("refs/heads/stra\u00dfe", "refs/heads/STRASSE"),
        ("another ref in this push differs only in upper and lower case",) * 2,
    ),
    ("18: letters that look alike", ("refs/heads/m\u0430in", "refs/heads/main"), ("", "")),
    ("a tag and a branch", ("refs/heads/a", "refs/tags/a"), ("", "")),
    ("the same bad name twice", ("refs/heads/a..b",) * 2, ("funny refname",) * 2),
]


@pytest.mark.parametrize(("refs", "reasons"), [row[1:] for row in TWINS], ids=[row[0] for row in TWINS])
def test_twins(refs: tuple[str, ...], reasons: tuple[str, ...]) -> None:
    commands = read(section(*map(line, refs))).commands
    assert tuple(one.reason if isinstance(one, BadRef) else "" for one in commands) == reasons
    assert tuple(one.wire_name for one in commands) == refs


def test_same_ref_twice_with_other_ids() -> None:
    commands = read(section(line("refs/heads/a"), line("refs/heads/a", ZERO, A))).commands
    assert [type(one) for one in commands] == [BadRef, BadRef]
    assert commands[1].old == ZERO


def test_neither_old_nor_new() -> None:
    """Row 21."""
    (command,) = read(section(line("refs/heads/main", ZERO, ZERO))).commands
    assert isinstance(command, BadRef)
    assert command.reason == "neither an old nor a new object"
    assert command.wire_name == "refs/heads/main"


@pytest.mark.parametrize(
    "name",
    ["refs/heads/m\u0430in", "refs/heads/cafe\u0301", "refs/heads/\u200bmain", "refs/heads/\u202emain"],
)
def test_names_that_deceive_are_shown_escaped(name: str) -> None:
    """Row 18: git takes them, so do we; for people everything is escaped that does not print."""
    (command,) = read(section(line(name))).commands
    assert command == Command(A, B, name)
    assert command.wire_name == name
    assert command.shown.isprintable()


def test_a_bad_name_does_not_spoil_its_neighbours() -> None:
    push = read(section(first("refs/heads/ok"), line(b"HEAD"), line("refs/tags/v1", ZERO)))
    assert push.good == (Command(A, B, "refs/heads/ok"), Command(ZERO, B, "refs/tags/v1"))
    assert len(push.commands) == 3


# --- Written anew -----------------------------------------------------------------------------------


def test_emitted_bytes() -> None:
    push = read(
        section(
            f"shallow {B}".encode(),
            line(b"refs/heads/main\0 report-status quiet agent=evil\x1b/1"),
            line("refs/heads/b"),
        )
    )
    (main, other) = push.good
    capabilities = (
        "report-status report-status-v2 side-band-64k quiet object-format=sha1 agent=agent-gateway/"
    )
    start = f"0034shallow {B}".encode()
    for subset in ((main,), (other,), (other, main)):
        data = emit(push, subset)
        assert data.startswith(start)
        assert data.endswith(FLUSH)
        assert f"{A} {B} {subset[0].ref}\0 {capabilities}".encode() in data
        assert data.count(b"\0") == 1
        assert b"evil" not in data
        assert read(data).commands == subset


@pytest.mark.parametrize(
    "subset",
    [
        (),
        (Command(A, B, "refs/heads/other"),),
        (Command(A, A, "refs/heads/main"),),
        (Command(A, B, "refs/heads/main"), Command(A, B, "refs/heads/main")),
    ],
    ids=["nothing", "another ref", "other ids", "the same twice"],
)
def test_nothing_is_emitted_that_was_not_asked_for(subset: tuple[Command, ...]) -> None:
    with pytest.raises(ValueError, match="of this push"):
        emit(read(section(first())), subset)


# --- Properties -------------------------------------------------------------------------------------

PARTS = st.one_of(
    st.sampled_from(
        ["heads", "tags", "main", "Main", "HEAD", "a.lock", "..", ".", "@", "@{", "-x", "\u0430", "x."]
    ),
    st.text(min_size=1, max_size=6),
    st.text("ab.@{~^:?*[\\ \t\x7f\x80-/", min_size=1, max_size=5),
)
NAMES = st.builds(
    lambda start, parts: (start + "/".join(parts)).encode("utf-8", "surrogatepass"),
    st.sampled_from(["refs/", "refs/heads/", "refs/tags/", "refs/heads/", "", "/"]),
    st.lists(PARTS, min_size=1, max_size=4),
)
IDS = st.sampled_from([ZERO, A, B, "0123456789abcdef0123456789abcdef01234567"])
LINES = st.builds(
    lambda name, old, new, end: line(name, old, new) + end, NAMES, IDS, IDS, st.sampled_from([b"", b"\n"])
)
LISTS = st.sampled_from([
    CAPABILITIES, b"", b"\0", b"\0report-status side-band-64k delete-refs ofs-delta", b"\0 atomic quiet agent=a=b",
    b"\0 push-options", b"\0 object-format=sha256",
])  # fmt: skip
SHALLOW = st.lists(st.sampled_from([f"shallow {A}".encode(), f"shallow {B}\n".encode()]), max_size=2)


@st.composite
def sections(draw: st.DrawFn) -> bytes:
    """What clients send and what almost is that: lines, perhaps with a byte changed or cut off, and a pack."""
    lines = draw(st.lists(LINES, max_size=4))
    if lines:
        lines[0] = lines[0].removesuffix(b"\n") + draw(LISTS)
    data = bytearray(section(*draw(SHALLOW), *lines) + draw(st.sampled_from([b"", PACK])))
    for at, byte in draw(st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), max_size=1)):
        data[at % len(data)] = byte
    return bytes(data[: draw(st.sampled_from([len(data), len(data), len(data) // 2]))])


def outcome(*pieces: bytes) -> object:
    """All there is to know of a body: the result and what followed it, or the refusal."""
    reader = CommandReader("sha1", ALL)
    rest = b""
    try:
        for piece in pieces:
            rest += reader.feed(piece) or b""
        return reader.finish(), rest
    except CommandError as error:
        return error.status, error.sentence


@given(sections(), st.lists(st.integers(0, 2000)))
def test_pieces_do_not_matter(data: bytes, cuts: list[int]) -> None:
    ends = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(ends)]
    assert outcome(*pieces) == outcome(data)
    assert outcome(*(data[at : at + 1] for at in range(len(data)))) == outcome(data)


@given(sections())
def test_what_is_accepted_is_the_same_when_written_and_read_again(data: bytes) -> None:
    reader = CommandReader("sha1", ALL)
    try:
        rest = reader.feed(data)
        push = reader.finish()
    except CommandError:
        return
    if isinstance(push, Probe):
        assert data == FLUSH
        return
    assert data[push.size :] == rest
    for one in push.good:
        assert one.ref.encode() in data
    if push.good:
        again = read(emit(push, push.good))
        assert (again.commands, again.shallow) == (push.good, push.shallow)
        assert again.capabilities.atomic is push.capabilities.atomic
        assert again.capabilities.quiet is push.capabilities.quiet
        assert again.capabilities.report is Report.V2


@settings(max_examples=200)
@given(NAMES.filter(lambda name: b"\0" not in name and name.startswith(b"refs/")))
def test_git_agrees_on_names(name: bytes) -> None:
    """What is more: git's receive-pack wants two parts behind `refs/`, and we UTF-8 without control characters."""
    git = subprocess.run(("git", "check-ref-format", name), check=False).returncode == 0
    text = name.decode("utf-8", "replace")
    ours = (
        git
        and name.count(b"/") > 1
        and name == text.encode()
        and not any("\x80" <= one <= "\x9f" for one in text)
    )
    assert (fault_of_name(name) == "") is ours
    assert check_ref_format(Ref(name)) is git


# --- Real clients -----------------------------------------------------------------------------------


def all_ok(push: PushCommands) -> bytes:
    return report([Status(one.wire_name, True) for one in push.commands], push.capabilities)


@pytest.mark.parametrize("object_format", ID_LENGTHS)
def test_what_real_git_sends_is_understood_by_real_git_again(
    tmp_path: Path, object_format: ObjectFormat
) -> None:
    """Creates, updates, deletes, tags of both kinds, Unicode: read, written anew, and given to receive-pack."""
    pusher = Pusher(tmp_path / "work", object_format)
    target = tmp_path / "target"
    pusher.git("init", "-q", "--bare", f"--object-format={object_format}", str(target))
    pusher.git("push", "-q", str(target), "main", "main:refs/heads/old", "main:refs/heads/gone")
    refs = {f"refs/heads/{name}": pusher.tip() for name in ("gone", "main", "old")}
    pusher.commit("two")
    pusher.git("tag", "light")
    pusher.git("tag", "-m", "heavy", "heavy")
    with PushReceiver(all_ok, refs=refs, object_format=object_format) as receiver:
        pusher.git(
            "push", receiver.url, "main", "light", "heavy", "main:refs/heads/gr\u00fcn", "main:old", ":gone"
        )
    (push,), (sent,), (pack,) = receiver.pushes, receiver.sections, receiver.packs
    assert {one.ref for one in push.good} == {
        "refs/heads/main", "refs/heads/old", "refs/heads/gone", "refs/heads/gr\u00fcn", "refs/tags/heavy",
        "refs/tags/light",
    }  # fmt: skip
    assert push.capabilities.sideband
    assert push.capabilities.report is Report.V2
    assert push.capabilities.agent.startswith("git/")
    emitted = emit(push, push.good)
    assert emitted.replace(b"report-status ", b"", 1).split(b"\0")[0][4:] == sent.split(b"\0")[0][4:]
    answer = subprocess.run(
        ("git", "receive-pack", "--stateless-rpc", str(target)),
        input=emitted + pack,
        capture_output=True,
        check=True,
    ).stdout
    parser = ReportParser(one.wire_name for one in push.good)
    parser.feed(answer)
    told, _ = parser.finish()
    assert told.complete
    assert {one.ref for one in told.statuses if one.ok} == {one.ref for one in push.good}
    shown = pusher.git("ls-remote", str(target)).stdout
    assert pusher.tip("heavy") in shown
    assert "refs/heads/gone" not in shown
    assert shown.count(pusher.tip()) >= 5


def test_shallow_clone(tmp_path: Path) -> None:
    pusher = Pusher(tmp_path / "whole")
    base = pusher.commit("two")
    pusher.git("clone", "-q", "--depth=1", f"file://{pusher.folder}", str(tmp_path / "cut"))
    pusher.folder = tmp_path / "cut"
    pusher.commit("three")
    with PushReceiver(all_ok, refs={"refs/heads/main": base}) as receiver:
        pusher.git("push", receiver.url, "main")
    (push,) = receiver.pushes
    assert push.shallow == (base,)
    assert push.commands == (Command(base, pusher.tip(), "refs/heads/main"),)


@pytest.mark.parametrize("atomic", [False, True])
def test_flags_of_the_client(tmp_path: Path, atomic: bool) -> None:
    pusher = Pusher(tmp_path / "work")
    with PushReceiver(all_ok) as receiver:
        pusher.git("push", "-q", *(["--atomic"] if atomic else []), receiver.url, "main")
    (push,) = receiver.pushes
    assert (push.capabilities.quiet, push.capabilities.atomic) == (True, atomic)


def test_large_push_is_preceded_by_a_probe(tmp_path: Path) -> None:
    pusher = Pusher(tmp_path / "work")
    pusher.commit("large", os.urandom(3 << 20))
    with PushReceiver(all_ok) as receiver:
        pusher.git("push", receiver.url, "main")
    assert receiver.probes == 1
    (pack,) = receiver.packs
    assert pack.startswith(b"PACK")
    assert len(pack) > 3 << 20


def test_git_options_that_are_not_offered(tmp_path: Path) -> None:
    """git gives up by itself; nothing is sent."""
    pusher = Pusher(tmp_path / "work")
    with PushReceiver(all_ok) as receiver:
        for option, sentence in (("--signed=true", "--signed"), ("--push-option=x", "push options")):
            done = pusher.git("push", option, receiver.url, "main", status=None)
            assert done.returncode
            assert f"does not support {sentence}" in done.stderr
    assert receiver.pushes == []


def test_name_that_is_no_utf8_from_real_git(tmp_path: Path) -> None:
    """Row 19: git can have such a ref, and knows it again in the report."""

    def reply(push: PushCommands) -> bytes:
        return report([Status(one.wire_name, False, "no") for one in push.commands], push.capabilities)

    pusher = Pusher(tmp_path / "work")
    with PushReceiver(reply) as receiver:
        done = pusher.git(
            "push",
            "--porcelain",
            receiver.url,
            b"main:refs/heads/m\xffin".decode("utf-8", "surrogateescape"),
            status=1,
        )
    (command,) = receiver.pushes[0].commands
    assert isinstance(command, BadRef)
    assert "[remote rejected] (no)" in done.stdout


def test_dulwich(tmp_path: Path) -> None:
    """Another client, with habits of its own: no object format, line ends."""
    pusher = Pusher(tmp_path / "work")
    tip = pusher.tip()
    with PushReceiver(all_ok) as receiver, Repo(str(pusher.folder)) as repository:
        base, _, path = receiver.url.rpartition("/")
        # A pool of its own: no proxy of this machine's environment.
        client = HttpGitClient(base, pool_manager=PoolManager())
        pack = cast(Any, repository.generate_pack_data)  # dulwich's own types differ
        done = client.send_pack(
            path.encode(), lambda refs: {Ref(b"refs/heads/main"): ObjectID(tip.encode())}, pack
        )
    assert done.ref_status == {b"refs/heads/main": None}
    (push,) = receiver.pushes
    assert push.commands == (Command(ZERO, tip, "refs/heads/main"),)
    assert push.capabilities.report is Report.V1
