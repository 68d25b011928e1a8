"""`--profile terminal` from outside: a person's own shell, without a wrap and in one, on a real terminal."""

import os
import pwd
import shutil
import signal
from pathlib import Path

import pytest

from tests.fakes.console import PROGRAM, Console, Terminal, end, hear, terminal, watched, without_bubblewrap

NATIVE = ("--profile", "terminal", "--backend", "native")
NONE = ("--profile", "terminal")
LINES = {
    NATIVE: "agent sandbox ON (bubblewrap: namespace isolation, no kernel boundary; file rules: none)",
    NONE: "agent sandbox DISABLED by --profile terminal",
}
BACKENDS = {NATIVE: "native", NONE: "none"}
ways = pytest.mark.parametrize("way", [NATIVE, NONE], ids=["native", "none"])

# An agent's environment.
AGENTS = frozenset({
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "GIT_SSH_COMMAND", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_COUNT",
    "GIT_TERMINAL_PROMPT", "GH_TOKEN", "GITHUB_TOKEN", "NODE_USE_ENV_PROXY", "JAVA_TOOL_OPTIONS", "DO_NOT_TRACK",
    "AGENT_GATEWAY_SESSION", "AGENT_GATEWAY_SANDBOX", "AGENT_GATEWAY_URL", "AGENT_GATEWAY_SECRET",
})  # fmt: skip


@ways
def test_nothing_of_an_agents_is_there(tmp_path: Path, way: tuple[str, ...]) -> None:
    console = Console(tmp_path)
    done = console.run("env", options=way)
    values = dict(line.partition("=")[::2] for line in done.lines)
    assert (done.status, done.said[0]) == (0, LINES[way])
    assert {name.upper() for name in values} & AGENTS == set()
    assert (values["HOME"], values["PATH"]) == (str(console.home), console.environ["PATH"])
    assert console.left() == []


@ways
def test_records(tmp_path: Path, way: tuple[str, ...]) -> None:
    console = Console(tmp_path, {"GITHUB_TOKEN": "hush", "MY_OWN": "1"})
    options = (*way, "--session", "s1", "--agent", "a1", "--env", "A=hush")
    assert console.run("sh", "-c", "exit 3", options=options).status == 3
    opened, closed = console.records("session")
    assert (opened["state"], closed["state"], closed["exit_status"]) == ("opened", "closed", 3)
    for record in (opened, closed):
        assert record["sandbox"] == {"backend": BACKENDS[way], "file_rules": "none"}
        assert (record["session"], record["agent"]) == ("s1", "a1")
    assert ("GITHUB_TOKEN" in opened["environment_dropped"]) is (way == NATIVE)
    assert "MY_OWN" in opened["environment_kept"]
    assert opened["environment_set"] == ["A"]
    assert b"hush" not in b"".join(path.read_bytes() for path in console.logs())
    assert console.records("egress") == []


def test_secrets_stay_out_of_a_wrap(tmp_path: Path) -> None:
    console = Console(tmp_path, {"GITHUB_TOKEN": "hush"})
    (console.home / ".ssh").mkdir()
    (console.home / ".ssh/id").write_text("hush")
    script = f"echo x > {console.home}/a; echo x > b; cat {console.home}/.ssh/id; ls {console.state}"
    script += "; echo $GITHUB_TOKEN"
    done = console.run("sh", "-c", script, options=NATIVE)
    assert done.lines == [""]
    assert (console.home / "a").exists() and (console.work / "b").exists()


def test_config_of_the_operator_cannot_be_changed(tmp_path: Path) -> None:
    console = Console(tmp_path)
    config = console.config("egress: {allow: [a.test]}\n")
    script = f"echo 'egress: {{allow: [b.test]}}' > {config}; mv {config} {config}.old; rm {config}"
    console.run("sh", "-c", script, options=NATIVE)
    assert config.read_text() == "egress: {allow: [a.test]}\n"


@ways
def test_shell_takes_the_place_of_no_command(tmp_path: Path, way: tuple[str, ...]) -> None:
    shell = shutil.which("bash")
    assert shell
    done = Console(tmp_path, {"SHELL": shell}).call(
        "run", *way, text=b"echo $0 ${BASH_VERSION:+bash}; exit 5\n"
    )
    assert (done.status, done.lines) == (5, [f"{shell} bash"])


def test_account_has_a_shell_where_nothing_says_one(tmp_path: Path) -> None:
    done = Console(tmp_path).call("run", *NONE, text=b"echo $0\n")
    assert done.lines == [pwd.getpwuid(os.getuid()).pw_shell]


