"""Wall, door and canary in real processes: no namespaces are needed for them. The supervisor here is a small one that
answers the canary, rightly or in one of the wrong ways that the canary is there to find."""

import array
import errno
import fcntl
import os
import platform
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sandbox import confine
from sandbox.confinement import DOOR_REQUESTS, WALL_REQUESTS, encode_orders
from sandbox.seccomp import build_filter
from sandbox.system_calls import ARCHITECTURES, numbers
from tests.sandbox.wrapping import PYTHON

CANARY = "0123456789abcdef"
GOOD = encode_orders(build_filter(door=True), (), (), CANARY)
PROGRAM = GOOD[: 4 + int.from_bytes(GOOD[:4], "big")]
FIELDS = GOOD[len(PROGRAM) :]
OPENAT2 = struct.pack("<I", 437)
PATIENCE = 60
# linux/seccomp.h: SECCOMP_IOCTL_NOTIF_RECV, _SEND, _ADDFD
RECEIVE, SEND, ADD = 0xC0502100, 0xC0182101, 0x40182103
CONTINUE = 1
NAMES = {number: name for name, number in numbers(platform.machine()).items()}
# Which argument is the name that is made.
NAME_ARGUMENT = {
    "open": 0, "creat": 0, "openat": 1, "mkdir": 0, "mkdirat": 1, "symlink": 1, "symlinkat": 2, "mknod": 0,
    "mknodat": 1, "link": 1, "linkat": 3, "rename": 1, "renameat": 3, "renameat2": 3,
}  # fmt: skip

# What the stub does with its orders.
CHILD = """
import marshal, os, sys
names = {"__name__": "confine"}
exec(os.environ["BEFORE"])
orders = b"".join(iter(lambda: os.read(int(sys.argv[2]), 1 << 16), b""))
end = 4 + int.from_bytes(orders[:4], "big")
exec(marshal.loads(orders[4:end]), names)
os.write(1, names["confine"](int(sys.argv[1]), orders[end:]))
exec(os.environ["AFTER"])
"""

# An outer filter that answers one system call with an errno (0: the call "gives" 0).
OUTER = """
import ctypes, struct
libc = ctypes.CDLL(None)
load, equal, answer = (0x20, 0, 0), (0x15, 0, 1), (0x06, 0, 0)
code = [(0x20, 0, 0, 0), (0x15, 0, 1, {number}), (0x06, 0, 0, 0x00050000 | {errno}), (0x06, 0, 0, 0x7FFF0000)]
program = b"".join(struct.pack("<HBBI", *one) for one in code)
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(4, program))) == 0
"""


def perform(listener: int, number: int, folder: str) -> None:
    """Opens a nameless file in place of the caller."""
    descriptor = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600)
    request = bytearray(struct.pack("<QIIII", number, 0, descriptor, 0, os.O_CLOEXEC))
    given = fcntl.ioctl(listener, ADD, request)  # an integer only where the argument can change
    os.close(descriptor)
    reply(listener, number, value=given)


def reply(listener: int, number: int, error: int = 0, value: int = 0, flags: int = 0) -> None:
    fcntl.ioctl(listener, SEND, struct.pack("<QqiI", number, value, -error, flags))


@dataclass
class Supervisor:
    """Answers by the end of the name: "wall", "door", "" for what has neither; counts what it saw."""

    root: Path
    wall: int = 0  # the errno, 0 for CONTINUE
    door: int = errno.EACCES
    performs: bool = True
    takes: bool = True
    connects: int = errno.ENOENT
    leaves_at: str = "no such name"
    gone: bool = False
    seen: list[tuple[str, str]] = field(default_factory=list)
    over: bool = False

    def live(self, ours: socket.socket) -> None:
        with ours:
            _, ancillary, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(4))
            if not ancillary:
                return
            (listener,) = array.array("i", ancillary[0][2])
            if not self.takes:
                os.close(listener)
                return
            threading.Thread(target=self._serve, args=(listener,), daemon=True).start()
            self.over = ours.recv(1) == b"D"

    def _serve(self, listener: int) -> None:
        while not self.gone:
            try:
                data = fcntl.ioctl(listener, RECEIVE, bytes(80))
            except OSError:
                return os.close(listener)
            number, pid, _, call, _, _, *arguments = struct.unpack("<QIIiIQ6Q", data)
            self._answer(listener, number, pid, NAMES[call], arguments)
        os.close(listener)

    def _answer(self, listener: int, number: int, pid: int, call: str, arguments: list[int]) -> None:
        if call == "umask":
            self.seen.append((call, ""))
            return reply(listener, number, flags=CONTINUE)
        if call == "connect":
            self.seen.append((call, ""))
            return reply(listener, number, self.connects)
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            text = (
                os.pread(memory.fileno(), 4096, arguments[NAME_ARGUMENT[call]]).partition(b"\0")[0].decode()
            )
        kind = text.rpartition(".")[2] if CANARY in text else ""
        self.seen.append((call.removesuffix("at").removesuffix("at2"), kind))
        self.gone = text.endswith(self.leaves_at)
        if self.gone:
            return
        if kind:
            error = self.wall if kind == "wall" else self.door
            reply(listener, number, error, flags=0 if error else CONTINUE)
        elif self.performs and text == str(self.root):
            perform(listener, number, text)
        else:
            reply(listener, number, flags=CONTINUE)


