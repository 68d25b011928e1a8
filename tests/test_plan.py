"""What `run` is going to do: worktree, mounts, places, environment and rules, from options and environment alone."""

import fnmatch
import hashlib
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.config import ConfigError
from gateway.errors import GatewayError, UsageError
from gateway.options import RunOptions
from gateway.plan import EXEC_GRANT_NOTE, Plan, make_plan
from gateway.policy.egress import EgressRequest, Transport, decide
from gateway.session import Mode
from sandbox.spec import SandboxBindMount

Planner = Callable[..., Plan]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory: no repository, and none above it."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def plan(work: Path, tmp_path: Path) -> Planner:
    """Makes a plan from the options of `run`; `environ` and `config` (a text) set the stage."""

    def make(*, environ: Mapping[str, str] | None = None, config: str = "", **options: Any) -> Plan:
        if config:
            options["config"] = str(tmp_path / "config.yaml")
            (tmp_path / "config.yaml").write_text(config)
        host = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", **(environ or {})}
        return make_plan(RunOptions(**{"command": ("true",), **options}), host)

    return make


def git(folder: Path, *arguments: str) -> None:
    """Git without anybody's configuration."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    command = ("git", "-c", "user.name=A", "-c", "user.email=a@b.test", *arguments)
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)


def places(made: Plan) -> tuple[str, str, str]:
    """The worktree, where CMD starts, and what is shown of the host for it."""
    return made.worktree, made.workdir, made.spec.bind_mounts[0].host_path


# --- Worktree -------------------------------------------------------------------------------------


def test_no_repository(plan: Planner, work: Path) -> None:
    assert places(plan()) == ("", str(work), str(work))


def test_below_a_repository(plan: Planner, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(work, "init", "-q")
    below = work / "deep/down"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert places(plan()) == (str(work), str(below), str(work))


def test_linked_worktree(plan: Planner, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(work, "init", "-q")
    git(work, "commit", "-q", "--allow-empty", "-m", "first")
    linked = tmp_path / "linked"
    git(work, "worktree", "add", "-q", str(linked))
    monkeypatch.chdir(linked)
    assert places(plan()) == (str(linked), str(linked), str(linked))


def test_nearest_repository_counts(plan: Planner, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = work / "inner"
    inner.mkdir()
    git(work, "init", "-q")
    git(inner, "init", "-q")
    monkeypatch.chdir(inner)
    assert plan().worktree == str(inner)


@pytest.mark.parametrize("empty", [True, False])
def test_what_only_looks_like_a_repository(plan: Planner, work: Path, tmp_path: Path, empty: bool) -> None:
    """Git takes neither, so neither widens what is shown."""
    if empty:
        (tmp_path / ".git").mkdir()
    else:
        (tmp_path / ".git").symlink_to("nowhere")
    assert places(plan()) == ("", str(work), str(work))


def test_link_to_the_current_directory(
    plan: Planner, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(work)
    monkeypatch.chdir(tmp_path / "link")
    assert places(plan()) == ("", str(work), str(work))


def test_named_worktree(plan: Planner, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    (other / "below").mkdir(parents=True)
    assert places(plan(repo=str(other))) == (str(other), str(other), str(other))
    assert places(plan(repo="../other")) == (str(other), str(other), str(other))
    monkeypatch.chdir(other / "below")
    assert places(plan(repo="..")) == (str(other), str(other / "below"), str(other))


def test_current_directory_is_gone(plan: Planner, work: Path) -> None:
    work.rmdir()
    with pytest.raises(GatewayError, match="the current directory cannot be read"):
        plan()


# --- Mounts ---------------------------------------------------------------------------------------


def test_binds(plan: Planner, work: Path, tmp_path: Path) -> None:
    for name in ("a", "b", "c:ro", "d:x"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("b")
    made = plan(bind=(f"{tmp_path}/a:ro", "../b", f"{tmp_path}/c:ro:rw", f"{tmp_path}/d:x", "../link"))
    found = [(Path(mount.host_path).name, mount.read_only) for mount in made.spec.bind_mounts[1:]]
    assert found == [("a", True), ("b", False), ("c:ro", False), ("d:x", False), ("b", False)]
    assert made.spec.bind_mounts[0] == SandboxBindMount(str(work), str(work))


def test_what_is_not_there(plan: Planner, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for options, words in (
        ({"repo": "/nowhere"}, "--repo /nowhere: no such directory"),
        ({"repo": str(file)}, f"--repo {file}: no such directory"),
        ({"bind": ("/nowhere:ro",)}, "--bind /nowhere: no such file or directory"),
        ({"protect": ("/nowhere",)}, "--protect /nowhere: no such file or directory"),
        ({"state_dirs": ("/nowhere",)}, "--state-dir /nowhere: no such file or directory"),
    ):
        with pytest.raises(GatewayError, match=words) as caught:
            plan(**options)
        assert not isinstance(caught.value, UsageError)


def test_protected(plan: Planner, work: Path, tmp_path: Path) -> None:
    checkout = work / "checkout"
    checkout.mkdir()
    assert plan(protect=("checkout",)).spec.protected_paths == (str(checkout),)


def test_own_files_among_the_mounts_are_protected(plan: Planner, work: Path, tmp_path: Path) -> None:
    """The config, where it lies in what CMD may write; elsewhere it is not shown at all."""
    outside = "audit: {directory: /srv/audit}\n"
    (tmp_path / "more").mkdir()
    config = tmp_path / "more/config.yaml"
    config.write_text(outside)
    environ = {"AGENT_GATEWAY_CONFIG": str(config)}
    assert plan(environ=environ).spec.protected_paths == ()
    made = plan(environ=environ, bind=(f"{tmp_path}/more",))
    assert made.spec.protected_paths == (str(config),)


@pytest.mark.parametrize("place", ["state", "runtime", "audit"])
@pytest.mark.parametrize("shown", ["worktree", "bind", "state_dir"])
def test_own_state_among_what_is_shown(
    plan: Planner, work: Path, tmp_path: Path, place: str, shown: str
) -> None:
    """Refused before anything is written: the log would be the first thing to lie there."""
    folder = work if shown == "worktree" else tmp_path / "more"
    folder.mkdir(exist_ok=True)
    options = {"bind": {"bind": (f"{folder}:ro",)}, "state_dir": {"state_dirs": (str(folder),)}}.get(
        shown, {}
    )
    config = f"audit: {{directory: {folder}/audit}}\n" if place == "audit" else ""
    variable = {"state": "XDG_STATE_HOME", "runtime": "XDG_RUNTIME_DIR"}.get(place)
    environ = {variable: str(folder)} if variable else {}
    with pytest.raises(GatewayError, match=r"it holds this product's own state .*keep that elsewhere"):
        plan(config=config, environ=environ, **options)
    assert list(folder.iterdir()) == []
    assert plan(config=config, environ=environ, sandbox="off", **options)


def github(key: Path | str) -> str:
    return f"github: {{app_id: 1, private_key_file: '{key}'}}\n"


@pytest.mark.parametrize("shown", ["worktree", "bind", "state_dir", "link"])
def test_key_of_the_app_among_what_is_shown_is_hidden(
    plan: Planner, work: Path, tmp_path: Path, shown: str
) -> None:
    """It can make tokens that push, so it can neither be read nor replaced there."""
    folder = work if shown == "worktree" else tmp_path / "a*folder"
    folder.mkdir(exist_ok=True)
    key = folder / "app.pem"
    key.touch()
    named = key
    if shown == "link":
        named = tmp_path / "link.pem"
        named.symlink_to(key)
    options = {"state_dirs": (str(folder),)} if shown == "state_dir" else {"bind": (f"{folder}:ro",)}
    spec = plan(config=github(named), **options).spec
    assert spec.protected_paths == (str(key),)
    [glob] = spec.deny_read
    assert fnmatch.fnmatchcase(str(key), glob) and not fnmatch.fnmatchcase(
        f"{tmp_path}/another/app.pem", glob
    )


def test_key_of_the_app_elsewhere_is_not_shown(plan: Planner, tmp_path: Path) -> None:
    (tmp_path / "app.pem").touch()
    spec = plan(config=github(tmp_path / "app.pem")).spec
    assert (spec.protected_paths, spec.deny_read) == ((), ())


def test_key_of_the_app_where_nothing_can_be_hidden(plan: Planner, tmp_path: Path) -> None:
    """Any file there will do for it."""
    (tmp_path / "link.pem").symlink_to("/usr/bin/env")
    for named in ("/usr/bin/env", tmp_path / "link.pem"):
        with pytest.raises(
            GatewayError, match=r"private_key_file: /usr/.* lies in /usr, which every command sees"
        ):
            plan(config=github(named))


def test_managed_rules_among_what_is_shown_are_protected(plan: Planner, work: Path, tmp_path: Path) -> None:
    for folder, options in (
        (work, {}),
        (tmp_path / "bound", {"bind": (f"{tmp_path}/bound",)}),
        (tmp_path / "state", {"state_dirs": (f"{tmp_path}/state",)}),
        (tmp_path / "elsewhere", None),
    ):
        folder.mkdir(exist_ok=True)
        rules = folder / "rules.yaml"
        rules.write_text("rules: [{action: push, decision: deny}]\n")
        made = plan(config=f"managed_rules_file: {rules}\n", **(options or {}))
        assert made.spec.protected_paths == (() if options is None else (str(rules),))
        assert [rule.place for rule in made.config.rule_set.managed] == ["rules.yaml:1"]


@pytest.mark.parametrize("mode", list(Mode))
def test_modes(plan: Planner, mode: Mode) -> None:
    assert plan(mode=mode.value).spec.mode is mode


# --- Places ---------------------------------------------------------------------------------------


def test_own_places_are_told_to_the_wrap(plan: Planner, tmp_path: Path) -> None:
    made = plan(environ={"XDG_STATE_HOME": "/srv/state", "XDG_RUNTIME_DIR": "/run/user/7"}, workspace="team")
    spec = made.spec
    assert (spec.state_dir, spec.runtime_dir) == ("/srv/state/agent-gateway", "/run/user/7/agent-gateway")
    assert spec.home == str(Path("/srv/state/agent-gateway").joinpath("workspaces", "team", "home"))
    assert spec.user_home == str(tmp_path / "home")
    assert made.audit_directory == Path("/srv/state/agent-gateway/audit")
    assert plan(environ={"XDG_RUNTIME_DIR": "relative"}).spec.runtime_dir == ""
    assert plan(config="audit: {directory: /srv/audit}\n").audit_directory == Path("/srv/audit")


WORKSPACES = "home/.local/state/agent-gateway/workspaces"


def home_of(made: Plan, tmp_path: Path) -> str:
    return os.path.relpath(made.spec.home, tmp_path / WORKSPACES)


def test_home_belongs_to_the_worktree(plan: Planner, work: Path, tmp_path: Path) -> None:
    """What a run plants in its home must not run in another repository; the same name elsewhere is another one."""
    places = [work, tmp_path / "a/repo", tmp_path / "b/repo", tmp_path / "ö\x1b[2J x"]
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
    (tmp_path / "link").symlink_to("a/repo")
    homes = [home_of(plan(repo=str(place)), tmp_path) for place in places]
    for home, place, name in zip(homes, places, ("work", "repo", "repo", "___2J_x"), strict=True):
        digest = hashlib.sha256(os.fsencode(place)).hexdigest()[:12]
        assert home == f"default/worktrees/{name}-{digest}/home"
    assert len(set(homes)) == len(places)
    assert home_of(plan(repo=str(tmp_path / "link")), tmp_path) == homes[1]
    assert home_of(plan(), tmp_path) == homes[0]


def test_named_workspace_has_one_home(plan: Planner, work: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    for repo in (str(work), str(tmp_path / "other")):
        assert home_of(plan(repo=repo, workspace="team"), tmp_path) == "team/home"


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.CHAT])
@pytest.mark.parametrize("workspace", ["default", "team"])
def test_other_modes_have_a_throwaway_home(plan: Planner, mode: Mode, workspace: str) -> None:
    assert plan(mode=mode.value, workspace=workspace).spec.home == ""


# --- Identity, environment, rules -----------------------------------------------------------------


def test_session(plan: Planner) -> None:
    first, second = plan(), plan()
    assert first.session_id != second.session_id
    made = plan(session="s.1", agent="a-2")
    assert (made.session_id, made.spec.session_id, made.spec.agent_id, made.spec.workspace_id) == (
        "s.1", "s.1", "a-2", "default",
    )  # fmt: skip


@pytest.mark.parametrize("option", ["session", "workspace", "agent"])
@pytest.mark.parametrize("value", ["", " ", "a b", ".hidden", "..", "a/b", "-a", "ä", "a\n", "x" * 65])
def test_names(plan: Planner, option: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"--{option} takes a name"):
        plan(**{option: value})


def test_environment(plan: Planner) -> None:
    config = "environment: {pass: [A, B], set: {C: config, D: config}}\n"
    made = plan(config=config, env=("E", "D=hush", "F=", "G=a=b", "H=1", "H", "I", "I=2"))
    assert made.passed == ("A", "B", "E", "H")
    assert made.set_values == {"C": "config", "D": "hush", "F": "", "G": "a=b", "I": "2"}
    assert "hush" not in repr(made)


@pytest.mark.parametrize(
    "text", ["", "=", "=x", "https_proxy", "NO_PROXY=*", "LD_PRELOAD=/x", "AGENT_GATEWAY_X=1"]
)
def test_variables_nobody_sets(plan: Planner, text: str) -> None:
    with pytest.raises(UsageError, match=r"^--env: "):
        plan(env=(text,))


@pytest.mark.parametrize("config", ["{pass: [LD_PRELOAD]}", "{set: {ALL_PROXY: x}}"])
def test_variables_of_the_config_that_nobody_sets(plan: Planner, config: str) -> None:
    """No usage error: the command line is in order."""
    with pytest.raises(GatewayError, match=r"config\.yaml: environment: ") as caught:
        plan(config=f"environment: {config}\n")
    assert not isinstance(caught.value, UsageError)


def test_rules(plan: Planner) -> None:
    def verdicts(made: Plan) -> list[str]:
        requests = (EgressRequest(Transport.CONNECT, host, 443) for host in ("a.test", "b.test", "c.test"))
        return [str(decide(made.rules, request).rule) for request in requests]

    config = "egress: {allow: [a.test], deny: [c.test]}\n"
    assert verdicts(plan(config=config)) == ["config.yaml:1", "default", "config.yaml:1"]
    assert verdicts(plan(config=config, allow=("b.test",)))[1] == "--allow"
    assert set(verdicts(plan(config=config, network=False))) == {"built-in"}
    with pytest.raises(UsageError, match=r"--allow c\.test can never be reached"):
        plan(config=config, allow=("c.test",))


NETWORK: tuple[tuple[str, str, Mapping[str, Any], bool], ...] = (
    ("nobody has one", "[{action: access_network, decision: deny}]", {}, True),
    ("allowed hosts change nothing", "[{action: access_network, decision: deny}]", {"allow": ("a.test",)}, True),
    ("an agent has none", "[{action: access_network, decision: deny, agent: a}]", {"agent": "a"}, True),
    ("another agent has one", "[{action: access_network, decision: deny, agent: a}]", {"agent": "b"}, False),
    ("a workspace has none", "[{action: access_network, decision: deny, workspace: w}]", {"workspace": "w"}, True),
    ("asked is on", "[{action: access_network, decision: ask}]", {"mode": "plan"}, False),
    ("one host is no session's network", "[{action: access_network, decision: deny, hosts: [a.test]}]", {}, False),
    ("a denial for a while that is over",
     "[{action: access_network, decision: deny, expires: 2020-01-01T00:00:00Z}]", {}, False),
)  # fmt: skip


@pytest.mark.parametrize(
    ("rules", "options", "off"), [row[1:] for row in NETWORK], ids=[row[0] for row in NETWORK]
)
def test_the_network_is_decided_once(
    plan: Planner, rules: str, options: Mapping[str, Any], off: bool
) -> None:
    made = plan(config=f"egress: {{allow: [a.test]}}\nworkspaces: {{w: {{}}}}\nrules: {rules}\n", **options)
    decision = decide(made.rules, EgressRequest(Transport.CONNECT, "a.test", 443))
    assert (decision.verdict, decision.code) == (("deny", "network_off") if off else ("allow", ""))
    note = "the network is off: Access network is denied by config.yaml:3"
    assert [text for text in made.notes if "network" in text] == [note] * off


def test_a_managed_rule_takes_the_network(plan: Planner, tmp_path: Path) -> None:
    managed = tmp_path / "managed.yaml"
    managed.write_text("rules:\n  - {action: access_network, decision: deny}\n")
    rules = "rules: [{action: access_network, decision: allow, agent: a}]"
    made = plan(config=f"managed_rules_file: {managed}\n{rules}\n", agent="a")
    assert "the network is off: Access network is denied by managed.yaml:2" in made.notes
    assert not made.rules.network


def test_broken_config(plan: Planner) -> None:
    with pytest.raises(ConfigError, match=r"config\.yaml:1: unknown key"):
        plan(config="a: 1\n")


@pytest.mark.parametrize(
    ("options", "variable", "config", "backend", "line"),
    [
        ({"sandbox": "off"}, "on", "sandbox: on", "none", "agent sandbox DISABLED by --sandbox off"),
        ({"backend": "none"}, "", "", "none", "agent sandbox DISABLED by --backend none"),
        ({}, "off", "sandbox: on", "none", "agent sandbox DISABLED by CC_SERVER_SANDBOX"),
        ({}, "", "sandbox: off", "none", "agent sandbox DISABLED by config"),
    ],
)
def test_choice(
    plan: Planner, options: dict[str, Any], variable: str, config: str, backend: str, line: str
) -> None:
    made = plan(environ={"CC_SERVER_SANDBOX": variable}, config=config, **options)
    assert (made.choice.backend.name, made.choice.line) == (backend, line)
    assert (made.choice.stamp.backend, made.choice.stamp.file_rules) == ("none", "none")


def test_git_settings_of_the_user_are_copied(plan: Planner, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.gitconfig").write_text("[user]\n\tname = A U Thor\n[credential]\n\thelper = store\n")
    assert plan().spec.git_config == '[user]\n\tname = "A U Thor"\n'


def test_file_rules_of_the_config(plan: Planner) -> None:
    config = 'files: {deny_write: ["*.secret"], allow_write: [a.key], deny_read: ["*/private"]}\n'
    spec = plan(config=config).spec
    assert (spec.deny_write, spec.allow_write, spec.deny_read) == (("*.secret",), ("a.key",), ("*/private",))


# --- Repositories ---------------------------------------------------------------------------------

WORKSPACE_LIST = (
    "workspaces: {default: {repositories: [acme/docs]}, lab: {repositories: [acme/lab, Acme/Widget]}}\n"
)


def add_remotes(folder: Path, **urls: str) -> None:
    for name, url in urls.items():
        git(folder, "remote", "add", name, url)


def test_repositories_are_the_worktree_s_and_the_workspace_s(plan: Planner, work: Path) -> None:
    git(work, "init", "-q")
    add_remotes(
        work,
        upstream="git@github.com:acme/upstream.git",
        origin="https://github.com/acme/widget",
        elsewhere="https://forge.test/acme/elsewhere",
        local="/srv/acme/local.git",
    )
    for workspace, linked in (("default", ["acme/docs"]), ("lab", ["acme/lab", "Acme/Widget"]), ("none", [])):
        made = plan(config=WORKSPACE_LIST, workspace=workspace)
        assert [str(name) for name in made.repositories.own] == ["acme/widget", "acme/upstream"]
        assert [str(name) for name in made.repositories.linked] == linked
    assert [str(name) for name in plan(config=WORKSPACE_LIST, workspace="lab").repositories.all] == [
        "acme/widget", "acme/upstream", "acme/lab",
    ]  # fmt: skip
    assert made.authority == "github.com"


def test_repositories_of_a_linked_worktree(
    plan: Planner, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(work, "init", "-q")
    git(work, "commit", "-q", "--allow-empty", "-m", "first")
    add_remotes(work, origin="https://github.com/acme/widget")
    git(work, "worktree", "add", "-q", str(tmp_path / "linked"))
    monkeypatch.chdir(tmp_path / "linked")
    assert [str(name) for name in plan().repositories.own] == ["acme/widget"]


def test_repositories_are_those_of_the_worktree_that_is_named(
    plan: Planner, work: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for folder in (work, other):
        git(folder, "init", "-q")
        add_remotes(folder, origin=f"https://github.com/acme/{folder.name}")
    assert [str(name) for name in plan(repo=str(other)).repositories.own] == ["acme/other"]


def test_no_worktree_no_repositories(plan: Planner, work: Path) -> None:
    made = plan(config=WORKSPACE_LIST)
    assert (made.repositories.own, [str(name) for name in made.repositories.linked]) == ((), ["acme/docs"])


def test_another_forge(plan: Planner, work: Path) -> None:
    git(work, "init", "-q")
    add_remotes(work, origin="https://ghe.test:8443/acme/widget", github="https://github.com/acme/other")
    made = plan(config="github: {url: 'https://ghe.test:8443', api_url: 'https://ghe.test:8443/api/v3'}\n")
    assert made.authority == "ghe.test:8443"
    assert [str(name) for name in made.repositories.own] == ["acme/widget"]


def test_what_the_remotes_hold_against_the_rules_is_said(plan: Planner, work: Path) -> None:
    git(work, "init", "-q")
    add_remotes(work, origin="https://dev:hush@github.com/acme/widget")
    made = plan()
    [note] = made.notes
    assert note.startswith(
        "the address of the remote origin in this repository's configuration holds a login"
    )
    assert "hush" not in note and "hush" not in repr(made)


def test_nothing_is_made(plan: Planner, tmp_path: Path, work: Path) -> None:
    plan()
    assert [path.name for path in tmp_path.iterdir()] == ["work"]
    assert list(work.iterdir()) == []


# --- Options that change what is wrapped ----------------------------------------------------------


def test_exec_grants(plan: Planner, tmp_path: Path) -> None:
    """They count on macOS; elsewhere they are said to change nothing."""
    (tmp_path / "bin").mkdir()
    made = plan(exec_grants=(str(tmp_path / "bin"),))
    assert made.spec.exec_grant_roots == (str(tmp_path / "bin"),)
    assert made.notes == (EXEC_GRANT_NOTE,)
    with pytest.raises(GatewayError, match="--exec-grant /nowhere: no such directory"):
        plan(exec_grants=("/nowhere",))


@pytest.mark.parametrize("worktree", ["cow", "git"])
def test_worktrees_that_are_not_offered(plan: Planner, worktree: str) -> None:
    with pytest.raises(GatewayError, match=f"--worktree {worktree}: not available in this version") as caught:
        plan(worktree=worktree)
    assert not isinstance(caught.value, UsageError)
    assert plan(worktree="in-place").worktree == plan().worktree


def test_shell_takes_the_place_of_no_command(plan: Planner) -> None:
    made = plan(profile="terminal", command=(), environ={"SHELL": "/bin/bash"})
    assert (made.options.command, made.spec.command) == (("/bin/bash",), ("/bin/bash",))
    assert plan(profile="terminal", command=("id",)).options.command == ("id",)


@pytest.mark.parametrize(
    ("options", "backend", "line"),
    [
        ({}, "none", "agent sandbox DISABLED by --profile terminal"),
        ({"sandbox": "off"}, "none", "agent sandbox DISABLED by --sandbox off"),
        ({"backend": "native"}, "native", "agent sandbox ON ("),
    ],
)
def test_choice_for_a_terminal(plan: Planner, options: dict[str, Any], backend: str, line: str) -> None:
    made = plan(profile="terminal", **options)
    assert made.choice.backend.name == made.choice.stamp.backend == backend
    assert made.choice.line.startswith(line)


def test_an_agent_gets_a_directory_of_its_own(plan: Planner, tmp_path: Path, work: Path) -> None:
    """In a wrap; without one it finds the user's."""
    agent = tmp_path / "bin/claude"
    agent.parent.mkdir()
    agent.write_text("#!/bin/sh\n")
    agent.chmod(0o755)
    made = plan(command=(str(agent),), backend="native")
    assert made.managed is not None
    assert made.managed.folder in made.spec.runner_state_dirs
    assert made.managed.folder.startswith(str(Path(made.spec.home).parent))
    assert set(made.managed.sealed) <= set(made.spec.protected_paths)
    for options in ({"backend": "none"}, {"profile": "terminal", "backend": "native"}):
        made = plan(command=(str(agent),), **options)
        assert (made.managed, made.spec.runner_state_dirs) == (None, ())


# --- Notes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shell", "command", "said"),
    [
        ("/nope", (), True),
        ("relative", (), True),
        ("/etc/passwd", (), True),
        ("/bin/sh", (), False),
        ("", (), False),
        ("/nope", ("true",), False),  # nobody asked for a shell
    ],
)
def test_another_shell_than_the_one_asked_for_is_told(
    plan: Planner, shell: str, command: tuple[str, ...], said: bool
) -> None:
    made = plan(environ={"SHELL": shell}, profile="terminal", command=command, backend="none")
    notes = [note for note in made.notes if note.startswith(f"SHELL is {shell!r}, ")]
    assert bool(notes) is said
    assert all(f": {made.options.command[0]} is started instead" in note for note in notes)
    assert "stepped down" not in "".join(made.notes)


def test_what_a_terminal_has_not_is_told(plan: Planner) -> None:
    assert [note for note in plan(profile="terminal").notes if "microvm stepped down" in note]
