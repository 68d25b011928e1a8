"""connect through the door: the wrap's own sockets and its network as ever, others' Unix sockets by list only."""

import os
import socket
from collections.abc import Iterator

import pytest

from tests.sandbox.supervisor.supervised import Ground, ground_of, tried
from tests.sandbox.wrapping import PEOPLE


@pytest.fixture(params=PEOPLE)
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    with ground_of(request.param) as found:
        yield found


SOCKETS = """
import socket, threading
def unix(path, kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_UNIX, kind) as one:
        one.connect(path)
def listener(path, backlog=5):
    one = socket.socket(socket.AF_UNIX)
    one.bind(path)
    one.listen(backlog)
    return one
"""


def test_unix_sockets(ground: Ground) -> None:
    outside = [ground.root / name for name in ("listed", "hidden")]
    (ground.root / "alias").symlink_to("hidden")
    (ground.root / "good-alias").symlink_to("listed")
    ground.write("file")
    listeners = []
    for path in outside:
        one = socket.socket(socket.AF_UNIX)
        one.bind(str(path))
        one.listen(64)
        path.chmod(0o777)
        listeners.append(one)
    seen = tried(
        ground,
        SOCKETS
        + """
kept = [listener("/var/tmp/own"), listener(chr(0) + "abstract")]
os.symlink(os.getcwd() + "/hidden", "/var/tmp/way")
os.symlink("/var/tmp/own", "inside")
t("listed", lambda: unix("listed"))
t("listed, absolute", lambda: unix(os.getcwd() + "/./listed"))
t("listed, by a link", lambda: unix("good-alias"))
t("own", lambda: unix("/var/tmp/own"))
t("own, relative", lambda: (os.chdir("/var/tmp"), unix("own"), os.chdir("/proc/self/cwd"))[-1])
os.chdir(sys.argv[1])
t("own, by a link", lambda: unix("inside"))
t("abstract", lambda: unix(chr(0) + "abstract"))
t("hidden", lambda: unix("hidden"))
t("hidden, by a link", lambda: unix("alias"))
t("hidden, by a private link", lambda: unix("/var/tmp/way"))
t("hidden, by procfs", lambda: unix("/proc/self/cwd/hidden"))
t("absent", lambda: unix("no"))
t("no socket", lambda: unix("file"))
t("other abstract", lambda: unix(chr(0) + "other"))
t("no descriptor", lambda: socket.socket(fileno=os.dup(0)).connect("x"))
""".replace("sys.argv[1]", repr(str(ground.root))),
        sockets=[str(outside[0])],
    )
    for one in listeners:
        one.close()
    for name in (
        "listed",
        "listed, absolute",
        "listed, by a link",
        "own",
        "own, relative",
        "own, by a link",
        "abstract",
    ):
        assert seen.pop(name) == "ok", name
    for name in ("hidden", "hidden, by a link", "hidden, by a private link", "hidden, by procfs"):
        assert seen.pop(name) == "EACCES", name
    assert seen.pop("no socket") in ("EACCES", "ECONNREFUSED")
    assert seen == {"absent": "ENOENT", "other abstract": "ECONNREFUSED", "no descriptor": "ENOTSOCK"}


def test_refusal_is_told(ground: Ground) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(ground.root / "s"))
        done = ground.python("import socket\nsocket.socket(socket.AF_UNIX).connect('s')")
    assert "PermissionError" in done.err
    assert done.violations == [("network-outbound", str(ground.root / "s"), "unix-socket", 1)]


def test_network(ground: Ground) -> None:
    seen = tried(
        ground,
        SOCKETS
        + """
server = socket.create_server(("127.0.0.1", 0)); port = server.getsockname()[1]
def echo(timeout):
    with socket.create_connection(("127.0.0.1", port), timeout) as one:
        one.sendall(b"x")
        with server.accept()[0] as other:
            return other.recv(1).decode()
t("blocking", lambda: echo(None))
t("with a timeout", lambda: echo(5))
def twice():
    with socket.create_connection(("127.0.0.1", port)) as one:
        server.accept()[0].close()
        one.connect(("127.0.0.1", port))
t("twice", twice)
t("refused", lambda: socket.create_connection(("127.0.0.1", 1)))
t("no route", lambda: socket.create_connection(("192.0.2.1", 80)))
def datagram():
    kind = (socket.AF_INET, socket.SOCK_DGRAM)
    with socket.socket(*kind) as one, socket.socket(*kind) as two:
        two.bind(("127.0.0.1", 0))
        one.connect(two.getsockname())
        one.send(b"y")
        return two.recv(1).decode()
t("datagram", datagram)
def flags():
    import fcntl
    with socket.create_connection(("127.0.0.1", port)) as one:
        server.accept()[0].close()
        return bool(fcntl.fcntl(one.fileno(), fcntl.F_GETFL) & os.O_NONBLOCK)
t("stays blocking", flags)
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def raw(data, length):
    with socket.socket(socket.AF_UNIX) as one:
        if libc.connect(one.fileno(), data, length):
            raise OSError(ctypes.get_errno(), "")
t("too long", lambda: raw(b"\\1\\0" + b"x" * 200, 200))
t("negative", lambda: raw(b"\\1\\0x", -1))
t("no memory", lambda: raw(None, 16))
t("empty", lambda: raw(b"", 0))
t("family alone", lambda: raw(b"\\1\\0", 2))
""",
    )
    assert seen == {
        "blocking": "x", "with a timeout": "x", "twice": "EISCONN", "refused": "ECONNREFUSED",
        "no route": "ENETUNREACH",
        "datagram": "y", "stays blocking": False, "too long": "EINVAL", "negative": "EINVAL", "no memory": "EFAULT",
        "empty": "EINVAL", "family alone": "EINVAL",
    }  # fmt: skip


