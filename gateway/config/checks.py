"""Contradictions among the values of a config file and the shipped lists, and entries without effect."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from gateway.allowlists import ShippedLists
from gateway.config.github import SCHEME_PORTS
from gateway.config.tree import Reading, line_of
from gateway.config.values import GITHUB_API_URL, GITHUB_URL, Config
from gateway.policy.addresses import Address, Network, carried, refused_class
from gateway.policy.cautions import Cautions
from gateway.policy.hosts import HostMatcher, HostPattern, literal_text, parse_literal
from gateway.policy.list_checks import Cover as Cover
from gateway.policy.list_checks import breadth, never
from gateway.policy.problem import Problem


@dataclass(frozen=True, slots=True)
class _Lists:
    """Everything that denies and everything that allows, once for all checks."""

    fixed_deny: Cover
    operator_deny: Cover
    shipped: Cover
    own: Cover
    allow: HostMatcher
    deny: HostMatcher
    networks: tuple[tuple[Network, str], ...]

    def allows(self, host: str) -> bool:
        """Whether the name is allowed when no session adds anything."""
        return self.allow.match(host) is not None and self.deny.match(host) is None

    def denied_network(self, address: Address) -> str:
        """The rule of the denied network that holds the address, or one inside it; "" if none does."""
        inside = tuple(carried(address))
        return next((rule for network, rule in self.networks if any(one in network for one in inside)), "")


def check_config_values(config: Config, shipped: ShippedLists, reading: Reading) -> None:
    """Reports into `reading` every contradiction and every entry without effect."""
    lists = _compile(config, shipped)
    _check_allow(config, lists, reading)
    _check_deny(config, lists, reading)
    _check_raw(config, lists, reading)
    _check_addresses(config, lists, reading)
    _check_hosts(config, lists, reading)
    _check_github(config, lists, reading)


def _compile(config: Config, shipped: ShippedLists) -> _Lists:
    egress, built_in = (
        config.egress,
        (*shipped.baseline.patterns, *shipped.github.patterns, *config.github.hosts),
    )
    return _Lists(
        fixed_deny=Cover(shipped.deny.patterns, deny=True),
        operator_deny=Cover(egress.deny, deny=True),
        shipped=Cover(built_in),
        own=Cover(egress.allow),
        allow=HostMatcher((*built_in, *egress.allow)),
        deny=HostMatcher((*shipped.deny.patterns, *egress.deny), storage_labels=True),
        networks=(*shipped.deny.networks, *egress.denied_networks),
    )


def check_breadth(
    config: Config, file: str, problems: tuple[Problem, ...], cautions: Cautions
) -> tuple[Problem, ...]:
    """Warnings of entries that allow more than one may think; not of those that another problem is about."""
    told = {problem.line for problem in problems}
    found = [(line_of(entry.rule), entry.text, breadth(entry, cautions)) for entry in config.egress.allow]
    return tuple(
        Problem(file, line, f"egress.allow: {text} allows more than one may think: {why}", warning=True)
        for line, text, why in found
        if why and line not in told
    )


def _check_allow(config: Config, lists: _Lists, reading: Reading) -> None:
    for entry in config.egress.allow:
        if why := "" if entry.text in config.egress.hosts else never(entry):
            reading.error(
                line_of(entry.rule), f"egress.allow: {entry.text} can never match: {why}: delete it"
            )
            continue
        if _refused(entry, "egress.allow", lists, reading):
            continue
        first, shipped, wider = lists.own.same(entry), lists.shipped.find(entry), lists.own.wider(entry)
        if first is not None and first is not entry:
            _without_effect(entry, "egress.allow", f"stands in {first.rule} already", reading)
        elif shipped is not None:
            _without_effect(
                entry, "egress.allow", f"is allowed already by {shipped.rule} ({shipped.text})", reading
            )
        elif wider is not None:
            _without_effect(entry, "egress.allow", f"is covered by {wider.text} ({wider.rule})", reading)


def _refused(entry: HostPattern, key: str, lists: _Lists, reading: Reading) -> bool:
    """Whether a deny list refuses all that the entry could allow; reports if so."""
    for name, cover in (("the fixed deny list", lists.fixed_deny), ("egress.deny", lists.operator_deny)):
        found = cover.find(entry)
        if found is not None:
            reading.error(
                line_of(entry.rule),
                f"{key}: {entry.text} can never be reached, {name} refuses it ({found.rule}: "
                f"{found.text}) and deny beats allow: delete the entry",
            )
            return True
    return False


def _without_effect(entry: HostPattern, key: str, why: str, reading: Reading) -> None:
    reading.warn(line_of(entry.rule), f"{key}: {entry.text} {why}: delete the entry")


def _check_deny(config: Config, lists: _Lists, reading: Reading) -> None:
    for entry in config.egress.deny:
        first = lists.operator_deny.same(entry)
        wider = lists.fixed_deny.find(entry) or lists.operator_deny.wider(entry)
        apex = entry.text.removeprefix("*.")
        if first is not None and first is not entry:
            _without_effect(entry, "egress.deny", f"stands in {first.rule} already", reading)
        elif wider is not None:
            _without_effect(
                entry, "egress.deny", f"is denied already by {wider.rule} ({wider.text})", reading
            )
        elif apex != entry.text and lists.deny.match(apex) is None:
            reading.warn(
                line_of(entry.rule),
                f"egress.deny: {entry.text} does not cover {apex}: add {apex} if it is meant",
            )


def _check_raw(config: Config, lists: _Lists, reading: Reading) -> None:
    for (host, port), rule in config.egress.raw.items():
        literal = parse_literal(host)
        if literal is None and not lists.allows(host):
            where = (
                "egress.deny or the fixed deny list refuses it"
                if lists.deny.match(host)
                else "nothing allows it"
            )
            reading.warn(
                line_of(rule), f"egress.raw: {host} is not reachable, {where}: add it to egress.allow"
            )
        elif literal is not None and (literal, port) not in config.egress.addresses:
            reading.warn(
                line_of(rule),
                f"egress.raw: {host} is not reachable: add it with port {port} to egress.addresses",
            )


def _check_addresses(config: Config, lists: _Lists, reading: Reading) -> None:
    for (address, _), rule in config.egress.addresses.items():
        denied = lists.denied_network(address)
        if denied:
            reading.error(
                line_of(rule),
                f"egress.addresses: {literal_text(address)} can never be reached, {denied} denies it: "
                "delete the entry",
            )


def _check_hosts(config: Config, lists: _Lists, reading: Reading) -> None:
    listed = {address for address, _ in config.egress.addresses}
    for name, text in config.egress.hosts.items():
        line, address = reading.lines.get(f"egress.hosts.{name}", 0), parse_literal(text)
        denied = "" if address is None else lists.denied_network(address)
        if denied:
            reading.error(
                line, f"egress.hosts: {name} can never be reached, {denied} denies {text}: delete the entry"
            )
            continue
        if not lists.allows(name):
            reading.warn(line, f"egress.hosts: {name} is not allowed by anything: add it to egress.allow")
        if address is not None and refused_class(address) is not None and address not in listed:
            reading.warn(
                line,
                f"egress.hosts: {text} is not public, so {name} cannot be reached: add it with a port to "
                "egress.addresses",
            )


def _check_github(config: Config, lists: _Lists, reading: Reading) -> None:
    for entry in config.github.hosts:
        _refused(entry, "github", lists, reading)
    github = config.github
    if (github.url == GITHUB_URL) is not (github.api_url == GITHUB_API_URL):
        key = "url" if github.url == GITHUB_URL else "api_url"
        reading.warn(
            _first_line(reading, "github.api_url", "github.url"),
            f"github.{key} is still that of github.com while the other is not: write both "
            "(the API is often at /api/v3)",
        )
    for key, url in (("github.url", github.url), ("github.api_url", github.api_url)):
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or SCHEME_PORTS[parts.scheme]
        opened = {listed for _, listed in config.egress.addresses}
        if (
            port not in config.egress.ports | opened
            and (host, port) not in config.egress.raw
            and key in reading.lines
        ):
            reading.warn(reading.lines[key], f"{key}: port {port} is not open: add it to egress.ports")


def _first_line(reading: Reading, *keys: str) -> int:
    return next((reading.lines[key] for key in keys if key in reading.lines), 0)
