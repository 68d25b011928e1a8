"""The plan of a wrap: what is shown, from where, and whether it can be written. Real trees, no bubblewrap."""

import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import GatewayError
from gateway.session import FileRules, Mode
from sandbox import mounts
from sandbox.git.github_host import GITHUB_HOST
from sandbox.git.session import SessionGit
from sandbox.layout import GH_CONFIG, GIT_CONFIG
from sandbox.masks import MaskKind
from sandbox.mounts import Bind, WrapPlan, plan_wrap
from sandbox.spec import SandboxBindMount, SandboxSpec
from tests.sandbox.wrapping import NOBODY, Place

# --- A host in small ------------------------------------------------------------------------------


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A home with secrets and the product's state, and a worktree beside it."""
    write(tmp_path / "home/.ssh/id_ed25519", "the key", 0o600)
    write(tmp_path / "home/.config/gh/hosts.yml", "the token", 0o600)
    write(tmp_path / "home/.local/state/agent-gateway/audit/log.jsonl")
    write(tmp_path / "runtime/agent-gateway/operator.sock")
    write(tmp_path / "repo/README.md")
    return tmp_path


def write(path: Path, text: str = "", mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def spec(host: Path, *binds: str, **fields: object) -> SandboxSpec:
    """A spec with the host's own places; a bind is relative to the host, "name:ro" is read-only."""
    state = host / "home/.local/state/agent-gateway"
    found = []
    for bind in binds or ("repo",):
        name = bind.removesuffix(":ro")
        path = name if name.startswith("/") else f"{host}/{name}"
        found.append(SandboxBindMount(path, path, read_only=bind.endswith(":ro")))
    made = SandboxSpec(
        "session", "default", "",
        tuple(found),
        home=str(state / "workspaces/default/home"),
        state_dir=str(state),
        runtime_dir=f"{host}/runtime/agent-gateway",
        user_home=f"{host}/home",
        search_path="/usr/bin:/bin",
        file_rules=FileRules.EXISTING_ONLY,
    )  # fmt: skip
    return replace(made, **fields)  # type: ignore[arg-type]  # rows of tables


def refusal(made: SandboxSpec) -> str:
    """The message with which a spec is refused."""
    with pytest.raises(GatewayError) as caught:
        plan_wrap(made)
    return str(caught.value)


# Operations of bubblewrap that put something at a place: number of arguments, which of them is the place, what it is.
OPERATIONS = {
    "--bind": (2, 1, "rw"), "--ro-bind": (2, 1, "ro"), "--ro-bind-try": (2, 1, "ro"), "--tmpfs": (1, 0, "private"),
    "--dev": (1, 0, "private"), "--proc": (1, 0, "private"), "--symlink": (2, 1, "link"),
}  # fmt: skip
OTHERS = {"--perms": 1, "--remount-ro": 1, "--cap-drop": 1, "--dir": 1}


def operations(plan: WrapPlan) -> Iterator[tuple[str, str, str]]:
    """The plan's mounts in order: what, from where, where. Fails on an operation the table does not know."""
    words = iter(plan.arguments)
    for word in words:
        if word in OPERATIONS:
            count, place, what = OPERATIONS[word]
            values = [next(words) for _ in range(count)]
            yield ("hidden" if values[0] == "/dev/null" else what), values[0], values[place]
        elif word in OTHERS:
            for _ in range(OTHERS[word]):
                next(words)
        else:
            assert word.startswith("--unshare-") or word in ("--die-with-parent", "--clearenv"), word


def seen(plan: WrapPlan, path: Path | str) -> str:
    """How a path is seen inside: "rw", "ro", "hidden" … of the last mount that holds it; "" when none does.

    A bind brings everything below along, so the last one counts whatever was mounted there before.
    """
    found = ""
    for what, source, place in operations(plan):
        if str(path) == place or str(path).startswith(place.rstrip("/") + "/"):
            assert what not in ("rw", "ro") or source == place  # nothing is ever shown elsewhere
            found = what
    return found


def shown_binds(plan: WrapPlan, host: Path) -> dict[str, bool]:
    """What of the host in small is bound, relative to it, and whether read-only."""
    return {
        os.path.relpath(bind.path, host): bind.read_only
        for bind in plan.binds
        if bind.path.startswith(f"{host}/")
    }


HOME = "home/.local/state/agent-gateway/workspaces/default/home"


# --- What is seen ---------------------------------------------------------------------------------


def test_ordinary_wrap(host: Path) -> None:
    write(host / "repo/.env")
    write(host / "beside")
    plan = plan_wrap(spec(host))
    for path, expected in {
        "repo": "rw", "repo/README.md": "rw", "repo/.env": "ro", HOME: "rw",
        "beside": "", "home": "", "home/.ssh": "", "home/.config/gh": "", "runtime": "",
        "home/.local/state/agent-gateway/audit": "", "home/.local/state/agent-gateway": "",
    }.items():  # fmt: skip
        # Below /tmp, where the wrap has a file system of its own.
        assert seen(plan, host / path).replace("private", "") == expected, path
    for path in ("/usr/bin/env", "/etc/ssl/certs"):
        assert seen(plan, path) in ("ro", "link"), path
    for path in (
        "/root",
        "/home",
        "/srv",
        "/opt",
        "/run",
        "/sys",
        "/var/lib",
        "/etc/shadow",
        "/etc/passwd",
        "/boot",
    ):
        assert seen(plan, path) == "", path
    for path in ("/tmp", "/var/tmp", "/dev", "/proc"):
        assert seen(plan, path) == "private", path


@pytest.mark.parametrize(
    ("binds", "mode", "expected"),
    [
        (("repo",), Mode.CHAT, {"repo": False}),
        (("repo:ro",), Mode.CHAT, {"repo": True}),
        (("repo",), Mode.REVIEW, {"repo": True}),
        (("repo",), Mode.PLAN, {"repo": True}),
        (("repo",), Mode.ORCHESTRATE, {"repo": True}),
        (("repo", "data:ro"), Mode.CHAT, {"repo": False, "data": True}),
        (("repo", "repo/sub:ro"), Mode.CHAT, {"repo": False, "repo/sub": True}),
        (("repo:ro", "repo/sub"), Mode.CHAT, {"repo": True, "repo/sub": False}),
        (("repo", "repo"), Mode.CHAT, {"repo": False}),
        (("repo", "data/file:ro"), Mode.CHAT, {"repo": False, "data/file": True}),
        (("link",), Mode.CHAT, {"data": False}),
        (("repo", "repo/../data"), Mode.CHAT, {"repo": False, "data": False}),
    ],
)
def test_binds_by_mode(host: Path, binds: tuple[str, ...], mode: Mode, expected: dict[str, bool]) -> None:
    write(host / "repo/sub/file")
    write(host / "data/file")
    (host / "link").symlink_to("data")
    plan = plan_wrap(spec(host, *binds, mode=mode))
    assert shown_binds(plan, host) == {**expected, HOME: False}
    for name, read_only in expected.items():
        assert seen(plan, host / name) == ("ro" if read_only else "rw")


@pytest.mark.parametrize("mode", Mode)
def test_state_directories_stay_writable(host: Path, mode: Mode) -> None:
    write(host / "home/.claude/settings.json")
    write(host / "home/.claude/history.jsonl")
    plan = plan_wrap(spec(host, mode=mode, runner_state_dirs=(f"{host}/home/.claude",)))
    assert seen(plan, host / "home/.claude/history.jsonl") == "rw"
    assert seen(plan, host / "home/.claude/settings.json") == "ro"


def test_masks_follow_what_they_cover(host: Path) -> None:
    write(host / "repo/private/plans")
    write(host / "repo/plans")
    write(host / "repo/.vscode/settings.json")
    plan = plan_wrap(spec(host, "repo", "repo/private", deny_read=("plans", "*/private")))
    assert seen(plan, host / "repo/plans") == "hidden"
    assert seen(plan, host / "repo/private/plans") in ("private", "hidden")
    assert seen(plan, host / "repo/.vscode/settings.json") == "ro"
    assert seen(plan, host / "repo/README.md") == "rw"
    where = plan.arguments.index("--remount-ro")
    assert plan.arguments[where - 4 : where + 2] == (
        "--perms", "0000", "--tmpfs", f"{host}/repo/private", "--remount-ro", f"{host}/repo/private",
    )  # fmt: skip


def test_rules_of_the_configuration(host: Path) -> None:
    for name in ("a.pem", "b.pem", "locked.txt", "free.txt"):
        write(host / "repo" / name)
    plan = plan_wrap(spec(host, deny_write=("locked.*",), allow_write=("b.pem",)))
    assert [seen(plan, host / "repo" / name) for name in ("a.pem", "b.pem", "locked.txt", "free.txt")] == [
        "ro", "rw", "ro", "rw",
    ]  # fmt: skip


# --- What is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("/", "whole file system"),
        ("/proc", "belongs to the wrap"),
        ("/run", "sockets"),
        ("/etc", "secrets"),
        ("home", "the home directory"),
        (".", "the home directory"),
        ("home/.ssh", "secrets"),
        ("home/.ssh/id_ed25519", "secrets"),
        ("home/.config", "secrets"),
        ("home/.local", "own state"),
        ("home/.local/state/agent-gateway", "own state"),
        ("home/.local/state/agent-gateway/audit", "own state"),
        ("runtime", "own state"),
        ("runtime/agent-gateway/operator.sock", "own state"),
    ],
)
@pytest.mark.parametrize("way", ["bind", "read-only bind", "through a link", "state directory"])
def test_never_bound(host: Path, path: str, word: str, way: str) -> None:
    target = path if path.startswith("/") else f"{host}/{path}"
    if way == "through a link":
        (host / "repo/innocent").symlink_to(target)
        target = f"{host}/repo/innocent"
    if way == "state directory":
        assert word in refusal(spec(host, runner_state_dirs=(target,)))
    else:
        assert word in refusal(spec(host, "repo", target + (":ro" if way == "read-only bind" else "")))