def test_an_agent_needs_a_command(tmp_path: Path) -> None:
    done = Console(tmp_path, {"SHELL": "/bin/sh"}).call("run", text=b"touch ran\n")
    assert (done.status, done.said[-1].startswith("agent-gateway: there is no command to run")) == (2, True)


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (("--mode", "plan"), 2, "--mode plan contradicts --profile terminal"),
        (("--repo", "."), 2, "--repo contradicts --profile terminal"),
        (("--allow", "a.test"), 2, "--allow contradicts --profile terminal"),
        (("--no-network",), 2, "--no-network contradicts --profile terminal"),
        (("--space", "s"), 2, "--space contradicts --profile terminal"),
        (("--sandbox", "off", "--backend", "native"), 2, "--sandbox off contradicts --backend native"),
        (("--backend", "microvm"), 125, "--backend microvm cannot run on this host"),
        (("--worktree", "git"), 125, "not available in this version"),
    ],
)
def test_refusals_start_nothing(tmp_path: Path, options: tuple[str, ...], status: int, words: str) -> None:
    console = Console(tmp_path)
    done = console.run("touch", "ran", options=(*NONE, *options))
    assert done.status == status
    assert words in done.said[-1]
    assert not (console.work / "ran").exists()
    assert not console.state.exists()


def test_native_that_cannot_be_is_a_failure(tmp_path: Path) -> None:
    """Rather than a shell that only seems to be wrapped; the default never was."""
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    console = Console(tmp_path / "c", before=without_bubblewrap(str(broken)))
    done = console.run("touch", "ran", options=NATIVE)
    assert (done.status, (console.work / "ran").exists()) == (125, False)
    assert done.said[-1].startswith("agent-gateway: --backend native cannot run on this host")
    assert console.run("touch", "ran", options=NONE).status == 0


def test_a_directory_that_cannot_be_writable(tmp_path: Path) -> None:
    console = Console(tmp_path)
    done = console.run("true", options=NATIVE, cwd="/")
    assert done.status == 125
    assert "cannot be made writable in a terminal" in done.said[-1]
    assert console.run("true", options=NONE, cwd="/").status == 0


# --- On a terminal --------------------------------------------------------------------------------


def shell(console: Console, way: tuple[str, ...]) -> tuple[str, ...]:
    return (PROGRAM, "run", *way, "--", "bash", "--norc", "-i")


def ready(seen: Terminal) -> None:
    seen.type(b"PS1='re''ady> '\n")
    seen.see(b"ready> ")


@ways
def test_job_control(tmp_path: Path, way: tuple[str, ...]) -> None:
    console = Console(tmp_path)
    with terminal(console, *shell(console, way)) as seen:
        ready(seen)
        seen.type(b"test -t 0 && test -t 1 && test -t 2 && echo a''ll; stty size < /dev/tty\n")
        seen.see(b"all\r\n")
        seen.see(b"ready> ")
        seen.type(b"(echo g''o; exec cat)\n")
        seen.see(b"go\r\n")
        seen.type(b"typed\n")
        seen.see(b"typed\r\ntyped\r\n")
        seen.type(b"\x1a")
        seen.see(b"Stopped")
        seen.see(b"ready> ")
        seen.type(b"jobs; fg\n")
        seen.see(b"Stopped")
        seen.see(b"\r\n( echo g''o; exec cat )\r\n")
        seen.type(b"again\n")
        seen.see(b"again\r\nagain\r\n")
        seen.type(b"\x03")
        seen.see(b"ready> ")
        seen.type(b"exit 9\n")
        assert seen.end() == 9


@ways
def test_window_size(tmp_path: Path, way: tuple[str, ...]) -> None:
    console = Console(tmp_path)
    with terminal(console, *shell(console, way)) as seen:
        ready(seen)
        seen.type(b"trap 'stty size' WINCH; echo ar''med\n")
        seen.see(b"armed")
        seen.resize(33, 77)
        seen.type(b"stty size\n")
        seen.see(b"33 77")
        seen.type(b"exit\n")
        assert seen.end() == 0


@ways
def test_end_of_the_line_ends_it_all(tmp_path: Path, way: tuple[str, ...]) -> None:
    console = Console(tmp_path)
    with terminal(console, *shell(console, way)) as seen:
        ready(seen)
        with watched(seen.process.pid):
            seen.hang_up()
        seen.process.wait()
    assert console.records("session")[-1]["state"] == "closed"


@ways
def test_nothing_is_left(tmp_path: Path, way: tuple[str, ...]) -> None:
    """Of what it has started in the background, nor of a launcher that is killed."""
    console = Console(tmp_path)
    process = console.start("sh", "-c", "sleep 1000 & echo up; wait", options=way)
    assert hear(process) == b"up"
    with watched(process.pid):
        process.send_signal(signal.SIGKILL)
        end(process)
    assert console.left() == []
