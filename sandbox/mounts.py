"""The spec as bubblewrap arguments: what is visible inside, from where, and whether it can be written.

Reads the host (links, directory listings), changes nothing but the private home (`binds.py`).
"""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gateway.errors import GatewayError
from gateway.session import FileRules
from sandbox.agents.claude import MANAGED_FOLDER, ClaudeHook, hook_command
from sandbox.binds import Bind as Bind
from sandbox.binds import is_own_place, private_home, protected_paths, read_only_notes, spec_binds
from sandbox.etc_layout import EtcLayout
from sandbox.filerules import FileRules as NameLists
from sandbox.filerules import NameRules
from sandbox.git.session import config_text, gateway_url
from sandbox.governed import PRIVATE_MOUNTS, Governed, Ground
from sandbox.layout import (
    GH_CONFIG,
    GIT_CONFIG,
    HOOK,
    NAMESPACES,
    OWN_FOLDER,
    DataFile,
    base_arguments,
    forge_arguments,
    hook_files,
    own_files,
    system_folders,
)
from sandbox.masks import Mask, MaskKind, Search
from sandbox.paths import path_inside
from sandbox.places import KERNEL_PLACES, guard, within
from sandbox.quarantine import Known, remember
from sandbox.spec import SandboxSpec
from sandbox.spec_checks import check_private, check_spec
from sandbox.survey import Survey, Tools

# Fixed, since the network namespace is the session's own: what a proxy, a SOCKS server and "3180" are known by.
HTTP_PORT, SOCKS_PORT, GATEWAY_PORT = 3128, 1080, 3180

# bubblewrap's own limit is 9000 (MAX_ARGS); asked here, so that the refusal says what to do.
ARGUMENT_LIMIT = 9_000
# Where the wrap has what is its own, and no link of the host's is made.
OWN_PLACES = (*KERNEL_PLACES, OWN_FOLDER)
ETC = EtcLayout()


