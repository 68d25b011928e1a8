"""The supervisor's process: takes its orders, starts bubblewrap, gives up every privilege, serves until the wrap ends.

    python -I -S -E program.py CHANNEL SOURCES [early]

Started by `starting.py`; whoever gives the orders holds the other end of CHANNEL, SOURCES is where this package is. The
orders are a header, descriptors beside it (the door's socket, three standard streams, then bubblewrap's), then the
numbers that bubblewrap is to find its own under, its arguments, and the rules. bubblewrap is on its way before anything
heavier than what the interpreter has built in is imported: the rest is read while the wrap comes up; or, by one that
was started early, before there are orders at all.

It ends with bubblewrap, with its exit status (128+N when signal N killed it). It ends, and bubblewrap and everything
in the wrap with it, when the launcher does. It forks once, before it knows any rule.
"""

import _socket
import posix
import sys

# "DOOR", then three sizes: numbers (four bytes each), arguments (NUL-terminated), rules (`rules.py`).
HEADER_SIZE = 16
MAGIC = b"DOOR"
# Of the orders' parts; bubblewrap's own arguments come by descriptor, so what is left is short.
PART_LIMIT = 8 << 20
# Descriptors for bubblewrap; the kernel passes 253 at once, four of them are the door's socket and streams.
DESCRIPTORS_LIMIT = 240
# Exit statuses of our own, as the launcher's contract has them.
FAILED = 125
_SIGKILL, _SIGPIPE, _SIGXFSZ = 9, 13, 25
_FIRST_FREE = 3
# What the orders' descriptors begin with: the door's socket, stdin, stdout, stderr.
_OWN = 4
# The word for one that is to be kept in reserve.
EARLY = "early"


class Orders:
    """What the launcher wants. `door` is our end of the socket over which the listener comes."""

    __slots__ = ("arguments", "descriptors", "door", "numbers", "rules")

    def __init__(
        self, door: int, descriptors: list[int], numbers: list[int], arguments: list[bytes], rules: bytes
    ) -> None:
        self.door = door
        self.descriptors = descriptors
        self.numbers = numbers
        self.arguments = arguments
        self.rules = rules


def receive_orders(channel: _socket.socket) -> Orders | None:
    """Waits for the orders; None when the launcher is gone or says something else."""
    space = _socket.CMSG_SPACE(4 * (DESCRIPTORS_LIMIT + _OWN))
    head, ancillary, flags, _ = channel.recvmsg(HEADER_SIZE, space, _socket.MSG_CMSG_CLOEXEC)
    received = b"".join(content for _, kind, content in ancillary if kind == _socket.SCM_RIGHTS)
    descriptors = [int.from_bytes(received[at : at + 4], sys.byteorder) for at in range(0, len(received), 4)]
    if len(head) != HEADER_SIZE or head[:4] != MAGIC or flags & _socket.MSG_CTRUNC or len(descriptors) < _OWN:
        return None
    door, *streams = descriptors[:_OWN]
    descriptors = descriptors[_OWN:]
    for number, stream in enumerate(streams):
        posix.dup2(stream, number)
        posix.close(stream)
    sizes = [int.from_bytes(head[at : at + 4], "big") for at in (4, 8, 12)]
    if max(sizes) > PART_LIMIT:
        return None
    packed, arguments, rules = (read_exactly(channel, size) for size in sizes)
    numbers = [int.from_bytes(packed[at : at + 4], "big") for at in range(0, len(packed), 4)]
    if len(numbers) != len(descriptors) or min(numbers, default=_FIRST_FREE) < _FIRST_FREE:
        return None
    return Orders(door, descriptors, numbers, arguments.split(b"\0")[:-1], rules)


def read_exactly(channel: _socket.socket, size: int) -> bytes:
    """`size` bytes; fewer when the launcher is gone."""
    parts = []
    while size:
        part = channel.recv(min(size, 1 << 16))
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def spawn(orders: Orders) -> int:
    """Starts bubblewrap with its descriptors under the numbers that its arguments name; closes ours. Its number."""
    for descriptor, number in zip(orders.descriptors, orders.numbers, strict=True):
        posix.dup2(descriptor, number, True)
        posix.close(descriptor)
    # What the interpreter ignores, its child would ignore as well.
    defaults = (_SIGPIPE, _SIGXFSZ)
    process = posix.posix_spawn(orders.arguments[0], orders.arguments, {}, setsigdef=defaults)
    for number in orders.numbers:
        posix.close(number)
    return process


def move_away(descriptor: int, numbers: list[int]) -> int:
    """The same descriptor at a number that nobody wants."""
    import fcntl

    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, max((*numbers, _FIRST_FREE)) + 1)
    posix.close(descriptor)
    return moved


def main(channel_number: int, sources: str, early: bool) -> int:
    """The supervisor's life; its exit status."""
    if early:
        sys.path.insert(0, sources)
        import sandbox.supervisor.life  # noqa: F401  (imported to be there)
    channel = _socket.socket(fileno=channel_number)
    orders = receive_orders(channel)
    if orders is None or not orders.arguments:
        return FAILED
    taken = [*orders.numbers, *orders.descriptors, orders.door]
    ours = move_away(channel.detach(), taken)
    orders.door = move_away(orders.door, taken)
    orders.descriptors = [move_away(descriptor, taken) for descriptor in orders.descriptors]
    try:
        process = spawn(orders)
    except OSError as error:
        posix.write(
            2, b"cannot start %s: %s\n" % (orders.arguments[0], posix.strerror(error.errno or 0).encode())
        )
        return FAILED
    # Whatever happens from here on: our end is the wrap's end (--die-with-parent).
    if not early:
        sys.path.insert(0, sources)
    from sandbox.supervisor.life import live

    return live(process, ours, orders.door, orders.rules)


if __name__ == "__main__":
    posix._exit(main(int(sys.argv[1]), sys.argv[2], EARLY in sys.argv[3:]))
