"""Tool calls before the rules: named rows of call, mode, verdict and rule."""

from datetime import UTC, datetime

import pytest

from gateway.policy.actions import Action
from gateway.policy.calls import FILE_RULES, GATEWAY, NETWORK_OFF, UNCLEAR, judge_call
from gateway.policy.decision import Verdict
from gateway.policy.grounds import Grounds
from gateway.policy.judgement import Verdicts
from gateway.policy.modes import Mode
from gateway.policy.push import Refs
from gateway.policy.refs import RefPattern
from gateway.policy.repositories import parse_repository
from gateway.policy.rules import OVERRIDABLE, Enforcement, Rule, RuleSet, Subject
from gateway.policy.tool_call import ToolCall, read_claude_call
from tests.fakes.hook_inputs import INPUTS, hook_input

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY
CHAT, PLAN, REVIEW = Mode.CHAT, Mode.PLAN, Mode.REVIEW
GROUNDS = Grounds(
    worktree="/w/repo",
    cwd="/w/repo",
    home="/home/u",
    writable=("/w/repo",),
    private=("/tmp", "/home/u"),
    protected=lambda path: path.endswith(("/.env", "/hooks")),
    secret=lambda path: path.endswith("/.env") or path.startswith("/srv/keys"),
)
WIDGET = parse_repository("acme/widget")


def rule(action: Action, decision: Verdict, place: str = "config.yaml:1", **more: object) -> Rule:
    return Rule(action, decision, place, **more)  # type: ignore[arg-type]  # rows name the fields


def judged(call: ToolCall, mode: Mode = CHAT, *rules: Rule, network: bool = True) -> Verdicts:
    subject = Subject("default", "", "", mode, datetime(2026, 7, 1, tzinfo=UTC))
    return judge_call(RuleSet(rules=rules), subject, call, GROUNDS, network=network)


def call(tool: str, *targets: str, **more: object) -> ToolCall:
    return ToolCall(tool, targets=targets, **more)  # type: ignore[arg-type]  # rows name the fields


PUSH = call("mcp__github__push_files", repository=WIDGET, branch="agent/x")
AGENTS = rule(Action.PUSH, ALLOW, "config.yaml:7", constraints=(Refs((RefPattern("agent/**"),)),))


