"""`agent-gateway profile`: what is shown is what `run` would use; nothing is run, made or given away."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.options import RunOptions
from gateway.plan import make_plan
from gateway.profile import Answer, Platform, describe
from sandbox.mounts import plan_wrap
from tests.fakes.console import Console

PLATFORMS = tuple(Platform)


def tree(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything below a folder: mode, time of the last change, content."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (status.st_mode, status.st_mtime_ns, content)
    return found


def shown(console: Console, *options: str, command: tuple[str, ...] = ("true",)) -> dict[str, Any]:
    done = console.call("profile", *options, "--json", "--", *command)
    assert done.status == 0, done.said
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


# --- Nothing happens ------------------------------------------------------------------------------


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--mode", "plan"),
        ("--space", "s1", "--agent", "a1"),
        ("--profile", "terminal", "--backend", "native"),
        ("--profile", "terminal"),
        ("--sandbox", "off"),
    ],
    ids=lambda options: " ".join(options),
)
def test_nothing_is_made_and_nothing_runs(
    tmp_path: Path, platform: Platform, options: tuple[str, ...]
) -> None:
    console = Console(tmp_path)
    subprocess.run(("git", "init", "-q"), cwd=console.work, check=True)
    before = tree(tmp_path)
    done = console.call("profile", *options, "--platform", platform.value, "--", "touch", "ran")
    assert done.status == 0, done.said
    assert tree(tmp_path) == before


@pytest.mark.parametrize("platform", PLATFORMS)
def test_agent_without_its_directory(tmp_path: Path, platform: Platform) -> None:
    """The directory that `run` would seed is shown, and not made."""
    console = Console(tmp_path)
    agent = tmp_path / "bin/claude"
    agent.parent.mkdir()
    agent.write_text("#!/bin/sh\ntouch ran\n")
    agent.chmod(0o755)
    before = tree(tmp_path)
    answer = shown(console, "--platform", platform.value, command=(str(agent),))
    assert "/agents/claude" in json.dumps(answer)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_no_secret_is_shown(tmp_path: Path, platform: Platform, form: tuple[str, ...]) -> None:
    console = Console(tmp_path, {"ANTHROPIC_API_KEY": "hush-1", "GITHUB_TOKEN": "hush-2"})
    console.config(
        "environment: {set: {A: hush-3}}\negress: {upstream_proxy: 'http://u:hush-4@proxy.test:1'}\n"
    )
    (console.home / ".gitconfig").write_text("[user]\n\tname = hush-5\n")
    options = ("--env", "B=hush-6", "--env", "GITHUB_TOKEN", "--platform", platform.value, *form)
    done = console.call("profile", *options, "--", "true")
    assert done.status == 0
    assert b"hush" not in done.stdout and "hush" not in "\n".join(done.said)


# --- What is shown --------------------------------------------------------------------------------


def test_linux_is_what_run_would_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {"HOME": "/nowhere/home", "PATH": "/usr/bin:/bin"}
    options = RunOptions(("true",), session="s1")
    answer = describe(options, environ, Platform.LINUX)
    wrap = plan_wrap(make_plan(options, environ).spec, make_home=False)
    words = list(answer.argv)
    assert os.path.basename(words[0]) == "bwrap"
    assert tuple(words[1 : 1 + len(wrap.arguments)]) == wrap.arguments
    cut = words.index("--")
    assert words[cut + 1] == wrap.python
    ports = words.index("3128")
    assert words[ports : ports + 3] == ["3128", "1080", "3180"]
    assert answer.line.startswith("agent sandbox ON (bubblewrap: ")
    assert answer.command == ("true",)


def test_text_is_a_command_line(tmp_path: Path) -> None:
    console = Console(tmp_path)
    (tmp_path / "a b'c").mkdir()
    options = ("--bind", f"{tmp_path}/a b'c", "--platform", "linux")
    done = console.call("profile", *options, "--", "npm", "run", "a b")
    text = done.stdout.decode()
    words = shlex.split(text.replace("\\\n", ""), comments=True)
    assert words == shown(console, *options, command=("npm", "run", "a b"))["argv"]
    assert text.splitlines()[-1] == "# the channel then says: npm run 'a b'"
    assert done.said[0].startswith("agent-gateway: run would say: agent sandbox ON (")


def test_descriptors_are_explained(tmp_path: Path) -> None:
    answer = shown(Console(tmp_path), "--platform", "linux")
    argv, descriptors = answer["argv"], answer["descriptors"]
    files = {argv[at + 1]: argv[at + 2] for at, word in enumerate(argv) if word == "--file"}
    assert files and all(descriptors[number].startswith(f"{path} (") for number, path in files.items())
    assert descriptors["3"] == "the launcher's channel"


@pytest.mark.parametrize("rules", ["create-time", "existing-only"])
def test_file_rules_are_shown(tmp_path: Path, rules: str) -> None:
    """What the supervisor is told; with the weaker rules there is none, and masks do it."""
    console = Console(tmp_path)
    console.config(f"file_rules: {rules}\n")
    subprocess.run(("git", "init", "-q"), cwd=console.work, check=True)
    answer = shown(console, "--platform", "linux")
    hooks = f"{console.work}/.git/hooks"
    if rules == "existing-only":
        assert answer["file_rules"] is None
        assert ["--ro-bind", hooks, hooks] in [
            answer["argv"][at : at + 3] for at in range(len(answer["argv"]))
        ]
    else:
        assert str(console.work) in answer["file_rules"]["writable"]
        assert hooks in answer["file_rules"]["sealed"]
        assert "--seccomp" not in answer["argv"]


NASTY = "\x1b[2J\u202e"


def test_paths_do_nothing_to_a_terminal(tmp_path: Path) -> None:
    (tmp_path / NASTY).mkdir()
    for platform in PLATFORMS:
        options = ("--bind", f"{tmp_path}/{NASTY}", "--platform", platform.value)
        done = Console(tmp_path).call("profile", *options)
        assert done.status == 0, done.said
        assert all(line.isprintable() for line in done.lines), platform
    spoken = Answer(Platform.LINUX, "native", "", argv=("bwrap", f"a'\\{NASTY}")).as_text()
    heard = subprocess.run(("bash", "-c", f"printf %s {spoken.split(' ', 1)[1]}"), capture_output=True)
    assert heard.stdout.decode() == f"a'\\{NASTY}"


@pytest.mark.parametrize("mode", ["chat", "plan"])
def test_macos(tmp_path: Path, mode: str) -> None:
    console = Console(tmp_path)
    answer = shown(console, "--platform", "macos", "--mode", mode)
    assert answer["argv"][0] == "/usr/bin/sandbox-exec"
    assert answer["line"].startswith("agent sandbox ON (sandbox-exec (Seatbelt): ")
    text = console.call("profile", "--platform", "macos", "--mode", mode).stdout.decode()
    assert text.startswith("(version 1)\n(allow default)\n")
    assert text.rstrip("\n") == answer["profile"].rstrip("\n")
    assert (f'(subpath "{console.work}")' in text) is (mode == "chat")


def test_terminal(tmp_path: Path) -> None:
    console = Console(tmp_path, {"SHELL": "/bin/bash"})
    options = ("--profile", "terminal", "--backend", "native")
    answer = json.loads(console.call("profile", *options, "--platform", "linux", "--json").stdout)
    assert "--unshare-net" not in answer["argv"] and "3128" not in answer["argv"]
    assert answer["command"] == ["/bin/bash"]


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--sandbox", "off"), "agent sandbox DISABLED by --sandbox off"),
        (("--backend", "none"), "agent sandbox DISABLED by --backend none"),
        (("--profile", "terminal"), "agent sandbox DISABLED by --profile terminal"),
    ],
)
def test_no_wrap_nothing_to_show(
    tmp_path: Path, platform: Platform, options: tuple[str, ...], line: str
) -> None:
    console = Console(tmp_path)
    done = console.call("profile", *options, "--platform", platform.value)
    assert (done.status, done.stdout, done.said[0]) == (0, b"", f"agent-gateway: run would say: {line}")
    assert len(done.said) == (2 if "terminal" in options else 1)  # what was stepped down from
    answer = shown(console, *options, "--platform", platform.value)
    assert (answer["argv"], answer["profile"], answer["line"], answer["backend"]) == ([], None, line, "none")


def test_this_platform_is_the_default(tmp_path: Path) -> None:
    expected = "macos" if sys.platform == "darwin" else "linux"
    assert shown(Console(tmp_path))["platform"] == expected


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (("--backend", "microvm"), 2, "--backend microvm is for --profile terminal only"),
        (("--backend", "microvm", "--profile", "terminal"), 125, "--backend microvm cannot run on this host"),
        (("--mode", "plan", "--profile", "terminal"), 2, "--mode plan contradicts --profile terminal"),
        (("--bind", "/nowhere"), 125, "--bind /nowhere: no such file or directory"),
        (("--bind", "/"), 125, "it is the whole file system"),
        (("--config", "/nowhere.yaml"), 125, "/nowhere.yaml"),
        (("--worktree", "cow"), 125, "not available in this version"),
        (("true",), 2, "what is 'true'? (the command stands after --: profile [options] -- CMD"),
    ],
)
def test_errors_are_those_of_run(
    tmp_path: Path, platform: Platform, options: tuple[str, ...], status: int, words: str
) -> None:
    done = Console(tmp_path).call("profile", "--platform", platform.value, *options)
    assert (done.status, done.stdout) == (status, b"")
    assert words in "\n".join(done.said)
