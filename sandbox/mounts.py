"""The spec as bubblewrap arguments: what is visible inside, from where, and whether it can be written.

Reads the host (links, directory listings), changes nothing but the private home, which is made when missing.
"""

import os
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gateway.errors import GatewayError
from gateway.session import Mode
from sandbox.filerules import FileRules, NameRules
from sandbox.gitdir import find_git_directory
from sandbox.layout import (
    GH_CONFIG,
    GIT_CONFIG,
    NAMESPACES,
    DataFile,
    base_arguments,
    etc_arguments,
    forge_arguments,
    own_files,
    system_folders,
)
from sandbox.masks import Mask, MaskKind, Search
from sandbox.paths import path_inside
from sandbox.places import Guard, guard, resolve_bind, within
from sandbox.quarantine import Known, remember
from sandbox.session_git import config_text
from sandbox.spec import SandboxSpec
from sandbox.survey import Survey, Tools

# Fixed, since the network namespace is the session's own: what a proxy, a SOCKS server and "3180" are known by.
HTTP_PORT, SOCKS_PORT, GATEWAY_PORT = 3128, 1080, 3180

# bubblewrap's own limit is 9000 (MAX_ARGS); asked here, so that the refusal says what to do.
ARGUMENT_LIMIT = 9_000


@dataclass(frozen=True, slots=True)
class Bind:
    """A resolved host path shown at the same place."""

    path: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class WrapPlan:
    """All of one wrap.

    `binds` (everything bound but the system) and `masks` say what `verify.py` has to find; `visible` are the
    directories to be seen, `home`, `path`, `variables`, `git_config` and `gh_config` what the environment is told.
    `known` is for `quarantine` when the wrap is over, `notes` are for the user.
    """

    arguments: tuple[str, ...]
    files: tuple[DataFile, ...]
    binds: tuple[Bind, ...]
    masks: tuple[Mask, ...]
    python: str
    home: str
    path: str
    visible: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    git_config: str
    gh_config: str = ""
    known: Known = field(default_factory=Known)
    notes: tuple[str, ...] = ()


def plan_wrap(spec: SandboxSpec) -> WrapPlan:
    """Looks at the host and lays the wrap out. GatewayError names what may not or cannot be shown."""
    places = guard(spec.user_home, (spec.state_dir, spec.runtime_dir))
    binds = _spec_binds(spec, places)
    home = _private_home(spec, places)  # made here, so after what may be refused
    system = tuple(system_folders())
    roots = {bind.path: bind.read_only for bind in binds}

    def is_visible(path: str) -> bool:
        return any(within(path, root) for root in (*system, "/etc", *roots)) or path in system

    python = _own_interpreter()
    survey = Survey(
        spec.user_home,
        spec.search_path,
        is_visible,
        is_foreign=lambda path: any(within(path, root) for root in roots),
        may_show=lambda path: not places.refusal(path, read_only=True),
    )
    survey.require(os.path.realpath(sys.base_prefix), os.path.realpath(sys.base_exec_prefix), python)
    if spec.command:
        survey.command(spec.command[0], spec.workdir)
    survey.search_folders()
    search = _search(spec, binds)
    masks = search.in_order()
    shown = _in_order(home, [*(Bind(path, True) for path in survey.tools.binds), *binds])
    arguments = [
        *NAMESPACES,
        *base_arguments(),
        *etc_arguments(),
        *(forge_arguments() if spec.git else ()),
        *_links(survey.tools, is_visible),
        *_bind_arguments(shown, masks),
        *_mask_arguments(masks),
    ]
    if len(arguments) > ARGUMENT_LIMIT:
        raise GatewayError(
            "the wrap needs more mounts than bubblewrap takes",
            "bind fewer or smaller directories, or name harmless files in `files.allow_write` of the configuration",
        )
    inside = home or "/tmp/home"
    git_config = config_text(spec.git, GATEWAY_PORT, spec.git_config)
    return WrapPlan(
        arguments=tuple(arguments),
        files=tuple(own_files(inside, git_config)),
        binds=shown,
        masks=masks,
        python=python,
        home=inside,
        path=path_inside(spec.search_path, survey.shows),
        visible=(*system, *(bind.path for bind in shown)),
        variables=tuple(sorted(survey.tools.variables.items())),
        git_config=GIT_CONFIG if git_config else "",
        gh_config=GH_CONFIG if spec.git else "",
        known=remember(search.git_directories, search.links, search.worktrees),
        notes=_notes(search.links),
    )


def _notes(links: list[str]) -> tuple[str, ...]:
    """What the user should know of names that are protected in part."""
    if not links:
        return ()
    some = ", ".join(repr(link) for link in links[:3]) + (" …" if len(links) > 3 else "")
    return (
        f"{len(links)} protected names are links ({some}): what they lead to is protected, the links themselves"
        " are looked at again when the command is over",
    )


