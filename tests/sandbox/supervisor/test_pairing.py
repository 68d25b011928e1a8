"""socketpair of datagram sockets through the door: a pair that works as one, and reaches nobody else."""

import socket
from collections.abc import Iterator

import pytest

from tests.sandbox.supervisor.supervised import Ground, ground_of, tried
from tests.sandbox.wrapping import PEOPLE


@pytest.fixture(params=PEOPLE)
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    with ground_of(request.param) as found:
        yield found


def test_packets_stay_apart(ground: Ground) -> None:
    seen = tried(
        ground,
        """
import array, ctypes, socket
libc = ctypes.CDLL(None, use_errno=True)
def raw(kind, protocol=0, family=1, address=None):
    numbers = array.array("i", (-1, -1))
    where = numbers.buffer_info()[0] if address is None else address
    if libc.socketpair(family, kind, protocol, ctypes.c_void_p(where)):
        raise OSError(ctypes.get_errno(), "")
    return list(numbers)
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
    one, other = (socket.socket(fileno=number) for number in raw(kind))
    one.send(b"first")
    one.send(b"second")
    seen[f"{kind} packets"] = [other.recv(99).decode(), other.recv(3).decode()]
    other.send(b"back")
    seen[f"{kind} back"] = one.recv(99).decode()
    seen[f"{kind} flags"] = [os.get_inheritable(one.fileno()), os.get_blocking(one.fileno())]
    one, other = (socket.socket(fileno=number) for number in raw(kind | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK))
    seen[f"{kind} more flags"] = [os.get_inheritable(one.fileno()), os.get_blocking(other.fileno())]
    t(f"{kind} empty", lambda: one.recv(1))
one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
child = os.fork()
if not child:
    one.send(b"from a child")
    os._exit(0)
seen["child"] = other.recv(99).decode()
os.waitpid(child, 0)
before = os.listdir("/proc/self/fd")
t("bad flags", lambda: raw(socket.SOCK_DGRAM | 0x100))
t("bad protocol", lambda: raw(socket.SOCK_DGRAM, 17))
t("named protocol", lambda: [os.close(number) for number in raw(socket.SOCK_DGRAM, 1)] and None)
t("no memory", lambda: raw(socket.SOCK_DGRAM, address=1))
t("other family", lambda: raw(socket.SOCK_DGRAM, family=2))
t("other type", lambda: raw(4))
seen["left"] = len(os.listdir("/proc/self/fd")) - len(before)
""",
    )
    for kind in (int(socket.SOCK_DGRAM), int(socket.SOCK_RAW)):
        assert seen.pop(f"{kind} packets") == ["first", "sec"]
        assert seen.pop(f"{kind} back") == "back"
        assert seen.pop(f"{kind} flags") == [True, True]
        assert seen.pop(f"{kind} more flags") == [False, False]
        assert seen.pop(f"{kind} empty") == "EAGAIN"
    assert seen == {
        "child": "from a child", "bad flags": "EINVAL", "bad protocol": "EPROTONOSUPPORT", "named protocol": "ok",
        "no memory": "EFAULT", "other family": "EAFNOSUPPORT", "other type": "EPROTONOSUPPORT", "left": 0,
    }  # fmt: skip


def test_names_are_ignored(ground: Ground) -> None:
    """What is sent with an address reaches the other end, not the socket of that name."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as host:
        host.bind(str(ground.root / "host"))
        (ground.root / "host").chmod(0o777)
        host.setblocking(False)
        seen = tried(
            ground,
            """
import socket
one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
t("sendto", lambda: one.sendto(b"evil", "host"))
t("sendmsg", lambda: one.sendmsg([b"evil"], [], 0, "host"))
seen["got"] = [other.recv(9).decode(), other.recv(9).decode()]
t("connect", lambda: one.connect("host"))
t("alone", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
""",
        )
        with pytest.raises(BlockingIOError):
            host.recv(9)
    assert seen.pop("connect") in ("EISCONN", "EACCES")
    assert seen == {"sendto": 4, "sendmsg": 4, "got": ["evil", "evil"], "alone": "EPROTONOSUPPORT"}


def test_socat_serves(ground: Ground) -> None:
    """It wants such a pair before it listens."""
    done = ground.sh(
        """
socat TCP-LISTEN:7777,bind=127.0.0.1,fork,reuseaddr EXEC:cat 2>/dev/null & server=$!
until echo hello | socat -t 5 - TCP:127.0.0.1:7777 2>/dev/null; do kill -0 $server || exit 1; done
kill $server
"""
    )
    assert (done.code, done.out) == (0, "hello\n"), done.err
