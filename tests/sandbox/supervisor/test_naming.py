"""rename, link, symlink, mknod and mkdir through the door: both names are judged, and what a directory brings along."""

import json
from collections.abc import Iterator

import pytest

from tests.sandbox.supervisor.supervised import TRY, Ground, ground_of, tried
from tests.sandbox.wrapping import PEOPLE


@pytest.fixture(params=PEOPLE)
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    with ground_of(request.param) as found:
        yield found


RENAMEAT2 = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
NUMBER = {"x86_64": 316, "aarch64": 276}[os.uname().machine]
def rename2(old, new, flags):
    if libc.syscall(NUMBER, -100, old.encode(), -100, new.encode(), flags):
        raise OSError(ctypes.get_errno(), "")
"""


def test_names(ground: Ground) -> None:
    ground.write(".env", "secret")
    seen = tried(
        ground,
        RENAMEAT2
        + """
put("a"); put("b"); os.mkdir("d")
t("rename to", lambda: os.rename("a", "a.key"))
t("rename from", lambda: os.rename(".env", "plain"))
t("rename over", lambda: os.rename("a", ".env"))
t("exchange", lambda: rename2("a", ".env", 2))
t("exchange, other way", lambda: rename2(".env", "a", 2))
t("whiteout", lambda: rename2(".env", "x", 4))
t("into a directory", lambda: os.rename("a", "d/.ENV"))
t("link to", lambda: os.link("a", "a.pem"))
t("link from", lambda: os.link(".env", "plain"))
t("symlink", lambda: os.symlink("a", ".env.local"))
t("symlink to what is there", lambda: os.symlink(".env", "plain"))
t("pipe", lambda: os.mkfifo("p.key"))
t("node", lambda: os.mknod("n.key"))
t("directory", lambda: os.mkdir(".vscode"))
def publish(name):
    os.link(f"/proc/self/fd/{os.open('.', os.O_TMPFILE | os.O_RDWR)}", name, src_dir_fd=0, follow_symlinks=True)
t("published", lambda: publish("x.p12"))
t("published freely", lambda: publish("x"))
t("renamed", lambda: os.rename("b", "c"))
t("exchanged", lambda: rename2("a", "c", 2))
t("unknown flag", lambda: rename2("a", "c", 16))
t("linked", lambda: os.link("a", "e"))
t("symlinked", lambda: os.symlink("a.key", "f"))
t("made", lambda: (os.mkfifo("p"), os.mkdir(".envs"), os.mknod("q"), None)[-1])
t("in private", lambda: (put("/var/tmp/.env"), os.rename("/var/tmp/.env", "/var/tmp/b.key"), None)[-1])
t("from private", lambda: os.rename("/var/tmp/b.key", "g"))
t("onto itself", lambda: os.rename("c", "c"))
""",
    )
    freely = (
        "published freely",
        "renamed",
        "exchanged",
        "linked",
        "symlinked",
        "made",
        "in private",
        "onto itself",
    )
    assert {name: seen.pop(name) for name in freely} == dict.fromkeys(freely, "ok")
    assert seen.pop("from private") == "EXDEV"
    assert seen.pop("unknown flag") == "EINVAL"
    assert set(seen.values()) == {"EACCES"}, seen
    assert (ground.root / ".env").read_text() == "secret"
    assert (ground.root / ".env").stat().st_nlink == 1


def test_what_lies_above_something_sealed(ground: Ground) -> None:
    ground.write("deep/down/kept/file", "kept")
    ground.write("other/kept/file", "evil")
    seen = tried(
        ground,
        RENAMEAT2
        + """
for name, call in {
    "itself": lambda: os.rename("deep/down/kept", "deep/down/x"),
    "parent": lambda: os.rename("deep/down", "deep/x"),
    "grandparent": lambda: os.rename("deep", "x"),
    "exchanged": lambda: rename2("other", "deep/down", 2),
    "replaced": lambda: rename2("other", "deep", 2),
    "into": lambda: os.rename("other/kept/file", "deep/down/kept/new"),
    "out of": lambda: os.rename("deep/down/kept/file", "x"),
    "linked": lambda: os.link("deep/down/kept/file", "x"),
    "written": lambda: put("deep/down/kept/file"),
    "by a link": lambda: (os.symlink("deep", "way"), put("way/down/kept/new")),
    "removed and moved back": lambda: (os.unlink("deep/down/kept/file"), os.rmdir("deep/down/kept"),
                                       os.rmdir("deep/down"), os.rename("other", "deep/down"))[-1],
    "removed and linked back": lambda: os.symlink("../other", "deep/down"),
    "a file in its place": lambda: put("deep/down"),
    "a pipe in its place": lambda: os.mkfifo("deep/down"),
    "a hard link in its place": lambda: os.link("other/kept/file", "deep/down"),
    "made anew": lambda: (os.mkdir("deep/down"), os.mkdir("deep/down/kept"))[-1],
    "another spelling": lambda: os.rename("other", "DEEP"),
}.items():
    t(name, call)
