"""The program between `sandbox-exec` and the command: it becomes the command, or says why it cannot."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ENTER = Path(__file__).resolve().parents[3] / "sandbox/seatbelt/enter.py"
FLAGS = ("-I", "-S", "-E", "-B")


def enter(
    *argv: str, ignored: str = "-", forget: str = "LC_CTYPE,__CF_USER_TEXT_ENCODING", **variables: str
) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        (sys.executable, *FLAGS, str(ENTER), ignored, forget, *argv),
        env={"PATH": "/usr/bin:/bin", **variables},
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("sh", "-c", "exit 7"), 7, b""),
        (("no-such-command", "x"), 127, b"agent-gateway: no-such-command: command not found\n"),
        (("/no/such",), 127, b"agent-gateway: /no/such: No such file or directory\n"),
        (("/usr",), 126, b"agent-gateway: /usr: Is a directory\n"),
    ],
)
def test_statuses(argv: tuple[str, ...], code: int, words: bytes) -> None:
    done = enter(*argv)
    assert (done.returncode, done.stderr) == (code, words)


def test_arguments_are_bytes() -> None:
    word = "a b\udcff\u00e9"
    assert enter("printf", "%s", word).stdout == word.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", ""])
def test_the_interpreter_adds_no_variable(locale: str) -> None:
    variables = {"LANG": locale} if locale else {}
    assert b"LC_CTYPE" not in enter("env", **variables).stdout
    assert b"CF_USER" not in enter("env", __CF_USER_TEXT_ENCODING="0x1F5:0:0", **variables).stdout
    assert b"LC_CTYPE=C.UTF-8\n" in enter("env", forget="-", LC_CTYPE="C.UTF-8", **variables).stdout


@pytest.mark.parametrize(("ignored", "code"), [("-", -signal.SIGPIPE), (str(int(signal.SIGPIPE)), 0)])
def test_signals(ignored: str, code: int) -> None:
    assert enter("sh", "-c", "kill -PIPE $$", ignored=ignored).returncode == code
