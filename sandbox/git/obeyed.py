"""What a repository's own configuration has git on the host obey besides `.git/hooks`: hooks elsewhere, included files,
programs that lie in the worktree. Reads configuration files, bounded; runs nothing.

Whoever may write one of these has git run what they like outside the wrap, so they are sealed as the hooks are. What a
program runs in turn is not followed.
"""

import os
import shlex
from collections.abc import Iterator

from sandbox.git.config_syntax import SIZE_LIMIT, SyntaxRefused, parse
from sandbox.git.settings import Setting, is_kept
from sandbox.places import within
from sandbox.reading import read_whole

# git's own bound is ten levels of inclusion; a file is read once.
FILE_LIMIT = 100
# In a git directory: its configuration, and that of the worktree alone (git-worktree(1)).
CONFIGS = ("config", "config.worktree")


def obeyed_paths(git_directory: str, home: str = "") -> frozenset[str]:
    """Resolved paths, of which some may not exist; empty where a configuration cannot be read exactly.

    `git_directory` is resolved; `home` is what `~/` stands for.
    """
    worktree = os.path.dirname(git_directory) if os.path.basename(git_directory) == ".git" else git_directory
    found: set[str] = set()
    read: set[str] = set()
    pending = [os.path.join(git_directory, name) for name in CONFIGS]
    while pending and len(read) < FILE_LIMIT:
        file = os.path.realpath(pending.pop())
        if file in read:
            continue
        read.add(file)
        for name, value in _settings(file):
            if name.startswith("include") and name.endswith(".path"):
                included = _resolved(value, os.path.dirname(file), home)
                pending.append(included)
                found.add(included)
            elif name == "core.hookspath":
                found.add(_resolved(value, worktree, home))
            elif program := _program(name, value, worktree, home):
                found.add(program)
    # What holds the repository itself cannot be taken away: nothing could be written any more.
    return frozenset(path for path in found if not within(git_directory, path))


def _settings(file: str) -> Iterator[tuple[str, str]]:
    """Names (section and key in lower case) and values."""
    try:
        entries = parse(read_whole(file, SIZE_LIMIT).encode("utf-8", "surrogateescape"))
    except SyntaxRefused:
        return
    for name, value in entries:
        if value:
            yield os.fsdecode(name), os.fsdecode(value)


def _resolved(path: str, folder: str, home: str) -> str:
    if path.startswith("~/") and home:
        path = os.path.join(home, path[2:])
    return os.path.realpath(os.path.join(folder, path))


def _program(name: str, value: str, worktree: str, home: str) -> str:
    """The file that a setting runs, where it is one by its path; empty for none, or for one that is found on PATH."""
    if is_kept(Setting(name, value)):
        return ""
    try:
        words = shlex.split(value.lstrip().removeprefix("!"))
    except ValueError:
        words = value.split()
    if not words or "/" not in words[0]:
        return ""
    path = _resolved(words[0], worktree, home)
    return path if os.path.isfile(path) else ""
