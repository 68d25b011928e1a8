"""Egress: may this session reach this host, address, name? Decided here for every transport and the dry run.

Order of `decide`: malformed, network off, port, fixed deny, operator deny, address literal, allow, otherwise
refused. Only what it allows is resolved; then `decide_address` judges each address, `decide_name` the name
inside TLS, `decide_authority` the host an HTTP request names. Nothing here resolves, connects or records.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import assert_never
from urllib.parse import unquote

from gateway.policy.addresses import NEVER_DIALLED, Address, Network, carried, is_metadata, refused_class
from gateway.policy.decision import Decision, Verdict
from gateway.policy.hosts import (
    MAX_PORT,
    HostError,
    HostMatcher,
    is_normal,
    normalise_host,
    parse_literal,
    split_authority,
)

BUILT_IN = "built-in"
DEFAULT = "default"


class Transport(StrEnum):
    """How the wrapped process asked."""

    CONNECT = "connect"
    HTTP = "http"
    SOCKS = "socks"


class Code(StrEnum):
    """The machine-readable code of a refusal, or of trouble upstream."""

    MALFORMED_HOST = "malformed_host"
    MALFORMED_REQUEST = "malformed_request"
    NETWORK_OFF = "network_off"
    PORT = "port"
    DENIED = "denied"
    NOT_LISTED = "not_listed"
    IP_LITERAL = "ip_literal"
    RESOLVED_ADDRESS = "resolved_address"
    SELF_CONNECTION = "self_connection"
    SNI_MISMATCH = "sni_mismatch"
    SNI_MISSING = "sni_missing"
    NOT_TLS = "not_tls"
    AUTHORITY_MISMATCH = "authority_mismatch"
    PUSH_BYPASS = "push_bypass"
    POLICY_CHANGED = "policy_changed"
    TIMEOUT = "timeout"
    LIMIT = "limit"
    INTERNAL = "internal"
    DNS_FAILED = "dns_failed"
    CONNECT_REFUSED = "connect_refused"
    UNREACHABLE = "unreachable"
    CONNECT_TIMEOUT = "connect_timeout"


class HelloKind(StrEnum):
    """What the first bytes of a tunnel turned out to be."""

    TLS = "tls"  # a complete ClientHello
    NOT_TLS = "not_tls"
    SILENT = "silent"  # no byte before the deadline
    INCOMPLETE = "incomplete"  # a ClientHello begun, not finished before the deadline
    MALFORMED = "malformed"  # TLS records, but no ClientHello that can be read, or one beyond the size bound


def _empty_names() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class EgressRules:
    """The compiled rules of one session. Hosts are in normal form, rules name a place ("config.yaml:7").

    `network` False: nothing is allowed. `allow` holds baseline, GitHub, config and session entries; both deny
    matchers are built with `storage_labels=True`. `raw`: (host, port) where something other than TLS or HTTP
    may be spoken. `addresses`: (literal, port) that an allowed name may resolve to although not public.
    `names`: name to address text, answered instead of DNS. `denied_networks`: networks with their rule, which
    nothing overrides. `forges`: hosts whose pushes go through the push gateway and no other way.
    """

    network: bool
    ports: frozenset[int]
    fixed_deny: HostMatcher
    operator_deny: HostMatcher
    allow: HostMatcher
    raw: Mapping[tuple[str, int], str]
    addresses: Mapping[tuple[Address, int], str]
    names: Mapping[str, str] = field(default_factory=_empty_names)
    denied_networks: tuple[tuple[Network, str], ...] = ()
    forges: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class EgressRequest:
    """What is asked for.

    `host` is in normal form (IPv6 without brackets), or the raw text where `malformed` is set; `port` -1
    means that it was no number. `malformed` is the sentence why the edge could not read the request, `code`
    the code it is then refused with.
    """

    transport: Transport
    host: str
    port: int
    malformed: str = ""
    code: Code = Code.MALFORMED_HOST


@dataclass(frozen=True, slots=True)
class AddressRequest:
    """One address that an allowed host resolved to (or is).

    `own_listener`: address and port are a listener of the gateway; `own_host`: the address is this host's.
    """

    transport: Transport
    host: str
    port: int
    address: Address
    own_listener: bool = False
    own_host: bool = False


@dataclass(frozen=True, slots=True)
class NameRequest:
    """The first bytes inside a tunnel. `names`: raw SNI host names; `ech`: an encrypted part came along."""

    transport: Transport
    host: str
    port: int
    kind: HelloKind
    names: tuple[str, ...] = ()
    ech: bool = False


@dataclass(frozen=True, slots=True)
class TargetRequest:
    """What a plain HTTP request asks of the host: the raw path, with its query."""

    transport: Transport
    host: str
    port: int
    target: str


@dataclass(frozen=True, slots=True)
class AuthorityRequest:
    """The `Host` text (or `:authority`) of a request, against the asked target; `tls`: it is inside TLS."""

    transport: Transport
    host: str
    port: int
    authority: str
    tls: bool = False


# What git asks for when it pushes (gitprotocol-http(5)), in whatever spelling a server may take for it.
_PUSH_SERVICE = "git-receive-pack"


def _deny(code: Code, reason: str, rule: str = BUILT_IN) -> Decision:
    return Decision(Verdict.DENY, rule, reason, code)


_NOT_NORMAL = _deny(Code.MALFORMED_HOST, "the host is not a plain host name or address")
_NOT_A_PORT = _deny(Code.MALFORMED_HOST, "the port is not a number")
_NETWORK_OFF = _deny(Code.NETWORK_OFF, "the network is off for this session")
_NOT_LISTED = _deny(Code.NOT_LISTED, "the host is not on this sandbox's allowlist", DEFAULT)
_IP_LITERAL = _deny(Code.IP_LITERAL, "an address is not accepted in place of a host name", DEFAULT)
_METADATA_LITERAL = _deny(Code.DENIED, "cloud metadata addresses are never reachable")
_SELF = _deny(Code.SELF_CONNECTION, "the target is the gateway itself")
_METADATA = _deny(Code.RESOLVED_ADDRESS, "the host leads to a cloud metadata address: never reachable")
_OWN_HOST = _deny(Code.RESOLVED_ADDRESS, "the host leads to an address of the machine that runs this sandbox")
_PUBLIC = Decision(Verdict.ALLOW, BUILT_IN, "the address is public")
_SAME_NAME = Decision(Verdict.ALLOW, BUILT_IN, "the TLS name is the asked host")
_NAMELESS_LITERAL = Decision(Verdict.ALLOW, BUILT_IN, "TLS to an address carries no name")
_PUSH_BYPASS = _deny(Code.PUSH_BYPASS, "a push to this host goes through the push gateway, not past it")
_NO_PUSH = Decision(Verdict.ALLOW, BUILT_IN, "the request is no push")
_SAME_AUTHORITY = Decision(Verdict.ALLOW, BUILT_IN, "the request names the asked host")


def decide(rules: EgressRules, request: EgressRequest) -> Decision:
    """May this host and port be asked for at all? No name is looked up before this says yes."""
    if request.malformed:
        return _deny(request.code, request.malformed)
    host, port = request.host, request.port
    literal = parse_literal(host)
    if literal is None and not is_normal(host):
        return _NOT_NORMAL
    if port < 0:
        return _NOT_A_PORT
    if not rules.network:
        return _NETWORK_OFF
    if not 0 < port <= MAX_PORT or (port not in rules.ports and not _opened(rules, host, port)):
        return _deny(Code.PORT, f"port {port} is not open in this sandbox", DEFAULT)
    if literal is not None:
        return _decide_literal(rules, literal, port)
    found = rules.fixed_deny.match(host)
    if found is not None:
        return _deny(Code.DENIED, "the host is on the deny list, which beats every allow entry", found.rule)
    found = rules.operator_deny.match(host)
    if found is not None:
        return _deny(Code.DENIED, "the operator denies this host, which beats every allow entry", found.rule)
    found = rules.allow.match(host)
    if found is not None:
        return Decision(Verdict.ALLOW, found.rule, "the host is on the allowlist")
    return _NOT_LISTED


def _opened(rules: EgressRules, host: str, port: int) -> bool:
    """Whether a port outside `ports` is open: for this host by a raw entry, or for listed literals."""
    return (host, port) in rules.raw or any(port == listed for _, listed in rules.addresses)


def _decide_literal(rules: EgressRules, literal: Address, port: int) -> Decision:
    rule = _denied_network(rules, literal)
    if rule:
        return _deny(Code.DENIED, "the address is on the deny list, which beats every allow entry", rule)
    if is_metadata(literal):
        return _METADATA_LITERAL
    rule = rules.addresses.get((literal, port), "")
    return Decision(Verdict.ALLOW, rule, "the address is listed with this port") if rule else _IP_LITERAL


def _denied_network(rules: EgressRules, address: Address) -> str:
    """The rule of the denied network that holds the address or an IPv4 address inside it; "" if none."""
    if not rules.denied_networks:
        return ""
    inside = tuple(carried(address))
    holding = (rule for network, rule in rules.denied_networks if any(one in network for one in inside))
    return next(holding, "")


def decide_address(rules: EgressRules, request: AddressRequest) -> Decision:
    """May this address be dialled for the host that `decide` allowed? Asked for each one before its dial."""
    if not rules.network:
        return _NETWORK_OFF
    host, port, address = request.host, request.port, request.address
    if request.own_listener:
        return _SELF
    name = refused_class(address)
    if name in NEVER_DIALLED:
        return _METADATA
    rule = _denied_network(rules, address)
    if rule:
        return _deny(Code.RESOLVED_ADDRESS, "the host leads to an address on the deny list", rule)
    rule = rules.addresses.get((address, port), "")
    if rule:
        return Decision(Verdict.ALLOW, rule, "the address is listed with this port")
    if parse_literal(host) is not None:
        return _IP_LITERAL
    if request.own_host:
        return _OWN_HOST
    if name is not None:
        return _deny(Code.RESOLVED_ADDRESS, f"the host leads to an address that is not public ({name})")
    if port not in rules.ports and (host, port) not in rules.raw:
        return _deny(
            Code.RESOLVED_ADDRESS,
            f"port {port} is open for listed addresses only, and the host leads to another one",
        )
    return _PUBLIC


def decide_name(rules: EgressRules, request: NameRequest) -> Decision:
    """May the tunnel go on, given what the client said first? The TLS name must be the asked host.

    Where plain HTTP may be spoken the caller reads such a request itself and asks `decide_authority`.
    """
    if not rules.network:
        return _NETWORK_OFF
    raw = rules.raw.get((request.host, request.port)) if rules.raw else None
    if raw:
        return Decision(Verdict.ALLOW, raw, "anything may be spoken to this host and port")
    match request.kind:
        case HelloKind.TLS:
            return _judge_names(request)
        case HelloKind.NOT_TLS:
            return _deny(
                Code.NOT_TLS, "the client does not speak TLS, and the host is listed for nothing else"
            )
        case HelloKind.SILENT:
            return _deny(Code.TIMEOUT, "the client opened a tunnel and sent nothing")
        case HelloKind.INCOMPLETE:
            return _deny(Code.TIMEOUT, "the client did not finish its TLS greeting")
        case HelloKind.MALFORMED:
            return _deny(Code.MALFORMED_REQUEST, "the client's TLS greeting cannot be read")
        case _:
            assert_never(request.kind)


def _is_name(host: str) -> bool:
    return parse_literal(host) is None


def _judge_names(request: NameRequest) -> Decision:
    if request.names == (request.host,) and _is_name(request.host):
        return _SAME_NAME
    if not request.names:
        if not _is_name(request.host) and not request.ech:
            return _NAMELESS_LITERAL  # RFC 6066 3: an address is not sent as a name
        return _deny(Code.SNI_MISSING, "the client's TLS greeting does not name the host")
    if len(request.names) > 1:
        return _deny(Code.MALFORMED_REQUEST, "the client's TLS greeting names several hosts")
    try:
        name = normalise_host(request.names[0])
    except HostError:
        return _deny(Code.MALFORMED_HOST, "the name in the client's TLS greeting is not a host name")
    if not _is_name(name):
        return _deny(Code.SNI_MISMATCH, "the client's TLS greeting names an address instead of a host")
    if name == request.host:
        return _SAME_NAME
    if request.ech:
        return _deny(
            Code.SNI_MISMATCH, "the client hides its TLS name, and the open one is not the asked host"
        )
    return _deny(Code.SNI_MISMATCH, "the client's TLS greeting names another host than the one asked for")


def decide_target(rules: EgressRules, request: TargetRequest) -> Decision:
    """May this be asked of the host? What can be seen to be a push to a forge goes through the push gateway alone."""
    if not rules.network:
        return _NETWORK_OFF
    if request.host in rules.forges and _PUSH_SERVICE in unquote(request.target).lower():
        return _PUSH_BYPASS
    return _NO_PUSH


def decide_authority(rules: EgressRules, request: AuthorityRequest) -> Decision:
    """Does the request name the target that was asked for? The port of the scheme may be left out."""
    if not rules.network:
        return _NETWORK_OFF
    if not request.authority:
        return _deny(Code.MALFORMED_REQUEST, "the request names no host")
    try:
        named = split_authority(request.authority, 443 if request.tls else 80)
    except HostError as error:
        return _deny(Code.MALFORMED_HOST, f"the request's Host is not a host: {error}")
    if named == (request.host, request.port):
        return _SAME_AUTHORITY
    return _deny(Code.AUTHORITY_MISMATCH, "the request names another host or port than the one asked for")
