"""Reading a ClientHello: what it names, and that no cut, split or damage of it is ever taken for another."""

import ssl
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.egress import HelloKind
from gateway.proxy.client_hello import Hello, read_hello
from tests.fakes import hello as made
from tests.fakes.hello import hello

TLS, NOT_TLS, MALFORMED = HelloKind.TLS, HelloKind.NOT_TLS, HelloKind.MALFORMED
NAME = made.server_names(b"api.allowed.test")

# What, bytes, kind, names, ech.
READ = [
    ("one name", hello("api.allowed.test"), TLS, ("api.allowed.test",), False),
    ("no extensions at all", hello(), TLS, (), False),
    ("extensions without a name", hello(padding=5), TLS, (), False),
    ("two names", hello("a.test", "b.test"), TLS, ("a.test", "b.test"), False),
    ("as it came", hello(b"A.\x00\xff"), TLS, ("A.\x00\\xff",), False),
    ("encrypted", hello("outer.test", ech=True), TLS, ("outer.test",), True),
    ("encrypted, no name", hello(ech=True), TLS, (), True),
    ("many records", hello("api.allowed.test", sizes=[1] * 60), TLS, ("api.allowed.test",), False),
    ("20 KiB", hello("api.allowed.test", padding=20_000, sizes=[16_384]), TLS, ("api.allowed.test",), False),
    ("a session id", made.records(made.message(NAME, session=b"")), TLS, ("api.allowed.test",), False),
    ("more behind it", hello("api.allowed.test") + b"\x17\x03\x03\0\x01x", TLS, ("api.allowed.test",), False),
    ("TLS 1.0 record", hello("a.test").replace(b"\x16\x03\x01", b"\x16\x03\x00", 1), TLS, ("a.test",), False),
    ("plain text", b"GET / HTTP/1.1\r\n", NOT_TLS, (), False),
    ("a zero", b"\0", NOT_TLS, (), False),
    ("an alert", b"\x15\x03\x01\0\x02\x01\0", NOT_TLS, (), False),
    ("another version", b"\x16\x02", NOT_TLS, (), False),
    ("an empty record", b"\x16\x03\x01\0\0", MALFORMED, (), False),
    ("a record too large", b"\x16\x03\x01\x40\x01", MALFORMED, (), False),
    ("another handshake message", made.records(b"\x02\0\0\0"), MALFORMED, (), False),
    ("names twice", made.records(made.message(NAME, NAME)), MALFORMED, (), False),
    ("an empty name", made.records(made.message(made.server_names(b""))), MALFORMED, (), False),
    ("bytes behind the message", made.records(made.message(NAME) + b"\0"), MALFORMED, (), False),
    ("an extension cut", made.records(made.message(NAME[:-1])), MALFORMED, (), False),
    ("half an extension", made.records(made.message(NAME, b"\0")), MALFORMED, (), False),
    ("an empty message", made.records(b"\x01\0\0\0"), MALFORMED, (), False),
    ("a message of one byte", made.records(b"\x01\0\0\x01\x03"), MALFORMED, (), False),
]


@pytest.mark.parametrize(("what", "data", "kind", "names", "ech"), READ, ids=[row[0] for row in READ])
def test_reading(what: str, data: bytes, kind: HelloKind, names: tuple[str, ...], ech: bool) -> None:
    assert read_hello(data) == Hello(kind, names, ech)


@pytest.mark.parametrize("data", [hello("api.allowed.test"), hello("a.test", sizes=[1, 2, 3], padding=100)])
def test_every_cut(data: bytes) -> None:
    """A part of a hello is never judged: it says how much it takes at least, and never more than there is."""
    for end in range(len(data)):
        needed = read_hello(data[:end])
        assert isinstance(needed, int)
        assert end < needed <= len(data)
    assert isinstance(read_hello(data), Hello)


# What Python's TLS client is told, and what it then names.
OWN = [
    ("a name", "api.allowed.test", {}, ("api.allowed.test",)),
    ("no name", None, {}, ()),
    ("an address", "127.0.0.1", {}, ()),
    ("a long name", ".".join(["a" * 62] * 4), {}, (".".join(["a" * 62] * 4),)),
    ("TLS 1.2", "api.allowed.test", {"maximum_version": ssl.TLSVersion.TLSv1_2}, ("api.allowed.test",)),
    ("TLS 1.3", "api.allowed.test", {"minimum_version": ssl.TLSVersion.TLSv1_3}, ("api.allowed.test",)),
]


