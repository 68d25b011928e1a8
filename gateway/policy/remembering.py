"""A yes that a person wants to be remembered: the rule that it becomes for the rest of a session, no wider than asked.

Such a rule answers what would be asked, and nothing else: it never beats a denial.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.policy.action_request import ActionRequest
from gateway.policy.decision import Verdict
from gateway.policy.push import Kinds, PushRequest, Refs, Repositories, UpdateKind
from gateway.policy.refs import HEADS, RefPatternError, parse_ref_pattern, short_name
from gateway.policy.repositories import RepositoryPatternError, parse_repository_pattern
from gateway.policy.rules import Request, Rule, Subject

# Where the rule stands until a question has given it a number.
NO_PLACE: Final = "approval"
# What a shell fills in: the same words mean something else the next time.
_FILLED_IN: Final = frozenset("$`*?[{~")
# A plain push: whoever lets a branch be made means the next commit on it as well. Nothing is lost by either.
_PLAIN: Final = frozenset({UpdateKind.CREATE, UpdateKind.FAST_FORWARD})


@dataclass(frozen=True, slots=True)
class Same:
    """Only the very same: tool, repository, and host, file or command; where none of these three is known, target."""

    asked: ActionRequest

    @property
    def marks(self) -> None:
        """These rules are few."""
        return None

    @property
    def fact(self) -> str:
        """None: it denies nothing."""
        return ""

    def fit(self, request: Request, *, wide: bool) -> int | None:
        """Letter by letter, always."""
        if not isinstance(request, ActionRequest) or _facts(request) != _facts(self.asked):
            return None
        is_told = bool(request.host or request.path or request.words)
        return 1 if is_told or request.target == self.asked.target else None


def remembered_push(request: PushRequest) -> Rule | None:
    """What a yes to this push allows in the same repository: a plain push if that was asked, else the same kind alone;
    of this ref, and where it is a branch in a folder ("feature/login"), of all branches in that folder. None where it
    can be said of no ref."""
    name = short_name(request.ref)
    folder, slash, _ = name.rpartition("/")
    text = f"{folder}/**" if slash and request.ref.startswith(HEADS) else name
    try:
        refs = Refs((parse_ref_pattern(text),))
        repositories = Repositories((parse_repository_pattern(str(request.repository)),))
    except (RefPatternError, RepositoryPatternError):
        return None
    kinds = _PLAIN if request.kind in _PLAIN else frozenset({request.kind})
    constraints = (refs, repositories, Kinds(kinds))
    return Rule(request.action, Verdict.ALLOW, NO_PLACE, constraints=constraints)


def remembered_action(request: ActionRequest) -> Rule | None:
    """What a yes to this effect allows: the very same once more. None where the same words need not mean the same."""
    if any(not _FILLED_IN.isdisjoint(word) for word in request.words):
        return None
    if not (request.host or request.path or request.words or request.target):
        return None
    return Rule(request.action, Verdict.ALLOW, NO_PLACE, constraints=(Same(request),))


def covers(rules: Sequence[Rule], subject: Subject, request: Request) -> Rule | None:
    """The first of these rules that allows the request as it is written; None where none does."""
    for rule in rules:
        if (
            rule.action is request.action
            and rule.decision is Verdict.ALLOW
            and rule.constraints
            and rule.concerns(subject)
            and rule.fit(request, wide=False) is not None
        ):
            return rule
    return None


def _facts(request: ActionRequest) -> tuple[object, ...]:
    return request.host, request.path, request.words, request.repository, request.tool
