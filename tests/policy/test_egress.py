"""Egress decisions as tables: verdict, code and rule of hosts, addresses, TLS names and authorities."""

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.decision import Decision, Verdict
from gateway.policy.egress import (
    AddressRequest,
    AuthorityRequest,
    Code,
    EgressRequest,
    EgressRules,
    HelloKind,
    NameRequest,
    TargetRequest,
    Transport,
    decide,
    decide_address,
    decide_authority,
    decide_name,
    decide_target,
)
from gateway.policy.hosts import HostError, HostMatcher, HostPattern, PortError, split_authority
from gateway.policy.refusals import refusal_message


def matcher(rule: str, *texts: str, deny: bool = False) -> HostMatcher:
    """Patterns with rules like `allow.txt:1`."""
    entries = (HostPattern(text, f"{rule}:{line}") for line, text in enumerate(texts, start=1))
    return HostMatcher(entries, storage_labels=deny)


def rules(
    *,
    network: bool = True,
    allow: tuple[str, ...] = (
        "api.allowed.test",
        "*.wild.test",
        "svc.*.multi.test",
        "github.com",
        "bedrock.*.amazonaws.com",
        "*.nip.io",
    ),
    addresses: Mapping[str, str] | None = None,
) -> EgressRules:
    """The policy of the tables: the allow list above, deny entries, raw entries, listed literals."""
    listed = {"10.1.2.3:8443": "config.yaml:9", "[fd00::5]:443": "config.yaml:10"}
    pairs = ((*split_authority(text), rule) for text, rule in (addresses or listed).items())
    return EgressRules(
        network=network,
        ports=frozenset({80, 443}),
        fixed_deny=matcher("deny.txt", "metadata.google.internal", "bad.wild.test", "localhost", deny=True),
        operator_deny=matcher("config.yaml", "*.worse.wild.test", "svc.*.multi.wild.test", deny=True),
        allow=matcher("allow.txt", *allow),
        raw={("api.allowed.test", 22): "config.yaml:7", ("unlisted.test", 22): "config.yaml:8"},
        addresses={(ip_address(host), port): rule for host, port, rule in pairs},
        denied_networks=(
            (IPv4Network("169.254.0.0/16"), "deny.txt:20"),
            (IPv6Network("fd00:ec2::/32"), "deny.txt:21"),
            (IPv4Network("198.51.100.0/24"), "config.yaml:12"),
        ),
    )


def ask(text: str, transport: Transport = Transport.CONNECT) -> EgressRequest:
    """The request that an edge makes of `host:port` text."""
    try:
        host, port = split_authority(text)
    except PortError as error:
        return EgressRequest(transport, error.host, error.port)
    except HostError as error:
        return EgressRequest(transport, text, -1, malformed=str(error))
    return EgressRequest(transport, host, port)


def outcome(decision: Decision) -> str:
    """Verdict or code, and the rule: what the tables below name."""
    assert decision.allowed is (decision.code == "")
    assert decision.reason
    assert decision.reason.isascii()
    return f"{decision.code or decision.verdict} {decision.rule}"


NOT_LISTED = "not_listed default"
MALFORMED = "malformed_host built-in"
LITERAL = "ip_literal default"
PORT = "port default"

