"""The operator API on a real Unix socket: what is told, what is answered, who is attached, and bad input."""

import json
import os
import pwd
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from gateway.api.operator import STATUS, peer_user
from gateway.approvals import Settling
from gateway.operator_socket import connect
from gateway.policy.push import PushRequest, UpdateKind
from gateway.policy.remembering import remembered_push
from gateway.policy.repositories import parse_repository
from tests.fakes.operator_desk import OperatorDesk, Somebody, operator_desk

ME = pwd.getpwuid(os.geteuid()).pw_name


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[OperatorDesk]:
    with operator_desk(tmp_path, tmp_path / "sockets") as opened:
        yield opened


def send(desk: OperatorDesk, raw: bytes) -> tuple[int, dict[str, Any]]:
    """Status and JSON of the answer to these bytes; (0, {}) where the connection was only closed."""
    with connect(desk.path, 30) as wire:
        wire.sendall(raw)
        with wire.makefile("rb") as file:
            first = file.readline()
            if not first:
                return 0, {}
            length = 0
            while (line := file.readline()).strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            body = file.read(length)
    return int(first.split()[1]), json.loads(body) if body.startswith(b"{") else {}


def get(desk: OperatorDesk, target: str) -> tuple[int, dict[str, Any]]:
    return send(desk, f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


def post(desk: OperatorDesk, target: str, body: bytes = b"{}") -> tuple[int, dict[str, Any]]:
    head = f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    return send(desk, head.encode() + body)


def scrape(desk: OperatorDesk) -> dict[str, str]:
    """The samples of the process, by name and labels."""
    with connect(desk.path, 30) as wire:
        wire.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        with wire.makefile("rb") as file:
            head, _, body = file.read().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n" in head
    lines = (line for line in body.decode().splitlines() if not line.startswith("#"))
    return dict(line.rsplit(" ", 1) for line in lines)


def attach(desk: OperatorDesk) -> None:
    desk.call(lambda: desk.approvals.attach(Somebody()))


def test_health_and_sessions(desk: OperatorDesk) -> None:
    assert get(desk, "/healthz") == (200, {"status": "ok"})
    status, said = get(desk, "/sessions")
    assert (status, said["sessions"][0]["id"], said["sessions"][0]["agent"]) == (200, "s1", "claude")
    assert "secret" not in json.dumps(said)


def test_what_waits_is_told_whole(desk: OperatorDesk) -> None:
    assert get(desk, "/approvals") == (200, {"approvals": []})
    attach(desk)
    question, _ = desk.ask()
    _, said = get(desk, "/approvals")
    (told,) = said["approvals"]
    assert {key: told[key] for key in ("id", "session", "agent", "action", "override", "rememberable")} == {
        "id": question.id,
        "session": "s1",
        "agent": "claude",
        "action": "push",
        "override": False,
        "rememberable": False,
    }
    assert told["details"]["refs"][0]["ref"] == "feature/x"
    assert 0 <= told["age"] <= 300 - told["left"] + 1


@pytest.mark.parametrize(
    ("word", "body", "is_allowed", "reason"),
    [
        ("approve", b"{}", True, ""),
        ("approve", b'{"reason": "fine"}', True, "fine"),
        ("approve", b"", True, ""),
        ("deny", b'{"message": "not today"}', False, "not today"),
        ("deny", b"{}", False, f"{ME} said no"),
    ],
)
def test_an_answer(desk: OperatorDesk, word: str, body: bytes, is_allowed: bool, reason: str) -> None:
    attach(desk)
    question, asking = desk.ask()
    status, said = post(desk, f"/approvals/{question.id}/{word}", body)
    assert (status, said["state"]) == (200, "done")
    answer = asking.result(30)
    assert (answer.allowed, answer.reason, answer.approver) == (is_allowed, reason, ME)


@pytest.mark.parametrize("is_rememberable", [True, False])
def test_remembering(desk: OperatorDesk, is_rememberable: bool) -> None:
    attach(desk)
    rule = remembered_push(PushRequest(parse_repository("a/b"), "refs/heads/x/y", UpdateKind.CREATE))
    assert rule is not None
    question, asking = desk.ask(rules=(rule,) if is_rememberable else ())
    status, said = post(desk, f"/approvals/{question.id}/approve", b'{"remember": true}')
    assert (status, said) == (200, {"id": question.id, "state": "done", "remembered": is_rememberable})
    asking.result(30)
    assert len(desk.approvals.remembered("s1")) == is_rememberable


def test_answers_that_do_not_count(desk: OperatorDesk) -> None:
    attach(desk)
    assert post(desk, "/approvals/99/approve") == (404, {"id": 99, "state": "unknown"})
    question, asking = desk.ask()
    assert post(desk, f"/approvals/{question.id}/deny")[0] == 200
    asking.result(30)
    assert post(desk, f"/approvals/{question.id}/approve") == (409, {"id": question.id, "state": "answered"})
    gone, asking = desk.ask()
    asking.cancel()
    desk.wait_until(lambda: not desk.approvals.waiting)
    assert post(desk, f"/approvals/{gone.id}/approve") == (409, {"id": gone.id, "state": "over"})
    override, _ = desk.ask(override=True)
    assert post(desk, f"/approvals/{override.id}/approve") == (
        422,
        {"id": override.id, "state": "needs_reason"},
    )
    assert post(desk, f"/approvals/{override.id}/approve", b'{"reason": "agreed"}')[0] == 200
    assert set(STATUS) == set(Settling)


@pytest.mark.parametrize(
    "body",
    [
        b"x",
        b"[]",
        b'{"remember": 1}',
        b'{"reason": null}',
        b'{"reson": "x"}',
        b"[" * 15_000,
        b"\xff",
        b'{"message": "x"}',
    ],
)
def test_what_is_no_answer_answers_nothing(desk: OperatorDesk, body: bytes) -> None:
    attach(desk)
    question, _ = desk.ask()
    assert post(desk, f"/approvals/{question.id}/approve", body)[0] == 400
    assert [one.id for one in desk.approvals.waiting] == [question.id]


def test_what_is_too_large_or_nowhere(desk: OperatorDesk) -> None:
    attach(desk)
    question, _ = desk.ask()
    head = f"POST /approvals/{question.id}/approve HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n"
    assert send(desk, head.encode())[0] in (0, 400, 413)
    for target in (
        "/approvals/1x/approve",
        "/approvals/-1/approve",
        f"/approvals/{'9' * 40}/approve",
        "/x",
        "/",
    ):
        assert post(desk, target)[0] == 404
    assert get(desk, f"/approvals/{question.id}/approve")[0] == 405
    assert [one.id for one in desk.approvals.waiting] == [question.id]


# --- Watching -------------------------------------------------------------------------------------


class Watcher:
    """A client of /approvals/watch."""

    def __init__(self, desk: OperatorDesk) -> None:
        self.wire = connect(desk.path, 30)
        self.wire.sendall(b"GET /approvals/watch HTTP/1.1\r\nHost: x\r\n\r\n")
        self._file = self.wire.makefile("rb")
        desk.wait_until(lambda: desk.approvals.attended)
        while self._file.readline().strip():
            pass

    def event(self) -> dict[str, Any]:
        """The next event; what chunked transfer and signs of life put between them is passed over."""
        while True:
            line = self._file.readline()
            assert line, "the stream has ended"
            if line.startswith(b"{"):
                found: dict[str, Any] = json.loads(line)
                return found

    def close(self) -> None:
        self._file.close()
        self.wire.close()


def test_a_watcher_is_attached_and_told(desk: OperatorDesk) -> None:
    assert not desk.call(lambda: desk.approvals.attended)
    watcher = Watcher(desk)
    question, _ = desk.ask()
    event = watcher.event()
    assert (event["event"], event["id"], event["details"]["commits"][0]["subject"]) == (
        "asked",
        question.id,
        "Add x",
    )
    second = Watcher(desk)
    assert second.event()["id"] == question.id
    post(desk, f"/approvals/{question.id}/deny")
    assert watcher.event() == {"event": "closed", "id": question.id, "session": "s1"} == second.event()
    watcher.close()
    second.close()
    desk.wait_until(lambda: not desk.approvals.attended)


def test_with_the_last_watcher_what_waits_is_denied(desk: OperatorDesk) -> None:
    watcher = Watcher(desk)
    _, asking = desk.ask()
    watcher.close()
    answer = asking.result(30)
    assert (answer.allowed, "the approver left" in answer.reason) == (False, True)


def test_a_watcher_that_does_not_read_is_dropped_when_it_is_too_far_behind(desk: OperatorDesk) -> None:
    watcher = Watcher(desk)
    details = {"command": "x" * 60_000}
    for number in range(2_200):
        _, asking = desk.ask(str(number), details)
        if not desk.call(lambda: desk.approvals.attended):
            break
        asking.cancel()
        desk.wait_until(lambda: not desk.approvals.waiting)
    assert not desk.call(lambda: desk.approvals.attended)
    watcher.close()


def test_a_watcher_that_does_not_read_does_not_fill_the_memory(desk: OperatorDesk) -> None:
    """A question may be as large as a tool call, and an agent can take it back and ask again."""
    watcher = Watcher(desk)
    details = {"command": "\x01" * (4 << 20)}  # six times as much in JSON
    asked = 0
    while desk.call(lambda: desk.approvals.attended):
        _, asking = desk.ask("x", details)
        asking.cancel()
        desk.wait_until(lambda: not desk.approvals.waiting)
        asked += 1
    assert asked <= 5
    watcher.close()


# --- Who is there ---------------------------------------------------------------------------------


def test_the_kernel_says_who_is_there() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peer_user(ours) == os.geteuid()
    assert peer_user(ours) == -1


# Who asks, and whether they are answered. Only root can be somebody else.
PEERS = [(os.geteuid(), True)] + ([(12345, False)] if os.geteuid() == 0 else [])


@pytest.mark.parametrize(("user", "is_served"), PEERS, ids=[str(user) for user, _ in PEERS])
def test_nobody_else_is_served(user: int, is_served: bool) -> None:
    """Also where the folder and the socket are open to them: the kernel says who it is."""
    with TemporaryDirectory(dir="/tmp") as folder, operator_desk(Path(folder), Path(folder, "s")) as desk:
        for path in (desk.path.parent, Path(folder)):
            path.chmod(0o711)
        desk.path.chmod(0o666)
        url = ("curl", "-s", "--max-time", "20", "--unix-socket", os.fspath(desk.path), "http://x/healthz")
        done = subprocess.run(url, capture_output=True, user=user, extra_groups=[], cwd="/", check=False)
        assert (done.stdout == b'{"status":"ok"}') is is_served
        assert get(desk, "/healthz")[0] == 200


def test_the_length_of_credentials_is_that_of_the_kernel() -> None:
    assert struct.calcsize("3i") == 12


def test_metrics(desk: OperatorDesk) -> None:
    before = scrape(desk)
    assert (before["agent_gateway_approvals_pending"], before["agent_gateway_approver_attached"]) == (
        "0",
        "0",
    )
    attach(desk)
    desk.ask()
    desk.call(lambda: desk.approvals.metrics.count_connection("deny", "port"))
    after = scrape(desk)
    assert (after["agent_gateway_approvals_pending"], after["agent_gateway_approver_attached"]) == ("1", "1")
    assert after['agent_gateway_denials_total{code="port"}'] == "1"
