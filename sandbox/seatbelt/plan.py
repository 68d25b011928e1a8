"""A spec on macOS: the file policy of its launch, and what the environment is told. Runs on any platform.

Reads the host (links, pointer files, directories), changes nothing but the private home, which is made when missing.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from gateway.errors import GatewayError
from gateway.session import Profile
from sandbox.binds import private_home, protected_paths, read_only_notes, spec_binds
from sandbox.filerules import (
    ALLOWED_AMONG_PACKAGES,
    UNSEARCHED_FOLDERS,
    WRITE_ALLOWED_NAMES,
    WRITE_DENIED_NAMES,
    WRITE_DENIED_PATHS,
    FileRules,
    NameRules,
)
from sandbox.folders import make_private
from sandbox.governed import PACKAGE_CACHES, Ground
from sandbox.paths import path_inside
from sandbox.places import SYSTEM_SECRETS, Guard, guard, within
from sandbox.seatbelt import developer_tools, services
from sandbox.seatbelt.policy import FilePolicy, Names, Operation, Root
from sandbox.seatbelt.profile import Network, seatbelt_profile
from sandbox.seatbelt.spelling import spell
from sandbox.spec import SandboxSpec
from sandbox.spec_checks import check_private, check_spec
from sandbox.survey import Survey
from sandbox.terminal.wrap import writable_binds

PROGRAM = "/usr/bin/sandbox-exec"
# In the folder of a launch: where temporary files go, the home of a spec that has none, and the profile, which nobody
# inside reads.
TEMPORARY, HOME, PROFILE = "tmp", "home", "profile.sb"
# Stand for what only a launch knows, where a profile is only looked at.
NO_FOLDER = "/private/var/folders/agent-gateway-wrap"
NO_TAG = "agent-gateway-TAG"
NO_PORTS = (3128, 1080, 3180)
# Directories at the top of a worktree whose programs are executed, and what proves them to be what they are called.
PROJECT_TOOLS = {"node_modules": ".bin", ".venv": "pyvenv.cfg", "venv": "pyvenv.cfg"}
# sys/fcntl.h: asks for the name that the disk has for an open file.
F_GETPATH = 50
PATH_LIMIT = 1024


@dataclass(frozen=True, slots=True)
class Layout:
    """One wrap: its policy, and what the environment is told of home, PATH, temporary files and toolchains.
    `notes` are for the user."""

    policy: FilePolicy
    is_terminal: bool
    home: str
    path: str
    tmpdir: str
    variables: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    def profile(self, ports: tuple[int, ...], tag: str) -> str:
        """The text for `sandbox-exec`."""
        return seatbelt_profile(self.policy, Network(ports, self.is_terminal), tag)


@dataclass(frozen=True, slots=True)
class Preview:
    """What a launch would run: the command line, with the profile's file named by its last part, and the profile."""

    argv: tuple[str, ...]
    profile: str
    notes: tuple[str, ...] = ()


def preview(spec: SandboxSpec, ports: tuple[int, ...] = NO_PORTS) -> Preview:
    """What `launch` would do with this spec; makes and starts nothing. GatewayError as for a launch.

    The folder and the tag of the launch are placeholders, and so are the ports unless they are given.
    """
    layout = plan_seatbelt(spec, NO_FOLDER, make_home=False)
    return Preview((PROGRAM, "-f", PROFILE, *spec.command), layout.profile(ports, NO_TAG), layout.notes)


def plan_seatbelt(
    spec: SandboxSpec, folder: str, own: Iterable[str] = (), *, make_home: bool = True
) -> Layout:
    """Looks at the host and lays the wrap out. GatewayError names what may not or cannot be.

    `folder` is the launch's own directory, `own` other directories that it has made for its commands. Without
    `make_home` nothing is made: the plan is for looking at.
    """
    check_spec(spec)
    return lay_out(spec, guard(spec.user_home, (spec.state_dir, spec.runtime_dir)), folder, own, make_home)


def lay_out(spec: SandboxSpec, places: Guard, folder: str, own: Iterable[str], make_home: bool) -> Layout:
    """The same for a checked spec and given places."""
    is_terminal = spec.profile is Profile.TERMINAL
    binds = writable_binds(spec, places) if is_terminal else spec_binds(spec, places, make_home)
    roots = [Root(bind.path, not bind.read_only) for bind in binds]
    _refuse_system(roots)
    temporary = os.path.join(os.path.realpath(folder), TEMPORARY)
    roots += [Root(temporary, True), *(Root(os.path.realpath(path), True) for path in own)]
    if is_terminal:
        home = os.path.realpath(spec.user_home)
    else:
        home = private_home(spec, places, make_home) or os.path.join(os.path.realpath(folder), HOME)
        check_private(spec)
        roots.append(Root(home, True))
        if make_home:
            _prepare(home)
    found = _Host(spec, places, roots)
    policy = found.policy(home)
    tools = developer_tools.find_tools()
    if sdk := developer_tools.find_sdk(tools):
        found.variables[developer_tools.SDK_VARIABLE] = sdk
    path = path_inside(spec.search_path, lambda path: _is_readable(policy, path))
    return Layout(
        policy=policy,
        is_terminal=is_terminal,
        home=home,
        path=developer_tools.put_first(path, tools),
        tmpdir=temporary,
        variables=tuple(sorted(found.variables.items())),
        notes=() if is_terminal else tuple(read_only_notes(spec, tuple(binds))),
    )


