"""The environment: what passes, what is dropped, what is set, what nobody may set."""

import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import UsageError
from sandbox.backends.base import Endpoints
from sandbox.env import Environment, build_environment, refuse_name, ssh_command
from sandbox.git.github_host import GITHUB_HOST, parse_github_url
from sandbox.git.session import SessionGit, last_settings

ENDPOINTS = Endpoints(3128, 1080, 3180)


def build(host: Mapping[str, str], **more: Any) -> Environment:
    """An environment with everything but the point of the test filled in."""
    arguments: dict[str, Any] = {
        "endpoints": ENDPOINTS, "session_id": "s1", "backend": "native", "secret": "word", "home": "/home/inside",
        "path": "/usr/bin", "tmpdir": "/tmp",
    }  # fmt: skip
    return build_environment(host, **{**arguments, **more})


@pytest.mark.parametrize(
    ("name", "value", "passes"),
    [
        # the list
        ("TERM", "xterm", True),
        ("LC_TIME", "de_DE.UTF-8", True),
        ("GIT_AUTHOR_NAME", "A U Thor", True),
        ("TOKENIZERS_PARALLELISM", "false", True),
        ("NO_COLOR", "1", True),
        ("SOMETHING_ELSE", "1", False),
        # an allowed name with a credential's value, and one that says it is one
        ("LC_ALL", "ghp_" + "a" * 36, False),
        ("LANG", "https://user:word@host.test/", False),
        ("LC_API_KEY", "x", False),
        # model providers beat the credential patterns
        ("ANTHROPIC_API_KEY", "sk-ant-" + "a" * 40, True),
        ("OPENAI_BASE_URL", "https://llm.test/v1", True),
        ("CLAUDE_CODE_USE_BEDROCK", "1", True),
        # credentials
        ("GH_TOKEN", "x", False),
        ("AWS_SECRET_ACCESS_KEY", "x", False),
        ("JIRA_API_TOKEN", "x", False),
        ("LINEAR_API_KEY", "x", False),
        # somebody else's under the agent's own prefix
        ("CLAUDE_JIRA_TOKEN", "x", False),
        ("OPENCODE_GITHUB_TOKEN", "x", False),
        # a model's, whatever they look like
        ("ANTHROPIC_AUTH_TOKEN", "ghp_" + "a" * 36, True),
        ("OPENAI_BASE_URL", "https://user:word@llm.test/v1", True),
        ("DATABASE_URL", "postgres://h/db", False),
        # injection
        ("LD_PRELOAD", "/x.so", False),
        ("DYLD_INSERT_LIBRARIES", "/x", False),
        ("BASH_ENV", "/x", False),
        ("BASH_FUNC_ls%%", "() { evil; }", False),
        ("PYTHONPATH", "/x", False),
        ("NODE_OPTIONS", "--require /x", False),
        ("PERL5OPT", "-Mx", False),
        ("RUBYOPT", "-rx", False),
        ("_JAVA_OPTIONS", "-javaagent:/x", False),
        ("GIT_SSH", "/x", False),
        ("GIT_CONFIG_PARAMETERS", "'a.b=c'", False),
        ("GIT_TRACE", "/x", False),
        ("SSL_CERT_FILE", "/x", False),
        ("SSLKEYLOGFILE", "/x", False),
        # proxies and sockets
        ("Ftp_Proxy", "http://other.test", False),
        ("SSH_AUTH_SOCK", "/run/agent", False),
        ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/x", False),
        ("XDG_RUNTIME_DIR", "/run/user/1", False),
        # programs by name, not by a command line or a path of somebody's own
        ("EDITOR", "vim", True),
        ("EDITOR", "/usr/bin/vim -n", True),
        ("EDITOR", "/repo/evil", False),
        ("EDITOR", "/usr/../repo/evil", False),
        ("PAGER", "less | sh", False),
        ("PAGER", "$(x)", False),
        ("SHELL", "/bin/zsh", True),
        # toolchains that are seen
        ("VIRTUAL_ENV", "/repo/.venv", True),
        ("VIRTUAL_ENV", "/elsewhere/.venv", False),
        ("VIRTUAL_ENV", "/repository", False),
        ("CLAUDE_CONFIG_DIR", "/home/me/.claude", False),
        ("XDG_CONFIG_HOME", "/repo/.config", True),
        ("XDG_CACHE_HOME", "/home/me/.cache", False),
    ],
)
def test_what_passes(name: str, value: str, passes: bool) -> None:
    built = build({name: value}, roots=("/repo",))
    assert ((name in built.kept), (name in built.dropped)) == (passes, not passes)
    assert (built.values.get(name) == value) is passes


