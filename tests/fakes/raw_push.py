"""Pushes by hand, right or wrong: the bytes of a request's body, and the report read back."""

from gateway.push.pkt import FLUSH, Flush, PktReader, pkt
from tests.fakes.packs import COMMIT, TREE, commit, entry, object_id, pack
from tests.fakes.push_gateway import NAME, SECRET, PushWorld, Record
from tests.fakes.wire import Message, Wire

ZERO = "0" * 40
SOME, OTHER = "1" * 40, "2" * 40
CAPABILITIES = "report-status report-status-v2 side-band-64k object-format=sha1 agent=by-hand"
RECEIVE = f"/git/github.com/{NAME}.git/git-receive-pack"
REFS = f"/git/github.com/{NAME}.git/info/refs?service=git-receive-pack"
TYPE = "Content-Type: application/x-git-receive-pack-request"
# The tree of no files, which the commits below have.
EMPTY_TREE = object_id(TREE, b"")


def command(old: str, new: str, ref: str | bytes, capabilities: str | None = None) -> bytes:
    """A command's payload; with a capability list it is the first."""
    name = ref if isinstance(ref, bytes) else ref.encode("utf-8", "surrogateescape")
    line = f"{old} {new} ".encode() + name
    return line if capabilities is None else line + b"\0 " + capabilities.encode()


def section(*commands: tuple[str, str, str | bytes], capabilities: str = CAPABILITIES) -> bytes:
    """A whole command section."""
    lines = [
        command(old, new, ref, None if number else capabilities)
        for number, (old, new, ref) in enumerate(commands)
    ]
    return b"".join(map(pkt, lines)) + FLUSH


def good_pack(message: str, *parents: str) -> tuple[str, bytes]:
    """A commit's id, and a pack of it and its tree that any git takes (parents must be there already)."""
    content = commit(*parents, message=message.encode() + b"\n", tree=EMPTY_TREE)
    return object_id(COMMIT, content), pack([entry(COMMIT, content), entry(TREE, b"")])


def request(body: bytes, *headers: str) -> list[str]:
    """The header lines of a request with this body."""
    given = [header.partition(":")[0].lower() for header in headers]
    lines = list(headers)
    if "content-type" not in given:
        lines.append(TYPE)
    if "content-length" not in given and "transfer-encoding" not in given:
        lines.append(f"Content-Length: {len(body)}")
    return [line for line in lines if not line.endswith(": -")]


def post(world: PushWorld, body: bytes, *headers: str, path: str = RECEIVE, secret: str = SECRET) -> Message:
    """The answer to a POST. A header "Name: -" leaves that one out."""
    with Wire.to(world.port) as wire:
        wire.send(world.head(path, request(body, *headers), secret) + body)
        return wire.message()


def get(
    world: PushWorld, path: str = REFS, *headers: str, secret: str = SECRET, method: str = "GET"
) -> Message:
    """The answer to a GET."""
    with Wire.to(world.port) as wire:
        wire.send(world.head(path, headers, secret, method))
        return wire.message(to=method)


def chunked(body: bytes, size: int = 1000) -> bytes:
    """A body as chunks."""
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def packets(data: bytes) -> list[bytes | Flush]:
    """All packets of an answer, which must be made of packets."""
    reader = PktReader()
    reader.feed(data)
    found: list[bytes | Flush] = []
    while (packet := reader.next()) is not None:
        found.append(packet)
    assert reader.pending == 0, data
    return found


def shown(data: bytes) -> str:
    """What an answer with side-band shows to people."""
    return b"".join(one[1:] for one in packets(data) if isinstance(one, bytes) and one[:1] == b"\2").decode()


def statuses(data: bytes, *, sideband: bool = True) -> dict[str, str]:
    """What a report says of each ref: "ok", or the reason."""
    if sideband:
        outer = packets(data)
        assert outer[-1] is Flush.FLUSH
        data = b"".join(one[1:] for one in outer if isinstance(one, bytes) and one[:1] == b"\1")
    lines = packets(data)
    assert lines[0] == b"unpack ok\n" and lines[-1] is Flush.FLUSH, lines
    found: dict[str, str] = {}
    for line in lines[1:-1]:
        assert isinstance(line, bytes) and line.endswith(b"\n")
        word, _, rest = line[:-1].decode("utf-8", "surrogateescape").partition(" ")
        name, _, reason = rest.partition(" ")
        found[name] = "ok" if word == "ok" else reason
    return found


class Untouched:
    """A world in which something was refused: nothing was minted or sent, one record was written, and the next good
    push goes through. Use with `with`; `record` is the one."""

    _serial = 0

    def __init__(self, world: PushWorld) -> None:
        self.record: Record = {}
        self._world = world

    def __enter__(self) -> "Untouched":
        self._minted = self._world.minted
        self._written = len(self._world.written)
        self._records = len(self._world.records())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is not None:
            return
        world = self._world
        world.until(lambda: len(world.records()) > self._records, "a record")
        assert world.minted == self._minted, "a write token was minted"
        assert len(world.written) == self._written, "something was sent with a write token"
        [self.record] = world.records()[self._records :]
        push_well(world)


def push_well(world: PushWorld) -> str:
    """A good push of a new branch; its commit."""
    Untouched._serial += 1
    ref = f"refs/heads/agent/good-{Untouched._serial}"
    new, data = good_pack(ref)
    answer = post(world, section((ZERO, new, ref)) + data)
    assert answer.status == 200
    assert statuses(answer.body) == {ref: "ok"}
    assert world.refs()[ref] == new
    return new
