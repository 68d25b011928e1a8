"""The search for names that exist and are denied: what gets which mask, in real trees."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from sandbox import masks
from sandbox.filerules import FileRules, NameRules
from sandbox.masks import Mask, MaskKind, Search
from tests.sandbox.wrapping import NOBODY

PIN, READ_ONLY, FILE, FOLDER = MaskKind.PIN, MaskKind.READ_ONLY, MaskKind.EMPTY_FILE, MaskKind.EMPTY_FOLDER


def build(root: Path, names: tuple[str, ...]) -> None:
    """Files; "name/" is a directory, "name -> target" a link."""
    for name in names:
        path, arrow, target = name.partition(" -> ")
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if arrow:
            place.symlink_to(target)
        elif path.endswith("/"):
            place.mkdir(exist_ok=True)
        else:
            place.touch()


def search(
    root: Path,
    rules: FileRules | None = None,
    read_only: bool = False,
    roots: Mapping[str, bool] | None = None,
    sealed: tuple[str, ...] = (),
) -> Search:
    """A walk over one bound directory; `roots` are other binds, `sealed` protected paths, both relative."""
    others = {f"{root}/{name}": only for name, only in (roots or {}).items()}
    places = [f"{root}/{name}" for name in sealed]
    found = Search(NameRules(rules or FileRules()), {str(root): read_only, **others}, places)
    found.walk(str(root), read_only)
    return found


def masked(root: Path, found: Search, pins: bool = False) -> dict[str, MaskKind]:
    """The masks that were found, relative to the root; with `pins` also what is pinned for what lies below."""
    order = found.in_order()
    assert [mask.path.count("/") for mask in order] == sorted(mask.path.count("/") for mask in order)
    assert len({mask.path for mask in order}) == len(order)
    return {os.path.relpath(mask.path, root): mask.kind for mask in order if pins or mask.path in found.masks}


# A repository as git makes it, as far as the search looks at it.
GIT = (".git/HEAD", ".git/objects/", ".git/refs/", ".git/hooks/", ".git/config")
GIT_MASKS = {".git": PIN, ".git/hooks": READ_ONLY, ".git/config": READ_ONLY}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), {}),
        (("README.md", "src/main.py", "keys", "a.pem.txt", "monkey", ".envrc", ".env.example"), {}),
        ((".env", "deep/down/.env.local"), {".env": READ_ONLY, "deep/down/.env.local": READ_ONLY}),
        ((".ENV", "Server.KEY"), {".ENV": READ_ONLY, "Server.KEY": READ_ONLY}),
        # a directory of a denied name is one mask, and not searched
        ((".vscode/settings.json", ".vscode/.env"), {".vscode": READ_ONLY}),
        ((".env/bin/python",), {".env": READ_ONLY}),
        # by the end of the path
        (
            (".claude/settings.json", ".claude/notes", ".claude/agents/a.md", "x/.claude/hooks/"),
            {".claude/settings.json": READ_ONLY, ".claude/agents": READ_ONLY, "x/.claude/hooks": READ_ONLY},
        ),
        # installed packages bring keys of their own
        (("node_modules/a/cert.pem", "venv/lib/python3/site-packages/certifi/cacert.pem"), {}),
        (("deep/node_modules/.env", "node_modules.old/a.pem"), {"node_modules.old/a.pem": READ_ONLY}),
        (("node_modules",), {}),
        # repositories
        (GIT, GIT_MASKS),
        ((*GIT, ".git/config.worktree"), {**GIT_MASKS, ".git/config.worktree": READ_ONLY}),
        ((*GIT, ".git/objects/a.pem", ".git/refs/heads/.env"), GIT_MASKS),
        ((".git/HEAD", ".git/objects/", ".git/refs/"), {".git": PIN}),
        (
            tuple(f"nested/{name}" for name in GIT),
            {f"nested/{name}": kind for name, kind in GIT_MASKS.items()},
        ),
        # a bare one, and the directories of submodules
        (
            ("bare.git/HEAD", "bare.git/objects/", "bare.git/refs/", "bare.git/config"),
            {"bare.git": PIN, "bare.git/config": READ_ONLY},
        ),
        (
            (*GIT, *(f".git/modules/lib/part/{name.removeprefix('.git/')}" for name in GIT)),
            {
                **GIT_MASKS,
                ".git/modules/lib/part": PIN,
                ".git/modules/lib/part/hooks": READ_ONLY,
                ".git/modules/lib/part/config": READ_ONLY,
            },
        ),
        # entries of linked worktrees
        (
            (*GIT, ".git/worktrees/one/commondir", ".git/worktrees/one/gitdir", ".git/worktrees/one/HEAD"),
            {
                **GIT_MASKS,
                ".git/worktrees/one": PIN,
                ".git/worktrees/one/commondir": READ_ONLY,
                ".git/worktrees/one/gitdir": READ_ONLY,
            },
        ),
        # what is none: its names are ordinary ones
        (("a.git/HEAD", "a.git/objects/", "a.git/config", "a.git/.env"), {"a.git/.env": READ_ONLY}),
        # but `.git` is one in any state: an earlier session may have taken its HEAD away for a while
        ((".git/objects/", ".git/config", ".git/.env"), {".git": PIN, ".git/config": READ_ONLY}),
        # what says that configuration and hooks are elsewhere
        (
            (*GIT, ".git/commondir", ".git/GITDIR"),
            {**GIT_MASKS, ".git/commondir": READ_ONLY, ".git/GITDIR": READ_ONLY},
        ),
        # the pointer of a linked worktree or submodule
        ((".git", "lib/part/.git"), {".git": READ_ONLY, "lib/part/.git": READ_ONLY}),
        # a link is masked where it leads, if that is shown
        ((".env -> config/values", "config/values"), {"config/values": READ_ONLY}),
        ((".env -> /etc/hostname", "a.pem -> ../outside", "b.key -> missing", "c.key -> c.key"), {}),
        # not where that is everything, or the link itself: it would be an easy way to make all read-only
        (("a.pem -> .", "x/a.pem -> ..", "x/y/b.pem -> ..", "x/y/c.pem -> ../../x/y", "x/y/file"), {}),
        (("x/a.pem -> ../y", "y/file"), {"y": READ_ONLY}),
        # a link in the place of a directory with denied entries
        (
            (
                ".claude -> kept/claude",
                "kept/claude/settings.json",
                "kept/claude/notes",
                "kept/claude/hooks/x",
            ),
            {"kept/claude/settings.json": READ_ONLY, "kept/claude/hooks": READ_ONLY},
        ),
        (
            (".claude -> .", "settings.json", "hooks -> .", ".config -> x", "x/.env"),
            {"settings.json": READ_ONLY, "x/.env": READ_ONLY},
        ),
        ((".claude -> .claude", ".config -> missing", ".git -> .git"), {}),
        # links are not followed in the search
        (("real/.env", "link -> real"), {"real/.env": READ_ONLY}),
        (("loop -> .", "up -> ..", "root -> /"), {}),
        ((".git/hooks -> ../scripts", *GIT[:3], "scripts/"), {".git": PIN, "scripts": READ_ONLY}),
        ((".git/hooks -> /usr/share", *GIT[:3]), {".git": PIN}),
    ],
)
def test_masks(tmp_path: Path, names: tuple[str, ...], expected: dict[str, MaskKind]) -> None:
    build(tmp_path / "work", names)
    (tmp_path / "work").mkdir(exist_ok=True)
    assert masked(tmp_path / "work", search(tmp_path / "work")) == expected


def test_git_directory_that_is_a_link_stays_usable(tmp_path: Path) -> None:
    """Where it leads gets the masks of a repository, and not one over all of it."""
    build(tmp_path, (*(f"kept/{name}" for name in GIT), ".git -> kept/.git"))
    assert masked(tmp_path, search(tmp_path)) == {f"kept/{name}": kind for name, kind in GIT_MASKS.items()}


def test_real_repositories(tmp_path: Path) -> None:
    main = tmp_path / "main"
    script = f"""
    git init -q {main} && cd {main}
    git -c user.name=A -c user.email=a@b.test commit -q --allow-empty -m first
    git worktree add -q {main}/trees/one && git init -q --bare {main}/bare.git"""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(("sh", "-ec", script), env=environment, check=True, capture_output=True)
    assert masked(main, search(main)) == {
        **GIT_MASKS,
        ".git/worktrees/one": PIN,
        ".git/worktrees/one/commondir": READ_ONLY,
        ".git/worktrees/one/gitdir": READ_ONLY,
        "trees/one/.git": READ_ONLY,
        "bare.git": PIN,
        "bare.git/hooks": READ_ONLY,
        "bare.git/config": READ_ONLY,
    }


# --- Hiding ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("globs", "names", "expected"),
    [
        (("plans.*",), ("plans.txt", "x/plans.md", "plan"), {"plans.txt": FILE, "x/plans.md": FILE}),
        (("private",), ("private/.env", "x/private"), {"private": FOLDER, "x/private": FILE}),
        (("ROOT/a/*",), ("a/one", "a/b/two", "b/one"), {"a/one": FILE, "a/b": FOLDER}),
        (("*/a",), ("x/a -> ../b", "b"), {"b": FILE}),
        (("*/a",), ("x/a -> ../b", "b/"), {"b": FOLDER}),
        # hidden beats unwritable, also by way of a link that somebody left
        ((".env",), (".env", ".env.local"), {".env": FILE, ".env.local": READ_ONLY}),
        (("plans",), ("plans", "a.key -> plans", "z.key -> plans"), {"plans": FILE}),
        (("plans",), ("plans/x", "a.key -> plans/x", "z.key -> plans/x"), {"plans": FOLDER}),
        # inside of what cannot be written, and of a repository
        (("plans",), (".vscode/plans", ".vscode/x/.env"), {".vscode": READ_ONLY, ".vscode/plans": FILE}),
        (("*/.git/config",), GIT, {".git": PIN, ".git/hooks": READ_ONLY, ".git/config": FILE}),
        ((".git",), GIT, {".git": FOLDER}),
    ],
)
def test_hidden(
    tmp_path: Path, globs: tuple[str, ...], names: tuple[str, ...], expected: dict[str, MaskKind]
) -> None:
    build(tmp_path, names)
    rules = FileRules(deny_read=tuple(glob.replace("ROOT", str(tmp_path)) for glob in globs))
    assert masked(tmp_path, search(tmp_path, rules)) == expected


def test_read_only_bind_needs_only_what_hides(tmp_path: Path) -> None:
    build(tmp_path, (*GIT, ".env", "plans", "trees/.git"))
    found = search(tmp_path, FileRules(deny_read=("plans",)), read_only=True)
    assert masked(tmp_path, found) == {"plans": FILE}


@pytest.mark.parametrize("folder", ["node_modules", "site-packages"])
def test_rules_of_the_operator_hold_among_installed_packages(tmp_path: Path, folder: str) -> None:
    """Only the shipped names make an exception there; what somebody spelled out is meant."""
    build(
        tmp_path, (f"{folder}/a/plans", f"{folder}/a/b/lock", f"{folder}/a/cert.pem", f"{folder}/.vscode/x")
    )
    rules = FileRules(deny_read=("plans",), deny_write=("lock",))
    assert masked(tmp_path, search(tmp_path, rules)) == {
        f"{folder}/a/plans": FILE,
        f"{folder}/a/b/lock": READ_ONLY,
    }


# --- Sockets --------------------------------------------------------------------------------------


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory whose path is short enough for sockets."""
    root = Path(tempfile.mkdtemp(prefix="mask-", dir="/tmp")).resolve()
    root.chmod(0o755)
    yield root
    shutil.rmtree(root)


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(
    "path",
    [
        "s",
        "deep/down/s",
        ".git/fsmonitor--daemon.ipc",
        ".git/worktrees/one/fsmonitor--daemon.ipc",
        ".vscode/x/s",
        "s.key",
        "node_modules/a/b/s",
        "venv/lib/python3/site-packages/s",
        "node_modules/s",
        ".git/objects/00/s",
        ".git/hooks/s",
        ".git/info/deep/s",
        ".git/modules/s",
        ".git/worktrees/s",
        ".git/worktrees/one/logs/s",
    ],
)
def test_sockets_of_the_host(short: Path, path: str, read_only: bool) -> None:
    build(short, (*GIT, f"{os.path.dirname(path) or '.'}/"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{short}/{path}")
    os.mkfifo(short / "pipe")
    found = masked(short, search(short, read_only=read_only))
    assert found.pop(path) is FILE
    assert FILE not in found.values()
    assert not (read_only and found)


# --- Several binds --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        (False, False, {"inner/values": READ_ONLY}),
        (False, True, {}),  # it cannot be written anyway
        (True, False, {"inner/values": READ_ONLY}),
        (True, True, {}),
    ],
)
def test_the_innermost_bind_decides(
    tmp_path: Path, outer: bool, inner: bool, expected: dict[str, MaskKind]
) -> None:
    build(tmp_path, (".env -> inner/values", "inner/values"))
    found = Search(NameRules(FileRules()), {str(tmp_path): outer, f"{tmp_path}/inner": inner}, ())
    found.walk(str(tmp_path), read_only=False)
    assert masked(tmp_path, found) == expected


