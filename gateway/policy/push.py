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
from gateway.policy.marks import Mark
from gateway.policy.reasons import MAX_SHOWN, VERBS, because, cut, decided
from gateway.policy.refs import TAGS, RefPattern, is_ref_name, name_anchor, name_text, short_name, special_ref
from gateway.policy.repositories import RepositoryName, RepositoryPattern
from gateway.policy.rules import OVERRIDABLE, Request, RuleSet, Ruling, Subject, decide_action

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

    @property
    def anchors(self) -> tuple[str]:
        """How its name begins."""
        return (name_anchor(short_name(self.ref)),)

    @property
    def text(self) -> str:
        """Its name and the repository's."""
        return f"{name_text(short_name(self.ref))}\0{'/'.join(self.repository.key)}"

    @property
    def unknown(self) -> tuple[str, ...]:
        """It says all of it."""
        return ()


@dataclass(frozen=True, slots=True)
class Refs:
    """Only these refs."""

    patterns: tuple[RefPattern, ...]

    @property
    def marks(self) -> tuple[Mark, ...]:
        """How the names begin, where a pattern says so, and the longest part of them."""
        return tuple(pattern.mark for pattern in self.patterns)

    @property
    def fact(self) -> str:
        """A push says all of it."""
        return ""

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

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The longest part of each."""
        return tuple(pattern.mark for pattern in self.patterns)

    @property
    def fact(self) -> str:
        """A push says all of it."""
        return ""

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

    @property
    def marks(self) -> None:
        """It says nothing about names."""
        return None

    @property
    def fact(self) -> str:
        """A push says all of it."""
        return ""

    def fit(self, request: Request, *, wide: bool) -> int | None:
        """The same for every verdict."""
        return _fits(isinstance(request, PushRequest) and request.kind in self.kinds)


@dataclass(frozen=True, slots=True)
class Tags:
    """Only tags."""

    @property
    def marks(self) -> None:
        """It says nothing about names."""
        return None

    @property
    def fact(self) -> str:
        """A push says all of it."""
        return ""

    def fit(self, request: Request, *, wide: bool) -> int | None:
        """The same for every verdict."""
        return _fits(isinstance(request, PushRequest) and request.ref.startswith(TAGS))


def _fits(holds: bool) -> int | None:
    """Constraints of a push have no degrees."""
    return 0 if holds else None


def decide_push(rules: RuleSet, subject: Subject, request: PushRequest) -> Decision:
    """The decision for one ref of a push. The reason is one printable line of at most 300 characters.

    `code` is OVERRIDABLE for a denial that an approver may override with a reason.
    """
    special = special_ref(request.ref) if is_ref_name(request.ref) else "this is no valid name of a ref"
    if special is not None:
        return _decision(Ruling(Verdict.DENY, BUILT_IN), request, f": {special}")
    ruling = decide_action(rules, subject, request)
    if ruling.verdict is Verdict.ALLOW:
        return _decision(ruling, request, because(ruling, subject))
    return _decision(
        ruling,
        request,
        because(ruling, subject) + _allowed(rules, subject, request.repository, request.kind),
    )


def _decision(ruling: Ruling, request: PushRequest, why: str) -> Decision:
    shown = f"{_shown(request.ref)}{_KINDS[request.kind]}"
    return decided(ruling, f"{LABELS[Action.PUSH]} {VERBS[ruling.verdict]} {shown}{why}")


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
            if len(pattern.text) <= MAX_SHOWN
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
        return cut(name)
    return cut(name.encode("unicode_escape", "surrogatepass").decode()) + " (not ASCII)"
