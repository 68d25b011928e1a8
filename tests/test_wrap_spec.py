"""What `run` asks of its wrap: ground, spaces, a person's own shell, what is protected, the globs of the config."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import GatewayError
from gateway.options import RunOptions
from gateway.plan import Plan, make_plan
from gateway.session import Bridge, FileRules, Mode, Profile
from sandbox.spec import SandboxBindMount

Planner = Callable[..., Plan]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def plan(work: Path, tmp_path: Path) -> Planner:
    """Makes a plan from the options of `run` and the text of a config."""
    (tmp_path / "home").mkdir()

    def make(config: str = "", **options: Any) -> Plan:
        if config:
            options["config"] = str(tmp_path / "config.yaml")
            (tmp_path / "config.yaml").write_text(config)
        host = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
        return make_plan(RunOptions(**{"command": ("true",), **options}), host)

    return make


def binds(made: Plan) -> list[tuple[str, bool]]:
    return [(mount.host_path, mount.read_only) for mount in made.spec.bind_mounts]


# --- A person's own shell -------------------------------------------------------------------------


def test_terminal(plan: Planner, work: Path, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    made = plan(profile="terminal", bind=(f"{tmp_path}/more:ro",))
    spec = made.spec
    assert binds(made) == [
        (str(tmp_path / "home"), False),
        (str(work), False),
        (str(tmp_path / "more"), True),
    ]
    assert (spec.profile, spec.mode, made.workdir) == (Profile.TERMINAL, Mode.CHAT, str(work))
    assert (spec.git, spec.git_config, spec.home) == (None, "", "")
    assert (made.managed, made.space) == (None, None)
    assert spec.bridge is Bridge.HANDOVER


def test_terminal_in_the_home_directory(
    plan: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / "home")
    assert binds(plan(profile="terminal")) == [(str(tmp_path / "home"), False)]


def test_terminal_starts_where_it_was_opened(
    plan: Planner, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worktree around it stands on the records; only the directory itself becomes writable."""
    subprocess.run(("git", "init", "-q"), cwd=work, check=True)
    (work / "below").mkdir()
    monkeypatch.chdir(work / "below")
    made = plan(profile="terminal")
    assert (made.worktree, made.workdir) == (str(work), str(work / "below"))
    assert binds(made)[1] == (str(work / "below"), False)


def test_key_of_the_app_is_hidden_in_a_terminal_wherever_it_is(plan: Planner, tmp_path: Path) -> None:
    (tmp_path / "app.pem").touch()
    config = f"github: {{app_id: 1, private_key_file: '{tmp_path}/app.pem'}}\n"
    assert plan(config, profile="terminal").spec.deny_read == (str(tmp_path / "app.pem"),)
    assert plan(config).spec.deny_read == ()


# --- Spaces ---------------------------------------------------------------------------------------


def test_space(plan: Planner, tmp_path: Path) -> None:
    made = plan(space="s1", agent="a1")
    root = tmp_path / "home/.local/state/agent-gateway/spaces/s1"
    own = root / "agents/a1"
    assert binds(made) == [
        (str(own / "work"), False),
        (str(own / "config"), True),
        (str(root / "repos"), False),
    ]
    assert (made.spec.space_id, made.spec.agent_id) == ("s1", "a1")
    assert (made.workdir, made.worktree) == (str(own / "work"), "")
    assert made.spec.home == str(own / "state/home")
    assert made.space is not None and made.space.work == str(own / "work")
    assert not (tmp_path / "home/.local").exists()


def test_space_without_an_agent_has_one(plan: Planner) -> None:
    made = plan(space="s1", mode="plan")
    assert (made.spec.agent_id, made.spec.home) == ("default", "")
    assert made.spec.bind_mounts[0].host_path.endswith("/spaces/s1/agents/default/work")


def test_attachments_of_a_space(plan: Planner, tmp_path: Path) -> None:
    attachments = tmp_path / "home/.local/state/agent-gateway/spaces/s1/attachments"
    attachments.mkdir(parents=True)
    (tmp_path / "more").mkdir()
    made = plan(space="s1", bind=(f"{tmp_path}/more",))
    assert binds(made)[-2:] == [(str(attachments), True), (str(tmp_path / "more"), False)]


