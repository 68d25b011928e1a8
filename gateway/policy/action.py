"""May this be done? The decision on one effect of a tool call or a shell line, in words.

Pushes are decided in `push.py`: this is for everything else that there are rules about.
"""

from gateway.policy.action_request import ActionRequest
from gateway.policy.actions import LABELS
from gateway.policy.decision import Decision, Verdict
from gateway.policy.modes import READ_ONLY
from gateway.policy.reasons import VERBS, because, cut, decided
from gateway.policy.rules import RuleSet, Ruling, Subject, decide_action, find_undecided, is_stricter


def decide_request(rules: RuleSet, subject: Subject, request: ActionRequest) -> Decision:
    """The decision for one effect. The reason is one printable line of at most 300 characters; `code` is
    OVERRIDABLE for a denial that an approver may override.

    Where a rule restricts hosts, paths or repositories and the request does not say which one it is about, it may be
    one of those: that is asked about. Modes that only read deny what would be asked.
    """
    ruling = decide_action(rules, subject, request)
    asked = Verdict.DENY if subject.mode in READ_ONLY else Verdict.ASK
    if is_stricter(asked, ruling.verdict):
        for rule, fact in find_undecided(rules, subject, request):
            why = f": the {fact} cannot be told, and {cut(rule.place)} would {rule.decision} some"
            return _decision(Ruling(asked, rule.place), request, why)
    why = because(ruling, subject)
    if ruling.verdict is Verdict.ASK and asked is Verdict.DENY:
        why = f"{why}, which asks first: in mode {subject.mode} nobody is asked"
        return _decision(Ruling(asked, ruling.place), request, why)
    return _decision(ruling, request, why)


def _decision(ruling: Ruling, request: ActionRequest, why: str) -> Decision:
    return decided(ruling, f"{LABELS[request.action]} {VERBS[ruling.verdict]} {_shown(request)}{why}")


def _shown(request: ActionRequest) -> str:
    """What it is about, as people call it."""
    words = " ".join(request.words)
    return cut(request.target or request.host or request.path or words or request.tool or "this")