HOSTS = {
    # allow, and what almost is
    "api.allowed.test:443": "allow allow.txt:1",
    "api.allowed.test:80": "allow allow.txt:1",
    "api.allowed.test.:443": "allow allow.txt:1",
    "API.Allowed.Test:443": "allow allow.txt:1",
    "api.allowed.test.evil.test:443": NOT_LISTED,
    "evilapi.allowed.test:443": NOT_LISTED,
    "a.api.allowed.test:443": NOT_LISTED,
    "allowed.test:443": NOT_LISTED,
    "a.wild.test:443": "allow allow.txt:2",
    "a.b.c.wild.test:443": "allow allow.txt:2",
    "_dmarc.wild.test:443": "allow allow.txt:2",
    "wild.test:443": NOT_LISTED,
    "notwild.test:443": NOT_LISTED,
    "evilwild.test:443": NOT_LISTED,
    "x.wild.test.evil.test:443": NOT_LISTED,
    "svc.a.multi.test:443": "allow allow.txt:3",
    "svc.a.b.multi.test:443": NOT_LISTED,
    "svc.multi.test:443": NOT_LISTED,
    "x.svc.a.multi.test:443": NOT_LISTED,
    "svc..multi.test:443": MALFORMED,
    "bedrock.us-east-1.amazonaws.com:443": "allow allow.txt:5",
    "bedrock.s3.amazonaws.com:443": NOT_LISTED,
    "bedrock.s3-us-west-2.amazonaws.com:443": NOT_LISTED,
    "bedrock.s3-accelerate.amazonaws.com:443": NOT_LISTED,
    "bedrock.s3-website-us-east-1.amazonaws.com:443": NOT_LISTED,
    # deny beats allow
    "bad.wild.test:443": "denied deny.txt:2",
    "bad.wild.test.:443": "denied deny.txt:2",
    "BAD.wild.test:443": "denied deny.txt:2",
    "x.bad.wild.test:443": "allow allow.txt:2",
    "a.worse.wild.test:443": "denied config.yaml:1",
    "worse.wild.test:443": "allow allow.txt:2",
    "svc.s3.multi.wild.test:443": "denied config.yaml:2",
    "metadata.google.internal:80": "denied deny.txt:1",
    "localhost:443": "denied deny.txt:3",
    "LOCALHOST.:443": "denied deny.txt:3",
    "foo.localhost:443": NOT_LISTED,
    "ip6-localhost:443": NOT_LISTED,
    "host.docker.internal:443": NOT_LISTED,
    "printer.local:443": NOT_LISTED,
    "169-254-169-254.nip.io:80": "allow allow.txt:6",  # the address it leads to is what refuses it
    # malformed host text
    "bad.wild.test..:443": MALFORMED,
    ".bad.wild.test:443": MALFORMED,
    "a..wild.test:443": MALFORMED,
    "[bad.wild.test]:443": MALFORMED,
    "[[bad.wild.test]]:443": MALFORMED,
    "api%2eallowed%2etest:443": MALFORMED,
    "bad%2ewild.test:443": MALFORMED,
    "user:pw@api.allowed.test@evil.test:443": MALFORMED,
    "127.0.0.1\0.wild.test:443": MALFORMED,
    "evil.test\0.wild.test:443": MALFORMED,
    "a\tb.wild.test:443": MALFORMED,
    "a\nb.wild.test:443": MALFORMED,
    "a b.wild.test:443": MALFORMED,
    "a\x7f.wild.test:443": MALFORMED,
    "a\xff.wild.test:443": MALFORMED,
    "a\\b.wild.test:443": MALFORMED,
    "a#.wild.test:443": MALFORMED,
    "a?.wild.test:443": MALFORMED,
    "a;b.wild.test:443": MALFORMED,
    "a,b.wild.test:443": MALFORMED,
    "\u0430pi.allowed.test:443": MALFORMED,
    "api\u3002allowed\u3002test:443": MALFORMED,
    "\uff21\uff30\uff29.allowed.test:443": MALFORMED,
    "xn--pi-6kc.allowed.test:443": NOT_LISTED,
    "xn--a.wild.test:443": "allow allow.txt:2",
    "-a.wild.test:443": MALFORMED,
    # addresses in place of a name
    "127.0.0.1:443": LITERAL,
    "0.0.0.0:443": LITERAL,
    "127.1:443": MALFORMED,
    "0x7f.1:443": MALFORMED,
    "0177.0.0.1:443": MALFORMED,
    "2130706433:443": MALFORMED,
    "017700000001:443": MALFORMED,
    "0:443": MALFORMED,
    "\uff11\uff12\uff17.0.0.1:443": MALFORMED,
    "127\u30020\u30020\u30021:443": MALFORMED,
    "\u2460\u2461\u2466.0.0.1:443": MALFORMED,
    "[::1]:443": LITERAL,
    "[::]:443": LITERAL,
    "[::ffff:127.0.0.1]:443": LITERAL,
    "[::ffff:7f00:1]:443": LITERAL,
    "[::127.0.0.1]:443": LITERAL,
    "[64:ff9b:1::7f00:1]:443": LITERAL,
    "[2002:7f00:1::]:443": LITERAL,
    "[2001:0:808:808::80ff:fffe]:443": LITERAL,
    "[::5efe:7f00:1]:443": LITERAL,
    "[fe80::1%eth0]:443": MALFORMED,
    "[::ffff:1.2.3.4%x.wild.test]:443": MALFORMED,
    "255.255.255.255:443": LITERAL,
    "140.82.112.3:443": LITERAL,
    "169.254.169.254:80": "denied deny.txt:20",
    "[0:0:0:0:0:ffff:a9fe:a9fe]:80": "denied deny.txt:20",
    "[64:ff9b::a9fe:a9fe]:80": "denied deny.txt:20",
    "[fd00:ec2::254]:80": "denied deny.txt:21",
    "168.63.129.16:80": "denied built-in",
    "192.0.0.192:80": "denied built-in",
    "100.100.100.200:80": "denied built-in",
    "[fd20:ce::254]:80": "denied built-in",
    "[fd00:c1::a9fe:a9fe]:80": "denied built-in",
    "[fd00:42::42]:80": "denied built-in",
    "198.51.100.7:443": "denied config.yaml:12",
    # listed literals
    "10.1.2.3:8443": "allow config.yaml:9",
    "10.1.2.3:443": LITERAL,
    "10.1.2.4:8443": LITERAL,
    "[::ffff:10.1.2.3]:8443": LITERAL,
    "[fd00::5]:443": "allow config.yaml:10",
    "[FD00:0::5]:443": "allow config.yaml:10",
    "[fd00::5]:80": LITERAL,
    # ports
    "api.allowed.test:22": "allow allow.txt:1",  # raw
    "unlisted.test:22": NOT_LISTED,  # raw opens the port, not the host
    "a.wild.test:22": PORT,
    "api.allowed.test:8443": "allow allow.txt:1",  # open for listed literals; the address decides
    "evil.test:8443": NOT_LISTED,
    "api.allowed.test:25": PORT,
    "api.allowed.test:53": PORT,
    "api.allowed.test:853": PORT,
    "api.allowed.test:3306": PORT,
    "api.allowed.test:6379": PORT,
    "api.allowed.test:0": PORT,
    "api.allowed.test:65535": PORT,
    "api.allowed.test:65536": PORT,
    "bad.wild.test:25": PORT,
    "127.0.0.1:25": PORT,
    "api.allowed.test:-1": MALFORMED,
    "api.allowed.test:443x": MALFORMED,
    "api.allowed.test: 443": MALFORMED,
    "api.allowed.test:0443": MALFORMED,
    "api.allowed.test:\u0664\u0664\u0663": MALFORMED,
    "api.allowed.test:": MALFORMED,
    "api.allowed.test": MALFORMED,
}