def test_who_has_to_wait_holds_nobody_up(ground: Ground) -> None:
    """A listener whose queue is full: the connecting threads wait, everybody else goes on, then they are let in."""
    seen = tried(
        ground,
        SOCKETS
        + """
full = listener("/var/tmp/full", 0)
clients = [socket.socket(socket.AF_UNIX) for _ in range(4)]
threads = [threading.Thread(target=one.connect, args=("/var/tmp/full",)) for one in clients]
for thread in threads: thread.start()
t("meanwhile", lambda: put("a"))
seen["let in"] = [full.accept()[0].fileno() > 0 for _ in clients]
for thread in threads: thread.join()
seen["peers"] = [one.getpeername() for one in clients]
left = socket.socket(socket.AF_UNIX)
left.setblocking(False)
for _ in range(3):
    t("at once", lambda: left.connect("/var/tmp/full"))
    left = socket.socket(socket.AF_UNIX); left.setblocking(False)
""",
    )
    assert seen["meanwhile"] == "ok"
    assert seen["let in"] == [True] * 4
    assert seen["peers"] == ["/var/tmp/full"] * 4
    assert seen["at once"] in ("EAGAIN", "ok")
    assert os.path.exists(ground.root / "a")


def test_a_socket_that_blocks_after_all_holds_nobody_up(ground: Ground) -> None:
    """Whether it blocks belongs to the caller too, who changes it all the time. The queue it connects to is full."""
    seen = tried(
        ground,
        SOCKETS
        + """
import fcntl
full = listener("/var/tmp/full", 0)
queued = socket.socket(socket.AF_UNIX)
queued.connect("/var/tmp/full")
ends, over = [], threading.Event()
def flip(one):
    while not over.is_set():
        fcntl.fcntl(one, fcntl.F_SETFL, os.O_NONBLOCK)
        fcntl.fcntl(one, fcntl.F_SETFL, 0)
def connect(one):
    for _ in range(100):
        try:
            one.connect("/var/tmp/full")
        except OSError as error:
            ends.append(error.errno)
left = socket.socket(socket.AF_UNIX)
left.setblocking(False)
flipping, connecting = (threading.Thread(target=work, args=(left,), daemon=True) for work in (flip, connect))
flipping.start()
connecting.start()
for number in range(300):
    put("a")
over.set()
fcntl.fcntl(left, fcntl.F_SETFL, os.O_NONBLOCK)
t("meanwhile", lambda: put("b"))
seen["ends"] = sorted({errno.errorcode[number] for number in list(ends)})
""",
    )
    assert seen.pop("meanwhile") == "ok"
    assert set(seen["ends"]) <= {"EAGAIN", "EINTR", "EISCONN"}  # type: ignore[call-overload]  # of JSON


THREADS = """
import ctypes, os, socket, threading
libc = ctypes.CDLL(None, use_errno=True)
server = socket.create_server(("127.0.0.1", 0))
"""


def test_a_thread_that_outlives_the_first_one(ground: Ground) -> None:
    """The process's own number has no descriptors any more then."""
    script = """
def rest():
    main.join_native()
    with socket.create_connection(server.getsockname()):
        os.write(1, b"connected")
    os._exit(0)
class main:
    def join_native():
        while open(f"/proc/{os.getpid()}/stat").read().rpartition(")")[2].split()[0] != "Z":
            pass
threading.Thread(target=rest).start()
libc.syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
"""
    assert ground.python(THREADS + script).out == "connected"


def test_a_thread_with_descriptors_of_its_own(ground: Ground) -> None:
    """What it connects is its own socket, not what its process has under that number."""
    script = """
def apart():
    assert libc.unshare(0x400) == 0  # CLONE_FILES
    os.dup2(os.open("/dev/null", os.O_RDONLY), 7)
    mine = socket.socket()
    os.dup2(mine.fileno(), 7)
    if libc.connect(7, address, 16):
        os.write(1, os.strerror(ctypes.get_errno()).encode())
    os.write(1, b"%d" % socket.socket(fileno=os.dup(7)).getpeername()[1])
theirs = socket.socket()
os.dup2(theirs.fileno(), 7)
port = server.getsockname()[1]
address = b"\\2\\0" + port.to_bytes(2, "big") + bytes((127, 0, 0, 1)) + bytes(8)
thread = threading.Thread(target=apart)
thread.start()
thread.join()
try:
    theirs.getpeername()
except OSError:
    os.write(1, b" %d" % port)
"""
    out = ground.python(THREADS + script).out.split()
    assert len(out) == 2 and out[0] == out[1], out
