"""The dry run behind `agent-gateway check command`: a shell line taken apart, with what would be decided of each part.

Paths are judged as in a session that `run` would open from here with the same options; nothing is opened or recorded.
"""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from gateway.action_half import make_grounds
from gateway.config.values import DEFAULT_WORKSPACE
from gateway.options import RunOptions
from gateway.plan import Plan
from gateway.policy.action_request import ActionRequest
from gateway.policy.decision import Verdict
from gateway.policy.grounds import Grounds
from gateway.policy.judgement import Judgement, Verdicts
from gateway.policy.lines import judge_line
from gateway.policy.modes import Mode
from gateway.policy.rules import Subject
from gateway.policy.wording import printable
from gateway.profile import Platform, plan_unasked
from sandbox.backends.base import Inside
from sandbox.launch import NATIVE
from sandbox.mounts import plan_wrap

# Characters of a part that are shown.
_SHOWN = 120
# Where a session has its temporary files; what lies in it is its own.
_TEMPORARY = "/tmp"


@dataclass(frozen=True, slots=True)
class CommandQuestion:
    """A shell line, and the session that it would run in."""

    line: str
    mode: Mode = Mode.CHAT
    workspace: str = DEFAULT_WORKSPACE
    agent: str = ""
    space: str = ""


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """What would become of a line."""

    line: str
    verdicts: Verdicts

    @property
    def verdict(self) -> Verdict:
        """Of the whole."""
        return self.verdicts.verdict

    def as_json(self) -> dict[str, object]:
        """For scripts: the names of the audit record."""
        worst = self.verdicts.worst
        return {
            "command": self.line,
            "verdict": self.verdict.value,
            "rule": worst.rule,
            "reason": worst.reason,
            "effects": [action.value for action in self.verdicts.effects],
            "parts": [_part_as_json(part) for part in self.verdicts.parts],
        }

    def as_text(self) -> str:
        """For people: a line for each part, with its verdict, effects, rule and reason, and one for the whole."""
        lines = [_part_as_text(part) for part in self.verdicts.parts]
        worst = self.verdicts.worst
        if len(lines) > 1:
            lines.append(f"{self.verdict} the whole line ({printable(worst.rule)}): {worst.reason}")
        return "\n".join(lines)


def check_command(
    question: CommandQuestion, config_file: str | None, environ: Mapping[str, str], now: datetime
) -> CommandAnswer:
    """What the modes and rules say to a shell line at this moment (aware). The errors are those of `run`."""
    options = RunOptions(
        command=("sh",),
        config=config_file,
        mode=question.mode.value,
        workspace=question.workspace,
        agent=question.agent or None,
        space=question.space or None,
    )
    platform = Platform.MACOS if sys.platform == "darwin" else Platform.LINUX
    plan = plan_unasked(options, environ, platform)
    subject = Subject(question.workspace, question.agent, question.space, question.mode, now)
    return CommandAnswer(
        question.line, judge_line(plan.config.rule_set, subject, question.line, _grounds(plan, platform))
    )


def _grounds(plan: Plan, platform: Platform) -> Grounds:
    """The places of the session. Where only a launch makes its home, paths below it are not known."""
    backend = plan.choice.backend.name
    home = plan.spec.user_home
    if backend == NATIVE:
        home = plan_wrap(plan.spec, make_home=False).home if platform is Platform.LINUX else ""
    inside = Inside(home, "", _TEMPORARY, "", (), (), {})
    return make_grounds(plan.spec, plan.worktree, inside, backend)


def _part_as_json(part: Judgement) -> dict[str, object]:
    return {
        "text": part.text,
        "verdict": part.verdict.value,
        "code": part.code,
        "rule": part.rule,
        "reason": part.reason,
        "effects": [_effect_as_json(request) for request in part.requests],
    }


def _effect_as_json(request: ActionRequest) -> dict[str, object]:
    """What is known of it."""
    facts = {
        "host": request.host,
        "path": request.path,
        "words": list(request.words),
        "repository": str(request.repository or ""),
    }
    return {"action": request.action.value} | {name: fact for name, fact in facts.items() if fact}


def _part_as_text(part: Judgement) -> str:
    text = printable(part.text if len(part.text) <= _SHOWN else part.text[: _SHOWN - 3] + "...")
    named = f" [{', '.join(_effects(part.requests))}]" if part.requests else ""
    return f"{part.verdict} {text}{named} ({printable(part.rule)}): {part.reason}"


def _effects(requests: Iterable[ActionRequest]) -> list[str]:
    """Each effect once, with what it is about where that says more than the command does."""
    shown = (
        f"{request.action} {printable(request.host or request.path)}"
        if request.host or request.path
        else request.action.value
        for request in requests
    )
    return list(dict.fromkeys(shown))