@pytest.mark.parametrize("transport", Transport)
@pytest.mark.parametrize(("text", "expected"), HOSTS.items(), ids=map(ascii, HOSTS.keys()))
def test_decide(text: str, expected: str, transport: Transport) -> None:
    assert outcome(decide(rules(), ask(text, transport))) == expected


@pytest.mark.parametrize(("text", "expected"), HOSTS.items(), ids=map(ascii, HOSTS.keys()))
def test_with_the_network_off_nothing_is_allowed(text: str, expected: str) -> None:
    answer = outcome(decide(rules(network=False), ask(text)))
    assert answer == (MALFORMED if expected == MALFORMED else "network_off built-in")


def test_rules_with_empty_lists_allow_nothing() -> None:
    empty = EgressRules(True, frozenset({80, 443}), HostMatcher(), HostMatcher(), HostMatcher(), {}, {})
    answers = {outcome(decide(empty, ask(text))) for text, expected in HOSTS.items() if "allow " in expected}
    assert answers == {NOT_LISTED, LITERAL, PORT}


def test_what_the_edge_calls_malformed_is_refused_with_its_words() -> None:
    request = EgressRequest(
        Transport.HTTP, "api.allowed.test", 80, "two Host headers", Code.MALFORMED_REQUEST
    )
    expected = Decision(Verdict.DENY, "built-in", "two Host headers", "malformed_request")
    assert decide(rules(), request) == expected


