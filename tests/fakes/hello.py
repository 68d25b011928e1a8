"""ClientHello messages, byte by byte, with whatever a test wants to be wrong about them."""

from collections.abc import Sequence

SERVER_NAME = 0
KEY_SHARE = 51
ENCRYPTED_CLIENT_HELLO = 0xFE0D


def sized(data: bytes, size: int) -> bytes:
    """The data behind its length in `size` bytes."""
    return len(data).to_bytes(size) + data


def extension(kind: int, data: bytes) -> bytes:
    """One extension."""
    return kind.to_bytes(2) + sized(data, 2)


def server_names(*names: bytes, kind: int = 0) -> bytes:
    """A server_name extension with these names (RFC 6066 section 3)."""
    return extension(SERVER_NAME, sized(b"".join(bytes([kind]) + sized(name, 2) for name in names), 2))


def message(*extensions: bytes, session: bytes = bytes(32)) -> bytes:
    """A ClientHello handshake message with these extensions; without any the block is left out."""
    block = sized(b"".join(extensions), 2) if extensions else b""
    body = b"\x03\x03" + bytes(32) + sized(session, 1) + sized(b"\x13\x01", 2) + sized(b"\x00", 1) + block
    return b"\x01" + sized(body, 3)


def records(data: bytes, sizes: Sequence[int] = ()) -> bytes:
    """Handshake records: of these sizes, then one with the rest."""
    out, at = b"", 0
    for size in sizes:
        out += b"\x16\x03\x01" + sized(data[at : at + size], 2)
        at += size
    return out + b"\x16\x03\x01" + sized(data[at:], 2)


def hello(*names: str | bytes, ech: bool = False, padding: int = 0, sizes: Sequence[int] = ()) -> bytes:
    """A whole ClientHello naming these hosts; `padding` bytes of key share stand before the names."""
    parts = []
    if padding:
        parts.append(extension(KEY_SHARE, bytes(padding)))
    if names:
        parts.append(
            server_names(*(name.encode("ascii") if isinstance(name, str) else name for name in names))
        )
    if ech:
        parts.append(extension(ENCRYPTED_CLIENT_HELLO, bytes(64)))
    return records(message(*parts) if parts else message(), sizes)