@pytest.mark.parametrize(
    ("made", "mode", "verdict", "place"),
    [
        # files
        (call("Read", "/w/repo/a"), CHAT, ALLOW, "default"),
        (call("Read", "/etc/hostname"), CHAT, ALLOW, "default"),
        (call("Read", "/w/repo/a"), PLAN, ALLOW, "default"),
        (call("Read", "/w/repo/.env"), CHAT, ASK, "default"),
        (call("Read", "/w/repo/.env"), PLAN, DENY, "preset:plan"),
        (call("Read", "/srv/keys/a"), CHAT, ASK, "default"),
        (call("Read", "a", "/srv/keys/a"), CHAT, ASK, "default"),
        (call("Read", "a\0b"), CHAT, ASK, "default"),
        (call("Glob"), CHAT, ALLOW, "default"),
        (call("Grep", "./.env"), CHAT, ASK, "default"),
        (call("Write", "/w/repo/a"), CHAT, ALLOW, "default"),
        (call("Write", "a", cwd="/w/repo/b"), CHAT, ALLOW, "default"),
        (call("Write", "../../a", cwd="/w/repo/b"), CHAT, ASK, "default"),
        (call("Write", "a", cwd="nowhere/../../../.."), CHAT, ASK, "default"),
        (call("Write", "a", cwd="~other"), CHAT, ASK, UNCLEAR),
        (call("Write", "/w/repo/.env"), CHAT, DENY, FILE_RULES),
        (call("Write", "/w/repo/.git/hooks"), CHAT, DENY, FILE_RULES),
        (call("Write", "/w/repository"), CHAT, ASK, "default"),
        (call("Write", "/etc/passwd"), CHAT, ASK, "default"),
        (call("Write", "/tmp/a"), CHAT, ALLOW, "default"),
        (call("Write", "/home/u/.env"), CHAT, ALLOW, "default"),
        (call("Write", "/w/repo/a"), PLAN, DENY, "preset:plan"),
        (call("Write", "/tmp/a"), REVIEW, DENY, "preset:review"),
        (call("Edit", "/w/repo/a"), Mode.ORCHESTRATE, DENY, "preset:orchestrate"),
        (call("MultiEdit", "/etc/x"), CHAT, ASK, "default"),
        (call("NotebookEdit", "a.ipynb"), CHAT, ALLOW, "default"),
        (call("apply_patch", "a", "b"), CHAT, ALLOW, "default"),
        (call("apply_patch", "a", "/etc/b"), CHAT, ASK, "default"),
        (call("apply_patch", deleted=("a",)), CHAT, ALLOW, "default"),
        (call("apply_patch", deleted=("/etc/a",)), CHAT, ASK, "default"),
        (call("apply_patch", "a"), PLAN, DENY, "preset:plan"),
        (call("mcp__filesystem__move_file", "a", "/etc/b"), CHAT, ASK, "default"),
        # the network
        (call("WebFetch", "https://a.test/x"), CHAT, ALLOW, "default"),
        (call("WebFetch", "https://a.test/x"), PLAN, ALLOW, "default"),
        (call("WebFetch", "file:///etc/passwd"), CHAT, ASK, UNCLEAR),
        (call("WebFetch", "file:///etc/passwd"), PLAN, DENY, UNCLEAR),
        (call("WebFetch", "https://a_b!/x"), CHAT, ASK, UNCLEAR),
        (call("WebFetch", "https://"), CHAT, ASK, UNCLEAR),
        (call("WebSearch", "words"), CHAT, ALLOW, "default"),
        (call("web_fetch", "see http://a.test and https://b.test/x"), CHAT, ALLOW, "default"),
        # the agent's own affairs
        (call("TodoWrite"), CHAT, ALLOW, "default"),
        (call("Task"), PLAN, ALLOW, "default"),
        (call("ExitPlanMode"), PLAN, ALLOW, "default"),
        (call("EnterWorktree"), CHAT, ALLOW, "default"),
        (call("EnterWorktree"), PLAN, DENY, "preset:plan"),
        (call("Skill", "pdf"), PLAN, ALLOW, "default"),
        # effects of known tools
        (call("mcp__github__create_pull_request"), CHAT, ASK, "default"),
        (call("mcp__github__create_pull_request"), PLAN, DENY, "preset:plan"),
        (call("mcp__github__merge_pull_request"), CHAT, ASK, "default"),
        (call("mcp__github__create_issue"), REVIEW, DENY, "preset:review"),
        (call("mcp__github__list_issues"), PLAN, ALLOW, "default"),
        (call("mcp__git__git_commit"), CHAT, ALLOW, "default"),
        (PUSH, CHAT, ASK, "default"),
        (PUSH, PLAN, DENY, "preset:plan"),
        (call("mcp__github__push_files", repository=WIDGET), CHAT, ASK, UNCLEAR),
        (call("mcp__github__push_files", branch="main"), CHAT, ASK, UNCLEAR),
        # shell lines
        (call("Bash", command="ls"), CHAT, ALLOW, "default"),
        (call("Bash", command="ls"), PLAN, ALLOW, "default"),
        (call("Bash", command="gh pr create"), CHAT, ASK, "default"),
        # what is not known
        (call("SomethingNew"), CHAT, ASK, UNCLEAR),
        (call("SomethingNew"), PLAN, DENY, UNCLEAR),
        (call("mcp__other__run"), CHAT, ASK, UNCLEAR),
        (call("x", effects=(Action.COMMIT,)), CHAT, ALLOW, "default"),
        (call("x", effects=(Action.COMMIT,)), PLAN, DENY, "preset:plan"),
        (call("x", effects=(Action.OPEN_PULL_REQUEST,)), CHAT, ASK, "default"),
        (call("x", effects=(Action.COMMIT,), unclear=("fly",)), CHAT, ASK, UNCLEAR),
        (call("x", unclear=("fly",)), PLAN, DENY, UNCLEAR),
        (call("x", effects=(Action.PUSH,)), CHAT, ALLOW, GATEWAY),
        (call("x", effects=(Action.PUSH,)), PLAN, DENY, "preset:plan"),
        (call("x", "/etc/a", effects=(Action.WRITE_OUTSIDE,)), CHAT, ASK, "default"),
        (call("x", command="gh pr create", effects=(Action.COMMIT,)), CHAT, ASK, "default"),
        (call("x", command="ls"), CHAT, ASK, UNCLEAR),
        # what is declared is added
        (call("Read", "a", effects=(Action.OPEN_PULL_REQUEST,)), CHAT, ASK, "default"),
        (call("Read", "a", effects=(Action.COMMIT,)), PLAN, DENY, "preset:plan"),
        (call("Write", "/etc/a", effects=(Action.COMMIT,)), CHAT, ASK, "default"),
        (call("TodoWrite", unclear=("fly",)), CHAT, ASK, UNCLEAR),
    ],
)  # fmt: skip
def test_without_rules(made: ToolCall, mode: Mode, verdict: Verdict, place: str) -> None:
    found = judged(made, mode)
    assert (found.verdict, found.worst.rule) == (verdict, place), found
    assert all(part.reason.isprintable() and part.reason for part in found.parts)


