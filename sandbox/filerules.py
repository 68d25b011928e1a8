"""The file rules: which names a wrapped process may not write or read. Pure: lists and matching, no file is touched.

Names are compared in lower case, since some file systems fold it. How a rule is enforced is the backend's matter;
`masks.py` does it for what exists at launch.
"""

import fnmatch
import re
from dataclasses import dataclass

# Never written, wherever they stand: names whose content some program of the host obeys, or that hold secrets.
WRITE_DENIED_NAMES = (
    # shells read these at every start
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".mkshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".logout",
    # git runs what these name
    ".gitconfig",
    ".gitmodules",
    # editors and agents run what these name
    ".mcp.json",
    ".vscode",
    ".idea",
    # secrets
    ".env",
    ".env.*",
    "*.key",
    "*.pem",
    "*.p12",
    "*.pfx",
)

# Never written, by the end of the path.
WRITE_DENIED_PATHS = (
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/hooks",
    ".claude/commands",
    ".claude/agents",
    ".config/fish/config.fish",
)

# Templates that belong into a repository.
WRITE_ALLOWED_NAMES = (".env.example", ".env.sample", ".env.template")

# In a git directory: hooks run, the configuration names programs to run, and `commondir` (or `gitdir`) says that
# both are to be found in another directory (gitrepository-layout(5)).
GIT_DENIED = ("hooks", "config", "config.worktree", "commondir", "gitdir")

# In a git directory's entry for a linked worktree: these say where its repository and configuration are.
LINKED_DENIED = ("commondir", "gitdir", "config.worktree")

# Not searched for the shipped names: installed packages bring keys of their own (`cacert.pem`), and a mask on one
# of their files would make the next installation fail. What a configuration adds holds there too.
UNSEARCHED_FOLDERS = frozenset({"node_modules", "site-packages"})


@dataclass(frozen=True, slots=True)
class FileRules:
    """The shipped lists joined with a config's. Globs without "/" are names, with "/" they are whole paths."""

    deny_write: tuple[str, ...] = ()
    allow_write: tuple[str, ...] = ()
    deny_read: tuple[str, ...] = ()


_WILD = re.compile(r"[*?\[]").search


class NameRules:
    """File rules ready for matching. Immutable after construction.

    `among_packages` are those for `UNSEARCHED_FOLDERS`: the configuration's alone, None when it adds nothing.
    """

    def __init__(self, rules: FileRules, shipped: bool = True) -> None:
        names, ends = (WRITE_DENIED_NAMES, WRITE_DENIED_PATHS) if shipped else ((), ())
        denied = (*names, *(glob for glob in rules.deny_write if "/" not in glob))
        allowed = (*WRITE_ALLOWED_NAMES, *(glob for glob in rules.allow_write if "/" not in glob))
        self._names = _any_of(denied)
        self._allowed = _any_of(allowed)
        self._paths = _any_of((*(f"*/{end}" for end in ends), *_paths(rules.deny_write)))
        self._allowed_paths = _any_of(_paths(rules.allow_write))
        self._hidden = _any_of(tuple(glob for glob in rules.deny_read if "/" not in glob))
        self._hidden_paths = _any_of(_paths(rules.deny_read))
        # Names at which a path rule can end: only there the whole path has to be put together and compared.
        self._ends = _any_of(tuple(glob.rsplit("/", 1)[1] for glob in (*ends, *_paths(rules.deny_write))))
        # Names of the directories in which it can.
        self._folders = _any_of(tuple(glob.rsplit("/", 2)[-2] for glob in ends))
        self._searches_reads = bool(rules.deny_read)
        self.among_packages: NameRules | None = self if not shipped else None
        if shipped and (rules.deny_write or rules.deny_read):
            self.among_packages = NameRules(rules, shipped=False)

    def write_denied(self, folder: str, name: str) -> bool:
        """Whether the entry `name` of the absolute `folder` may not be written."""
        lower = name.lower()
        if self._names(lower):
            return not self._allowed(lower) and not self._allowed_paths(f"{folder}/{name}".lower())
        if self._ends(lower):
            path = f"{folder}/{name}".lower()
            return self._paths(path) and not self._allowed(lower) and not self._allowed_paths(path)
        return False

    def leads_to_denied(self, name: str) -> bool:
        """Whether shipped rules deny entries of a directory `name`, which a link may stand for."""
        return self._folders(name.lower())

    def read_denied(self, folder: str, name: str) -> bool:
        """Whether the entry `name` of the absolute `folder` may not even be read."""
        if not self._searches_reads:
            return False
        return self._hidden(name.lower()) or self._hidden_paths(f"{folder}/{name}".lower())


def _paths(globs: tuple[str, ...]) -> tuple[str, ...]:
    """The globs that are whole paths."""
    return tuple(glob for glob in globs if "/" in glob)


class _any_of:
    """Many globs at once, in lower case. Whole names and endings need no expression, and are nearly all of them:
    a launch asks this for every file of a repository."""

    def __init__(self, globs: tuple[str, ...]) -> None:
        lower = [glob.lower() for glob in globs]
        plain = [glob for glob in lower if not _WILD(glob)]
        endings = [glob for glob in lower if glob.startswith("*") and not _WILD(glob[1:])]
        rest = [glob for glob in lower if glob not in plain and glob not in endings]
        self._plain = frozenset(plain)
        self._endings = tuple(glob[1:] for glob in endings)
        self._match = re.compile("|".join(fnmatch.translate(glob) for glob in rest)).match if rest else None

    def __call__(self, text: str) -> bool:
        if text in self._plain or text.endswith(self._endings):
            return True
        return self._match is not None and self._match(text) is not None
