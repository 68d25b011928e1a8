"""The command line: help and version everywhere, usage errors that start nothing, and exit status whatever happens."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway import __version__
from tests.fakes.console import PATIENCE, PROGRAM, Console
from tests.source_tree import ROOT

COMMANDS = ((), ("run",), ("profile",), ("check",), ("check", "host"), ("check", "config"), ("review",),
            ("review", "verify"), ("doctor",), ("demo",))  # fmt: skip


# --- Help and version -----------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_version_everywhere(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = Console(tmp_path).call(*command, "--version")
    assert (done.status, done.lines, done.said) == (0, [f"agent-gateway {__version__}"], [])


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_everywhere(tmp_path: Path, command: tuple[str, ...], option: str) -> None:
    done = Console(tmp_path).call(*command, option)
    assert (done.status, done.said) == (0, [])
    assert done.lines[0].startswith(f"usage: {' '.join(('agent-gateway', *command))} ")


def test_help_names_every_option_of_run(tmp_path: Path) -> None:
    shown = Console(tmp_path).call("run", "--help").stdout.decode()
    for option in ("--config F", "--sandbox {on,off}", "--backend NAME", "--mode {chat,review,plan,orchestrate}",
                   "--profile {agent,terminal}", "--repo PATH", "--worktree {in-place,cow,git}", "--bind PATH[:ro]",
                   "--protect PATH", "--state-dir PATH", "--exec-grant PATH", "--allow DOMAIN",
                   "--no-network", "--workspace NAME", "--space ID", "--agent ID", "--session ID", "--env NAME[=VALUE]",
                   "--quiet"):  # fmt: skip
        assert option in shown, option


# --- Usage errors: 2, and nothing is started ------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "usage: agent-gateway"),
        (("serve",), "invalid choice: 'serve'"),
        (("--unknown",), "usage: agent-gateway"),
        (("check",), "required: SUBJECT"),
        (("check", "host"), "required: NAME[:PORT]"),
        (("check", "host", "a.test", "b.test"), "unrecognized arguments: b.test"),
        (("check", "host", "a.test", "--", "b.test"), "unrecognized arguments: b.test"),
        (("check", "config", "a", "b"), "unrecognized arguments: b"),
        (("check", "config", ""), "the path of the file is empty"),
        (("check", "host", "a.test", "--config", ""), "the path of the config file is empty"),
        (("check", "host", "a.test", "--allow", "no host"), "--allow: "),
        (("demo", "x"), "unrecognized arguments: x"),
        (("run",), "there is no command to run (write it after --"),
        (("run", "--json", "--", "true"), "unrecognized arguments: --json"),
        (("profile", "--platform", "windows"), "argument --platform: invalid choice: 'windows'"),
        (("profile", "touch"), "what is 'touch'? (the command stands after --: profile [options]"),
        (("run", "--"), "there is no command to run"),
        (("run", "touch", "ran"), "what is 'touch'? (the command stands after --"),
        (("run", "touch", "--", "ran"), "what is 'touch'?"),
    ],
)
def test_usage(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    done = Console(tmp_path).call(*arguments)
    assert (done.status, done.stdout) == (2, b"")
    assert words in "\n".join(done.said)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--unknown",), "unrecognized arguments: --unknown"),
        (("--quie",), "unrecognized arguments: --quie"),
        (("--sandbox", "maybe"), "argument --sandbox: invalid choice"),
        (("--sandbox",), "argument --sandbox: expected one argument"),
        (("--mode", "walk"), "argument --mode: invalid choice"),
        (("--backend", "docker"), "--backend docker: there are native, none and microvm"),
        (("--backend", "microvm"), "--backend microvm is for --profile terminal only"),
        (("--sandbox", "off", "--backend", "native"), "--sandbox off contradicts --backend native"),
        (("--sandbox", "on", "--backend", "none"), "--sandbox on contradicts --backend none"),
        (("--profile", "person"), "argument --profile: invalid choice"),
        (("--profile", "terminal", "--repo", "."), "--repo contradicts --profile terminal"),
        (("--space", "s", "--repo", "."), "--repo contradicts --space"),
        (("--space", "a/b"), "--space takes a name"),
        (("--worktree", "copy"), "argument --worktree: invalid choice"),
        (("--exec-grant", ""), "--exec-grant names no path"),
        (("--session", "a b"), "--session takes a name"),
        (("--session", ""), "--session takes a name"),
        (("--session", "x" * 65), "--session takes a name"),
        (("--workspace", ""), "--workspace takes a name"),
        (("--workspace", "../other"), "--workspace takes a name"),
        (("--agent", "-x"), "expected one argument"),
        (("--agent=-x",), "--agent takes a name"),
        (("--env", ""), "--env: '' is not the name of a variable"),
        (("--env", "=x"), "--env: '' is not the name of a variable"),
        (("--env", "HTTPS_PROXY=x"), "--env: HTTPS_PROXY is set by the wrap"),
        (("--env", "no_proxy"), "--env: no_proxy is set by the wrap"),
        (("--env", "LD_PRELOAD"), "--env: LD_PRELOAD would redirect"),
        (("--env", "GIT_CONFIG_COUNT=1"), "--env: GIT_CONFIG_COUNT would redirect"),
        (
            ("--env", "AGENT_GATEWAY_SANDBOX=native"),
            "--env: AGENT_GATEWAY_SANDBOX is this program's own word",
        ),
        (("--allow", "no host"), "--allow: "),
        (("--allow", "*.test"), "--allow: "),
        (("--allow", "metadata.google.internal"), "--allow metadata.google.internal can never be reached"),
        (("--config", ""), "the path of the config file is empty"),
        (("--repo", ""), "--repo names no path"),
        (("--bind", ""), "--bind names no path"),
        (("--bind", ":ro"), "--bind names no path"),
        (("--protect", ""), "--protect names no path"),
        (("--state-dir", ""), "--state-dir names no path"),
    ],
)
def test_usage_of_run(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    assert_refused(Console(tmp_path), options, words)


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("CC_SERVER_SANDBOX", "maybe", "CC_SERVER_SANDBOX is on or off, not 'maybe'"),
        ("CC_SERVER_SANDBOX", "ON", "CC_SERVER_SANDBOX is on or off, not 'ON'"),
        ("AGENT_GATEWAY_CONFIG", "config.yaml", "AGENT_GATEWAY_CONFIG is a relative path"),
    ],
)
def test_bad_variables(tmp_path: Path, variable: str, value: str, words: str) -> None:
    assert_refused(Console(tmp_path, {variable: value}), (), words)


def assert_refused(console: Console, options: tuple[str, ...], words: str) -> None:
    """2, one message, no start-up line, no trace of a run."""
    done = console.run("touch", "ran", options=options)
    assert (done.status, done.stdout) == (2, b"")
    assert words in done.said[-1]
    assert not [line for line in done.said if line.startswith(("agent sandbox", "no OS-native"))]
    assert list(console.work.iterdir()) == []
    assert not console.state.exists()
    assert console.left() == []


def test_command_keeps_its_own_dashes(tmp_path: Path) -> None:
    """What stands after the first `--` is CMD's, whatever it looks like."""
    done = Console(tmp_path).run("printf", "%s\\n", "--", "--quiet", "--version", "", "-x")
    assert done.lines == ["--", "--quiet", "--version", "", "-x"]


