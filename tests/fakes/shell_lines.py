"""The corpus of shell lines and the session that it speaks of."""

from dataclasses import dataclass
from datetime import UTC, datetime

from gateway.policy.grounds import Grounds
from gateway.policy.judgement import Verdicts
from gateway.policy.lines import judge_line
from gateway.policy.modes import Mode
from gateway.policy.rules import RuleSet, Subject
from tests.source_tree import ROOT

CORPUS = ROOT / "tests/data/shell_lines.txt"
NOW = datetime(2030, 6, 1, 12, tzinfo=UTC)
_WRITTEN = str.maketrans({"⏎": "\n", "␍": "\r", "␀": "\0", "␋": "\v"})

GROUNDS = Grounds(
    worktree="/code/repo",
    cwd="/code/repo",
    home="/home/dev",
    writable=("/code/repo",),
    private=("/tmp",),
    protected=lambda path: path.endswith(("/.bashrc", "/.git/hooks")) or "/.git/hooks/" in path,
    secret=lambda path: "/.ssh" in path or path.endswith("/.env"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A line of the corpus: verdict and rule in chat and where nothing changes, and the effects."""

    chat: str
    read_only: str
    effects: str
    line: str


def cases() -> list[Case]:
    """All of them."""
    found = []
    for text in CORPUS.read_text("utf-8").splitlines():
        if text and not text.startswith("#"):
            chat, read_only, effects, line = text.split(" | ", 3)
            found.append(Case(chat, read_only, effects, line.translate(_WRITTEN)))
    return found


def judge(
    line: str, mode: Mode = Mode.CHAT, rules: RuleSet | None = None, grounds: Grounds = GROUNDS
) -> Verdicts:
    """What becomes of a line."""
    return judge_line(rules or RuleSet(), Subject("default", "", "", mode, NOW), line, grounds)
