"""The credential helper as a process: run by the test, and by real git; against gateways that answer anything."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from sandbox.credential import ANSWER_LIMIT, INPUT_LIMIT, concerns, login_of, shown
from tests.fakes.origin import Origin, Respond, closed_port, http_origin, recorder
from tests.fakes.wire import Wire
from tests.sandbox.inside_git import HELPER, SECRET, TOKEN, gateway, response
from tests.sandbox.wrapping import PATIENCE, PYTHON

FORGE = "https://github.com"
QUESTION = "protocol=https\nhost=github.com\npath=acme/widget.git\n\n"
LOGIN = f"username=x-access-token\npassword={TOKEN}\n"


def helper(
    origin: Origin | None, *arguments: str, text: str = QUESTION, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Runs the helper as git would; by default it is asked for the forge's login."""
    there = {"AGENT_GATEWAY_URL": f"http://127.0.0.1:{origin.port}"} if origin else {}
    return subprocess.run(
        [*HELPER, *(arguments or (FORGE, "get"))], input=text, capture_output=True, text=True, timeout=PATIENCE,
        check=False, env={**there, "AGENT_GATEWAY_SECRET": SECRET, **environment},
    )  # fmt: skip


def told(respond: Respond, text: str = QUESTION) -> str:
    """The line on stderr when a gateway answers so and git is told nothing; without the program's name."""
    with http_origin(respond) as origin:
        done = helper(origin, text=text)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("agent-gateway: ")
    assert done.stderr.endswith("\n")
    assert done.stderr.count("\n") == 1
    assert SECRET not in done.stderr
    return done.stderr.removeprefix("agent-gateway: ").rstrip()


def test_asks_the_gateway() -> None:
    with gateway() as origin:
        done = helper(origin)
        assert (done.returncode, done.stdout, done.stderr) == (0, LOGIN, "")
        (request,) = origin.requests
    assert (request.method, request.target) == ("POST", "/agent/git-credential")
    assert request.field("X-Agent-Gateway-Session") == SECRET
    assert request.field("Content-Type") == "application/json"
    assert request.field("Host") == f"127.0.0.1:{origin.port}"
    assert request.json() == {"host": "github.com", "path": "acme/widget.git"}


def test_no_proxy_is_used() -> None:
    with gateway() as origin, recorder() as proxy:
        address = f"http://127.0.0.1:{proxy.port}"
        names = ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
        assert helper(origin, **dict.fromkeys(names, address)).stdout == LOGIN
        assert proxy.accepted == 0


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("protocol=https\nhost=github.com\n\n", ""),
        ("protocol=https\nhost=GitHub.com\npath=a/b=c\n", "a/b=c"),
        ("path=x\nhost=github.com\nprotocol=https\npath=a/b\nusername=me\npassword=old\n", "a/b"),
        ("capability[]=authtype\nwwwauth[]=Basic realm=\"x\"\nprotocol=https\nhost=github.com\npath=a/ü\n", "a/ü"),
        ("no line of a helper\n=\nprotocol=https\nhost=github.com\npath=a/b\n", "a/b"),
    ],
)  # fmt: skip
def test_what_git_may_say(text: str, path: str) -> None:
    with gateway() as origin:
        assert helper(origin, text=text).stdout == LOGIN
        assert origin.requests[0].json()["path"] == path


@pytest.mark.parametrize(
    "text",
    [
        "protocol=http\nhost=github.com\npath=a/b\n",
        "protocol=https\nhost=github.com:8443\npath=a/b\n",
        "protocol=https\nhost=github.com.evil.test\npath=a/b\n",
        "protocol=https\nhost=gist.github.com\npath=a/b\n",
        "protocol=https\nhost=\npath=a/b\n",
        "protocol=https\n",
        "",
        "host=github.com\n",
        "protocol=https\nhost=github.com\r\npath=a/b\n",
        "protocol=https\nhost=github.com\n" + "wwwauth[]=x\n" * (INPUT_LIMIT // 10),
    ],
)
def test_token_is_for_the_forge_alone(text: str) -> None:
    with gateway() as origin:
        done = helper(origin, text=text)
        assert (done.returncode, done.stdout, origin.requests) == (0, "", [])
        assert done.stderr.startswith("agent-gateway: ")


def test_another_forge() -> None:
    text = "protocol=http\nhost=forge.test:8080\npath=a/b\n"
    with gateway() as origin:
        assert helper(origin, "http://forge.test:8080", "get", text=text).stdout == LOGIN
        assert origin.requests[0].json() == {"host": "forge.test:8080", "path": "a/b"}
    assert not concerns({"protocol": "", "host": ""}, "")
    assert not concerns({"protocol": "https", "host": ""}, "https://")


@pytest.mark.parametrize("action", ["store", "erase", "capability"])
def test_nothing_is_stored_and_nothing_asked(action: str) -> None:
    with gateway() as origin:
        done = helper(origin, FORGE, action, text=QUESTION.rstrip("\n") + f"\n{LOGIN}")
        assert (done.returncode, done.stdout, done.stderr, origin.requests) == (0, "", "", [])


NO_TOKEN = "this session has no token to read acme/widget.git: "
NONSENSE = "the session's gateway gave something that is no token"


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        ("404 Not Found", b'{"error": "Not Found"}', NO_TOKEN),
        ("404 Not Found", b"[]", NO_TOKEN),
        ("404 Not Found", b'{"message": 7}', NO_TOKEN),
        ("404 Not Found", b'{"message": "not\\nlinked\\u001b[31m"}', "not linked [31m"),
        ("403 Forbidden", b"", "the session's gateway does not take this AGENT_GATEWAY_SECRET: "),
        ("500 Internal Server Error", b"", "the session's gateway gave no token (status 500): "),
        (
            "302 Found\r\nLocation: http://127.0.0.1:1/",
            b"",
            "the session's gateway gave no token (status 302): ",
        ),
        ("401 No\r\nWWW-Authenticate: Basic", b"", "the session's gateway gave no token (status 401): "),
        ("200 OK", b"", NONSENSE),
        ("200 OK", b"\xff", NONSENSE),
        ("200 OK", b'{"username": "x", "password": "y', NONSENSE),
        ("200 OK", b"[" * 50_000, NONSENSE),
        ("200 OK", b'{"username": "x", "password": "y"}' + b" " * ANSWER_LIMIT, NONSENSE),
    ],
)
def test_no_token_says_why(status: str, body: bytes, said: str) -> None:
    assert told(lambda _: response(status, body)).startswith(said)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "RemoteDisconnected"),
        (b"gateway", "BadStatusLine"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000, "HTTPException"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", "IncompleteRead"),
    ],
)
def test_gateway_that_breaks_off(answer: bytes, reason: str) -> None:
    def talk(wire: Wire) -> None:
        wire.message()
        wire.send(answer)

    with Origin(talk) as origin:
        done = helper(origin)
    assert (done.returncode, done.stdout) == (0, "")
    assert f"the session's gateway cannot be asked for a token ({reason}): " in done.stderr