def test_refusal_names_the_field(host: Path) -> None:
    """What can be said without a look at what may be seen is in the tests of `spec_checks`."""
    assert refusal(spec(host, "repo", "missing")).startswith("bind_mounts[1]: ")
    assert refusal(spec(host, "repo", "home")).startswith(f"bind_mounts[1]: {host}/home cannot be seen")
    assert refusal(spec(host, runner_state_dirs=("/usr",))).startswith(
        "runner_state_dirs[0]: /usr cannot be seen"
    )
    assert refusal(spec(host, home=f"{host}/repo/home")).startswith(
        f"home: {host}/repo/home and bind_mounts[0]"
    )


def test_nothing_of_a_secret_is_an_argument(host: Path) -> None:
    """Whatever is on PATH and linked to: not even the names of secrets are seen."""
    write(host / "home/.ssh/bin/tool", "#!/bin/sh\n", 0o755)
    write(host / "home/.ssh/pyvenv.cfg", "home = /usr/bin\n")
    write(host / "home/bin/own", "#!/bin/sh\n", 0o755)
    (host / "home/bin/tool").symlink_to("../.ssh/bin/tool")
    (host / "home/bin/key").symlink_to("../.ssh/id_ed25519")
    (host / "home/bin/all").symlink_to("..")
    search = f"{host}/home/bin:{host}/home/.ssh/bin:{host}/home:{host}:/usr/bin:/bin:/:relative::"
    for command in ("tool", "own", f"{host}/home/.ssh/bin/tool", "key", "all", "missing"):
        plan = plan_wrap(spec(host, search_path=search, command=(command,)))
        assert not [
            bind.path
            for bind in plan.binds
            if "/.ssh" in bind.path or bind.path in (f"{host}/home", str(host))
        ]
        assert seen(plan, host / "home/.ssh/id_ed25519") in ("", "private")
        assert seen(plan, host / "home") in ("", "private")
        assert not {f"{host}/home/.ssh/bin", f"{host}/home", str(host), "/"} & set(plan.path.split(":"))
        assert f"{host}/home/bin" in plan.path.split(":")