def test_what_is_set() -> None:
    values = build({}, git_config="/run/gitconfig", connect=("/usr/bin/python3", "/c.py")).values
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        assert values[name] == "http://127.0.0.1:3128"
    for name in ("ALL_PROXY", "all_proxy"):
        assert values[name] == "socks5h://127.0.0.1:1080"
    for name in ("NO_PROXY", "no_proxy"):
        assert values[name] == "localhost,127.0.0.1,::1"
    assert values["NODE_USE_ENV_PROXY"] == "1"
    assert "-Dhttps.proxyPort=3128" in values["JAVA_TOOL_OPTIONS"]
    assert (values["HOME"], values["PATH"], values["TMPDIR"]) == ("/home/inside", "/usr/bin", "/tmp")
    assert values["LC_ALL"] == "C.UTF-8"
    assert values["AGENT_GATEWAY_SESSION"] == "s1"
    assert values["AGENT_GATEWAY_SANDBOX"] == "native"
    assert values["AGENT_GATEWAY_URL"] == "http://127.0.0.1:3180"
    assert values["AGENT_GATEWAY_SECRET"] == "word"
    assert values["DO_NOT_TRACK"] == "1"
    git = {name: value for name, value in values.items() if name.startswith("GIT_")}
    assert git.pop("GIT_SSH_COMMAND").startswith("ssh -o ")
    assert git == {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/run/gitconfig",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "credential.helper",
        "GIT_CONFIG_VALUE_0": "",
    }


GIT = SessionGit(GITHUB_HOST)
ENTERPRISE = SessionGit(parse_github_url("https://ghe.test:8443"))


def test_git_of_a_session() -> None:
    values = build({}, git=GIT, git_config="/run/gitconfig", credential=("/usr/bin/python3", "/c.py")).values
    settings = last_settings(GIT, "http://127.0.0.1:3180", "word", ("/usr/bin/python3", "/c.py"))
    count = int(values["GIT_CONFIG_COUNT"])
    assert settings == tuple(
        (values[f"GIT_CONFIG_KEY_{n}"], values[f"GIT_CONFIG_VALUE_{n}"]) for n in range(count)
    )
    assert f"GIT_CONFIG_KEY_{count}" not in values
    assert (values["GIT_CONFIG_GLOBAL"], values["GIT_CONFIG_NOSYSTEM"]) == ("/run/gitconfig", "1")
    assert values["GIT_TERMINAL_PROMPT"] == "0"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, {}),
        ({"git": GIT}, {"GH_PROMPT_DISABLED": "1"}),
        ({"github_token": "t"}, {"GH_TOKEN": "t", "GITHUB_TOKEN": "t"}),
        (
            {"git": GIT, "github_token": "t", "gh_config": "/run/gh"},
            {"GH_TOKEN": "t", "GITHUB_TOKEN": "t", "GH_CONFIG_DIR": "/run/gh", "GH_PROMPT_DISABLED": "1"},
        ),
        ({"git": ENTERPRISE}, {"GH_HOST": "ghe.test:8443", "GH_PROMPT_DISABLED": "1"}),
        (
            {"git": ENTERPRISE, "github_token": "t"},
            {"GH_TOKEN": "t", "GITHUB_TOKEN": "t", "GH_ENTERPRISE_TOKEN": "t", "GH_HOST": "ghe.test:8443",
             "GH_PROMPT_DISABLED": "1"},
        ),
        (
            {"git": SessionGit(parse_github_url("https://acme.ghe.com")), "github_token": "t"},
            {"GH_TOKEN": "t", "GITHUB_TOKEN": "t", "GH_HOST": "acme.ghe.com", "GH_PROMPT_DISABLED": "1"},
        ),
        # the operator's own word
        (
            {"git": GIT, "github_token": "t", "set_values": {"GH_TOKEN": "mine"}},
            {"GH_TOKEN": "mine", "GITHUB_TOKEN": "t", "GH_PROMPT_DISABLED": "1"},
        ),
        ({"github_token": "t", "pass_names": ("GH_TOKEN",)}, {"GH_TOKEN": "the user's", "GITHUB_TOKEN": "t"}),
    ],
)  # fmt: skip
def test_what_gh_finds(options: dict[str, Any], found: dict[str, str]) -> None:
    host = {
        "GH_TOKEN": "the user's",
        "GITHUB_TOKEN": "too",
        "GH_CONFIG_DIR": "/home/me",
        "GH_HOST": "other.test",
    }
    values = build(host, **options).values
    assert {name: value for name, value in values.items() if name.startswith(("GH_", "GITHUB_"))} == found