def _private_home(spec: SandboxSpec, places: Guard) -> str:
    """The resolved private home, made when missing; empty when the spec has none."""
    if not spec.home:
        return ""
    try:
        os.makedirs(spec.home, mode=0o700, exist_ok=True)
    except OSError as error:
        raise GatewayError(f"home: {spec.home} cannot be made: {error.strerror}") from error
    home = resolve_bind(spec.home, "home", read_only=False, places=places, managed=True)
    found = os.stat(home)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise GatewayError(f"{home} is not a directory of this user", "remove it, or use another workspace")
    return home


def _spec_binds(spec: SandboxSpec, places: Guard) -> tuple[Bind, ...]:
    """The spec's binds, resolved and checked, with the git directories they need; parents before children."""
    protected = tuple(os.path.realpath(path) for path in spec.protected_paths)
    found: dict[str, bool] = {}

    def take(path: str, read_only: bool) -> None:
        read_only = read_only or any(within(path, sealed) for sealed in protected)
        found[path] = found.get(path, False) or read_only

    for number, mount in enumerate(spec.bind_mounts):
        if mount.guest_path != mount.host_path:
            raise GatewayError(
                f"bind_mounts[{number}].guest_path: this backend shows a path only where it is"
            )
        read_only = mount.read_only or spec.mode is not Mode.CHAT
        take(resolve_bind(mount.host_path, f"bind_mounts[{number}]", read_only, places), read_only)
    for number, folder in enumerate(spec.runner_state_dirs):
        take(resolve_bind(folder, f"runner_state_dirs[{number}]", False, places, managed=True), False)
    for root, read_only in list(found.items()):
        outside = find_git_directory(root, tuple(found))
        if outside:
            take(resolve_bind(outside, f"the git directory of {root}", read_only, places), read_only)
    return tuple(Bind(path, found[path]) for path in sorted(found, key=lambda path: (path.count("/"), path)))


def _search(spec: SandboxSpec, binds: tuple[Bind, ...]) -> Search:
    """What exists below the binds and is denied by name or protected."""
    protected = tuple(os.path.realpath(path) for path in spec.protected_paths)
    rules = NameRules(FileRules(spec.deny_write, spec.allow_write, spec.deny_read))
    search = Search(rules, {bind.path: bind.read_only for bind in binds}, protected)
    walked: list[Bind] = []
    for bind in binds:
        if os.path.isdir(bind.path) and not any(
            within(bind.path, other.path) and bind.read_only >= other.read_only for other in walked
        ):
            search.walk(bind.path, bind.read_only)
            walked.append(bind)
    for path in protected:
        if any(path != bind.path and within(path, bind.path) and not bind.read_only for bind in binds):
            if not os.path.lexists(path):
                raise GatewayError(
                    f"{path} is to be protected and does not exist", "make it, or remove the entry"
                )
            search.seal(path)
    return search


def _own_interpreter() -> str:
    """The interpreter this process runs on, below any virtual environment: its prefix holds the standard library."""
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def _links(tools: Tools, is_visible: Callable[[str], bool]) -> Iterator[str]:
    """Links on the way to programs, where nothing that is bound holds them already."""
    for path, target in sorted(tools.links.items()):
        if not is_visible(path) and not any(within(path, bind) for bind in tools.binds):
            yield from ("--symlink", target, path)


def _in_order(home: str, binds: list[Bind]) -> tuple[Bind, ...]:
    """Everything bound, parents before children; of two at one place the later counts, and the home is writable."""
    found = {bind.path: bind for bind in binds}
    if home:
        found[home] = Bind(home, False)
    return tuple(found[path] for path in sorted(found, key=lambda path: (path.count("/"), path)))


def _bind_arguments(binds: tuple[Bind, ...], masks: tuple[Mask, ...]) -> Iterator[str]:
    """One mount for each bind and each pin, parents before children: a pin shows the host's directory again, and
    after the binds below it would cover a read-only one by what can be written."""
    pins = {mask.path: False for mask in masks if mask.kind is MaskKind.PIN}
    places = pins | {bind.path: bind.read_only for bind in binds}
    for path in sorted(places, key=lambda path: (path.count("/"), path)):
        yield from ("--ro-bind" if places[path] else "--bind", path, path)


def _mask_arguments(masks: tuple[Mask, ...]) -> Iterator[str]:
    """One mount for each mask that takes something away; after the binds, so that none below reopens it."""
    for mask in masks:
        match mask.kind:
            case MaskKind.PIN:
                pass
            case MaskKind.READ_ONLY:
                yield from ("--ro-bind", mask.path, mask.path)
            case MaskKind.EMPTY_FILE:
                yield from ("--ro-bind", "/dev/null", mask.path)
            case MaskKind.EMPTY_FOLDER:
                yield from ("--perms", "0000", "--tmpfs", mask.path, "--remount-ro", mask.path)
