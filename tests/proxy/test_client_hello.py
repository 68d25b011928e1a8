"""Reading a ClientHello: what it names, and that no cut, split or damage of it is ever taken for another."""

import ssl

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


def test_the_library_s_own() -> None:
    """What Python's TLS client sends."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="api.allowed.test")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    assert read_hello(outgoing.read()) == Hello(TLS, ("api.allowed.test",))


names = st.lists(st.binary(min_size=1, max_size=300), max_size=3)


@given(names, st.integers(0, 3000), st.booleans(), st.lists(st.integers(1, 500), max_size=10))
def test_whatever_is_written_is_read(given_names: list[bytes], padding: int, ech: bool, sizes: list[int]) -> None:
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
    """Bytes overwritten somewhere: nothing is raised, and what is asked for stays bounded by the length fields."""
    whole = bytearray(hello("api.allowed.test", padding=50, sizes=[30]))
    at = data.draw(st.integers(0, len(whole)))
    whole[at : at + len(noise)] = noise
    found = read_hello(bytes(whole))
    assert isinstance(found, Hello) or len(whole) < found <= len(whole) + 5 + (1 << 14)
