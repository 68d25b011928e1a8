"""The reader of git's configuration against git itself: what it reads is what git reads, or it refuses."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.git.config_syntax import SIZE_LIMIT, Entry, SyntaxRefused, parse

FILES_AT_A_TIME = 8


def by_git(data: bytes, folder: Path) -> tuple[Entry, ...] | None:
    """What git finds in it; None where it refuses."""
    command = ["git", "config", "--file", "-", "--no-includes", "--list", "-z"]
    done = subprocess.run(
        command, input=data, capture_output=True, cwd=folder, env={"PATH": "/usr/bin:/bin"}, check=False
    )
    if done.returncode:
        return None
    pairs = [entry.partition(b"\n") for entry in done.stdout.split(b"\0")[:-1]]
    return tuple((name, value if mark else None) for name, mark, value in pairs)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", ()),
        (b"\n # comment\n\t; another [a]\n", ()),
        (b"[core]\n\tbare = false\n", ((b"core.bare", b"false"),)),
        (b"[Core]BARE=x", ((b"core.bare", b"x"),)),
        (b"[core]\r\n\tbare = false\r\n", ((b"core.bare", b"false"),)),
        (b"[a]\nk", ((b"a.k", None),)),
        (b"[a]\nk =", ((b"a.k", b""),)),
        (b"[a]\nk \t = v", ((b"a.k", b"v"),)),
        (b"[a-b.C]\nk=1", ((b"a-b.c.k", b"1"),)),
        (b'[branch "Main x"]\nk=1', ((b"branch.Main x.k", b"1"),)),
        (b'[branch \t"a.b"]\nk=1', ((b"branch.a.b.k", b"1"),)),
        (b'[a.B "C"]\nk=1', ((b"a.b.C.k", b"1"),)),
        (b'[a "q\\"b\\\\c\\d"]\nk=1', ((b'a.q"b\\cd.k', b"1"),)),
        (b'[a ""]\nk=1', ((b"a..k", b"1"),)),
        (b"[a]\nk = x  y  # comment\n", ((b"a.k", b"x  y"),)),
        (b'[a]\nk = "x # y" ; z', ((b"a.k", b"x # y"),)),
        (b'[a]\nk = " x "', ((b"a.k", b" x "),)),
        (b'[a]\nk = x"y z"w', ((b"a.k", b"xy zw"),)),
        (b'[a]\nk = a\\tb\\nc\\bd\\\\e\\"', ((b"a.k", b'a\tb\nc\bd\\e"'),)),
        (b"[a]\nk = x\\\ny", ((b"a.k", b"xy"),)),
        (b"[a]\nk = x\\\r\ny", ((b"a.k", b"xy"),)),
        (b"[a]\nk = x # c \\\nl = 2", ((b"a.k", b"x"), (b"a.l", b"2"))),
        (b"[a]k=1\n[a]k=2\n[b]\n", ((b"a.k", b"1"), (b"a.k", b"2"))),
        (b"[a]\nk = \xff\xe9", ((b"a.k", b"\xff\xe9"),)),
    ],
)
def test_reads(text: bytes, expected: tuple[Entry, ...], tmp_path: Path) -> None:
    assert parse(text) == expected
    assert by_git(text, tmp_path) == expected


@pytest.mark.parametrize(
    "text",
    [
        b"[a", b"[]\nk=1", b"[a b]", b'[a "b]', b'[a "b"', b'[a "b" ]\nk=1', b'[a\n"b"]', b"[a_b]", b'[a"b"]', b"[ a]",
        b"[a]\n1k=1", b"[a]\nk_=1", b"[a]\nk 1", b"[a]\n=1", b'[a]\nk = "x', b'[a]\nk = "x\ny"', b"[a]\nk = \\x",
        b"[a]\nk = x\\", b'[a "b\\', b"junk here", b"\xff",
    ],
)  # fmt: skip
def test_refuses_with_git(text: bytes, tmp_path: Path) -> None:
    with pytest.raises(SyntaxRefused):
        parse(text)
    # At the very end git takes the line to be continued.
    assert by_git(text, tmp_path) is None or text.endswith(b"x\\")


@pytest.mark.parametrize(
    "text",
    [
        b"k = 1",
        b"[a]\nk = x\ty",
        b"[a]\nk = 1\r",
        b"[a]\r\r\n",
        b"\xef\xbb\xbf[a]\nk=1",
        b"[a]\nk = \0",
        b"#" * (SIZE_LIMIT + 1),
    ],
)
def test_refuses_what_versions_of_git_read_in_two_ways(text: bytes) -> None:
    with pytest.raises(SyntaxRefused):
        parse(text)


TOKENS = st.sampled_from([
    b"[", b"]", b'"', b"\\", b"\n", b"\r\n", b" ", b"\t", b"=", b"#", b";", b"a", b"B", b".", b"-", b"1", b"[a]\n",
    b'[b "C"]\n', b"k = ", b"\\n", b"\\\n", b"x y", b'"q"', b"\r", b"\xff", b"\0", b"\na=b\n", b"include.path=x",
])  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    files=st.lists(
        st.lists(TOKENS, max_size=20).map(b"".join), min_size=FILES_AT_A_TIME, max_size=FILES_AT_A_TIME
    )
)
def test_reads_as_git_or_not_at_all(files: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp()
    for text in (*files, *(b"[a]\n" + text for text in files)):
        try:
            found = parse(text)
        except SyntaxRefused:
            continue
        assert by_git(text, folder) == found