t("beside", lambda: put("deep/down/beside"))
""",
        sealed=[str(ground.root / "deep/down/kept")],
    )
    assert seen.pop("beside") == "ok"
    assert set(seen.values()) == {"EACCES"}, seen


def test_directories_under_rules_by_path(ground: Ground) -> None:
    ground.write(".claude/worktrees/x")
    ground.write("evil/hooks/run", "evil")
    seen = tried(
        ground,
        """
t("moved there", lambda: os.rename("evil", "sub/.claude") if os.mkdir("sub") is None else 0)
t("linked there", lambda: os.symlink("../evil", "sub/.claude"))
t("moved away", lambda: os.rename(".claude", "x"))
t("made there", lambda: os.mkdir("sub/.claude"))
t("written there", lambda: put("sub/.claude/notes"))
t("hooks there", lambda: os.mkdir("sub/.claude/hooks"))
t("moved into it", lambda: os.rename("evil/hooks", "sub/.claude/hooks"))
t("moved into it freely", lambda: os.rename("evil/hooks", "sub/.claude/other"))
""",
    )
    allowed = ("made there", "written there", "moved into it freely", "moved away")
    assert {name: seen.pop(name) for name in allowed} == dict.fromkeys(allowed, "ok")
    assert set(seen.values()) == {"EACCES"}, seen


def test_packages_keep_their_keys_among_themselves(ground: Ground) -> None:
    seen = tried(
        ground,
        """
os.makedirs("node_modules/a/b"); os.makedirs("node_modules/plain")
t("among packages", lambda: put("node_modules/a/b/ca.pem"))
t("moved among them", lambda: os.rename("node_modules/a", "node_modules/.a-1"))
t("moved out", lambda: os.rename("node_modules/.a-1", "a"))
t("all of them", lambda: os.rename("node_modules", "old"))
t("without keys", lambda: os.rename("node_modules/plain", "plain"))
t("the key itself", lambda: os.rename("node_modules/.a-1/b/ca.pem", "ca.pem"))
t("the key, renamed", lambda: os.rename("node_modules/.a-1/b/ca.pem", "ca.txt"))
""",
    )
    assert seen == {
        "among packages": "ok", "moved among them": "ok", "moved out": "EACCES", "all of them": "EACCES",
        "without keys": "ok", "the key itself": "EACCES", "the key, renamed": "ok",
    }  # fmt: skip


def test_odd_arguments(ground: Ground) -> None:
    """As the kernel answers without the door."""
    script = (
        TRY
        + RENAMEAT2
        + """
put("a"); os.mkdir("d"); os.mkdir("e"); os.symlink("d", "l"); os.symlink("no", "dangling"); os.mkdir("f"); put("f/x")
for old in ("a", "a/", "d", "d/", "l", "l/", "dangling/", "no", "", ".", "..", "d/.", "d/..", "/", "x" * 256, "a/x"):
    for new in ("b", "b/", "f", "e/", "..", "f/.", "no/x", "a", ""):
        t(f"rename {old[:9]} {new}", lambda: os.rename(old, new))
        if seen[f"rename {old[:9]} {new}"] == "ok" and new != old:
            os.rename(new.rstrip("/"), old.rstrip("/"))
            os.makedirs("e", exist_ok=True)
        t(f"link {old[:9]} {new}", lambda: os.link(old, new))
        if seen[f"link {old[:9]} {new}"] == "ok": os.unlink(new)
for path in ("g/", "l/g", "dangling", "dangling/", "d", "d/", ".", "..", "", "a/g", "no/g", "/", "y" * 256):
    t(f"mkdir {path[:9]}", lambda: os.mkdir(path, 0o7777))
    t(f"mkfifo {path[:9]}", lambda: os.mkfifo(path))
    t(f"symlink {path[:9]}", lambda: os.symlink("a", path))
t("symlink to nothing", lambda: os.symlink("", "s"))
t("device", lambda: os.mknod("dev", 0o020600, os.makedev(1, 3)))
t("directory by mknod", lambda: os.mknod("dir", 0o040700))
told()
"""
    )
    with_door = ground.python(script)
    with ground_of(ground.person) as other:
        without = other.python(script, door=False)
    assert (with_door.code, without.code) == (0, 0), with_door.err + without.err
    found, expected = json.loads(with_door.out), json.loads(without.out)
    differing = {
        name: (found[name], expected[name])
        for name in expected
        if (found[name] == "ok") != (expected[name] == "ok")
    }
    assert not differing
    assert sum(found[name] != expected[name] for name in expected) <= 8  # which of two errors comes first


def test_another_name_of_a_link_is_a_link(ground: Ground) -> None:
    """A hard link of one brings along what it leads to, and so does moving one to where it leads elsewhere."""
    ground.write("evil/settings.json", "evil")
    ground.write(".env", "secret")
    seen = tried(
        ground,
        """