def test_link_into_another_bind(tmp_path: Path) -> None:
    build(
        tmp_path, ("one/.env -> ../two/values", "two/values", "three/values", "one/a.key -> ../three/values")
    )
    found = Search(NameRules(FileRules()), {f"{tmp_path}/one": False, f"{tmp_path}/two": False}, ())
    found.walk(f"{tmp_path}/one", read_only=False)
    assert masked(tmp_path, found) == {"two/values": READ_ONLY}


def test_what_hides_wins_whatever_comes_first(tmp_path: Path) -> None:
    build(tmp_path, ("a",))
    for kinds in (
        (PIN, FILE),
        (PIN, READ_ONLY, FILE),
        (FILE, READ_ONLY),
        (FILE, PIN),
        (READ_ONLY, PIN, FILE),
    ):
        found = Search(NameRules(FileRules()), {str(tmp_path): False}, ())
        for kind in kinds:
            found.add(f"{tmp_path}/a", kind)
        assert masked(tmp_path, found) == {"a": FILE}, kinds
    found = Search(NameRules(FileRules()), {str(tmp_path): False}, ())
    for kind in (PIN, READ_ONLY, PIN):
        found.add(f"{tmp_path}/a", kind)
    assert masked(tmp_path, found) == {"a": READ_ONLY}