@pytest.mark.parametrize(
    "host",
    [
        "BAD.wild.test",
        "bad.wild.test.",
        ".wild.test",
        "a..wild.test",
        "",
        "bad.wild.test\0",
        "::1%x",
        "[::1]",
    ],
)
def test_a_host_that_an_edge_forgot_to_normalise_is_refused(host: str) -> None:
    assert outcome(decide(rules(), EgressRequest(Transport.SOCKS, host, 443))) == MALFORMED


@pytest.mark.parametrize("port", [0, 65536])
def test_a_port_that_does_not_exist_is_refused_even_when_listed(port: int) -> None:
    listed = replace(rules(), ports=frozenset({0, 65536}))
    assert outcome(decide(listed, EgressRequest(Transport.CONNECT, "api.allowed.test", port))) == PORT


def test_a_port_that_is_no_number_is_malformed() -> None:
    assert outcome(decide(rules(), EgressRequest(Transport.CONNECT, "api.allowed.test", -1))) == MALFORMED


def test_a_metadata_literal_is_refused_even_when_listed() -> None:
    listed = rules(addresses={"168.63.129.16:80": "config.yaml:1", "[fd20:ce::254]:80": "config.yaml:2"})
    assert outcome(decide(listed, ask("168.63.129.16:80"))) == "denied built-in"
    assert outcome(decide(listed, ask("[fd20:ce::254]:80"))) == "denied built-in"


LABELS = st.sampled_from(["a", "b", "s3", "test"])
NAMES = st.lists(LABELS, min_size=2, max_size=4).map(".".join)
TAILS = st.lists(LABELS, min_size=2, max_size=3).map(".".join)
PATTERNS = (
    NAMES | TAILS.map("*.{}".format) | st.tuples(LABELS, TAILS).map(lambda pair: f"{pair[0]}.*.{pair[1]}")
)


@given(st.lists(PATTERNS, max_size=4), st.lists(PATTERNS, max_size=4), st.lists(PATTERNS, max_size=8), NAMES)
def test_deny_beats_allow(fixed: list[str], operator: list[str], allow: list[str], host: str) -> None:
    built = EgressRules(
        True,
        frozenset({443}),
        matcher("deny.txt", *fixed, deny=True),
        matcher("config.yaml", *operator, deny=True),
        matcher("allow.txt", *allow),
        {},
        {},
    )
    decision = decide(built, EgressRequest(Transport.CONNECT, host, 443))
    denied = any(
        one.match(host) for one in (matcher("f", *fixed, deny=True), matcher("o", *operator, deny=True))
    )
    allowed = matcher("a", *allow).match(host) is not None
    assert decision.allowed is (allowed and not denied)
    assert (decision.code == Code.DENIED) is denied
    # The same entry in a deny list and in an allow list is a refusal, for every host.
    assert not any(
        decide(
            EgressRules(
                True, frozenset({443}), matcher("d", *allow, deny=True), HostMatcher(), built.allow, {}, {}
            ),
            EgressRequest(Transport.CONNECT, name, 443),
        ).allowed
        for name in (host, f"a.{host}", f"s3.{host}")
    )


@given(st.text(max_size=60), st.integers(-2, 70000), st.sampled_from(Transport))
def test_every_text_gets_a_decision(text: str, port: int, transport: Transport) -> None:
    decision = decide(rules(), EgressRequest(transport, text, port))
    assert isinstance(decision, Decision)
    assert refusal_message(decision, text, port).isascii()


RESOLVED = "resolved_address built-in"
PUBLIC = "allow built-in"