# --- Protected paths ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("binds", "protected", "expected"),
    [
        (("repo",), ("repo",), {"repo": "ro", "repo/a/b": "ro"}),
        (("repo",), ("repo/a",), {"repo": "rw", "repo/a": "ro", "repo/a/b": "ro"}),
        (("repo",), ("repo/a/b",), {"repo": "rw", "repo/a": "rw", "repo/a/b": "ro"}),
        (("repo",), ("repo/README.md",), {"repo": "rw", "repo/README.md": "ro"}),
        (("repo",), ("link",), {"repo": "rw", "repo/a": "ro"}),
        (("repo", "repo/a/b"), ("repo/a",), {"repo/a/b": "ro"}),
        (("repo", "repo/a:ro"), ("repo/a/b",), {"repo": "rw", "repo/a": "ro", "repo/a/b": "ro"}),
        (("repo", "repo/a/c:ro"), ("repo/a/b",), {"repo/a": "rw", "repo/a/b": "ro", "repo/a/c": "ro"}),
        (
            ("repo",),
            ("repo/.vscode/x",),
            {"repo/.vscode": "ro", "repo/.vscode/x": "ro", "repo/.vscode/y": "ro"},
        ),
        (("repo",), ("elsewhere",), {"repo": "rw", "repo/a": "rw"}),
        (("repo",), ("missing",), {"repo": "rw"}),
    ],
)
def test_protected(
    host: Path, binds: tuple[str, ...], protected: tuple[str, ...], expected: dict[str, str]
) -> None:
    for name in ("repo/a/b/file", "repo/a/c/file", "repo/.vscode/x", "repo/.vscode/y", "elsewhere/file"):
        write(host / name)
    (host / "link").symlink_to("repo/a")
    plan = plan_wrap(spec(host, *binds, protected_paths=tuple(f"{host}/{name}" for name in protected)))
    assert {name: seen(plan, host / name) for name in expected} == expected


def test_directories_above_a_protected_path_are_pinned(host: Path) -> None:
    write(host / "repo/a/b/file")
    plan = plan_wrap(spec(host, protected_paths=(f"{host}/repo/a/b",)))
    assert {os.path.relpath(mask.path, host): mask.kind for mask in plan.masks} == {
        "repo/a": MaskKind.PIN, "repo/a/b": MaskKind.READ_ONLY,
    }  # fmt: skip


def test_what_protection_takes_away_is_said(host: Path) -> None:
    write(host / "repo/sub/file")
    plan = plan_wrap(spec(host, "repo/sub", protected_paths=(f"{host}/repo",)))
    assert plan.notes == (f"{host}/repo/sub is read-only: it lies in a protected path",)
    for other in (spec(host, "repo/sub:ro"), spec(host, "repo/sub", mode=Mode.REVIEW)):
        assert plan_wrap(replace(other, protected_paths=(f"{host}/repo",))).notes == ()


