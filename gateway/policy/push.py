"""May this ref of a push be updated in this way? The request, its constraints, and the decision in words.

Says nothing about which repositories a session may push to at all, and never sees the bytes of a push.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from gateway.policy.actions import LABELS, Action
from gateway.policy.decision import Decision, Verdict
from gateway.policy.refs import TAGS, RefPattern, is_ref_name, short_name, special_ref
from gateway.policy.repositories import RepositoryName, RepositoryPattern
from gateway.policy.rules import (
    DEFAULT,
    OVERRIDABLE,
    Enforcement,
    Request,
    RuleSet,
    Ruling,
    Subject,
    decide_action,
)
from gateway.policy.wording import printable

__all__ = [
    "OVERRIDABLE",
    "Kinds",
    "PushRequest",
    "Refs",
    "Repositories",
    "Subject",
    "Tags",
    "UpdateKind",
    "decide_push",
]

BUILT_IN: Final = "built-in"
# Characters. A refusal is one line of git's output, with the ref's name before it; a note is a remark, not a text.
MAX_REASON: Final = 300
MAX_NOTE: Final = 80
_MAX_SHOWN: Final = 60
_MAX_PLACE: Final = 40
# Patterns that a refusal tries and names.
_TRIED: Final = 4
_NAMED: Final = 3
_REMEMBERED: Final = 64


class UpdateKind(StrEnum):
    """What a push does to one ref. What cannot be proven to be a fast-forward is forced."""

    CREATE = "create"
    FAST_FORWARD = "fast-forward"
    FORCE = "force"
    DELETE = "delete"
    TAG_MOVE = "tag-move"


_VERBS: Final = MappingProxyType(
    {
        Verdict.ALLOW: "is allowed for",
        Verdict.ASK: "needs an approval for",
        Verdict.DENY: "is denied for",
    }
)
_WOULD: Final = MappingProxyType({Verdict.ALLOW: "allow", Verdict.ASK: "ask about", Verdict.DENY: "deny"})
_KINDS: Final = MappingProxyType(
    {
        UpdateKind.CREATE: " (new)",
        UpdateKind.FAST_FORWARD: "",
        UpdateKind.FORCE: " (forced)",
        UpdateKind.DELETE: " (deletion)",
        UpdateKind.TAG_MOVE: " (moved tag)",
    }
)
# What the config calls an update, and what it calls force: a moved tag is lost where it was, as a rewritten branch is.
UPDATES: Final = frozenset({UpdateKind.FAST_FORWARD, UpdateKind.FORCE, UpdateKind.TAG_MOVE})
FORCED: Final = frozenset({UpdateKind.FORCE, UpdateKind.TAG_MOVE})


@dataclass(frozen=True, slots=True)
class PushRequest:
    """One ref of a push. `ref` is a full, valid name."""

    repository: RepositoryName
    ref: str
    kind: UpdateKind

    @property
    def action(self) -> Action:
        """What rules call it."""
        return Action.PUSH


@dataclass(frozen=True, slots=True)
class Refs:
    """Only these refs."""

    patterns: tuple[RefPattern, ...]

    def fit(self, request: Request, *, wide: bool) -> int | None:
        """Exactly for an allow; widely, in any case and form of the letters, for a denial or a question."""
        return _fits(
            isinstance(request, PushRequest)
            and any(pattern.matches(request.ref, fold=wide) for pattern in self.patterns)
        )


@dataclass(frozen=True, slots=True)
class Repositories:
    """Only in these repositories, in whatever case they are written."""

    patterns: tuple[RepositoryPattern, ...]

    def fit(self, request: Request, *, wide: bool) -> int | None:
        """The same for every verdict: GitHub takes all spellings for one repository."""
        return _fits(
            isinstance(request, PushRequest)
            and any(pattern.matches(request.repository) for pattern in self.patterns)
        )


@dataclass(frozen=True, slots=True)
class Kinds:
    """Only these kinds of update."""

    kinds: frozenset[UpdateKind]

    def fit(self, request: Request, *, wide: bool) -> int | None:
        """The same for every verdict."""
        return _fits(isinstance(request, PushRequest) and request.kind in self.kinds)


@dataclass(frozen=True, slots=True)
class Tags:
    """Only tags."""

    def fit(self, request: Request, *, wide: bool) -> int | None:
        """The same for every verdict."""
        return _fits(isinstance(request, PushRequest) and request.ref.startswith(TAGS))


def _fits(holds: bool) -> int | None:
    """Constraints of a push are all equally close."""
    return 1 if holds else None


def decide_push(rules: RuleSet, subject: Subject, request: PushRequest) -> Decision:
    """The decision for one ref of a push. The reason is one printable line of at most 300 characters.

    `code` is OVERRIDABLE for a denial that an approver may override with a reason.
    """
    special = special_ref(request.ref) if is_ref_name(request.ref) else "this is no valid name of a ref"
    if special is not None:
        return _decision(Ruling(Verdict.DENY, BUILT_IN), request, f": {special}")
    ruling = decide_action(rules, subject, request)
    if ruling.verdict is Verdict.ALLOW:
        return _decision(ruling, request, _because(ruling, subject))
    return _decision(
        ruling,
        request,
        _because(ruling, subject) + _allowed(rules, subject, request.repository, request.kind),
    )


def _decision(ruling: Ruling, request: PushRequest, because: str) -> Decision:
    soft = ruling.rule is not None and ruling.rule.enforcement is Enforcement.SOFT
    text = (
        f"{LABELS[Action.PUSH]} {_VERBS[ruling.verdict]} {_shown(request.ref)}{_KINDS[request.kind]}{because}"
    )
    code = OVERRIDABLE if soft and ruling.verdict is Verdict.DENY else ""
    return Decision(ruling.verdict, ruling.place, _cut(printable(text), MAX_REASON), code)


def _because(ruling: Ruling, subject: Subject) -> str:
    """Which rule decided and what it says, or why there is none."""
    rule = ruling.rule
    if rule is None and ruling.place == DEFAULT:
        return ": no rule decides about it"
    if rule is None:
        return f": this session is in mode {subject.mode}, which changes nothing"
    place, note = _cut(rule.place, _MAX_PLACE), f" ({_cut(rule.note, MAX_NOTE)})" if rule.note else ""
    if rule.advises:
        return f": {place} would {_WOULD[rule.decision]} it, but only advises{note}"
    return f" by {place}{note}"


@lru_cache(_REMEMBERED)
def _allowed(rules: RuleSet, subject: Subject, repository: RepositoryName, kind: UpdateKind) -> str:
    """Where a push of this kind to this repository would go through: patterns of allow rules that hold to the end.

    Remembered, since it is the same for all refs of a push, and there may be two thousand.
    """
    found = sorted(
        {
            pattern
            for rule in rules.rules
            if rule.action is Action.PUSH and rule.decision is Verdict.ALLOW and rule.concerns(subject)
            for constraint in rule.constraints
            if isinstance(constraint, Refs)
            for pattern in constraint.patterns
            if len(pattern.text) <= _MAX_SHOWN
        },
        key=lambda pattern: (len(pattern.text), pattern.text),
    )
    tried = ((pattern, _trial(repository, kind, pattern)) for pattern in found[:_TRIED])
    holding = [pattern.text for pattern, trial in tried if _would_pass(rules, subject, trial)]
    return f"; allowed here: {', '.join(holding[:_NAMED])}" if holding else ""


def _trial(repository: RepositoryName, kind: UpdateKind, pattern: RefPattern) -> PushRequest:
    """The same deed to a ref that the pattern matches: a forced update of a tag has a name of its own."""
    tag = pattern.sample.startswith(TAGS)
    if kind in UPDATES:
        kind = UpdateKind.TAG_MOVE if tag else UpdateKind.FORCE if kind in FORCED else kind
    return PushRequest(repository, pattern.sample, kind)


def _would_pass(rules: RuleSet, subject: Subject, trial: PushRequest) -> bool:
    """Whether it would be allowed: another rule may take back what one allows."""
    return special_ref(trial.ref) is None and decide_action(rules, subject, trial).verdict is Verdict.ALLOW


def _shown(ref: str) -> str:
    """The ref as rules call it. Other letters than ASCII's are spelt out: many look like others."""
    name = short_name(ref)
    if name.isascii():
        return _cut(name, _MAX_SHOWN)
    return _cut(name.encode("unicode_escape", "surrogatepass").decode(), _MAX_SHOWN) + " (not ASCII)"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."
