"""What the guardrails cost: one decision of the engine, one shell line, and the refusal of what is too much.

The hook's round trip is measured in `hooks.py`.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from gateway.policy.action import decide_request
from gateway.policy.action_request import ActionRequest
from gateway.policy.actions import Action
from gateway.policy.classification import classify
from gateway.policy.constraints import Commands, Hosts, Paths
from gateway.policy.decision import Verdict
from gateway.policy.grounds import Grounds
from gateway.policy.hosts import HostPattern
from gateway.policy.lines import judge_line
from gateway.policy.modes import Mode
from gateway.policy.push import PushRequest, Refs, UpdateKind, decide_push
from gateway.policy.refs import parse_ref_pattern
from gateway.policy.repositories import parse_repository
from gateway.policy.rules import Constraint, Rule, RuleSet, Subject
from gateway.policy.shell import read_line
from gateway.policy.unwrapping import started
from tests.bench.hooks import HOOK, measure_hook
from tests.bench.measures import Results, Scale

DECISION, DECISION_ALIKE = "guardrails-decision", "guardrails-decision-alike"
SHELL, SHELL_DENSE = "guardrails-shell", "guardrails-shell-dense"
SHELL_LONG, SHELL_WIDE = "guardrails-shell-1mb", "guardrails-shell-10000"
GUARDRAIL_FIGURES: Final = (HOOK, DECISION, DECISION_ALIKE, SHELL, SHELL_DENSE, SHELL_LONG, SHELL_WIDE)

SUBJECT: Final = Subject("default", "claude", "", Mode.CHAT, datetime(2030, 6, 1, tzinfo=UTC))
GROUNDS: Final = Grounds("/code/repo", "/code/repo", "/home/dev", ("/code/repo",), ("/tmp",))
# Lines that agents write, strung together to 4 KB.
LINES: Final = (
    "cd /code/repo && git status --short && git diff --stat HEAD~1",
    "grep -rn 'def measure' --include='*.py' src tests | head -n 20",
    'for name in src/*.py; do wc -l "$name"; done | sort -rn > /tmp/sizes',
    "if ! npm test -- --runInBand 2>&1 | tee /tmp/test.log; then tail -n 40 /tmp/test.log; fi",
    'git commit -m "Reads the whole list before it decides, so that the order of its rows no longer matters"',
    "cat > notes.md <<'END'\n" + "A line of a document that is written by a shell line.\n" * 12 + "END",
    "env CI=1 timeout 300 python -m pytest -q tests/policy tests/proxy --maxfail=1",
    "curl -sS --max-time 10 https://registry.test/package/latest | python3 -m json.tool",
)  # fmt: skip
# Many short commands and nothing else: the worst that 4 KB hold in practice.
DENSE: Final = "git status && ls -la foo/bar | grep -v 'x y' > out.txt; echo \"hello $USER\"; "
LENGTH: Final = 4096
DECISIONS: Final = 2_000
READS: Final = 20


def measure_guardrails(scale: Scale, results: Results) -> None:
    """All of it."""
    measure_hook(scale, results)
    for _ in range(scale.rounds):
        measure_decision(results)
        measure_shell(results)


# --- The engine -----------------------------------------------------------------------------------


type Asked = ActionRequest | PushRequest
REPOSITORY: Final = parse_repository("acme/widget")
COUNT: Final = 200
# What a rule of each action is narrowed down to, by its number, and something that is asked about.
KINDS: Final[tuple[tuple[Action, Callable[[int], Constraint], Callable[[int], Asked]], ...]] = (
    (
        Action.PUSH,
        lambda number: Refs((parse_ref_pattern(f"agent-{number}/**"), parse_ref_pattern(f"*-{number}"))),
        lambda number: PushRequest(REPOSITORY, f"refs/heads/agent-{number}/x", UpdateKind.CREATE),
    ),
    (
        Action.INSTALL_PACKAGE,
        lambda number: Commands((("npm", "install", f"package-{number}"),)),
        lambda number: ActionRequest(Action.INSTALL_PACKAGE, words=("npm", "install", f"package-{number}")),
    ),
    (
        Action.ACCESS_NETWORK,
        lambda number: Hosts((HostPattern(f"*.host-{number}.test", "bench"),)),
        lambda number: ActionRequest(Action.ACCESS_NETWORK, host=f"a{number}.host-{number}.test"),
    ),
    (
        Action.WRITE_OUTSIDE,
        lambda number: Paths((f"/code/other-{number}/*", f"*/build-{number}/*")),
        lambda number: ActionRequest(Action.WRITE_OUTSIDE, path=f"/code/other-{number}/file"),
    ),
)


def rules(first: int, kinds: int) -> RuleSet:
    """200 rules of so many kinds in turn, a tenth of them managed."""
    made = []
    for number in range(COUNT):
        action, constraint, _ = KINDS[(first + number % kinds) % len(KINDS)]
        verdict = tuple(Verdict)[number // len(KINDS) % 3]
        managed = number < COUNT // 10
        decision = Verdict.DENY if managed else verdict
        made.append(Rule(action, decision, f"bench:{number}", constraints=(constraint(number),)))
    return RuleSet(tuple(made[: COUNT // 10]), tuple(made[COUNT // 10 :]))


def decisions(first: int, kinds: int) -> float:
    """Microseconds of one decision with such rules, the median; a fifth of what is asked about has no rule."""
    given, took = rules(first, kinds), []
    subject = replace(SUBJECT, now=datetime.now(UTC))
    for number in range(DECISIONS):
        _, _, asked = KINDS[(first + number % kinds) % len(KINDS)]
        request = asked(number % (COUNT + COUNT // 4))
        begun = time.perf_counter()
        if isinstance(request, PushRequest):
            decide_push(given, subject, request)
        else:
            decide_request(given, subject, request)
        took.append(time.perf_counter() - begun)
    return statistics.median(took) * 1e6


def measure_decision(results: Results) -> None:
    """With rules of all kinds; and with rules that are all about one action, whichever takes longest."""
    results.add(DECISION, "gateway", decisions(0, len(KINDS)))
    results.add(DECISION_ALIKE, "gateway", max(decisions(kind, 1) for kind in range(len(KINDS))))


# --- Shell lines ----------------------------------------------------------------------------------


def classified(line: str) -> int:
    """Takes a line apart to what its commands mean; gives how many there are."""
    count = 0
    for command in read_line(line).commands:
        for words in started(command.words).simple:
            classify(words)
            count += 1
    return count


def measure_shell(results: Results) -> None:
    """Milliseconds to classify 4 KB, of what agents write and of many short commands; seconds of a refusal."""
    usual = ""
    while len(usual) + len(LINES[-1]) < LENGTH:
        usual += LINES[usual.count("\n\n") % len(LINES)] + "\n\n"
    for figure, line in ((SHELL, usual[:LENGTH]), (SHELL_DENSE, DENSE * (LENGTH // len(DENSE)))):
        begun = time.perf_counter()
        found = [classified(line) for _ in range(READS)]
        results.add(figure, "gateway", (time.perf_counter() - begun) / READS * 1e3)
        if not found[0]:
            results.problems.append(f"{figure}, gateway: no command was found")
    for figure, line in ((SHELL_LONG, "ls " * 350_000), (SHELL_WIDE, "|".join(["cat"] * 10_000))):
        begun = time.perf_counter()
        verdict = judge_line(RuleSet(), SUBJECT, line, GROUNDS).verdict
        results.add(figure, "gateway", time.perf_counter() - begun)
        if verdict is not Verdict.DENY:
            results.problems.append(f"{figure}, gateway: {verdict}")
