"""The dry runs behind `agent-gateway check`: what would be decided, by the same rules, with nothing recorded."""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gateway.allowlists import CAUTIONS, REDIRECTS, load_cautions, load_shipped
from gateway.authorizer import explain
from gateway.config import Config, check_config, compile_egress, find_config, load_config
from gateway.config.values import Workspace
from gateway.errors import UsageError
from gateway.policy.decision import Decision, Verdict
from gateway.policy.egress import EgressRequest, Transport
from gateway.policy.hosts import HostError, PortError, parse_literal, split_authority
from gateway.policy.list_checks import Listing, ListKind, check_list
from gateway.policy.lists import DENY_LIST, MAX_FILE, ParsedList, parse_list
from gateway.policy.modes import Mode
from gateway.policy.network import network_denial
from gateway.policy.problem import Problem
from gateway.policy.push import PushRequest, UpdateKind, decide_push
from gateway.policy.refs import TAGS, full_name
from gateway.policy.refusals import refusal_message, shown_host
from gateway.policy.repositories import RepositoryError, RepositoryName, parse_repository
from gateway.policy.rules import Subject, most_restrictive
from gateway.policy.wording import printable

_DEFAULT_PORT = 443


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """The decision for one host and port."""

    host: str
    port: int
    decision: Decision

    @property
    def allowed(self) -> bool:
        """Whether a connection would be tried."""
        return self.decision.allowed

    def as_json(self) -> dict[str, object]:
        """For scripts: the names of the audit record and of a refusal's body."""
        return {
            "host": self.host,
            "port": self.port if self.port >= 0 else None,
            "verdict": self.decision.verdict.value,
            "code": str(self.decision.code),
            "rule": self.decision.rule,
            "message": self.decision.reason
            if self.allowed
            else refusal_message(self.decision, self.host, self.port),
        }

    def as_text(self) -> str:
        """For people: verdict, code, target, rule, reason; printable, whatever was asked for."""
        code = f" {self.decision.code}" if self.decision.code else ""
        host = shown_host(self.host)
        target = f"[{host}]" if parse_literal(self.host) is not None and ":" in host else host
        port = f":{self.port}" if self.port >= 0 else ""
        return f"{self.decision.verdict.value}{code} {target}{port} ({self.decision.rule}): {self.decision.reason}"


def check_host(
    target: str,
    config_file: str | None,
    extras: Sequence[str],
    network: bool,
    environ: Mapping[str, str],
    subject: Subject,
) -> HostAnswer:
    """The egress decision for NAME[:PORT] (port 443 unless named) in a subject's session. ConfigError, UsageError."""
    lists = load_shipped()
    config = load_config(find_config(config_file, environ), lists)
    denial = network_denial(config.rule_set, subject)
    rules = compile_egress(config, lists, extras, network and denial is None)
    request = _request(target)
    decision = explain(rules, request)
    if denial is not None and decision.code == denial.code:
        decision = denial
    return HostAnswer(request.host, request.port, decision)


def _request(target: str) -> EgressRequest:
    if "://" in target:
        return EgressRequest(Transport.CONNECT, target, -1, malformed="this is a URL: write its host alone")
    literal = parse_literal(target)
    if literal is not None and literal.version == 6:
        target = f"[{target}]"  # an IPv6 address alone may be written without brackets here
    try:
        host, port = split_authority(target, _DEFAULT_PORT)
    except PortError as error:
        host, port = error.host, error.port
    except HostError as error:
        return EgressRequest(Transport.CONNECT, target, -1, malformed=str(error))
    return EgressRequest(Transport.CONNECT, host, port)


@dataclass(frozen=True, slots=True)
class PushQuestion:
    """A push as the command line names it: a branch by its short name or in full, everything else in full.

    Without `force` and `delete`, a branch is asked about twice, as new and as moved forward: which of the two it is,
    only the repository knows. A tag that moves is always forced.
    """

    repository: str
    refs: tuple[str, ...]
    force: bool = False
    delete: bool = False
    mode: Mode = Mode.CHAT
    workspace: str = "default"
    agent: str = ""
    space: str = ""

    def kinds(self, ref: str) -> tuple[UpdateKind, ...]:
        """What the push would do to this ref (full name)."""
        tag = ref.startswith(TAGS)
        if self.delete:
            return (UpdateKind.DELETE,)
        if self.force:
            return (UpdateKind.TAG_MOVE if tag else UpdateKind.FORCE,)
        return (UpdateKind.CREATE,) if tag else (UpdateKind.CREATE, UpdateKind.FAST_FORWARD)