@pytest.mark.parametrize(
    ("backend", "git", "keyless"),
    [("none", GIT, True), ("none", None, False), ("native", GIT, False), ("native", None, False)],
)
def test_ssh_without_the_users_keys(
    tmp_path: Path, backend: str, git: SessionGit | None, keyless: bool
) -> None:
    """Without a wrap ssh would find them. Asked of the real one, which reads no configuration of the user's then."""
    config = tmp_path / ".ssh/config"
    config.parent.mkdir()
    config.write_text(
        "IdentityFile /secret/key\nIdentityAgent /secret/agent\nHost work\n HostName github.com\n"
    )
    command = build({}, backend=backend, git=git, connect=("/bin/false",)).values["GIT_SSH_COMMAND"]
    script = command if keyless else command.replace("ssh ", f"ssh -F {config} ", 1)
    done = subprocess.run(("sh", "-c", f"{script} -G git@work"), capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert ("identityfile /secret/key" not in lines) is keyless
    assert ("identityagent none" in lines) is keyless
    assert ("identitiesonly yes" in lines) is keyless
    assert ([line for line in lines if line.startswith("identityfile ")] == ["identityfile none"]) is keyless
    assert ("hostname github.com" not in lines) is keyless
    assert any(line.startswith("proxycommand /bin/false 127.0.0.1:1080") for line in lines)


def test_hosts_own_values_do_not_shine_through() -> None:
    host = {
        "HOME": "/home/me", "PATH": "/evil", "TMPDIR": "/gone", "https_proxy": "http://other.test", "NO_PROXY": "*",
        "GIT_CONFIG_COUNT": "9", "GIT_CONFIG_KEY_8": "x.y", "AGENT_GATEWAY_SECRET": "another", "LANG": "C",
    }  # fmt: skip
    values = build(host).values
    assert (values["HOME"], values["PATH"], values["TMPDIR"]) == ("/home/inside", "/usr/bin", "/tmp")
    assert (values["https_proxy"], values["NO_PROXY"]) == ("http://127.0.0.1:3128", "localhost,127.0.0.1,::1")
    assert (values["GIT_CONFIG_COUNT"], "GIT_CONFIG_KEY_8" in values) == ("1", False)
    assert (values["AGENT_GATEWAY_SECRET"], "LC_ALL" in values) == ("word", False)


def test_what_the_user_names_wins() -> None:
    host = {"MY_TOKEN": "mine", "OTHER": "x"}
    chosen = {"PYTHONPATH": "src", "HOME": "/other", "DO_NOT_TRACK": "0", "JAVA_TOOL_OPTIONS": "-Xmx1g"}
    built = build(host, pass_names=("MY_TOKEN", "NOT_THERE"), set_values=chosen)
    values = built.values
    assert (values["MY_TOKEN"], values["PYTHONPATH"], values["HOME"]) == ("mine", "src", "/other")
    assert (values["DO_NOT_TRACK"], "NOT_THERE" in values) == ("0", False)
    assert values["JAVA_TOOL_OPTIONS"].startswith("-Xmx1g -Dhttp.proxyHost=127.0.0.1 ")
    assert (built.kept, built.dropped) == (("MY_TOKEN",), ("OTHER",))
    assert built.chosen == ("DO_NOT_TRACK", "HOME", "JAVA_TOOL_OPTIONS", "PYTHONPATH")


@pytest.mark.parametrize(
    "name",
    ["HTTPS_PROXY", "https_proxy", "no_proxy", "LD_PRELOAD", "DYLD_X", "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT",
     "AGENT_GATEWAY_SANDBOX", "", "A=B"],
)  # fmt: skip
def test_what_nobody_may_set(name: str) -> None:
    with pytest.raises(UsageError):
        refuse_name(name)
    with pytest.raises(UsageError):
        build({name: "x"}, pass_names=(name,))
    with pytest.raises(UsageError):
        build({}, set_values={name: "x"})


def test_values_do_not_show() -> None:
    assert "word" not in repr(build({"ANTHROPIC_API_KEY": "key-of-mine"}))
    assert "key-of-mine" not in repr(build({"ANTHROPIC_API_KEY": "key-of-mine"}))
    assert "key-of-mine" not in repr(build({}, github_token="key-of-mine"))


def test_ssh_command_survives_both_shells() -> None:
    """Git's shell first, then ssh's own percent signs, then the shell that runs the proxy command."""
    command = ssh_command(("/a b/py'thon", "-I", "/100%/connect.py"), ENDPOINTS)
    outer = subprocess.run(
        ("sh", "-c", f"printf '%s\\n' {command}"), capture_output=True, text=True, check=True
    )
    ssh, option, setting = outer.stdout.splitlines()
    assert (ssh, option) == ("ssh", "-o")
    proxy = (
        setting.removeprefix("ProxyCommand=").replace("%h", "git.test").replace("%p", "22").replace("%%", "%")
    )
    words = ["/a b/py'thon", "-I", "/100%/connect.py", "127.0.0.1:1080", "127.0.0.1:3128", "git.test", "22"]
    assert shlex.split(proxy) == words
