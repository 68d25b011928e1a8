"""The config file: read once, every problem reported at once, compiled into the egress rules of a session.

The only home of YAML. The text is taken event by event into nodes of our own: no tag is honoured, no object
built, no alias expanded beyond a bound. A file that is missing, empty or broken is an error, never the
defaults.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, StreamMark, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from gateway.allowlists import ShippedLists, load_cautions
from gateway.config.checks import Cover, check_breadth, check_config_values
from gateway.config.file import fault_of, read_file
from gateway.config.rule_checks import check_against_managed
from gateway.config.rules import read_managed_rules
from gateway.config.schema import read_config
from gateway.config.tree import Kind, Node, Reading, ScalarNode, TreeBuilder, TreeError, masked
from gateway.config.values import Config, GitHubConfig
from gateway.errors import GatewayError, UsageError
from gateway.policy.egress import EgressRules
from gateway.policy.hosts import HostMatcher, HostPattern, PatternError, parse_pattern
from gateway.policy.lists import ParsedList
from gateway.policy.problem import Problem
from gateway.policy.rules import Rule
from gateway.policy.wording import printable

EXTRA_RULE = "--allow"
# What GitHub itself answers git at.
_GITHUB_HOSTS = frozenset({"github.com", "www.github.com"})


class ConfigError(GatewayError):
    """A config file that must not be used. `problems` are all its errors, each with its line."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(map(str, self.problems))


def _utc_now() -> datetime:
    return datetime.now(UTC)


def load_config(path: Path | None, lists: ShippedLists, clock: Callable[[], datetime] = _utc_now) -> Config:
    """The configuration of a file, or the defaults for None. ConfigError with every error at once."""
    if path is None:
        return Config()
    config, problems = _read(path, lists, clock())
    errors = tuple(problem for problem in problems if not problem.warning)
    if errors or config is None:
        raise ConfigError(errors)
    return config


def check_config(
    path: Path | None, lists: ShippedLists, clock: Callable[[], datetime] = _utc_now
) -> tuple[Problem, ...]:
    """Every error and warning of a file, by line; empty for one that is fine and for the defaults."""
    if path is None:
        return ()
    config, problems = _read(path, lists, clock())
    if config is None:
        return problems
    more = check_breadth(config, printable(str(path)), problems, load_cautions())
    return tuple(sorted((*problems, *more), key=lambda problem: problem.line)) if more else problems


def _read(path: Path, lists: ShippedLists, now: datetime) -> tuple[Config | None, tuple[Problem, ...]]:
    """The configuration (None or useless where a problem is an error) and every problem."""
    reading = Reading(printable(str(path)), printable(path.name))
    found = read_file(path, reading)
    root = None if found is None else _parse(found[1], reading)
    if found is None or root is None:
        return None, reading.problems
    config = read_config(root, reading, now)
    check_config_values(config, lists, reading)
    managed, more = _read_managed(config, reading, now)
    if all(problem.warning for problem in more):
        check_against_managed(config.rules, managed, reading)
    digest = hashlib.sha256(found[0]).hexdigest()
    config = replace(config, managed_rules=managed, source=reading.file, digest=digest)
    return config, (*reading.problems, *more)


def _read_managed(
    config: Config, reading: Reading, now: datetime
) -> tuple[tuple[Rule, ...], tuple[Problem, ...]]:
    """The rules of the managed file and every problem of it. That it cannot be read is one of the config."""
    path = config.managed_rules_file
    if path is None:
        return (), ()
    fault = fault_of(path)
    if fault is not None:
        reading.error(reading.lines["managed_rules_file"], f"managed_rules_file cannot be read, {fault}")
        return (), ()
    managed = Reading(printable(str(path)), printable(path.name))
    found = read_file(path, managed)
    root = None if found is None else _parse(found[1], managed)
    if root is None:
        return (), managed.problems
    return read_managed_rules(root, managed, now, config.workspaces), managed.problems


def _parse(text: str, reading: Reading) -> Node | None:
    """The document's root; None where nothing can be read any further (which was reported)."""
    builder, documents = TreeBuilder(reading), 0
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            documents += isinstance(event, DocumentStartEvent)
            if documents > 1:
                raise TreeError(
                    event.start_mark.line + 1, "a second document: write one file for one configuration"
                )
            _take(event, builder, reading)
    except TreeError as error:
        reading.error(error.line, str(error))
    except MarkedYAMLError as error:
        mark = _mark(error)
        reading.error(mark.line + 1 if mark else builder.line, f"not YAML: {_what(error)}")
    except (YAMLError, ValueError, OverflowError):
        reading.error(builder.line, "not YAML: a character or number that cannot be: write it in another way")
    else:
        if not _is_empty(builder.root):
            return builder.root
        reading.error(1, 'the file is empty: write a key, such as "sandbox: on", or delete the file')
    return None


