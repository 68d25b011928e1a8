"""The hook as a process: what it sends, what it makes of answers, and 2 for whatever goes wrong."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sandbox.hook import ANSWER_LIMIT, INPUT_LIMIT, Failure, decision_of, fields_of, find_port, read_arguments
from tests.fakes.hook_inputs import INPUTS, hook_input
from tests.fakes.origin import Origin, closed_port, full_backlog
from tests.fakes.wire import Message, Wire
from tests.sandbox.inside_git import response
from tests.sandbox.wrapping import PATIENCE, PYTHON, SOURCES

HOOK = (PYTHON, "-I", "-S", "-E", "-B", str(SOURCES / "sandbox/hook.py"))
SECRET = "a-secret-of-this-session"
DENIAL = b'{"hookSpecificOutput": {"permissionDecision": "deny"}}\n'
ALLOW = response("200 OK", b"", "X-Agent-Gateway-Decision: allow")
DENY = response("200 OK", DENIAL, "X-Agent-Gateway-Decision: deny")
CALL = json.dumps(hook_input("Read", {"file_path": "/a"})).encode()


@contextmanager
def gateway(answer: bytes) -> Iterator[tuple[Origin, list[tuple[Message, bytes]]]]:
    """Reads one request of each connection, answers so, and hangs up; and what was asked."""
    asked: list[tuple[Message, bytes]] = []

    def talk(wire: Wire) -> None:
        message = wire.message()
        asked.append((message, message.body))
        wire.send(answer)

    with Origin(talk) as origin:
        yield origin, asked


def hook(
    port: int | None, *arguments: str, text: bytes = CALL, **environment: str
) -> "subprocess.CompletedProcess[bytes]":
    """Runs the hook as Claude Code would."""
    there = {} if port is None else {"AGENT_GATEWAY_URL": f"http://127.0.0.1:{port}"}
    return subprocess.run(
        [*HOOK, *arguments],
        input=text,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        env={**there, "AGENT_GATEWAY_SECRET": SECRET, **environment},
    )


def blocked(done: "subprocess.CompletedProcess[bytes]") -> str:
    """Why the call is blocked: one line, and nothing on stdout."""
    assert (done.returncode, done.stdout) == (2, b""), done
    text = done.stderr.decode()
    assert text.startswith("agent-gateway: ")
    assert text.endswith("\n")
    assert text.count("\n") == 1
    assert SECRET not in text
    return text.removeprefix("agent-gateway: ").rstrip()


# --- Decisions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "output"), [(ALLOW, b""), (DENY, DENIAL)])
def test_a_decision(answer: bytes, output: bytes) -> None:
    with gateway(answer) as (origin, asked):
        done = hook(origin.port)
    assert (done.returncode, done.stdout, done.stderr) == (0, output, b"")
    ((message, body),) = asked
    assert body == CALL
    assert message.line == "POST /agent/pre-tool-use HTTP/1.1"
    assert message.field("X-Agent-Gateway-Session") == SECRET
    assert message.field("Host") == f"127.0.0.1:{origin.port}"
    assert message.field("Content-Type") == "application/json"


def test_every_input_arrives_as_it_is() -> None:
    texts = [json.dumps(hook_input(name, given)).encode() for name, given, _ in INPUTS[:8]]
    texts += [b"{", b"\xff\x00", b"x" * (INPUT_LIMIT - 1), b"x" * INPUT_LIMIT]
    with gateway(ALLOW) as (origin, asked):
        for text in texts:
            assert hook(origin.port, text=text).returncode == 0
    assert [body for _, body in asked] == texts


def test_no_proxy_is_used() -> None:
    with gateway(ALLOW) as (origin, _), gateway(DENY) as (proxy, _):
        address = f"http://127.0.0.1:{proxy.port}"
        done = hook(origin.port, http_proxy=address, HTTP_PROXY=address, all_proxy=address, ALL_PROXY=address)
        assert (done.returncode, done.stdout, proxy.accepted) == (0, b"", 0)


def test_a_named_gateway_beats_the_environment() -> None:
    with gateway(DENY) as (origin, _), gateway(ALLOW) as (other, _):
        done = hook(other.port, "--gateway", f"http://127.0.0.1:{origin.port}")
        assert (done.returncode, done.stdout, other.accepted) == (0, DENIAL, 0)


# --- What goes wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK",
        b"HTTP/1.1 200 OK\r\n\r\n",
        response("200 OK"),
        response("200 OK", DENIAL),
        response("200 OK", b"", "X-Agent-Gateway-Decision: deny"),
        response("200 OK", b"yes", "X-Agent-Gateway-Decision: allow"),
        response("200 OK", b"", "X-Agent-Gateway-Decision: ALLOW"),
        response("200 OK", b"", "X-Agent-Gateway-Decision: allow, deny"),
        response("200 OK", b"", "X-Agent-Gateway-Decision: allow", "X-Agent-Gateway-Decision: allow"),
        response("200 OK", b"", "X-Agent-Gateway-Decision : allow"),
        response("204 No Content", b"", "X-Agent-Gateway-Decision: allow"),
        response("302 Found", b"", "X-Agent-Gateway-Decision: allow"),
        response("500 Internal", b"", "X-Agent-Gateway-Decision: allow"),
        ALLOW[:-2],
        ALLOW + b"more",
        DENY[:-5],
        DENY + b"more",
        ALLOW.replace(b"Content-Length: 0\r\n", b""),
        ALLOW.replace(b"Content-Length: 0", b"Content-Length: +0"),
        ALLOW.replace(b"Content-Length: 0", b"Content-Length: 0\r\nTransfer-Encoding: chunked"),
        ALLOW.replace(b"HTTP/1.1", b"HTTP/1.0"),
        ALLOW.replace(b"200 OK", b"2000 OK"),
        ALLOW.replace(b"\r\n", b"\n"),
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * ANSWER_LIMIT,
        b"X-Agent-Gateway-Decision: allow\r\n\r\n",
        b"SSH-2.0-x\r\n",
    ],
)
def test_another_answer_blocks(answer: bytes) -> None:
    with gateway(answer) as (origin, _):
        assert blocked(hook(origin.port))


def test_a_refusal_is_told_in_its_own_words() -> None:
    with gateway(response("403 Forbidden", b"this is not\x1b[1m the secret\n")) as (origin, _):
        assert blocked(hook(origin.port)) == "this is not [1m the secret"


@pytest.mark.parametrize("text", [b"", b"x" * (INPUT_LIMIT + 1)])
def test_no_call_and_one_that_is_too_large(text: bytes) -> None:
    with gateway(ALLOW) as (origin, _):
        assert blocked(hook(origin.port, text=text))
        assert origin.accepted == 0


def test_no_gateway() -> None:
    with closed_port() as port:
        assert "cannot be asked" in blocked(hook(port))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://127.0.0.1",
        "http://127.0.0.1:",
        "http://127.0.0.1:0",
        "http://127.0.0.1:65536",
        "http://127.0.0.1:80/x",
        "http://127.0.0.1:٣",
        "http://127.0.0.1:" + "9" * 5000,
        "https://127.0.0.1:443",
        "http://localhost:80",
        "http://evil.test:80",
        "http://127.0.0.1@evil.test:80",
    ],
)
def test_another_address(url: str) -> None:
    assert blocked(hook(None, AGENT_GATEWAY_URL=url))


@pytest.mark.parametrize("secret", ["", "a\r\nb: c", "ü"])
def test_no_secret(secret: str) -> None:
    with gateway(ALLOW) as (origin, _):
        assert blocked(hook(origin.port, AGENT_GATEWAY_SECRET=secret))
        assert origin.accepted == 0


def test_a_gateway_that_does_not_answer() -> None:
    with Origin(lambda wire: _listen(wire)) as origin:
        assert blocked(hook(origin.port, "--limit", "0.3")).startswith("nobody answered within 0.3 seconds")


def test_a_gateway_that_does_not_accept() -> None:
    with full_backlog() as port:
        assert blocked(hook(port, "--limit", "0.3"))


def test_an_agent_that_does_not_go_on() -> None:
    with gateway(ALLOW) as (origin, _):
        reading, writing = os.pipe()
        with open(reading, "rb") as stdin, open(writing, "wb") as held:
            held.write(CALL)
            held.flush()
            done = subprocess.run(
                [*HOOK, "--limit", "0.3"],
                stdin=stdin,
                capture_output=True,
                timeout=PATIENCE,
                check=False,
                env={"AGENT_GATEWAY_URL": f"http://127.0.0.1:{origin.port}", "AGENT_GATEWAY_SECRET": SECRET},
            )
        assert blocked(done)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_a_signal_blocks_by_way_of_the_shell_line(number: int) -> None:
    """As the settings have it: whatever ends the program, the line's status is 2."""
    with Origin(lambda wire: _listen(wire)) as origin:
        # Without job control a shell has what runs in the background ignore SIGINT.
        line = " ".join((*HOOK, "&", "echo $!;", "wait $! || exit 2"))
        process = subprocess.Popen(
            ["/bin/bash", "-c", f"set -m; exec 3<&0; {line.replace('&', '<&3 &', 1)}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"AGENT_GATEWAY_URL": f"http://127.0.0.1:{origin.port}", "AGENT_GATEWAY_SECRET": SECRET},
        )
        assert process.stdin is not None
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.stdin.write(CALL)
        process.stdin.close()
        origin.wait_accepted(1)
        os.kill(pid, number)
        assert process.wait(PATIENCE) == 2
        process.stdout.close()


def test_nobody_reads_the_denial() -> None:
    with gateway(DENY) as (origin, _):
        reading, writing = os.pipe()
        os.close(reading)
        with open(writing, "wb") as closed:
            done = subprocess.run(
                HOOK,
                input=CALL,
                stdout=closed,
                stderr=subprocess.PIPE,
                timeout=PATIENCE,
                check=False,
                env={"AGENT_GATEWAY_URL": f"http://127.0.0.1:{origin.port}", "AGENT_GATEWAY_SECRET": SECRET},
            )
    assert done.returncode == 2


@pytest.mark.parametrize("redirection", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(redirection: str) -> None:
    with gateway(DENY) as (origin, _):
        done = subprocess.run(
            ["/bin/sh", "-c", f"{' '.join(HOOK)} {redirection} || exit 2"],
            input=CALL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
            env={"AGENT_GATEWAY_URL": f"http://127.0.0.1:{origin.port}", "AGENT_GATEWAY_SECRET": SECRET},
        )
    assert done.returncode == (0 if redirection == "2>&-" else 2)


# --- Parts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("--limit",),
        ("x",),
        ("--limit", "x"),
        ("--limit", "-1"),
        ("--limit", "inf"),
        ("--limit", "nan"),
        ("--x", "1"),
    ],
)
def test_arguments_that_are_none(arguments: tuple[str, ...]) -> None:
    with pytest.raises(Failure):
        read_arguments(arguments)
    with gateway(ALLOW) as (origin, _):
        assert blocked(hook(origin.port, *arguments))


def test_parts() -> None:
    assert read_arguments(("--limit", "5", "--gateway", "x")) == (5.0, "x")
    assert find_port("http://127.0.0.1:3180") == 3180
    assert fields_of(b"HTTP/1.1 200 OK\r\nA: b") == (200, {b"a": b"b"})
    assert decision_of(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Agent-Gateway-Decision: allow", b"") == b""


def _listen(wire: Wire) -> None:
    while wire.some():
        pass
