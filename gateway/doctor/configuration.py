"""Checks of the configuration and of the shipped lists: every problem that `check config` names."""

from collections.abc import Iterator
from typing import Final

from gateway.allowlists import load_shipped
from gateway.config import check_config, find_config
from gateway.doctor.findings import Finding, Verdict, ok
from gateway.doctor.place import Place
from gateway.policy.problem import Problem

_MOST: Final = 20


def look_at_configuration(place: Place, name: str) -> Iterator[Finding]:
    """The config in use. GatewayError where it cannot be said which that is."""
    path = find_config(place.config_file, place.environ)
    if path is None:
        yield ok(
            name,
            "there is no config file, so the defaults hold: the shipped lists, and no push without an App",
        )
        return
    problems = check_config(path, load_shipped())
    if not problems:
        yield ok(name, f"no problems in {path}")
    yield from (_finding(problem, name) for problem in problems[:_MOST])
    if len(problems) > _MOST:
        reason = f"{len(problems) - _MOST} more problems in {path}"
        errors = any(not problem.warning for problem in problems[_MOST:])
        yield Finding(
            name, Verdict.FAILED if errors else Verdict.WARNING, reason, "agent-gateway check config"
        )


def _finding(problem: Problem, name: str) -> Finding:
    """A problem says what is wrong and, behind a colon, what to write instead."""
    verdict = Verdict.WARNING if problem.warning else Verdict.FAILED
    return Finding(name, verdict, str(problem), "the words behind the last colon say what to write")


def look_at_lists(place: Place, name: str) -> Iterator[Finding]:
    """The shipped lists, read whole. GatewayError names what is wrong with them."""
    lists = load_shipped()
    counts = (len(one.patterns) for one in (lists.baseline, lists.github, lists.deny))
    baseline, github, deny = counts
    yield ok(name, f"{baseline} entries in the baseline, {github} for GitHub, {deny} denied")
