"""Prometheus text: golden, and whatever a label holds."""

import json
import re

from gateway.metrics import Gauges, Metrics, exposition

GOLDEN = """\
# HELP agent_gateway_build_info The version that runs.
# TYPE agent_gateway_build_info gauge
agent_gateway_build_info{version="1.2.3"} 1
# HELP agent_gateway_sessions Sessions that are open.
# TYPE agent_gateway_sessions gauge
agent_gateway_sessions 2
# HELP agent_gateway_approvals_pending Questions that wait for a person.
# TYPE agent_gateway_approvals_pending gauge
agent_gateway_approvals_pending 1
# HELP agent_gateway_approver_attached Whether there is somebody to ask.
# TYPE agent_gateway_approver_attached gauge
agent_gateway_approver_attached 1
# HELP agent_gateway_connections_total Connections by verdict.
# TYPE agent_gateway_connections_total counter
agent_gateway_connections_total{verdict="allow"} 2
agent_gateway_connections_total{verdict="deny"} 3
# HELP agent_gateway_denials_total Denied connections by code.
# TYPE agent_gateway_denials_total counter
agent_gateway_denials_total{code="not_listed"} 2
agent_gateway_denials_total{code="port"} 1
# HELP agent_gateway_bytes_up_total Bytes from sessions to hosts.
# TYPE agent_gateway_bytes_up_total counter
agent_gateway_bytes_up_total 11
# HELP agent_gateway_bytes_down_total Bytes from hosts to sessions.
# TYPE agent_gateway_bytes_down_total counter
agent_gateway_bytes_down_total 22
# HELP agent_gateway_pushes_total Pushes by what became of them.
# TYPE agent_gateway_pushes_total counter
agent_gateway_pushes_total{state="forwarded"} 1
agent_gateway_pushes_total{state="refused"} 0
# HELP agent_gateway_tokens_total Tokens of the App by what happened to them.
# TYPE agent_gateway_tokens_total counter
agent_gateway_tokens_total{state="mint_failed"} 0
agent_gateway_tokens_total{state="minted"} 1
agent_gateway_tokens_total{state="revoke_failed"} 0
agent_gateway_tokens_total{state="revoked"} 1
"""
LINE = re.compile(r'(# (HELP|TYPE) .+|[a-z_]+(\{[a-z]+="(\\\\|\\"|\\n|[^"\\\n])*"\})? \d+)')


def test_golden() -> None:
    metrics = Metrics()
    for verdict, code in (("allow", ""), ("allow", "dns_failed"), ("deny", "port"), ("deny", "not_listed")):
        metrics.count_connection(verdict, code)
    metrics.count_connection("deny", "not_listed")
    metrics.count_bytes(1, 2)
    metrics.count_bytes(10, 20)
    metrics.count_push("forwarded")
    metrics.count_token("minted")
    metrics.count_token("revoked")
    assert exposition(metrics, Gauges(2, 1, is_attended=True), "1.2.3") == GOLDEN


def test_nothing_yet() -> None:
    text = exposition(Metrics(), Gauges(), "0")
    assert 'connections_total{verdict="allow"} 0' in text
    assert "denials_total{" not in text


def test_labels_are_escaped() -> None:
    metrics = Metrics()
    for code in ('a"b', "a\\b", "a\nb", 'c"} 1\nevil 1'):
        metrics.count_connection("deny", code)
    lines = exposition(metrics, Gauges(), "0").splitlines()
    assert all(LINE.fullmatch(line) for line in lines), lines
    assert not [line for line in lines if line.startswith("evil")]


def test_further_processes_are_counted_in() -> None:
    metrics, other = Metrics(), Metrics()
    metrics.count_connection("allow")
    metrics.count_token("minted")
    for _ in range(2):
        other.count_connection("deny", "port")
    other.count_bytes(5, 7)
    metrics.others["s1/1"] = other
    total = metrics.total
    assert (dict(total.connections), dict(total.denials)) == ({"allow": 1, "deny": 2}, {"port": 2})
    assert (dict(total.tokens), total.bytes_up, total.bytes_down) == ({"minted": 1}, 5, 7)
    # Told again, they take the place of what was told before; and asking changes nothing.
    other.count_connection("deny", "port")
    assert (metrics.total.denials["port"], metrics.connections["deny"]) == (3, 0)


def test_told_and_read() -> None:
    metrics = Metrics()
    metrics.count_connection("deny", "port")
    metrics.count_push("forwarded")
    metrics.count_bytes(1, 2)
    assert Metrics.read(json.loads(json.dumps(metrics.as_json()))) == metrics