def test_protected_path_that_is_missing(host: Path) -> None:
    """It cannot be protected: something could be made there."""
    assert "does not exist" in refusal(spec(host, protected_paths=(f"{host}/repo/missing",)))


# Directories of a small tree, for the property below.
TREE = ("a", "a/b", "a/b/c", "a/b/c/d", "a/e", "f")
FOLDERS = st.sampled_from(TREE)


@settings(max_examples=60)
@given(
    st.dictionaries(FOLDERS, st.booleans(), min_size=1), st.sets(FOLDERS, max_size=3), st.sampled_from(Mode)
)
def test_the_innermost_bind_decides_and_protection_always(
    binds: dict[str, bool], protected: set[str], mode: Mode
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        host = Path(name).resolve()
        for folder in (*TREE, "home"):
            (host / folder).mkdir(parents=True, exist_ok=True)
        texts = [f"{folder}:ro" if read_only else folder for folder, read_only in binds.items()]
        made = spec(
            host, *texts, mode=mode, protected_paths=tuple(f"{host}/{folder}" for folder in protected)
        )
        plan = plan_wrap(made)
        for folder in TREE:
            holders = [bind for bind in binds if f"{folder}/".startswith(f"{bind}/")]
            sealed = any(f"{folder}/".startswith(f"{path}/") for path in protected)
            expected = "private"  # of the file system over /tmp
            if holders:
                read_only = binds[max(holders, key=len)] or sealed or mode is not Mode.CHAT
                expected = "ro" if read_only else "rw"
            assert seen(plan, host / folder) == expected, folder


# --- With bubblewrap ------------------------------------------------------------------------------


def test_masks_and_binds_in_one_another(place: Place) -> None:
    """What the evaluator above says of order is what the kernel does."""
    for name in ("a/b/sealed", "a/c/read", "plans", "private/x", ".vscode/plans", "node_modules/x/plans"):
        place.write(place.worktree / name, "text\n")
    for link, target in (
        ("a.key", "plans"),
        ("b.key", "b.key"),
        ("c.key", "private/x"),
        ("d.key", "/etc/shadow"),
    ):
        (place.worktree / link).symlink_to(target)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{place.worktree}/.vscode/s")
    repo = str(place.worktree)
    script = """
    for name in a/b/sealed a/c/read .vscode/new a/new; do echo new 2>/dev/null >$name && echo wrote $name; done
    mv a moved 2>/dev/null || echo pinned
    cat plans private/x .vscode/plans node_modules/x/plans 2>/dev/null
    test -S .vscode/s || echo no socket"""
    done = place.sh(
        script,
        bind_mounts=[[repo, False], [f"{repo}/a/c", True]],
        protected_paths=[f"{repo}/a/b"],
        deny_read=["plans", "*/private"],
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["wrote a/new", "pinned", "no socket"]
    assert (place.worktree / "a/c/read").read_text() == "text\n"


@pytest.mark.parametrize(
    ("path", "moved"),
    [
        (".claude/settings.json", ".claude"),
        ("sub/.vscode/tasks.json", "sub"),
        ("a/b/c/.env", "a"),
        ("a/b/c/.env", "a/b"),
        ("a/b/plans", "a"),
        ("nested/.git/config", "nested"),
        (".git/modules/lib/config", ".git/modules"),
        (".git/modules/lib/config", ".git/modules/lib"),
        (".git/worktrees/one/commondir", ".git/worktrees"),
        (".git/worktrees/one/commondir", ".git/worktrees/one"),
        ("sub/bound/file", "sub"),
    ],
)
def test_protected_name_is_not_replaced_by_way_of_its_folder(place: Place, path: str, moved: str) -> None:
    place.write(place.worktree / path, "kept\n")
    place.write(place.worktree / moved / "free", "free\n")
    for repository in (".git", "nested/.git", ".git/modules/lib"):
        if repository.startswith(".git") or path.startswith("nested"):
            for folder in ("objects", "refs"):
                (place.worktree / repository / folder).mkdir(parents=True, exist_ok=True)
            place.write(place.worktree / repository / "HEAD", "ref: refs/heads/main\n")
    script = f"""
    mv {moved} {moved}.aside 2>/dev/null && echo moved; mv -T {moved} /tmp/aside 2>/dev/null
    rm -rf {moved} 2>/dev/null && echo removed
    mkdir -p $(dirname {path}); (echo evil >{path}) 2>/dev/null && echo wrote
    echo new >{moved}/new; rm -f {moved}/new || echo closed"""
    work = str(place.worktree)
    (place.worktree / "sub/bound").mkdir(parents=True, exist_ok=True)
    done = place.sh(script, bind_mounts=[[work, False], [f"{work}/sub/bound", True]], deny_read=["plans"])
    assert (done.stdout, done.stderr) == ("", "")
    assert (place.worktree / path).read_text() == "kept\n"


def test_link_with_a_denied_name_does_not_close_the_worktree(place: Place) -> None:
    (place.worktree / "sub").mkdir()
    (place.worktree / "a.pem").symlink_to(".")
    (place.worktree / "sub/b.key").symlink_to("..")
    done = place.sh("echo x >file && echo x >sub/file && echo wrote")
    assert (done.stdout, done.stderr) == ("wrote\n", "")


def test_sockets_among_packages_are_covered(place: Place) -> None:
    for name in ("node_modules/a/s", ".git/objects/s"):
        (place.worktree / name).parent.mkdir(parents=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{place.worktree}/{name}")
    done = place.sh("for s in node_modules/a/s .git/objects/s; do test -S $s && echo $s; done; true")
    assert (done.stdout, done.stderr) == ("", "")


def test_what_is_looked_at_afterwards(host: Path) -> None:
    """Writable repositories and links, in `chat` alone."""
    git(host / "repo", "init", "-q")
    (host / "repo/.env").symlink_to("values")
    plan = plan_wrap(spec(host))
    assert [folder.path for folder in plan.known.folders] == [f"{host}/repo/.git", f"{host}/repo"]
    assert plan.notes[0].startswith(f"1 protected names are links ('{host}/repo/.env')")
    for other in (spec(host, mode=Mode.REVIEW), spec(host, "repo:ro")):
        plan = plan_wrap(other)
        assert (plan.known.folders, plan.notes) == ((), ())


# --- Repositories ---------------------------------------------------------------------------------


def git(cwd: Path, *arguments: str) -> None:
    """Runs git with nothing of this machine's configuration."""
    identity = (
        "-c",
        "user.name=A U Thor",
        "-c",
        "user.email=author@example.test",
        "-c",
        "init.defaultBranch=main",
    )
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(cwd), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(("git", *identity, *arguments), cwd=cwd, env=environment, check=True, capture_output=True)


@pytest.fixture
def linked(host: Path) -> Path:
    """The host with a repository `main` and its linked worktree `tree`."""
    (host / "main").mkdir()
    git(host / "main", "init", "-q")
    git(host / "main", "commit", "-q", "--allow-empty", "-m", "first")
    git(host / "main", "worktree", "add", "-q", str(host / "tree"))
    write(host / "main/unrelated")
    return host


@pytest.mark.parametrize(
    ("bind", "mode", "writable"),
    [("tree", Mode.CHAT, "rw"), ("tree:ro", Mode.CHAT, "ro"), ("tree", Mode.REVIEW, "ro")],
)
def test_linked_worktree(linked: Path, bind: str, mode: Mode, writable: str) -> None:
    plan = plan_wrap(spec(linked, bind, mode=mode))
    expected = {
        "tree": writable, "tree/.git": "ro", "main/.git": writable, "main/.git/objects": writable,
        "main/.git/worktrees/tree": writable, "main/.git/hooks": "ro", "main/.git/config": "ro",
        "main/.git/worktrees/tree/commondir": "ro", "main/.git/worktrees/tree/gitdir": "ro",
        "main": "private", "main/unrelated": "private",
    }  # fmt: skip
    assert {name: seen(plan, linked / name) for name in expected} == expected


def test_linked_worktree_of_a_protected_checkout(linked: Path) -> None:
    plan = plan_wrap(spec(linked, "tree", protected_paths=(f"{linked}/main",)))
    assert (seen(plan, linked / "tree"), seen(plan, linked / "main/.git")) == ("rw", "ro")


@pytest.mark.parametrize(
    ("target", "word"),
    [
        ("home/.ssh", "does not point back"),
        ("home", "does not point back"),
        ("main/.git", "does not point back"),
        ("main/.git/worktrees/tree", "does not point back"),
        ("missing", "does not point back"),
    ],
)
def test_hostile_pointer(linked: Path, target: str, word: str) -> None:
    (linked / "repo/.git").write_text(f"gitdir: {linked}/{target}\n")
    assert word in refusal(spec(linked))
    assert word in refusal(spec(linked, "repo:ro"))


def test_pointer_that_holds_and_leads_to_a_secret(host: Path) -> None:
    """Even a directory that points back is not shown where nothing may be."""
    git(host / "repo", "init", "-q", "--separate-git-dir", str(host / "home/.ssh/git"))
    git(host / "repo", "config", "core.worktree", str(host / "repo"))
    assert "holds secrets" in refusal(spec(host))


def test_pointer_to_a_directory_that_is_bound(linked: Path) -> None:
    (linked / "repo/.git").write_text(f"gitdir: {linked}/main/.git\n")
    plan = plan_wrap(spec(linked, "repo", "main:ro"))
    assert (seen(plan, linked / "repo"), seen(plan, linked / "main/.git")) == ("rw", "ro")


# --- The private home -----------------------------------------------------------------------------


def test_private_home_is_made(host: Path) -> None:
    plan = plan_wrap(spec(host))
    assert plan.home == f"{host}/{HOME}"
    assert stat.S_IMODE((host / HOME).stat().st_mode) == 0o700
    write(host / HOME / "kept")
    assert plan_wrap(spec(host)).home == plan.home
    assert (host / HOME / "kept").exists()


def test_no_private_home(host: Path) -> None:
    plan = plan_wrap(spec(host, home=""))
    assert plan.home == "/tmp/home"
    assert shown_binds(plan, host) == {"repo": False}


@pytest.mark.parametrize(
    "target", ["home", "home/.ssh", "home/.local/state/agent-gateway/audit", "/", "/usr"]
)
def test_private_home_that_leads_out(host: Path, target: str) -> None:
    (host / HOME).parent.mkdir(parents=True)
    (host / HOME).symlink_to(target if target.startswith("/") else host / target)
    assert refusal(spec(host)).startswith("home: ")


def test_private_home_that_is_no_directory(host: Path) -> None:
    write(host / HOME)
    assert "home: " in refusal(spec(host))
    assert "home: " in refusal(spec(host, home=f"{host}/{HOME}/below"))
    (host / HOME).unlink()
    (host / HOME).symlink_to("missing")
    assert "home: " in refusal(spec(host))


def test_private_home_of_somebody_else(host: Path) -> None:
    other = host / "other"
    other.mkdir()
    if os.geteuid() == 0:
        os.chown(other, NOBODY, NOBODY)
    else:
        other.rmdir()
        other.symlink_to("/usr/share")  # root's
    assert "is not a directory of this user" in refusal(spec(host, home=str(other)))


# --- What comes from memory -----------------------------------------------------------------------


def test_files_of_the_wraps_own(host: Path) -> None:
    text = "[user]\n\tname = A U Thor\n"
    plan = plan_wrap(spec(host, git_config=text))
    files = {file.path: file.content for file in plan.files}
    assert files[GIT_CONFIG] == text.encode()
    assert plan.git_config == GIT_CONFIG
    assert f":{plan.home}:".encode() in files["/etc/passwd"]
    without = plan_wrap(spec(host))
    assert without.git_config == ""
    assert GIT_CONFIG not in {file.path for file in without.files}
    assert not [word for word in plan.arguments if "A U Thor" in word]


def test_forge_of_the_session(host: Path) -> None:
    plan = plan_wrap(spec(host, git=SessionGit(GITHUB_HOST), git_config="[user]\n"))
    (text,) = (file.content.decode() for file in plan.files if file.path == GIT_CONFIG)
    assert text.startswith('[url "http://127.0.0.1:3180/git/github.com/"]\n')
    assert text.endswith("[user]\n")
    assert (plan.git_config, plan.gh_config) == (GIT_CONFIG, GH_CONFIG)
    assert ("--perms", "0700", "--tmpfs", GH_CONFIG) in zip(
        *(plan.arguments[n:] for n in range(4)), strict=False
    )
    without = plan_wrap(spec(host))
    assert (without.gh_config, GH_CONFIG in without.arguments) == ("", False)
    assert plan_wrap(spec(host, git=SessionGit(GITHUB_HOST))).git_config == GIT_CONFIG


def test_own_interpreter_is_seen(host: Path) -> None:
    plan = plan_wrap(spec(host))
    for path in (plan.python, os.path.realpath(sys.base_prefix), os.path.realpath(os.__file__)):
        assert seen(plan, path) == "ro", path
    assert os.access(plan.python, os.X_OK)
    assert not os.path.islink(plan.python)


def test_interpreter_that_may_not_be_shown(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "base_prefix", str(host / "home"))
    assert "install it with a Python that has a directory of its own" in refusal(spec(host))


def test_more_mounts_than_bubblewrap_takes(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = len(plan_wrap(spec(host)).arguments)
    monkeypatch.setattr(mounts, "ARGUMENT_LIMIT", count)
    assert len(plan_wrap(spec(host)).arguments) == count
    write(host / "repo/.env")
    assert "more mounts than bubblewrap takes" in refusal(spec(host))


def test_planning_changes_nothing_but_the_private_home(host: Path) -> None:
    def tree() -> set[Path]:
        return {path.relative_to(host) for path in host.rglob("*")}

    before = tree()
    plan_wrap(spec(host, git_config="[a]\n", command=("sh",)))
    home = Path(HOME)
    assert tree() - before == {home, home.parent, home.parent.parent}


# --- Programs -------------------------------------------------------------------------------------

SH = "#!/bin/sh\n"

# What an installer leaves below a home: a program's text, or "-> target"; PATH; CMD; what of the home is bound.
INSTALLATIONS: dict[str, tuple[dict[str, str], tuple[str, ...], str, set[str]]] = {
    "pyenv": (
        {
            ".pyenv/shims/python": '#!/usr/bin/env bash\nexec "HOME/.pyenv/libexec/pyenv" exec python\n',
            ".pyenv/libexec/pyenv": SH,
            ".pyenv/bin/pyenv": "-> ../libexec/pyenv",
            ".pyenv/versions/3.13.1/bin/python3.13": "",
            ".pyenv/versions/3.13.1/bin/python": "-> python3.13",
            ".pyenv/versions/3.13.1/lib/python3.13/os.py": "",
        },
        (".pyenv/shims", ".pyenv/bin"), "python", {".pyenv"},
    ),
    "one version of pyenv": (
        {
            ".pyenv/versions/3.13.1/bin/python3.13": "",
            ".pyenv/versions/3.13.1/bin/python": "-> python3.13",
            ".pyenv/versions/3.13.1/lib/python3.13/os.py": "",
        },
        (".pyenv/versions/3.13.1/bin",), "python", {".pyenv/versions/3.13.1"},
    ),
    "nvm": (
        {
            ".nvm/versions/node/v22.1.0/bin/node": "",
            ".nvm/versions/node/v22.1.0/bin/npm": "-> ../lib/node_modules/npm/bin/npm-cli.js",
            ".nvm/versions/node/v22.1.0/lib/node_modules/npm/bin/npm-cli.js": "#!/usr/bin/env node\n",
            ".nvm/versions/node/v20.0.0/bin/node": "",
        },
        (".nvm/versions/node/v22.1.0/bin",), "npm", {".nvm/versions/node/v22.1.0"},
    ),
    "an npm prefix beside nvm": (
        {
            ".nvm/versions/node/v22.1.0/bin/node": "",
            ".nvm/versions/node/v22.1.0/lib/node_modules/npm/package.json": "",
            ".npm-global/bin/claude": "-> ../lib/node_modules/@scope/agent/cli.js",
            ".npm-global/lib/node_modules/@scope/agent/cli.js": "#!/usr/bin/env node\n",
        },
        (".nvm/versions/node/v22.1.0/bin", ".npm-global/bin"), "claude",
        {".nvm/versions/node/v22.1.0", ".npm-global"},
    ),
    "uv": (
        {
            ".local/share/uv/python/cpython-3.13/bin/python3.13": "",
            ".local/share/uv/python/cpython-3.13/lib/python3.13/os.py": "",
            ".local/share/uv/tools/ruff/pyvenv.cfg": "home = HOME/.local/share/uv/python/cpython-3.13/bin\n",
            ".local/share/uv/python/cpython-3.13/bin/python3": "-> python3.13",
            ".local/share/uv/tools/ruff/bin/python": "-> HOME/.local/share/uv/python/cpython-3.13/bin/python3.13",
            ".local/share/uv/tools/ruff/bin/ruff": "#!HOME/.local/share/uv/tools/ruff/bin/python\n",
            ".local/bin/ruff": "-> HOME/.local/share/uv/tools/ruff/bin/ruff",
        },
        (".local/bin",), "ruff",
        {".local/bin", ".local/share/uv/tools/ruff", ".local/share/uv/python/cpython-3.13"},
    ),
    "a script of one's own that asks for node": (
        {
            ".local/bin/tool": "#!/usr/bin/env node\n",
            ".nvm/versions/node/v22.1.0/bin/node": "",
            ".nvm/versions/node/v22.1.0/lib/node_modules/npm/package.json": "",
        },
        (".local/bin", ".nvm/versions/node/v22.1.0/bin"), "tool", {".local/bin", ".nvm/versions/node/v22.1.0"},
    ),
    "env with options": (
        {
            "bin/tool": "#!/usr/bin/env -S -i A=b interpreter --flag\n",
            "tools/x/bin/interpreter": "",
        },
        ("bin", "tools/x/bin"), "tool", {"bin", "tools/x/bin"},
    ),
    "pip --user": (
        {
            ".local/bin/tool": "#!/usr/bin/python3\n",
            ".local/lib/python3.13/site-packages/tool/__init__.py": "",
        },
        (".local/bin",), "tool", {".local/bin", ".local/lib"},
    ),
    "cargo": (
        {
            ".cargo/bin/rustup": "",
            ".cargo/bin/cargo": "-> rustup",
            ".cargo/credentials.toml": "the login",
            ".rustup/toolchains/stable/bin/cargo": "",
        },
        (".cargo/bin",), "cargo", {".cargo/bin", ".rustup"},
    ),
    "a virtual environment elsewhere": (
        {
            "envs/one/pyvenv.cfg": "home = HOME/.pyenv/versions/3.13.1/bin\n",
            "envs/one/bin/python": "-> HOME/.pyenv/versions/3.13.1/bin/python3",
            "envs/one/bin/pytest": "#!HOME/envs/one/bin/python\n",
            ".pyenv/versions/3.13.1/bin/python3": "",
            ".pyenv/versions/3.13.1/lib/python3.13/os.py": "",
        },
        ("envs/one/bin",), "pytest", {"envs/one", ".pyenv/versions/3.13.1"},
    ),
    "go": ({"sdk/go1.24/bin/go": "", "sdk/go1.24/pkg/tool/x": ""}, ("sdk/go1.24/bin",), "go", {"sdk/go1.24"}),
    "a JDK": ({"jdk-21/bin/java": "", "jdk-21/release": ""}, ("jdk-21/bin",), "java", {"jdk-21"}),
    "~/bin": ({"bin/tool": SH}, ("bin",), "tool", {"bin"}),
    "a program in the home itself": ({"tool": SH, "notes": ""}, (), "./home/tool", {"tool"}),
    "a program among projects": ({"code/tool": SH, "code/notes": ""}, (), "./home/code/tool", {"code/tool"}),
    "a program with a folder of its own": ({"apps/tool/tool": SH}, (), "./home/apps/tool/tool", {"apps/tool"}),
    "a link to a single file": (
        {".local/share/tool/1.0": SH, ".local/bin/tool": "-> ../share/tool/1.0"},
        (".local/bin",), "tool", {".local/bin", ".local/share/tool"},
    ),
    "links in a circle": ({"bin/a": "-> b", "bin/b": "-> a", "bin/c": "-> c"}, ("bin",), "a", {"bin"}),
    "links that lead nowhere": ({"bin/a": "-> gone", "bin/b": "-> /gone/b"}, ("bin",), "a", {"bin"}),
    "a first line that names itself": ({"bin/a": "#!HOME/bin/a\n"}, ("bin",), "a", {"bin"}),
    "first lines in a circle": ({"bin/a": "#!HOME/x/b\n", "x/b": "#!HOME/bin/a\n"}, ("bin",), "a", {"bin", "x/b"}),
    "an interpreter that is not there": ({"bin/a": "#!/no/such\n"}, ("bin",), "a", {"bin"}),
    "env and nothing": ({"bin/a": "#!/usr/bin/env\n"}, ("bin",), "a", {"bin"}),
}  # fmt: skip


def install(home: Path, files: dict[str, str]) -> None:
    """Makes the files; HOME in a text or target is the home."""
    for name, text in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            path.symlink_to(text[3:].replace("HOME", str(home)))
        else:
            write(path, text.replace("HOME", str(home)), 0o755)


@pytest.mark.parametrize("name", INSTALLATIONS)
def test_installed_program(host: Path, name: str) -> None:
    files, folders, command, expected = INSTALLATIONS[name]
    home = host / "home"
    install(home, files)
    search = ":".join((*(f"{home}/{folder}" for folder in folders), "/usr/bin", "/bin"))
    plan = plan_wrap(spec(host, search_path=search, command=(command.replace("./home", str(home)),)))
    bound = {
        Path(bind.path) for bind in plan.binds if bind.path.startswith(f"{home}/") and bind.path != plan.home
    }
    assert {str(path.relative_to(home)) for path in bound} == expected
    assert all(bind.read_only for bind in plan.binds if Path(bind.path) in bound)
    for secret in (
        ".",
        ".ssh",
        ".config",
        ".local/state/agent-gateway/audit",
        ".cargo/credentials.toml",
        "notes",
    ):
        assert seen(plan, home / secret) == "private", secret  # nothing but the file system over /tmp
    assert plan.path.split(":")[: len(folders)] == [f"{home}/{folder}" for folder in folders]


@pytest.mark.parametrize(
    ("files", "folder", "variables"),
    [
        ({".cargo/bin/cargo": "", ".rustup/x": ""}, ".cargo/bin", {"RUSTUP_HOME": ".rustup"}),
        ({".cargo/bin/cargo": ""}, ".cargo/bin", {}),
        ({".local/bin/cargo": SH, ".local/lib/x": ""}, ".local/bin", {"PYTHONUSERBASE": ".local"}),
        ({".local/bin/cargo": SH}, ".local/bin", {}),
    ],
)
def test_variables_that_lead_to_toolchains(
    host: Path, files: dict[str, str], folder: str, variables: dict[str, str]
) -> None:
    install(host / "home", files)
    plan = plan_wrap(spec(host, search_path=f"{host}/home/{folder}", command=("cargo",)))
    assert dict(plan.variables) == {name: f"{host}/home/{place}" for name, place in variables.items()}


def test_links_on_the_way_are_made_inside(host: Path) -> None:
    """`~/.nvm` is a link to another disk: the path as written leads somewhere inside as well."""
    write(host / "disk/nvm/v1/bin/node", "", 0o755)
    write(host / "disk/nvm/v1/lib/node_modules/x/package.json")
    (host / "home/.nvm").symlink_to(host / "disk/nvm")
    search = f"{host}/home/.nvm/v1/bin"
    plan = plan_wrap(spec(host, search_path=search, command=("node",)))
    links = [(source, place) for what, source, place in operations(plan) if what == "link"]
    assert (f"{host}/disk/nvm", f"{host}/home/.nvm") in links
    assert shown_binds(plan, host)["disk/nvm/v1"] is True
    assert plan.path.split(":")[0] == search


def test_path_holds_only_what_is_seen(host: Path) -> None:
    write(host / "repo/bin/x", "", 0o755)
    (host / "home/empty").mkdir()
    search = f"{host}/repo/bin:{host}/gone:.:bin::{host}/home:{host}/home/.ssh:/usr/bin"
    plan = plan_wrap(spec(host, search_path=search))
    folders = plan.path.split(":")
    assert folders[:2] == [f"{host}/repo/bin", "/usr/bin"]
    assert not [
        folder for folder in folders if not folder.startswith(("/usr", "/bin", "/sbin", f"{host}/repo"))
    ]


def test_bind_is_a_value() -> None:
    assert Bind("/a", True) == Bind("/a", True) != Bind("/a", False)
