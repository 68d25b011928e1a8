"""Shell lines before modes and rules: the corpus, what rules of operators change, and what never gets less strict."""

import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.policy.actions import Action
from gateway.policy.constraints import Commands, Hosts
from gateway.policy.decision import Verdict
from gateway.policy.hosts import HostPattern
from gateway.policy.judgement import STRICTNESS
from gateway.policy.modes import READ_ONLY, Mode
from gateway.policy.rules import OVERRIDABLE, Enforcement, Rule, RuleSet
from gateway.policy.shell_line import MAX_BYTES, MAX_COMMANDS
from tests.fakes.shell_lines import Case, cases, judge

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY
CASES = cases()


def test_corpus_is_large() -> None:
    assert len(CASES) >= 300
    assert len({case.line for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=[case.line[:50] for case in CASES])
def test_corpus(case: Case) -> None:
    found = judge(case.line)
    effects = " ".join(action for action in found.effects if action is not Action.SPAWN_PROCESS) or "-"
    assert f"{found.verdict} {found.worst.rule}" == case.chat
    assert effects == case.effects
    for mode in READ_ONLY:
        there = judge(case.line, mode)
        expected = re.sub(r"preset:plan$", f"preset:{mode}", case.read_only)
        assert f"{there.verdict} {there.worst.rule}" == expected


@pytest.mark.parametrize("case", CASES, ids=[case.line[:50] for case in CASES])
def test_every_judgement_is_for_people(case: Case) -> None:
    for part in judge(case.line).parts:
        assert part.reason.isprintable() and 0 < len(part.reason) <= 300
        assert part.rule


@pytest.mark.parametrize("mode", sorted(READ_ONLY))
def test_nothing_is_asked_where_nothing_changes(mode: Mode) -> None:
    assert not [case.line for case in CASES if judge(case.line, mode).verdict is ASK]


def test_a_doubt_gives_a_yes_nothing_to_be_remembered_by() -> None:
    for case in CASES:
        for part in judge(case.line).asked:
            assert part.rule != "unclear" or not part.requests


# --- Rules ----------------------------------------------------------------------------------------


def rule(action: Action, decision: Verdict, *commands: str, hosts: str = "", **more: object) -> Rule:
    rows = tuple(tuple(command.split()) for command in commands)
    constraints = (
        *((Commands(rows),) if rows else ()),
        *((Hosts((HostPattern(hosts, "c:1"),)),) if hosts else ()),
    )
    return Rule(action, decision, "c:1", constraints=constraints, **more)  # type: ignore[arg-type]  # rows name fields


SPAWN = Action.SPAWN_PROCESS


@pytest.mark.parametrize(
    ("line", "given", "mode", "verdict", "place"),
    [
        # A rule that names the command speaks in the place of the mode; one that does not, does not.
        ("docker run alpine", rule(SPAWN, ALLOW, "docker run"), Mode.CHAT, ALLOW, "c:1"),
        ("podman run alpine", rule(SPAWN, ALLOW, "docker run"), Mode.CHAT, ASK, "preset:chat"),
        ("docker push x", rule(SPAWN, ALLOW, "docker run"), Mode.CHAT, ASK, "preset:chat"),
        ("docker run alpine", rule(SPAWN, ALLOW), Mode.CHAT, ASK, "preset:chat"),
        ("docker --context x run a", rule(SPAWN, ALLOW, "docker run"), Mode.CHAT, ALLOW, "c:1"),
        ("docker run $x", rule(SPAWN, ALLOW, "docker run"), Mode.CHAT, ALLOW, "c:1"),
        ("docker $x", rule(SPAWN, ALLOW, "docker run"), Mode.CHAT, ASK, "unclear"),
        ("docker run alpine", rule(SPAWN, DENY, "docker"), Mode.CHAT, DENY, "c:1"),
        ("/usr/bin/docker run a", rule(SPAWN, DENY, "docker"), Mode.CHAT, DENY, "c:1"),
        ("env nice docker ps", rule(SPAWN, DENY, "docker"), Mode.CHAT, DENY, "c:1"),
        ("bash -c 'ls; docker ps'", rule(SPAWN, DENY, "docker"), Mode.CHAT, DENY, "c:1"),
        ("git push", rule(SPAWN, DENY, "git push"), Mode.CHAT, DENY, "c:1"),
        ("git -C d push", rule(SPAWN, ASK, "git push"), Mode.CHAT, ASK, "c:1"),
        ("git push", rule(Action.PUSH, DENY), Mode.CHAT, ALLOW, "gateway"),
        ("ls", rule(SPAWN, DENY), Mode.CHAT, DENY, "c:1"),
        ("terraform apply", rule(SPAWN, ALLOW, "terraform apply", enforcement=Enforcement.ADVISORY), Mode.CHAT, ASK,
         "preset:chat"),
        # An action of its own replaces the mode's ask.
        ("npm install x", rule(Action.INSTALL_PACKAGE, ALLOW), Mode.CHAT, ALLOW, "c:1"),
        ("npm install x", rule(Action.INSTALL_PACKAGE, ALLOW, "npm install"), Mode.CHAT, ALLOW, "c:1"),
        ("npm --prefix d install x", rule(Action.INSTALL_PACKAGE, ALLOW, "npm install"), Mode.CHAT, ALLOW, "c:1"),
        ("pip install x", rule(Action.INSTALL_PACKAGE, ALLOW, "npm install"), Mode.CHAT, ASK, "default"),
        ("git commit", rule(Action.COMMIT, DENY), Mode.CHAT, DENY, "c:1"),
        ("git -c alias.x='!git commit' x", rule(Action.COMMIT, DENY), Mode.CHAT, DENY, "c:1"),
        # Hosts.
        ("curl https://a.test/x", rule(Action.ACCESS_NETWORK, DENY, hosts="a.test"), Mode.CHAT, DENY, "c:1"),
        ("curl https://b.test/x", rule(Action.ACCESS_NETWORK, DENY, hosts="a.test"), Mode.CHAT, ALLOW, "default"),
        ("curl $x", rule(Action.ACCESS_NETWORK, DENY, hosts="a.test"), Mode.CHAT, ASK, "c:1"),
        ("curl $x", rule(Action.ACCESS_NETWORK, DENY, hosts="a.test"), Mode.PLAN, DENY, "c:1"),
        ("curl b.test -x a.test", rule(Action.ACCESS_NETWORK, DENY, hosts="a.test"), Mode.CHAT, DENY, "c:1"),
        ("git clone git@a.test:o/n", rule(Action.ACCESS_NETWORK, DENY, hosts="a.test"), Mode.CHAT, DENY, "c:1"),
        # Nothing loosens the fixed list, the denials of a mode, or a doubt.
        ("sudo ls", rule(SPAWN, ALLOW, "sudo"), Mode.CHAT, DENY, "deny-list:sudo"),
        ("rm -rf /", rule(Action.WRITE_OUTSIDE, ALLOW), Mode.CHAT, DENY, "deny-list:rm /"),
        ("docker run alpine", rule(SPAWN, ALLOW, "docker run"), Mode.PLAN, DENY, "preset:plan"),
        ("git commit", rule(Action.COMMIT, ALLOW), Mode.PLAN, DENY, "preset:plan"),
        ("git push", rule(Action.PUSH, ALLOW), Mode.REVIEW, DENY, "preset:review"),
        ("x | sh", rule(SPAWN, ALLOW, "sh"), Mode.CHAT, ASK, "unclear"),
        ("x | sh", rule(SPAWN, ALLOW, "sh"), Mode.ORCHESTRATE, DENY, "unclear"),
    ],
)  # fmt: skip
def test_rules(line: str, given: Rule, mode: Mode, verdict: Verdict, place: str) -> None:
    found = judge(line, mode, RuleSet(rules=(given,)))
    assert (found.verdict, found.worst.rule) == (verdict, place)


def test_managed_rules_only_tighten() -> None:
    for case in CASES:
        for decision in Verdict:
            managed = RuleSet(managed=tuple(Rule(action, decision, "m:1") for action in Action))
            assert strictness(judge(case.line, rules=managed).verdict) >= strictness(judge(case.line).verdict)


def test_a_soft_denial_may_be_overridden() -> None:
    soft = rule(SPAWN, DENY, "make", enforcement=Enforcement.SOFT)
    assert judge("make", rules=RuleSet(rules=(soft,))).worst.code == OVERRIDABLE
    assert judge("sudo make", rules=RuleSet(rules=(soft,))).worst.code == ""


def test_each_part_says_what_it_is() -> None:
    parts = judge("cd src && git commit -m x > /tmp/log; npm install x").parts
    assert [part.text for part in parts] == ["cd src", "git commit -m x > /tmp/log", "npm install x"]
    assert [[request.action for request in part.requests] for part in parts] == [
        [SPAWN],
        [SPAWN, Action.COMMIT],
        [SPAWN, Action.INSTALL_PACKAGE],
    ]


# --- Limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("ls " * 400_000, "limit"),
        ("é" * (MAX_BYTES // 2 + 1), "limit"),
        (" | ".join(["cat"] * 10_000), "limit"),
        ("; ".join(["ls"] * (MAX_COMMANDS + 1)), "limit"),
        ("(" * 10_000 + "ls" + ")" * 10_000, "limit"),
        ("echo " + "$(echo " * 5_000 + "ls" + ")" * 5_000, "limit"),
        ("cat <<A " * 5_000, "limit"),
        ("bash -c " * 20 + "ls", "unclear"),
        ("\ud800", "limit"),
        ("", "unclear"),
        (" \n\t", "unclear"),
        ("${" * 30_000, "unclear"),
        ("`" * 60_000, "unclear"),
        ("'" * 60_001, "unclear"),
    ],
)
def test_what_is_too_much_is_denied(line: str, rule: str) -> None:
    for mode in Mode:
        found = judge(line, mode)
        assert found.worst.rule == rule
        assert found.verdict is DENY or (mode is Mode.CHAT and rule == "unclear")


def test_lines_inside_of_lines_end() -> None:
    line = "ls"
    for _ in range(40):
        line = "bash -c " + "'" + line.replace("'", "'\\''") + "'"
        if len(line) > MAX_BYTES:
            break
    assert judge(line).verdict is DENY


@pytest.mark.parametrize("depth", [1, 10, 100])
def test_nesting_is_followed(depth: int) -> None:
    inner = "$(" * depth + "git commit" + ")" * depth
    assert Action.COMMIT in judge(f"echo {inner}").effects


# --- What always holds ----------------------------------------------------------------------------

PIECES = st.sampled_from([case.line for case in CASES if "\0" not in case.line and "<<" not in case.line])
WHOLE = [
    case.line for case in CASES if case.chat.split()[1] not in ("unclear", "limit") and "<<" not in case.line
]
WRAPPERS = (
    "env {}", "nohup {}", "nice -n 5 {}", "timeout 5 {}", "sudo {}", "xargs {}", "command {}", "time {}", "setsid {}",
    "env A=1 nice {}", "stdbuf -o0 nohup {}",
)  # fmt: skip


def strictness(verdict: Verdict) -> int:
    return STRICTNESS.index(verdict)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(WHOLE),
    PIECES,
    st.sampled_from(["; ", " && ", " | ", " || ", "\n", " & "]),
    st.sampled_from(Mode),
)
def test_another_part_never_makes_it_less_strict(line: str, more: str, between: str, mode: Mode) -> None:
    alone = strictness(judge(line, mode).verdict)
    assert strictness(judge(f"{line}{between}{more}", mode).verdict) >= alone
    assert strictness(judge(f"{more}{between}{line}", mode).verdict) >= min(alone, strictness(ASK))


