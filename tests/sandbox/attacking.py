"""What the tests of the file rules share: the attack program, the trees it is let loose on, and a judge outside."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.sandbox.wrapping import PYTHON

ATTACKS = Path(__file__).resolve().parent / "attacks"
SECRET = b"secret"
WORD = b"evil"
CONFIG = "[core]\n\trepositoryformatversion = 0\n"
# Trees beside a process that listens: a route tries to reach it.
WITH_SOCKETS = ("unix-sockets", "addresses")
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build(folder: Path) -> list[str]:
    """The command line of the attack program: compiled, or the Python port of it where there is no compiler."""
    if COMPILER is None:
        port = folder / "attack.py"
        shutil.copy(ATTACKS / "attack.py", port)
        return [PYTHON, str(port)]
    program = folder / "attack"
    sources = sorted(map(str, ATTACKS.glob("*.c")))
    subprocess.run(
        (COMPILER, "-O1", "-Wall", "-Wno-unused-result", "-Wno-format-truncation", "-pthread", "-o", str(program),
         *sources), check=True, capture_output=True, text=True,
    )  # fmt: skip
    return [str(program)]


def routes(program: list[str]) -> list[str]:
    """Every route by name."""
    listed = subprocess.run((*program, "--list"), check=True, capture_output=True, text=True)
    return listed.stdout.split()


def plant(root: Path, names: list[str]) -> None:
    """A tree for each route: protected files that exist, a git directory, innocent ones."""
    for name in names:
        tree = root / name
        for folder in ("sub/deep", "empty", ".git/hooks", ".git/objects", ".git/refs/heads"):
            (tree / folder).mkdir(parents=True)
        for secret in (".env", "sub/.env", "old.pem"):
            (tree / secret).write_bytes(SECRET)
        for file in ("ok.txt", ".git/hooks/pre-commit.sample"):
            (tree / file).write_text("fine")
        (tree / ".git/HEAD").write_text("ref: refs/heads/main\n")
        (tree / ".git/config").write_text(CONFIG)


@contextmanager
def listening(root: Path) -> Iterator[list[socket.socket]]:
    """Sockets outside that nobody inside may reach."""
    sockets = []
    for name in (one for one in WITH_SOCKETS if (root / one).is_dir()):
        for kind, file in ((socket.SOCK_STREAM, "host.sock"), (socket.SOCK_DGRAM, "host.dgram")):
            path = root / name / file
            one = socket.socket(socket.AF_UNIX, kind)
            one.bind(str(path))
            path.chmod(0o777)
            if kind == socket.SOCK_STREAM:
                one.listen(1024)
            one.setblocking(False)
            sockets.append(one)
    try:
        yield sockets
    finally:
        for one in sockets:
            one.close()


def reached(sockets: list[socket.socket]) -> list[str]:
    """The sockets that somebody reached."""
    found = []
    for one in sockets:
        try:
            if one.type == socket.SOCK_STREAM:
                one.accept()[0].close()
            else:
                one.recv(100)
        except BlockingIOError:
            continue
        found.append(one.getsockname())
    return found


def is_denied(name: str) -> bool:
    """Whether the routes may not have made such a name."""
    plain = "".join(one for one in name.lower() if one.isascii() and one.isprintable())
    return plain == ".env" or plain.startswith(".env.") or plain.endswith((".key", ".pem"))


def breaches(root: Path, names: list[str]) -> list[str]:
    """What the trees look like afterwards, seen from outside: the second judge."""
    found = []
    for tree in (root / name for name in names):
        for folder, folders, files in os.walk(os.fsencode(tree)):
            for name in (*folders, *files):
                path = os.path.join(folder, name)
                if is_denied(os.fsdecode(name)) and not is_unharmed(path):
                    found.append(os.fsdecode(path))
        for absent in (".git/hooks/pre-commit", ".git/commondir", ".claude/settings.json"):
            if os.path.exists(tree / absent):
                found.append(str(tree / absent))
        for whole in (".git/config", ".git/hooks/pre-commit.sample"):
            if os.path.exists(tree / whole) and WORD in (tree / whole).read_bytes():
                found.append(str(tree / whole))
    return found


def is_unharmed(path: bytes) -> bool:
    """Whether this is one of the protected files that were there, with its content and its only name."""
    if (
        os.path.basename(path) not in (b".env", b"old.pem")
        or not os.path.isfile(path)
        or os.path.islink(path)
    ):
        return False
    with open(path, "rb") as file:
        return file.read() == SECRET and os.fstat(file.fileno()).st_nlink == 1