@dataclass
class Run:
    verdict: tuple[int, int]
    said: str
    supervisor: Supervisor


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A governed directory beside a private one; nothing may be left in it."""
    (tmp_path / "root").mkdir()
    (tmp_path / "private").mkdir()
    yield tmp_path / "root"
    assert os.listdir(tmp_path / "root") == []


def confined(
    root: Path,
    answers: Callable[[Supervisor], None] = lambda _: None,
    *,
    private: tuple[str, ...] = (),
    roots: tuple[str, ...] | None = None,
    orders: bytes | None = None,
    before: str = "",
    after: str = "",
    calls: bytes | None = None,
) -> Run:
    """confine.py in a process of its own, from its orders to the verdict; then the code of `after` runs there."""
    supervisor = Supervisor(root)
    answers(supervisor)
    ours, theirs = socket.socketpair()
    told = orders if orders is not None else encode_orders(
        build_filter(door=True) if calls is None else calls,
        private or (str(root.parent / "private"),),
        (str(root),) if roots is None else roots,
        CANARY,
    )  # fmt: skip
    memory = os.memfd_create("orders")
    os.write(memory, told)
    os.lseek(memory, 0, os.SEEK_SET)
    thread = threading.Thread(target=supervisor.live, args=(ours,))
    thread.start()
    with theirs:
        command = (PYTHON, "-I", "-S", "-B", "-c", CHILD, str(theirs.fileno()), str(memory))
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(theirs.fileno(), memory),
            env={"BEFORE": before, "AFTER": after},
        )  # fmt: skip
    os.close(memory)
    output, complaint = child.communicate(timeout=PATIENCE)
    thread.join()
    assert not complaint, complaint.decode()
    assert output[:1] == b"C"
    return Run((output[1], output[2]), output[3:].decode(), supervisor)


# --- Where all is well ----------------------------------------------------------------------------


def test_wall_and_door_stand(root: Path) -> None:
    run = confined(root)
    assert run.verdict == (confine.STANDS, WALL_REQUESTS)
    assert [kind for _, kind in run.supervisor.seen].count("wall") == WALL_REQUESTS
    assert [call for call, kind in run.supervisor.seen if kind == "door"] == [
        "open", "mkdir", "symlink", "mknod", "link", "rename",
    ]  # fmt: skip
    assert len([kind for _, kind in run.supervisor.seen if kind == "door"]) == DOOR_REQUESTS
    assert run.supervisor.over


def test_everything_started_from_there_is_confined(root: Path) -> None:
    """The wall is there without the supervisor's help, in private mounts it is not, and reading is free. The listener
    is nowhere in the process."""
    private = root.parent / "private"
    # The supervisor lets names it does not know through, so only the wall stands in the way.
    after = f"""
