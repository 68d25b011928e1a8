"""What dead sessions have left behind, and what cleans it. It removes nothing itself.

Whoever is alive is told from whoever is not by what only the living hold: somebody listens on a socket, a folder is
locked. Where nothing tells, only what has been there for a while counts.
"""

import fcntl
import os
import re
import shlex
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from gateway.audit.register import FOLDER as REGISTER
from gateway.doctor.findings import Finding, ok, warning
from gateway.doctor.place import Place
from gateway.operator_socket import connect
from sandbox.bridge import PREFIX as BRIDGE
from sandbox.quarantine import MARK

# Seconds after which what is made in a moment is nobody's any more.
ABANDONED: Final = 86_400
# Folders and files of one kind that are looked at: whoever has more has another problem.
_LIMIT: Final = 10_000
_SHOWN: Final = 3
_DRAFTS: Final = re.compile(r"\.(claude|codex|gemini|hook)-[A-Za-z0-9_]{8}")
# Beside the folders of agents (of a workspace, a worktree, an agent of a space) and the settings with the hook.
_DRAFT_PLACES: Final = (
    "workspaces/*/agents/.*",
    "workspaces/*/worktrees/*/agents/.*",
    "spaces/*/agents/*/state/agents/.*",
    "*/.hook-*",
)
_TEMPORARY: Final = re.compile(r"agent-gateway-[A-Za-z0-9_-]{4,}(\..*)?|wrap-[A-Za-z0-9_]{8}")
_HALF_MADE: Final = re.compile(r"\..+\.part|\.\d+-[0-9a-f]{8}\.[0-9a-f]{8}")
_CONFIG_DRAFT: Final = "config.agent-gateway"


def look_at_leftovers(place: Place, name: str) -> Iterator[Finding]:
    """A finding for each kind of which there is something."""
    folder = place.sockets
    runtime = _names(folder)
    kinds = (
        (
            "sockets on which nobody listens",
            [path for path in runtime if path.suffix == ".sock" and _is_deserted(path)],
            "agent-gateway approvals list removes them",
        ),
        (
            "folders of bridges whose launcher is dead",
            [path for path in runtime if path.name.startswith(BRIDGE) and _is_unlocked(path)],
            "the next run with bridge: socat removes them",
        ),
        ("half-made folders of agents and hooks", _drafts(place), ""),
        ("half-written files of the log", _old(_half_made(place)), ""),
        ("temporary files", _old([*_temporary(), *(path for path in runtime if _TEMPORARY.fullmatch(path.name))]), ""),
        ("git configurations that were about to replace another", _old(_config_drafts(place)), ""),
        ("names that a wrap's end has moved aside", _moved_aside(place), ""),
    )  # fmt: skip
    found = [_finding(name, what, paths, cure) for what, paths, cure in kinds if paths]
    yield from found
    if not found:
        yield ok(name, "none of dead sessions")


def _finding(name: str, what: str, paths: Sequence[Path], cure: str) -> Finding:
    shown = ", ".join(map(str, paths[:_SHOWN]))
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    words = " ".join(shlex.quote(str(path)) for path in paths[:_SHOWN])
    if what.startswith("names"):
        cure = f"look what they are, then rm -r {words}"
    return warning(name, f"{what}: {shown}{more}", cure or f"rm -r {words}")


def _names(folder: Path) -> list[Path]:
    """What is in a folder of this user's; nothing where that cannot be said."""
    try:
        return sorted(folder / name for name in os.listdir(folder)[:_LIMIT])
    except OSError:
        return []


def _is_ours(path: Path) -> bool:
    try:
        return path.lstat().st_uid == os.geteuid()
    except OSError:
        return False


def _is_deserted(path: Path) -> bool:
    if not _is_ours(path) or not stat.S_ISSOCK(path.lstat().st_mode):
        return False
    try:
        connect(path, 1.0).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        pass
    return False


def _is_unlocked(path: Path) -> bool:
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return _is_ours(path)
        finally:
            os.close(descriptor)
    return False


def _old(paths: Sequence[Path]) -> list[Path]:
    """Those of this user that have been there for a while."""
    before, found = time.time() - ABANDONED, []
    for path in paths:
        with suppress(OSError):
            about = path.lstat()
            if about.st_uid == os.geteuid() and about.st_mtime < before:
                found.append(path)
    return found


def _drafts(place: Place) -> list[Path]:
    found = [path for level in _DRAFT_PLACES for path in islice(place.state.glob(level), _LIMIT)]
    return _old([path for path in found if _DRAFTS.fullmatch(path.name)])


def _half_made(place: Place) -> list[Path]:
    names = [*_names(place.audit), *_names(place.state / REGISTER)]
    return [path for path in names if _HALF_MADE.fullmatch(path.name)]


def _temporary() -> list[Path]:
    return [path for path in _names(Path(tempfile.gettempdir())) if _TEMPORARY.fullmatch(path.name)]


def _config_drafts(place: Place) -> list[Path]:
    return [Path(place.worktree, ".git", _CONFIG_DRAFT)] if place.worktree else []


def _moved_aside(place: Place) -> list[Path]:
    """In the worktree and its git directory, where git would have obeyed them."""
    if not place.worktree:
        return []
    names = [*_names(Path(place.worktree)), *_names(Path(place.worktree, ".git"))]
    return [path for path in names if MARK in path.name]
