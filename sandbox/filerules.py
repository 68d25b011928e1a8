"""The file rules: which names a wrapped process may not write or read. Pure: lists and matching, no file is touched.

One policy for all that enforce it: `masks.py` for what exists at launch, the supervisor for what is created, Seatbelt's
profile. Letter case and spellings that some file system takes for the same name hide nothing (`folding.py`).

Who counts, strongest first: an exception of the configuration, its denials, a shipped exception, a shipped denial. An
exception by name or by path frees that entry alone, so what lies in a denied directory stays denied, unless its own
path is excepted.
"""

from _collections_abc import Callable  # without the rest of `collections`

from sandbox.folding import fold, readings, written
from sandbox.globs import Globs

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
    ".config/fish/conf.d",
)

# Templates that belong into a repository.
WRITE_ALLOWED_NAMES = (".env.example", ".env.sample", ".env.template")

# In a git directory: hooks run, the configuration names programs to run, and `commondir` (or `gitdir`) says that
# both are to be found in another directory (gitrepository-layout(5)).
GIT_DENIED = ("hooks", "config", "config.worktree", "commondir", "gitdir")

# In a git directory's entry for a linked worktree: these say where its repository and configuration are.
LINKED_DENIED = ("commondir", "gitdir", "config.worktree")

# Installed packages bring keys of their own (`cacert.pem` in every virtual environment): below these the names that
# follow are allowed. The search for what exists leaves them out altogether, since a mask on one of their files would
# make the next installation fail. What a configuration adds holds there too.
UNSEARCHED_FOLDERS = frozenset({"node_modules", "site-packages"})
ALLOWED_AMONG_PACKAGES = ("*.key", "*.pem")
_PACKAGE_FOLDERS = frozenset(name.encode() for name in UNSEARCHED_FOLDERS)

# Folders whose verdict is kept, and the longest path that is: two megabytes at most.
_KEPT_FOLDERS = 1024
_KEPT_LENGTH = 512


class FileRules:
    """A configuration's lists. Globs without "/" are names, with "/" they are whole paths. A value: not to be changed.

    Written out, since `dataclasses` takes longer to import than a supervisor to start.
    """

    __slots__ = ("allow_write", "deny_read", "deny_write")

    def __init__(
        self,
        deny_write: tuple[str, ...] = (),
        allow_write: tuple[str, ...] = (),
        deny_read: tuple[str, ...] = (),
    ) -> None:
        self.deny_write = deny_write
        self.allow_write = allow_write
        self.deny_read = deny_read


# Below a directory: a path that nobody has, and that a glob fits only if it fits all that lies there.
_SOMETHING = "/\x01\x01\x01/\x01\x01\x01"


class _Place:
    """A folder as the rules see it. `rule` is the glob that denies all that lies in it, empty for none; `paths` its
    readings, folded (the root is empty); `written` its path for exceptions; `among_packages` whether it lies below
    `UNSEARCHED_FOLDERS`."""

    __slots__ = ("among_packages", "paths", "rule", "written")

    def __init__(self, rule: str, paths: tuple[str, ...], written_path: str, among_packages: bool) -> None:
        self.rule = rule
        self.paths = paths
        self.written = written_path
        self.among_packages = among_packages


_ROOT = _Place("", ("",), "", False)