# Host and port, the address it resolved to, the outcome.
ADDRESSES = (
    ("api.allowed.test:443", "140.82.112.3", PUBLIC),
    ("api.allowed.test:443", "2606:4700::1", PUBLIC),
    ("api.allowed.test:443", "64:ff9b::8c52:7003", PUBLIC),
    ("api.allowed.test:443", "::ffff:140.82.112.3", PUBLIC),
    ("api.allowed.test:443", "127.0.0.1", RESOLVED),
    ("api.allowed.test:443", "0.0.0.0", RESOLVED),
    ("api.allowed.test:443", "10.0.0.5", RESOLVED),
    ("api.allowed.test:443", "172.16.0.1", RESOLVED),
    ("api.allowed.test:443", "172.32.0.1", PUBLIC),
    ("api.allowed.test:443", "192.168.1.1", RESOLVED),
    ("api.allowed.test:443", "100.64.0.1", RESOLVED),
    ("api.allowed.test:443", "::1", RESOLVED),
    ("api.allowed.test:443", "fd00::6", RESOLVED),
    ("api.allowed.test:443", "64:ff9b::a00:5", RESOLVED),
    ("api.allowed.test:443", "::ffff:10.0.0.5", RESOLVED),
    ("api.allowed.test:443", "2002:7f00:1::", RESOLVED),
    ("api.allowed.test:443", "224.0.0.1", RESOLVED),
    ("api.allowed.test:443", "240.0.0.1", RESOLVED),
    ("api.allowed.test:443", "255.255.255.255", RESOLVED),
    ("api.allowed.test:443", "198.18.0.1", RESOLVED),
    ("api.allowed.test:443", "192.0.2.1", RESOLVED),
    ("api.allowed.test:443", "ff02::1", RESOLVED),
    ("api.allowed.test:443", "fec0::1", RESOLVED),
    ("api.allowed.test:443", "3fff::1", RESOLVED),
    ("api.allowed.test:443", "5f00::1", RESOLVED),
    ("169-254-169-254.nip.io:80", "169.254.169.254", RESOLVED),
    ("api.allowed.test:443", "168.63.129.16", RESOLVED),
    ("api.allowed.test:443", "fd00:ec2::254", RESOLVED),
    # on the deny list
    ("api.allowed.test:443", "198.51.100.7", "resolved_address config.yaml:12"),
    ("api.allowed.test:443", "::ffff:198.51.100.7", "resolved_address config.yaml:12"),
    # listed, and what almost is
    ("api.allowed.test:8443", "10.1.2.3", "allow config.yaml:9"),
    ("api.allowed.test:443", "10.1.2.3", RESOLVED),
    ("api.allowed.test:8443", "10.1.2.4", RESOLVED),
    ("api.allowed.test:8443", "::ffff:10.1.2.3", RESOLVED),
    ("api.allowed.test:443", "fd00::5", "allow config.yaml:10"),
    ("api.allowed.test:8443", "140.82.112.3", RESOLVED),  # the port is open for the listed literals only
    # raw
    ("api.allowed.test:22", "140.82.112.3", PUBLIC),
    ("a.wild.test:22", "140.82.112.3", RESOLVED),
    ("api.allowed.test:22", "10.0.0.5", RESOLVED),
    # an address as host
    ("10.1.2.3:8443", "10.1.2.3", "allow config.yaml:9"),
    ("[fd00::5]:443", "fd00::5", "allow config.yaml:10"),
    ("140.82.112.3:443", "140.82.112.3", "ip_literal default"),
    ("127.0.0.1:443", "127.0.0.1", "ip_literal default"),
)


def dial(text: str, address: str, own_listener: bool = False, own_host: bool = False) -> AddressRequest:
    """A dial of `address` for `host:port`."""
    host, port = split_authority(text)
    return AddressRequest(Transport.CONNECT, host, port, ip_address(address), own_listener, own_host)


@pytest.mark.parametrize(
    ("text", "address", "expected"), ADDRESSES, ids=[f"{row[0]} at {row[1]}" for row in ADDRESSES]
)
def test_decide_address(text: str, address: str, expected: str) -> None:
    assert outcome(decide_address(rules(), dial(text, address))) == expected
    assert outcome(decide_address(rules(network=False), dial(text, address))) == "network_off built-in"


