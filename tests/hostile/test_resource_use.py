"""Slow, many and large: deadlines, limits and bounds, and what they leave alone."""

from pathlib import Path

import pytest

from gateway.policy.egress import Transport
from gateway.policy.limits import Limits
from tests.fakes.asking import (
    CONNECT,
    HTTP,
    PLAIN,
    SOCKS,
    SOCKS_NOT_ALLOWED,
    TRANSPORTS,
    answer,
    ask,
    assert_refused,
    assert_serves,
    assert_untouched,
    connect_head,
    get_head,
    send_head,
    start,
    tunnel,
)
from tests.fakes.gateway import Gateway
from tests.fakes.origin import answering, echo, http_origin
from tests.fakes.rules import GOOD, rules_for
from tests.fakes.wire import Wire

every_transport = pytest.mark.parametrize("transport", TRANSPORTS, ids=str)

# Beginnings of a head that the client does not go on with.
BEGINNINGS = [
    ("nothing", b""),
    ("a letter", b"G"),
    ("half a CONNECT", b"CONNECT api.allowed.test"),
    ("a request line", b"GET http://api.allowed.test/ HTTP/1.1\r\n"),
    ("fields", b"CONNECT api.allowed.test:443 HTTP/1.1\r\nHost: api.allowed.test:443\r\nX-Slow: 1\r\n"),
    ("all but a byte", b"GET http://api.allowed.test/ HTTP/1.1\r\nHost: api.allowed.test\r\n\r"),
]

# Row, head, status. `PORT` stands for the origin's port.
OVERSIZE = [
    (
        "B-76 URL of 100 KiB",
        b"GET http://api.allowed.test:PORT/" + b"a" * 102_400 + b" HTTP/1.1\r\n\r\n",
        414,
    ),
    ("B-76 URL of 17 KiB", b"GET http://api.allowed.test:PORT/" + b"a" * 17_000 + b" HTTP/1.1\r\n\r\n", 414),
    (
        "B-76 line of a MiB",
        b"GET http://api.allowed.test:PORT/ HTTP/1.1\r\nX: " + b"a" * (1 << 20) + b"\r\n\r\n",
        431,
    ),
    (
        "B-76 line of 17 KiB",
        b"GET http://api.allowed.test:PORT/ HTTP/1.1\r\nX: " + b"a" * 17_000 + b"\r\n\r\n",
        431,
    ),
    (
        "B-76 10,000 fields",
        b"GET http://api.allowed.test:PORT/ HTTP/1.1\r\n" + b"X: 1\r\n" * 10_000 + b"\r\n",
        431,
    ),
    ("B-76 129 fields", b"GET http://api.allowed.test:PORT/ HTTP/1.1\r\n" + b"X: 1\r\n" * 129 + b"\r\n", 431),
    (
        "B-76 CONNECT, 129 fields",
        b"CONNECT api.allowed.test:PORT HTTP/1.1\r\n" + b"X: 1\r\n" * 129 + b"\r\n",
        431,
    ),
    (
        "B-76 CONNECT, 17 KiB",
        b"CONNECT api.allowed.test:PORT HTTP/1.1\r\nX: " + b"a" * 17_000 + b"\r\n\r\n",
        431,
    ),
    (
        "B-76 70 KiB in short lines",
        b"GET http://api.allowed.test:PORT/ HTTP/1.1\r\n" + (b"X: " + b"a" * 700 + b"\r\n") * 100 + b"\r\n",
        431,
    ),
]

TIGHT = Limits(tunnels=4, new_per_second=10, burst=1000, idle=60)


@pytest.mark.parametrize(("what", "sent"), BEGINNINGS, ids=[what for what, _ in BEGINNINGS])
def test_head_that_is_not_finished(what: str, sent: bytes, tmp_path: Path) -> None:
    """B-75: refused at its deadline, and told why."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(sent)
        gateway.until(lambda: gateway.proxies.live("s1") == 1)
        gateway.advance(9.9)
        assert gateway.records() == []
        gateway.advance(0.2)
        told = answer(wire, CONNECT if sent.startswith(b"CONNECT ") else HTTP)
        assert_refused(gateway, told, "timeout", port=-1)
        assert_untouched(gateway, origin)
        assert_serves(gateway, origin)


def test_drip(tmp_path: Path) -> None:
    """B-75: a byte now and then moves no deadline."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(b"G")
        for byte in b"ET http://":
            gateway.advance(1)
            wire.send(bytes([byte]))
        gateway.advance(1)
        assert_refused(gateway, answer(wire, HTTP), "timeout")
        assert_untouched(gateway, origin)