# --- Protected paths ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "path", "expected"),
    [
        (("a",), "a", {"a": READ_ONLY}),
        (("a/b/c",), "a/b/c", {"a": PIN, "a/b": PIN, "a/b/c": READ_ONLY}),
        # what is stronger already stays so
        ((".vscode/a/b",), ".vscode/a/b", {".vscode": READ_ONLY}),
        ((".vscode/a/b",), ".vscode", {".vscode": READ_ONLY}),
        (("a/.vscode/b/c",), "a/.vscode/b/c", {"a": PIN, "a/.vscode": READ_ONLY}),
        (("plans/a",), "plans/a", {"plans": FOLDER}),
        (("plans",), "plans", {"plans": FILE}),
        ((*GIT, ".git/hooks/post-commit"), ".git/hooks/post-commit", GIT_MASKS),
        ((*GIT, ".git/info/exclude"), ".git/info", {**GIT_MASKS, ".git/info": READ_ONLY}),
        (GIT, ".git", {".git": READ_ONLY}),
        (tuple(f"a/b/{name}" for name in GIT), "a/b", {"a": PIN, "a/b": READ_ONLY}),
    ],
)
def test_protected_path(
    tmp_path: Path, names: tuple[str, ...], path: str, expected: dict[str, MaskKind]
) -> None:
    build(tmp_path, names)
    found = search(tmp_path, FileRules(deny_read=("plans",)), sealed=(path,))
    found.seal(f"{tmp_path}/{path}")
    assert masked(tmp_path, found, pins=True) == expected


