"""The environment of a person's own shell: the host's, and in a wrap neither logins nor ways to its services."""

import pytest

from gateway.errors import UsageError
from sandbox.terminal.environment import refuse_terminal_name, terminal_environment


@pytest.mark.parametrize(
    ("name", "value", "is_kept"),
    [
        ("PATH", "/home/me/bin:/usr/bin", True),
        ("EDITOR", "/home/me/bin/editor --wait", True),
        ("SOMETHING_ELSE", "1", True),
        ("HTTPS_PROXY", "http://proxy.test:3128", True),
        ("PYTHONPATH", "/home/me/lib", True),
        ("LD_PRELOAD", "/home/me/lib.so", True),
        ("GIT_AUTHOR_NAME", "A U Thor", True),
        ("AGENT_GATEWAY_CONFIG", "/home/me/config.yaml", True),
        # the agent of a person needs its model
        ("ANTHROPIC_API_KEY", "sk-ant-" + "a" * 40, True),
        # logins, by name and by value
        ("GITHUB_TOKEN", "x", False),
        ("JIRA_API_TOKEN", "x", False),
        ("CLAUDE_JIRA_TOKEN", "x", False),
        ("HTTPS_PROXY", "http://me:word@proxy.test:3128", False),
        ("SOMETHING_ELSE", "ghp_" + "a" * 36, False),
        ("GIT_CONFIG_COUNT", "1", False),
        ("GIT_CONFIG_VALUE_0", "Authorization: basic eA==", False),
        # services of the host
        ("SSH_AUTH_SOCK", "/run/agent", False),
        ("DOCKER_HOST", "unix:///run/docker.sock", False),
        ("XDG_RUNTIME_DIR", "/run/user/1", False),
        ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/1/bus", False),
        ("TMUX", "/tmp/tmux-1/default,1,0", False),
        ("GIT_ASKPASS", "/home/me/ask", False),
        ("TMP", "/gone", False),
    ],
)
def test_what_passes_into_a_wrap(name: str, value: str, is_kept: bool) -> None:
    built = terminal_environment({name: value}, is_wrapped=True)
    assert ((name in built.kept), (name in built.dropped)) == (is_kept, not is_kept)
    assert (built.values.get(name) == value) is is_kept
    assert value not in repr(built)


def test_without_a_wrap_everything_passes_but_another_sessions_word() -> None:
    host = {
        "SSH_AUTH_SOCK": "/run/agent", "GITHUB_TOKEN": "x", "TMPDIR": "/elsewhere", "AGENT_GATEWAY_CONFIG": "/c",
        "AGENT_GATEWAY_SANDBOX": "native", "AGENT_GATEWAY_SECRET": "x", "AGENT_GATEWAY_URL": "x",
        "AGENT_GATEWAY_SESSION": "x",
    }  # fmt: skip
    built = terminal_environment(host, is_wrapped=False)
    assert sorted(built.values) == ["AGENT_GATEWAY_CONFIG", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "TMPDIR"]
    assert built.dropped == (
        "AGENT_GATEWAY_SANDBOX", "AGENT_GATEWAY_SECRET", "AGENT_GATEWAY_SESSION", "AGENT_GATEWAY_URL",
    )  # fmt: skip


@pytest.mark.parametrize("is_wrapped", [True, False])
def test_nothing_of_an_agents_is_set(is_wrapped: bool) -> None:
    built = terminal_environment({"TERM": "xterm"}, is_wrapped=is_wrapped)
    assert built.values == {"TERM": "xterm"} | ({"TMPDIR": "/tmp"} if is_wrapped else {})


def test_what_the_user_names_wins() -> None:
    host = {"GITHUB_TOKEN": "mine", "TERM": "xterm"}
    chosen = {"TERM": "dumb", "HTTPS_PROXY": "http://proxy.test"}
    built = terminal_environment(
        host, is_wrapped=True, pass_names=("GITHUB_TOKEN", "ABSENT"), set_values=chosen
    )
    assert built.values == {"GITHUB_TOKEN": "mine", "TMPDIR": "/tmp", **chosen}
    assert (built.kept, built.dropped, built.chosen) == (
        ("GITHUB_TOKEN", "TERM"),
        (),
        ("HTTPS_PROXY", "TERM"),
    )


@pytest.mark.parametrize("name", ["", "A=B", "A\0", "AGENT_GATEWAY_SANDBOX", "agent_gateway_x"])
def test_what_nobody_may_set(name: str) -> None:
    with pytest.raises(UsageError):
        refuse_terminal_name(name)
    with pytest.raises(UsageError):
        terminal_environment({}, is_wrapped=False, set_values={name: "x"})


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "LD_PRELOAD", "GIT_SSH_COMMAND"])
def test_what_a_person_may_set_for_their_own_shell(name: str) -> None:
    refuse_terminal_name(name)