def test_idle_connections_leave_other_sessions_alone(tmp_path: Path) -> None:
    """B-75: a thousand of them meet the session's cap, and then their deadline."""
    with (
        http_origin(answering()) as origin,
        Gateway(tmp_path, rules_for(origin.port), limits=Limits(100, 10_000, 10_000, 3600)) as gateway,
    ):
        _, http, socks = gateway.open("s2", rules_for(origin.port))
        wires = [Wire.to(gateway.http if number % 2 else gateway.socks) for number in range(1000)]
        assert gateway.call(lambda: gateway.proxies.live("s1")) <= 164
        first = (gateway.http, gateway.socks)
        gateway.http, gateway.socks = http, socks
        assert_serves(gateway, origin)
        gateway.advance(10.1)
        for wire in wires:
            wire.close()
        gateway.settle()
        gateway.http, gateway.socks = first
        assert_serves(gateway, origin)


@pytest.mark.parametrize(("row", "head", "status"), OVERSIZE, ids=[row for row, _, _ in OVERSIZE])
def test_oversize(row: str, head: bytes, status: int, tmp_path: Path) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        told = send_head(gateway, head.replace(b"PORT", str(origin.port).encode()))
        assert_refused(gateway, told, "malformed_request", status=status)
        assert_untouched(gateway, origin)
        assert_serves(gateway, origin)


@pytest.mark.parametrize(
    "head",
    [
        f"GET http://{GOOD}:PORT/{'a' * 16_000} HTTP/1.1\r\nHost: {GOOD}:PORT\r\n\r\n",
        f"GET http://{GOOD}:PORT/ HTTP/1.1\r\nHost: {GOOD}:PORT\r\n{'X: 1\r\n' * 127}\r\n",
        f"GET http://{GOOD}:PORT/ HTTP/1.1\r\nHost: {GOOD}:PORT\r\nX: {'a' * 16_000}\r\n\r\n",
        f"GET http://{GOOD}:PORT/ HTTP/1.1\r\nHost: {GOOD}:PORT\r\n{('X: ' + 'a' * 600 + '\r\n') * 100}\r\n",
    ],
    ids=["URL", "fields", "line", "head"],
)
def test_just_within_the_bounds(head: str, tmp_path: Path) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        assert send_head(gateway, head.replace("PORT", str(origin.port)).encode()).granted


# --- Limits ---


@every_transport
def test_too_many_connections(transport: Transport, tmp_path: Path) -> None:
    """429 or 0x02 with code `limit`; one more is served as soon as one has ended."""
    with (
        http_origin(answering()) as origin,
        Gateway(tmp_path, rules_for(origin.port), limits=TIGHT) as gateway,
    ):
        held = [tunnel(gateway, CONNECT, origin.port) for _ in range(4)]
        told = ask(gateway, transport, GOOD, origin.port)
        assert told.status == (SOCKS_NOT_ALLOWED if transport is SOCKS else 429)
        refused = gateway.records()[-1]
        wanted = {
            "state": "refused",
            "code": "limit",
            "host": GOOD,
            "port": origin.port,
            "rule": "egress.limits",
        }
        assert {name: refused[name] for name in wanted} == wanted
        if told.message is not None:
            assert told.message.field("X-Agent-Gateway") == "deny; code=limit"
            assert told.message.json()["code"] == "limit"
        told.wire.close()
        held.pop().close()
        gateway.until(lambda: gateway.proxies.live("s1") == 3)
        told = ask(gateway, transport, GOOD, origin.port)
        assert told.granted
        told.wire.close()
        for wire in held:
            wire.close()
        assert origin.accepted == 5


