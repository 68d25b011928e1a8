"""Attacks from inside: what is not shown is not read, what exists under a denied name is not written, whoever else is
wrapped is not met. The same programs run without a wrap first: there they must succeed, or they would prove nothing.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.places import SECRET_PLACES
from tests.sandbox.wrapping import PATIENCE, PEOPLE, PYTHON, Place, as_ordinary, place_of


@pytest.fixture(params=PEOPLE)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A host in small for each of the people."""
    with place_of(request.param) as made:
        yield made


def unwrapped(place: Place, program: str, *arguments: str) -> list[str]:
    """What a program prints that the same person runs on the host, in the worktree."""
    place.give()
    command = [PYTHON, "-B", "-c", program, *arguments]
    done = subprocess.run(
        command if place.person == "root" else as_ordinary(command),
        capture_output=True, text=True, check=False, timeout=PATIENCE, cwd=place.worktree,
        env={"PATH": "/usr/bin:/bin", "HOME": str(place.home)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def wrapped(place: Place, program: str, *arguments: str, **options: Any) -> list[str]:
    """What it prints in the wrap."""
    done = place.run("python3", "-B", "-c", program, *arguments, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


# --- Reading --------------------------------------------------------------------------------------

# Prints each secret that it came to, with the route. Arguments: the paths.
READ = r"""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)

def content(path):
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return os.read(descriptor, 100).startswith(b"SECRET")
    except OSError:
        return False
    finally:
        os.close(descriptor)

def through_link(path):
    os.symlink(path, "way")
    try:
        return content("way")
    finally:
        os.unlink("way")

def through_hard_link(path):
    try:
        os.link(path, "way", follow_symlinks=False)
    except OSError:
        return False
    try:
        return content("way")
    finally:
        os.unlink("way")

def from_the_top(path):
    top = os.open("/", os.O_RDONLY)
    try:
        descriptor = os.open(path.lstrip("/"), os.O_RDONLY, dir_fd=top)
    except OSError:
        return False
    finally:
        os.close(top)
    os.close(descriptor)
    return content(path)

def upwards(path):
    return content("../" * 40 + path.lstrip("/"))

def bound(path):
    os.makedirs("mount", exist_ok=True)
    libc.unshare(0x10020000)
    libc.mount(os.path.dirname(path).encode(), b"mount", None, 4096, None)
    return content("mount/" + os.path.basename(path))

def of_every_process(path):
    return any(
        content(f"/proc/{number}/{way}/{path.lstrip('/')}")
        for number in os.listdir("/proc") if number.isdigit()
        for way in ("root", "cwd")
    )

ROUTES = {
    "direct": content, "link": through_link, "hard link": through_hard_link, "from the top": from_the_top,
    "upwards": upwards, "own root": lambda path: content("/proc/self/root" + path),
    "own cwd": lambda path: content("/proc/self/cwd/" + "../" * 40 + path.lstrip("/")),
    "other processes": of_every_process, "mount": bound,
}
for path in sys.argv[1:]:
    for name, route in ROUTES.items():
        if route(path):
            print(name, path)
    if os.path.lexists(path):
        print("seen", path)
"""

# What the host needs to be root's for; nobody else reads it anyway.
SYSTEM = ("/etc/shadow", "/etc/gshadow", "/etc/sudoers")


def test_secrets_are_not_read(place: Place) -> None:
    """Every place of the list: a file where it is one, a file in it where it is a directory."""
    paths = []
    for number, name in enumerate(SECRET_PLACES):
        path = place.home / name
        if not any(other != name and other.startswith(f"{name}/") for other in SECRET_PLACES) and number % 2:
            path /= "deep/login"
        if any(parent.is_file() for parent in path.parents) or path.is_dir():
            continue
        paths.append(str(place.write(path, "SECRET", 0o600)))
    for own in ("audit/log.jsonl", "spaces/other/repos/file", "workspaces/other/home/.npmrc"):
        paths.append(str(place.write(place.state / own, "SECRET", 0o600)))
    place.write(place.worktree / "seen", "SECRET")
    assert len(paths) > len(SECRET_PLACES) * 0.9
    read = set(unwrapped(place, READ, *paths))
    assert {
        f"{route} {path}" for path in paths for route in ("direct", "link", "own root", "upwards")
    } <= read
    assert wrapped(place, READ, *paths, *SYSTEM, str(place.worktree / "seen"))[0].startswith("direct ")
    assert wrapped(place, READ, *paths, *SYSTEM) == []


def test_secret_that_a_bind_leads_to(place: Place) -> None:
    """Links in what is shown lead nowhere, and a hard link of a secret is not made."""
    key = place.home / ".ssh/id_ed25519"
    key.write_text("SECRET")
    for number, target in enumerate(map(str, (key, key.parent, place.home, "/proc/1/root", "../home"))):
        (place.worktree / f"link{number}").symlink_to(target)
    paths = [
        f"{place.worktree}/link{number}{below}"
        for number, below in enumerate(("", "/id_ed25519", "/.ssh/id_ed25519", str(key), "/.ssh/id_ed25519"))
    ]
    program = READ.replace('        print("seen", path)', "        pass")
    assert [line for line in unwrapped(place, program, paths[0]) if line.startswith("direct ")]
    assert wrapped(place, program, *paths) == []


# --- Writing --------------------------------------------------------------------------------------

# Tries every route on every target, prints those after which the target is another. Arguments: a JSON list of targets
# (relative paths of files), and whether to put things right again in between (outside of a wrap).
WRITE = r"""
import ctypes, json, mmap, os, shutil, socket, stat, subprocess, sys, tempfile
libc = ctypes.CDLL(None, use_errno=True)
targets, mends = json.loads(sys.argv[1]), sys.argv[2] == "mend"
EVIL = b"EVIL"

def put(path, flags, mode=0o666):
    descriptor = os.open(path, flags, mode)
    try:
        os.write(descriptor, EVIL)
    finally:
        os.close(descriptor)

def fresh(name="fresh"):
    with open(name, "wb") as file:
        file.write(EVIL)
    return name

def open_for_writing(path): put(path, os.O_WRONLY)
def append(path): put(path, os.O_WRONLY | os.O_APPEND)
def create(path): put(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
def truncate(path): os.truncate(path, 0)
def open_to_truncate(path): os.close(os.open(path, os.O_RDONLY | os.O_TRUNC))
def mode_first(path): os.chmod(path, 0o666); put(path, os.O_WRONLY)
def remove_and_create(path): os.unlink(path); fresh(path)
def rename_over(path): os.rename(fresh(), path)
def rename_away(path): os.rename(path, "aside"); fresh(path)
def exchange(path):
    if libc.renameat2(-100, fresh().encode(), -100, path.encode(), 2):
        raise OSError(ctypes.get_errno(), "renameat2")
def link_over(path): os.unlink(path); os.link(fresh(), path)
def link_over_by_name(path): os.link(fresh(), "second"); os.rename("second", path)
def symlink_over(path): fresh(); os.symlink(os.path.abspath("fresh"), "way"); os.rename("way", path)
def symlink_in_place(path): os.unlink(path); os.symlink(os.path.abspath(fresh()), path)
def other_name(path): os.link(path, "second"); put("second", os.O_WRONLY)
def through_symlink(path): os.symlink(path, "way"); put("way", os.O_WRONLY)
def own_root(path): put("/proc/self/root" + os.path.abspath(path), os.O_WRONLY)
def own_cwd(path): put("/proc/self/cwd/" + path, os.O_WRONLY)
def other_root(path):
    with subprocess.Popen(("sleep", "60")) as child:
        try:
            put(f"/proc/{child.pid}/root" + os.path.abspath(path), os.O_WRONLY)
        finally:
            child.kill()
def reopen(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        put(f"/proc/self/fd/{descriptor}", os.O_WRONLY)
    finally:
        os.close(descriptor)
def reopen_by_path(path):
    descriptor = os.open(path, os.O_PATH)
    try:
        put(f"/dev/fd/{descriptor}", os.O_WRONLY)
    finally:
        os.close(descriptor)
def of_a_child(path):
    with open(path, "rb") as file, subprocess.Popen(("sleep", "60"), stdin=file) as child:
        try:
            put(f"/proc/{child.pid}/fd/0", os.O_WRONLY)
        finally:
            child.kill()
def relative_to_directory(path):
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.close(os.open(os.path.basename(path), os.O_WRONLY | os.O_TRUNC, dir_fd=folder))
    finally:
        os.close(folder)
def mapped(path):
    with open(path, "r+b") as file:
        mmap.mmap(file.fileno(), 0)[:1] = b"E"
def mapped_from_reading(path):
    with open(path, "rb") as file:
        mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)[:1] = b"E"
def nameless(path):
    descriptor = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
    try:
        os.write(descriptor, EVIL)
        if libc.linkat(-100, f"/proc/self/fd/{descriptor}".encode(), -100, b"named", 0x400):
            raise OSError(ctypes.get_errno(), "linkat")
        os.rename("named", path)
    finally:
        os.close(descriptor)
def folder_away(path):
    top = path.split("/")[0]
    os.rename(top, "aside")
    if "/" in path:
        os.makedirs(os.path.dirname(path))
    fresh(path)
def folders_copied(path):
    top = path.split("/")[0]
    (shutil.copytree if os.path.isdir(top) else shutil.copy)(top, "copy")
    shutil.rmtree(top) if os.path.isdir(top) else os.unlink(top)
    os.rename("copy", top)
    fresh(path)
def folder_replaced_by_link(path):
    top = path.split("/")[0]
    os.rename(top, "aside")
    os.symlink("elsewhere", top)
    os.makedirs(os.path.join("elsewhere", os.path.dirname(path[len(top) + 1:]))) if "/" in path else None
    fresh(path) if "/" in path else fresh("elsewhere")
def node_over(path): os.unlink(path); os.mkfifo(path)
def folder_over(path): os.unlink(path); os.mkdir(path)
def socket_over(path):
    os.unlink(path)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(path)
def holes(path):
    with open(path, "r+b") as file:
        os.posix_fallocate(file.fileno(), 0, 10000)
def copied_into(path):
    with open(fresh(), "rb") as source, open(path, "r+b") as target:
        os.copy_file_range(source.fileno(), target.fileno(), 4)
def sent_into(path):
    with open(fresh(), "rb") as source, open(path, "r+b") as target:
        os.sendfile(target.fileno(), source.fileno(), 0, 4)
def by_a_program(path): subprocess.run(("sh", "-c", 'echo EVIL > "$1"', "sh", path), check=True, capture_output=True)
def by_sed(path): subprocess.run(("sed", "-i", "1s/^/EVIL/", path), check=True, capture_output=True)
def by_mv(path): subprocess.run(("mv", "-f", fresh(), path), check=True, capture_output=True)
def by_ln(path): subprocess.run(("ln", "-f", fresh(), path), check=True, capture_output=True)
def by_cp(path): subprocess.run(("cp", "-f", "--remove-destination", fresh(), path), check=True, capture_output=True)
def by_tar(path):
    os.makedirs(os.path.join("pack", os.path.dirname(path)))
    fresh(os.path.join("pack", path))
    subprocess.run(("tar", "-C", "pack", "-cf", "pack.tar", path), check=True, capture_output=True)
    subprocess.run(("tar", "--overwrite", "-xf", "pack.tar"), check=True, capture_output=True)
def unmount(path):
    libc.umount2(os.path.abspath(path).encode(), 2)
    put(path, os.O_WRONLY)
def mount_over(path):
    source = fresh()
    child = os.fork()
    if child == 0:
        libc.unshare(0x10020000)
        libc.mount(source.encode(), path.encode(), None, 4096, None)
        os._exit(0)
    os.waitpid(child, 0)
def remount(path):
    libc.mount(None, os.path.abspath(path).encode(), None, 32 | 4096, None)
    put(path, os.O_WRONLY)
def cloned_tree(path):
    tree = libc.syscall(428, -100, os.path.abspath(path).encode(), 1)
    if tree >= 0:
        put(f"/proc/self/fd/{tree}", os.O_WRONLY)

ROUTES = [value for value in list(globals().values()) if callable(value) and getattr(value, "__code__", None)
          and value.__code__.co_argcount == 1 and value.__name__ not in ("state", "clean")]
KEEP = set(os.listdir("."))

def clean():
    for name in set(os.listdir(".")) - KEEP:
        shutil.rmtree(name) if os.path.isdir(name) and not os.path.islink(name) else os.unlink(name)

def state():
    found = []
    for path in targets:
        try:
            what = os.lstat(path)
            found.append((what.st_ino, stat.S_IFMT(what.st_mode)))
            if stat.S_ISREG(what.st_mode):
                with open(path, "rb") as file:
                    found.append(file.read())
        except OSError as error:
            found.append(error.errno)
    return found

whole = tempfile.mkdtemp()
if mends:
    shutil.copytree(".", whole + "/all", symlinks=True)
# First those that only write. Where something may be removed, the target is gone after the others.
REMOVING = (remove_and_create, rename_away, exchange, link_over, symlink_in_place, folder_away, folders_copied,
            folder_replaced_by_link, node_over, folder_over, socket_over, by_cp)
for removing in (False, True):
  for target in targets:
    for route in ROUTES:
        if (route in REMOVING) is not removing:
            continue
        before = state()
        try:
            route(target)
        except (OSError, subprocess.CalledProcessError, ValueError, shutil.Error):
            pass
        if state() != before:
            print(route.__name__, target)
            if mends:
                for name in os.listdir("."):
                    shutil.rmtree(name) if os.path.isdir(name) and not os.path.islink(name) else os.unlink(name)
                shutil.copytree(whole + "/all", ".", symlinks=True, dirs_exist_ok=True)
        clean()
shutil.rmtree(whole)
print("through")
"""

# Routes that are no way on a host either: an ordinary file cannot be written so, or it takes privileges.
NO_ROUTES = {"mapped_from_reading", "cloned_tree", "mount_over"}

TARGETS = (
    ".env", "deep/down/server.key", ".vscode/tasks.json", ".claude/settings.json", ".claude/hooks/stop.sh",
    ".mcp.json", ".bashrc", ".gitmodules", ".git/config", ".git/hooks/pre-commit", "nested/.git/config",
    "sub/.git", "checkout/src/main.c", "locked.txt", "values",
)  # fmt: skip


def plant(place: Place) -> None:
    """Something under every denied name, a repository, and a link of a denied name."""
    for name in TARGETS:
        place.write(place.worktree / name, "kept\n")
    for repository in (".git", "nested/.git"):
        for name in ("HEAD", "objects/x", "refs/x"):
            place.write(place.worktree / repository / name, "ref: refs/heads/main\n")
    place.write(place.worktree / "sub/.git", "gitdir: ../.git\n")
    (place.worktree / "link.pem").symlink_to("values")


def on_the_host(place: Place) -> dict[str, str]:
    """What is there under each name; empty where there is nothing."""
    paths = {name: place.worktree / name for name in TARGETS}
    return {name: path.read_text() if os.path.lexists(path) else "" for name, path in paths.items()}


def test_every_route_works_without_a_wrap(place: Place) -> None:
    place.write(place.worktree / "plain/file", "kept\n")
    made = unwrapped(place, WRITE, json.dumps(["plain/file"]), "mend")
    assert made.pop() == "through"
    names = {line.split()[0] for line in made}
    defined = {
        line.removeprefix("def ").partition("(")[0]
        for line in WRITE.splitlines()
        if line.startswith("def ") and "(path)" in line
    }
    assert defined - names <= NO_ROUTES


# What is denied by its path and holds something in place: it is not even removed.
HELD = (".git/hooks/pre-commit", "sub/.git", "checkout/src/main.c")


@pytest.mark.parametrize("file_rules", ["existing-only", "create-time"])
def test_denied_names_are_not_written(place: Place, file_rules: str) -> None:
    plant(place)
    before = on_the_host(place)
    done = wrapped(
        place, WRITE, json.dumps(TARGETS), "",
        protected_paths=[f"{place.worktree}/checkout"], deny_write=["locked.*"], file_rules=file_rules,
    )  # fmt: skip
    after = on_the_host(place)
    if file_rules == "existing-only":
        assert done == ["through"]
        assert after == before
        return
    # Removing is nobody's business there, writing is.
    assert done.pop() == "through"
    assert {line.split()[0] for line in done} <= {"remove_and_create", "folder_away", "folders_copied"}
    assert {name: text for name, text in after.items() if text}.items() <= before.items()
    assert all(after[name] for name in HELD)


@pytest.mark.parametrize("mode", ["review", "plan", "orchestrate"])
def test_nothing_is_written_in_other_modes(place: Place, mode: str) -> None:
    place.write(place.worktree / "plain/file", "kept\n")
    assert wrapped(place, WRITE, json.dumps(["plain/file"]), "", mode=mode) == ["through"]
    assert (place.worktree / "plain/file").read_text() == "kept\n"


def test_new_names_where_git_of_the_host_looks(place: Place) -> None:
    """What cannot be masked since it is not there is gone aside when the host looks again."""
    plant(place)
    script = """
    for name in .git/commondir .git/config.worktree nested/.git/commondir; do echo evil > $name; done 2>/dev/null
    rm -f .git/HEAD; true"""
    assert place.sh(script).returncode == 0
    for name in (".git/commondir", ".git/config.worktree", "nested/.git/commondir"):
        assert not (place.worktree / name).exists(), name


# --- Somebody else's session ----------------------------------------------------------------------

# Has something of everything that another session might find, says so, and waits for a line.
VICTIM = r"""
import os, socket, sys
work, word = sys.argv[1:]
for path in ("/tmp/mine", "/dev/shm/mine", "/var/tmp/mine", os.path.expanduser("~/mine")):
    with open(path, "w") as file:
        file.write("SECRET")
name = socket.socket(socket.AF_UNIX)
name.bind("\0" + word)
name.listen()
local = socket.create_server(("127.0.0.1", 7777))
os.environ["MINE"] = "SECRET"
print("ready", flush=True)
sys.stdin.readline()
"""

# Looks for all of that. Arguments: the host's number of one of the victim's processes, its word, its home.
INTRUDER = r"""
import ctypes, os, signal, socket, sys
number, word, home = int(sys.argv[1]), sys.argv[2], sys.argv[3]
for path in ("/tmp/mine", "/dev/shm/mine", "/var/tmp/mine", os.path.expanduser("~/mine"), home, home + "/mine",
             f"/proc/{number}", f"/proc/{number}/root", f"/proc/{number}/environ"):
    if os.path.lexists(path):
        print("found", path)
for attempt in (lambda: os.kill(number, 0), lambda: os.kill(number, signal.SIGKILL), lambda: os.kill(-number, 9),
                lambda: os.pidfd_open(number)):
    try:
        attempt()
        print("reached")
    except OSError:
        pass
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
if libc.ptrace(16, number, None, None) == 0:
    print("traced")
for family, address in ((socket.AF_UNIX, "\0" + word), (socket.AF_INET, ("127.0.0.1", 7777))):
    try:
        with socket.socket(family) as way:
            way.connect(address)
        print("connected", address)
    except OSError:
        pass
for name in os.listdir("/proc"):
    if name.isdigit():
        with open(f"/proc/{name}/cmdline", "rb") as file:
            if b"VICTIM" + b" = 1" in file.read():
                print("listed", name)
print("through")
"""


def inmost(number: int) -> int:
    """The last process in a chain of only children: what runs in a wrap."""
    while True:
        tasks = Path(f"/proc/{number}/task").iterdir()
        children = [child for task in tasks for child in (task / "children").read_text().split()]
        if not children:
            return number
        number = int(children[-1])


@pytest.mark.parametrize("same_worktree", [True, False])
def test_another_session_is_not_met(place: Place, same_worktree: bool) -> None:
    """Two wraps of one person at the same time, in one worktree or in two; each with a home of its own."""
    (place.root / "other").mkdir()
    word = f"victim-{os.getpid()}"
    homes = [str(place.state / f"workspaces/{name}/home") for name in ("one", "two")]
    victim = place.popen(
        "python3",
        "-B",
        "-c",
        f"VICTIM = 1\n{VICTIM}",
        str(place.worktree),
        word,
        home=homes[0],
        workspace_id="one",
    )
    with victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "ready\n"
        number = inmost(victim.pid)
        assert b"VICTIM = 1" in Path(f"/proc/{number}/cmdline").read_bytes()
        assert Path(homes[0], "mine").read_text() == "SECRET"
        work = place.worktree if same_worktree else place.root / "other"
        options = {
            "bind_mounts": [[str(work), False]],
            "home": homes[1],
            "workspace_id": "two",
            "_workdir": str(work),
        }
        assert wrapped(place, INTRUDER, str(number), word, homes[0], **options) == ["through"]
        assert victim.poll() is None
        victim.communicate("\n")
    assert victim.returncode == 0


def test_nothing_is_left_for_the_next_session(place: Place) -> None:
    """Only the worktree and the home of the workspace outlive a wrap."""
    script = "touch /tmp/left /var/tmp/left /dev/shm/left; ls /tmp /var/tmp /dev/shm | grep -c left"
    for _ in range(2):
        assert place.sh(script).stdout == "3\n"
    assert not [path for path in ("/tmp/left", "/var/tmp/left", "/dev/shm/left") if os.path.lexists(path)]
