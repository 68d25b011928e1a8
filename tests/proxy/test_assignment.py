"""The word to a further process arrives whole or not at all."""

import socket
from pathlib import Path

import pytest

from gateway.allowlists import load_shipped
from gateway.authorizer import Counts
from gateway.config import Config, compile_egress
from gateway.metrics import Metrics
from gateway.policy.decision import Verdict
from gateway.policy.egress import EgressRequest, Transport, decide
from gateway.policy.limits import Limits
from gateway.proxy.assignment import Assignment, read_assignment, read_report, report, report_metrics
from gateway.session import SandboxStamp, Session


@pytest.fixture
def assignment() -> Assignment:
    rules = compile_egress(Config(), load_shipped(), (), True)
    session = Session("s1", SandboxStamp("none", "existing-only"), rules, "")
    return Assignment(session, Limits(), 5, 6, 7, 1, 2, frozenset({8}), None, Path("/nowhere"), 1, 2)


def carried(data: bytes) -> Assignment | None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        ours.sendall(data)
        ours.shutdown(socket.SHUT_WR)
        return read_assignment(theirs)


def test_rules_decide_alike_on_the_other_side(assignment: Assignment) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        ours.sendall(assignment.pack())
        arrived = read_assignment(theirs)
    assert arrived is not None
    assert (arrived.limits, arrived.own_ports, arrived.row) == (Limits(), frozenset({8}), 1)
    lists = load_shipped()
    hosts = [one.text.replace("*", "any") for one in (*lists.baseline.patterns, *lists.deny.patterns)]
    verdicts = set()
    for host in (*hosts, "evil.test", "169.254.169.254"):
        for port in (443, 22):
            request = EgressRequest(Transport.CONNECT, host, port)
            here, there = (decide(one.session.egress, request) for one in (assignment, arrived))
            assert here == there
            verdicts.add((there.verdict, there.code))
    assert {(Verdict.ALLOW, ""), (Verdict.DENY, "denied"), (Verdict.DENY, "not_listed")} <= verdicts


@pytest.mark.parametrize("data", [b"", b"\0" * 7, b"\0" * 7 + b"\x09half"])
def test_one_that_hangs_up_in_the_middle(data: bytes) -> None:
    assert carried(data) is None


def test_report() -> None:
    assert read_report(report(Counts(3, 4))) == Counts(3, 4)


def test_what_was_counted() -> None:
    metrics = Metrics()
    metrics.count_connection("allow")
    metrics.count_connection("deny", "not_listed")
    metrics.count_bytes(5, 7)
    line = report_metrics(metrics)
    assert (line.count(b"\n"), line[-1:]) == (1, b"\n")
    assert read_report(line) == metrics


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"allowed": 1}',
        b'{"allowed": "x", "denied": 1}',
        b'{"connections": 3}',
        b"3",
    ],
)
def test_no_report(data: bytes) -> None:
    assert read_report(data) is None