@every_transport
def test_too_many_a_second(transport: Transport, tmp_path: Path) -> None:
    """A burst, then the rate; the refusals of one second beyond the first stand in one record."""
    limits = Limits(tunnels=1000, new_per_second=2, burst=3, idle=60)
    with (
        http_origin(answering()) as origin,
        Gateway(tmp_path, rules_for(origin.port), limits=limits) as gateway,
    ):
        statuses = []
        for _ in range(9):
            told = ask(gateway, transport, GOOD, origin.port)
            told.wire.close()
            gateway.settle()
            statuses.append(told.granted)
        assert statuses == [True] * 3 + [False] * 6
        limited = [record for record in gateway.records() if record["code"] == "limit"]
        assert len(limited) == 1
        assert "count" not in limited[0]
        gateway.advance(1)
        limited = [record for record in gateway.records() if record["code"] == "limit"]
        assert [record.get("count", 1) for record in limited] == [1, 5]
        for _ in range(2):
            told = ask(gateway, transport, GOOD, origin.port)
            assert told.granted
            told.wire.close()
            gateway.settle()
        assert gateway.call(lambda: gateway.door.counts("s1").denied) == 6
        assert gateway.call(lambda: gateway.door.counts("s1").allowed) == 5


def test_counted_refusals_are_written_at_the_end(tmp_path: Path) -> None:
    limits = Limits(tunnels=1000, new_per_second=1, burst=1, idle=60)
    with (
        http_origin(answering()) as origin,
        Gateway(tmp_path, rules_for(origin.port), limits=limits) as gateway,
    ):
        for _ in range(4):
            ask(gateway, SOCKS, GOOD, origin.port).wire.close()
        gateway.close(gateway.session)
        limited = [record for record in gateway.records() if record["code"] == "limit"]
        assert [record.get("count", 1) for record in limited] == [1, 2]
        assert gateway.records("session")[-1]["state"] == "closed"


def test_flood_of_refused_requests(tmp_path: Path) -> None:
    """B-80: 200 a second for a minute. What comes over the limit costs one record a second."""
    limits = Limits(tunnels=1000, new_per_second=5, burst=5, idle=60)
    with Gateway(tmp_path, rules_for(), limits=limits) as gateway:
        for _ in range(10):
            for _ in range(20):
                told = ask(gateway, SOCKS, "evil.test", 443)
                assert told.status == SOCKS_NOT_ALLOWED
                told.wire.close()
            gateway.advance(1)
        records = gateway.records()
        judged = [record for record in records if record["code"] == "not_listed"]
        limited = [record for record in records if record["code"] == "limit"]
        assert len(judged) == 50
        assert len(limited) <= 12
        assert sum(int(str(record.get("count", 1))) for record in limited) == 150
        assert_untouched(gateway)


def test_connections_far_over_the_limit_are_closed(tmp_path: Path) -> None:
    """Beyond what can be told why, a connection costs nothing but one of the counted records."""
    limits = Limits(tunnels=2, new_per_second=10_000, burst=10_000, idle=60)
    with (
        http_origin(answering()) as origin,
        Gateway(tmp_path, rules_for(origin.port), limits=limits) as gateway,
    ):
        wires = [Wire.to(gateway.http) for _ in range(2 + 64)]
        gateway.until(lambda: gateway.proxies.live("s1") == 66)
        over = [Wire.to(gateway.http) for _ in range(10)]
        assert [wire.rest() for wire in over] == [b""] * 10
        for wire in wires + over:
            wire.close()
        gateway.settle()
        gateway.advance(1)
        limited = [record for record in gateway.records() if record["code"] == "limit"]
        assert sum(int(str(record.get("count", 1))) for record in limited) == 10
        assert_untouched(gateway, origin)


# --- Idle ---


@pytest.mark.parametrize("transport", [CONNECT, SOCKS], ids=str)
def test_idle_tunnel(transport: Transport, tmp_path: Path) -> None:
    """B-77: cut after the idle time, and not before; every byte starts it anew."""
    with echo() as origin:
        rules = rules_for(origin.port, raw=[(GOOD, origin.port)])
        with Gateway(tmp_path, rules, limits=TIGHT) as gateway:
            wire = tunnel(gateway, transport, origin.port)
            for _ in range(3):
                gateway.advance(59)
                wire.send(b"ping")
                assert wire.exactly(4) == b"ping"
                gateway.advance(0)
            gateway.advance(59)
            assert [record["state"] for record in gateway.records()] == ["opened"]
            gateway.advance(1)
            assert wire.rest() == b""
            closed = gateway.await_record(state="closed")
            assert (closed["close"], closed["verdict"], closed["bytes_up"]) == ("idle", "allow", 12)
            wire.close()
            origin.wait_ended(1)