import errno
def trying(what, *arguments):
    try:
        what(*arguments)
        print("done", flush=True)
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)
new = os.O_CREAT | os.O_WRONLY
trying(os.open, {str(root / "new")!r}, new)
trying(os.mkdir, {str(root / "new")!r})
trying(os.open, {str(private / "new")!r}, new)
trying(os.rename, {str(private / "new")!r}, {str(root / "new")!r})
trying(os.rename, {str(private / "new")!r}, {str(private / "newer")!r})
trying(os.open, {__file__!r}, os.O_RDONLY)
trying(os.open, {__file__!r}, os.O_WRONLY)
print(os.waitstatus_to_exitcode(os.system("exec 2>&-; : > {root}/child")))
print(sorted(os.readlink("/proc/self/fd/" + name) for name in os.listdir("/proc/self/fd") if int(name) > 6))
"""
    run = confined(root, after=after)
    said = run.said.splitlines()
    assert said[:7] == ["EACCES", "EACCES", "done", "EACCES", "done", "done", "EACCES"]
    assert said[7] in {"1", "2"}
    assert "seccomp" not in run.said


def test_supervisor_that_leaves_takes_writing_along(root: Path) -> None:
    """Whoever waited for it, and whoever asks later, in private mounts too, finds no such call; reading goes on."""
    private = root.parent / "private"
    after = f"""
import errno
def trying(what, *arguments):
    try:
        what(*arguments)
        print("done", flush=True)
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)
new = os.O_CREAT | os.O_WRONLY
trying(os.open, {str(root / "last words")!r}, new)
trying(os.open, {str(root / "new")!r}, new)
trying(os.open, {str(private / "new")!r}, new)
trying(os.mkdir, {str(private / "new")!r})
trying(os.rename, {str(private)!r}, {str(root / "new")!r})
trying(os.open, {__file__!r}, os.O_WRONLY)
trying(os.open, {__file__!r}, os.O_RDONLY)
trying(os.listdir, {str(root)!r})
trying(os.stat, {str(root)!r})
"""
    run = confined(root, wrongly(leaves_at="last words"), after=after)
    assert run.verdict == (confine.STANDS, WALL_REQUESTS)
    assert run.said.splitlines() == ["ENOSYS"] * 6 + ["done"] * 3


def test_no_writable_directory(root: Path) -> None:
    """Nothing to prove the wall with, and nothing that it would have to hold."""
    run = confined(root, roots=(str(root / "missing"),))
    assert run.verdict == (confine.STANDS, 0)
    assert {kind for _, kind in run.supervisor.seen} == {"door", ""}


def test_first_writable_directory_counts(root: Path) -> None:
    run = confined(root, roots=(str(root / "missing"), str(root)))
    assert run.verdict == (confine.STANDS, WALL_REQUESTS)


# --- Whatever is missing is named -----------------------------------------------------------------


def wrongly(**values: int | bool | str) -> Callable[[Supervisor], None]:
    def change(supervisor: Supervisor) -> None:
        for name, value in values.items():
            setattr(supervisor, name, value)

    return change


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ({"door": 0}, (confine.DOOR_OPEN, errno.ENOENT)),  # the wall holds it, link and rename miss the name
        ({"door": errno.EPERM}, (confine.DOOR_OPEN, errno.EPERM)),
        ({"door": errno.ENOSYS}, (confine.DOOR_OPEN, errno.ENOSYS)),
        ({"wall": errno.EPERM}, (confine.WALL_OPEN, errno.EPERM)),
        ({"performs": False}, (confine.NOT_PERFORMED, errno.EACCES)),
        ({"connects": errno.EPERM}, (confine.NOT_TAKEN, errno.EPERM)),
        ({"connects": 0}, (confine.NOT_TAKEN, 0)),
        ({"takes": False}, (confine.WALL_OPEN, errno.ENOSYS)),
    ],
)
def test_wrong_answers_of_the_supervisor(
    root: Path, answers: dict[str, int | bool], verdict: tuple[int, int]
) -> None:
    run = confined(root, wrongly(**answers))
    assert run.verdict == verdict
    assert not run.supervisor.over


def test_no_wall(root: Path) -> None:
    """A wall with a hole where the root is: what could be made is taken away again."""
    assert confined(root, private=(str(root.parent),)).verdict == (confine.WALL_OPEN, 0)


def test_filter_without_a_door(root: Path) -> None:
    """Nobody is asked: the wall refuses everything, and the supervisor saw nothing."""
    assert confined(root, calls=build_filter()).verdict[0] == confine.NOT_PERFORMED


@pytest.mark.parametrize(
    ("call", "error", "verdict"),
    [
        ("landlock_create_ruleset", errno.ENOSYS, (confine.NO_LANDLOCK, errno.ENOSYS)),
        ("landlock_create_ruleset", errno.EOPNOTSUPP, (confine.NO_LANDLOCK, errno.EOPNOTSUPP)),
        ("landlock_create_ruleset", 0, (confine.OLD_LANDLOCK, 0)),
        ("landlock_restrict_self", errno.E2BIG, (confine.RESTRICT, errno.E2BIG)),
        ("seccomp", errno.EINVAL, (confine.OLD_KERNEL, errno.EINVAL)),
        ("seccomp", errno.EBUSY, (confine.NESTED, errno.EBUSY)),
        ("seccomp", errno.EPERM, (confine.FILTER_REFUSED, errno.EPERM)),
        ("seccomp", errno.EACCES, (confine.FILTER_REFUSED, errno.EACCES)),
        ("sendmsg", errno.EPERM, (confine.HAND_OVER, errno.EPERM)),
        ("prctl", errno.EPERM, (confine.PRIVILEGES, errno.EPERM)),
        ("mkdir", errno.EPERM, (confine.WALL_OPEN, errno.EPERM)),
    ],
)
def test_an_outer_filter_in_the_way(root: Path, call: str, error: int, verdict: tuple[int, int]) -> None:
    """Stands for a kernel that cannot yet, and for a container that does not let one."""
    more = {
        "landlock_create_ruleset": (444, 444), "landlock_restrict_self": (446, 446), "seccomp": (317, 277),
        "sendmsg": (46, 211), "prctl": (157, 167), "mkdir": (83, 34),
    }  # fmt: skip
    known = {name: row[list(ARCHITECTURES).index(platform.machine())] for name, row in more.items()}
    number = known.get(call) or numbers(platform.machine())[call]
    assert confined(root, before=OUTER.format(number=number, errno=error)).verdict == verdict


def test_filter_that_lets_openat2_through(root: Path) -> None:
    """Its flags lie in memory, so it must not be there at all."""
    calls = build_filter(door=True)
    check = struct.pack("<HBB", 0x15, 0, 0)[:2]
    places = [
        at
        for at in range(0, len(calls), 8)
        if calls[at : at + 2] == check and calls[at + 4 : at + 8] == OPENAT2
    ]
    (place,) = places
    without = calls[: place + 4] + struct.pack("<I", 0xFFFFFFFF) + calls[place + 8 :]
    assert confined(root, calls=without).verdict == (confine.NOT_FILTERED, errno.EINVAL)


def test_nested_listeners(root: Path) -> None:
    """The kernel has one listener for a tree of processes: the second door cannot be had, and that is said."""
    again = f"""
