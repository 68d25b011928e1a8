"""The section `egress` of the config file: its entries as patterns, addresses, ports and hosts.

Reads values one by one; what they mean to each other and to the shipped lists is `gateway.config.checks`.
"""

import re
from ipaddress import IPv4Network, IPv6Network
from types import MappingProxyType

from gateway.config.section import Section
from gateway.config.tree import Kind, ScalarNode, SequenceNode, masked, shown
from gateway.config.values import EgressConfig
from gateway.policy.addresses import Address, Network, is_metadata, refused_class
from gateway.policy.hosts import (
    MAX_PORT,
    HostError,
    HostPattern,
    PatternError,
    literal_text,
    normalise_host,
    parse_literal,
    parse_pattern,
    split_authority,
)
from gateway.policy.limits import Limits
from gateway.policy.lists import a_labels

# Bounds of egress.limits: what one process can hold open, and a day. Zero would be "network off".
MAX_TUNNELS = 100_000
MAX_RATE = 100_000
MAX_IDLE = 86_400  # seconds

_NEVER_DIALLED = frozenset({"unspecified", "multicast", "broadcast"})
_NETWORK = re.compile(r"[0-9.]+(?:/[0-9]{1,3})?|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*(?:/[0-9]{1,3})?")
_USERINFO = r"(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+"
_PROXY = re.compile(rf"http://({_USERINFO}(?::(?:{_USERINFO})?)?@)?([^/?#@\s]+)/?")
_PROXY_EXAMPLE = "http://user:password@proxy.example:3128 (user and password percent-encoded), or null"


def read_egress(section: Section) -> EgressConfig:
    """Every value of `egress`; those reported as wrong are left out."""
    deny, networks = _read_deny(section)
    return EgressConfig(
        allow=_read_allow(section),
        deny=deny,
        ports=_read_ports(section),
        raw=_read_raw(section),
        addresses=_read_addresses(section),
        hosts=_read_hosts(section),
        upstream_proxy=_read_upstream_proxy(section),
        limits=_read_limits(Section(section.node("limits"), section.name("limits"), Limits, section.reading)),
        denied_networks=networks,
    )


def _read_limits(section: Section) -> Limits:
    default = Limits()
    return Limits(
        tunnels=section.number("tunnels", default.tunnels, 1, MAX_TUNNELS),
        new_per_second=section.number("new_per_second", default.new_per_second, 1, MAX_RATE),
        burst=section.number("burst", default.burst, 1, MAX_RATE),
        idle=section.number("idle", default.idle, 1, MAX_IDLE),
    )


def _read_allow(section: Section) -> tuple[HostPattern, ...]:
    found = (_read_pattern(section, "allow", item) for item in section.texts("allow", '"*.example.com"'))
    return tuple(pattern for pattern in found if pattern is not None)


def _read_pattern(section: Section, key: str, item: ScalarNode) -> HostPattern | None:
    reading = section.reading
    try:
        text = item.text if item.text.isascii() else a_labels(item.text)
        pattern = HostPattern(parse_pattern(text), reading.rule(item.line))
    except PatternError as error:
        reading.error(item.line, f"{section.name(key)}: {masked(str(error))}")
        return None
    if text is not item.text:
        reading.warn(
            item.line, f"{section.name(key)}: {shown(item.text)} is read as {pattern.text}: write that"
        )
    return pattern


def _read_deny(section: Section) -> tuple[tuple[HostPattern, ...], tuple[tuple[Network, str], ...]]:
    patterns: list[HostPattern] = []
    networks: list[tuple[Network, str]] = []
    for item in section.texts("deny", '"*.example.com"'):
        if _NETWORK.fullmatch(item.text):
            network = _read_network(section, item)
            networks += [] if network is None else [(network, section.reading.rule(item.line))]
        else:
            pattern = _read_pattern(section, "deny", item)
            patterns += [] if pattern is None else [pattern]
    return tuple(patterns), tuple(networks)


def _read_network(section: Section, item: ScalarNode) -> Network | None:
    try:
        return IPv6Network(item.text) if ":" in item.text else IPv4Network(item.text)
    except ValueError:
        section.reading.error(
            item.line,
            f"egress.deny: {shown(item.text)} is no address or network: write 192.0.2.1, 192.0.2.0/24 or "
            "2001:db8::/32, without bits beyond the prefix",
        )
        return None


def _read_ports(section: Section) -> frozenset[int]:
    reading, ports = section.reading, dict[int, int]()
    node = section.node("ports")
    if node is None:
        return EgressConfig().ports
    items = section.items("ports", "[80, 443]")
    if node == SequenceNode(node.line, ()):
        reading.warn(
            node.line, "egress.ports is empty, so no allowed host can be reached: write ports: [80, 443]"
        )
    for item in items:
        if not isinstance(item, ScalarNode) or item.kind is not Kind.INTEGER:
            section.wrong(
                item, "ports", f"a list of numbers from 1 to {MAX_PORT}", "ports: [80, 443], without quotes"
            )
        elif not 1 <= int(item.text) <= MAX_PORT:
            reading.error(
                item.line, f"egress.ports: {item.text} is no port: write a number from 1 to {MAX_PORT}"
            )
        elif int(item.text) in ports:
            reading.error(item.line, f"egress.ports: {item.text} stands there twice: remove one of the two")
        else:
            ports[int(item.text)] = item.line
    return frozenset(ports)


