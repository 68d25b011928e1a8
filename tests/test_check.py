"""The dry runs: the same decision as a session's, for people and for scripts, and nothing recorded."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway.check import HostAnswer, PushAnswer, PushQuestion, check_file, check_host, check_push
from gateway.errors import UsageError
from gateway.policy.modes import Mode
from gateway.policy.rules import Subject
from tests.fakes.console import Console
from tests.source_tree import ROOT

CONFIG = """egress:
  allow:
    - extra.test
    - "*.wide.test"
  deny: [bad.wide.test]
  ports: [80, 443]
  raw: ["ssh.wide.test:22"]
  addresses: ["192.0.2.7:8443"]
"""
NO_CONFIG = "no problems: there is no config file, so the defaults hold"


NOW = datetime(2030, 1, 1, tzinfo=UTC)
SUBJECT = Subject("default", "", "", Mode.CHAT, NOW)

# --- check host -----------------------------------------------------------------------------------


def ask(
    folder: Path,
    target: str,
    *,
    config: str = CONFIG,
    extras: Sequence[str] = (),
    network: bool = True,
    subject: Subject = SUBJECT,
) -> HostAnswer:
    """The answer with this configuration."""
    path = folder / "config.yaml"
    path.write_text(config)
    return check_host(target, str(path), extras, network, {}, subject)


@pytest.mark.parametrize(
    ("target", "verdict", "code", "rule"),
    [
        # allowed, and almost
        ("extra.test", "allow", "", "config.yaml:3"),
        ("extra.test:80", "allow", "", "config.yaml:3"),
        ("EXTRA.test.", "allow", "", "config.yaml:3"),
        ("a.extra.test", "deny", "not_listed", "default"),
        ("deep.down.wide.test", "allow", "", "config.yaml:4"),
        ("wide.test", "deny", "not_listed", "default"),
        # deny beats allow
        ("bad.wide.test", "deny", "denied", "config.yaml:5"),
        # ports
        ("extra.test:22", "deny", "port", "default"),
        ("ssh.wide.test:22", "allow", "", "config.yaml:4"),
        ("ssh.wide.test:23", "deny", "port", "default"),
        ("extra.test:0", "deny", "port", "default"),
        ("extra.test:65536", "deny", "port", "default"),
        # addresses
        ("192.0.2.7:8443", "allow", "", "config.yaml:8"),
        ("192.0.2.7", "deny", "ip_literal", "default"),
        ("2001:db8::1", "deny", "ip_literal", "default"),
        ("[2001:db8::1]:443", "deny", "ip_literal", "default"),
        ("2001:db8::1:443", "deny", "ip_literal", "default"),  # one address, no port
        # what is no host
        ("", "deny", "malformed_host", "built-in"),
        ("extra.test:", "deny", "malformed_host", "built-in"),
        ("extra.test:99999999999", "deny", "malformed_host", "built-in"),
        ("extra.test:https", "deny", "malformed_host", "built-in"),
        ("https://extra.test/", "deny", "malformed_host", "built-in"),
        ("user@extra.test", "deny", "malformed_host", "built-in"),
        ("extra test", "deny", "malformed_host", "built-in"),
        ("0x7f.1", "deny", "malformed_host", "built-in"),
        ("exträ.test", "deny", "malformed_host", "built-in"),
    ],
)
def test_host(tmp_path: Path, target: str, verdict: str, code: str, rule: str) -> None:
    answer = ask(tmp_path, target)
    assert (answer.decision.verdict, answer.decision.code, answer.decision.rule) == (verdict, code, rule)
    assert answer.allowed is (verdict == "allow")


def test_host_where_the_rules_leave_no_network(tmp_path: Path) -> None:
    config = "rules: [{action: access_network, decision: deny}]\n"
    answer = ask(tmp_path, "extra.test", config=config)
    assert (answer.decision.code, answer.decision.rule) == ("network_off", "config.yaml:1")
    one_agent = "rules: [{action: access_network, decision: deny, agent: a}]\n"
    assert ask(tmp_path, "extra.test", config=one_agent).decision.code == "not_listed"
    named = replace(SUBJECT, agent="a")
    assert ask(tmp_path, "extra.test", config=one_agent, subject=named).decision.rule == "config.yaml:1"


def test_shipped_lists_count(tmp_path: Path) -> None:
    rules = {host: check_host(host, None, (), True, {"HOME": str(tmp_path)}, SUBJECT).decision.rule for host in
             ("api.anthropic.com", "github.com", "metadata.google.internal")}  # fmt: skip
    files = [rule.partition(":") for rule in rules.values()]
    assert [name for name, _, _ in files] == ["baseline.txt", "github.txt", "deny.txt"]
    for host, (name, _, line) in zip(rules, files, strict=True):
        entry = (ROOT / "allowlists" / name).read_text("utf-8").splitlines()[int(line) - 1]
        assert entry.split()[0].removeprefix("*.") in host


def test_options_of_run_count(tmp_path: Path) -> None:
    assert ask(tmp_path, "more.test", extras=("more.test",)).decision.rule == "--allow"
    assert ask(tmp_path, "extra.test", network=False).decision.code == "network_off"
    with pytest.raises(UsageError):
        ask(tmp_path, "more.test", extras=("bad.wide.test",))


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("extra.test", "allow extra.test:443 (config.yaml:3): the host is on the allowlist"),
        ("2001:DB8::1", "deny ip_literal [2001:db8::1]:443 (default): an address is not accepted"),
        ("a:99999", "deny port a:99999 (default): port 99999 is not open in this sandbox"),
        ("https://a.test/", "deny malformed_host https://a.test/ (built-in): this is a URL: write its host alone"),
        ("\x1b[31m\udcff", "deny malformed_host \\x1b[31m\\udcff (built-in): "),
    ],
)  # fmt: skip
def test_text(tmp_path: Path, target: str, text: str) -> None:
    shown = ask(tmp_path, target).as_text()
    assert shown.startswith(text)
    assert shown.isprintable()


@pytest.mark.parametrize(
    ("target", "status", "fields"),
    [
        ("extra.test:80", 0, {"host": "extra.test", "port": 80, "verdict": "allow", "code": ""}),
        ("a.test", 1, {"host": "a.test", "port": 443, "verdict": "deny", "code": "not_listed", "rule": "default"}),
        ("a.test:x", 1, {"port": None, "verdict": "deny", "code": "malformed_host", "rule": "built-in"}),
    ],
)  # fmt: skip
def test_json_and_status(tmp_path: Path, target: str, status: int, fields: dict[str, object]) -> None:
    console = Console(tmp_path)
    console.config(CONFIG)
    done = console.call("check", "host", "--json", target)
    answer = json.loads(done.stdout)
    assert (done.status, done.said, len(done.lines)) == (status, [], 1)
    assert answer.keys() == {"host", "port", "verdict", "code", "rule", "message"}
    assert fields.items() <= answer.items()
    assert answer["message"].startswith("This sandbox's network policy refused") is bool(status)
    assert console.call("check", "host", target).status == status


def test_nothing_is_recorded(tmp_path: Path) -> None:
    console = Console(tmp_path)
    console.call("check", "host", "a.test")
    assert not console.state.exists()


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    done = Console(tmp_path).call("check", "host", os.fsdecode(b"\xff.test"))
    assert (done.status, done.lines[0].partition(" (")[0]) == (1, "deny malformed_host \\udcff.test")


def test_host_with_a_broken_config(tmp_path: Path) -> None:
    console = Console(tmp_path)
    path = console.config("a: 1\nb: 2\n")
    done = console.call("check", "host", "a.test")
    assert (done.status, done.stdout) == (125, b"")
    assert [line.partition(" unknown")[0] for line in done.said] == [
        f"agent-gateway: {path}:{n}:" for n in (1, 2)
    ]


@pytest.mark.parametrize(
    "name", ["config.yaml", ".config/agent-gateway/config.yaml", "agent-gateway/config.yaml"]
)
def test_working_directory_says_nothing(tmp_path: Path, name: str) -> None:
    console = Console(tmp_path)
    path = console.work / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(CONFIG)
    assert console.call("check", "host", "extra.test").status == 1
    assert console.call("check", "config").lines == [NO_CONFIG]
    assert console.call("check", "host", "--config", name, "extra.test").status == 0


def test_which_config_counts(tmp_path: Path) -> None:
    console = Console(tmp_path)

    def allowing(path: Path, host: str) -> str:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"egress: {{allow: [{host}]}}\n")
        return str(path)

    def allowed(*options: str) -> list[str]:
        hosts = ("home.test", "xdg.test", "variable.test", "option.test")
        return [host for host in hosts if console.call("check", "host", *options, host).status == 0]

    allowing(console.home / ".config/agent-gateway/config.yaml", "home.test")
    assert allowed() == ["home.test"]
    console.environ["XDG_CONFIG_HOME"] = str(tmp_path / "xdg")
    allowing(tmp_path / "xdg/agent-gateway/config.yaml", "xdg.test")
    assert allowed() == ["xdg.test"]
    console.environ["AGENT_GATEWAY_CONFIG"] = allowing(tmp_path / "variable.yaml", "variable.test")
    assert allowed() == ["variable.test"]
    assert allowed("--config", allowing(tmp_path / "option.yaml", "option.test")) == ["option.test"]


# --- check push -----------------------------------------------------------------------------------

RULES = """workspaces: {team: {repositories: [acme/widget]}}
rules:
  - {action: push, decision: deny, refs: [main], note: open a pull request}
  - {action: push, decision: allow, refs: ["agent/**"]}
  - {action: push, decision: ask, refs: ["agent/**"], force: true}
  - {action: push, decision: deny, refs: ["agent/**"], kind: delete}
  - {action: push, decision: allow, tags: true}
  - {action: push, decision: deny, agent: codex}
  - {action: push, decision: allow, space: blue, repositories: ["acme/*"]}
  - {action: push, decision: deny, workspace: team, kind: create}
