"""Tool calls over the agent listener: what is answered, recorded, and refused whatever is sent."""

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway.action_authorizer import ActionAuthorizer
from gateway.api.agent import close_agent_api, serve_agent_api
from gateway.api.tool_call import BODY_BYTES, ToolGate, read_json, tool_call_routes
from gateway.approvals import Answer, Approvals
from gateway.audit import AuditLog
from gateway.policy.grounds import Grounds
from gateway.policy.modes import READ_ONLY, Mode
from gateway.policy.tool_call import CallError
from gateway.session import SandboxStamp, Session
from tests.fakes.hook_inputs import INPUTS, hook_input
from tests.fakes.rules import rules_for
from tests.sandbox.test_hook import HOOK, blocked
from tests.test_action_authorizer import Person

PATIENCE = 60
SECRET = "the-secret-of-s1"
GROUNDS = Grounds(worktree="/w/repo", cwd="/w/repo", writable=("/w/repo",))
PLAIN, CLAUDE, TOOLS = "/agent/tool-call", "/agent/pre-tool-use", "/agent/tools"


@dataclass
class Site:
    """A served session. `ask` sends one request and reads all that comes back."""

    port: int
    gate: ToolGate
    log: AuditLog

    async def ask(
        self,
        path: str,
        body: bytes = b"",
        *,
        method: str = "POST",
        headers: str = f"X-Agent-Gateway-Session: {SECRET}",
    ) -> tuple[int, bytes, bytes]:
        """Status, head and body."""
        reading, writing = await asyncio.open_connection("127.0.0.1", self.port)
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n{headers}\r\nConnection: close\r\n"
        )
        try:
            writing.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body)
            answer = await reading.read()
        finally:
            writing.close()
        start, _, said = answer.partition(b"\r\n\r\n")
        return int(start.split(b" ")[1]), start, said

    def records(self, event: str = "action") -> list[Mapping[str, Any]]:
        found = [json.loads(line) for line in self.log.path.read_bytes().splitlines()]
        return [record for record in found if record["event"] == event]


def served[T](folder: Path, talk: Callable[[Site], Awaitable[T]], mode: Mode = Mode.CHAT) -> T:
    """What comes of talking to a server that is there for that long."""

    async def main() -> T:
        log = AuditLog(folder)
        session = Session("s1", SandboxStamp("none", "existing-only"), rules_for(), SECRET, mode=mode)
        door = ActionAuthorizer(log, Approvals(log, lambda: 0.0), lambda: datetime.now(UTC))
        gate = ToolGate(session, door, GROUNDS)
        listening = socket.create_server(("127.0.0.1", 0))
        server = serve_agent_api(listening, tool_call_routes(gate))
        try:
            async with asyncio.timeout(PATIENCE):
                return await talk(Site(listening.getsockname()[1], gate, log))
        finally:
            await close_agent_api(server)
            listening.close()
            log.close()
            assert gate.held == 0

    return asyncio.run(main())


def plain(**call: object) -> bytes:
    return json.dumps(call).encode()


# --- Decisions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "mode", "decision", "rule"),
    [
        ({"tool": "Write", "target": "/w/repo/a"}, Mode.CHAT, "allow", "default"),
        ({"tool": "Write", "target": "/w/repo/a"}, Mode.PLAN, "deny", "preset:plan"),
        ({"tool": "Write", "target": "/etc/a"}, Mode.CHAT, "deny", "default"),
        ({"tool": "x", "effects": ["commit"]}, Mode.CHAT, "allow", "default"),
        ({"tool": "x", "effects": ["commit", "fly"]}, Mode.CHAT, "deny", "unclear"),
        ({"tool": "x"}, Mode.CHAT, "deny", "unclear"),
        ({"tool": "bash", "command": "ls"}, Mode.REVIEW, "allow", None),
    ],
)
def test_the_plain_form(
    tmp_path: Path, call: dict[str, object], mode: Mode, decision: str, rule: str | None
) -> None:
    async def talk(site: Site) -> None:
        status, _, said = await site.ask(PLAIN, plain(**call))
        answer = json.loads(said)
        assert (status, answer["decision"]) == (200, decision)
        assert set(answer) == {"decision", "reason", "rule"}
        assert rule in (None, answer["rule"])
        (record,) = site.records()
        assert (record["verdict"], record["session"], record["tool"]) == (decision, "s1", call["tool"])

    served(tmp_path, talk, mode)


@pytest.mark.parametrize("mode", [Mode.CHAT, Mode.PLAN])
def test_every_published_input_is_decided_and_recorded(tmp_path: Path, mode: Mode) -> None:
    async def talk(site: Site) -> None:
        for name, given, _ in INPUTS[:40]:
            status, head, said = await site.ask(CLAUDE, json.dumps(hook_input(name, given)).encode())
            assert status == 200
            record = site.records()[-1]
            assert record["tool"] == name
            if record["verdict"] == "allow":
                assert (b"X-Agent-Gateway-Decision: allow" in head, said) == (True, b"")
            else:
                assert b"X-Agent-Gateway-Decision: deny" in head
                told = json.loads(said)["hookSpecificOutput"]
                assert (told["hookEventName"], told["permissionDecision"]) == ("PreToolUse", "deny")
                assert str(record["rule"]) in told["permissionDecisionReason"]
        assert len(site.records()) == 40

    served(tmp_path, talk, mode)