SIMPLE = [
    line
    for line in WHOLE
    if re.fullmatch(r"[a-z][A-Za-z0-9 ./:@-]*", line) and not line.startswith(("cd", "time"))
]


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_wrapper_never_makes_it_less_strict(wrapper: str) -> None:
    for line in SIMPLE:
        for mode in Mode:
            wrapped = judge(wrapper.format(line), mode).verdict
            assert strictness(wrapped) >= strictness(judge(line, mode).verdict), (wrapper, line)


@pytest.mark.parametrize("line", SIMPLE[::7])
def test_a_shell_or_a_substitution_changes_nothing(line: str) -> None:
    plain = judge(line)
    for form in (
        "bash -c '{}'",
        "sh -ec '{}' x",
        "eval '{}'",
        "echo $({})",
        "({})",
        "if true; then {}; fi",
        "f() {{ {}; }}",
    ):
        assert strictness(judge(form.format(line)).verdict) >= strictness(plain.verdict)
        assert set(judge(form.format(line)).effects) >= set(plain.effects)


@settings(max_examples=200, deadline=None)
@given(
    st.text(
        st.one_of(st.characters(), st.sampled_from("(){}[]$`\"'|&;<>#!\\ \nab=~*?" + string.whitespace)),
        max_size=80,
    )
)
def test_no_text_raises(text: str) -> None:
    for mode in Mode:
        assert judge(text, mode).parts


@settings(max_examples=100, deadline=None)
@given(PIECES, st.integers(0, 200))
def test_no_cut_line_raises_or_escapes_the_fixed_list(line: str, cut: int) -> None:
    assert judge(line[:cut]).parts
    assert judge(f"sudo ls; {line[:cut]}").verdict is not ALLOW
