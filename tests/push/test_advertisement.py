"""The advertisement: what receive-pack would say, made from what a fetch is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.push.advertisement import (
    Advertisement,
    AdvertisementError,
    list_refs_request,
    offered_capabilities,
)
from gateway.push.capabilities import OWN_AGENT, ObjectFormat
from gateway.push.pkt import FLUSH, pkt

ONE, TWO = b"1" * 40, b"2" * 40
HEAD = b"001f# service=git-receive-pack\n0000"
CAPABILITIES = (
    b"report-status report-status-v2 delete-refs side-band-64k quiet atomic ofs-delta object-format=sha1 "
    b"agent=" + OWN_AGENT.encode()
)


def made(*lines: bytes, object_format: ObjectFormat = "sha1") -> bytes:
    listing = Advertisement(object_format)
    return listing.feed(b"".join(pkt(line) for line in lines) + FLUSH) + listing.finish()


def test_refs() -> None:
    assert made(ONE + b" refs/heads/main\n", TWO + b" refs/tags/v1\n") == (
        HEAD + pkt(ONE + b" refs/heads/main\0" + CAPABILITIES + b"\n") + pkt(TWO + b" refs/tags/v1\n") + FLUSH
    )


def test_an_empty_repository() -> None:
    assert made() == HEAD + pkt(b"0" * 40 + b" capabilities^{}\0" + CAPABILITIES + b"\n") + FLUSH


def test_an_empty_repository_of_longer_ids() -> None:
    line = b"0" * 64 + b" capabilities^{}\0" + offered_capabilities("sha256") + b"\n"
    assert made(object_format="sha256") == HEAD + pkt(line) + FLUSH
    assert b"object-format=sha256" in line


@pytest.mark.parametrize(
    "line",
    [
        ONE + b" HEAD\n",
        ONE + b" HEAD symref-target:refs/heads/main\n",
        ONE + b" refs/pull/7/head\n",
        ONE + b" refs/tags/v1^{}\n",
    ],
)
def test_what_receive_pack_never_lists(line: bytes) -> None:
    assert made(line, ONE + b" refs/heads/main\n") == made(ONE + b" refs/heads/main\n")


def test_attributes_are_left_out() -> None:
    assert made(ONE + b" refs/tags/v1 peeled:" + TWO + b"\n") == made(ONE + b" refs/tags/v1\n")


@pytest.mark.parametrize(
    "data",
    [
        pkt(b"ERR access denied\n") + FLUSH,
        pkt(ONE[:39] + b" refs/heads/main\n") + FLUSH,
        pkt(ONE.replace(b"1", b"G") + b" refs/heads/main\n") + FLUSH,
        pkt(b"") + FLUSH,
        pkt(ONE + b" refs/heads/main"),
        b"0003",
        b"<html>",
        b"",
        FLUSH + b"0000",
    ],
    ids=["error", "short id", "no id", "empty", "cut off", "no packet", "page", "nothing", "goes on"],
)
def test_what_is_no_list(data: bytes) -> None:
    listing = Advertisement("sha1")
    with pytest.raises(AdvertisementError, match="GitHub's list of refs"):
        for byte in data:
            listing.feed(bytes([byte]))
        listing.finish()


@given(
    st.lists(st.from_regex(rb"refs/(heads|tags|pull|notes)/[a-z]{1,9}", fullmatch=True), max_size=20),
    st.integers(1, 50),
)
def test_pieces_do_not_matter(names: list[bytes], size: int) -> None:
    data = b"".join(pkt(ONE + b" " + name + b"\n") for name in names) + FLUSH
    listing = Advertisement("sha1")
    pieces = [listing.feed(data[at : at + size]) for at in range(0, len(data), size)]
    whole = b"".join(pieces) + listing.finish()
    assert whole == made(*(ONE + b" " + name + b"\n" for name in names))
    for name in names:
        assert (b" " + name in whole) is not name.startswith(b"refs/pull/")


# As it comes -> as receive-pack writes it; nothing where it lists no such ref.
LINES = {
    pkt(ONE + b" refs/heads/main\n"): pkt(ONE + b" refs/heads/main\n"),
    pkt(ONE + b" refs/heads/main"): pkt(ONE + b" refs/heads/main\n"),
    b"003D" + ONE + b" refs/heads/main\n": pkt(ONE + b" refs/heads/main\n"),
    pkt(TWO + b" refs/heads/l\xc3\xb6we\n"): pkt(TWO + b" refs/heads/l\xc3\xb6we\n"),
    pkt(ONE + b" refs/pulled\n"): pkt(ONE + b" refs/pulled\n"),
    pkt(ONE + b" refs/tags/v1 peeled:" + TWO + b"\n"): pkt(ONE + b" refs/tags/v1\n"),
    pkt(ONE + b" refs/tags/v1^{}\n"): b"",
    pkt(ONE + b" refs/pull/1/head\n"): b"",
    pkt(ONE + b" refs/pull/\n"): b"",
    pkt(ONE + b" refs/\n"): b"",
    pkt(ONE + b" refs/heads/\x01\n"): b"",
    pkt(ONE + b" refs/heads/\x7f\n"): b"",
    pkt(ONE + b" HEAD\n"): b"",
}


@given(st.lists(st.sampled_from(sorted(LINES)), max_size=9), st.integers(1, 200))
def test_line_by_line(lines: list[bytes], size: int) -> None:
    """Most lines are taken over as they are, several at a time; nothing else comes of that."""
    listing = Advertisement("sha1")
    first = pkt(TWO + b" refs/heads/first\n")
    data = first + b"".join(lines) + FLUSH
    pieces = [listing.feed(data[at : at + size]) for at in range(0, len(data), size)]
    assert b"".join(pieces) == made(first[4:])[: -len(FLUSH)] + b"".join(LINES[line] for line in lines)


@pytest.mark.parametrize("length", [b"0039", b"003c", b"003f", b"0004", b"fff1", b"000g"])
def test_a_length_that_is_not_the_lines(length: bytes) -> None:
    good = pkt(ONE + b" refs/heads/main\n")
    listing = Advertisement("sha1")
    with pytest.raises(AdvertisementError):
        listing.feed(good + length + good[4:] + good + FLUSH)
        listing.finish()


def test_the_request() -> None:
    agent = pkt(f"agent={OWN_AGENT}\n".encode())
    assert list_refs_request("sha256") == (
        b"0014command=ls-refs\n"
        + agent
        + b"0019object-format=sha256\n"
        + b"0001"
        + b"0015ref-prefix refs/\n0000"
    )
