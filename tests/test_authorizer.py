"""The door with real rules and a real log: what is refused stands in the log first, and what cannot be judged or
recorded is refused."""

import json
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest

from gateway.audit import AuditEvent, AuditLog, EventKind
from gateway.authorizer import INTERNAL, Attempt, Authorizer, Counts, Figures, Request, explain
from gateway.policy.decision import Decision, Verdict
from gateway.policy.egress import (
    AddressRequest,
    AuthorityRequest,
    Code,
    EgressRequest,
    EgressRules,
    HelloKind,
    NameRequest,
    Transport,
)
from gateway.policy.limits import Allowance, Limits
from gateway.session import SandboxStamp, Session
from tests.fakes.asking import PLAIN
from tests.fakes.clock import FakeClock
from tests.fakes.rules import GOOD, offline, rules_for

Record = dict[str, object]

CONNECT = Transport.CONNECT
RULES = rules_for()
SESSION = Session("s1", SandboxStamp("native", "create-time"), RULES, "geheim")
FULL, EMPTY = Allowance(5.0, 0.0), Allowance(0.0, 0.0)
# Elsewhere no record is promised.
KEEPS = sys.platform == "linux"
COMMON = ("v", "ts", "seq", "prev", "session", "workspace", "space", "agent", "sandbox", "event")


class Faulty(dict[tuple[str, int], str]):
    """Rules that fail when they are asked."""

    def __contains__(self, key: object) -> bool:
        raise LookupError("broken")

    def get(self, *_: object) -> str:
        raise LookupError("broken")

    def __bool__(self) -> bool:
        return True


class Door:
    """An authorizer with its log and clock, and what stands in the log since the last look."""

    def __init__(self, directory: Path) -> None:
        self.log = AuditLog(directory)
        self.clock = FakeClock()
        self.authorizer = Authorizer(self.log, self.clock)
        self._seen = 0

    def attempt(
        self, host: str = GOOD, port: int = 443, rules: EgressRules = RULES, session_id: str = "s1"
    ) -> Attempt:
        session = replace(SESSION, id=session_id, egress=rules)
        return self.authorizer.attempt(session, CONNECT, host, port)

    def opened(self, host: str = GOOD) -> Attempt:
        """An attempt that was allowed and opened."""
        attempt = self.attempt(host)
        assert self.authorizer.authorize(attempt, EgressRequest(CONNECT, host, 443)).allowed
        assert self.authorizer.open(attempt).allowed
        self.records()
        return attempt

    def records(self) -> list[Record]:
        """The new records, without what all have in common."""
        data = [json.loads(line) for line in self.log.path.read_bytes().splitlines()]
        new, self._seen = data[self._seen :], len(data)
        return [{name: value for name, value in record.items() if name not in COMMON} for record in new]


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    door = Door(tmp_path)
    yield door
    door.log.close()


def host_request(host: str = GOOD, port: int = 443, malformed: str = "") -> EgressRequest:
    return EgressRequest(CONNECT, host, port, malformed)


def name_request(*names: str, kind: HelloKind = HelloKind.TLS) -> NameRequest:
    return NameRequest(CONNECT, GOOD, 443, kind, names)


# Request, code, rule.
DENIED: list[tuple[Request, Code, str]] = [
    (host_request("other.test"), Code.NOT_LISTED, "default"),
    (host_request("bad.wild.test"), Code.DENIED, "deny.txt:2"),
    (host_request("x.worse.wild.test"), Code.DENIED, "config.yaml:1"),
    (host_request(port=22), Code.PORT, "default"),
    (host_request("192.0.2.1"), Code.IP_LITERAL, "default"),
    (host_request("169.254.169.254"), Code.DENIED, "deny.txt:20"),
    (host_request("a b", malformed="the host is none"), Code.MALFORMED_HOST, "built-in"),
    (AddressRequest(CONNECT, GOOD, 443, ip_address("10.0.0.1")), Code.RESOLVED_ADDRESS, "built-in"),
    (name_request("other.test"), Code.SNI_MISMATCH, "built-in"),
    (name_request(), Code.SNI_MISSING, "built-in"),
    (name_request(kind=HelloKind.NOT_TLS), Code.NOT_TLS, "built-in"),
    (name_request(kind=HelloKind.SILENT), Code.TIMEOUT, "built-in"),
    (AuthorityRequest(CONNECT, GOOD, 443, "other.test"), Code.AUTHORITY_MISMATCH, "built-in"),
]
ALLOWED: list[Request] = [
    host_request(),
    AddressRequest(CONNECT, GOOD, 443, ip_address("93.184.215.14")),
    name_request(GOOD),
    AuthorityRequest(CONNECT, GOOD, 443, GOOD, tls=True),
]