class NameRules:
    """File rules ready for matching. Changes only in what it remembers of folders.

    `among_packages` are those for `UNSEARCHED_FOLDERS`, where the search for what exists looks for the configuration's
    alone; None when it adds nothing.
    """

    def __init__(self, rules: FileRules, shipped: bool = True) -> None:
        self._names = Globs(WRITE_DENIED_NAMES if shipped else ())
        self._package_names = Globs(
            tuple(glob for glob in WRITE_DENIED_NAMES if glob not in ALLOWED_AMONG_PACKAGES)
            if shipped
            else ()
        )
        self._more_names = Globs(_names(rules.deny_write))
        self._more_paths = Globs(_paths(rules.deny_write))
        self._allowed = Globs(WRITE_ALLOWED_NAMES if shipped else (), written)
        self._more_allowed = Globs(_names(rules.allow_write), written)
        self._allowed_paths = Globs(_paths(rules.allow_write), written)
        # Their beginnings up to what is not literal; of those that begin anywhere there is none.
        self._allowed_starts = tuple(
            written(_literal_start(glob)) for glob in _paths(rules.allow_write) if glob[0] not in "*?["
        )
        ends = WRITE_DENIED_PATHS if shipped else ()
        self._ends = _by_last(ends)
        # Names of directories in which a shipped rule by path can end.
        self._folders = frozenset(fold(end.rsplit("/", 2)[-2]) for end in ends)
        self._ways = _ways((*(f"*/{end}" for end in ends), *_paths(rules.deny_write)))
        self._hidden = Globs(_names(rules.deny_read))
        self._hidden_paths = Globs(_paths(rules.deny_read))
        # All that a name can fit, and what has more than one reading: what fits nothing here is allowed.
        self._quick = Globs(
            (*(WRITE_DENIED_NAMES if shipped else ()), *_names(rules.deny_write), *self._ends, "*.", "* ")
        )
        self._is_simple = self._more_paths.empty and not self._quick.rest
        self._places: dict[bytes, _Place] = {}
        self.among_packages: NameRules | None = self if not shipped else None
        if shipped and (rules.deny_write or rules.deny_read):
            self.among_packages = NameRules(rules, shipped=False)

    # --- Entries that are created -----------------------------------------------------------------

    def denied(self, folder: bytes, name: bytes) -> str:
        """The glob for which `name` may not be written in the absolute, resolved `folder`, or which denies a directory
        above it; empty when it may. `name` is one component, not "", "." or ".."."""
        place = self._places.get(folder) or self._find(folder)
        if self._is_simple and not place.rule and name.isascii():
            text = name.decode("ascii").lower()
            quick = self._quick
            if not (
                text in quick.plain
                or text.endswith(quick.ends)
                or text.startswith(quick.begins)
                or ":" in text
            ):
                return ""
        return self._judge(place, name, readings(name))

    def _judge(self, place: _Place, name: bytes, forms: tuple[str, ...]) -> str:
        plain = written(name.decode("utf-8", "surrogateescape"))
        if not self._allowed_paths.empty and self._allowed_paths.hit(f"{place.written}/{plain}"):
            return ""
        return place.rule or self._own_rule(place, plain, forms)

    def _own_rule(self, place: _Place, plain: str, forms: tuple[str, ...]) -> str:
        """The glob for which the entry itself is denied, whatever lies above it."""
        if self._more_allowed.hit(plain):
            return ""
        paths = [f"{folder}/{form}" for folder in place.paths for form in forms]
        rule = self._more_names.find(forms) or self._more_paths.find(paths)
        if rule or self._allowed.hit(plain):
            return rule
        names = self._package_names if place.among_packages else self._names
        return names.find(forms) or self._end_of(paths, forms)

    def _end_of(self, paths: list[str], forms: tuple[str, ...]) -> str:
        for form in forms:
            for end in self._ends.get(form, ()):
                if any(path.endswith(f"/{end}") for path in paths):
                    return end
        return ""

    def _find(self, folder: bytes) -> _Place:
        """A folder's place, worked out from the root downwards as far as it is not known."""
        start, known = folder, self._places.get(folder)
        while start and known is None:
            start = start.rpartition(b"/")[0]
            known = self._places.get(start)
        place = known or _ROOT
        for part in folder[len(start) :].split(b"/"):
            if part:
                start = start + b"/" + part
                place = self._below(place, part)
                if len(start) <= _KEPT_LENGTH:
                    if len(self._places) >= _KEPT_FOLDERS:
                        self._places.clear()
                    self._places[start] = place
        return place

    def _below(self, place: _Place, name: bytes) -> _Place:
        forms = readings(name)
        plain = written(name.decode("utf-8", "surrogateescape"))
        # One path for each reading: more of them would double with every folder.
        paths = dict.fromkeys((f"{place.paths[0]}/{forms[0]}", f"{place.paths[-1]}/{forms[-1]}"))
        return _Place(
            self._judge(place, name, forms),
            tuple(paths),
            f"{place.written}/{plain}",
            place.among_packages or name in _PACKAGE_FOLDERS,
        )

    # --- Entries that are moved or linked to ------------------------------------------------------

    def brings_denied(self, folder: bytes, name: bytes, source: tuple[bytes, bytes] | None = None) -> str:
        """The rule by path for which a directory, or a link to one, may not come to bear this name: what lies in it
        would appear under a denied path (`x/hooks` when `x` becomes `.claude`). Empty when it may.

        `source` is the name (folder, name) that it had, None for a new link. Names are invariant under such moves;
        a rule by path is where both names lie on the way to it.
        """
        # What an exception by path let be made under the old name may be anything.
        old = self._path(*source) if source and not self._is_freed(*source) else ()
        for path in self._path(folder, name):
            for rule, way, is_vague in self._ways:
                if way.hit(path) and not (way.hit_any(old) if source else is_vague):
                    return rule
        return ""

    def taken_along(
        self, folder: bytes, name: bytes, source: tuple[bytes, bytes]
    ) -> "Callable[[bytes, bytes], str] | None":
        """What has to be asked of every entry of a directory that is moved, where exceptions held that do not hold
        under its new name; None when that is nothing.

        The question takes the path below the directory ("" or "/a/b") and the entry's name, and gives the rule.
        """
        if self._is_freed(*source) and not self._frees_all(folder, name):
            base = folder.rstrip(b"/") + b"/" + name
            return lambda below, entry: self.denied(base + below, entry)
        if self.leaves_packages(folder, name, source):
            globs = Globs(ALLOWED_AMONG_PACKAGES)
            return lambda below, entry: globs.find(readings(entry))
        return None

    def _is_freed(self, folder: bytes, name: bytes) -> bool:
        """Whether an exception by path may hold for something at or below this name, and not under another."""
        if self._allowed_paths.empty:
            return False
        path = self._written_path(folder, name)
        return self._allowed_paths.hit(path + _SOMETHING) or any(
            start.startswith(path + "/") for start in self._allowed_starts
        )

    def _frees_all(self, folder: bytes, name: bytes) -> bool:
        """Whether an exception by path holds for whatever lies below this name."""
        return self._allowed_paths.hit(self._written_path(folder, name) + _SOMETHING)

    def _written_path(self, folder: bytes, name: bytes) -> str:
        place = self._places.get(folder) or self._find(folder)
        return f"{place.written}/{written(name.decode('utf-8', 'surrogateescape'))}"

    def leaves_packages(self, folder: bytes, name: bytes, source: tuple[bytes, bytes]) -> bool:
        """Whether a directory that is moved takes what is only allowed among installed packages to where it is not:
        the caller has to look in it for `ALLOWED_AMONG_PACKAGES`, or refuse."""
        return self._is_among(*source) and not self._is_among(folder, name)

    def _is_among(self, folder: bytes, name: bytes) -> bool:
        place = self._places.get(folder) or self._find(folder)
        return place.among_packages or name in _PACKAGE_FOLDERS

    def _path(self, folder: bytes, name: bytes) -> tuple[str, ...]:
        place = self._places.get(folder) or self._find(folder)
        return tuple(f"{above}/{form}" for above in place.paths for form in readings(name))

    # --- Entries that exist at launch -------------------------------------------------------------

    def write_denied(self, folder: str, name: str) -> bool:
        """Whether the entry `name` of the absolute `folder` may not be written, or lies in a denied directory."""
        return bool(self.denied(_encode(folder), _encode(name)))

    def leads_to_denied(self, name: str) -> bool:
        """Whether shipped rules deny entries of a directory `name`, which a link may stand for."""
        return not self._folders.isdisjoint(readings(_encode(name)))

    def read_denied(self, folder: str, name: str) -> bool:
        """Whether the entry `name` of the absolute `folder` may not even be read."""
        if self._hidden.empty and self._hidden_paths.empty:
            return False
        forms = readings(_encode(name))
        if self._hidden.find(forms):
            return True
        place = self._places.get(_encode(folder)) or self._find(_encode(folder))
        return bool(self._hidden_paths.find([f"{above}/{form}" for above in place.paths for form in forms]))


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _names(globs: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(glob for glob in globs if "/" not in glob)


def _paths(globs: tuple[str, ...]) -> tuple[str, ...]:
    """The globs that are whole paths."""
    return tuple(glob for glob in globs if "/" in glob)


def _literal_start(glob: str) -> str:
    """What a glob begins with before anything that is not itself."""
    ends = [at for at in map(glob.find, "*?[") if at >= 0]
    return glob[: min(ends)] if ends else glob


def _by_last(ends: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Ends of paths by their last name."""
    found: dict[str, tuple[str, ...]] = {}
    for end in ends:
        last = fold(end.rpartition("/")[2])
        found[last] = (*found.get(last, ()), fold(end))
    return found


def _ways(paths: tuple[str, ...]) -> tuple[tuple[str, Globs, bool], ...]:
    """For each rule by path the directories above what it denies: rule, glob of the directory, and whether that ends
    in a mere `*`, which every name below fits: a new link there is nothing special."""
    found = []
    for rule in paths:
        parts = rule.split("/")
        for end in range(1, len(parts)):
            way = "/".join(parts[:end])
            if way.strip("/*"):
                found.append((rule, Globs((way,)), parts[end - 1] == "*"))
    return tuple(found)