@pytest.mark.parametrize(
    ("made", "rules", "verdict", "place"),
    [
        (call("Write", "/etc/a"), [rule(Action.WRITE_OUTSIDE, ALLOW)], ALLOW, "config.yaml:1"),
        (call("Write", "/etc/a"), [rule(Action.WRITE_OUTSIDE, DENY)], DENY, "config.yaml:1"),
        (call("Write", "a"), [rule(Action.WRITE_OUTSIDE, DENY)], ALLOW, "default"),
        (call("Write", "/w/repo/.env"), [rule(Action.WRITE_OUTSIDE, ALLOW)], DENY, FILE_RULES),
        (call("Read", "/w/repo/.env"), [rule(Action.ACCESS_SECRET, ALLOW)], ALLOW, "config.yaml:1"),
        (call("WebFetch", "https://a.test"), [rule(Action.ACCESS_NETWORK, DENY)], DENY, "config.yaml:1"),
        (call("WebSearch", "x"), [rule(Action.ACCESS_NETWORK, ASK)], ASK, "config.yaml:1"),
        (call("Skill", "x"), [rule(Action.SPAWN_PROCESS, DENY)], DENY, "config.yaml:1"),
        (call("apply_patch", deleted=("a",)), [rule(Action.DELETE_FILE, DENY)], DENY, "config.yaml:1"),
        (PUSH, [AGENTS], ALLOW, "config.yaml:7"),
        (call(PUSH.tool, repository=WIDGET, branch="main"), [AGENTS], ASK, "default"),
        (call("x", effects=(Action.COMMIT,)), [rule(Action.COMMIT, DENY)], DENY, "config.yaml:1"),
        (call("TodoWrite"), [rule(action, DENY) for action in Action], ALLOW, "default"),
    ],
)
def test_with_rules(made: ToolCall, rules: list[Rule], verdict: Verdict, place: str) -> None:
    found = judged(made, CHAT, *rules)
    assert (found.verdict, found.worst.rule) == (verdict, place), found


@pytest.mark.parametrize("mode", [PLAN, REVIEW, Mode.ORCHESTRATE])
@pytest.mark.parametrize(
    "made", [call("Write", "/w/repo/a"), call("mcp__github__create_issue"), PUSH, call("x")]
)
def test_no_rule_loosens_a_mode_that_only_reads(made: ToolCall, mode: Mode) -> None:
    assert judged(made, mode, *(rule(action, ALLOW) for action in Action)).verdict is DENY


def test_without_a_network() -> None:
    for made in (
        call("WebFetch", "https://a.test"),
        call("WebSearch", "x"),
        call("x", effects=(Action.ACCESS_NETWORK,)),
    ):
        found = judged(made, CHAT, rule(Action.ACCESS_NETWORK, ALLOW), network=False)
        assert (found.verdict, found.worst.rule) == (DENY, NETWORK_OFF)
    assert judged(call("Read", "a"), network=False).verdict is ALLOW


def test_what_is_held_against_the_rules() -> None:
    (part,) = judged(call("WebFetch", "https://A.Test:444/x?y")).parts
    (request,) = part.requests
    assert (request.action, request.host, request.tool) == (Action.ACCESS_NETWORK, "a.test", "WebFetch")
    (part,) = judged(call("Write", "/etc/../etc/a", repository=WIDGET)).parts
    (request,) = part.requests
    assert (request.action, request.path, request.repository) == (Action.WRITE_OUTSIDE, "/etc/a", WIDGET)
    assert judged(call("SomethingNew")).worst.requests == ()
    assert judged(call("mcp__github__create_issue"), PLAN).effects == (Action.WRITE_TRACKER,)


def test_a_soft_denial_can_be_overridden() -> None:
    soft = rule(Action.WRITE_OUTSIDE, DENY, enforcement=Enforcement.SOFT)
    assert judged(call("Write", "/etc/a"), CHAT, soft).worst.code == OVERRIDABLE
    assert judged(call("Write", "/w/repo/.env"), CHAT, soft).worst.code == ""


@pytest.mark.parametrize("mode", Mode)
def test_every_published_input_has_a_verdict(mode: Mode) -> None:
    for name, given, _ in INPUTS:
        assert judged(read_claude_call(hook_input(name, given)), mode).parts
