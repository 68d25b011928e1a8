"""The parsers: what stands before the `--`, and what every option says without being asked."""

import pytest

from gateway.arguments import build_parser, divide


@pytest.mark.parametrize(
    ("arguments", "ours", "command"),
    [
        ([], [], None),
        (["run"], ["run"], None),
        (["run", "--"], ["run"], []),
        (["run", "--quiet", "--", "x", "--", "-y"], ["run", "--quiet"], ["x", "--", "-y"]),
        (["profile", "--json", "--", "x"], ["profile", "--json"], ["x"]),
        (["check", "host", "--", "x"], ["check", "host", "--", "x"], None),
        (["--version", "--", "run"], ["--version", "--", "run"], None),
    ],
)
def test_command_stands_after_the_dashes(
    arguments: list[str], ours: list[str], command: list[str] | None
) -> None:
    assert divide(arguments) == (ours, command)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ([], ""),
        (["run"], "run"),
        (["profile"], "profile"),
        (["check", "host", "a.test"], "check host"),
        (["check", "push", "a/b", "main"], "check push"),
        (["check", "command", "git push"], "check command"),
        (["check", "config"], "check config"),
        (["review", "verify"], "review verify"),
        (["demo"], "demo"),
    ],
)
def test_command_has_a_name(arguments: list[str], name: str) -> None:
    assert build_parser().parse_args(arguments).command_name == name


@pytest.mark.parametrize("command", ["run", "profile"])
def test_options_of_run(command: str) -> None:
    parsed = build_parser().parse_args([command])
    assert (parsed.mode, parsed.profile, parsed.workspace) == ("chat", "agent", "default")
    for name in ("config", "sandbox", "backend", "repo", "worktree", "space", "agent", "session"):
        assert getattr(parsed, name) is None
    for name in ("bind", "protect", "state_dir", "exec_grant", "allow", "env", "stray"):
        assert getattr(parsed, name) == []
    words = [command, "--exec-grant", "/a", "--exec-grant", "/b", "--space", "s", "--profile", "terminal"]
    parsed = build_parser().parse_args([*words, "--worktree", "cow"])
    assert (parsed.exec_grant, parsed.space, parsed.profile) == (["/a", "/b"], "s", "terminal")
    assert parsed.worktree == "cow"


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--profile", "person"],
        ["run", "--worktree", "copy"],
        ["run", "--platform", "linux"],
        ["run", "--json"],
        ["profile", "--platform", "windows"],
        ["profile", "--exec-grant"],
    ],
)
def test_usage_errors(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        build_parser().parse_args(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: agent-gateway")