@pytest.mark.parametrize(
    ("roots", "expected"),
    [
        ({}, {"a": PIN, "a/b": PIN, "a/b/c": PIN, "a/b/c/d": READ_ONLY}),
        # a bind cannot be renamed anyway, and one that is read-only must not be opened
        ({"a": False}, {"a/b": PIN, "a/b/c": PIN, "a/b/c/d": READ_ONLY}),
        ({"a/b": False}, {"a": PIN, "a/b/c": PIN, "a/b/c/d": READ_ONLY}),
        ({"a/b": True}, {"a": PIN}),
        ({"a/b": True, "a/b/c": False}, {"a": PIN, "a/b/c/d": READ_ONLY}),
    ],
)
def test_protected_path_below_several_binds(
    tmp_path: Path, roots: dict[str, bool], expected: dict[str, MaskKind]
) -> None:
    build(tmp_path, ("a/b/c/d",))
    found = search(tmp_path, roots=roots)
    found.seal(f"{tmp_path}/a/b/c/d")
    assert masked(tmp_path, found, pins=True) == expected


def test_protected_paths_in_one_another(tmp_path: Path) -> None:
    build(tmp_path, ("a/b",))
    for order in (("a", "a/b"), ("a/b", "a")):
        found = search(tmp_path, sealed=order)
        for path in order:
            found.seal(f"{tmp_path}/{path}")
        assert masked(tmp_path, found)["a"] is READ_ONLY