def own_hello(
    name: str | None, options: Mapping[str, ssl.TLSVersion], protocols: Sequence[str] = ("h2",)
) -> bytes:
    """The bytes Python's TLS client begins with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = name is not None
    context.set_alpn_protocols(list(protocols))
    for option, value in options.items():
        setattr(context, option, value)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def split(data: bytes, sizes: Sequence[int]) -> bytes:
    """The message of one record in records of these sizes, as far as it goes."""
    message = data[5:]
    fitting = [size for size, sent in zip(sizes, accumulate(sizes), strict=True) if sent < len(message)]
    return made.records(message, fitting)


def read_in_pieces(data: bytes, sizes: Iterable[int]) -> tuple[Hello, int]:
    """What comes out when the bytes arrive in pieces of these sizes (then all), and how often it was asked."""
    have, needed, asked = 0, 1, 0
    for size in (*sizes, len(data)):
        have = min(have + size, len(data))
        if have < needed:
            continue
        asked += 1
        found = read_hello(data[:have])
        if isinstance(found, Hello):
            return found, asked
        assert needed < found <= len(data), "what is needed grows, and never beyond what there is"
        assert found > have
        needed = found
    raise AssertionError("the whole hello was not enough")


@pytest.mark.parametrize(("what", "name", "options", "names"), OWN, ids=[row[0] for row in OWN])
def test_the_library_s_own(
    what: str, name: str | None, options: Mapping[str, ssl.TLSVersion], names: tuple[str, ...]
) -> None:
    """What Python's TLS client sends."""
    assert read_hello(own_hello(name, options)) == Hello(TLS, names)


pieces = st.lists(st.integers(1, 80), max_size=40)


@given(st.sampled_from(OWN), st.integers(1, 20), pieces, pieces)
def test_the_library_s_own_in_any_pieces(
    row: tuple[str, str | None, Mapping[str, ssl.TLSVersion], tuple[str, ...]],
    protocols: int,
    record_sizes: list[int],
    read_sizes: list[int],
) -> None:
    """However it is split into records and packets, it is read as the same."""
    _, name, options, expected = row
    data = split(own_hello(name, options, [f"x{number}" for number in range(protocols)]), record_sizes)
    assert read_in_pieces(data, read_sizes)[0] == Hello(TLS, expected)


def test_smallest_records_and_packets() -> None:
    """30 KiB in records of one byte, which arrive byte by byte: the work is not done anew for each of them."""
    data = split(hello("api.allowed.test", padding=5000), [1] * 6000)
    found, asked = read_in_pieces(data, [1] * len(data))
    assert found == Hello(TLS, ("api.allowed.test",))
    assert asked < 64


def test_message_that_claims_too_much() -> None:
    """It says at its beginning how long it is; nobody has to wait for that."""
    needed = read_hello(b"\x16\x03\x01\x00\x04\x01\xff\xff\xff")
    assert isinstance(needed, int)
    assert needed > 1 << 24


names = st.lists(st.binary(min_size=1, max_size=300), max_size=3)


@given(names, st.integers(0, 3000), st.booleans(), st.lists(st.integers(1, 500), max_size=10))
def test_whatever_is_written_is_read(
    given_names: list[bytes], padding: int, ech: bool, sizes: list[int]
) -> None:
    data = hello(*given_names, ech=ech, padding=padding)
    body = data[5:]
    fitting: list[int] = []
    for size in sizes:
        if sum(fitting) + size < len(body):
            fitting.append(size)
    data = made.records(body, fitting)
    expected = tuple(name.decode("ascii", "backslashreplace") for name in given_names)
    assert read_hello(data) == Hello(TLS, expected, ech)


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    found = read_hello(data)
    assert isinstance(found, Hello) or found > len(data)


@given(st.binary(max_size=300), st.data())
def test_any_damage(noise: bytes, data: st.DataObject) -> None:
    """Bytes overwritten somewhere: nothing is raised, and more is asked for where something is missing."""
    whole = bytearray(hello("api.allowed.test", padding=50, sizes=[30]))
    at = data.draw(st.integers(0, len(whole)))
    whole[at : at + len(noise)] = noise
    found = read_hello(bytes(whole))
    assert isinstance(found, Hello) or len(whole) < found <= len(whole) + 2 * (5 + (1 << 14)) + (1 << 24)