@dataclass(frozen=True, slots=True)
class PushAnswer:
    """The decision for every ref and kind of update. `notes` are what stands in the way of the push besides rules."""

    repository: RepositoryName
    decisions: tuple[tuple[PushRequest, Decision], ...]
    notes: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """The most restrictive of all."""
        return most_restrictive(decision.verdict for _, decision in self.decisions)

    def as_json(self) -> dict[str, object]:
        """For scripts: the names of the audit record."""
        refs = [
            {
                "ref": request.ref,
                "kind": request.kind.value,
                "verdict": decision.verdict.value,
                "code": decision.code,
                "rule": decision.rule,
                "reason": decision.reason,
            }
            for request, decision in self.decisions
        ]
        return {
            "repository": str(self.repository),
            "verdict": self.verdict.value,
            "refs": refs,
            "notes": list(self.notes),
        }

    def as_text(self) -> str:
        """For people: ref, verdict, kinds, rule and reason; a line for all kinds that a rule decides alike."""
        lines: dict[tuple[str, Verdict, str], tuple[list[str], str]] = {}
        for request, decision in self.decisions:
            kinds, _ = lines.get((request.ref, decision.verdict, decision.rule), ([], ""))
            found = [*kinds, str(request.kind)], decision.reason
            lines[request.ref, decision.verdict, decision.rule] = found
        return "\n".join(
            f"{verdict} {printable(ref)} {'/'.join(kinds)} ({rule}): {reason}"
            for (ref, verdict, rule), (kinds, reason) in lines.items()
        )


def check_push(
    question: PushQuestion, config_file: str | None, environ: Mapping[str, str], now: datetime
) -> PushAnswer:
    """What the rules say to a push at this moment (aware). ConfigError; UsageError for what is no repository."""
    try:
        repository = parse_repository(question.repository)
    except RepositoryError as error:
        raise UsageError(f"{question.repository[:200]!r} is no repository", str(error)) from None
    config = load_config(find_config(config_file, environ), load_shipped())
    subject = Subject(question.workspace, question.agent, question.space, question.mode, now)
    requests = (
        PushRequest(repository, ref, kind)
        for ref in map(full_name, question.refs)
        for kind in question.kinds(ref)
    )
    decisions = tuple((request, decide_push(config.rule_set, subject, request)) for request in requests)
    return PushAnswer(repository, decisions, tuple(_notes(config, question.workspace, repository)))


def _notes(config: Config, workspace: str, repository: RepositoryName) -> Iterator[str]:
    linked = config.workspaces.get(workspace, Workspace()).repositories
    if repository not in linked:
        yield (
            f"{repository} does not stand under workspaces.{workspace}.repositories: only a session in a worktree "
            "of its own may push to it"
        )
    if config.github.app_id is None:
        yield "github.app_id is not set: every push is refused until there is an App"


def check_file(file: str | None, environ: Mapping[str, str]) -> tuple[Problem, ...]:
    """Every problem of a config file, or of a list (its name ends in .txt); without a name of the config that `run`
    would use. UsageError for an empty name."""
    if file is None:
        return check_config(find_config(None, environ), load_shipped())
    if not file:
        raise UsageError("the path of the file is empty", "name one, or leave it out")
    path = Path(file)
    return _check_list(path, printable(file)) if path.suffix == ".txt" else check_config(path, load_shipped())


def _check_list(path: Path, name: str) -> tuple[Problem, ...]:
    try:
        # A pipe would block; one byte more than allowed tells the parser that it is too long.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return (Problem(name, 0, "no file: name the list itself"),)
            parsed = parse_list(file.read(MAX_FILE + 1), name)
    except OSError as error:
        return (Problem(name, 0, f"cannot be read: {error.strerror}"),)
    if parsed.errors or path.name in (CAUTIONS, REDIRECTS):
        return parsed.problems
    shipped = load_shipped()
    # A shipped list that is checked where it is edited is not held against itself.
    others = tuple(
        _listing(one) for one in (shipped.baseline, shipped.github, shipped.deny) if one.name != path.name
    )
    more = check_list(_listing(parsed), others, load_cautions())
    return tuple(sorted((*parsed.problems, *more), key=lambda problem: problem.line))


def _listing(parsed: ParsedList) -> Listing:
    kind = ListKind.DENY if parsed.name.rpartition("/")[2] == DENY_LIST else ListKind.ALLOW
    marked = frozenset(f"{parsed.name}:{entry.line}" for entry in parsed.entries if entry.risk)
    return Listing(parsed.name, kind, parsed.patterns, marked)
