"""What an agent is there to do, and which of these modes change nothing."""

from enum import StrEnum
from typing import Final


class Mode(StrEnum):
    """What the agent is there to do; only `chat` may change anything."""

    CHAT = "chat"
    REVIEW = "review"
    PLAN = "plan"
    ORCHESTRATE = "orchestrate"


# The modes whose denials are final: no rule of an operator loosens them.
READ_ONLY: Final = frozenset({Mode.REVIEW, Mode.PLAN, Mode.ORCHESTRATE})