@pytest.mark.parametrize(
    "fields",
    [
        {"username": "x", "password": "a\nhost=evil.test"},
        {"username": "x\r", "password": "a"},
        {"username": "x", "password": "a\0"},
        {"username": "x", "password": "é"},
        {"username": "", "password": "a"},
        {"username": "x", "password": ""},
        {"username": "x"},
        {"password": "a"},
        {"username": 1, "password": "a"},
        {"username": "x", "password": ["a"]},
        {"username": "x", "password": None},
    ],
)
def test_answer_cannot_speak_to_git(fields: dict[str, object]) -> None:
    said = told(lambda _: response("200 OK", json.dumps(fields).encode()))
    assert said == "the session's gateway gave something that is no token: tell the operator"


def test_gateway_that_is_gone() -> None:
    with closed_port() as port:
        done = helper(None, AGENT_GATEWAY_URL=f"http://127.0.0.1:{port}")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (
        "agent-gateway: the session's gateway cannot be asked for a token (Connection refused): start the command"
        " with `agent-gateway run`\n"
    )


@pytest.mark.parametrize(
    "environment",
    [
        {"AGENT_GATEWAY_URL": ""},
        {"AGENT_GATEWAY_SECRET": ""},
        {"AGENT_GATEWAY_URL": "nonsense"},
        {"AGENT_GATEWAY_URL": "http://127.0.0.1:x"},
        {"AGENT_GATEWAY_URL": "http://127.0.0.1:99999"},
        {"AGENT_GATEWAY_SECRET": "a\r\nX-Other: b"},
        {"AGENT_GATEWAY_SECRET": "ü€"},
    ],
)
def test_environment_that_was_changed(environment: dict[str, str]) -> None:
    with gateway() as origin:
        done = helper(origin, **environment)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("agent-gateway: the session's gateway cannot be asked for a token (")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [("get",), (FORGE,), (FORGE, "get", "x")])
def test_bad_arguments(arguments: tuple[str, ...]) -> None:
    done = helper(None, *arguments)
    assert (done.returncode, done.stdout) == (0, "")
    assert "usage" in done.stderr


def test_words_for_people() -> None:
    assert shown("a\nb\x1b" + "x" * 1000) == "a b " + "x" * 496
    assert login_of(b'{"username": "x", "password": "y"}') == ("x", "y")


def test_real_git_runs_it(tmp_path: Path) -> None:
    """As `fill` (what a fetch does), and with nothing to find but the standard library."""
    with gateway() as origin:
        environment = {
            "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": f"credential.{FORGE}.helper",
            "GIT_CONFIG_VALUE_0": f"!{PYTHON} {' '.join(HELPER[1:])} {FORGE}",
            "GIT_CONFIG_KEY_1": f"credential.{FORGE}.useHttpPath", "GIT_CONFIG_VALUE_1": "true",
            "AGENT_GATEWAY_URL": f"http://127.0.0.1:{origin.port}", "AGENT_GATEWAY_SECRET": SECRET,
            "PYTHONPATH": os.getcwd(),
        }  # fmt: skip

        def run(action: str, text: str) -> "subprocess.CompletedProcess[str]":
            return subprocess.run(
                ("git", "credential", action), input=text, capture_output=True, text=True, timeout=PATIENCE,
                env=environment, cwd=tmp_path, check=False,
            )  # fmt: skip

        done = run("fill", f"url={FORGE}/acme/widget.git\n\n")
        assert done.returncode == 0, done.stderr
        assert f"username=x-access-token\npassword={TOKEN}\n" in done.stdout
        for action in ("approve", "reject"):
            assert run(action, done.stdout).returncode == 0
        assert len(origin.requests) == 1
        refused = run("fill", "url=https://gitlab.test/acme/widget\n\n")
        assert (refused.returncode, len(origin.requests)) == (128, 1)
    assert list(tmp_path.iterdir()) == []
