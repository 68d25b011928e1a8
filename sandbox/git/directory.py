"""Where a worktree's git directory really is. Reads the few pointer files of git's layout, bounded; runs no git.

Layout: gitrepository-layout(5). In a linked worktree `.git` is a file with `gitdir: PATH`, PATH is
`COMMON/worktrees/NAME`, and `PATH/gitdir` names the `.git` file again. In a submodule PATH is a git directory of its
own whose `core.worktree` names the submodule. A pointer is only followed when the other end points back: whoever can
write the worktree can write the pointer, but not the other end.
"""

import os
from collections.abc import Collection

from gateway.errors import GatewayError
from sandbox.places import within
from sandbox.reading import read_whole

# A pointer file holds one path.
POINTER_LIMIT = 8 << 10
# A config file that is only searched for core.worktree.
CONFIG_LIMIT = 1 << 20


def find_git_directory(worktree: str, bound: Collection[str]) -> str:
    """The resolved directory outside `worktree` that git needs for it, empty when there is none.

    `worktree` and `bound` (what the wrap shows already) are resolved paths. GatewayError when the pointer leads
    out of them and does not hold.
    """
    pointer = os.path.join(worktree, ".git")
    if os.path.islink(pointer):
        _refuse_link(pointer, (worktree, *bound))
        return ""
    text = read_whole(pointer, POINTER_LIMIT).strip()
    if not text.startswith("gitdir:"):
        return ""
    target = os.path.realpath(os.path.join(worktree, text.removeprefix("gitdir:").strip()))
    common = os.path.dirname(os.path.dirname(target))
    if _is_linked(pointer, target, common):
        return "" if any(within(common, root) for root in bound) else common
    if any(within(target, root) for root in (worktree, *bound)):
        return ""
    if is_git_directory(target) and _names_worktree(target, worktree):
        return target
    raise GatewayError(
        f"{pointer} points to {target}, which does not point back",
        "repair it with `git worktree repair` or `git submodule absorbgitdirs`, or bind the directory with --bind",
    )


def _refuse_link(pointer: str, bound: Collection[str]) -> None:
    """A link to a git directory is no pointer: nothing there points back, so it is followed to what is shown anyway."""
    target = os.path.realpath(pointer)
    if os.path.exists(target) and not any(within(target, root) for root in bound):
        raise GatewayError(
            f"{pointer} is a link to {target}, which is not shown",
            "bind the directory with --bind, or remove the link",
        )


def _is_linked(pointer: str, target: str, common: str) -> bool:
    """Whether `target` is `common`'s entry for the linked worktree whose `.git` file is `pointer`."""
    if os.path.basename(os.path.dirname(target)) != "worktrees" or not is_git_directory(common):
        return False
    back = read_whole(os.path.join(target, "gitdir"), POINTER_LIMIT).strip()
    stated = read_whole(os.path.join(target, "commondir"), POINTER_LIMIT).strip()
    if not back or not stated:
        return False
    return (
        os.path.realpath(os.path.join(target, back)) == os.path.realpath(pointer)
        and os.path.realpath(os.path.join(target, stated)) == common
    )


def is_git_directory(path: str) -> bool:
    """Whether it holds what git asks for before it calls a directory a repository."""
    return (
        os.path.isfile(os.path.join(path, "HEAD"))
        and os.path.isdir(os.path.join(path, "objects"))
        and os.path.isdir(os.path.join(path, "refs"))
    )


def _names_worktree(target: str, worktree: str) -> bool:
    """Whether the git directory's core.worktree is `worktree` (submodules)."""
    section = ""
    for line in read_whole(os.path.join(target, "config"), CONFIG_LIMIT).split("\n"):
        line = line.strip()
        if line.startswith("["):
            section = line.strip("[]").lower()
        name, _, value = line.partition("=")
        if section == "core" and name.strip().lower() == "worktree":
            return os.path.realpath(os.path.join(target, value.strip().strip('"'))) == worktree
    return False
