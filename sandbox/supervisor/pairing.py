"""socketpair(2) of Unix datagram sockets: the caller gets a pair that keeps packets apart and reaches nobody else.

Such a socket could name any path in `sendto` or `sendmsg`, past every rule: a filter cannot see the name, and nobody
can follow a socket through all its copies. A pair of SOCK_SEQPACKET ignores names. It differs in this: when one end is
closed the other reads an end, and writing gives EPIPE and its signal, not ECONNREFUSED.
"""

import _socket
import errno
import sys

from sandbox.supervisor.call import Call

# linux/net.h
_TYPE_MASK = 0xF
_FLAGS = _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC


def pair(call: Call) -> None:
    """socketpair(2); the filter asks for Unix sockets of the types SOCK_DGRAM and SOCK_RAW only."""
    kind, address = call.number(1), call.arguments[3]
    if kind & ~(_TYPE_MASK | _FLAGS):
        raise OSError(errno.EINVAL, "")
    if call.number(2) not in (0, _socket.AF_UNIX):
        raise OSError(errno.EPROTONOSUPPORT, "")
    call.confirm()
    call.tracee.write(address, bytes(8))  # what cannot be told is not given
    ends = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    numbers = []
    try:
        for end in ends:
            end.setblocking(not kind & _socket.SOCK_NONBLOCK)
            numbers.append(call.lend(end.fileno(), bool(kind & _socket.SOCK_CLOEXEC)))
    finally:
        for end in ends:
            end.close()
    call.tracee.write(address, b"".join(number.to_bytes(4, sys.byteorder) for number in numbers))
    call.answer()