def test_a_private_address_is_named_by_its_class() -> None:
    decision = decide_address(rules(), dial("api.allowed.test:443", "100.64.0.1"))
    assert "carrier-grade NAT" in decision.reason


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("api.allowed.test:443", "140.82.112.3"),
        ("api.allowed.test:8443", "10.1.2.3"),
        ("10.1.2.3:8443", "10.1.2.3"),
    ],
)
def test_our_own_listener_is_never_dialled(text: str, address: str) -> None:
    request = dial(text, address, own_listener=True, own_host=True)
    assert outcome(decide_address(rules(), request)) == "self_connection built-in"


def test_this_machine_is_dialled_only_where_listed() -> None:
    assert (
        outcome(decide_address(rules(), dial("a.wild.test:443", "140.82.112.3", own_host=True))) == RESOLVED
    )
    listed = dial("a.wild.test:8443", "10.1.2.3", own_host=True)
    assert outcome(decide_address(rules(), listed)) == "allow config.yaml:9"


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "168.63.129.16", "fd20:ce::254", "::ffff:168.63.129.16"]
)
def test_metadata_is_never_dialled_even_when_listed(address: str) -> None:
    text = f"[{address}]:80" if ":" in address else f"{address}:80"
    listed = rules(addresses={text: "config.yaml:1"})
    assert outcome(decide_address(listed, dial("api.allowed.test:80", address))) == RESOLVED


def test_a_denied_network_beats_a_listed_literal() -> None:
    listed = rules(addresses={"198.51.100.7:443": "config.yaml:1"})
    request = dial("api.allowed.test:443", "198.51.100.7")
    assert outcome(decide_address(listed, request)) == "resolved_address config.yaml:12"
    assert outcome(decide(listed, ask("198.51.100.7:443"))) == "denied config.yaml:12"


@given(st.ip_addresses(), st.booleans(), st.booleans())
def test_an_allowed_address_is_public_or_listed(address: object, own_listener: bool, own_host: bool) -> None:
    listed = rules()
    decision = decide_address(
        listed, dial("api.allowed.test:443", str(address), own_listener=own_listener, own_host=own_host)
    )
    if decision.allowed:
        assert not own_listener
        assert decision.rule == "built-in" or (ip_address(str(address)), 443) in listed.addresses


TLS = HelloKind.TLS
HOST = "api.allowed.test:443"

