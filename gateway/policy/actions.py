"""Everything that an operator can have rules about, and what holds where no rule speaks: data, and one look-up."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from gateway.policy.decision import Verdict
from gateway.policy.modes import READ_ONLY, Mode


class Action(StrEnum):
    """What an agent does, by its name in the config."""

    COMMIT = "commit"
    PUSH = "push"
    OPEN_PULL_REQUEST = "open_pull_request"
    PUBLISH_REVIEW = "publish_review"
    WRITE_TRACKER = "write_tracker"
    INSTALL_PACKAGE = "install_package"
    ACCESS_NETWORK = "access_network"
    DELETE_FILE = "delete_file"
    WRITE_OUTSIDE = "write_outside"
    ACCESS_SECRET = "access_secret"
    SPAWN_PROCESS = "spawn_process"


# What people read.
LABELS: Final[Mapping[Action, str]] = MappingProxyType(
    {
        Action.COMMIT: "Create commit",
        Action.PUSH: "Push to remote",
        Action.OPEN_PULL_REQUEST: "Open pull request",
        Action.PUBLISH_REVIEW: "Publish review or merge",
        Action.WRITE_TRACKER: "Write to external tracker",
        Action.INSTALL_PACKAGE: "Install package",
        Action.ACCESS_NETWORK: "Access network",
        Action.DELETE_FILE: "Delete file",
        Action.WRITE_OUTSIDE: "Write outside the worktree",
        Action.ACCESS_SECRET: "Read a secret",
        Action.SPAWN_PROCESS: "Run a command",
    }
)
# Allowed where no rule speaks; everything else is asked. What is deleted outside the worktree is a WRITE_OUTSIDE too.
ALLOWED: Final = frozenset({Action.COMMIT, Action.ACCESS_NETWORK, Action.SPAWN_PROCESS, Action.DELETE_FILE})
# What a mode that only reads denies for good. The rest is as in chat, with a denial in the place of a question.
CHANGING: Final = frozenset(
    {
        Action.COMMIT,
        Action.PUSH,
        Action.OPEN_PULL_REQUEST,
        Action.PUBLISH_REVIEW,
        Action.WRITE_TRACKER,
        Action.INSTALL_PACKAGE,
        Action.DELETE_FILE,
        Action.WRITE_OUTSIDE,
    }
)


def default_verdict(action: Action, mode: Mode) -> Verdict:
    """What holds where no rule speaks. A denial here is a mode's own and final."""
    asked = Verdict.DENY if mode in READ_ONLY else Verdict.ASK
    if mode in READ_ONLY and action in CHANGING:
        return Verdict.DENY
    return Verdict.ALLOW if action in ALLOWED else asked
