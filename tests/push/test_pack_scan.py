"""The scanner on packs that git writes, in every form a push may have, and on packs that no git would write."""

import hashlib
import re
import tracemalloc
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.push.capabilities import ObjectFormat
from gateway.push.pack_history import LARGEST
from gateway.push.pack_scan import MAX_INFLATED, PackError, PackScanner
from tests.fakes.histories import History
from tests.fakes.packs import (
    BLOB,
    COMMIT,
    OFFSET_DELTA,
    REFERENCE_DELTA,
    TAG,
    TREE,
    append,
    commit,
    copy,
    delta,
    distance,
    entry,
    header,
    number,
    object_id,
    pack,
)

FORMATS: tuple[ObjectFormat, ...] = ("sha1", "sha256")
# What a push of git's gives pack-objects, and what other clients leave away.
OPTIONS = {
    "as git pushes": ("--delta-base-offset", "--thin"),
    "bases by id": ("--thin",),
    "not thin": ("--delta-base-offset",),
    "no deltas": ("--delta-base-offset", "--depth=0", "--no-reuse-delta"),
    "stored": ("--delta-base-offset", "--compression=0", "--no-reuse-object"),
}


def pieces(data: bytes, length: int) -> Iterable[bytes]:
    """The data cut into pieces."""
    return (data[at : at + length] for at in range(0, len(data), length))


def scan(data: bytes, object_format: ObjectFormat = "sha1", length: int = 1 << 16) -> PackScanner:
    """A scanner that has seen all of it."""
    scanner = PackScanner(object_format)
    for piece in pieces(data, length):
        scanner.feed(piece)
    scanner.finish()
    return scanner


def fault(data: bytes, object_format: ObjectFormat = "sha1", length: int = 1 << 16) -> str:
    """What a scanner says of it; and it must go on saying so."""
    scanner = PackScanner(object_format)
    sentences = []
    for piece in pieces(data, length):
        try:
            scanner.feed(piece)
        except PackError as error:
            sentences.append(str(error))
    for end in (scanner.finish, lambda: scanner.feed(pack([])), scanner.finish):
        with pytest.raises(PackError) as caught:
            end()
        sentences.append(str(caught.value))
    assert not scanner.complete
    assert set(sentences) == {sentences[0]}
    return sentences[0]


# --- Packs that git writes ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Work:
    """A repository with forty commits and merges, whose messages are so alike that git makes deltas of some; a tag, and
    a tag of that tag."""

    history: History
    commits: Sequence[str]
    tags: Sequence[str]


