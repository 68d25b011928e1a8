"""Has a session a network at all? The rule "Access network", read once when a session opens."""

from gateway.policy.action_request import ActionRequest
from gateway.policy.actions import LABELS, Action
from gateway.policy.decision import Decision, Verdict
from gateway.policy.egress import Code
from gateway.policy.rules import RuleSet, Subject, decide_action


def network_denial(rules: RuleSet, subject: Subject) -> Decision | None:
    """The denial of a session's network; None where it has one: a question is no denial here. Rules about single hosts
    or commands do not count: those are for shell lines and web tools."""
    ruling = decide_action(rules, subject, ActionRequest(Action.ACCESS_NETWORK))
    if ruling.verdict is not Verdict.DENY:
        return None
    reason = f"the network is off: {LABELS[Action.ACCESS_NETWORK]} is denied by {ruling.place}"
    return Decision(Verdict.DENY, ruling.place, reason, Code.NETWORK_OFF)