@pytest.mark.parametrize("mode", Mode)
def test_the_tools_of_a_mode(tmp_path: Path, mode: Mode) -> None:
    async def talk(site: Site) -> None:
        status, _, said = await site.ask(TOOLS, method="GET")
        answer = json.loads(said)
        assert (status, answer["mode"]) == (200, mode.value)
        assert "Read" in answer["tools"]
        assert ("Write" in answer["disallowed"], "Write" in answer["tools"]) == (
            mode in READ_ONLY,
            mode not in READ_ONLY,
        )
        assert (await site.ask(TOOLS, method="GET", headers="X: y"))[0] == 403

    served(tmp_path, talk, mode)


# --- What is refused ------------------------------------------------------------------------------

BAD = [
    b"",
    b"null",
    b"[]",
    b"{",
    b"{}",
    b'"Read"',
    b"\xff\xfe",
    b'{"tool": "Read", "tool": "Write", "target": "/w/repo/a"}',
    b'{"tool": NaN}',
    b'{"tool": "Read", "target": "/a", "x": Infinity}',
    b'{"tool": "Read", "target": "/a", "x": ' + b"9" * 10_000 + b"}",
    b'{"tool": "Read", "target": "\\ud800"}',
    b'{"tool": "Read", "target": "/a"} {}',
    b'{"tool": "Read", "target": "/a", "x": ' + b"[" * 100_000,
    b'{"tool": "Read", "target": "/a", "x": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001,
    b"\xef\xbb\xbf{}",
    b'{"tool": "Read", "target": "/a\xff"}',
    b'{"tool": "Read", "effects": "push", "target": "/a"}',
]


@pytest.mark.parametrize("path", [PLAIN, CLAUDE])
@pytest.mark.parametrize("body", BAD, ids=range(len(BAD)))
def test_what_is_no_call(tmp_path: Path, path: str, body: bytes) -> None:
    async def talk(site: Site) -> None:
        status, head, said = await site.ask(path, body)
        assert status == 400
        assert b"X-Agent-Gateway-Decision" not in head
        (record,) = site.records()
        assert (record["verdict"], record["code"], record["tool"]) == ("deny", "bad_request", "")
        if path == PLAIN:
            assert json.loads(said)["decision"] == "deny"

    served(tmp_path, talk)


@pytest.mark.parametrize("path", [PLAIN, CLAUDE])
def test_what_is_too_large(tmp_path: Path, path: str) -> None:
    async def talk(site: Site) -> None:
        status, head, said = await site.ask(path, b"x" * (BODY_BYTES + 1))
        assert status == 413
        assert b"X-Agent-Gateway-Decision" not in head
        assert b"larger than 4 MiB" in said
        assert site.records()[0]["verdict"] == "deny"

    served(tmp_path, talk)


def test_a_long_shell_line_is_denied(tmp_path: Path) -> None:
    async def talk(site: Site) -> None:
        status, _, said = await site.ask(PLAIN, plain(tool="bash", command="echo " + "a" * (1 << 20)))
        assert (status, json.loads(said)["decision"]) == (200, "deny")

    served(tmp_path, talk)


@pytest.mark.parametrize("path", [PLAIN, CLAUDE])
@pytest.mark.parametrize(
    "headers",
    [
        "X: y",
        "X-Agent-Gateway-Session:",
        "X-Agent-Gateway-Session: The-secret-of-s1",
        f"X-Agent-Gateway-Session: {SECRET}\r\nX-Agent-Gateway-Session: {SECRET}",
        f"X-Agent-Gateway-Session: {SECRET}, {SECRET}",
    ],
)
def test_without_the_secret(tmp_path: Path, path: str, headers: str) -> None:
    async def talk(site: Site) -> None:
        status, head, _ = await site.ask(path, plain(tool="Read", target="/w/repo/a"), headers=headers)
        assert status == 403
        assert b"X-Agent-Gateway-Decision" not in head
        assert site.records()[0]["code"] == "forbidden"

    served(tmp_path, talk)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_another_method(tmp_path: Path, method: str) -> None:
    async def talk(site: Site) -> None:
        for path in (PLAIN, CLAUDE):
            status, head, _ = await site.ask(path, method=method)
            assert status == 405
            assert b"X-Agent-Gateway-Decision" not in head

    served(tmp_path, talk)


# --- A person -------------------------------------------------------------------------------------

ASKED = plain(tool="mcp__github__create_issue", target="title")


