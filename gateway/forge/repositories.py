"""The repositories of the forge, what they are called now and were called before, and where the App is installed.

Makes bare repositories below the forge's folder and nowhere else. It judges no request.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.errors import GatewayError
from gateway.forge import update_rules
from gateway.forge.rules import Rule

# What GitHub takes for a name, without the dots that mean folders.
_FULL_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,99})/(?!\.\.?(?:\.git)?$)([A-Za-z0-9._-]{1,100})")
_FIRST_ID: Final = 1001
_FORMATS: Final = frozenset({"sha1", "sha256"})
# Seconds for a git command that touches no more than a new repository.
_PATIENCE: Final = 60

# What makes a bare repository behave as GitHub's do, as far as a client can tell.
_SETTINGS: Final[Mapping[str, str]] = {
    "http.receivepack": "true",
    "receive.hideRefs": "refs/pull",
    # Every update is shown to the hook below.
    "receive.procReceiveRefs": "refs",
    "receive.advertisePushOptions": "true",
    "receive.advertiseAtomic": "true",
    # Nothing may go on in the background after a push.
    "receive.autogc": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "transfer.advertiseSID": "true",
    "uploadpack.allowFilter": "true",
    "uploadpack.allowAnySHA1InWant": "true",
}


@dataclass(slots=True)
class Repository:
    """A bare repository. Changes: name (`Repositories.rename`), installed, rules."""

    id: int
    owner: str
    name: str
    path: Path
    object_format: str
    private: bool
    # Is the App installed on it?
    installed: bool
    # What a push must not do, first match wins.
    rules: list[Rule] = field(default_factory=list)

    @property
    def full_name(self) -> str:
        """`owner/name`, as spelt."""
        return f"{self.owner}/{self.name}"


@dataclass(slots=True)
class Installation:
    """The App on one owner's account. Changes: suspended."""

    id: int
    owner: str
    suspended: bool = False


