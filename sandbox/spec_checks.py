"""Is a spec one that can be meant? Asked by every backend that launches, before anything is made or started.

Form, number, existence and contradiction: each refusal is a GatewayError that names the field. What may be *seen* is
not decided here but in `places.py`, since that depends on the backend. Reads the host, changes nothing.
"""

import os
from collections.abc import Iterator, Mapping

from gateway.errors import GatewayError
from gateway.session import Mode
from sandbox.places import MANAGED_PLACES, within
from sandbox.spec import SandboxSpec

# Bytes of a path without the NUL behind it (PATH_MAX, linux/limits.h).
PATH_LIMIT = 4095
# Entries of one list of paths. A wrap takes seconds for some thousand mounts, and bubblewrap no more than 3000.
LIST_LIMIT = 1_000
# Characters of a path that a message quotes.
QUOTED = 200


def check_spec(spec: SandboxSpec) -> None:
    """GatewayError for the first thing in the spec that cannot be meant."""
    if not spec.session_id:
        raise GatewayError("session_id is empty", "name the session: it stands in every record")
    if not spec.bind_mounts:
        raise GatewayError("bind_mounts is empty", "name at least the directory that is worked in")
    for field, count in (
        ("bind_mounts", len(spec.bind_mounts)),
        ("protected_paths", len(spec.protected_paths)),
        ("runner_state_dirs", len(spec.runner_state_dirs)),
        ("exec_grant_roots", len(spec.exec_grant_roots)),
    ):
        if count > LIST_LIMIT:
            raise GatewayError(
                f"{field} has {count} entries, and a wrap takes {LIST_LIMIT}",
                "name a directory that holds them instead of each one",
            )
    for field, path in (*_listed(spec), *_single(spec)):
        check_form(field, path)
    for number, mount in enumerate(spec.bind_mounts):
        if mount.guest_path != mount.host_path:
            raise GatewayError(
                f"bind_mounts[{number}].guest_path: this backend shows a path only where it is",
                f"leave it at {_quoted(mount.host_path)}, or out",
            )
    found = {field: _resolve(field, path, spec) for field, path in _listed(spec)}
    _check_access(spec, found)
    _check_protection(found, "runner_state_dirs")
    _check_workdir(spec, found)
    for field, path in found.items():
        if field.startswith("exec_grant_roots") and path == "/":
            raise GatewayError(f"{field}: / would allow every program", "name the directory of the program")


def check_private(spec: SandboxSpec) -> None:
    """The same for what a wrap keeps to itself: state directories, and the private home, which nothing else holds.

    To be asked after `check_spec` and after it is known that everything may be seen.
    """
    found = {field: _resolve(field, path, spec) for field, path in _listed(spec)}
    for field, path in found.items():
        if field.startswith("runner_state_dirs") and os.path.lexists(path) and not os.path.isdir(path):
            raise GatewayError(f"{field}: {path} is not a directory")
    if not spec.home:
        return
    home = os.path.realpath(spec.home)
    _check_protection({**found, "home": home}, "home")
    for field, path in found.items():
        if field.startswith("bind_mounts") and (within(home, path) or within(path, home)):
            raise GatewayError(
                f"home: {home} and {field}, {path}, lie in one another",
                "bind another directory, or keep the state elsewhere (XDG_STATE_HOME)",
            )
        if field.startswith("runner_state_dirs") and within(home, path):
            raise GatewayError(f"{field}: {path} holds the private home {home}", "name a directory below it")


def _listed(spec: SandboxSpec) -> Iterator[tuple[str, str]]:
    """Field and path of all that stands in a list."""
    for number, mount in enumerate(spec.bind_mounts):
        yield f"bind_mounts[{number}]", mount.host_path
    for field in ("protected_paths", "runner_state_dirs", "exec_grant_roots"):
        for number, path in enumerate(getattr(spec, field)):
            yield f"{field}[{number}]", path


def _single(spec: SandboxSpec) -> Iterator[tuple[str, str]]:
    """Field and path of those that stand alone, where they are given."""
    for field in ("guest_workdir", "home", "state_dir", "runtime_dir", "user_home"):
        path = getattr(spec, field)
        if path:
            yield field, path


