"""What a command needs to run: where it is installed, what interprets it. Looks at the host, changes nothing.

Shown inside is the install prefix, not only the file: an interpreter finds its library beside itself. A home
directory, or anything that holds secrets, is never a prefix; then the narrower directory or the file alone is.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import islice

from gateway.errors import GatewayError
from sandbox.paths import (
    ALL_MARKS,
    MANAGED_TOOLCHAINS,
    SYSTEM_PATH,
    TOOLCHAIN_PROOFS,
    base_interpreter,
    find_program,
    has_mark,
    holds_python,
    install_prefixes,
    is_program_folder,
    is_toolchain,
    path_folders,
    shebang,
)

# What the kernel follows in one path (MAXSYMLINKS).
LINK_LIMIT = 40
# Programs looked at in one launch, and entries of one PATH folder: the limits only stop absurd set-ups.
PROGRAM_LIMIT = 400
FOLDER_LIMIT = 200
# What a Python and a virtual environment need of their prefix.
PYTHON_PARTS = ("bin", "lib", "pyvenv.cfg")


class Trust(IntEnum):
    """How much is believed of the pointer (link, first line, pyvenv.cfg) that led to a program."""

    # It stands where the wrapped process can write: an earlier session may have put it there, to be shown something.
    # Only what a toolchain's mark proves to be one is shown.
    PLANTED = 0
    # The user's PATH: a marked prefix, otherwise its program folder, otherwise the file.
    FOUND = 1
    # CMD: whatever it lies in is taken for its installation.
    NAMED = 2


@dataclass(slots=True)
class Tools:
    """What has to be shown, collected. Changes while `Survey` works; read-only afterwards."""

    binds: list[str] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)


class Survey:
    """Finds what CMD and the programs on PATH need.

    `is_visible` says whether a resolved path is shown anyway, `is_foreign` whether others than the user may have
    written it, `may_show` whether it may be shown at all, read-only.
    """

    def __init__(
        self,
        home: str,
        search_path: str,
        is_visible: Callable[[str], bool],
        is_foreign: Callable[[str], bool],
        may_show: Callable[[str], bool],
    ) -> None:
        self._home = os.path.realpath(home) if home else ""
        self._folders = path_folders(search_path)
        self._is_visible = is_visible
        self._is_foreign = is_foreign
        self._may_show = may_show
        self._seen: set[str] = set()
        self.tools = Tools()

    def require(self, *paths: str) -> None:
        """The product's own interpreter and its library. GatewayError when they lie where nothing may be shown."""
        for path in paths:
            if not self._show_first((path,)):
                raise GatewayError(
                    f"the interpreter of this program, in {path}, cannot be shown inside the wrap",
                    "install it with a Python that has a directory of its own",
                )

    def shows(self, folder: str) -> bool:
        """Whether a folder on PATH, as written, is to be seen inside."""
        return self._shown(os.path.realpath(folder))

    def command(self, name: str, workdir: str) -> None:
        """CMD itself: its prefix, its interpreter, and so on along the chain."""
        found = find_program(name, self._folders, workdir)
        if found:
            self._program(found, Trust.NAMED)

    def search_folders(self) -> None:
        """Every folder on PATH with the programs in it that are links to somewhere else."""
        for folder in self._folders:
            real, trust = self._follow(folder, Trust.FOUND)
            if not os.path.isdir(real):
                continue
            if not self._shown(real):
                prefix = os.path.dirname(real)
                if trust is not Trust.PLANTED:
                    wide = is_program_folder(real) and is_toolchain(prefix, ALL_MARKS)
                    self._show_first((prefix, real) if wide else (real,))
                elif is_program_folder(real):
                    self._show_planted(prefix)
                self._known_toolchains(real, trust)
            if real not in SYSTEM_PATH and self._shown(real):
                self._links_in(real, trust)

    def _links_in(self, folder: str, trust: Trust) -> None:
        """Follows the links of one folder: that is how uv, pipx, npm and installers put programs on PATH."""
        try:
            with os.scandir(folder) as listing:
                links = [entry.path for entry in islice(listing, FOLDER_LIMIT) if entry.is_symlink()]
        except OSError:
            return
        for link in links:
            self._program(link, trust)

    def _program(self, path: str, trust: Trust) -> None:
        """One program file: shows its prefix, then looks at what it needs in turn."""
        pending = [(path, trust)]
        while pending and len(self._seen) < PROGRAM_LIMIT:
            written, trust = pending.pop()
            if written in self._seen:
                continue
            self._seen.add(written)
            for hop, believed in self._hops(written, trust):
                pending += self._prefix(hop, believed)
                pending += self._interpreter(hop, believed)

    def _hops(self, path: str, trust: Trust) -> Iterator[tuple[str, Trust]]:
        """The name at each link on the way, from the written one to the real file's; links on the way are noted."""
        for _ in range(LINK_LIMIT):
            folder, trust = self._follow(os.path.dirname(path), trust)
            path = os.path.join(folder, os.path.basename(path))
            yield path, trust
            try:
                target = os.readlink(path)
            except OSError:
                return
            trust = self._believed(path, trust)
            path = os.path.normpath(os.path.join(folder, target))

    def _believed(self, path: str, trust: Trust) -> Trust:
        """What is left of the trust after following something that stands at `path`."""
        return Trust.PLANTED if self._is_foreign(path) else trust

    def _follow(self, folder: str, trust: Trust) -> tuple[str, Trust]:
        """A folder's real path. Links on the way that are not shown anyway are noted, to be made inside as well."""
        real = "/"
        pending = [part for part in reversed(folder.split("/")) if part]
        for _ in range(len(pending) + LINK_LIMIT * 8):
            if not pending:
                break
            part = pending.pop()
            if part in (".", ".."):
                real = os.path.dirname(real) if part == ".." else real
                continue
            here = os.path.join(real, part)
            try:
                target = os.readlink(here)
            except OSError:
                real = here
                continue
            trust = self._believed(here, trust)
            if not self._shown(here):
                self.tools.links[here] = target
            real = "/" if target.startswith("/") else real
            pending += [piece for piece in reversed(target.split("/")) if piece]
        return real, trust

    def _prefix(self, path: str, trust: Trust) -> list[tuple[str, Trust]]:
        """Shows the install prefix of a file at its resolved folder; returns programs that the prefix builds on."""
        folder = os.path.dirname(path)
        more: list[tuple[str, Trust]] = []
        for candidate in (folder, os.path.dirname(folder)):
            settings = os.path.join(candidate, "pyvenv.cfg")
            base = base_interpreter(settings)
            if base:
                # Its prefix is an installation of Python whoever names it.
                more.append((base, self._believed(settings, trust)))
                if trust is Trust.PLANTED:
                    self._show_planted(candidate)
                else:
                    self._show_first((candidate,))
                break
        if not self._shown(path):
            if trust is Trust.PLANTED:
                for prefix in install_prefixes(path):
                    self._show_planted(prefix)
            else:
                self._show_first(self._candidates(path, folder, trust))
            if not self._shown(path) and os.path.islink(path) and trust is not Trust.PLANTED:
                self.tools.links[path] = os.readlink(path)
        self._known_toolchains(folder, trust)
        return more

    def _candidates(self, path: str, folder: str, trust: Trust) -> tuple[str, ...]:
        """What may be shown of a program's surroundings, widest first."""
        prefixes = tuple(
            prefix
            for prefix in install_prefixes(path)
            if trust is Trust.NAMED
            or is_toolchain(prefix, ALL_MARKS)
            or os.path.basename(prefix) == "node_modules"
        )
        own = is_program_folder(folder) or (trust is Trust.NAMED and self._is_own_folder(folder))
        return (*prefixes, *((folder,) if own else ()), path)

    def _show_planted(self, prefix: str) -> None:
        """What somebody else led to: a proven toolchain; of a Python or a virtual environment only what runs it,
        since people make those in the midst of a project; of a repository nothing."""
        if self._shown(prefix) or os.path.lexists(os.path.join(prefix, ".git")):
            return
        if has_mark(prefix, TOOLCHAIN_PROOFS):
            self._show_first((prefix,))
        elif os.path.isfile(os.path.join(prefix, "pyvenv.cfg")) or holds_python(prefix):
            for name in PYTHON_PARTS:
                self._show_first((os.path.join(prefix, name),))

    def _is_own_folder(self, folder: str) -> bool:
        """Whether a folder may be taken for a program's own: not one where people keep all sorts of things."""
        parent = os.path.dirname(folder)
        return parent != "/" and (parent != self._home or os.path.basename(folder).startswith("."))

    def _known_toolchains(self, folder: str, trust: Trust) -> None:
        """Toolchains that are found through a home directory, which is another one inside."""
        variable, place = MANAGED_TOOLCHAINS.get(os.path.relpath(folder, self._home or "/"), ("", ""))
        root = os.path.join(self._home, place)
        if variable and self._home:
            if os.path.isdir(root) and self._show_first((os.path.realpath(root),)):
                self.tools.variables[variable] = root
        elif trust is Trust.NAMED and folder == os.path.join(self._home, ".local/bin"):
            library = os.path.join(self._home, ".local/lib")
            if os.path.isdir(library) and self._show_first((os.path.realpath(library),)):
                self.tools.variables["PYTHONUSERBASE"] = os.path.join(self._home, ".local")

    def _interpreter(self, path: str, trust: Trust) -> list[tuple[str, Trust]]:
        """The program that a script's first line names; `env` is looked through."""
        words = [] if os.path.islink(path) else shebang(path)
        if not words:
            return []
        named = (words[0], self._believed(path, trust))
        if os.path.basename(words[0]) != "env":
            return [named]
        names = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        found = find_program(names[0], self._folders, "/") if names and "/" not in names[0] else ""
        # What the user's PATH finds is theirs, whoever asks for it.
        return [named, (found, Trust.FOUND)] if found else [named]

    def _shown(self, real: str) -> bool:
        return self._is_visible(real) or any(
            real == bind or real.startswith(bind + "/") for bind in self.tools.binds
        )

    def _show_first(self, candidates: tuple[str, ...]) -> bool:
        """Shows the first, widest, of the candidates that may be shown; False when none may."""
        for candidate in candidates:
            if self._shown(candidate):
                return True
            if os.path.lexists(candidate) and not os.path.islink(candidate) and self._may_show(candidate):
                self.tools.binds = [bind for bind in self.tools.binds if not bind.startswith(candidate + "/")]
                self.tools.binds.append(candidate)
                return True
        return False
