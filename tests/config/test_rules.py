"""Entries of `rules:` and of the managed file: what they give, and every way in which they cannot be meant."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.config import ConfigError, check_config, load_config
from gateway.config.rules import MAX_RULES
from gateway.policy.actions import Action
from gateway.policy.decision import Verdict
from gateway.policy.modes import Mode
from gateway.policy.push import Kinds, PushRequest, Refs, Subject, Tags, UpdateKind, decide_push
from gateway.policy.reasons import MAX_NOTE
from gateway.policy.refs import parse_ref_pattern
from gateway.policy.repositories import parse_repository
from gateway.policy.rules import Enforcement, Rule, RuleSet, Scope
from tests.fakes.config_files import LISTS, assert_refused, assert_warned, load, problems, write

DENY = "action: push, decision: deny"
ALLOW = "action: push, decision: allow"
LATER = "2999-01-01T00:00:00Z"

REFUSED = (
    ("text", "rules:\n  - push\n", 2, "each entry is a mapping: write {action: push"),
    ("nothing", "rules:\n  -\n", 2, "each entry is a mapping"),
    ("a list", "rules:\n  - [push, deny]\n", 2, "each entry is a mapping"),
    ("a mapping in the place of the list", f"rules:\n  {{{DENY}}}\n", 2, "rules must be a list"),
    ("no action", "rules:\n  - {decision: deny}\n", 2, "an entry without action"),
    ("no decision", "rules:\n  - action: push\n", 2, "an entry without decision"),
    ("unknown action", "rules:\n  - {action: psh, decision: deny}\n", 2, "write action: push"),
    ("the label of an action", "rules:\n  - {action: Push to remote, decision: deny}\n", 2, "must be one of"),
    ("refs of a commit", "rules:\n  - {action: commit, decision: ask, refs: [main]}\n", 2,
     "rules.refs says nothing about action commit: the constraints are commands"),
    ("unknown decision", "rules:\n  - {action: push, decision: refuse}\n", 2, "one of allow, ask, deny"),
    ("decision is a list", "rules:\n  - {action: push, decision: [deny]}\n", 2, "one of allow, ask, deny"),
    ("unknown key", f"rules:\n  - {{{DENY}, ref: main}}\n", 2, "unknown key 'ref' in rules: write refs"),
    ("key twice", f"rules:\n  - {{{DENY}, decision: allow}}\n", 2, "duplicate key 'decision'"),
    ("hosts of a push", f"rules:\n  - {{{DENY}, hosts: [x.test]}}\n", 2, "rules.hosts says nothing about action"),
    ("paths of a push", f"rules:\n  - {{{DENY}, paths: [/x]}}\n", 2, "rules.paths says nothing about action"),
    ("commands of a push", f"rules:\n  - {{{DENY}, commands: [x]}}\n", 2, "rules.commands says nothing"),
    ("agent is empty", f"rules:\n  - {{{DENY}, agent: ''}}\n", 2, "rules.agent is an empty text"),
    ("agent is null", f"rules:\n  - {{{DENY}, agent: null}}\n", 2, "rules.agent must be text"),
    ("agents in a list", f"rules:\n  - {{{DENY}, agent: [a, b]}}\n", 2, "rules.agent must be text"),
    ("agent is a glob", f"rules:\n  - {{{DENY}, agent: 'a*'}}\n", 2, "can never match"),
    ("space is a sentence", f"rules:\n  - {{{DENY}, space: a b}}\n", 2, "can never match"),
    ("workspace is a path", f"rules:\n  - {{{DENY}, workspace: /x}}\n", 2, "can never match"),
    ("expires on a day", f"rules:\n  - {{{DENY}, expires: 2031-01-01}}\n", 2, "is no moment"),
    ("expires without a zone", f"rules:\n  - {{{DENY}, expires: 2031-01-01T00:00:00}}\n", 2, "is no moment"),
    ("expires in a month 13", f"rules:\n  - {{{DENY}, expires: 2031-13-01T00:00:00Z}}\n", 2, "is no moment"),
    ("expires in a week", f"rules:\n  - {{{DENY}, expires: 2031-W01-1T00:00:00Z}}\n", 2, "is no moment"),
    ("expires before time", f"rules:\n  - {{{DENY}, expires: '0001-01-01T00:00:00+01:00'}}\n", 2, "is no moment"),
    ("expires is a number", f"rules:\n  - {{{DENY}, expires: 1900000000}}\n", 2, "must be text"),
    ("unknown enforcement", f"rules:\n  - {{{DENY}, enforcement: weak}}\n", 2, "one of hard, soft, advisory"),
    ("soft allow", f"rules:\n  - {{{ALLOW}, enforcement: soft}}\n", 2, "soft is for a denial, not for allow"),
    ("soft question", "rules:\n  - {action: push, decision: ask, enforcement: soft}\n", 2, "not for ask"),
    ("advisory allow", f"rules:\n  - {{{ALLOW}, enforcement: advisory}}\n", 2, "advisory is for a denial"),
    ("a long note", f"rules:\n  - {{{DENY}, note: {'x' * (MAX_NOTE + 1)}}}\n", 2, "more than 80 characters"),
    ("a note of two lines", f'rules:\n  - {{{DENY}, note: "a\\nb"}}\n', 2, "a line break"),
    ("a note that hides", f'rules:\n  - {{{DENY}, note: "a\\u202eb"}}\n', 2, "an invisible character"),
    ("too many", "rules:\n" + f"  - {{{DENY}, expires: {LATER}}}\n" * (MAX_RULES + 1), MAX_RULES + 2, "more than 500"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("content", "line", "fragment"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_rule_is_refused_with_its_line(tmp_path: Path, content: str, line: int, fragment: str) -> None:
    assert_refused(tmp_path, content, line, fragment)


WARNED = (
    ("expired", f"rules:\n  - {{{DENY}, expires: 2020-01-01T00:00:00Z}}\n", 2, "no longer exists"),
    ("unknown workspace", f"rules:\n  - {{{DENY}, workspace: tema}}\n", 2, "stands nowhere under workspaces"),
    ("the same twice", f"rules:\n  - {{{DENY}}}\n  - {{{DENY}}}\n", 3, "config.yaml:2 has the same"),
    (
        "the same in another order",
        f"rules:\n  - {{{DENY}, refs: [a, b]}}\n  - {{{DENY}, refs: [b, a]}}\n",
        3,
        "config.yaml:2 has the same",
    ),
    ("two decisions", f"rules:\n  - {{{DENY}, refs: [a]}}\n  - {{{ALLOW}, refs: [a]}}\n", 3, "another decision"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("content", "line", "fragment"), [row[1:] for row in WARNED], ids=[row[0] for row in WARNED]
)
def test_rule_is_doubted_with_its_line(tmp_path: Path, content: str, line: int, fragment: str) -> None:
    assert_warned(tmp_path, content, line, fragment)


QUIET = (
    f"rules: [{{{DENY}}}]",
    f"rules:\n  - {{{DENY}, refs: [main]}}\n  - {{{ALLOW}, refs: ['agent/**']}}",
    f"rules:\n  - {{{DENY}, refs: [a]}}\n  - {{{DENY}, refs: [a], agent: x}}",
    f"rules:\n  - {{{ALLOW}, refs: [a]}}\n  - {{{DENY}, refs: [a], expires: 2999-01-01T00:00:00Z}}",
    f"rules:\n  - {{{DENY}, note: null, expires: null, enforcement: soft}}",
    f"workspaces: {{team: {{}}}}\nrules:\n  - {{{DENY}, workspace: team}}\n  - {{{DENY}, workspace: default}}",
)


@pytest.mark.parametrize("content", QUIET)
def test_rules_without_a_problem(tmp_path: Path, content: str) -> None:
    assert problems(tmp_path, content) == ()


def test_every_field_arrives(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        """\
rules:
  - action: push
    decision: deny
    agent: claude
    space: blue
    workspace: default
    refs: [main, "release/*"]
    kind: update
    expires: 2999-12-31t23:30:00.5+01:30
    enforcement: soft
    note: "gefroren — bitte Zoë fragen"
  - {action: push, decision: ask, tags: true}