def test_check_takes_no_command(tmp_path: Path) -> None:
    done = Console(tmp_path).call("check", "host", "--", "github.com")
    assert (done.status, done.lines[0].partition(" (")[0]) == (0, "allow github.com:443")


# --- Foreign text ---------------------------------------------------------------------------------

NASTY = "\x1b]0;t\x07\x9b31m\u202e\nagent sandbox ON"


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--repo", f"/{NASTY}", "--", "true"),
        ("run", "--config", f"/{NASTY}.yaml", "--", "true"),
        ("run", NASTY, "--", "true"),
        ("run", "--backend", NASTY, "--", "true"),
        ("run", "--sandbox", NASTY, "--", "true"),
        ("run", "--env", f"{NASTY}=x", "--", "true"),
        ("run", "--quiet", "--", f"./{NASTY}"),
        ("check", "host", "a.test", NASTY),
        ("check", "host", NASTY),
        ("check", "config", f"/{NASTY}"),
        ("profile", "--repo", f"/{NASTY}"),
        ("profile", "--", f"./{NASTY}"),
        (NASTY,),
    ],
    ids=lambda arguments: " ".join(arguments[:2]).partition("/")[0].replace(NASTY, "NASTY"),
)
def test_foreign_text_is_shown_and_does_nothing(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = Console(tmp_path).call(*arguments)
    shown = [*done.stdout.decode().split("\n"), *done.said]
    assert all(line.isprintable() for line in shown), shown
    forged = [line for line in done.said if line == "agent sandbox ON" or line.endswith(": agent sandbox ON")]
    assert forged == []


def test_paths_in_the_last_line_do_nothing(tmp_path: Path) -> None:
    console = Console(tmp_path / "a\x1b[31m\u202e")
    done = console.run("true")
    assert done.status == 0
    assert "a\\x1b[31m\\u202e/state" in done.said[-1] and done.said[-1].isprintable()


RAISES = """
import sys
sys.modules["gateway.check"] = type("Module", (), {"__getattr__": lambda *_: exec("raise ValueError('\\x1b[2J')")})()
from gateway.cli import main
main(["check", "host", "a.test"])
"""


def test_tracebacks_do_nothing(tmp_path: Path) -> None:
    done = subprocess.run((sys.executable, "-c", RAISES), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 125
    assert done.stderr.splitlines()[-1] == "ValueError: \\x1b[2J"


LOGS = """
import logging, sys
from gateway.talk import log_to_stderr
log_to_stderr()
log = logging.getLogger("gateway.audit")
log.warning("audit file %s", "a\\x1b[2J\\nb")
try:
    raise ValueError("\\x9b31m")
except ValueError:
    log.exception("it failed")
"""


def test_logged_text_does_nothing() -> None:
    done = subprocess.run(
        (sys.executable, "-c", LOGS.replace("\\\\", "\\")), cwd=ROOT, capture_output=True, text=True
    )
    first, second, *trace = done.stderr.splitlines()
    assert (first, second) == ("agent-gateway: audit file a\\x1b[2J\\nb", "agent-gateway: it failed")
    assert trace[-1] == "ValueError: \\x9b31m"


# --- Exit status, whatever happens ----------------------------------------------------------------


def test_full_disk_on_stdout(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = Console(tmp_path).call(
            "check", "host", "github.com", capture_output=False, stdout=full, stderr=subprocess.PIPE
        )
    assert (done.status, done.said) == (125, ["agent-gateway: No space left on device"])


@pytest.mark.parametrize("arguments", [("check", "host", "github.com"), ("check", "config")], ids=" ".join)
def test_nobody_reads_stdout(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        done = Console(tmp_path).call(*arguments, capture_output=False, stdout=gone, stderr=subprocess.PIPE)
    assert (done.status, done.said) == (125, [])


def test_nobody_reads_stderr(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        done = Console(tmp_path).run(
            "true", options=("--repo", "/nowhere"), capture_output=False, stderr=gone
        )
    assert done.status == 125


@pytest.mark.parametrize("closing", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams(tmp_path: Path, closing: str) -> None:
    """Nothing that is meant for stderr appears on stdout."""
    console = Console(tmp_path, before=("sh", "-c", f'exec "$@" {closing}', "sh"))
    assert console.call("check", "config", "/nowhere.yaml").status == 1
    done = console.call("run", "--repo", "/nowhere", "--", "true")
    assert (done.status, done.stdout, done.said) == (125, b"", [])


# An installation of which a part is missing.
MISSING = "import sys; sys.modules['gateway.{}'] = None; from gateway.cli import main; main(sys.argv[1:])"


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("check", ("check", "host", "github.com")),
        ("plan", ("run", "--", "touch", "ran")),
        ("proxy.proxies", ("run", "--", "touch", "ran")),
        ("demo", ("demo",)),
    ],
)
def test_what_nobody_expected(tmp_path: Path, module: str, arguments: tuple[str, ...]) -> None:
    """The whole story on stderr, and a status that is no command's own."""
    console = Console(tmp_path)
    command = (sys.executable, "-c", MISSING.format(module), *arguments)
    done = subprocess.run(
        command, cwd=console.work, env=console.environ, capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout) == (125, "")
    assert "Traceback" in done.stderr
    assert f"gateway.{module}" in done.stderr.splitlines()[-1]
    assert list(console.work.iterdir()) == []


# The product, with a command that finds too little of something, and fails once more when it cleans up.
WANTS = """
import sys
import gateway.cli as cli

def fail(options):
    try:
        raise {first}
    finally:
        raise KeyError("cleaning up after it")

cli._COMMANDS = {{"demo": fail}}
cli.main(["demo"])
"""


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (
            'RuntimeError("can\'t start new thread")',
            "no more threads may be started (raise this user's limit: ulimit -u",
        ),
        ("MemoryError()", "there is not enough memory ("),
        ('ExceptionGroup("two", [ValueError(), MemoryError()])', "there is not enough memory ("),
        ("OSError(11, 'no more')", "no more (raise this user's limit of processes: ulimit -u"),
        ("OSError(24, 'too many')", "too many (raise this user's limit of open files: ulimit -n)"),
        (
            "OSError(28, 'full')",
            "full (make room on that disk, or keep the state on another one: XDG_STATE_HOME)",
        ),
    ],
)
def test_what_the_system_does_not_give_is_a_sentence(tmp_path: Path, first: str, said: str) -> None:
    command = (sys.executable, "-c", WANTS.format(first=first))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (125, "", 1)
    assert done.stderr.startswith(f"agent-gateway: {said}")


# The product, interrupted while it is imported.
EARLY = """
import os, signal, sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "gateway.arguments":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
import gateway.cli
"""


def test_interrupted_before_it_has_begun() -> None:
    command = (sys.executable, "-c", EARLY)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_interrupted_before_anything_runs(tmp_path: Path) -> None:
    """Ctrl-C while a part of it is being imported: no traceback, and the shell sees that SIGINT did it."""
    console = Console(tmp_path)
    script = (
        "import builtins, os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'gateway.check':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from gateway.cli import main\n"
        "main(['check', 'host', 'github.com'])\n"
    )
    done = subprocess.run(
        (sys.executable, "-c", script),
        cwd=console.work,
        env=console.environ,
        capture_output=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-2, b"", b"")


def test_module_is_the_same_program(tmp_path: Path) -> None:
    console = Console(tmp_path)
    command = (sys.executable, "-m", "gateway")
    done = subprocess.run(
        (*command, "check", "host", "a.test"), env=console.environ, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.split()[:2]) == (1, ["deny", "not_listed"])
    done = subprocess.run((*command, "run"), env=console.environ, capture_output=True, text=True)
    assert (done.returncode, done.stderr.partition(":")[0]) == (2, "agent-gateway")


def test_script_is_installed() -> None:
    assert os.access(PROGRAM, os.X_OK)