# Name of the row: asked host and port, kind, names, ECH, outcome.
HELLOS: dict[str, tuple[str, HelloKind, tuple[str, ...], bool, str]] = {
    "the asked name": (HOST, TLS, ("api.allowed.test",), False, PUBLIC),
    "upper case": (HOST, TLS, ("API.Allowed.TEST",), False, PUBLIC),
    "trailing dot": (HOST, TLS, ("api.allowed.test.",), False, PUBLIC),
    "the asked name, encrypted part": (HOST, TLS, ("api.allowed.test",), True, PUBLIC),
    "another name": (HOST, TLS, ("evil.test",), False, "sni_mismatch built-in"),
    "another allowed name": (HOST, TLS, ("github.com",), False, "sni_mismatch built-in"),
    "a name below": (HOST, TLS, ("a.api.allowed.test",), False, "sni_mismatch built-in"),
    "another open name over an encrypted one": (HOST, TLS, ("ech.test",), True, "sni_mismatch built-in"),
    "no name": (HOST, TLS, (), False, "sni_missing built-in"),
    "no open name over an encrypted one": (HOST, TLS, (), True, "sni_missing built-in"),
    "an address": (HOST, TLS, ("140.82.112.3",), False, "sni_mismatch built-in"),
    "an IPv6 address": (HOST, TLS, ("2606:4700::1",), False, MALFORMED),
    "two names": (HOST, TLS, ("api.allowed.test", "evil.test"), False, "malformed_request built-in"),
    "one name twice": (HOST, TLS, ("api.allowed.test",) * 2, False, "malformed_request built-in"),
    "NUL": (HOST, TLS, ("api.allowed.test\0.evil.test",), False, MALFORMED),
    "empty name": (HOST, TLS, ("",), False, MALFORMED),
    "two trailing dots": (HOST, TLS, ("api.allowed.test..",), False, MALFORMED),
    "not ASCII": (HOST, TLS, ("\u0430pi.allowed.test",), False, MALFORMED),
    "percent escape": (HOST, TLS, ("api%2eallowed.test",), False, MALFORMED),
    "not TLS": (HOST, HelloKind.NOT_TLS, (), False, "not_tls built-in"),
    "silence": (HOST, HelloKind.SILENT, (), False, "timeout built-in"),
    "never finished": (HOST, HelloKind.INCOMPLETE, (), False, "timeout built-in"),
    "broken": (HOST, HelloKind.MALFORMED, (), False, "malformed_request built-in"),
    "raw, not TLS": ("api.allowed.test:22", HelloKind.NOT_TLS, (), False, "allow config.yaml:7"),
    "raw, silence": ("api.allowed.test:22", HelloKind.SILENT, (), False, "allow config.yaml:7"),
    "raw, another name": ("api.allowed.test:22", TLS, ("evil.test",), False, "allow config.yaml:7"),
    "raw port of another host": ("a.wild.test:22", HelloKind.NOT_TLS, (), False, "not_tls built-in"),
    "address, no name": ("10.1.2.3:8443", TLS, (), False, PUBLIC),
    "address, no open name": ("10.1.2.3:8443", TLS, (), True, "sni_missing built-in"),
    "address, itself as name": ("10.1.2.3:8443", TLS, ("10.1.2.3",), False, "sni_mismatch built-in"),
    "address, a name": ("10.1.2.3:8443", TLS, ("evil.test",), False, "sni_mismatch built-in"),
    "IPv6 address, no name": ("[fd00::5]:443", TLS, (), False, PUBLIC),
    "IPv6 address, itself as name": ("[fd00::5]:443", TLS, ("fd00::5",), False, MALFORMED),
    "address, not TLS": ("10.1.2.3:8443", HelloKind.NOT_TLS, (), False, "not_tls built-in"),
}


@pytest.mark.parametrize(("text", "kind", "names", "ech", "expected"), HELLOS.values(), ids=HELLOS.keys())
def test_decide_name(text: str, kind: HelloKind, names: tuple[str, ...], ech: bool, expected: str) -> None:
    request = NameRequest(Transport.CONNECT, *split_authority(text), kind, names, ech)
    assert outcome(decide_name(rules(), request)) == expected
    assert outcome(decide_name(rules(network=False), request)) == "network_off built-in"


@given(
    st.sampled_from(HelloKind),
    st.lists(st.text(max_size=20) | st.just("a.wild.test"), max_size=2),
    st.booleans(),
)
def test_only_the_asked_name_gets_through(kind: HelloKind, names: list[str], ech: bool) -> None:
    request = NameRequest(Transport.SOCKS, "a.wild.test", 443, kind, tuple(names), ech)
    if decide_name(rules(), request).allowed:
        assert kind is TLS
        assert [name.lower().removesuffix(".") for name in names] == ["a.wild.test"]


MISMATCH = "authority_mismatch built-in"

