"""What would have let through what was refused: lines for a list, each with why one might not want it.

It changes nothing. An exact host first; a wildcard only where several hosts of one zone were refused, and where no
stranger chooses names in it. What the fixed deny list refuses is never suggested.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.audit.names import LogFile
from gateway.policy.addresses import is_metadata, refused_class
from gateway.policy.cautions import Cautions
from gateway.policy.hosts import HostPattern, parse_literal
from gateway.policy.list_checks import breadth
from gateway.policy.lists import DENY_LIST, ListEntry
from gateway.policy.wording import printable
from gateway.review.picking import condition
from gateway.review.reading import Damages, Progress
from gateway.review.selection import Selection
from gateway.review.store import Store

# Refused hosts of one zone from which on a wildcard is worth a thought.
SIBLINGS: Final = 3
# Seconds within which a client follows a redirect that was seen, and one that must be guessed inside TLS.
_FOLLOWS: Final = 10
_GUESSED: Final = 30
_ASKED: Final = """
    SELECT code, host, coalesce(port, -1), arg_max(coalesce(rule, ''), ts), arg_max(coalesce(address, ''), ts),
           sum(if(state = 'refused', greatest(coalesce("count", 1), 0), 1)), count(DISTINCT session)
    FROM lines WHERE event = 'egress' AND verdict = 'deny' AND host IS NOT NULL AND code IS NOT NULL AND ({where})
    GROUP BY code, host, coalesce(port, -1)"""
# For each refused host: those whose answer sent the same session's client on just before, by status or as is known.
# Both are cut into spans of so many seconds, so that a long session is not compared with all of itself.
_SENT_ON: Final = """
    WITH moments AS (
        SELECT session, host, epoch(TRY_CAST(ts AS TIMESTAMP))::BIGINT AS moment, state, verdict, code, status
        FROM lines WHERE event = 'egress' AND session IS NOT NULL AND host IS NOT NULL
    ), refused AS (
        SELECT DISTINCT session, host, moment, moment // {guessed} AS span
        FROM moments WHERE state = 'refused' AND code = 'not_listed'
    ), sources AS (
        SELECT DISTINCT session, host, moment, coalesce(status BETWEEN 300 AND 399, false) AS is_seen
        FROM moments WHERE verdict = 'allow' AND (status BETWEEN 300 AND 399 OR list_contains(?, host))
    ), spans AS (
        SELECT *, unnest([moment // {guessed}, moment // {guessed} + 1]) AS span FROM sources
    )
    SELECT refused.host, spans.host, bool_or(is_seen), count(*)
    FROM refused JOIN spans ON refused.session = spans.session AND refused.span = spans.span
        AND spans.moment <= refused.moment
        AND spans.moment >= refused.moment - if(is_seen, {follows}, {guessed})
    GROUP BY refused.host, spans.host"""
_NEVER_BY_CODE: Final[Mapping[str, str]] = {
    "self_connection": "the gateway's own listeners are never reached through it",
    "push_bypass": "pushes go through the push gateway, and no other way",
}
_NO_LINE: Final[Mapping[str, str]] = {
    "network_off": "the session had no network: run it without --no-network",
    "limit": "the session's limits were reached: egress.limits",
    "sni_mismatch": "the client named another host in TLS than it asked for",
    "sni_missing": "the client named no host in TLS",
    "authority_mismatch": "the request named another host than the connection",
    "malformed_host": "what was asked for is no host",
    "malformed_request": "the request could not be read",
    "policy_changed": "the lists changed while it was open",
    "timeout": "the client was too slow",
    "internal": "the gateway could not decide or record it",
}


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A line, where it belongs ("egress.allow"), what it is for, and why one might not want it.

    `line` is empty where no line would help, or none may: `never` then says why. `from_hosts` sent the client there.
    """

    key: str
    line: str
    hosts: tuple[str, ...]
    code: str
    refusals: int
    cautions: tuple[str, ...] = ()
    from_hosts: tuple[str, ...] = ()
    never: str = ""

    def as_json(self) -> dict[str, object]:
        """For a program."""
        return {
            "key": self.key,
            "line": self.line,
            "hosts": list(self.hosts),
            "code": self.code,
            "refusals": self.refusals,
            "cautions": list(self.cautions),
            "redirected_from": list(self.from_hosts),
            "never": self.never,
        }


@dataclass(frozen=True, slots=True)
class Refused:
    """What was refused with one code: host, port, the rule, the address it resolved to, how often."""

    code: str
    host: str
    port: int
    rule: str
    address: str
    count: int


@dataclass(slots=True)
class Knowledge:
    """What suggestions are judged by. `denied` are the entries of the fixed deny list by their rule; `sent_on` says for
    a host which others sent a client there, and whether that was seen."""

    cautions: Cautions
    denied: Mapping[str, ListEntry]
    sent_on: Mapping[str, tuple[tuple[str, bool], ...]] = field(default_factory=dict)


def find_refused(
    files: Sequence[LogFile],
    selection: Selection,
    cautions: Cautions,
    damages: Damages | None,
    progress: Progress | None = None,
) -> tuple[tuple[Refused, ...], Mapping[str, tuple[tuple[str, bool], ...]]]:
    """What was refused, and from where clients were sent to it; `damages` hears what could not be read, None where that
    is known already. GatewayError, UnreadableFile."""
    where, values = condition(selection)
    with Store(files) as store:
        rows = store.query(_ASKED.format(where=where), values, progress)
        pairs: list[tuple[Any, ...]] = []
        if any(row[0] == "not_listed" for row in rows):
            query = _SENT_ON.format(follows=_FOLLOWS, guessed=_GUESSED)
            pairs = store.query(query, [sorted(cautions.sources)], progress)
        if damages is not None:
            store.damages(damages)
    refused = tuple(
        Refused(str(code), str(host), int(port), str(rule), str(address), int(count))
        for code, host, port, rule, address, count, _ in rows
    )
    return refused, _sent_on(pairs, cautions)


def _sent_on(
    pairs: Iterable[tuple[Any, ...]], cautions: Cautions
) -> Mapping[str, tuple[tuple[str, bool], ...]]:
    found: dict[str, list[tuple[str, bool]]] = defaultdict(list)
    for target, source, is_seen, _ in sorted(pairs, key=lambda pair: (-int(pair[3]), str(pair[1]))):
        known = cautions.redirects_of(str(source))
        if source != target and (is_seen or (known is not None and known.match(str(target)))):
            found[str(target)].append((str(source), bool(is_seen)))
    return {target: tuple(sources[:3]) for target, sources in found.items()}


def suggest(refused: Sequence[Refused], knowledge: Knowledge) -> tuple[Suggestion, ...]:
    """Suggestions, what was refused most first; then what no line mends."""
    found = [_suggest(one, knowledge) for one in _by_target(refused)]
    found += _wildcards(refused, knowledge)
    return tuple(sorted(found, key=lambda one: (not one.line, -one.refusals, one.line, one.hosts)))


def _by_target(refused: Sequence[Refused]) -> Iterator[Refused]:
    """One for each line that may come of it: ports count only where a line names one."""
    merged: dict[tuple[str, str, int], Refused] = {}
    for one in sorted(refused, key=lambda one: one.count):
        key = (one.code, one.host, one.port if one.code in _WITH_PORT else -1)
        before = merged.get(key)
        count = one.count + (before.count if before else 0)
        merged[key] = Refused(one.code, one.host, one.port, one.rule, one.address, count)
    yield from merged.values()


_WITH_PORT: Final = frozenset({"port", "ip_literal", "resolved_address", "not_tls"})


def _suggest(one: Refused, knowledge: Knowledge) -> Suggestion:
    match one.code:
        case "not_listed":
            return _host(one, knowledge)
        case "denied":
            return _denied(one, knowledge)
        case "ip_literal" | "resolved_address":
            return _address(one)
        case "port":
            return _made(
                one,
                "egress.ports",
                str(one.port),
                "opens this port of every allowed host; an entry in egress.raw opens it for one host, but then "
                "for any protocol",
            )
        case "not_tls":
            return _made(
                one,
                "egress.raw",
                f'"{one.host}:{one.port}"',
                "whatever is spoken there is not looked at: neither TLS nor the name in it",
            )
        case _:
            never = _NEVER_BY_CODE.get(one.code) or _NO_LINE.get(one.code) or "no line of a list changes that"
            return Suggestion("", "", (one.host,), one.code, one.count, never=never)


def _made(one: Refused, key: str, line: str, *cautions: str) -> Suggestion:
    return Suggestion(key, line, (one.host,), one.code, one.count, tuple(filter(None, cautions)))


def _host(one: Refused, knowledge: Knowledge) -> Suggestion:
    caution = knowledge.cautions.of_host(one.host)
    sources = knowledge.sent_on.get(one.host, ())
    told = tuple(f"{source}" if is_seen else f"{source} (probably)" for source, is_seen in sources)
    made = _made(one, "egress.allow", one.host, str(caution) if caution else "")
    return Suggestion(made.key, made.line, made.hosts, made.code, made.refusals, made.cautions, told)


def _denied(one: Refused, knowledge: Knowledge) -> Suggestion:
    entry = knowledge.denied.get(one.rule)
    if one.rule.startswith(f"{DENY_LIST}:"):
        what = f" ({entry.group}: {entry.why})" if entry is not None else ""
        never = f"never: the fixed deny list refuses it by {one.rule}{what}, and nothing overrides that"
    else:
        never = (
            f"your own entry refuses it: {one.rule}. Deny beats allow, so only deleting that entry would help"
        )
    return Suggestion("", "", (one.host,), one.code, one.count, never=never)


def _address(one: Refused) -> Suggestion:
    address = parse_literal(one.host if one.code == "ip_literal" else one.address)
    if address is None or one.port < 0:
        return Suggestion("", "", (one.host,), one.code, one.count, never="the address is not on record")
    if is_metadata(address):
        never = "never: the address of a metadata service, which hands out the host's credentials"
        return Suggestion("", "", (one.host,), one.code, one.count, never=never)
    text = f"[{address}]" if address.version == 6 else str(address)
    kind = refused_class(address)
    caution = (
        f"a {kind} address: whatever listens there takes the agent for one of its own network"
        if kind is not None
        else "an address has no name that a list could judge, and who has it may change"
    )
    return _made(one, "egress.addresses", f'"{text}:{one.port}"', caution)


def _wildcards(refused: Sequence[Refused], knowledge: Knowledge) -> Iterator[Suggestion]:
    """A wildcard for each zone of which several hosts were refused, and in which no stranger chooses names."""
    zones: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for one in refused:
        zone = one.host.partition(".")[2]
        if one.code == "not_listed" and "." in zone and parse_literal(one.host) is None:
            zones[zone][one.host] += one.count
    for zone, hosts in zones.items():
        pattern = HostPattern(f"*.{zone}", "")
        if len(hosts) < SIBLINGS or breadth(pattern, knowledge.cautions):
            continue
        if any(knowledge.cautions.of_host(host) for host in hosts):
            continue
        yield Suggestion(
            "egress.allow",
            f'"{pattern.text}"',
            tuple(sorted(hosts)),
            "not_listed",
            sum(hosts.values()),
            (
                f"instead of the {len(hosts)} lines for its hosts: lets in every other name below {zone} as well",
            ),
        )


def suggestions_text(suggestions: Sequence[Suggestion]) -> str:
    """For a person: the lines as they stand in a config file, each with its reasons; then what no line mends."""
    if not suggestions:
        return "nothing was refused"
    parts: list[str] = []
    keys = dict.fromkeys(one.key for one in suggestions if one.line)
    for key in keys:
        lines = [f"{key}:"]
        for one in suggestions:
            if one.key == key and one.line:
                lines += _entry(one)
        parts.append("\n".join(lines))
    rest = [one for one in suggestions if not one.line]
    if rest:
        parts.append("\n".join(["no line for these:", *(_refusal(one) for one in rest)]))
    return "\n\n".join(parts)


def _entry(one: Suggestion) -> Iterator[str]:
    yield printable(f"  - {one.line}  # refused {_times(one)} ({one.code})")
    if one.key != "egress.allow":
        yield printable(f"      # for {', '.join(one.hosts[:5])}")
    for host in one.from_hosts:
        yield printable(f"      # redirected there from {host}, which is allowed")
    for caution in one.cautions:
        yield printable(f"      # but: {caution}")


def _refusal(one: Suggestion) -> str:
    return printable(f"  {', '.join(one.hosts[:5])}  ({one.code}, {_times(one)}): {one.never}")


def _times(one: Suggestion) -> str:
    return f"{one.refusals} time{'' if one.refusals == 1 else 's'}"
