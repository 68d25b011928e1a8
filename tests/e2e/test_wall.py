"""The self-test of a session: no command before the wall around it is proven, and what is said and recorded else."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.console import PATIENCE, PROGRAM, Console, without_bubblewrap
from tests.sandbox.wrapping import as_ordinary, place_of
from tests.source_tree import ROOT

PROBE = ROOT / "sandbox/egress_probe.py"
# A bubblewrap that leaves out one of its options, wherever it reads them from.
LEAVES_OUT = """#!{python} -ISE
import os, sys
argv = sys.argv[1:]
if "--args" in argv:
    at = argv.index("--args") + 1
    with open(int(argv[at]), "rb") as listed:
        options = listed.read().split(b"\\0")
    copy = os.memfd_create("options", 0)
    os.write(copy, b"\\0".join(option for option in options if option != b"{option}"))
    os.lseek(copy, 0, os.SEEK_SET)
    argv[at] = str(copy)
os.execv("{bwrap}", ["bwrap", *argv])
"""


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder that is there in every wrap, trials included: not below /tmp."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


def leaving_out(folder: Path, option: str) -> tuple[str, ...]:
    """What stands before the product for such a bubblewrap to be the system's."""
    real = folder / "real"
    shutil.copy(shutil.which("bwrap", path="/usr/bin:/bin") or "", real)
    script = folder / "script"
    script.write_text(LEAVES_OUT.format(python=os.path.realpath(sys.executable), option=option, bwrap=real))
    script.chmod(0o755)
    return without_bubblewrap(str(script))


def replacing(file: Path, by: str) -> tuple[str, ...]:
    """What stands before the product for another file to be in the place of one of ours."""
    script = f'mount --bind {shlex.quote(by)} {shlex.quote(str(file))} && exec "$@"'
    return ("unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh")


def outcomes(console: Console) -> list[object]:
    return [record.get("self_test") for record in console.records("session")]


def refused(console: Console, words: str) -> None:
    """Nothing of the command ran, and it is said and recorded why."""
    done = console.run("touch", str(console.work / "it-ran"))
    assert done.status == 125
    assert words in done.said[-1]
    assert not (console.work / "it-ran").exists()
    (violation,) = console.records("violation")
    assert (violation["action"], violation["target"], violation["rule"]) == (
        "network-outbound", "self-test", "self-test",
    )  # fmt: skip
    assert words.partition(": ")[2] in str(violation["raw"])
    opened, closed = console.records("session")
    assert (opened["state"], closed["state"], closed["exit_status"]) == ("opened", "closed", None)
    assert console.call("review", "verify").status == 0
    assert console.left() == []


@pytest.mark.parametrize(
    ("options", "config", "state"),
    [
        ((), "", "holds"),
        (("--no-network",), "", "holds"),
        ((), "bridge: socat\n", "holds"),
        ((), "file_rules: existing-only\n", "holds"),
        ((), "egress: {limits: {new_per_second: 3000}}\n", "holds"),
        # The trial's own connections are nobody's.
        ((), "egress: {limits: {tunnels: 1, new_per_second: 1, burst: 1}}\n", "holds"),
        ((), 'egress: {upstream_proxy: "http://127.0.0.1:1", deny: [127.0.0.0/8]}\n', "holds"),
        (("--sandbox", "off"), "", "unwrapped"),
        (("--profile", "terminal"), "", None),
        (("--profile", "terminal", "--backend", "native"), "", None),
    ],
)
def test_what_stands_on_record(
    tmp_path: Path, options: tuple[str, ...], config: str, state: str | None
) -> None:
    console = Console(tmp_path)
    if config:
        console.config(config)
    assert console.run("true", options=options).status == 0
    assert outcomes(console) == [state, None]
    # Nothing of the trial is.
    assert console.records("egress") == []


def test_as_an_ordinary_user() -> None:
    with place_of("ordinary") as place:
        place.give()
        environ = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(place.home),
            "XDG_STATE_HOME": str(place.home / "state"),
        }
        done = subprocess.run(
            as_ordinary([PROGRAM, "run", "--", "echo", "it ran"]), env=environ, cwd=place.worktree,
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (0, "it ran\n"), done.stderr


def test_a_wrap_in_the_hosts_network(tmp_path: Path, elsewhere: Path) -> None:
    console = Console(tmp_path, before=leaving_out(elsewhere, "--unshare-net"))
    refused(
        console,
        "the wrap has a hole, so the command was not started: the command would stand in the host's own",
    )
    assert outcomes(console) == ["open", None]


def test_the_stand_in_is_no_obstacle_by_itself(tmp_path: Path, elsewhere: Path) -> None:
    """The test above is about the option, not about the script."""
    console = Console(tmp_path, before=leaving_out(elsewhere, "--no-such-option"))
    assert console.run("true").status == 0
    assert outcomes(console) == ["holds", None]


@pytest.mark.parametrize(
    "program", ["", "import sys\nsys.exit(1)\n", "import time\nwhile True: time.localtime()\n"]
)
def test_a_trial_that_tells_nothing(tmp_path: Path, program: str) -> None:
    broken = tmp_path / "probe.py"
    broken.write_text(program)
    console = Console(tmp_path, before=replacing(PROBE, str(broken)))
    refused(console, "the wrap was not proven, so the command was not started: the")
    assert outcomes(console) == ["untested", None]


def test_ended_in_the_middle_of_a_trial(tmp_path: Path) -> None:
    """Ctrl-C and SIGTERM end it as they end a command."""
    slow, pipe = tmp_path / "probe.py", tmp_path / "pipe"
    os.mkfifo(pipe)
    slow.write_text(f"import signal\nopen({str(pipe)!r}, 'w').close()\nsignal.pause()\n")
    console = Console(tmp_path, before=replacing(PROBE, str(slow)))
    process = console.start("touch", str(console.work / "it-ran"))
    with open(pipe, "rb") as opened:
        assert opened.read() == b""
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) in (125, 128 + signal.SIGTERM)
    assert not (console.work / "it-ran").exists()
