"""What is learnt from commits, tags and deltas on them, and what is left out."""

import tracemalloc
import zlib
from pathlib import Path

import pytest

from gateway.push.capabilities import ObjectFormat
from gateway.push.pack_history import LARGEST, PackHistory, PackType
from tests.fakes.histories import History
from tests.fakes.packs import COMMIT, TAG, append, commit, copy, delta, object_id

ONE, TWO = "1" * 40, "2" * 40
TREE_LINE = b"tree " + b"e" * 40 + b"\n"
PARENT_LINE = b"parent " + b"1" * 40 + b"\n"
REST = b"author A <a@origin.test> 1 +0000\ncommitter A <a@origin.test> 1 +0000\n\nx\n"

# What, content, the parents that are learnt; None: it is left out.
COMMITS: list[tuple[str, bytes, tuple[str, ...] | None]] = [
    ("a first commit", TREE_LINE + REST, ()),
    ("one parent", TREE_LINE + PARENT_LINE + REST, (ONE,)),
    ("a merge", commit(ONE, TWO), (ONE, TWO)),
    ("the same parent twice", commit(ONE, ONE), (ONE, ONE)),
    (
        "many parents",
        commit(*(f"{number:040x}" for number in range(60))),
        tuple(f"{n:040x}" for n in range(60)),
    ),
    ("a signature", TREE_LINE + PARENT_LINE + REST.replace(b"\n\n", b"\ngpgsig x\n y\n\n"), (ONE,)),
    ("no message", TREE_LINE + REST.partition(b"\n\n")[0] + b"\n", ()),
    ("a message that looks like one", commit(ONE, message=b"\nparent " + b"2" * 40 + b"\n"), (ONE,)),
    ("a parent behind the author", TREE_LINE + REST.replace(b"\ncom", b"\n" + PARENT_LINE + b"com"), ()),
    ("a NUL in the message", commit(ONE, message=b"x\0y"), (ONE,)),
    ("nothing", b"", None),
    ("no tree", PARENT_LINE + REST, None),
    ("a parent before the tree", PARENT_LINE + TREE_LINE + REST, None),
    ("a parent in upper case", TREE_LINE + PARENT_LINE.replace(b"1", b"A") + REST, None),
    ("a tree in upper case", TREE_LINE.upper().replace(b"TREE", b"tree") + REST, None),
    ("a short parent", TREE_LINE + PARENT_LINE.replace(b"11", b"1", 1) + REST, None),
    ("a long parent", TREE_LINE + PARENT_LINE.replace(b"1\n", b"11\n") + REST, None),
    ("a parent in two words", TREE_LINE + PARENT_LINE.replace(b" ", b"  ") + REST, None),
    ("a parent that is cut off", TREE_LINE + PARENT_LINE[:-2], None),
    ("parents and no author", TREE_LINE + PARENT_LINE, None),
    ("carriage returns", (TREE_LINE + PARENT_LINE + REST).replace(b"\n", b"\r\n"), None),
    ("an empty line between", TREE_LINE + b"\n" + PARENT_LINE + REST, None),
    ("another field between", TREE_LINE + b"x y\n" + PARENT_LINE + REST, None),
]


def take(
    history: PackHistory, place: int, kind: PackType, content: bytes, base: int | bytes | None = None
) -> bool:
    """Offers it as the scanner does."""
    if not history.wants(kind, base, len(content)):
        return False
    history.add(place, kind, base, content, b"" if place % 2 else zlib.compress(content))
    return True


@pytest.mark.parametrize(
    ("content", "parents"), [row[1:] for row in COMMITS], ids=[row[0] for row in COMMITS]
)
def test_commits(content: bytes, parents: tuple[str, ...] | None) -> None:
    history = PackHistory("sha1", 100)
    assert take(history, 12, PackType.COMMIT, content)
    assert dict(history.commits) == ({} if parents is None else {object_id(COMMIT, content): parents})
    assert history.left_out == (parents is None)


@pytest.mark.parametrize(
    ("content", "parents"),
    [row[1:] for row in COMMITS if row[2] is not None],
    ids=[row[0] for row in COMMITS if row[2] is not None],
)
def test_git_sees_the_same_parents(content: bytes, parents: tuple[str, ...], tmp_path: Path) -> None:
    """Left out is more than git refuses; but what is taken, git takes in the same way."""
    repository = History(tmp_path / "git")
    name = repository.git("hash-object", "--literally", "-w", "-t", "commit", "--stdin", data=content)
    assert name == object_id(COMMIT, content)
    shown = repository.git("rev-list", "--parents", "--no-walk", name)
    # rev-list names each parent once.
    assert tuple(dict.fromkeys(shown.split()[1:])) == tuple(dict.fromkeys(parents))


