"""What a rule is: for whom, about what, how firmly, until when. Values, and what they are held against as protocols.

Which of several rules decides stands in `rules.py`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from gateway.policy.actions import Action
from gateway.policy.decision import Verdict
from gateway.policy.marks import Mark
from gateway.policy.modes import Mode


class Enforcement(StrEnum):
    """How a denial holds: to the end, unless an approver overrides it, or not at all (but it is recorded)."""

    HARD = "hard"
    SOFT = "soft"
    ADVISORY = "advisory"


@dataclass(frozen=True, slots=True)
class Subject:
    """On whose behalf something is asked, and when (aware). An empty text is nobody's name."""

    workspace: str
    agent: str
    space: str
    mode: Mode
    now: datetime


class Request(Protocol):
    """What is attempted: a value of the action's own kind.

    `anchors` and `text` are what rules about it are found by (`Mark`); `unknown` are the facts that rules ask about and
    it does not say ("host").
    """

    @property
    def action(self) -> Action: ...

    @property
    def anchors(self) -> Iterable[str]: ...

    @property
    def text(self) -> str: ...

    @property
    def unknown(self) -> tuple[str, ...]: ...


class Constraint(Protocol):
    """One condition of a rule.

    `marks`: a request bears one of them if the constraint fits it, however widely it is read; None: that cannot be
    said. `fact`: what it asks about, where a request may leave that open ("host"); otherwise empty.
    """

    @property
    def marks(self) -> tuple[Mark, ...] | None: ...

    @property
    def fact(self) -> str: ...

    def fit(self, request: Request, *, wide: bool) -> int | None:
        """How closely it fits: 0 where there are no degrees, None for not at all.

        `wide`: read as a refusal must be read, so that another spelling of the same thing does not slip by. What fits
        as it is written also fits widely.
        """
        ...


@dataclass(frozen=True, slots=True)
class Scope:
    """Whom a rule is for; an empty text stands for everybody."""

    workspace: str = ""
    agent: str = ""
    space: str = ""

    @property
    def rank(self) -> int:
        """How narrow it is: space, agent, workspace, none. Of several, the narrowest counts."""
        return 3 if self.space else 2 if self.agent else 1 if self.workspace else 0

    def covers(self, subject: "Subject | Scope") -> bool:
        """Whether the subject is one of them."""
        pairs = (
            (self.workspace, subject.workspace),
            (self.agent, subject.agent),
            (self.space, subject.space),
        )
        return all(wanted in ("", found) for wanted, found in pairs)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `place` says where it stands ("config.yaml:7"); all of its constraints must fit.

    From `expires` (aware) on it does not exist. `note` is a line for whoever meets the rule.
    """

    action: Action
    decision: Verdict
    place: str
    scope: Scope = Scope()
    constraints: tuple[Constraint, ...] = ()
    expires: datetime | None = None
    enforcement: Enforcement = Enforcement.HARD
    note: str = ""

    @property
    def advises(self) -> bool:
        """Whether it keeps nobody from anything."""
        return self.enforcement is Enforcement.ADVISORY

    @property
    def kinds(self) -> frozenset[type[Constraint]]:
        """What it is narrowed down by."""
        return frozenset(map(type, self.constraints))

    def concerns(self, subject: Subject) -> bool:
        """Whether it is for this subject, and still exists."""
        return self.scope.covers(subject) and self.exists(subject.now)

    def exists(self, now: datetime) -> bool:
        """Whether it has not expired."""
        return self.expires is None or now < self.expires

    def lacks(self, request: Request) -> str:
        """What the request would have to say to tell whether it fits; empty where that is known."""
        missing = ""
        for constraint in self.constraints:
            fact = constraint.fact if constraint.fact in request.unknown else ""
            if not fact and constraint.fit(request, wide=True) is None:
                return ""
            missing = missing or fact
        return missing

    def fit(self, request: Request, *, wide: bool) -> int | None:
        """How closely it fits, as its closest constraint; None where one does not. An allow is never read widely."""
        closeness = 0
        for constraint in self.constraints:
            found = constraint.fit(request, wide=wide and self.decision is not Verdict.ALLOW)
            if found is None:
                return None
            closeness = max(closeness, found)
        return closeness