@dataclass(frozen=True, slots=True)
class Git:
    """The git program, where it runs, and the whole environment of every process it is run as."""

    program: str
    folder: Path
    environment: Mapping[str, str]

    def run(self, *arguments: str, text: str = "") -> str:
        """What git says on stdout, stripped. GatewayError when it fails."""
        try:
            done = subprocess.run(
                (self.program, *arguments),
                input=text,
                cwd=self.folder,
                env=dict(self.environment),
                capture_output=True,
                text=True,
                check=False,
                timeout=_PATIENCE,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise GatewayError(f"git could not be run: {error}", "install git") from error
        if done.returncode != 0:
            raise GatewayError(f"git {arguments[0]} failed: {done.stderr.strip()[:1000]}")
        return done.stdout.strip()


def find_git(folder: Path, program: str | None = None) -> Git:
    """Git with an environment of its own: no setting of the host's user, system or GIT_* variable gets in.

    `program`: what to run; None looks on PATH. GatewayError when there is none.
    """
    found = program or shutil.which("git")
    if found is None:
        raise GatewayError("there is no git on PATH", "install git")
    found = str(Path(found).absolute())
    environment = {
        "PATH": os.pathsep.join((str(Path(found).parent), os.defpath)),
        "HOME": str(folder),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        # The folder may lie inside a worktree, whose configuration is none of ours.
        "GIT_CEILING_DIRECTORIES": str(folder.parent),
    }
    return Git(found, folder, environment)


class Repositories:
    """All of them by id and by name. Changes; may be used from any thread."""

    def __init__(self, folder: Path, git: Git) -> None:
        self._folder = folder
        self._git = git
        self._hooks = _write_hook(folder / "hooks")
        self._lock = threading.Lock()
        self._by_id: dict[int, Repository] = {}
        self._by_name: dict[str, int] = {}
        self._installations: dict[str, Installation] = {}

    def create(
        self,
        full_name: str,
        *,
        object_format: str = "sha1",
        private: bool = True,
        installed: bool = True,
        fork_of: str = "",
    ) -> Repository:
        """A new, empty, bare repository. `fork_of` shares the objects of that one, whose refs a push is told as
        `.have`. GatewayError for a name that is taken or none."""
        owner, name = parse_name(full_name)
        if object_format not in _FORMATS:
            raise GatewayError(f"{object_format!r} is no object format", "write sha1 or sha256")
        with self._lock:
            self._must_be_free(full_name)
            number = _FIRST_ID + len(self._by_id)
            # By number: a name may be taken anew after a rename, and letter case is nothing to a file system.
            path = self._folder / f"{number}.git"
            self._initialise(path, object_format)
            if fork_of:
                self._share(path, fork_of)
            repository = Repository(number, owner, name, path, object_format, private, installed)
            self._by_id[number] = repository
            self._by_name[_key(full_name)] = number
            self._install(owner)
        return repository

    def find(self, full_name: str) -> Repository | None:
        """By its name of today or, after a rename, of before; letter case is nothing."""
        number = self._by_name.get(_key(full_name))
        return None if number is None else self._by_id[number]

    def by_id(self, number: int) -> Repository | None:
        """By its number, which no rename changes."""
        return self._by_id.get(number)

    def rename(self, full_name: str, new: str) -> None:
        """From now on the old name leads to the new one by a redirect. Another owner is a transfer."""
        owner, name = parse_name(new)
        with self._lock:
            repository = self._known(full_name)
            self._must_be_free(new)
            repository.owner, repository.name = owner, name
            self._by_name[_key(new)] = repository.id
            self._install(owner)

    def installation_of(self, repository: Repository) -> Installation | None:
        """Through which the App reaches the repository; None where it is not installed."""
        return self._installations.get(repository.owner.lower()) if repository.installed else None

    def installation(self, number: int) -> Installation | None:
        """By its number."""
        return next((item for item in self._installations.values() if item.id == number), None)

    def of_installation(self, installation: Installation) -> tuple[Repository, ...]:
        """What it reaches."""
        owner = installation.owner.lower()
        return tuple(item for item in self._by_id.values() if item.installed and item.owner.lower() == owner)

    def suspend(self, owner: str, *, suspended: bool = True) -> None:
        """Suspends the App on that account, or lets it go on."""
        installation = self._installations.get(owner.lower())
        if installation is None:
            raise GatewayError(f"the App is not installed on {owner}")
        installation.suspended = suspended

    def _install(self, owner: str) -> None:
        number = 1 + len(self._installations)
        self._installations.setdefault(owner.lower(), Installation(50_000 + number, owner))

    def _must_be_free(self, full_name: str) -> None:
        """A name that only redirects is free."""
        taken = self.find(full_name)
        if taken is not None and _key(taken.full_name) == _key(full_name):
            raise GatewayError(f"{full_name} is there already")

    def _known(self, full_name: str) -> Repository:
        repository = self.find(full_name)
        if repository is None:
            raise GatewayError(f"there is no repository {full_name}")
        return repository

    def _initialise(self, path: Path, object_format: str) -> None:
        self._git.run(
            "init",
            "--quiet",
            "--bare",
            "--template=",
            "--initial-branch=main",
            f"--object-format={object_format}",
            str(path),
        )
        lines = []
        for setting, value in {**_SETTINGS, "core.hooksPath": f'"{self._hooks}"'}.items():
            section, _, key = setting.partition(".")
            lines.append(f"[{section}]\n\t{key} = {value}\n")
        with (path / "config").open("a", encoding="utf-8") as file:
            file.write("".join(lines))

    def _share(self, path: Path, source: str) -> None:
        info = path / "objects" / "info"
        info.mkdir(exist_ok=True)
        (info / "alternates").write_text(f"{self._known(source).path / 'objects'}\n", encoding="utf-8")


def _write_hook(folder: Path) -> Path:
    """The folder of the hooks that all repositories share."""
    folder.mkdir(exist_ok=True)
    words = (sys.executable, "-I", "-S", str(Path(update_rules.__file__).resolve()))
    hook = folder / "proc-receive"
    hook.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n", encoding="utf-8")
    hook.chmod(0o755)
    return folder


def parse_name(full_name: str) -> tuple[str, str]:
    """Owner and name. GatewayError for anything that is not `owner/name` in GitHub's letters."""
    found = _FULL_NAME.fullmatch(full_name)
    if found is None or full_name.lower().endswith(".git"):
        raise GatewayError(f"{full_name!r} is no name of a repository", "write owner/name")
    return found[1], found[2]


def _key(full_name: str) -> str:
    return full_name.lower()
