"""A spec becomes a policy: what the host's links, repositories and installed tools make of it."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from gateway.session import Mode, Profile
from sandbox.seatbelt.plan import NO_PORTS, NO_TAG, Layout, disk_name, plan_seatbelt, preview
from sandbox.seatbelt.policy import Operation
from sandbox.seatbelt.spelling import spell
from sandbox.spec import SandboxBindMount, SandboxSpec
from tests.sandbox.seatbelt.evaluator import Profile as Evaluated
from tests.sandbox.seatbelt.evaluator import Request
from tests.sandbox.wrapping import Place, place_of

CREATE, WRITE, READ, EXECUTE, UNLINK = (
    Operation.CREATE, Operation.WRITE, Operation.READ, Operation.EXECUTE, Operation.UNLINK,
)  # fmt: skip


@pytest.fixture
def place() -> Iterator[Place]:
    with place_of("root") as made:
        yield made


def spec_of(place: Place, **changes: object) -> SandboxSpec:
    work = str(place.worktree)
    spec = SandboxSpec(
        "session", "default", "", (SandboxBindMount(work, work),), user_home=str(place.home),
        home=str(place.state / "workspaces/default/home"), state_dir=str(place.state), search_path="/usr/bin:/bin",
    )  # fmt: skip
    return replace(spec, **changes)  # type: ignore[arg-type]  # names and values are those of the fields


def plan(place: Place, **changes: object) -> Layout:
    folder = place.state / "run/wrap-1"
    return plan_seatbelt(spec_of(place, **changes), str(folder))


def allows(layout: Layout, operation: Operation, path: Path | str, is_folder: bool = False) -> bool:
    """The verdict of policy and profile, which have to be one."""
    verdict = layout.policy.refusal(operation, str(path), is_folder) == ""
    profile = Evaluated(layout.profile(NO_PORTS, NO_TAG))
    assert profile.allows(Request(str(operation), os.fsencode(path), is_folder)) is verdict
    return verdict


def repository(path: Path) -> Path:
    subprocess.run(("git", "init", "-q", str(path)), check=True)
    return path


def test_repositories_that_are_there(place: Place) -> None:
    for path in (place.worktree, place.worktree / "vendor/lib"):
        repository(path)
        (path / ".git/hooks").rename(path / ".git/hooks.sample")  # absent, and still nobody makes it
    layout = plan(place)
    for path in (place.worktree, place.worktree / "vendor/lib"):
        for name in ("hooks", "hooks/pre-commit", "config", "config.worktree", "commondir", "gitdir"):
            assert not allows(layout, CREATE, path / ".git" / name), name
        for name in ("index", "config.lock", "refs/heads/main", "HEAD"):
            assert allows(layout, CREATE, path / ".git" / name), name
        assert not allows(layout, UNLINK, path / ".git", is_folder=True)
    assert not allows(layout, UNLINK, place.worktree / "vendor", is_folder=True)
    assert allows(layout, CREATE, place.worktree / "new/.git/config")
    assert allows(layout, CREATE, place.worktree / "new/.git/hooks/pre-commit")


def test_linked_worktree(place: Place) -> None:
    main = repository(place.root / "main")
    commit = ("-c", "user.name=x", "-c", "user.email=x@x.test", "commit", "-q", "--allow-empty", "-m", "x")
    subprocess.run(("git", "-C", str(main), *commit), check=True)
    place.worktree.rmdir()
    subprocess.run(("git", "-C", str(main), "worktree", "add", "-q", str(place.worktree)), check=True)
    layout = plan(place)
    assert not allows(layout, WRITE, place.worktree / ".git")
    assert not allows(layout, WRITE, main / ".git/config")
    assert not allows(layout, CREATE, main / ".git/hooks/pre-commit")
    assert not allows(layout, WRITE, main / f".git/worktrees/{place.worktree.name}/commondir")
    assert allows(layout, WRITE, main / f".git/worktrees/{place.worktree.name}/index")
    assert allows(layout, CREATE, main / ".git/objects/ab/cd")
    assert not allows(layout, WRITE, main / "a.py")


def test_links_are_both_spellings(place: Place) -> None:
    """The worktree is named by a link, and so is a protected path in it."""
    link = place.root / "link"
    link.symlink_to(place.worktree)
    (place.worktree / "real").mkdir()
    (place.worktree / "alias").symlink_to("real")
    bind = SandboxBindMount(str(link), str(link))
    layout = plan(place, bind_mounts=(bind,), protected_paths=(str(link / "alias"),))
    for root in (str(link), *spell(str(place.worktree))):
        assert allows(layout, CREATE, f"{root}/a")
        assert not allows(layout, CREATE, f"{root}/.env")
        assert not allows(layout, CREATE, f"{root}/real/a")
        assert not allows(layout, CREATE, f"{root}/alias/a")
        assert not allows(layout, UNLINK, root)


def test_what_a_denied_link_leads_to(place: Place) -> None:
    place.write(place.worktree / "shared/hooks-of-mine/run")
    (place.worktree / ".claude").mkdir()
    (place.worktree / ".claude/hooks").symlink_to("../shared/hooks-of-mine")
    layout = plan(place)
    assert not allows(layout, WRITE, place.worktree / "shared/hooks-of-mine/run")
    assert not allows(layout, UNLINK, place.worktree / "shared", is_folder=True)


def test_protected_path_that_does_not_exist(place: Place) -> None:
    layout = plan(place, protected_paths=(f"{place.worktree}/later/checkout",))
    assert not allows(layout, CREATE, place.worktree / "later/checkout")
    assert not allows(layout, CREATE, place.worktree / "later/checkout/a")
    assert allows(layout, CREATE, place.worktree / "later/other")


@pytest.mark.parametrize("mode", Mode)
def test_modes(place: Place, mode: Mode) -> None:
    state, protected = place.root / "state", place.worktree / "checkout"
    state.mkdir()
    protected.mkdir()
    layout = plan(place, mode=mode, runner_state_dirs=(str(state),), protected_paths=(str(protected),))
    assert allows(layout, CREATE, place.worktree / "a") is (mode is Mode.CHAT)
    assert not allows(layout, CREATE, protected / "a")
    assert allows(layout, CREATE, state / "a")
    assert allows(layout, CREATE, Path(layout.home) / "a")
    assert allows(layout, CREATE, Path(layout.tmpdir) / "a")


def test_secrets_and_other_sessions(place: Place) -> None:
    layout = plan(place)
    for path in (
        ".ssh/id_ed25519",
        ".aws/credentials",
        "Library/Keychains/x",
        "Library/Messages/chat.db",
        ".netrc",
    ):
        assert not allows(layout, READ, place.home / path), path
        assert not allows(layout, EXECUTE, place.home / path), path
    for path in ("audit/a.jsonl", "workspaces/other/home/x", "run/wrap-2/tmp/x", "run/wrap-1/profile.sb"):
        assert not allows(layout, READ, place.state / path), path
    assert allows(layout, READ, place.home / "notes.txt")
    assert not allows(layout, READ, "/private/etc/ssh/ssh_host_ed25519_key")


def test_home_has_the_directories_that_nobody_inside_may_make(place: Place) -> None:
    layout = plan(place)
    for name in (".claude", ".config/fish"):
        assert (Path(layout.home) / name).is_dir()
        assert not allows(layout, CREATE, f"{layout.home}/{name}")
    assert allows(layout, CREATE, f"{layout.home}/.config/tool/settings.toml")
    assert list(place.worktree.iterdir()) == []


def test_tools_that_are_executed_though_they_can_be_written(place: Place) -> None:
    venv = place.worktree / ".venv"
    place.write(venv / "pyvenv.cfg", "home = /usr/bin\n")
    place.write(venv / "bin/pytest", "#!/bin/sh\n", 0o755)
    place.write(place.worktree / "bin/tool", "#!/bin/sh\n", 0o755)
    for folder in ("venv/bin", "node_modules/.bin", "lib/node_modules/.bin"):
        (place.worktree / folder).mkdir(parents=True)
    tool = str(place.worktree / "bin/tool")
    for command, tried, runs in (
        (str(venv / "bin/pytest"), venv / "bin/pytest", True),
        (str(venv / "bin/pytest"), venv / "bin/python", True),
        (str(venv / "bin/pytest"), place.worktree / "bin/tool", False),
        (tool, place.worktree / "bin/tool", True),
        (tool, place.worktree / "a.out", False),
        ("true", venv / "bin/pytest", True),
        ("true", place.worktree / "venv/bin/pytest", False),  # called so, and proven by nothing
        ("true", place.worktree / "node_modules/.bin/jest", True),
        ("true", place.worktree / "node_modules/jest/bin/jest.js", True),
        ("true", place.worktree / "lib/node_modules/.bin/jest", False),
        ("true", Path("/usr/bin/true"), True),
    ):
        assert allows(plan(place, command=(command,)), EXECUTE, tried) is runs, (command, tried)


def test_exec_grants(place: Place) -> None:
    (place.worktree / "node_modules").mkdir()
    layout = plan(place, exec_grant_roots=(f"{place.worktree}/node_modules",))
    assert allows(layout, EXECUTE, place.worktree / "node_modules/.bin/jest")
    assert not allows(layout, EXECUTE, place.worktree / "build/jest")
    with pytest.raises(GatewayError, match=r"exec_grant_roots\[0\]"):
        plan(place, exec_grant_roots=(str(place.home / ".ssh"),))


def test_rules_of_the_configuration(place: Place) -> None:
    work = place.worktree
    layout = plan(
        place,
        deny_write=("*.tf", "deploy/plan"),
        allow_write=("test.pem", f"{work}/fixtures/*"),
        deny_read=("*.kdbx",),
    )
    for path, written in (
        ("main.tf", False), ("a/deploy/plan", False), ("a/deploy/plan/x", False), ("deploy/plans", True),
        ("deploy", False),
        ("test.pem", True), ("x.pem", False), ("fixtures/.env", True), ("fixtures/main.tf", True), ("a.kdbx", False),
    ):  # fmt: skip
        for spelled in spell(f"{work}/{path}"):
            assert allows(layout, CREATE, spelled) is written, spelled
    assert not allows(layout, READ, work / "a.kdbx")
    assert not allows(layout, READ, place.home / "a.kdbx")


def test_terminal(place: Place) -> None:
    layout = plan(place, profile=Profile.TERMINAL, home="")
    assert layout.home == str(place.home)
    assert allows(layout, CREATE, place.home / ".bashrc")
    assert allows(layout, CREATE, place.worktree / ".env")
    assert allows(layout, EXECUTE, place.home / "bin/tool")
    assert not allows(layout, READ, place.home / ".ssh/id_ed25519")
    assert not allows(layout, CREATE, place.home / ".ssh/authorized_keys")
    assert not allows(layout, UNLINK, place.home / ".config", is_folder=True)
    profile = Evaluated(layout.profile((), NO_TAG))
    assert profile.allows(Request("network-outbound", remote="tcp localhost:80"))


@pytest.mark.parametrize("path", ["/usr", "/private/var/tmp", "/opt"])
def test_directories_of_the_system_are_not_made_writable(place: Place, path: str) -> None:
    if os.path.isdir(path):
        with pytest.raises(GatewayError, match="cannot be"):
            plan(place, bind_mounts=(SandboxBindMount(path, path),))


def test_preview_makes_nothing(place: Place) -> None:
    shown = preview(spec_of(place, command=("make", "test")))
    assert shown.argv == ("/usr/bin/sandbox-exec", "-f", "profile.sb", "make", "test")
    assert NO_TAG in shown.profile
    assert not place.state.exists()
    Evaluated(shown.profile)


def test_path_holds_no_hidden_directory(place: Place) -> None:
    place.write(place.home / ".docker/bin/tool", "", 0o755)
    assert plan(place, search_path=f"{place.home}/.docker/bin:/usr/bin").path.startswith("/usr/bin")


def test_name_of_the_disk_where_nobody_can_say(tmp_path: Path) -> None:
    assert disk_name(f"{tmp_path}/missing") == f"{tmp_path}/missing"
    assert os.path.samefile(disk_name(str(tmp_path)), tmp_path)