def test_a_sha256_commit_names_sha256_parents() -> None:
    history = PackHistory("sha256", 10)
    parent = "3" * 64
    content = commit(parent, object_format="sha256")
    assert take(history, 12, PackType.COMMIT, content)
    assert take(history, 900, PackType.COMMIT, commit(ONE))
    assert dict(history.commits) == {object_id(COMMIT, content, "sha256"): (parent,)}
    assert history.left_out == 1


TAGS: list[tuple[str, bytes, tuple[str, str] | None]] = [
    ("of a commit", b"object " + b"1" * 40 + b"\ntype commit\ntag v1\n\nx\n", ("commit", ONE)),
    ("of a tag", b"object " + b"2" * 40 + b"\ntype tag\ntag v1\n\nx\n", ("tag", TWO)),
    ("of a blob", b"object " + b"2" * 40 + b"\ntype blob\ntag v1\n\nx\n", ("blob", TWO)),
    ("of something else", b"object " + b"2" * 40 + b"\ntype commits\ntag v1\n\nx\n", None),
    ("of nothing", b"type commit\ntag v1\n\nx\n", None),
    ("of half an id", b"object " + b"2" * 39 + b"\ntype commit\ntag v1\n\nx\n", None),
]


@pytest.mark.parametrize(("content", "named"), [row[1:] for row in TAGS], ids=[row[0] for row in TAGS])
def test_tags(content: bytes, named: tuple[str, str] | None) -> None:
    history = PackHistory("sha1", 10)
    assert take(history, 12, PackType.TAG, content)
    assert history.tags == ({} if named is None else {object_id(TAG, content): named})
    assert history.left_out == (named is None)


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
@pytest.mark.parametrize("by_id", [False, True])
def test_deltas_on_deltas_on_commits(object_format: ObjectFormat, by_id: bool) -> None:
    history = PackHistory(object_format, 100)
    content = commit(object_format=object_format)
    expected = {object_id(COMMIT, content, object_format): ()}
    assert take(history, 12, PackType.COMMIT, content)
    kind = PackType.REFERENCE_DELTA if by_id else PackType.OFFSET_DELTA
    for place in range(13, 60):
        base = bytes.fromhex(object_id(COMMIT, content, object_format)) if by_id else place - 1
        assert take(history, place, kind, append(content, b"more\n"), base)
        content += b"more\n"
        expected[object_id(COMMIT, content, object_format)] = ()
    assert dict(history.commits) == expected
    assert history.left_out == 0


@pytest.mark.parametrize("by_id", [False, True])
def test_deltas_on_tags(by_id: bool) -> None:
    history = PackHistory("sha1", 10)
    content = TAGS[0][1]
    assert take(history, 12, PackType.TAG, content)
    base: int | bytes = bytes.fromhex(object_id(TAG, content)) if by_id else 12
    kind = PackType.REFERENCE_DELTA if by_id else PackType.OFFSET_DELTA
    assert take(history, 13, kind, append(content, b"more\n"), base)
    assert set(history.tags) == {object_id(TAG, content), object_id(TAG, content + b"more\n")}


def test_a_delta_on_an_odd_commit_may_be_a_commit() -> None:
    history = PackHistory("sha1", 10)
    content = commit(ONE)
    assert take(history, 12, PackType.COMMIT, b"?" + content)
    assert take(
        history, 13, PackType.OFFSET_DELTA, delta(len(content) + 1, len(content), copy(1, len(content))), 12
    )
    assert dict(history.commits) == {object_id(COMMIT, content): (ONE,)}
    assert history.left_out == 1


@pytest.mark.parametrize(
    ("kind", "base"),
    [
        (PackType.TREE, None),
        (PackType.BLOB, None),
        (PackType.OFFSET_DELTA, 13),
        (PackType.REFERENCE_DELTA, b"\x22" * 20),
        (PackType.REFERENCE_DELTA, b""),
    ],
)
def test_what_cannot_be_a_commit_is_not_collected(kind: PackType, base: int | bytes | None) -> None:
    history = PackHistory("sha1", 10)
    assert take(history, 12, PackType.COMMIT, commit())
    assert not history.wants(kind, base, 100)
    assert history.left_out == 0


def test_a_delta_that_does_not_fit_is_left_out() -> None:
    history = PackHistory("sha1", 10)
    assert take(history, 12, PackType.COMMIT, commit())
    assert take(history, 13, PackType.OFFSET_DELTA, b"nonsense", 12)
    assert not history.wants(PackType.OFFSET_DELTA, 13, 10)
    assert (len(history.commits), history.left_out, history.overflow) == (1, 1, False)