@pytest.fixture(scope="module", params=FORMATS)
def work(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Work:
    history = History(tmp_path_factory.mktemp("work") / "git", request.param)
    parents = [[], *([number - 1, *([number - 4] if number % 5 == 4 else [])] for number in range(1, 40))]
    message = b"".join(b"paragraph %d of what all of them say\n" % hash_ for hash_ in range(60))
    commits = history.grow(parents, message=message)
    tags = []
    for name, target in (("v1", commits[-1]), ("v1-again", "v1"), ("file", f"{commits[-1]}:file")):
        history.git("tag", "-a", "-m", "a tag", name, target)
        tags.append(history.git("rev-parse", name))
    # Without bitmaps, as wherever people work: by them git would make deltas on commits that the other side has.
    history.git("-c", "repack.writeBitmaps=false", "repack", "-adfq", "--depth=50", "--window=50")
    return Work(history, commits, tags)


def delta_commits(history: History, data: bytes, folder: Path) -> int:
    """How many commits are deltas in the pack, says git."""
    path = folder / "seen.pack"
    path.write_bytes(data)
    history.git("index-pack", str(path))
    listing = history.git("verify-pack", "-v", str(path))
    return len(re.findall(r"^[0-9a-f]+ commit +\d+ \d+ \d+ \d+ [0-9a-f]+$", listing, re.MULTILINE))


@pytest.mark.parametrize("length", [1, 7, 4096, 1 << 20])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_everything_is_learnt(work: Work, options: Sequence[str], length: int) -> None:
    history = work.history
    scanner = scan(history.pack([work.commits[-1]], [], *options), history.object_format, length)
    assert dict(scanner.commits) == history.parents(work.commits[-1])
    assert (scanner.complete, scanner.overflow, scanner.left_out, scanner.tags) == (True, False, 0, {})


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_a_part_is_learnt(work: Work, options: Sequence[str]) -> None:
    history, old, new = work.history, work.commits[20], work.commits[35]
    scanner = scan(history.pack([new], [old], *options), history.object_format)
    assert dict(scanner.commits) == history.parents(new, f"^{old}")
    assert scanner.left_out == 0


@pytest.mark.parametrize("name", ["as git pushes", "bases by id"])
def test_commits_that_are_deltas(work: Work, name: str, tmp_path: Path) -> None:
    """The other tests would show nothing if git had made none."""
    data = work.history.pack([work.commits[-1]], [], *OPTIONS[name])
    assert delta_commits(work.history, data, tmp_path) > 5


def test_thin_packs_are_thin(work: Work) -> None:
    """Deltas on what is not in the pack are read past."""
    revisions = [work.commits[35]], [work.commits[20]]
    thin, whole = (work.history.pack(*revisions, *OPTIONS[name]) for name in ("as git pushes", "not thin"))
    assert len(thin) < len(whole)
    assert dict(scan(thin, work.history.object_format).commits) == dict(
        scan(whole, work.history.object_format).commits
    )


def test_tags(work: Work) -> None:
    history = work.history
    scanner = scan(history.pack(work.tags), history.object_format)
    blob = history.git("rev-parse", f"{work.commits[-1]}:file")
    assert scanner.tags == {
        work.tags[0]: ("commit", work.commits[-1]),
        work.tags[1]: ("tag", work.tags[0]),
        work.tags[2]: ("blob", blob),
    }
    assert dict(scanner.commits) == history.parents(work.commits[-1])


def test_subjects_are_the_newest(work: Work) -> None:
    """As long as there are no deltas, which git writes next to their bases."""
    data = work.history.pack([work.commits[-1]], [], *OPTIONS["no deltas"])
    scanner = scan(data, work.history.object_format)
    assert [commit for commit, _ in scanner.subjects] == list(reversed(work.commits))[:20]
    assert scanner.subjects[0][1].startswith("40 paragraph 0 of")


def test_commits_come_first(tmp_path: Path) -> None:
    """So that a fast-forward can be proven long before the end."""
    history = History(tmp_path / "git")
    commits = history.grow([[], *([number] for number in range(30))])
    data = history.pack([commits[-1]], [], *OPTIONS["stored"])
    scanner = PackScanner("sha1")
    first_file = data.index(b"line 1\n")
    scanner.feed(data[: first_file - 2000])
    assert not scanner.past_commits
    scanner.feed(data[first_file - 2000 : first_file])
    assert dict(scanner.commits) == history.parents(commits[-1])
    assert scanner.past_commits
    assert not scanner.complete


@pytest.mark.parametrize("object_format", FORMATS)
@pytest.mark.parametrize("length", [1, 1 << 16])
def test_an_empty_pack(object_format: ObjectFormat, length: int, tmp_path: Path) -> None:
    data = History(tmp_path / "git", object_format).raw("pack-objects", "--stdout", "-q")
    scanner = scan(data, object_format, length)
    assert (len(scanner.commits), scanner.size, scanner.complete) == (0, len(data), True)


def test_a_large_object(tmp_path: Path) -> None:
    """Larger than every buffer, and cut at odd places."""
    noise = b"".join(hashlib.sha512(b"%d" % block).digest() for block in range(1 << 16))
    content = commit()
    data = pack([entry(COMMIT, content), entry(BLOB, noise), entry(BLOB, noise * 2), entry(TREE, b"")])
    for length in (65_536, 99_991, len(data)):
        assert dict(scan(data, length=length).commits) == {object_id(COMMIT, content): ()}


@given(st.data())
def test_pieces_make_no_difference(data: st.DataObject) -> None:
    contents = [commit(message=b"%d" % number * 400) for number in range(4)]
    entries = [entry(COMMIT, content) for content in contents]
    base = distance(len(entries[2]) + len(entries[3]))
    entries += [entry(OFFSET_DELTA, append(contents[2], b"more"), base=base), entry(BLOB, b"x" * 5000)]
    whole = pack(entries)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=12)))
    scanner = PackScanner("sha1")
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        scanner.feed(whole[start:end])
    scanner.finish()
    assert set(scanner.commits) == {object_id(COMMIT, one) for one in (*contents, contents[2] + b"more")}