# Asked target, whether inside TLS, the Host text, the outcome.
AUTHORITIES = (
    ("api.allowed.test:80", False, "api.allowed.test", PUBLIC),
    ("api.allowed.test:80", False, "api.allowed.test:80", PUBLIC),
    ("api.allowed.test:80", False, "API.allowed.test.", PUBLIC),
    ("api.allowed.test:80", False, "api.allowed.test:443", MISMATCH),
    ("api.allowed.test:80", False, "api.allowed.test:8443", MISMATCH),
    ("api.allowed.test:80", False, "evil.test", MISMATCH),
    ("api.allowed.test:80", False, "a.api.allowed.test", MISMATCH),
    ("api.allowed.test:8080", False, "api.allowed.test:8080", PUBLIC),
    ("api.allowed.test:8080", False, "api.allowed.test", MISMATCH),
    ("api.allowed.test:443", True, "api.allowed.test", PUBLIC),
    ("api.allowed.test:443", True, "api.allowed.test:443", PUBLIC),
    ("api.allowed.test:443", True, "api.allowed.test:80", MISMATCH),
    ("api.allowed.test:443", False, "api.allowed.test", MISMATCH),
    ("api.allowed.test:443", True, "evil.test", MISMATCH),
    ("[fd00::5]:443", True, "[FD00:0::5]", PUBLIC),
    ("[fd00::5]:80", False, "fd00::5", MALFORMED),
    ("10.1.2.3:8443", False, "10.1.2.3:8443", PUBLIC),
    ("10.1.2.3:8443", False, "10.1.2.4:8443", MISMATCH),
    ("api.allowed.test:80", False, "", "malformed_request built-in"),
    ("api.allowed.test:80", False, "api.allowed.test:", MALFORMED),
    ("api.allowed.test:80", False, "api.allowed.test:080", MALFORMED),
    ("api.allowed.test:80", False, "api.allowed.test:65616", MALFORMED),
    ("api.allowed.test:80", False, "user@api.allowed.test", MALFORMED),
    ("api.allowed.test:80", False, "api.allowed.test, evil.test", MALFORMED),
    ("api.allowed.test:80", False, "api.allowed.test/", MALFORMED),
    ("api.allowed.test:80", False, " api.allowed.test", MALFORMED),
    ("api.allowed.test:80", False, "a" * 65536, MALFORMED),
)


@pytest.mark.parametrize(("text", "tls", "authority", "expected"), AUTHORITIES)
def test_decide_authority(text: str, tls: bool, authority: str, expected: str) -> None:
    request = AuthorityRequest(Transport.HTTP, *split_authority(text), authority, tls)
    assert outcome(decide_authority(rules(), request)) == expected
    assert outcome(decide_authority(rules(network=False), request)) == "network_off built-in"


BYPASS = "push_bypass built-in"
TARGETS = (
    ("forge.test", "/acme/widget.git/info/refs?service=git-receive-pack", BYPASS),
    ("forge.test", "/acme/widget.git/git-receive-pack", BYPASS),
    ("forge.test", "/acme/widget/GIT-Receive-Pack", BYPASS),
    ("forge.test", "/acme/widget.git/git%2Dreceive-pack", BYPASS),
    ("forge.test", "/acme/widget.git/info/refs?x=1&service=git%2dreceive%2dpack", BYPASS),
    ("forge.test", "/acme/widget.git/info/refs?service=git-upload-pack", PUBLIC),
    ("forge.test", "/acme/widget.git/git-upload-pack", PUBLIC),
    ("forge.test", "/", PUBLIC),
    ("forge.test", "/acme/widget.git/git%252Dreceive-pack", PUBLIC),  # no server decodes twice
    ("api.allowed.test", "/acme/widget.git/git-receive-pack", PUBLIC),  # somebody else's server
    ("a.forge.test", "/git-receive-pack", PUBLIC),
)


@pytest.mark.parametrize(("host", "target", "expected"), TARGETS)
def test_decide_target(host: str, target: str, expected: str) -> None:
    request = TargetRequest(Transport.HTTP, host, 80, target)
    judged = replace(rules(), forges=frozenset({"forge.test"}))
    assert outcome(decide_target(judged, request)) == expected
    assert outcome(decide_target(replace(judged, network=False), request)) == "network_off built-in"


def test_the_codes_are_those_of_the_contract() -> None:
    policy = "malformed_host malformed_request network_off port denied not_listed ip_literal resolved_address"
    policy += (
        " self_connection sni_mismatch sni_missing not_tls authority_mismatch push_bypass policy_changed"
    )
    policy += " timeout limit internal"
    upstream = "dns_failed connect_refused unreachable connect_timeout"
    assert [str(code) for code in Code] == f"{policy} {upstream}".split()