def test_names_below_a_protected_path_need_no_mask(tmp_path: Path) -> None:
    build(tmp_path, ("sealed/.env", "sealed/plans", "open/.env"))
    found = search(tmp_path, FileRules(deny_read=("plans",)), sealed=("sealed",))
    assert masked(tmp_path, found) == {"sealed/plans": FILE, "open/.env": READ_ONLY}


# --- Pins -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "pins"),
    [
        ((".env",), set()),
        ((".claude/settings.json",), {".claude"}),
        (("a/b/.env", "a/c/.vscode/x", "d/e"), {"a", "a/b", "a/c"}),
        ((".vscode/a/plans",), set()),  # below what cannot be written nothing can be renamed
        (("a/plans",), {"a"}),
        (("plans/a",), set()),
        (tuple(f"a/{name}" for name in GIT), {"a", "a/.git"}),
        ((*GIT, *(f".git/modules/lib/x/{name[5:]}" for name in GIT)), {
            ".git", ".git/modules", ".git/modules/lib", ".git/modules/lib/x",
        }),
        ((*GIT, ".git/worktrees/one/gitdir"), {".git", ".git/worktrees", ".git/worktrees/one"}),
        (("a/.git",), {"a"}),
        (("a/b.key -> ../c/d/values", "c/d/values"), {"c", "c/d"}),
    ],
)  # fmt: skip
def test_directories_above_a_mask_are_pinned(tmp_path: Path, names: tuple[str, ...], pins: set[str]) -> None:
    """With another name for `.claude` there would be room for a second one."""
    build(tmp_path, names)
    found = masked(tmp_path, search(tmp_path, FileRules(deny_read=("plans",))), pins=True)
    assert {path for path, kind in found.items() if kind is PIN} == pins


@pytest.mark.parametrize(
    ("names", "roots", "pins"),
    [
        (("a/b/c/x",), {"a/b/c": True}, {"a", "a/b"}),
        (("a/b/c/x",), {"a/b/c": False}, {"a", "a/b"}),
        (("a/b/c/.env",), {"a": True, "a/b": False}, {"a/b/c"}),
        (("a/b/c/.env",), {"a/b": True}, {"a"}),
    ],
)
def test_directories_above_a_bind_are_pinned(
    tmp_path: Path, names: tuple[str, ...], roots: dict[str, bool], pins: set[str]
) -> None:
    """Also those of a bind in a writable one: what was bound read-only would be writable under the old name."""
    build(tmp_path, names)
    found = masked(tmp_path, search(tmp_path, roots=roots), pins=True)
    assert {path for path, kind in found.items() if kind is PIN} == pins


def test_nothing_is_pinned_that_cannot_be_written(tmp_path: Path) -> None:
    build(tmp_path, ("a/b/plans", "c/d/plans"))
    rules = FileRules(deny_read=("plans",))
    assert PIN not in masked(tmp_path, search(tmp_path, rules, read_only=True), pins=True).values()
    found = search(tmp_path, rules, sealed=("a",))
    assert {path for path, kind in masked(tmp_path, found, pins=True).items() if kind is PIN} == {"c", "c/d"}


# --- What no mask holds ---------------------------------------------------------------------------


def test_links_and_repositories_are_noted(tmp_path: Path) -> None:
    names = (
        ".vscode -> real", "real/x", ".env -> missing", "a.txt -> real/x", "real/.env", "sub/.git -> ../kept/.git",
        ".claude -> real", *(f"kept/{name}" for name in GIT), "kept/.git/worktrees/one/gitdir",
    )  # fmt: skip
    build(tmp_path, names)
    found = search(tmp_path)
    assert sorted(os.path.relpath(path, tmp_path) for path in found.links) == [
        ".claude", ".env", ".vscode", "sub/.git",
    ]  # fmt: skip
    assert sorted(os.path.relpath(path, tmp_path) for path in found.git_directories) == [
        "kept/.git", "kept/.git/worktrees/one",
    ]  # fmt: skip
    assert found.worktrees == [f"{tmp_path}/kept"]
    found = search(tmp_path, read_only=True)
    assert (found.links, found.git_directories, found.worktrees) == ([], [], [])
    alone = Search(NameRules(FileRules()), {f"{tmp_path}/kept/.git": False}, ())
    alone.walk(f"{tmp_path}/kept/.git", read_only=False)
    assert (len(alone.git_directories), alone.worktrees) == (2, [])