def test_a_long_wait(tmp_path: Path) -> None:
    async def talk(site: Site) -> None:
        person = Person()
        site.gate.door.approvals.attach(person)
        asking = asyncio.create_task(site.ask(PLAIN, ASKED))
        await person.came.wait()
        assert not asking.done()
        person.questions[0].settle(Answer(True, "go on", "zoe"))
        assert json.loads((await asking)[2]) == {"decision": "allow", "reason": "go on", "rule": "default"}

    served(tmp_path, talk)


def test_whoever_leaves_withdraws_the_question(tmp_path: Path) -> None:
    async def talk(site: Site) -> None:
        person = Person()
        site.gate.door.approvals.attach(person)
        asking = asyncio.create_task(site.ask(PLAIN, ASKED))
        await person.came.wait()
        asking.cancel()
        await person.left.wait()
        assert [record["state"] for record in site.records("approval")] == ["asked", "withdrawn"]
        assert site.records()[0]["verdict"] == "deny"

    served(tmp_path, talk)


def test_a_session_that_ends_answers_nobody(tmp_path: Path) -> None:
    async def talk(site: Site) -> "asyncio.Task[tuple[int, bytes, bytes]]":
        person = Person()
        site.gate.door.approvals.attach(person)
        asking = asyncio.create_task(site.ask(PLAIN, ASKED))
        await person.came.wait()
        return asking

    asking = served(tmp_path, talk)
    assert asking.cancelled() or asking.exception() is not None


# --- With the hook --------------------------------------------------------------------------------


def run_hook(site: Site, text: bytes, *arguments: str, secret: str = SECRET) -> Awaitable[Any]:
    environment = {"AGENT_GATEWAY_URL": f"http://127.0.0.1:{site.port}", "AGENT_GATEWAY_SECRET": secret}
    return asyncio.to_thread(
        subprocess.run,
        [*HOOK, *arguments],
        input=text,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        env=environment,
    )


def test_the_hook_and_this_understand_each_other(tmp_path: Path) -> None:
    async def talk(site: Site) -> None:
        done = await run_hook(site, json.dumps(hook_input("Write", {"file_path": "a"})).encode())
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        done = await run_hook(site, json.dumps(hook_input("Write", {"file_path": "/etc/a"})).encode())
        assert (done.returncode, done.stderr) == (0, b"")
        said = json.loads(done.stdout)["hookSpecificOutput"]
        assert said["permissionDecision"] == "deny"
        assert "no approver is attached" in said["permissionDecisionReason"]
        assert "no tool call" in blocked(await run_hook(site, b"{}"))
        assert "not valid JSON" in blocked(await run_hook(site, os.urandom(64)))
        call = json.dumps(hook_input("Read", {"file_path": "a"})).encode()
        assert "secret" in blocked(await run_hook(site, call, secret="another"))
        assert [record["verdict"] for record in site.records()] == ["allow", "deny", "deny", "deny", "deny"]

    served(tmp_path, talk)


def test_a_hook_that_waits_too_long_blocks_and_withdraws(tmp_path: Path) -> None:
    async def talk(site: Site) -> None:
        person = Person()
        site.gate.door.approvals.attach(person)
        call = json.dumps(hook_input("mcp__github__create_issue", {"title": "t"})).encode()
        assert "nobody answered" in blocked(await run_hook(site, call, "--limit", "1"))
        await person.left.wait()

    served(tmp_path, talk)


@pytest.mark.parametrize("text", [b'{"a": 1, "a": 2}', b"[NaN]", b"[" * 100_000, b"1" * 5000, b"\xff"])
def test_json_that_is_none(text: bytes) -> None:
    with pytest.raises(CallError):
        read_json(text)


def test_json() -> None:
    assert read_json(b'{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}


@pytest.mark.parametrize("host", ["evil.test", "evil.test:80", "127.0.0.1", ""])
def test_under_another_name(tmp_path: Path, host: str) -> None:
    """A page that had its name turned to loopback asks nothing here."""

    async def talk(site: Site) -> None:
        reading, writing = await asyncio.open_connection("127.0.0.1", site.port)
        writing.write(
            f"POST {CLAUDE} HTTP/1.1\r\nHost: {host}\r\nX-Agent-Gateway-Session: {SECRET}\r\n"
            "Content-Length: 2\r\nConnection: close\r\n\r\n{}".encode()
        )
        assert (await reading.read()).startswith(b"HTTP/1.1 400 ")
        writing.close()

    served(tmp_path, talk)


def test_a_call_that_breaks_off(tmp_path: Path) -> None:
    async def talk(site: Site) -> None:
        reading, writing = await asyncio.open_connection("127.0.0.1", site.port)
        writing.write(
            f"POST {PLAIN} HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\nX-Agent-Gateway-Session: {SECRET}\r\n"
            'Content-Length: 100\r\n\r\n{"tool": "x", "effects": ["commit"]}'.encode()
        )
        writing.write_eof()
        assert await reading.read() == b""
        writing.close()
        assert not site.log.path.exists() or site.records() == []

    served(tmp_path, talk)