def test_an_hour_is_not_idle_by_default(tmp_path: Path) -> None:
    """B-77, U47: not killed at 600 s."""
    with echo() as origin, Gateway(tmp_path, rules_for(origin.port, raw=[(GOOD, origin.port)])) as gateway:
        wire = tunnel(gateway, CONNECT, origin.port)
        for _ in range(359):
            gateway.advance(10)
        wire.send(b"ping")
        assert wire.exactly(4) == b"ping"
        wire.close()


def test_idle_between_requests(tmp_path: Path) -> None:
    """A kept connection that nobody uses is closed. Nothing was refused, so no record says so."""
    with (
        http_origin(answering()) as origin,
        Gateway(tmp_path, rules_for(origin.port), limits=TIGHT) as gateway,
    ):
        wire = gateway.ask_http(get_head(GOOD, origin.port))
        assert wire.message().status == 200
        gateway.advance(59)
        wire.send(get_head(GOOD, origin.port))
        assert wire.message().status == 200
        gateway.advance(61)
        assert wire.rest() == b""
        wire.close()
        gateway.settle()
        origin.wait_ended(1)
        records = gateway.records()
        assert [record["state"] for record in records] == PLAIN * 2
        closed = [record for record in records if record["state"] == "closed"]
        # The time between the two belongs to neither.
        assert [(one["close"], one["duration_ms"]) for one in closed] == [("finished", 0)] * 2


def test_server_that_never_answers(tmp_path: Path) -> None:
    """B-79: both sides are closed after the idle time, the client is told, and one record says why."""
    with (
        http_origin(lambda _: b"") as origin,
        Gateway(tmp_path, rules_for(origin.port), limits=TIGHT) as gateway,
    ):
        wire = gateway.ask_http(get_head(GOOD, origin.port))
        origin.wait_accepted(1)
        gateway.until(lambda: len(origin.requests) == 1)
        gateway.advance(0)
        gateway.advance(61)
        told = answer(wire, HTTP)
        assert told.status in {502, 504}
        assert told.message is not None
        assert str(told.message.field("X-Agent-Gateway")).startswith("upstream; ")
        assert wire.rest() == b""
        wire.close()
        closed = gateway.await_record(state="closed")
        assert closed["verdict"] == "allow"
        origin.wait_ended(1)


def test_server_that_stops_in_the_middle(tmp_path: Path) -> None:
    """B-79."""
    with (
        http_origin(lambda _: b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf") as origin,
        Gateway(tmp_path, rules_for(origin.port), limits=TIGHT) as gateway,
    ):
        wire = gateway.ask_http(get_head(GOOD, origin.port))
        assert wire.until(b"half").endswith(b"half")
        gateway.advance(0)
        gateway.advance(61)
        assert wire.rest() == b""
        wire.close()
        closed = gateway.await_record(state="closed")
        assert (closed["close"], closed["status"]) == ("idle", 200)
        origin.wait_ended(1)


def test_client_that_stops_in_the_middle(tmp_path: Path) -> None:
    """B-75: a body that is not finished."""
    with (
        http_origin(answering()) as origin,
        Gateway(tmp_path, rules_for(origin.port), limits=TIGHT) as gateway,
    ):
        head = get_head(GOOD, origin.port, "/", "Content-Length: 100").replace(b"GET", b"PUT", 1)
        wire = gateway.ask_http(head + b"half")
        origin.wait_accepted(1)
        gateway.until(lambda: origin.received.endswith(b"half"))
        gateway.advance(0)
        gateway.advance(61)
        wire.rest()
        wire.close()
        gateway.await_record(state="closed", verdict="allow")
        origin.wait_ended(1)
        assert origin.requests == []


@pytest.mark.parametrize("transport", [CONNECT, HTTP, SOCKS], ids=str)
def test_closing_while_a_name_is_looked_up(transport: Transport, tmp_path: Path) -> None:
    """The session ends although its client waits for an answer that does not come."""
    with Gateway(tmp_path, rules_for()) as gateway:
        gateway.resolver.hold(GOOD)
        wire = start(gateway, transport, GOOD, 443)
        gateway.until(lambda: gateway.resolver.asked == [GOOD])
        gateway.close(gateway.session)
        wire.rest()
        wire.close()
        assert connect_head(GOOD, 443)