"""
Kinds = list[tuple[str, str, str]]


def push(folder: Path, *refs: str, repository: str = "acme/widget", **more: Any) -> PushAnswer:
    """The answer with these rules."""
    path = folder / "config.yaml"
    path.write_text(RULES)
    return check_push(PushQuestion(repository, refs, **more), str(path), {}, NOW)


def kinds_of(answer: PushAnswer) -> Kinds:
    """Kind, verdict and rule of every decision."""
    return [(str(one.kind), str(found.verdict), found.rule) for one, found in answer.decisions]


@pytest.mark.parametrize(
    ("ref", "options", "decisions"),
    [
        ("main", {}, [("create", "deny", "config.yaml:3"), ("fast-forward", "deny", "config.yaml:3")]),
        ("refs/heads/main", {"delete": True}, [("delete", "deny", "config.yaml:3")]),
        ("Main", {"force": True}, [("force", "deny", "config.yaml:3")]),
        ("agent/x", {}, [("create", "allow", "config.yaml:4"), ("fast-forward", "allow", "config.yaml:4")]),
        ("agent/x", {"force": True}, [("force", "ask", "config.yaml:5")]),
        ("agent/x", {"delete": True}, [("delete", "deny", "config.yaml:6")]),
        ("agent", {}, [("create", "ask", "default"), ("fast-forward", "ask", "default")]),
        ("refs/tags/v1", {}, [("create", "allow", "config.yaml:7")]),
        ("refs/tags/v1", {"force": True}, [("tag-move", "allow", "config.yaml:7")]),
        ("v1", {"force": True}, [("force", "ask", "default")]),
        ("refs/notes/x", {}, [("create", "ask", "default"), ("fast-forward", "ask", "default")]),
        ("refs/pull/1/head", {"force": True}, [("force", "deny", "built-in")]),
        ("a..b", {"delete": True}, [("delete", "deny", "built-in")]),
        ("agent/*", {"delete": True}, [("delete", "deny", "built-in")]),
        ("agent/x", {"mode": Mode.PLAN, "force": True}, [("force", "deny", "preset:plan")]),
        ("agent/x", {"agent": "codex", "force": True}, [("force", "deny", "config.yaml:8")]),
        ("main", {"space": "blue", "force": True}, [("force", "allow", "config.yaml:9")]),
        ("x", {"workspace": "team"}, [("create", "deny", "config.yaml:10"), ("fast-forward", "ask", "default")]),
    ],
)  # fmt: skip
def test_push(tmp_path: Path, ref: str, options: dict[str, Any], decisions: Kinds) -> None:
    assert kinds_of(push(tmp_path, ref, **options)) == decisions


def test_the_strictest_ref_counts(tmp_path: Path) -> None:
    assert push(tmp_path, "agent/x", "agent/y").verdict == "allow"
    assert push(tmp_path, "agent/x", "dev").verdict == "ask"
    assert push(tmp_path, "agent/x", "dev", "main").verdict == "deny"


def test_what_else_stands_in_the_way_is_said(tmp_path: Path) -> None:
    linked = push(tmp_path, "agent/x", workspace="team", repository="Acme/Widget.git").notes
    assert [note.partition(":")[0] for note in linked] == ["github.app_id is not set"]
    for options in ({}, {"workspace": "team", "repository": "acme/other"}, {"workspace": "nowhere"}):
        assert "only a session in a worktree of its own" in push(tmp_path, "agent/x", **options).notes[0]


@pytest.mark.parametrize("name", ["", "widget", "acme/..", "https://github.com/acme/widget"])
def test_no_repository(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        push(tmp_path, "main", repository=name)
    assert Console(tmp_path).call("check", "push", name, "main").status == 2


@pytest.mark.parametrize(
    ("arguments", "status", "lines"),
    [
        (("agent/x",), 0, ["allow refs/heads/agent/x create/fast-forward (config.yaml:4): Push to remote is"]),
        (("agent/x", "--force"), 3, ["ask refs/heads/agent/x force (config.yaml:5): Push to remote needs an approval"]),
        (("agent/x", "dev", "main"), 1, ["allow ", "ask refs/heads/dev create/fast-forward (default): ", "deny "]),
        (
            ("main", "--delete"),
            1,
            ["deny refs/heads/main delete (config.yaml:3): Push to remote is denied for main (deletion) by config"],
        ),
        (
            ("x", "--workspace", "team"),
            1,
            ["deny refs/heads/x create (config.yaml:10): ", "ask refs/heads/x fast-forward (default): "],
        ),
        (("x", "--agent", "codex"), 1, ["deny refs/heads/x create/fast-forward (config.yaml:8): "]),
        (("x", "--space", "blue"), 0, ["allow refs/heads/x create/fast-forward (config.yaml:9): "]),
        (("x", "--mode", "review"), 1, ["deny refs/heads/x create/fast-forward (preset:review): "]),
        (("\x1b[31m",), 1, ["deny refs/heads/\\x1b[31m create/fast-forward (built-in): "]),
    ],
)  # fmt: skip
def test_push_as_text_and_status(
    tmp_path: Path, arguments: tuple[str, ...], status: int, lines: list[str]
) -> None:
    console = Console(tmp_path)
    console.config(RULES)
    done = console.call("check", "push", "acme/widget", *arguments)
    assert (done.status, len(done.lines)) == (status, len(lines))
    for shown, start in zip(done.lines, lines, strict=True):
        assert shown.startswith(start)
        assert shown.isprintable()
    assert all(line.startswith("agent-gateway: ") for line in done.said)
    assert not console.state.exists()


def test_push_as_json(tmp_path: Path) -> None:
    console = Console(tmp_path)
    console.config(RULES)
    done = console.call("check", "push", "acme/widget", "agent/x", "refs/tags/v1", "--force", "--json")
    answer = json.loads(done.stdout)
    assert (done.status, done.said) == (3, [])
    assert answer.keys() == {"repository", "verdict", "refs", "notes"}
    assert (answer["repository"], answer["verdict"], len(answer["notes"])) == ("acme/widget", "ask", 2)
    assert [
        (one["ref"], one["kind"], one["verdict"], one["rule"], one["code"]) for one in answer["refs"]
    ] == [
        ("refs/heads/agent/x", "force", "ask", "config.yaml:5", ""),
        ("refs/tags/v1", "tag-move", "allow", "config.yaml:7", ""),
    ]
    assert all(one["reason"].startswith("Push to remote ") for one in answer["refs"])


@pytest.mark.parametrize(
    "arguments", [("acme/widget",), ("acme/widget", "x", "--force", "--delete"), ("acme/widget", "x", "--mode", "no")]
)  # fmt: skip
def test_push_that_cannot_be_asked_about(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = Console(tmp_path).call("check", "push", *arguments)
    assert (done.status, done.stdout) == (2, b"")


def test_push_with_a_broken_config(tmp_path: Path) -> None:
    console = Console(tmp_path)
    path = console.config("rules: [x]\n")
    done = console.call("check", "push", "acme/widget", "main")
    assert (done.status, done.stdout) == (125, b"")
    assert done.said[0].startswith(f"agent-gateway: {path}:1: rules: each entry is a mapping")


# --- check config ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("c.yaml", "sandbox: on\n", []),
        ("c.yaml", "", [(1, False)]),
        ("c.yaml", "a: 1\nsandbox: maybe\negress: {ports: [0]}\n", [(1, False), (2, False), (3, False)]),
        ("c.yaml", "egress:\n  allow: [exact.test]\n  deny: [exact.test]\n", [(2, False)]),
        ("c.yaml", "environment:\n  pass: [A]\n  set: {A: b}\n", [(3, True)]),
        ("l.txt", "a.test  # why\n", []),
        ("l.txt", "", [(0, False)]),
        ("l.txt", "a.test  # why\nb test\n*.test  # why\n", [(2, False), (3, False)]),
        ("l.txt", "a.test\n", [(1, True)]),
        ("l.txt", "192.0.2.1  # why\n", [(1, False)]),
        ("deny.txt", "192.0.2.1  # why\n", []),
        ("deny.txt", "*.a.test  # why\n", [(1, True)]),
        ("l.txt", "a.test  # why\n*.github.io  # why\nx.onion  # why\n", [(2, True), (3, False)]),
        ("l.txt", "*.github.io  # why  risk=X3\n", []),
        ("l.txt", "github.com  # why\nmetadata.google.internal  # why\n", [(1, True), (2, False)]),
        (
            "c.yaml",
            "egress:\n  allow:\n  - '*.github.io'\n  - pastebin.com\n  - fine.test\n",
            [(3, True), (4, True)],
        ),
        ("c.yaml", "egress:\n  allow: [x.onion]\n", [(2, False)]),
        ("c.yaml", "egress:\n  allow: [x.onion]\n  hosts: {x.onion: 192.0.2.1}\n", [(3, True)]),
        ("c.yaml", "egress:\n  allow: ['*.co.uk', '*.statsig.com']\n", [(2, False)]),
    ],
)
def test_file(tmp_path: Path, name: str, content: str, found: list[tuple[int, bool]]) -> None:
    path = tmp_path / name
    path.write_text(content)
    problems = check_file(str(path), {})
    assert [(problem.line, problem.warning) for problem in problems] == found, problems
    assert {problem.file for problem in problems} <= {str(path)}


@pytest.mark.parametrize("name", ["c.yaml", "l.txt"])
def test_what_is_no_file(tmp_path: Path, name: str) -> None:
    """Missing, a directory, a pipe that nobody writes to, too long, not text: one error each, and no waiting."""
    path = tmp_path / name
    makers = (
        lambda: None,
        path.mkdir,
        lambda: os.mkfifo(path),
        lambda: path.write_bytes(b"#" * ((1 << 20) + 1)),
        lambda: path.write_bytes(b"a: \xff\n"),
    )
    for make in makers:
        make()
        assert [problem.warning for problem in check_file(str(path), {})] == [False]
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)


@pytest.mark.parametrize("name", ["baseline.txt", "github.txt", "deny.txt", "cautions.txt", "redirects.txt"])
def test_shipped_lists_are_fine(name: str) -> None:
    assert check_file(str(ROOT / "allowlists" / name), {}) == ()


def test_shipped_example_is_fine() -> None:
    assert check_file(str(ROOT / "config.example.yaml"), {}) == ()


@pytest.mark.parametrize(
    ("content", "status", "lines"),
    [
        ("sandbox: on\n", 0, ["no problems in "]),
        ("environment:\n  pass: [A]\n  set: {A: b}\n", 0, [":3: warning: "]),
        ("a: 1\negress:\n  allow: [b c]\n", 1, [":1: unknown key", ":3: egress.allow"]),
    ],
)
def test_lines_and_status(tmp_path: Path, content: str, status: int, lines: list[str]) -> None:
    console = Console(tmp_path)
    path = console.config(content)
    for arguments in ((), (str(path),)):
        done = console.call("check", "config", *arguments)
        assert (done.status, done.said, len(done.lines)) == (status, [], len(lines))
        for shown, expected in zip(done.lines, lines, strict=True):
            assert shown.startswith(f"{path}{expected}" if expected.startswith(":") else expected)


def test_problems_as_json(tmp_path: Path) -> None:
    console = Console(tmp_path)
    path = console.config("a: 1\nenvironment:\n  pass: [A]\n  set: {A: b}\n")
    done = console.call("check", "config", "--json")
    found = json.loads(done.stdout)
    assert (done.status, [(one["file"], one["line"], one["warning"]) for one in found]) == (
        1,
        [(str(path), 1, False), (str(path), 4, True)],
    )
    assert all(one.keys() == {"file", "line", "message", "warning"} and one["message"] for one in found)
    path.write_text("sandbox: on\n")
    assert console.call("check", "config", "--json").stdout == b"[]\n"


def test_run_says_the_same(tmp_path: Path) -> None:
    console = Console(tmp_path)
    console.config("a: 1\negress:\n  allow: [b c]\n")
    checked = console.call("check", "config")
    assert console.run("true").said == [f"agent-gateway: {line}" for line in checked.lines]


def test_without_any_config(tmp_path: Path) -> None:
    done = Console(tmp_path).call("check", "config")
    assert (done.status, done.lines, done.said) == (0, [NO_CONFIG], [])