# --- Packs that no git would write ----------------------------------------------------------------

ONE = entry(BLOB, b"some content")
COMMIT_CONTENT = commit()
COMMIT_ENTRY = entry(COMMIT, COMMIT_CONTENT)
SHORT, LONG = "shorter than its header says", "longer than its header says"
NOT_BEFORE = "a base that does not lie before it"

# What, pack, part of the sentence.
HOSTILE: list[tuple[str, bytes, str]] = [
    ("no pack", b"GET / HTTP/1.1\r\n\r\n", "not a pack"),
    ("nothing", b"", "cut off"),
    ("lower case", b"pack" + pack([ONE])[4:], "not a pack"),
    ("version 4", pack([ONE], version=4), "version 4"),
    ("version 1", pack([ONE], version=1), "version 1"),
    ("version 0x02000000", pack([ONE], version=0x02000000), "version"),
    ("one object more is claimed", pack([ONE, ONE], count=3), ""),
    ("four thousand million are claimed", pack([ONE], count=0xFFFFFFFF), ""),
    ("one object less is claimed", pack([ONE, ONE], count=1), "checksum"),
    ("none are claimed", pack([ONE], count=0), "checksum"),
    ("type 0", pack([entry(0, b"x")]), "type that does not exist"),
    ("type 5", pack([entry(5, b"x")]), "type that does not exist"),
    ("a wrong trailer", pack([ONE])[:-1] + b"\0", "checksum"),
    ("another format's trailer", pack([ONE], object_format="sha256"), "checksum"),
    ("a byte behind it", pack([ONE]) + b"\n", "follow"),
    ("another pack behind it", pack([ONE]) * 2, "follow"),
    ("a byte behind an empty one", pack([]) + b"\0", "follow"),
    ("no deflate", pack([header(BLOB, 4) + b"abcd"]), "does not inflate"),
    ("a wrong check sum of an object", pack([ONE[:-1] + bytes([ONE[-1] ^ 1])]), "does not inflate"),
    ("a gzip stream", pack([header(BLOB, 1) + zlib.compress(b"x", wbits=31)]), "does not inflate"),
    ("a preset dictionary", pack([header(BLOB, 1) + b"\x78\xbb\x00\x00\x00\x00\x03\x00"]), "does not inflate"),
    ("an object that is longer", pack([entry(BLOB, b"x" * 100, size=99)]), LONG),
    ("an object that is shorter", pack([entry(BLOB, b"x" * 100, size=101)]), SHORT),
    ("something where nothing is claimed", pack([entry(BLOB, b"x", size=0)]), LONG),
    ("nothing where something is claimed", pack([entry(BLOB, b"", size=1)]), SHORT),
    ("a commit that is longer", pack([entry(COMMIT, COMMIT_CONTENT, size=10)]), LONG),
    ("a commit that is shorter", pack([entry(COMMIT, COMMIT_CONTENT, size=1000)]), SHORT),
    ("a bomb", pack([entry(BLOB, bytes(10 << 20), size=1 << 20)]), LONG),
    ("64 GiB are claimed", pack([entry(BLOB, b"x", size=64 << 30)]), SHORT),
    ("64 GiB are claimed for a commit", pack([entry(COMMIT, COMMIT_CONTENT, size=64 << 30)]), SHORT),
    ("twice 40 GiB are claimed", pack([entry(BLOB, b"x", size=40 << 30)] * 2), SHORT),
    ("more than 64 GiB are claimed", pack([entry(BLOB, b"x", size=(64 << 30) + 1)]), "inflate to more than"),
    ("2^67 bytes are claimed", pack([entry(BLOB, b"x", size=(1 << 67) - 1)]), "inflate to more than"),
    ("a size of eleven bytes", pack([entry(BLOB, b"x", size=1 << 70)]), "header is longer"),
    ("a size without end", pack([b"\xb0" + b"\x80" * 500]), "header is longer"),
    ("a delta on itself", pack([ONE, entry(OFFSET_DELTA, b"x", base=distance(0))]), NOT_BEFORE),
    ("a delta on the header", pack([ONE, entry(OFFSET_DELTA, b"x", base=distance(len(ONE) + 1))]), NOT_BEFORE),
    ("a delta on what is before", pack([entry(OFFSET_DELTA, b"x", base=distance(1 << 40))]), NOT_BEFORE),
    ("an offset of eleven bytes", pack([ONE, header(OFFSET_DELTA, 1) + b"\xff" * 10 + b"\0"]), NOT_BEFORE),
    ("an offset without end", pack([ONE, header(OFFSET_DELTA, 1) + b"\x80" * 500]), NOT_BEFORE),
]  # fmt: skip