def check_form(field: str, path: str) -> None:
    """GatewayError unless it is an absolute path that everything on the way can carry."""
    if not path:
        raise GatewayError(f"{field} is empty", "name an absolute path")
    try:
        length = len(path.encode())
    except UnicodeEncodeError:
        raise GatewayError(
            f"{field}: {_quoted(path)} is not UTF-8",
            "records, rules and git's configuration are: rename it (convmv does many at once), or use another one",
        ) from None
    if "\0" in path:
        raise GatewayError(f"{field}: {_quoted(path)} holds a NUL character")
    if length > PATH_LIMIT:
        raise GatewayError(
            f"{field}: {_quoted(path)} has {length} bytes, and the system takes {PATH_LIMIT}",
            "use a shorter path: a link to the directory will do",
        )
    if not path.startswith("/"):
        raise GatewayError(f"{field}: {_quoted(path)} is not an absolute path")


def _quoted(path: str) -> str:
    try:
        shown = os.fsencode(path[:QUOTED]).decode(
            "utf-8", "backslashreplace"
        )  # the bytes, not what stands for them
    except UnicodeEncodeError:  # half a character, from a caller in Python
        return repr(path[:QUOTED])
    return f"'{shown}{'…' if len(path) > QUOTED else ''}'" if shown.isprintable() else repr(path[:QUOTED])


def _resolve(field: str, path: str, spec: SandboxSpec) -> str:
    """The path without links. GatewayError when it leads nowhere; what is to be protected need not exist, and what
    the product keeps itself is made in time."""
    try:
        return os.path.realpath(path, strict=True)
    except FileNotFoundError as error:
        absent = not _holds_link_to_nowhere(path)
        kept = spec.state_dir and any(
            within(os.path.normpath(path), os.path.join(spec.state_dir, place)) for place in MANAGED_PLACES
        )
        if absent and (field.startswith("protected_paths") or kept):
            return os.path.realpath(path)
        reason = error.strerror if absent else "it is a link that leads nowhere"
    except OSError as error:
        reason = error.strerror
    raise GatewayError(f"{field}: {_quoted(path)}: {reason}")


def _holds_link_to_nowhere(path: str) -> bool:
    """Whether a link on the way, or the path itself, is what fails."""
    while path not in ("/", ""):
        if os.path.islink(path):
            return not os.path.exists(path)
        path = os.path.dirname(path)
    return False


def _check_access(spec: SandboxSpec, found: Mapping[str, str]) -> None:
    """One path cannot be both writable and read-only."""
    first: dict[str, int] = {}
    for number, mount in enumerate(spec.bind_mounts):
        path = found[f"bind_mounts[{number}]"]
        earlier = first.setdefault(path, number)
        if spec.bind_mounts[earlier].read_only != mount.read_only:
            words = ("read-only", "writable") if mount.read_only else ("writable", "read-only")
            raise GatewayError(
                f"bind_mounts[{number}].read_only: {path} is {words[0]} here and {words[1]} in"
                f" bind_mounts[{earlier}]",
                "name it once; what makes a worktree read-only is --mode review, or --protect",
            )
    for number, _ in enumerate(spec.runner_state_dirs):
        path = found[f"runner_state_dirs[{number}]"]
        if path in first and (spec.bind_mounts[first[path]].read_only or spec.mode is not Mode.CHAT):
            raise GatewayError(
                f"runner_state_dirs[{number}]: {path} stays writable, and is read-only in"
                f" bind_mounts[{first[path]}]",
                "name it once",
            )


def _check_protection(found: Mapping[str, str], kind: str) -> None:
    """What is always writable must lie in nothing that never is."""
    for field, path in found.items():
        if not field.startswith(kind):
            continue
        for other, sealed in found.items():
            if other.startswith("protected_paths") and within(path, sealed):
                raise GatewayError(
                    f"{field}: {path} has to be writable, and {other} protects {sealed}",
                    "protect a directory that does not hold it",
                )


def _check_workdir(spec: SandboxSpec, found: Mapping[str, str]) -> None:
    """CMD has to start in something that is shown."""
    if not spec.guest_workdir:
        return
    workdir = _resolve("guest_workdir", spec.guest_workdir, spec)
    if os.path.lexists(workdir) and not os.path.isdir(workdir):
        raise GatewayError(f"guest_workdir: {workdir} is not a directory")
    shown = [path for field, path in found.items() if field.startswith(("bind_mounts", "runner_state_dirs"))]
    if spec.home:
        shown.append(os.path.realpath(spec.home))
    if not any(within(workdir, path) for path in shown):
        raise GatewayError(
            f"guest_workdir: {workdir} lies in none of bind_mounts", "bind it, or start somewhere else"
        )
