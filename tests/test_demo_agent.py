"""The demo's agent: what it reports of each kind of step, against small servers that stand for the proxies."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gateway import demo_agent
from tests.fakes.console import PATIENCE
from tests.fakes.origin import Origin, closed_port
from tests.fakes.wire import Wire

AGENT = Path(demo_agent.__file__)

REFUSAL = (
    b"HTTP/1.1 403 Forbidden\r\nX-Agent-Gateway: deny; code=not_listed\r\nContent-Length: 0\r\n"
    b"Connection: close\r\n\r\n"
)
PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"


def results(steps: list[list[str]], proxy: int = 9) -> list[dict[str, object]]:
    """What the agent says, run as a program with its proxies on one port."""
    url = f"127.0.0.1:{proxy}"
    environment = {
        "http_proxy": f"http://{url}",
        "https_proxy": f"http://{url}",
        "all_proxy": f"socks5h://{url}",
    }
    done = subprocess.run(
        (sys.executable, "-I", "-B", str(AGENT)), env=environment, input=json.dumps(steps),
        capture_output=True, text=True, timeout=PATIENCE, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def answering(*answers: bytes) -> Origin:
    """Gives these answers on each connection, one after each thing it is sent."""

    def talk(wire: Wire) -> None:
        for answer in answers:
            if not wire.some():
                return
            wire.send(answer)

    return Origin(talk)


@pytest.mark.parametrize(
    ("step", "answers", "result"),
    [
        (["fetch", "http://a.test/"], (PAGE,), {"ok": True, "said": "200"}),
        (["fetch", "http://a.test/"], (REFUSAL,), {"ok": False, "said": "403", "code": "not_listed"}),
        (["tunnel", "a.test:443", "a.test"], (REFUSAL,), {"ok": False, "said": "403", "code": "not_listed"}),
        (["socks", "a.test:443", "a.test"], (b"\5\0", b"\5\2\0\1" + b"\0" * 6),
         {"ok": False, "said": "SOCKS reply 02"}),
        (["socks", "a.test:443", "a.test"], (b"\5\0", b""), {"ok": False, "said": "SOCKS reply none"}),
    ],
)  # fmt: skip
def test_answers_of_a_proxy(step: list[str], answers: tuple[bytes, ...], result: dict[str, object]) -> None:
    with answering(*answers) as proxy:
        assert results([step], proxy.port) == [result]


def test_tunnel_that_is_cut() -> None:
    with answering(b"HTTP/1.1 200 Connection established\r\n\r\n", b"") as proxy:
        (found,) = results([["tunnel", "a.test:443", "a.test"]], proxy.port)
    assert found["ok"] is False
    assert b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n" in proxy.received
    assert b"a.test" in bytes(proxy.received).partition(b"\r\n\r\n")[2]  # the name in the greeting


def test_without_a_proxy() -> None:
    with closed_port() as port:
        steps = [
            ["fetch", "http://a.test/"],
            ["tunnel", "a.test:1", "a.test"],
            ["socks", "a.test:1", "a.test"],
        ]
        found = results([*steps, ["dial", "127.0.0.1", str(port)]], port)
    assert [(one["ok"], "refused" in str(one["said"])) for one in found] == [(False, True)] * 4


def test_dial() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        (found,) = results([["dial", "127.0.0.1", str(listening.getsockname()[1])]])
    assert found == {"ok": True, "said": "connected"}


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "file"
    steps = [
        ["read", str(file)],
        ["write", str(file)],
        ["read", str(file)],
        ["write", str(tmp_path / "no/file")],
    ]
    assert results(steps) == [
        {"ok": False, "said": "No such file or directory"},
        {"ok": True, "said": "written"},
        {"ok": True, "said": "21 bytes"},
        {"ok": False, "said": "No such file or directory"},
    ]
    assert file.read_text() == "written by the agent\n"


def test_it_needs_the_standard_library_alone() -> None:
    command = (sys.executable, "-I", "-S", str(AGENT))
    done = subprocess.run(command, input="[]", env={}, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