def test_what_agents_cloned_is_not_what_they_may_push_to(plan: Planner, tmp_path: Path, work: Path) -> None:
    repository = tmp_path / "home/.local/state/agent-gateway/spaces/s1/repos/widget"
    repository.mkdir(parents=True)
    for folder in (repository, work):
        subprocess.run(("git", "init", "-q"), cwd=folder, check=True)
        url = "https://github.com/acme/widget"
        subprocess.run(("git", "remote", "add", "origin", url), cwd=folder, check=True)
    made = plan("workspaces: {default: {repositories: [acme/docs]}}\n", space="s1")
    assert (made.repositories.own, [str(name) for name in made.repositories.linked]) == ((), ["acme/docs"])


# --- What is protected ----------------------------------------------------------------------------


def test_checkouts_of_every_workspace_are_protected(plan: Planner, work: Path, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("b")
    config = (
        f"workspaces: {{default: {{checkouts: [{tmp_path}/a]}}, team: {{checkouts: [{tmp_path}/link]}}}}\n"
    )
    for workspace in ("default", "team", "other"):
        spec = plan(config, workspace=workspace, protect=(f"{tmp_path}/c", f"{tmp_path}/a")).spec
        assert spec.protected_paths == tuple(str(tmp_path / name) for name in ("c", "a", "b"))


def test_a_checkout_need_not_exist(plan: Planner) -> None:
    """The config is for more machines than this; where it could be made inside, the wrap refuses."""
    assert plan("workspaces: {default: {checkouts: [/nowhere/x]}}\n").spec.protected_paths == ("/nowhere/x",)


# --- Values of the config -------------------------------------------------------------------------


def test_globs_of_the_config(plan: Planner, tmp_path: Path) -> None:
    (tmp_path / "home/real").mkdir()
    (tmp_path / "home/link").symlink_to("real")
    config = (
        f"files: {{deny_write: ['*.secret', '~/x'], allow_write: ['*/a.key'], "
        f"deny_read: ['~/link', '{tmp_path}/home/link', '{tmp_path}/home/l*']}}\n"
    )
    spec = plan(config).spec
    home = f"{tmp_path}/home"
    assert spec.deny_write == ("*.secret", f"{home}/x")
    assert spec.allow_write == ("*/a.key",)
    assert spec.deny_read == (f"{home}/link", f"{home}/real", f"{home}/l*")


def test_globs_in_a_home_with_wildcards_in_its_name(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "h[o]me"
    home.mkdir()
    config = tmp_path / "config.yaml"
    config.write_text("files: {deny_read: ['~/x*']}\n")
    made = make_plan(RunOptions(("true",), config=str(config)), {"HOME": str(home), "PATH": "/usr/bin"})
    assert made.spec.deny_read == (f"{tmp_path}/h[[]o]me/x*",)


def test_rules_and_bridge_reach_the_wrap(plan: Planner) -> None:
    spec = plan("file_rules: existing-only\nbridge: handover\n").spec
    assert (spec.file_rules, spec.bridge) == (FileRules.EXISTING_ONLY, Bridge.HANDOVER)


@pytest.mark.parametrize(("bind", "read_only"), [(":ro", True), (":rw", False), ("", False)])
def test_bind_of_the_worktree_says_how_it_is_seen(
    plan: Planner, work: Path, bind: str, read_only: bool
) -> None:
    assert binds(plan(bind=(f"{work}{bind}",))) == [(str(work), read_only)]


def test_bind_of_nothing(plan: Planner) -> None:
    with pytest.raises(GatewayError, match="--bind /nowhere: no such file or directory"):
        plan(bind=("/nowhere",))


def test_guest_paths_are_host_paths(plan: Planner, work: Path) -> None:
    assert plan().spec.bind_mounts == (SandboxBindMount(os.fspath(work), os.fspath(work)),)