@pytest.mark.parametrize(
    ("size", "wanted"), [(0, True), (LARGEST, True), (LARGEST + 1, False), (1 << 36, False)]
)
@pytest.mark.parametrize(
    ("kind", "base"), [(PackType.COMMIT, None), (PackType.TAG, None), (PackType.OFFSET_DELTA, 12)]
)
def test_the_largest_that_is_read(kind: PackType, base: int | None, size: int, wanted: bool) -> None:
    history = PackHistory("sha1", 10)
    assert take(history, 12, PackType.COMMIT, commit())
    assert history.wants(kind, base, size) is wanted
    assert history.left_out == (not wanted)


def test_a_delta_may_not_grow_a_commit_too_large() -> None:
    history = PackHistory("sha1", 10)
    content = commit(message=b"x" * (LARGEST - 1000))
    assert take(history, 12, PackType.COMMIT, content)
    assert take(
        history,
        13,
        PackType.OFFSET_DELTA,
        delta(len(content), 2 * len(content), *[copy(0, len(content))] * 2),
        12,
    )
    assert (len(history.commits), history.left_out) == (1, 1)


def test_when_the_room_is_gone_nothing_more_is_taken() -> None:
    history = PackHistory("sha1", 2)
    assert [take(history, place, PackType.COMMIT, commit(message=b"%d" % place)) for place in range(12, 17)] == [
        True, True, True, False, False,
    ]  # fmt: skip
    assert (len(history.commits), history.left_out, history.overflow) == (2, 3, True)


def test_old_bases_make_room_for_new_ones() -> None:
    history = PackHistory("sha1", 100)
    for place in range(12, 90):
        content = commit(message=b"%d" % place + bytes(1 << 16))
        history.add(place, PackType.COMMIT, None, content, zlib.compress(content, 0))
    assert not history.wants(PackType.OFFSET_DELTA, 12, 10)
    assert take(history, 90, PackType.OFFSET_DELTA, append(content, b"more\n"), 89)
    assert (len(history.commits), history.left_out) == (79, 0)


def test_work_on_deltas_has_an_end() -> None:
    """Each of these few bytes asks for a megabyte to be inflated, copied and hashed."""
    history = PackHistory("sha1", 100_000)
    content = commit(message=bytes(LARGEST - 1000))
    assert take(history, 12, PackType.COMMIT, content)
    place = 13
    tracemalloc.start()
    try:
        while take(history, place, PackType.OFFSET_DELTA, append(content, b"%06d" % place), 12):
            place += 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert history.overflow
    assert place < 300
    assert peak < 8 << 20


def test_an_endless_row_of_tags_is_cut() -> None:
    history = PackHistory("sha1", 10)
    for number in range(2_100):
        assert take(history, 12 + number, PackType.TAG, TAGS[0][1] + b"%d" % number)
    assert (len(history.tags), history.left_out, history.overflow) == (2_000, 100, False)


# What, message, first line.
SUBJECTS = [
    ("one line", b"Fix it\n", "Fix it"),
    ("two paragraphs", b"Fix it\n\nBecause.\n", "Fix it"),
    ("no end of line", b"Fix it", "Fix it"),
    ("empty lines first", b"\n\nFix it\n", "Fix it"),
    ("empty", b"", ""),
    ("long", b"x" * 5_000, "x" * 200),
    ("long, not in ASCII", "ü".encode() * 5_000, "ü" * 200),
    ("a terminal's sequences", b"\x1b[2Jgone\r", r"\x1b[2Jgone\r"),
    ("reordered", "a\u202eb\n".encode(), r"a\u202eb"),
    ("not UTF-8", b"caf\xe9\n", "caf\ufffd"),
]


@pytest.mark.parametrize(("message", "line"), [row[1:] for row in SUBJECTS], ids=[row[0] for row in SUBJECTS])
def test_subjects(message: bytes, line: str) -> None:
    history = PackHistory("sha1", 10)
    content = commit(ONE, message=message)
    assert take(history, 12, PackType.COMMIT, content)
    assert history.subjects == [(object_id(COMMIT, content), line)]


def test_subjects_are_the_first_twenty() -> None:
    history = PackHistory("sha1", 100)
    for number in range(50):
        assert take(history, 12 + number, PackType.COMMIT, commit(message=b"%d" % number))
    assert [line for _, line in history.subjects] == [str(number) for number in range(20)]