os.mkdir("sub"); os.mkdir("sub/sub")
t("made", lambda: os.symlink("evil", "s"))
t("linked", lambda: os.link("s", ".claude", follow_symlinks=False))
t("linked elsewhere", lambda: os.link("s", "other", follow_symlinks=False))
t("leads nowhere", lambda: os.symlink("../.env", "sub/sub/al"))
t("moved to where it leads to a secret", lambda: os.rename("sub/sub/al", "sub/al"))
t("linked to where it does", lambda: os.link("sub/sub/al", "sub/al", follow_symlinks=False))
""",
    )
    allowed = ("made", "linked elsewhere", "leads nowhere")
    assert {name: seen.pop(name) for name in allowed} == dict.fromkeys(allowed, "ok")
    assert set(seen.values()) == {"EACCES"}, seen


def test_what_cannot_be_looked_into_does_not_leave_the_packages(ground: Ground) -> None:
    seen = tried(
        ground,
        """
os.makedirs("node_modules/p/sub"); os.makedirs("node_modules/r"); os.makedirs("node_modules/closed/sub")
put("node_modules/p/sub/x.pem"); put("node_modules/r/x.pe\\u200bm"); put("node_modules/closed/sub/x.pem")
os.chmod("node_modules/closed/sub", 0)
t("below", lambda: os.rename("node_modules/p", "p"))
t("in another spelling", lambda: os.rename("node_modules/r", "r"))
t("closed", lambda: os.rename("node_modules/closed", "closed"))
os.chmod("node_modules/closed/sub", 0o700)
""",
    )
    assert set(seen.values()) == {"EACCES"}, seen


def test_what_an_exception_let_be_made_stays_where_it_holds(ground: Ground) -> None:
    cache = f"{ground.root}/cache/*"
    seen = tried(
        ground,
        """
os.makedirs("cache/d/.vscode"); os.makedirs("cache/.claude/hooks"); os.makedirs("cache/plain/x")
put("cache/d/.vscode/tasks.json"); put("cache/.claude/settings.json"); put("cache/plain/x/y")
t("with a denied name", lambda: os.rename("cache/d", "d"))
t("under a rule by path", lambda: os.rename("cache/.claude", ".claude"))
t("the place itself", lambda: os.rename("cache", "other"))
t("within", lambda: os.rename("cache/d", "cache/e"))
t("with nothing of the kind", lambda: os.rename("cache/plain", "plain"))
""",
        allow_write=[cache],
    )
    assert (seen.pop("within"), seen.pop("with nothing of the kind")) == ("ok", "ok")
    assert set(seen.values()) == {"EACCES"}, seen


def test_paths_that_are_too_long(ground: Ground) -> None:
    """A path has 4095 characters at most, a name 255. In a directory whose own path is longer nothing is made, since
    nobody could say under which name: the kernel tells no such path."""
    seen = tried(
        ground,
        """
here = os.getcwd()
def long(size):
    fill = size - len(here) - 2
    return here + "/" + "./" * (fill // 2) + "/" * (fill % 2) + "x"
calls = {
    "open": lambda path: put(path), "mkdir": lambda path: os.mkdir(path), "mknod": lambda path: os.mknod(path),
    "symlink": lambda path: os.symlink("t", path), "link": lambda path: os.link("f", path),
    "rename": lambda path: os.rename("f", path), "rename from": lambda path: os.rename(path, "g"),
    "truncate": lambda path: os.truncate(path, 0), "symlink to": lambda path: os.symlink(path, "s"),
}
put("f")
for name, call in calls.items():
    t(name + " too long", lambda: call(long(4096)))
    t(name + " far too long", lambda: call(long(9000)))
    t(name + " name", lambda: call("n" * 256))
t("fits", lambda: put(long(4095)))
os.unlink("x")
for depth in range(20):
    os.mkdir("d" * 250)
    os.chdir("d" * 250)
    if len(here) + 251 * (depth + 2) >= 4096:
        break
t("deep", lambda: put("x"))
t("deeper", lambda: os.mkdir("d" * 250))
os.chdir("d" * 250)
t("deepest", lambda: put("x"))
""",
    )
    for name in ("fits", "deep", "deeper"):
        assert seen.pop(name) == "ok", name
    assert seen.pop("symlink to name") == "ok"
    assert set(seen.values()) == {"ENAMETOOLONG"}, seen