# --- Deciding -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("request_", "code", "rule"), DENIED, ids=[str(code) for _, code, _ in DENIED])
def test_a_denial_is_recorded_before_it_is_returned(
    door: Door, request_: Request, code: Code, rule: str
) -> None:
    attempt = door.attempt(request_.host, request_.port)
    decision = door.authorizer.authorize(attempt, request_)
    assert (decision.verdict, decision.code, decision.rule) == (Verdict.DENY, code, rule)
    assert door.records() == [
        {
            "connection": attempt.connection,
            "state": "refused",
            "transport": "connect",
            "host": request_.host,
            "port": request_.port,
            "verdict": "deny",
            "code": code.value,
            "rule": rule,
        }
    ]
    assert door.authorizer.counts("s1") == Counts(allowed=0, denied=1)


@pytest.mark.parametrize("request_", ALLOWED, ids=lambda request: type(request).__name__)
def test_what_is_allowed_is_recorded_when_it_opens(door: Door, request_: Request) -> None:
    attempt = door.attempt()
    assert door.authorizer.authorize(attempt, request_).allowed
    assert door.records() == []
    assert door.authorizer.counts("s1") == Counts()
    assert door.authorizer.open(attempt).allowed
    (record,) = door.records()
    assert (record["state"], record["verdict"], record["code"]) == ("opened", "allow", "")
    assert door.authorizer.counts("s1") == Counts(allowed=1)


def test_network_off(door: Door) -> None:
    attempt = door.attempt(rules=offline(RULES))
    assert door.authorizer.authorize(attempt, host_request()).code == Code.NETWORK_OFF
    assert door.records()[0]["code"] == "network_off"


def test_the_rule_that_allowed_the_host_stays(door: Door) -> None:
    attempt = door.attempt()
    for request in (host_request(), name_request(GOOD), AuthorityRequest(CONNECT, GOOD, 443, GOOD, tls=True)):
        assert door.authorizer.authorize(attempt, request).allowed
    door.authorizer.open(attempt)
    assert door.records()[0]["rule"] == "allow.txt:1"


@pytest.mark.parametrize(
    "request_",
    [
        host_request(port=25),
        name_request(GOOD),
        AddressRequest(CONNECT, GOOD, 25, ip_address("93.184.215.14")),
    ],
    ids=lambda request: type(request).__name__,
)
def test_a_rule_that_fails_is_a_denial(
    door: Door, request_: Request, caplog: pytest.LogCaptureFixture
) -> None:
    attempt = door.attempt(rules=replace(RULES, raw=Faulty({("x", 1): "y"})))
    assert door.authorizer.authorize(attempt, request_) == INTERNAL
    assert [record["code"] for record in door.records()] == ["internal"]
    assert door.authorizer.counts("s1").denied == 1
    assert "a rule failed" in caplog.text


def test_a_request_of_an_unknown_kind_is_a_denial(door: Door) -> None:
    decision = door.authorizer.authorize(door.attempt(), "let me in")  # type: ignore[arg-type]  # the point
    assert decision == INTERNAL
    assert [record["code"] for record in door.records()] == ["internal"]


def test_connections_have_ids_of_their_own(door: Door, tmp_path: Path) -> None:
    ids = [door.attempt().connection for _ in range(100)]
    other = Door(tmp_path / "other")
    ids += [other.attempt().connection for _ in range(100)]
    other.log.close()
    assert len(set(ids)) == 200
    assert door.authorizer.attempt(SESSION, CONNECT, GOOD, 443, "there").connection == "there"


def test_explain_records_nothing(door: Door) -> None:
    assert explain(RULES, host_request()).allowed
    assert explain(RULES, host_request("other.test")).code == Code.NOT_LISTED
    assert door.records() == []
    assert door.authorizer.counts("s1") == Counts()


# --- Addresses ------------------------------------------------------------------------------------