def _read_raw(section: Section) -> MappingProxyType[tuple[str, int], str]:
    entries: dict[tuple[str, int], str] = {}
    for item in section.texts("raw", '"host.example:22"'):
        target = _read_target(section, "raw", item, '"host.example:22"')
        if target is not None and _is_first(section, "raw", item, target in entries):
            entries[target] = section.reading.rule(item.line)
    return MappingProxyType(entries)


def _is_first(section: Section, key: str, item: ScalarNode, known: bool) -> bool:
    if known:
        section.reading.error(
            item.line, f"{section.name(key)}: {shown(item.text)} stands there twice: remove one of the two"
        )
    return not known


def _read_target(section: Section, key: str, item: ScalarNode, example: str) -> tuple[str, int] | None:
    """Host and port, both required; None if that was reported."""
    name, reading = section.name(key), section.reading
    if "*" in item.text:
        reading.error(
            item.line, f"{name}: {shown(item.text)} has a star: write one host and one port, {example}"
        )
        return None
    try:
        host, port = split_authority(item.text)
    except HostError as error:
        reading.error(
            item.line, f"{name}: {shown(item.text)} is no host with a port, {error}: write {example}"
        )
        return None
    if port == 0:
        reading.error(item.line, f"{name}: {shown(item.text)} has port 0: write a port from 1 to {MAX_PORT}")
        return None
    return host, port


def _read_addresses(section: Section) -> MappingProxyType[tuple[Address, int], str]:
    example, entries = '"10.1.2.3:8443" or "[fd00::5]:443"', dict[tuple[Address, int], str]()
    for item in section.texts("addresses", example):
        target = _read_target(section, "addresses", item, example)
        if target is None:
            continue
        address = parse_literal(target[0])
        if address is None:
            section.reading.error(
                item.line,
                f"egress.addresses: {shown(item.text)} is a name: write the address it resolves to, "
                f"{example}; the name itself belongs under egress.allow",
            )
        elif _may_be_dialled(section, "addresses", item, address) and _is_first(
            section, "addresses", item, (address, target[1]) in entries
        ):
            entries[address, target[1]] = section.reading.rule(item.line)
    return MappingProxyType(entries)


def _may_be_dialled(section: Section, key: str, item: ScalarNode, address: Address) -> bool:
    """Whether the address may be listed at all; reports if not."""
    name = section.name(key)
    if is_metadata(address):
        section.reading.error(
            item.line,
            f"{name}: {literal_text(address)} is a cloud metadata or link-local address, which is never "
            "reachable: delete the entry",
        )
        return False
    if refused_class(address) in _NEVER_DIALLED:
        section.reading.error(
            item.line,
            f"{name}: {literal_text(address)} is the address of no single machine: write the machine's own",
        )
        return False
    return True


def _read_hosts(section: Section) -> MappingProxyType[str, str]:
    example, names = '{"forge.test": "127.0.0.1"}', dict[str, str]()
    for key, value in section.pairs("hosts", example):
        name = _read_host_name(section, key, example)
        item = section.one_line(value, "hosts", example)
        address = None if item is None else _read_host_address(section, item, example)
        if name is None or address is None or not _is_first(section, "hosts", key, name in names):
            continue
        names[name] = address
        section.reading.lines[f"egress.hosts.{name}"] = key.line
    return MappingProxyType(names)


def _read_host_name(section: Section, key: ScalarNode, example: str) -> str | None:
    try:
        name = normalise_host(key.text)
    except HostError as error:
        section.reading.error(
            key.line, f"egress.hosts: {shown(key.text)} is no host name, {error}: write {example}"
        )
        return None
    if parse_literal(name) is None:
        return name
    section.reading.error(
        key.line, f"egress.hosts: {shown(key.text)} is an address, not a name: write {example}"
    )
    return None


def _read_host_address(section: Section, item: ScalarNode, example: str) -> str | None:
    address = parse_literal(item.text.removeprefix("[").removesuffix("]") if ":" in item.text else item.text)
    if address is None:
        section.reading.error(
            item.line, f"egress.hosts: {shown(item.text)} is no address: write one without a port, {example}"
        )
        return None
    return literal_text(address) if _may_be_dialled(section, "hosts", item, address) else None


def _read_upstream_proxy(section: Section) -> str | None:
    """The proxy in one spelling. It may hold a password: no message shows any of it."""
    item = section.text("upstream_proxy", _PROXY_EXAMPLE, nullable=True)
    if item is None:
        return None
    found = _PROXY.fullmatch(item.text)
    try:
        host, port = split_authority("" if found is None else found[2])
    except HostError:
        host, port = "", 0
    if found is None or not port:
        section.reading.error(
            item.line,
            f"egress.upstream_proxy is no http:// URL with a host and a port: write {_PROXY_EXAMPLE}",
        )
        return None
    address = parse_literal(host)
    if address is not None and not _may_be_dialled(section, "upstream_proxy", item, address):
        return None
    return f"http://{found[1] or ''}{bracketed(host)}:{port}"


def bracketed(host: str) -> str:
    """A host as it stands before a port: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host