import socket
ours, theirs = socket.socketpair()
os.write(1, names["confine"](theirs.detach(), bytes.fromhex("{FIELDS.hex()}")))
"""
    run = confined(root, after=again)
    assert run.verdict == (confine.STANDS, WALL_REQUESTS)
    assert run.said.encode() == bytes((ord("C"), confine.NESTED, errno.EBUSY))


@pytest.mark.parametrize(
    "orders",
    [
        PROGRAM,
        GOOD[:-1],
        PROGRAM + FIELDS[:100],
        GOOD + b"\0",
        encode_orders(b"", (), (), CANARY),
        encode_orders(build_filter(door=True), (), (), ""),
    ],
    ids=["none", "cut", "in the filter", "a byte more", "no filter", "no name"],
)
def test_broken_orders(root: Path, orders: bytes) -> None:
    run = confined(root, orders=orders)
    assert run.verdict == (confine.ORDERS, 0)
    assert run.supervisor.seen == []


def test_missing_private_mount(root: Path) -> None:
    assert confined(root, private=(str(root / "none"),)).verdict == (confine.MOUNT, errno.ENOENT)


# --- The file itself ------------------------------------------------------------------------------


def test_imports_are_built_in_and_quick() -> None:
    """It is on the way of every start. `ctypes` itself would bring a hundred times the code along."""
    names = "import sys; before = set(sys.modules); names = {'__name__': 'confine'}; "
    load = f"exec(compile(open({confine.__file__!r}).read(), 'confine', 'exec'), names); "
    show = "print(*(set(sys.modules) - before))"
    done = subprocess.run(
        (sys.executable, "-I", "-S", "-c", names + load + show), capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) <= {"_ctypes", "_socket", "errno", "posix", "_struct"}