def _is_empty(root: Node | None) -> bool:
    return root is None or (isinstance(root, ScalarNode) and root.kind is Kind.EMPTY)


def _mark(error: MarkedYAMLError) -> StreamMark | None:
    """Where the fault is: where something starts that never ends, otherwise where the parser stopped."""
    endless = "stream end" in (error.problem or "") or "end of stream" in (error.problem or "")
    mark = (endless and error.context_mark) or error.problem_mark or error.context_mark
    return mark if isinstance(mark, StreamMark) else None


def _what(error: MarkedYAMLError) -> str:
    """What the parser found, in its words. None of them are the file's, but for single characters."""
    context = f" {error.context}" if error.context else ""
    return (
        f"{error.problem or 'it cannot be parsed'}{context}: mend it, and put a value in quotes that "
        'starts with one of * & ! % @ ` [ { or holds ": " or " #"'
    )


def _take(event: Event, builder: TreeBuilder, reading: Reading) -> None:
    """One event of the parser into the tree."""
    line = event.start_mark.line + 1
    if isinstance(event, ScalarEvent | CollectionStartEvent) and event.tag is not None:
        reading.error(line, 'a tag ("!" and a word before a value): delete it, or put the value in quotes')
    match event:
        case DocumentStartEvent() if event.version not in (None, (1, 2)):
            raise TreeError(line, "another version of YAML: write %YAML 1.2, or delete the line")
        case MappingStartEvent() | SequenceStartEvent():
            builder.start(line, isinstance(event, MappingStartEvent), event.anchor)
        case CollectionEndEvent():
            builder.end()
        case ScalarEvent():
            builder.scalar(line, event.value, event.style is None, event.anchor)
        case AliasEvent():
            builder.alias(line, event.anchor)


def compile_egress(config: Config, lists: ShippedLists, extras: Sequence[str], network: bool) -> EgressRules:
    """The rules of one session: shipped lists, config, and `extras` (what --allow names).

    UsageError for an extra that is no pattern, or that a deny list refuses. `network` False: nothing is
    allowed.
    """
    egress = config.egress
    built_in = (*lists.baseline.patterns, *lists.github.patterns, *config.github.hosts)
    return EgressRules(
        network=network,
        ports=egress.ports,
        fixed_deny=HostMatcher(lists.deny.patterns, storage_labels=True),
        operator_deny=HostMatcher(egress.deny, storage_labels=True),
        allow=HostMatcher((*built_in, *egress.allow, *_read_extras(config, lists, extras))),
        raw={
            **_shipped_raw(lists.baseline, egress.ports),
            **_shipped_raw(lists.github, egress.ports),
            **egress.raw,
        },
        addresses=egress.addresses,
        names=egress.hosts,
        denied_networks=(*lists.deny.networks, *egress.denied_networks),
        forges=_forges(config.github),
    )


def _forges(github: GitHubConfig) -> frozenset[str]:
    """The hosts that git of a session knows the forge by."""
    host = urlsplit(github.url).hostname or ""
    return frozenset({host, *_GITHUB_HOSTS} if host in _GITHUB_HOSTS else {host})


def _shipped_raw(parsed: ParsedList, ports: frozenset[int]) -> dict[tuple[str, int], str]:
    """What a shipped list marks `raw=yes`, on the open ports; a pattern with a star cannot be raw."""
    marked = (entry for entry in parsed.entries if entry.raw and "*" not in entry.pattern)
    return {(entry.pattern, port): f"{parsed.name}:{entry.line}" for entry in marked for port in ports}


def _read_extras(config: Config, lists: ShippedLists, extras: Sequence[str]) -> tuple[HostPattern, ...]:
    denied = {
        "the fixed deny list": Cover(lists.deny.patterns, deny=True),
        "egress.deny": Cover(config.egress.deny, deny=True),
    }
    patterns: list[HostPattern] = []
    for text in extras:
        try:
            pattern = HostPattern(parse_pattern(text), EXTRA_RULE)
        except PatternError as error:
            raise UsageError(f"--allow: {masked(str(error))}") from None
        for name, cover in denied.items():
            found = cover.find(pattern)
            if found is not None:
                raise UsageError(
                    f"--allow {pattern.text} can never be reached: "
                    f"{name} refuses it ({found.rule}: {found.text})",
                    "deny beats allow; leave the option out",
                )
        patterns.append(pattern)
    return tuple(patterns)