def vet(door: Door, attempt: Attempt, *texts: str) -> tuple[Decision, list[str]]:
    requests = [AddressRequest(CONNECT, attempt.host, attempt.port, ip_address(text)) for text in texts]
    decision, addresses = door.authorizer.authorize_addresses(attempt, requests)
    return decision, [str(address) for address in addresses]


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        (["93.184.215.14"], ["93.184.215.14"]),
        (["10.0.0.1", "93.184.215.14", "127.0.0.1", "2606:4700::1"], ["93.184.215.14", "2606:4700::1"]),
        (["2606:4700::1", "93.184.215.14"], ["2606:4700::1", "93.184.215.14"]),
    ],
)
def test_survivors_keep_their_order(door: Door, texts: list[str], kept: list[str]) -> None:
    attempt = door.attempt()
    decision, addresses = vet(door, attempt, *texts)
    assert decision.allowed
    assert addresses == kept
    assert attempt.address == ""
    assert door.records() == []


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        (["10.0.0.1", "127.0.0.1", "169.254.169.254"], "10.0.0.1"),
        (["169.254.169.254", "10.0.0.1"], "169.254.169.254"),
        (["::ffff:10.0.0.1"], "::ffff:10.0.0.1"),
    ],
)
def test_with_no_survivor_the_first_is_recorded_once(door: Door, texts: list[str], shown: str) -> None:
    attempt = door.attempt()
    decision, addresses = vet(door, attempt, *texts)
    assert (decision.code, addresses) == (Code.RESOLVED_ADDRESS, [])
    assert [(r["code"], r["address"], r["state"]) for r in door.records()] == [
        ("resolved_address", shown, "refused")
    ]
    assert door.authorizer.counts("s1").denied == 1


def test_no_addresses_at_all_is_a_denial(door: Door) -> None:
    assert vet(door, door.attempt()) == (INTERNAL, [])
    assert [record["code"] for record in door.records()] == ["internal"]