def _refuse_system(roots: Iterable[Root]) -> None:
    for root in roots:
        if root.writable and root.path in services.SYSTEM_ROOTS:
            raise GatewayError(
                f"{root.path} cannot be written from inside the wrap: it is a directory of the system",
                "name a directory below it",
            )


def _prepare(home: str) -> None:
    """Makes the directories that a rule by path keeps anybody inside from making (`policy.ways`), where programs
    expect to make them: in the home directory."""
    for end in WRITE_DENIED_PATHS:
        make_private(os.path.join(home, os.path.dirname(end)))


def _is_readable(policy: FilePolicy, path: str) -> bool:
    return not policy.refusal(Operation.READ, os.path.realpath(path))


@dataclass(slots=True)
class _Host:
    """What the host says about a spec, collected. `roots` are resolved."""

    spec: SandboxSpec
    places: Guard
    roots: list[Root]
    variables: dict[str, str] = field(default_factory=dict)

    def policy(self, home: str) -> FilePolicy:
        """All of it, each path in all its spellings."""
        spec = self.spec
        is_terminal = spec.profile is Profile.TERMINAL
        aliases = tuple(self._aliases())
        writable = [root.path for root in self.roots if root.writable]
        hidden = tuple(dict.fromkeys(self._hidden()))
        closed = [Root(path, False) for path in filter(_lies_in(writable), hidden)]
        sealed = protected_paths(spec) if is_terminal else tuple(self._sealed(home))
        return FilePolicy(
            roots=tuple(_spelled_roots([*closed, *self.roots], aliases)),
            hidden=_spelled(hidden, aliases),
            shown=_spelled(filter(_lies_in(hidden), (root.path for root in self.roots)), aliases),
            hidden_names=tuple(glob for glob in spec.deny_read if "/" not in glob),
            hidden_paths=_spelled_globs(spec.deny_read, aliases),
            bases=_spelled((*(root.path for root in self.roots), *self.places.homes), aliases),
            names=Names() if is_terminal else _names(spec, home, aliases),
            sealed=_spelled(sealed, aliases),
            runnable=() if is_terminal else _spelled(self._runnable(writable, hidden), aliases),
            runs_everything=is_terminal,
            terminals=own_terminals(),
        )

    def _aliases(self) -> Iterator[tuple[str, str]]:
        """Pairs of names of one directory: without links, as written, and as the disk has it."""
        spec = self.spec
        written = (
            *(mount.host_path for mount in spec.bind_mounts),
            *spec.runner_state_dirs,
            *spec.protected_paths,
            *spec.exec_grant_roots,
            *(path for path in (spec.home, spec.user_home, spec.state_dir, spec.runtime_dir) if path),
        )
        for path in dict.fromkeys((*written, *(root.path for root in self.roots))):
            real = os.path.realpath(path)
            yield real, os.path.normpath(path)
            # The path may be a link itself, which stands in a directory that the kernel knows by its own name.
            yield real, os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            yield real, disk_name(real)

    def _hidden(self) -> Iterator[str]:
        """What is never read, as it is listed and as the disk has it."""
        for path in self._secrets():
            yield path
            yield disk_name(path)

    def _secrets(self) -> Iterator[str]:
        """Secrets of the user and of the system, and what this product keeps for itself and for other sessions."""
        yield from self.places.secrets
        yield from SYSTEM_SECRETS
        yield from services.SYSTEM_SECRETS
        for home in self.places.homes:
            yield from (os.path.join(home, place) for place in services.SECRET_PLACES)
        yield from self.places.own

    def _sealed(self, home: str) -> tuple[str, ...]:
        """Git directories' own files, what links of denied names lead to, and protected paths. There is nobody outside
        who could judge a new `.git/config`, so it is sealed like the rest."""
        spec = self.spec
        protected = protected_paths(spec)
        rules = NameRules(FileRules(spec.deny_write, spec.allow_write))
        search = Ground(rules, {root.path: not root.writable for root in self.roots}, protected)
        walked: list[str] = []
        for root in sorted(self.roots, key=lambda root: root.path.count("/")):
            if root.path != home and root.writable and not any(within(root.path, one) for one in walked):
                search.walk(root.path, read_only=False)
                walked.append(root.path)
        for path in protected:
            search.seal(path)
        binds = [(root.path, not root.writable) for root in self.roots]
        governed = search.governed(binds, (), "", search.in_order())
        return (*sorted((*governed.sealed, *governed.read_only)), *governed.git_configs)

    def _runnable(self, writable: list[str], hidden: tuple[str, ...]) -> tuple[str, ...]:
        """What is executed although it can be written: what the user grants, and what CMD and PATH lead to."""
        spec = self.spec
        granted = [os.path.realpath(path) for path in spec.exec_grant_roots]
        for number, path in enumerate(granted):
            secret = next((one for one in hidden if within(path, one) or within(one, path)), "")
            if secret and not any(within(path, root) for root in writable):
                raise GatewayError(
                    f"exec_grant_roots[{number}]: {path} and {secret}, which is never seen, lie in one another",
                    "name the directory of the program alone",
                )
        survey = Survey(
            spec.user_home,
            spec.search_path,
            is_visible=lambda path: not any(within(path, root) for root in writable),
            is_foreign=lambda path: any(within(path, root) for root in writable),
            may_show=lambda path: not any(within(root, path) for root in writable),
        )
        survey.require(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
        if spec.command:
            survey.command(spec.command[0], spec.workdir)
        survey.search_folders()
        self.variables |= survey.tools.variables
        return tuple(dict.fromkeys((*granted, *survey.tools.binds, *self._project_tools())))

    def _project_tools(self) -> Iterator[str]:
        """What package managers have installed in the worktrees themselves: `npm test` and `pytest` execute it."""
        for mount in self.spec.bind_mounts:
            root = os.path.realpath(mount.host_path)
            for name, proof in PROJECT_TOOLS.items():
                folder = os.path.join(root, name)
                if not os.path.islink(folder) and os.path.lexists(os.path.join(folder, proof)):
                    yield folder


def own_terminals() -> tuple[str, ...]:
    """The terminal that this process shares with what it starts, if it has one."""
    found: dict[str, None] = {}
    for number in (0, 1, 2):
        try:
            name = os.ttyname(number)
        except OSError:
            continue
        if re.match(services.TERMINAL_PATTERN, name):
            found[name] = None
    return tuple(found)


def disk_name(path: str) -> str:
    """The path in the letter case of the disk, which the kernel compares; as it is where nobody can say."""
    if sys.platform != "darwin":
        return path
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return path
    try:
        found = fcntl.fcntl(descriptor, F_GETPATH, bytes(PATH_LIMIT))
    except OSError:
        return path
    finally:
        os.close(descriptor)
    return os.fsdecode(found.rstrip(b"\0"))


def _names(spec: SandboxSpec, home: str, aliases: tuple[tuple[str, str], ...]) -> Names:
    """The shipped lists and the configuration's."""
    return Names(
        names=WRITE_DENIED_NAMES,
        paths=tuple(f"*/{end}" for end in WRITE_DENIED_PATHS),
        more_names=tuple(glob for glob in spec.deny_write if "/" not in glob),
        more_paths=_spelled_globs(spec.deny_write, aliases),
        allowed=WRITE_ALLOWED_NAMES,
        more_allowed=tuple(glob for glob in spec.allow_write if "/" not in glob),
        allowed_paths=_spelled_globs(spec.allow_write, aliases),
        package_names=ALLOWED_AMONG_PACKAGES,
        package_folders=UNSEARCHED_FOLDERS,
        package_places=_spelled((f"{home}/{cache}" for cache in PACKAGE_CACHES), aliases),
    )


def _spelled(paths: Iterable[str], aliases: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for path in paths for one in spell(path, aliases)))


def _lies_in(places: Iterable[str]) -> Callable[[str], bool]:
    return lambda path: any(within(path, place) for place in places)


def _spelled_roots(roots: Iterable[Root], aliases: tuple[tuple[str, str], ...]) -> list[Root]:
    """Parents before children; of two at one place the read-only one counts."""
    found: dict[str, bool] = {}
    for root in roots:
        for path in spell(root.path, aliases):
            found[path] = found.get(path, True) and root.writable
    return [Root(path, found[path]) for path in sorted(found, key=lambda path: (path.count("/"), path))]


def _spelled_globs(globs: Iterable[str], aliases: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Those that are whole paths. What stands before the first wildcard is a path like others; a relative one means
    every place."""
    found: dict[str, None] = {}
    for glob in globs:
        if "/" not in glob:
            continue
        if not glob.startswith(("/", "*")):
            glob = f"*/{glob}"
        fixed = min((at for at in map(glob.find, "*?[") if at >= 0), default=len(glob))
        folder = glob[:fixed].rpartition("/")[0]
        found |= dict.fromkeys(spell(glob, aliases))
        if folder:
            found |= dict.fromkeys(spell(os.path.realpath(folder) + glob[len(folder) :], aliases))
    return tuple(found)