""",
    )
    assert config.rules == (
        Rule(
            Action.PUSH,
            Verdict.DENY,
            "config.yaml:2",
            Scope(workspace="default", agent="claude", space="blue"),
            (
                Refs((parse_ref_pattern("main"), parse_ref_pattern("release/*"))),
                Kinds(frozenset({UpdateKind.FAST_FORWARD, UpdateKind.FORCE, UpdateKind.TAG_MOVE})),
            ),
            datetime(2999, 12, 31, 22, 0, 0, 500_000, UTC),
            Enforcement.SOFT,
            "gefroren — bitte Zoë fragen",
        ),
        Rule(Action.PUSH, Verdict.ASK, "config.yaml:12", constraints=(Tags(),)),
    )
    assert config.rule_set == RuleSet((), config.rules)


def test_the_clock_says_what_has_expired(tmp_path: Path) -> None:
    path = write(tmp_path, f"rules:\n  - {{{DENY}, expires: 2031-01-01T00:00:00Z}}\n")
    moment = datetime(2031, 1, 1, tzinfo=UTC)
    assert check_config(path, LISTS, lambda: moment.replace(year=2030)) == ()
    assert [problem.warning for problem in check_config(path, LISTS, lambda: moment)] == [True]
    assert load_config(path, LISTS, lambda: moment).rules[0].expires == moment


def test_problems_of_all_rules_at_once(tmp_path: Path) -> None:
    content = f"rules:\n  - x\n  - {{{DENY}, refs: []}}\n  - {{{ALLOW}, kind: x, force: off, note: ''}}\n"
    assert [problem.line for problem in problems(tmp_path, content)] == [2, 3, 4, 4, 4]


# --- The managed file -----------------------------------------------------------------------------


def managing(folder: Path, content: str) -> Path:
    """A config whose managed file has this content."""
    managed = folder / "managed.yaml"
    managed.write_text(content)
    return write(folder, f"sandbox: on\nmanaged_rules_file: {managed}\nrules:\n  - {{{ALLOW}}}\n")


def test_managed_rules_arrive_and_tighten(tmp_path: Path) -> None:
    path = managing(tmp_path, f"# ours\nrules:\n  - {{{DENY}, refs: [main]}}\n")
    assert check_config(path, LISTS) == ()
    config = load_config(path, LISTS)
    assert [rule.place for rule in config.managed_rules] == ["managed.yaml:3"]
    assert config.rule_set == RuleSet(config.managed_rules, config.rules)
    subject = Subject("default", "", "", Mode.CHAT, datetime(2030, 1, 1, tzinfo=UTC))
    for ref, place in (("main", "managed.yaml:3"), ("dev", "config.yaml:4")):
        request = PushRequest(parse_repository("a/b"), f"refs/heads/{ref}", UpdateKind.CREATE)
        assert decide_push(config.rule_set, subject, request).rule == place


@pytest.mark.parametrize(
    ("content", "line", "fragment"),
    [
        ("", 1, "the file is empty"),
        ("{}\n", 1, "there are no rules here"),
        ("rules: {}\n", 1, "rules must be a list"),
        ("rules:\n", 1, "rules must be a list"),
        (f"- {{{DENY}}}\n", 1, "the file must be a mapping of keys"),
        ("rules: []\nsandbox: off\n", 2, "unknown key 'sandbox'"),
        ("rules: ]\n", 1, "not YAML"),
        (f"rules:\n  - {{{DENY}}}\n  - {{{ALLOW}, refs: [x]}}\n", 3, "a managed rule can only tighten"),
        (f"rules:\n  - {{{DENY}, refs: [a..b]}}\n", 2, "no ref has such a name"),
    ],
)
def test_problem_of_the_managed_file_has_its_line(
    tmp_path: Path, content: str, line: int, fragment: str
) -> None:
    path = managing(tmp_path, content)
    found = check_config(path, LISTS)
    assert [(problem.file, problem.line, problem.warning) for problem in found] == [
        (str(tmp_path / "managed.yaml"), line, False)
    ]
    assert fragment in found[0].message
    with pytest.raises(ConfigError) as caught:
        load_config(path, LISTS)
    assert caught.value.problems == found


def test_problems_of_both_files_at_once(tmp_path: Path) -> None:
    path = managing(tmp_path, "rules:\n  - x\n")
    path.write_text(path.read_text() + "egres: {}\n")
    assert [(Path(problem.file).name, problem.line) for problem in check_config(path, LISTS)] == [
        ("config.yaml", 5),
        ("managed.yaml", 2),
    ]


@pytest.mark.parametrize("name", ["gone.yaml", "", "config.yaml/x"])
def test_a_managed_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    content = f"sandbox: on\nmanaged_rules_file: {tmp_path / name}\n"
    assert_refused(tmp_path, content, 2, "managed_rules_file cannot be read, ")


def test_the_managed_file_may_say_nothing(tmp_path: Path) -> None:
    assert load_config(managing(tmp_path, "rules: []\n"), LISTS).managed_rules == ()
