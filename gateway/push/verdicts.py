"""The verdict on a push from those on its refs: what may be forwarded, what must be asked, what must be known first.

Pure. Each ref is decided for every kind of update that it may turn out to be, so that a kind need only be learnt
where it makes a difference. It decides nothing by itself: decisions come from the door.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gateway.policy.decision import Decision, Verdict
from gateway.policy.push import UpdateKind
from gateway.push.commands import BadRef, Command, PushCommands

# Where a decision stands that the code itself makes.
BUILT_IN: Final = "built-in"
# What an update of a branch may turn out to be, as long as nothing is proven: the last one holds if nothing ever is.
UNPROVEN: Final = (UpdateKind.FAST_FORWARD, UpdateKind.FORCE)

# The decisions on one ref, for each kind that is asked for.
Judge = Callable[[Command, Sequence[UpdateKind]], Sequence[Decision]]


@dataclass(slots=True)
class RefVerdict:
    """One ref of a push. Changes: its kind is learnt, its question settled. `possible` has the decision per kind."""

    command: Command | BadRef
    possible: Mapping[UpdateKind, Decision]
    _settled: Decision | None = field(default=None)

    @property
    def name(self) -> str:
        """Of its line in the report."""
        return self.command.wire_name

    @property
    def kind(self) -> UpdateKind:
        """The kind, or what it counts as while it is not proven to be harmless."""
        return tuple(self.possible)[-1]

    @property
    def kind_known(self) -> bool:
        """Is there one possibility left?"""
        return len(self.possible) == 1

    @property
    def decision(self) -> Decision | None:
        """The decision; None while it depends on the kind."""
        if self._settled is not None:
            return self._settled
        verdicts = {decision.verdict for decision in self.possible.values()}
        return self.possible[self.kind] if len(verdicts) == 1 else None

    @property
    def verdict(self) -> Verdict | None:
        """Of the decision."""
        decision = self.decision
        return decision.verdict if decision else None

    @property
    def approved(self) -> bool:
        """Did a person allow it?"""
        return self._settled is not None and self._settled.verdict is Verdict.ALLOW

    def learn(self, kind: UpdateKind) -> None:
        """The kind is known now."""
        self.possible = {kind: self.possible[kind]}

    def settle(self, decision: Decision) -> None:
        """This is the decision, whatever the rules said."""
        self._settled = decision


def judge_refs(
    push: PushCommands, certain: Callable[[Command], UpdateKind | None], judge: Judge
) -> tuple[RefVerdict, ...]:
    """A verdict per command, in the order of the push. `certain` is the kind where the command alone shows it."""
    verdicts = []
    for command in push.commands:
        if isinstance(command, BadRef):
            denied = Decision(Verdict.DENY, BUILT_IN, command.reason)
            verdicts.append(RefVerdict(command, {_kind_of(command): denied}))
            continue
        kind = certain(command)
        kinds = UNPROVEN if kind is None else (kind,)
        verdicts.append(RefVerdict(command, dict(zip(kinds, judge(command, kinds), strict=True))))
    return tuple(verdicts)


def sinks(push: PushCommands, refs: Iterable[RefVerdict]) -> bool:
    """Does a denial among them keep the whole push back? A pack holds the objects of all refs: were it forwarded for
    one, those that were denied would lie at GitHub. Deletions travel without; `--atomic` means all or nothing."""
    denied = [ref.verdict is Verdict.DENY for ref in refs]
    return all(denied) or (any(denied) and (push.has_pack or push.capabilities.atomic))


def open_refs(refs: Iterable[RefVerdict]) -> tuple[RefVerdict, ...]:
    """Those whose verdict depends on their kind."""
    return tuple(ref for ref in refs if ref.decision is None)


def asked_refs(refs: Iterable[RefVerdict]) -> tuple[RefVerdict, ...]:
    """Those that a person must approve."""
    return tuple(ref for ref in refs if ref.verdict is Verdict.ASK)


def allowed_commands(refs: Iterable[RefVerdict]) -> tuple[Command, ...]:
    """What may be forwarded."""
    return tuple(
        ref.command for ref in refs if ref.verdict is Verdict.ALLOW and isinstance(ref.command, Command)
    )


def _kind_of(bad: BadRef) -> UpdateKind:
    """For the record only: a name that no rule can judge is denied whatever it is."""
    if not bad.old.strip("0"):
        return UpdateKind.CREATE
    return UpdateKind.FORCE if bad.new.strip("0") else UpdateKind.DELETE
