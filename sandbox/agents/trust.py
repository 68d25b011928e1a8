"""What an agent's settings say of a worktree: whether its user trusts it. Such an agent asks, notes the answer in its
settings and does not go on when it cannot; inside, nobody can write those.
"""

import json
import os
import tomllib

from sandbox.agents.state import ManagedState
from sandbox.reading import read_whole

# Settings of a person who works in many places have some KB.
LIMIT = 1 << 20


def note_trust(state: ManagedState) -> None:
    """The user's own word on this worktree, or that there is none, which is what an agent that cannot ask goes by.

    Appended: a file in another's place would lose the mounts that keep it from being written in wraps that run.
    """
    name = state.agent.trust_file
    if not name or not state.worktree or not state.worktree.isprintable():
        return
    if _trust(os.path.join(state.folder, name), state.worktree):
        return
    level = _trust(os.path.join(state.own, name), state.worktree) or "untrusted"
    place = json.dumps(state.worktree, ensure_ascii=False)
    descriptor = os.open(f"{state.folder}/{name}", os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "wb") as file:
        file.write(f'\n[projects.{place}]\ntrust_level = "{level}"\n'.encode())


def _trust(path: str, worktree: str) -> str:
    """What a file says of a worktree; empty when it says nothing that is known here."""
    try:
        level = tomllib.loads(read_whole(path, LIMIT))["projects"][worktree]["trust_level"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return level if level in ("trusted", "untrusted") else ""
