"""A wrap in small around one command, for the file rules alone: `python guarded.py FILE` with a JSON description.

bubblewrap, the supervisor and `confine.py` are the real ones. What a launch would never do can be left out here, one
by one: "door" (nobody is asked; plain bubblewrap), "wall" (Landlock grants everything), "killable" (a signal makes a
call begin again). Exits as the command did.
"""

import json
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from sandbox.confinement import encode_orders
from sandbox.events import SandboxViolation
from sandbox.layout import NAMESPACES
from sandbox.probing.trial import find_bubblewrap
from sandbox.seccomp import build_filter
from sandbox.supervisor.client import Supervisor
from sandbox.supervisor.rules import DoorRules

CANARY = "0123456789abcdef"
PRIVATE = ("/dev", "/proc", "/var/tmp")
PATIENCE = 300.0

INSIDE = r"""
import marshal, os, signal, socket, sys
door, orders = int(sys.argv[1]), int(sys.argv[2])
wall, killable = sys.argv[3] == "1", sys.argv[4] == "1"
data = b"".join(iter(lambda: os.read(orders, 1 << 16), b""))
os.close(orders)
end = 4 + int.from_bytes(data[:4], "big")
names = {"__name__": "confine"}
exec(marshal.loads(data[4:end]), names)
if wall and killable:
    verdict = names["confine"](door, data[end:])
    assert verdict[:2] == b"C\0", verdict
else:
    calls, canary, folders, *private = names["read_orders"](data[end:])
    if not killable:
        names["WAIT_KILLABLE"] = 0
    names["build_wall"](private if wall else [b"/"])
    with socket.socket(fileno=door) as supervisor:
        names["hand_over"](supervisor, names["install_door"](calls))
        supervisor.sendall(b"D")
kept = int(sys.argv[5])
if kept >= 0:
    os.dup2(kept, 5)
    os.closerange(3, 5)
os.closerange(6 if kept >= 0 else 3, 256)
signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the launcher shields bubblewrap from them
os.execvp(sys.argv[6], sys.argv[6:])
"""


def memory_file(content: bytes) -> int:
    descriptor = os.memfd_create("orders")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def rules_of(what: dict[str, Any]) -> DoorRules:
    """The shipped names, and what the description adds."""
    lists = {name: tuple(what.get(name, ())) for name in ("sealed", "git_configs", "sockets", "allow_write")}
    return DoorRules(canary=CANARY, writable=tuple(what["roots"]), private=PRIVATE, **lists)


def bubblewrap(roots: list[str]) -> list[str]:
    """The whole host, read-only, and the roots, which can be written."""
    mounts = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    mounts += ["--perms", "1777", "--tmpfs", "/var/tmp"]
    for root in roots:
        mounts += ["--bind", root, root]
    return [find_bubblewrap(), *NAMESPACES, "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", *mounts]


def tell_ready(supervisor: Supervisor, file: str) -> None:
    """Makes a file once the canary is over."""
    supervisor.canary(PATIENCE)
    Path(file).touch()


def main(file: str) -> int:
    """Runs what the file describes."""
    what = json.loads(Path(file).read_text())
    argv, roots = what["argv"], what["roots"]
    os.chdir(roots[0])
    if not what.get("door", True):
        os.execv(find_bubblewrap(), [*bubblewrap(roots), "--", *argv])
    told: list[SandboxViolation] = []
    supervisor = Supervisor(sys.executable, None, told.append)
    ours, theirs = socket.socketpair()
    orders = memory_file(encode_orders(build_filter(door=True), PRIVATE, roots, CANARY))
    # A directory of the host that the command has open as number 5.
    kept = os.open(what["folder"], os.O_RDONLY) if "folder" in what else -1
    passed = (theirs.fileno(), orders, *((kept,) if kept >= 0 else ()))
    options = ("1" if what.get(name, True) else "0" for name in ("wall", "killable"))
    inside = [
        sys.executable,
        "-I",
        "-S",
        "-E",
        "-B",
        "-c",
        INSIDE,
        *map(str, passed[:2]),
        *options,
        str(kept),
        *argv,
    ]
    supervisor.spawn([*bubblewrap(roots), "--", *inside], passed, ours.fileno(), rules_of(what))
    for one in (ours, theirs):
        one.close()
    os.close(orders)
    if "ready" in what:
        threading.Thread(target=tell_ready, args=(supervisor, what["ready"])).start()
    code = supervisor.child.wait(PATIENCE)
    supervisor.close()
    if "violations" in what:
        lines = [json.dumps([one.action, one.target, one.rule, one.count]) for one in told]
        Path(what["violations"]).write_text("\n".join(lines))
    return 99 if code is None else code


if __name__ == "__main__":
    os._exit(main(sys.argv[1]))
