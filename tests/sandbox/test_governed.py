"""What the create-time rules govern: what is sealed by its path, which masks are left. Real trees, no bubblewrap."""

import os
import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.session import FileRules, Mode
from sandbox import masks
from sandbox.git.github_host import GITHUB_HOST
from sandbox.git.session import SessionGit
from sandbox.governed import PACKAGE_CACHES, Governed
from sandbox.layout import GH_CONFIG
from sandbox.masks import MaskKind
from sandbox.mounts import WrapPlan, plan_wrap
from sandbox.spec import SandboxBindMount, SandboxSpec

OF_GIT = ("commondir", "config.worktree", "gitdir", "hooks")


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def git(cwd: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@b.test", "-c", "init.defaultBranch=main")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(cwd), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(("git", *identity, *arguments), cwd=cwd, env=environment, check=True, capture_output=True)


def spec(root: Path, *binds: str, **fields: object) -> SandboxSpec:
    """A spec with create-time rules; a bind is relative to the root, "name:ro" is read-only."""
    mounts = []
    for bind in binds or ("repo",):
        path = f"{root}/{bind.removesuffix(':ro')}"
        os.makedirs(path, exist_ok=True)
        mounts.append(SandboxBindMount(path, path, bind.endswith(":ro")))
    made = SandboxSpec(
        "session", "default", "", tuple(mounts), user_home=f"{root}/home", file_rules=FileRules.CREATE_TIME
    )
    return replace(made, **fields)  # type: ignore[arg-type]  # rows of tables


def plan(root: Path, *binds: str, **fields: object) -> tuple[WrapPlan, Governed]:
    made = plan_wrap(spec(root, *binds, **fields))
    assert made.governed is not None
    return made, made.governed


def below(root: Path, paths: tuple[str, ...]) -> set[str]:
    return {os.path.relpath(path, root) for path in paths}


def test_existing_only_governs_nothing(tmp_path: Path) -> None:
    write(tmp_path / "repo/.env")
    assert plan_wrap(replace(spec(tmp_path), file_rules=FileRules.EXISTING_ONLY)).governed is None


def test_no_mask_denies_a_name(tmp_path: Path) -> None:
    for name in (
        ".env",
        "a/b.key",
        ".vscode/x",
        ".claude/settings.json",
        "sub/.git/config",
        "plans",
        "b/c/plans",
    ):
        write(tmp_path / "repo" / name)
    git(tmp_path / "repo", "init", "-q")
    made, governed = plan(tmp_path, deny_read=("plans",), protected_paths=(f"{tmp_path}/repo/a",))
    assert {os.path.relpath(mask.path, tmp_path / "repo"): mask.kind for mask in made.masks} == {
        "plans": MaskKind.EMPTY_FILE, "b/c/plans": MaskKind.EMPTY_FILE,
        # what is sealed and there cannot be removed either
        ".git/hooks": MaskKind.READ_ONLY, "a": MaskKind.READ_ONLY,
    }  # fmt: skip
    # What is hidden stays where it is, and so does what is above it.
    assert {"repo/plans", "repo/b/c/plans", "repo/a"} <= below(tmp_path, governed.sealed)
    assert not {"repo/.env", "repo/.vscode"} & below(tmp_path, governed.sealed)


def test_as_many_denied_names_as_there_may_be(tmp_path: Path) -> None:
    for number in range(masks.MASK_LIMIT + 1):
        write(tmp_path / f"repo/{number}.pem")
    made, _ = plan(tmp_path)
    assert made.masks == ()


@pytest.mark.parametrize(
    ("binds", "mode", "expected"),
    [
        (("repo",), Mode.CHAT, {"repo"}),
        (("repo:ro",), Mode.CHAT, set()),
        (("repo",), Mode.REVIEW, set()),
        (("repo", "data:ro", "other"), Mode.CHAT, {"repo", "other"}),
    ],
)
def test_what_can_be_written(tmp_path: Path, binds: tuple[str, ...], mode: Mode, expected: set[str]) -> None:
    state = tmp_path / "home/state/workspaces/default"
    (state / "agents/claude").mkdir(parents=True)
    fields = {
        "home": f"{state}/home",
        "state_dir": f"{tmp_path}/home/state",
        "runner_state_dirs": (f"{state}/agents/claude",),
    }
    _, governed = plan(tmp_path, *binds, mode=mode, **fields)
    assert set(governed.writable) == {
        f"{state}/home", f"{state}/agents/claude", *(f"{tmp_path}/{name}" for name in expected),
    }  # fmt: skip
    assert set(governed.allow_write) == {f"{state}/home/{cache}/*" for cache in PACKAGE_CACHES}


def test_mounts_of_the_wraps_own(tmp_path: Path) -> None:
    """The tests' directories lie in /tmp: it holds something governed, unless that cannot be written."""
    _, governed = plan(tmp_path, git=SessionGit(GITHUB_HOST))
    assert set(governed.own) == {"/tmp"}
    assert set(governed.private) == {"/var/tmp", "/dev", "/proc", GH_CONFIG}
    _, governed = plan(tmp_path, "repo:ro")
    assert (governed.own, set(governed.private)) == ((), {"/tmp", "/var/tmp", "/dev", "/proc"})
    assert (governed.writable, governed.allow_write) == ((), ())


def test_repository(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    git(tmp_path / "repo", "init", "-q")
    made, governed = plan(tmp_path)
    assert below(tmp_path, governed.git_configs) == {"repo/.git/config"}
    # also what is not there yet
    assert below(tmp_path, governed.sealed) == {f"repo/.git/{name}" for name in OF_GIT}
    assert [mask.path for mask in made.masks] == [f"{tmp_path}/repo/.git/hooks"]


def test_repository_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    git(tmp_path / "repo", "init", "-q")
    for binds, mode in ((("repo:ro",), Mode.CHAT), (("repo",), Mode.PLAN)):
        _, governed = plan(tmp_path, *binds, mode=mode)
        assert (governed.sealed, governed.git_configs) == ((), ())


def test_linked_worktree(tmp_path: Path) -> None:
    (tmp_path / "main").mkdir()
    git(tmp_path / "main", "init", "-q")
    git(tmp_path / "main", "commit", "-q", "--allow-empty", "-m", "first")
    git(tmp_path / "main", "worktree", "add", "-q", str(tmp_path / "repo"))
    made, governed = plan(tmp_path)
    assert set(governed.writable) == {f"{tmp_path}/repo", f"{tmp_path}/main/.git"}
    assert below(tmp_path, governed.git_configs) == {"main/.git/config"}
    linked = "main/.git/worktrees/repo"
    assert below(tmp_path, governed.sealed) == {
        "repo/.git", f"{linked}/commondir", f"{linked}/gitdir", f"{linked}/config.worktree",
        *(f"main/.git/{name}" for name in OF_GIT),
    }  # fmt: skip
    # None of these may be removed either.
    assert {os.path.relpath(mask.path, tmp_path): mask.kind for mask in made.masks} == dict.fromkeys(
        ("repo/.git", f"{linked}/commondir", f"{linked}/gitdir", "main/.git/hooks"), MaskKind.READ_ONLY
    )


def test_submodules(tmp_path: Path) -> None:
    for name in ("HEAD", "config", "objects/x", "refs/x", "modules/lib/HEAD", "modules/lib/objects/x",
                 "modules/lib/refs/x", "modules/lib/config"):  # fmt: skip
        write(tmp_path / "repo/.git" / name)
    write(tmp_path / "repo/lib/.git", "gitdir: ../.git/modules/lib\n")
    _, governed = plan(tmp_path)
    assert below(tmp_path, governed.git_configs) == {"repo/.git/config", "repo/.git/modules/lib/config"}
    assert "repo/lib/.git" in below(tmp_path, governed.sealed)
    assert "repo/.git/modules/lib/hooks" in below(tmp_path, governed.sealed)


def test_repository_in_a_protected_path(tmp_path: Path) -> None:
    (tmp_path / "repo/sub").mkdir(parents=True)
    git(tmp_path / "repo/sub", "init", "-q")
    _, governed = plan(tmp_path, protected_paths=(f"{tmp_path}/repo/sub",))
    assert governed.git_configs == ()
    assert "repo/sub" in below(tmp_path, governed.sealed)


@pytest.mark.parametrize(
    ("links", "sealed"),
    [
        # the target, and the link: something else could take its place
        ({".env": "values"}, {".env", "values"}),
        ({"sub/a.key": "../values"}, {"sub/a.key", "values"}),
        ({".env": "missing"}, {".env", "missing"}),
        ({".vscode": "folder"}, {".vscode", "folder"}),
        # what is denied there by its path is denied, there or not
        ({".claude": "folder"}, {".claude", *(f"folder/{name}" for name in (
            "settings.json", "settings.local.json", "hooks", "commands", "agents"))}),
        # a link cannot close the worktree
        ({"a.pem": "."}, {"a.pem"}),
        ({".env": ".env"}, {".env"}),
        ({".env": "/etc/passwd"}, {".env"}),
        ({"readme": "values"}, set()),
    ],
)  # fmt: skip
def test_links(tmp_path: Path, links: dict[str, str], sealed: set[str]) -> None:
    write(tmp_path / "repo/values")
    write(tmp_path / "repo/folder/x")
    (tmp_path / "repo/sub").mkdir()
    for name, target in links.items():
        (tmp_path / "repo" / name).symlink_to(target)
    made, governed = plan(tmp_path)
    assert below(tmp_path / "repo", governed.sealed) == sealed
    assert made.notes == ()


def test_protected_paths(tmp_path: Path) -> None:
    write(tmp_path / "repo/a/file")
    (tmp_path / "repo/link").symlink_to("a")
    paths = ("repo/link", "repo/missing", "elsewhere", "repo/a/file")
    _, governed = plan(tmp_path, protected_paths=tuple(f"{tmp_path}/{path}" for path in paths))
    assert below(tmp_path, governed.sealed) == {"repo/a", "repo/missing", "repo/a/file", "repo/link"}


def test_binds_in_one_another(tmp_path: Path) -> None:
    _, governed = plan(tmp_path, "repo", "repo/a/read:ro", "repo/b/write")
    assert (governed.sealed, below(tmp_path, governed.read_only)) == ((), {"repo/a/read"})
    assert below(tmp_path, governed.writable) == {"repo", "repo/b/write"}


def test_read_only_binds_beside_what_can_be_written(tmp_path: Path) -> None:
    """In a mount of the wrap's own they could be moved aside, elsewhere nobody can write around them."""
    _, governed = plan(tmp_path, "repo", "data:ro")
    assert below(tmp_path, governed.read_only) == {"data"}
    _, governed = plan(tmp_path, "data:ro")
    assert governed.read_only == ()


def test_sockets_are_covered(tmp_path: Path) -> None:
    (tmp_path / "repo/deep").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        folder = os.open(tmp_path / "repo/deep", os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{folder}/s")
        os.close(folder)
    made, governed = plan(tmp_path)
    assert [mask.kind for mask in made.masks] == [MaskKind.EMPTY_FILE]
    assert below(tmp_path, governed.sealed) == {"repo/deep/s"}