@dataclass(frozen=True, slots=True)
class WrapPlan:
    """All of one wrap.

    `binds` (everything bound but the system) and `masks` say what `verify.py` has to find; `visible` are the
    directories to be seen, `home`, `path`, `variables`, `git_config` and `gh_config` what the environment is told.
    `known` is for `quarantine` when the wrap is over, `notes` are for the user. `governed` is what names are judged in
    when they are made; None when names that exist are masked instead.
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
    governed: Governed | None = None


def plan_wrap(spec: SandboxSpec, *, make_home: bool = True) -> WrapPlan:
    """Looks at the host and lays the wrap out. GatewayError names what may not or cannot be shown.

    Without `make_home` nothing is made: the plan is for looking at.
    """
    check_spec(spec)
    places = guard(spec.user_home, (spec.state_dir, spec.runtime_dir))
    binds = spec_binds(spec, places, make_home)
    if spec.hook is not None:  # what stands there has its files among ours
        binds = tuple(bind for bind in binds if not within(bind.path, MANAGED_FOLDER))
    check_private(spec)
    home = private_home(spec, places, make_home)  # made here, so after what may be refused
    system = tuple(system_folders())
    roots = {bind.path: bind.read_only for bind in binds}

    def is_visible(path: str) -> bool:
        return any(within(path, root) for root in (*system, "/etc", *roots)) or path in system

    python = own_interpreter()
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
    search = _search(spec, binds, make_home)
    masks = search.in_order()
    shown = _in_order(home, [*(Bind(path, True) for path in survey.tools.binds), *binds])
    etc, etc_files = ETC.now()
    arguments = (
        *NAMESPACES,
        *base_arguments(),
        *etc,
        *(forge_arguments() if spec.git else ()),
        *_links(survey.tools, is_visible),
        *bind_arguments(shown, masks),
        *mask_arguments(masks),
    )
    _check_number(arguments)
    inside = home or "/tmp/home"
    git_config = config_text(spec.git, GATEWAY_PORT, spec.git_config)
    return WrapPlan(
        arguments=arguments,
        files=(*own_files(inside, git_config), *hook_files(spec.hook, inside_hook(spec.hook)), *etc_files),
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
        notes=(*read_only_notes(spec, binds), *_notes(search)),
        governed=_governed(search, spec, shown, home, masks),
    )


def _check_number(arguments: tuple[str, ...]) -> None:
    if len(arguments) > ARGUMENT_LIMIT:
        raise GatewayError(
            "the wrap needs more mounts than bubblewrap takes",
            "bind fewer or smaller directories, or name harmless files in `files.allow_write` of the configuration",
        )


def _governed(
    search: Search, spec: SandboxSpec, shown: tuple[Bind, ...], home: str, masks: tuple[Mask, ...]
) -> Governed | None:
    """What names are judged in; None when masks do it all."""
    if not isinstance(search, Ground):
        return None
    private = (*PRIVATE_MOUNTS, *((GH_CONFIG,) if spec.git else ()))
    return search.governed([(bind.path, bind.read_only) for bind in shown], private, home, masks)


def _notes(search: Search) -> tuple[str, ...]:
    """What the user should know of names that are protected in part."""
    links = search.links
    if not links or isinstance(search, Ground):
        return ()
    some = ", ".join(repr(link) for link in links[:3]) + (" …" if len(links) > 3 else "")
    return (
        f"{len(links)} protected names are links ({some}): what they lead to is protected, the links themselves"
        " are looked at again when the command is over",
    )


def _search(spec: SandboxSpec, binds: tuple[Bind, ...], is_launch: bool = True) -> Search:
    """What exists below the binds and is denied by name or protected. Before a launch what the product makes itself is
    not there yet."""
    protected = protected_paths(spec)
    rules = NameRules(NameLists(spec.deny_write, spec.allow_write, spec.deny_read))
    kind = Ground if spec.file_rules is FileRules.CREATE_TIME else Search
    search = kind(rules, {bind.path: bind.read_only for bind in binds}, protected)
    walked: list[Bind] = []
    for bind in binds:
        if os.path.isdir(bind.path) and not any(
            within(bind.path, other.path) and bind.read_only >= other.read_only for other in walked
        ):
            search.walk(bind.path, bind.read_only)
            walked.append(bind)
    for path in protected:
        if any(path != bind.path and within(path, bind.path) and not bind.read_only for bind in binds):
            is_made = is_launch or not is_own_place(spec, path)
            if kind is Search and is_made and not os.path.lexists(path):
                raise GatewayError(
                    f"protected_paths: {path} is to be protected and does not exist",
                    "make it, or remove the entry",
                )
            search.seal(path)
    if isinstance(search, Ground):
        search.seal_links(spec.protected_paths)
    return search


def inside_hook(hook: ClaudeHook | None) -> str:
    """How Claude Code runs the hook in every wrap; empty for none. The gateway's address is part of it: an agent could
    set the variable of another that it starts."""
    return hook_command(own_interpreter(), HOOK, hook, gateway_url(GATEWAY_PORT)) if hook is not None else ""


def own_interpreter() -> str:
    """The interpreter this process runs on, below any virtual environment: its prefix holds the standard library."""
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def _links(tools: Tools, is_visible: Callable[[str], bool]) -> Iterator[str]:
    """Links on the way to programs, where nothing that is bound or the wrap's own holds them already: those of a
    process (`/proc/self/cwd` on PATH) are none that could be made."""
    for path, target in sorted(tools.links.items()):
        held = any(within(path, place) for place in (*tools.binds, *OWN_PLACES))
        if not is_visible(path) and not held:
            yield from ("--symlink", target, path)


def _in_order(home: str, binds: list[Bind]) -> tuple[Bind, ...]:
    """Everything bound, parents before children; of two at one place the later counts, and the home is writable."""
    found = {bind.path: bind for bind in binds}
    if home:
        found[home] = Bind(home, False)
    return tuple(found[path] for path in sorted(found, key=lambda path: (path.count("/"), path)))


def bind_arguments(binds: tuple[Bind, ...], masks: tuple[Mask, ...]) -> Iterator[str]:
    """One mount for each bind and each pin, parents before children: a pin shows the host's directory again, and
    after the binds below it would cover a read-only one by what can be written."""
    pins = {mask.path: False for mask in masks if mask.kind is MaskKind.PIN}
    places = pins | {bind.path: bind.read_only for bind in binds}
    for path in sorted(places, key=lambda path: (path.count("/"), path)):
        yield from ("--ro-bind" if places[path] else "--bind", path, path)


def mask_arguments(masks: tuple[Mask, ...]) -> Iterator[str]:
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
