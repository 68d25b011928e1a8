"""A person's own shell in bubblewrap: the host's file system read-only, home and working directory writable.

Same result as `mounts.plan_wrap`, for `--profile terminal`. The network is the host's. Secrets and the product's own
state are covered, services are out of reach as far as their sockets are files. No name is denied: a person's own files
have any. Reads the host, changes nothing.
"""

import os
from collections.abc import Iterator

from gateway.errors import GatewayError
from sandbox.binds import Bind
from sandbox.layout import CONNECT, CREDENTIAL, NAMESPACES, OWN_FOLDER, DataFile, kernel_covers, own_files
from sandbox.masks import MASK_LIMIT
from sandbox.mounts import WrapPlan, bind_arguments, mask_arguments, own_interpreter
from sandbox.places import SYSTEM_ROOTS, Guard, guard, within
from sandbox.spec import SandboxSpec
from sandbox.spec_checks import check_spec
from sandbox.terminal.masks import Covers, secret_covers, socket_covers

# Of the wrap's own, and empty at first: sockets and temporary files of the host's services are here.
PRIVATE_FOLDERS = ("/run", "/var/run", "/tmp", "/var/tmp")
PRIVATE_MOUNTS = (*PRIVATE_FOLDERS, "/dev", "/proc")
# What of /run programs need to be found at all (NixOS), as the links that they are.
RUN_LINKS = ("/run/current-system", "/run/booted-system", "/run/opengl-driver")
RESOLVER = "/etc/resolv.conf"


def plan_terminal(spec: SandboxSpec) -> WrapPlan:
    """Looks at the host and lays the wrap out. GatewayError names what may not be written."""
    check_spec(spec)
    places = guard(spec.user_home, (spec.state_dir, spec.runtime_dir))
    python = own_interpreter()
    writable = writable_binds(spec, places)
    binds = (Bind("/", True), *_in_order([*_needed(python, writable), *writable]))
    covers = Covers(tuple(bind.path for bind in binds[1:]), PRIVATE_MOUNTS)
    secret_covers(covers, spec, places)
    socket_covers(covers)
    _seal_protected(covers, spec, places, writable)
    masks = covers.in_order()
    if len(masks) > MASK_LIMIT:
        raise GatewayError(f"more than {MASK_LIMIT} things would have to be hidden", "use --backend none")
    arguments = (
        *(word for word in NAMESPACES if word != "--unshare-net"),
        *_base_arguments(),
        *bind_arguments(binds[1:], ()),
        *mask_arguments(masks),
    )
    return WrapPlan(
        arguments=arguments,
        files=tuple(_own_programs()),
        binds=binds,
        masks=masks,
        python=python,
        home=os.path.realpath(spec.user_home),
        path=spec.search_path,
        visible=("/",),
        variables=(),
        git_config="",
    )


def writable_binds(spec: SandboxSpec, places: Guard) -> list[Bind]:
    """Home, working directory and what else the spec binds, each with its reason to be refused. What is protected is
    read-only, whatever asks for it."""
    home = os.path.realpath(spec.user_home) if spec.user_home else ""
    if not home or home in ("/", *SYSTEM_ROOTS) or not os.path.isdir(home):
        raise GatewayError(f"the home directory {spec.user_home!r} cannot be made writable", "set HOME")
    protected = tuple(os.path.realpath(path) for path in spec.protected_paths)
    asked = [
        *((f"bind_mounts[{n}]", bind.host_path, bind.read_only) for n, bind in enumerate(spec.bind_mounts)),
        *((f"runner_state_dirs[{n}]", path, False) for n, path in enumerate(spec.runner_state_dirs)),
    ]
    found = {home: False}
    for field, path, read_only in asked:
        real = os.path.realpath(path)
        if real != home:
            _check(real, field, home, read_only, places)
        found[real] = found.get(real, False) or read_only
    return [
        Bind(path, read_only or any(within(path, one) for one in protected))
        for path, read_only in found.items()
    ]


def _seal_protected(covers: Covers, spec: SandboxSpec, places: Guard, writable: list[Bind]) -> None:
    """What is protected is read-only; GatewayError where it is not there yet and could be made."""
    for path in (os.path.realpath(path) for path in spec.protected_paths):
        covers.seal(path)
        is_hidden = any(within(path, own) for own in places.own)
        if not (os.path.lexists(path) or is_hidden) and any(within(path, bind.path) for bind in writable):
            raise GatewayError(
                f"protected_paths: {path} is to be protected and does not exist",
                "make it, or remove the entry",
            )


def _check(path: str, field: str, home: str, read_only: bool, places: Guard) -> None:
    """GatewayError for a directory that cannot be written. Below the home directory it can be already, so there only
    what is hidden is refused."""
    refusal = places.refusal(path, read_only)
    if within(path, home):
        hidden = [one for one in (*places.secrets, *places.own) if within(path, one)]
        refusal = f"it is hidden ({hidden[0]})" if hidden else ""
    if refusal:
        raise GatewayError(
            f"{field}: {path} cannot be made writable in a terminal: {refusal}",
            "start in a directory of your own",
        )


def _needed(python: str, writable: list[Bind]) -> Iterator[Bind]:
    """The interpreter of the stub, where it lies in a place that the wrap has of its own."""
    prefix = os.path.dirname(os.path.dirname(python))
    if any(within(prefix, folder) for folder in PRIVATE_FOLDERS) and not any(
        within(prefix, bind.path) for bind in writable
    ):
        yield Bind(prefix, True)


def _own_programs() -> Iterator[DataFile]:
    """What starts the shell; an agent's helpers and its view of /etc are not wanted."""
    for file in own_files("", ""):
        if within(file.path, OWN_FOLDER) and file.path not in (CONNECT, CREDENTIAL):
            yield file


def _in_order(binds: list[Bind]) -> list[Bind]:
    """Parents before children."""
    return sorted(binds, key=lambda bind: (bind.path.count("/"), bind.path))


def _base_arguments() -> Iterator[str]:
    """The root read-only, then the wrap's own devices, processes and temporary files, and the way to name servers."""
    yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *kernel_covers())
    own = [path for path in PRIVATE_FOLDERS if os.path.isdir(path) and not os.path.islink(path)]
    for path in own:
        mode = "1777" if path.endswith("tmp") else "0755"
        yield from ("--perms", mode, "--tmpfs", path)
    for path in RUN_LINKS:
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
    resolver = os.path.realpath(RESOLVER)
    if os.path.isfile(resolver) and any(within(resolver, path) for path in own):
        yield from ("--ro-bind", resolver, resolver)