@pytest.mark.parametrize(("data", "sentence"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
@pytest.mark.parametrize("length", [1, 1 << 16])
def test_hostile(data: bytes, sentence: str, length: int) -> None:
    said = fault(data, length=length)
    assert sentence in said
    assert said.isprintable()


@pytest.mark.parametrize("object_format", FORMATS)
def test_cut_off_anywhere(object_format: ObjectFormat) -> None:
    """At every byte, so at every boundary: heads, sizes, offsets, ids, deflated bytes, the trailer."""
    content = commit(object_format=object_format)
    first = entry(COMMIT, content)
    base = bytes.fromhex(object_id(COMMIT, content, object_format))
    whole = pack(
        [
            first,
            entry(OFFSET_DELTA, append(content, b"x"), base=distance(len(first))),
            entry(REFERENCE_DELTA, append(content, b"y"), base=base),
            entry(BLOB, b"z" * 3000),
        ],
        object_format=object_format,
    )
    assert len(scan(whole, object_format).commits) == 3
    assert {fault(whole[:end], object_format) for end in range(len(whole))} == {"the pack is cut off"}


def test_a_byte_changed_anywhere() -> None:
    """Whatever is not the pack that was packed is found out, at the trailer at the latest."""
    whole = pack([COMMIT_ENTRY, ONE])
    for at in range(len(whole)):
        assert fault(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])


@given(st.binary(max_size=200), st.sampled_from((b"", b"PACK\0\0\0\2\0\0\0\1", b"PACK\0\0\0\2\0\0\xff\xff")))
def test_noise(noise: bytes, start: bytes) -> None:
    assert fault(start + noise)


# What, entries, the commits that are learnt.
UNPROVEN: list[tuple[str, Sequence[bytes], int]] = [
    ("a base in the middle of an object", [COMMIT_ENTRY, entry(OFFSET_DELTA, b"x", base=distance(9))], 1),
    ("a base that is a blob", [ONE, entry(OFFSET_DELTA, b"x", base=distance(len(ONE)))], 0),
    ("a base outside", [entry(REFERENCE_DELTA, append(COMMIT_CONTENT, b"x"), base=b"\1" * 20)], 0),
    (
        "a base that comes later",
        [
            entry(
                REFERENCE_DELTA,
                append(COMMIT_CONTENT, b"x"),
                base=bytes.fromhex(object_id(COMMIT, COMMIT_CONTENT)),
            ),
            COMMIT_ENTRY,
        ],
        1,
    ),
    (
        "deltas on each other",
        [
            entry(REFERENCE_DELTA, append(COMMIT_CONTENT + tail, b"x"), base=bytes.fromhex(base))
            for tail, base in (
                (b"", object_id(COMMIT, COMMIT_CONTENT + b"x")),
                (b"x", object_id(COMMIT, COMMIT_CONTENT)),
            )
        ],
        0,
    ),
    (
        "a delta for another size",
        [
            COMMIT_ENTRY,
            entry(OFFSET_DELTA, append(COMMIT_CONTENT + b"?", b"x"), base=distance(len(COMMIT_ENTRY))),
        ],
        1,
    ),
    (
        "a delta of another size",
        [
            COMMIT_ENTRY,
            entry(
                OFFSET_DELTA, delta(len(COMMIT_CONTENT), 50, copy(0, 40)), base=distance(len(COMMIT_ENTRY))
            ),
        ],
        1,
    ),
    (
        "a delta that claims 64 GiB",
        [
            COMMIT_ENTRY,
            entry(
                OFFSET_DELTA,
                number(len(COMMIT_CONTENT)) + number(64 << 30) + copy(0, 40),
                base=distance(len(COMMIT_ENTRY)),
            ),
        ],
        1,
    ),
    ("a commit above 1 MiB", [entry(COMMIT, commit(message=b"x" * LARGEST)), COMMIT_ENTRY], 1),
    ("a commit that is none", [entry(COMMIT, b"nonsense"), COMMIT_ENTRY], 1),
    ("an empty commit", [entry(COMMIT, b""), COMMIT_ENTRY], 1),
    ("a tag that is none", [entry(TAG, b"nonsense"), COMMIT_ENTRY], 1),
    ("a commit twice", [COMMIT_ENTRY, COMMIT_ENTRY], 1),
]


@pytest.mark.parametrize(
    ("entries", "learnt"), [row[1:] for row in UNPROVEN], ids=[row[0] for row in UNPROVEN]
)
def test_what_is_not_understood_is_left_out(entries: Sequence[bytes], learnt: int) -> None:
    """These are for whoever receives the pack to refuse; they prove nothing, and cost nothing."""
    scanner = scan(pack(entries))
    assert len(scanner.commits) == learnt
    assert set(scanner.commits) <= {object_id(COMMIT, COMMIT_CONTENT)}


def test_a_broken_pack_has_taught_what_came_before() -> None:
    scanner = PackScanner("sha1")
    scanner.feed(pack([COMMIT_ENTRY, entry(BLOB, b"x")])[:-25])
    with pytest.raises(PackError):
        scanner.finish()
    assert set(scanner.commits) == {object_id(COMMIT, COMMIT_CONTENT)}


def test_more_commits_than_there_is_room_for() -> None:
    entries = [entry(COMMIT, commit(message=b"%d" % number)) for number in range(50)]
    scanner = PackScanner("sha1", max_commits=20)
    scanner.feed(pack(entries))
    scanner.finish()
    assert (len(scanner.commits), scanner.left_out, scanner.overflow) == (20, 30, True)


def test_all_claims_together_have_a_bound() -> None:
    scanner = PackScanner("sha1", max_inflated=1000)
    scanner.feed(pack([entry(BLOB, b"x" * 500)] * 2))
    scanner.finish()
    scanner = PackScanner("sha1", max_inflated=1000)
    with pytest.raises(PackError, match="more than 1000 bytes"):
        scanner.feed(pack([entry(BLOB, b"x" * 500)] * 3))
    assert MAX_INFLATED == 64 << 30


def peak_of(data: bytes, length: int = 1 << 18) -> int:
    """Bytes that were in use at most while it was scanned, besides the data itself."""
    tracemalloc.start()
    try:
        scanner = PackScanner("sha1")
        for piece in pieces(data, length):
            scanner.feed(piece)
        scanner.finish()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def zeros() -> bytes:
    """256 MiB of nothing, deflated to 256 KiB."""
    deflate = zlib.compressobj()
    block = bytes(1 << 20)
    return b"".join([*(deflate.compress(block) for _ in range(256)), deflate.flush()])


@pytest.mark.parametrize("kind", [BLOB, COMMIT, TREE, TAG])
def test_a_bomb_takes_no_memory(kind: int, zeros: bytes) -> None:
    assert peak_of(pack([header(kind, 256 << 20) + zeros])) < 4 << 20


def test_a_bomb_of_a_delta_takes_no_memory(zeros: bytes) -> None:
    base = distance(len(COMMIT_ENTRY))
    assert peak_of(pack([COMMIT_ENTRY, header(OFFSET_DELTA, 256 << 20) + base + zeros])) < 4 << 20


def test_a_commit_in_empty_blocks_takes_no_memory() -> None:
    """Megabytes of a deflate stream that say nothing."""
    deflate = zlib.compressobj()
    stream = deflate.compress(COMMIT_CONTENT) + deflate.flush(zlib.Z_SYNC_FLUSH)
    stream += b"\x00\x00\x00\xff\xff" * 400_000 + deflate.flush()
    data = pack([header(COMMIT, len(COMMIT_CONTENT)) + stream])
    assert len(scan(data).commits) == 1
    assert peak_of(data, 1 << 16) < 4 << 20


def test_commits_of_a_megabyte_take_little_memory() -> None:
    entries = [entry(COMMIT, commit(message=b"%d" % number + bytes(LARGEST - 1000))) for number in range(30)]
    assert peak_of(pack(entries)) < 8 << 20


def test_twelve_thousand_commits_take_little_memory() -> None:
    entries = [entry(COMMIT, commit(f"{number:040x}", message=b"%d" % number)) for number in range(12_000)]
    assert peak_of(pack(entries)) < 8 << 20