# --- Limits ---------------------------------------------------------------------------------------


def test_as_many_masks_as_allowed_and_one_more(tmp_path: Path) -> None:
    build(tmp_path, tuple(f"{number}.pem" for number in range(masks.MASK_LIMIT)))
    assert len(search(tmp_path).masks) == masks.MASK_LIMIT
    (tmp_path / "more.pem").touch()
    with pytest.raises(GatewayError) as caught:
        search(tmp_path)
    assert caught.value.message.startswith(f"more than {masks.MASK_LIMIT} files")
    assert caught.value.message.endswith(f" {masks.MASK_LIMIT} of them in {tmp_path}")
    assert "files.allow_write" in caught.value.hint
    assert f"{tmp_path}/*" in caught.value.hint


def test_pins_count_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "MASK_LIMIT", 6)
    build(tmp_path, ("a/b/.env", "c/.env"))
    assert len(search(tmp_path).in_order()) == 5
    build(tmp_path, ("d/.env",))
    with pytest.raises(GatewayError):
        search(tmp_path).in_order()


def test_many_names_that_are_allowed(tmp_path: Path) -> None:
    build(tmp_path, tuple(f"testdata/{number}.pem" for number in range(masks.MASK_LIMIT + 1)))
    assert search(tmp_path, FileRules(allow_write=("*/testdata/*",))).masks == {}


def test_too_many_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "ENTRY_LIMIT", 10)
    build(tmp_path, tuple(f"{folder}/{number}" for folder in ("a", "b") for number in range(4)))
    assert search(tmp_path).masks == {}
    (tmp_path / "b/more").touch()
    with pytest.raises(GatewayError) as caught:
        search(tmp_path)
    assert caught.value.message.startswith("more than 10 files")
    assert "--sandbox off" in caught.value.hint


def test_too_many_entries_of_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "ENTRY_LIMIT", 5)
    monkeypatch.setattr(masks, "PACKAGE_ENTRY_LIMIT", 10)
    build(tmp_path, tuple(f"{folder}/node_modules/{number}" for folder in ("a", "b") for number in range(5)))
    assert search(tmp_path).masks == {}
    build(tmp_path, ("b/node_modules/more",))
    with pytest.raises(GatewayError) as caught:
        search(tmp_path)
    assert "to search for sockets" in caught.value.message


@pytest.mark.parametrize("name", ["missing", "file", "loop", "file/below"])
def test_root_that_cannot_be_listed(tmp_path: Path, name: str) -> None:
    build(tmp_path, ("file", "loop -> loop"))
    found = Search(NameRules(FileRules()), {str(tmp_path): False}, ())
    found.walk(f"{tmp_path}/{name}", read_only=False)
    assert found.masks == {}


def test_closed_directory_is_passed_over(short: Path) -> None:
    """What the person who wraps cannot list, the wrapped process cannot either."""
    build(short, ("closed/.env", ".env"))
    user = os.geteuid()
    (short / "closed").chmod(0)
    try:
        if user == 0:
            os.seteuid(NOBODY)
        assert masked(short, search(short)) == {".env": READ_ONLY}
    finally:
        os.seteuid(user)
        (short / "closed").chmod(0o755)


@pytest.mark.parametrize("mode", [0, 0o444, 0o111, 0o333])
def test_directory_that_its_owner_closed(short: Path, mode: int) -> None:
    """Inside, its mode could be changed back, and what it holds would not be protected."""
    build(short, ("a/closed/.env", "a/closed/deep/x"))
    user = os.geteuid()
    if user == 0:
        for path in (short, *short.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    (short / "a/closed").chmod(mode)
    try:
        if user == 0:
            os.seteuid(NOBODY)
        assert masked(short, search(short)) == {"a/closed": READ_ONLY}
        assert masked(short, search(short), pins=True)["a"] is PIN
    finally:
        os.seteuid(user)
        (short / "a/closed").chmod(0o755)


def test_unusual_names(tmp_path: Path) -> None:
    names = ("new\nline.pem", "with space/.env", os.fsdecode(b"\xff.key"), "-rf.pem", "*.pem", "ключ.key")
    build(tmp_path, names)
    assert set(masked(tmp_path, search(tmp_path))) == set(names)


def test_mask_is_a_value() -> None:
    assert Mask("/a", PIN) == Mask("/a", MaskKind("pin"))
