"""What a repository of the forge refuses although the token may push, in the words GitHub uses.

The rules are data; the hook that git calls (`update_rules.py`) applies them.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Rule:
    """Refs a push may not touch. `pattern`: fnmatch over the full ref; `reason`: what `ng` says; `messages`: lines the
    client sees as `remote: …`."""

    pattern: str
    reason: str
    messages: tuple[str, ...] = ()


PROTECTED_BRANCH: Final = "protected branch hook declined"
RULE_VIOLATIONS: Final = "push declined due to repository rule violations"
PRE_RECEIVE: Final = "pre-receive hook declined"


def protected_branch(pattern: str) -> Rule:
    """Branch protection."""
    return Rule(
        pattern,
        PROTECTED_BRANCH,
        (
            "error: GH006: Protected branch update failed for {ref}.",
            "error: Changes must be made through a pull request.",
        ),
    )


def ruleset(pattern: str) -> Rule:
    """A ruleset of the repository."""
    return Rule(
        pattern,
        RULE_VIOLATIONS,
        (
            "error: GH013: Repository rule violations found for {ref}.",
            "",
            "- Changes must be made through a pull request.",
        ),
    )


def large_files(pattern: str) -> Rule:
    """The limit of an object's size, as it looks when it is passed."""
    return Rule(
        pattern,
        PRE_RECEIVE,
        (
            "error: Trace: 0123456789abcdef",
            "error: See the documentation for more information.",
            "error: File big.bin is 150.00 MB; this exceeds GitHub's file size limit of 100.00 MB",
            "error: GH001: Large files detected. You may want to try Git Large File Storage.",
        ),
    )