def test_an_address_rule_that_fails_keeps_the_others(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    attempt = door.attempt(port=25, rules=replace(RULES, raw=Faulty()))
    decision, addresses = vet(door, attempt, "93.184.215.14")
    assert (decision, addresses) == (INTERNAL, [])
    assert [record["code"] for record in door.records()] == ["internal"]
    assert "a rule failed" in caplog.text


# --- Opening and closing --------------------------------------------------------------------------

FIGURES = Figures(bytes_up=10, bytes_down=20, duration_ms=30, close="client_closed")
FAILED = Decision(Verdict.ALLOW, "", "nobody there", Code.CONNECT_REFUSED)
LATE = Decision(Verdict.DENY, "built-in", "another name", Code.SNI_MISMATCH)


def test_close_has_the_figures(door: Door) -> None:
    attempt = door.attempt()
    door.authorizer.authorize(attempt, host_request())
    attempt.address, attempt.sni, attempt.method, attempt.path = "192.0.2.7", GOOD, "GET", "/x"
    door.authorizer.open(attempt)
    door.authorizer.close(attempt, replace(FIGURES, status=204))
    opened, closed = door.records()
    shared = {
        "connection": attempt.connection,
        "transport": "connect",
        "host": GOOD,
        "port": 443,
        "verdict": "allow",
        "code": "",
        "rule": "allow.txt:1",
        "address": "192.0.2.7",
        "sni": GOOD,
        "method": "GET",
        "path": "/x",
    }
    assert opened == {"state": "opened", **shared}
    figures = {"bytes_up": 10, "bytes_down": 20, "duration_ms": 30, "close": "client_closed", "status": 204}
    assert closed == {"state": "closed", **shared, **figures}
    assert door.authorizer.counts("s1") == Counts(allowed=1)


def test_a_denial_after_opening_is_recorded_at_the_close(door: Door) -> None:
    attempt = door.opened()
    decision = door.authorizer.authorize(attempt, name_request("other.test"))
    assert decision.code == Code.SNI_MISMATCH
    assert door.authorizer.refuse(attempt, LATE) == LATE
    assert door.records() == []
    door.authorizer.close(attempt, FIGURES, decision)
    (record,) = door.records()
    assert (record["state"], record["verdict"], record["code"]) == ("closed", "deny", "sni_mismatch")
    assert record["rule"] == "built-in"


def test_a_failed_dial_is_one_record(door: Door) -> None:
    attempt = door.attempt()
    door.authorizer.authorize(attempt, host_request())
    door.authorizer.close(attempt, Figures(close="connect_refused"), FAILED)
    (record,) = door.records()
    found = [record[name] for name in ("state", "verdict", "code", "rule", "bytes_up", "bytes_down")]
    assert found == ["closed", "allow", "connect_refused", "allow.txt:1", 0, 0]


@pytest.mark.parametrize(
    ("act", "counts"),
    [
        (lambda door: door.authorizer.close(door.opened(), FIGURES), Counts(1, 0)),
        (lambda door: door.authorizer.close(door.opened(), FIGURES, LATE), Counts(0, 1)),
        (lambda door: door.authorizer.close(door.attempt(), FIGURES, FAILED), Counts(1, 0)),
        (lambda door: door.authorizer.authorize(door.attempt(), host_request("other.test")), Counts(0, 1)),
        (lambda door: door.authorizer.refuse(door.attempt(), LATE), Counts(0, 1)),
        (
            lambda door: door.authorizer.authorize_connection(door.attempt(), Limits(), 999, FULL),
            Counts(0, 1),
        ),
        (lambda door: door.authorizer.open(door.opened()), Counts(1, 0)),
    ],
    ids=[
        "opened",
        "refused later",
        "dial failed",
        "refused",
        "refused while parsing",
        "limit",
        "opened twice",
    ],
)
def test_each_connection_counts_once(door: Door, act: Callable[[Door], object], counts: Counts) -> None:
    act(door)
    assert door.authorizer.counts("s1") == counts


def test_a_refusal_that_is_closed_as_well_counts_once(door: Door) -> None:
    attempt = door.attempt()
    decision = door.authorizer.authorize(attempt, host_request("other.test"))
    door.authorizer.close(attempt, FIGURES, decision)
    assert door.authorizer.counts("s1") == Counts(0, 1)


def test_counts_are_a_session_s_own_until_forgotten(door: Door) -> None:
    door.authorizer.refuse(door.attempt(session_id="a"), LATE)
    counts = door.authorizer.counts("b")
    door.authorizer.refuse(door.attempt(session_id="b"), LATE)
    door.authorizer.refuse(door.attempt(session_id="b"), LATE)
    assert counts == Counts(0, 2)
    door.authorizer.forget("b")
    assert door.authorizer.counts("b") == Counts()
    assert door.authorizer.counts("a") == Counts(0, 1)
    door.authorizer.forget("unknown")


def test_refusals_while_parsing_show_what_was_asked(door: Door) -> None:
    attempt = door.attempt("what\x1b[2J\n", -1)
    refusal = Decision(Verdict.DENY, "built-in", "no", Code.MALFORMED_REQUEST)
    assert door.authorizer.refuse(attempt, refusal) == refusal
    (record,) = door.records()
    assert (record["host"], record["port"], record["code"]) == ("what\x1b[2J\n", None, "malformed_request")


@pytest.mark.parametrize(
    ("host", "path", "shown_host", "shown_path"),
    [
        ("user:pass word@host.test", "/x?token=hunter2", "***@host.test", "/x"),
        ("hunter2@host.test", "/x#hunter2", "***@host.test", "/x"),
        ("host.test?hunter2", "/x?hunter2", "host.test", "/x"),
    ],
)
def test_secrets_never(door: Door, host: str, path: str, shown_host: str, shown_path: str) -> None:
    attempt = door.attempt(host)
    attempt.method, attempt.path, attempt.sni = "GET", path, host
    door.authorizer.refuse(attempt, LATE)
    (record,) = door.records()
    assert (record["host"], record["sni"], record["path"]) == (shown_host, shown_host, shown_path)


# --- Plain requests, recorded once ----------------------------------------------------------------


class Plain:
    """A plain request that was allowed, on a door with this log; and its records since."""

    def __init__(self, door: Door, path: str = "/x", max_bytes: int = 0) -> None:
        self.door = door
        if max_bytes:
            door.log = door.authorizer.log = AuditLog(door.log.directory / "own", max_bytes=max_bytes)
        self.attempt = door.attempt()
        self.attempt.method, self.attempt.path = "GET", path
        assert door.authorizer.authorize(self.attempt, host_request()).allowed

    def begin(self) -> Decision:
        return self.door.authorizer.begin(self.attempt)

    def close(self, decision: Decision | None = None) -> None:
        self.door.authorizer.close(self.attempt, FIGURES, decision)

    def states(self) -> list[object]:
        return [record["state"] for record in self.door.records()]

    @property
    def owed(self) -> tuple[bool, int]:
        """Whether a record of this one is owed, and how many are promised in the log."""
        return self.attempt.owed, self.door.log._promised


NOTHING = (False, 0)
ONE_OWED = (True, 1) if sys.platform == "linux" else NOTHING


def test_one_record_when_it_is_over(door: Door) -> None:
    plain = Plain(door)
    assert plain.begin().allowed
    assert plain.owed == ONE_OWED
    assert door.authorizer.counts("s1") == Counts(allowed=1)
    plain.door.authorizer.close(plain.attempt, replace(FIGURES, status=204))
    assert plain.owed == NOTHING
    records = door.records()
    assert [record["state"] for record in records] == PLAIN
    wanted = {
        "method": "GET",
        "path": "/x",
        "status": 204,
        "verdict": "allow",
        "bytes_up": 10,
        "duration_ms": 30,
    }
    assert {name: records[-1][name] for name in wanted} == wanted
    assert door.authorizer.counts("s1") == Counts(allowed=1)


def test_begun_and_closed_twice(door: Door) -> None:
    plain = Plain(door)
    for _ in range(3):
        assert plain.begin().allowed
    assert plain.owed == ONE_OWED
    for _ in range(3):
        plain.close()
    plain.close(LATE)
    assert plain.owed == NOTHING
    assert plain.states()[-1:] == ["closed"]
    assert plain.states() == []
    assert door.authorizer.counts("s1") == Counts(allowed=1)


def test_many_at_once(door: Door) -> None:
    plains = [Plain(door) for _ in range(200)]
    for plain in plains:
        assert plain.begin().allowed
    assert door.log._promised == 200 * ONE_OWED[1]
    for plain in plains:
        plain.close()
    assert door.log._promised == 0
    assert plains[0].states() == PLAIN * 200 if len(PLAIN) == 1 else ["opened"] * 200 + ["closed"] * 200


def test_one_that_takes_long(door: Door) -> None:
    """Recorded while it runs, and when it is over."""
    plain = Plain(door)
    assert plain.begin().allowed
    assert door.authorizer.open(plain.attempt).allowed
    assert plain.owed == NOTHING
    plain.close()
    assert plain.states()[-2:] == ["opened", "closed"]
    assert door.authorizer.counts("s1") == Counts(allowed=1)


def test_recorded_first_where_nothing_can_be_promised(door: Door) -> None:
    plain = Plain(door, max_bytes=10_000)
    assert plain.begin().allowed
    assert plain.owed == NOTHING
    assert plain.states() == ["opened"]
    plain.close()
    assert plain.states() == ["closed"]
    door.log.close()


def test_refused_where_it_cannot_be_recorded(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    """Once it is refused nothing more is said of it, also when the log takes records again."""
    plain = Plain(door, max_bytes=1)
    door.log.append(AuditEvent(EventKind.CONFIG, {"state": "loaded"}))
    folder = door.log.directory
    folder.rename(folder.parent / "away")
    assert plain.begin() == INTERNAL
    assert (plain.owed, plain.attempt.opened) == (NOTHING, False)
    (folder.parent / "away").rename(folder)
    plain.close()
    assert plain.states() == ["loaded"]
    assert door.authorizer.counts("s1") == Counts(denied=1)
    door.log.close()


def test_failure_of_the_log_while_it_runs(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    """What was forwarded is said on stderr at least, without its query; it counts as one denial."""
    plain = Plain(door, path="/lost?k=hunter2")
    assert plain.begin().allowed
    door.log.path.unlink()
    assert door.authorizer.open(plain.attempt) == INTERNAL
    plain.close(INTERNAL)
    assert plain.owed == NOTHING
    assert door.authorizer.counts("s1") == Counts(denied=1)
    said = [record.getMessage() for record in caplog.records]
    assert [
        text for text in said if '"path":"/lost"' in text and plain.attempt.connection in text
    ] or not KEEPS
    assert len(said) == 1 + KEEPS
    assert "hunter2" not in caplog.text


def test_failure_of_the_log_at_its_end(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    plain = Plain(door)
    assert plain.begin().allowed
    door.log.close()
    plain.close()
    assert plain.owed == NOTHING
    assert len(caplog.records) == 1 + KEEPS


def test_what_cannot_be_written_is_not_begun(door: Door) -> None:
    """What a record will say of the request is written before it is forwarded."""
    plain = Plain(door)
    plain.attempt.path = None  # type: ignore[assignment]  # what no reader gives
    with pytest.raises(AttributeError):
        plain.begin()
    assert (plain.owed, plain.attempt.opened) == (NOTHING, False)


@pytest.mark.parametrize(("decision", "verdict"), [(FAILED, "allow"), (LATE, "deny")])
def test_how_it_ended(door: Door, decision: Decision, verdict: str) -> None:
    plain = Plain(door)
    assert plain.begin().allowed
    plain.close(decision)
    record = door.records()[-1]
    assert (record["state"], record["verdict"], record["code"]) == ("closed", verdict, decision.code)


def test_refused_and_closed_is_one_record(door: Door) -> None:
    attempt = door.attempt("other.test")
    door.authorizer.authorize(attempt, host_request("other.test"))
    door.authorizer.close(attempt, FIGURES)
    assert [record["state"] for record in door.records()] == ["refused"]


def test_the_longest_record_fits_into_its_room(door: Door) -> None:
    """Whatever a client sends: names of sessions are the operator's, of 64 characters, and paths are ASCII."""
    name = "n" * 64
    session = Session(name, SandboxStamp("native", "existing-only"), RULES, "geheim", name, name, name)
    attempt = door.authorizer.attempt(session, Transport.CONNECT, "xn--" + "a" * 249, 65535)
    attempt.method, attempt.path = "!" * 32, "/" + '\\"' * 40_000
    attempt.rule, attempt.address, attempt.sni = "/" * 4096 + ":1", "ffff:" * 7 + "ffff", "s" * 255
    assert door.authorizer.begin(attempt).allowed
    door.authorizer.close(attempt, Figures(1 << 62, 1 << 62, 1 << 62, "c" * 100, 599))
    (*_, line) = door.log.path.read_bytes().splitlines(keepends=True)
    assert len(line) < 8 << 10


# --- A log that says no ---------------------------------------------------------------------------


def test_what_cannot_be_recorded_is_not_opened(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    attempt = door.attempt()
    assert door.authorizer.authorize(attempt, host_request()).allowed
    door.log.path.unlink()
    assert door.authorizer.open(attempt) == INTERNAL
    assert not attempt.opened
    assert door.authorizer.counts("s1") == Counts(0, 1)
    assert "was removed" in caplog.text


def test_refusals_stay_refusals_and_the_noise_is_bounded(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    attempt = door.opened()
    door.log.close()
    for _ in range(50):
        assert (
            door.authorizer.authorize(door.attempt("other.test"), host_request("other.test")).code
            == Code.NOT_LISTED
        )
        assert door.authorizer.open(door.attempt()) == INTERNAL
    door.authorizer.close(attempt, FIGURES)
    assert len(caplog.records) == 1
    assert caplog.records[0].levelno == logging.ERROR
    assert "closed" in caplog.text


def test_recovery_is_said(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    full = Authorizer(AuditLog(door.log.directory / "full", max_bytes=1), door.clock)
    full.refuse(door.attempt(), LATE)
    folder = full.log.directory
    folder.rename(folder.parent / "away")
    for _ in range(3):
        assert full.open(door.attempt()) == INTERNAL
    (folder.parent / "away").rename(folder)
    assert full.open(door.attempt()).allowed
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "records are lost, and every connection is refused meanwhile",
        "the audit log takes records again; 3 were lost",
    ]
    full.log.close()


# --- Limits ---------------------------------------------------------------------------------------

LIMITS = Limits(tunnels=2)


def knock(door: Door, times: int = 1, session_id: str = "s1", host: str = GOOD) -> None:
    """So many connections beyond the limit."""
    for _ in range(times):
        attempt = door.attempt(host, session_id=session_id)
        assert door.authorizer.authorize_connection(attempt, LIMITS, 2, FULL).code == Code.LIMIT


def told(door: Door) -> list[object]:
    """What the new records stand for: a number for each."""
    records = door.records()
    assert {record["code"] for record in records} <= {"limit"}
    assert {record["state"] for record in records} <= {"refused"}
    return [record.get("count", 1) for record in records]


def test_within_the_limits_nothing_is_recorded(door: Door) -> None:
    assert door.authorizer.authorize_connection(door.attempt(), LIMITS, 1, FULL).allowed
    assert door.authorizer.authorize_connection(door.attempt(), LIMITS, 1, EMPTY).code == Code.LIMIT
    assert told(door) == [1]


def test_refusals_by_limit_are_one_record_a_second(door: Door) -> None:
    knock(door, 10)
    door.authorizer.flush()
    assert told(door) == [1]  # at once; the others are counted
    for counted in (9, 10, 10, 10, 10):
        door.clock.advance(1)
        door.authorizer.flush()
        assert told(door) == [counted]
        knock(door, 10)
        door.authorizer.flush()
        assert told(door) == []
    door.clock.advance(1)
    door.authorizer.flush()
    assert told(door) == [10]
    assert door.authorizer.counts("s1").denied == 60


def test_a_pause_ends_the_counting(door: Door) -> None:
    knock(door, 3)
    for _ in range(3):
        door.clock.advance(1)
        door.authorizer.flush()
    assert told(door) == [1, 2]
    knock(door, 1)
    assert told(door) == [1]


@pytest.mark.parametrize("later", [1.0, 90.0])
def test_nothing_is_lost_without_a_flush(door: Door, later: float) -> None:
    knock(door, 4)
    door.clock.advance(later)
    knock(door, 2)
    assert told(door) == [1, 3]
    door.clock.advance(later)
    knock(door, 1)
    assert told(door) == [2]
    door.authorizer.flush("s1")
    assert told(door) == [1]


def test_without_more_refusals_the_next_is_recorded_at_once(door: Door) -> None:
    knock(door)
    door.clock.advance(1)
    knock(door)
    assert told(door) == [1, 1]
    door.clock.advance(0.25)
    knock(door)
    assert told(door) == []


def test_sessions_are_counted_apart_and_flushed_by_name(door: Door) -> None:
    knock(door, 3, "a")
    knock(door, 5, "b")
    assert told(door) == [1, 1]
    door.authorizer.flush("a")
    assert told(door) == [2]
    door.authorizer.flush("a")
    door.authorizer.flush("unknown")
    assert told(door) == []
    door.authorizer.forget("b")
    assert told(door) == [4]
    door.clock.advance(5)
    door.authorizer.flush()
    assert told(door) == []


def test_the_counted_record_is_about_the_latest(door: Door) -> None:
    for host in ("one.test", "two.test", "three.test"):
        knock(door, host=host)
    door.authorizer.flush("s1")
    assert [record["host"] for record in door.records()] == ["one.test", "three.test"]


def test_a_flood_takes_no_memory(door: Door) -> None:
    for _ in range(20):
        knock(door, 500)
        door.clock.advance(1)
    assert len(door.authorizer._limited) == 1
    door.authorizer.flush()
    assert sum(int(str(number)) for number in told(door)) == 10_000


def test_a_name_in_another_script_is_shown_in_both_forms(door: Door) -> None:
    attempt = door.attempt("xn--mnchen-3ya.test")
    door.authorizer.authorize(attempt, EgressRequest(CONNECT, "xn--mnchen-3ya.test", 443))
    record = door.records()[-1]
    assert (record["host"], record["host_unicode"]) == ("xn--mnchen-3ya.test", "m\u00fcnchen.test")


def test_what_monitoring_hears(door: Door) -> None:
    """A failed dial was allowed; what is cut after it was allowed is both; refusals by limit are counted one by one."""
    figures = Figures(10, 200)
    door.authorizer.close(door.opened(), figures)
    failed = door.attempt()
    assert door.authorizer.authorize(failed, host_request()).allowed
    door.authorizer.close(failed, Figures(), Decision(Verdict.ALLOW, "", "no", Code.DNS_FAILED))
    cut = door.opened()
    decision = door.authorizer.authorize(cut, name_request("other.test"))
    door.authorizer.close(cut, figures, decision)
    door.authorizer.authorize(door.attempt("other.test"), host_request("other.test"))
    for _ in range(3):
        door.authorizer.authorize_connection(door.attempt(), Limits(tunnels=1), 1, Allowance(1.0, 0.0))
    metrics = door.log.metrics
    assert dict(metrics.connections) == {"allow": 3, "deny": 5}
    assert dict(metrics.denials) == {"sni_mismatch": 1, "not_listed": 1, "limit": 3}
    assert (metrics.bytes_up, metrics.bytes_down) == (20, 400)
