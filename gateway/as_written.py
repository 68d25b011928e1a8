"""Errors of a wrap name fields of its spec; the user wrote options. This puts the option, as it was written, in the
place of the field."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from gateway.errors import GatewayError
from gateway.options import RunOptions
from gateway.session import Profile
from gateway.wrap_spec import split_bind
from sandbox.spec import SandboxSpec

# A field of a list, and the attribute of an entry that is spoken of.
_ENTRY: Final = re.compile(
    r"\b(bind_mounts|protected_paths|runner_state_dirs|exec_grant_roots)\[(\d+)\](\.\w+)?"
)


@contextmanager
def named_as_written(options: RunOptions, spec: SandboxSpec) -> Iterator[None]:
    """A GatewayError that comes out of the block speaks of options."""
    try:
        yield
    except GatewayError as error:
        error.message = _ENTRY.sub(
            lambda found: _option(options, spec, found[1], int(found[2])), error.message
        )
        raise


def _option(options: RunOptions, spec: SandboxSpec, field: str, number: int) -> str:
    """What the user calls an entry."""
    entries = getattr(spec, field)
    path = entries[number] if field != "bind_mounts" else entries[number].host_path
    if field == "bind_mounts":
        kind = "ro" if entries[number].read_only else "rw"
        for text in options.bind:
            named, written = split_bind(text)
            if written == kind and _is_same(named, path):
                return f"--bind {text}"
        return _own(options, spec, path)
    option, texts = _GIVEN[field](options)
    return next((f"{option} {text}" for text in texts if _is_same(text, path)), _OTHERS[field])


def _is_same(text: str, path: str) -> bool:
    return os.path.realpath(text) == os.path.realpath(path)


# Where the entries of a list were written.
_GIVEN: Final[Mapping[str, Callable[[RunOptions], tuple[str, tuple[str, ...]]]]] = {
    "protected_paths": lambda options: ("--protect", options.protect),
    "runner_state_dirs": lambda options: ("--state-dir", options.state_dirs),
    "exec_grant_roots": lambda options: ("--exec-grant", options.exec_grants),
}
# What stands in a list without an option that says so.
_OTHERS: Final = {
    "protected_paths": "a protected path of the configuration",
    "runner_state_dirs": "the agent's own directory",
    "exec_grant_roots": "a program's directory",
}


def _own(options: RunOptions, spec: SandboxSpec, path: str) -> str:
    """What is shown without a --bind."""
    if options.repo is not None:
        return f"--repo {options.repo}"
    if options.space is not None:
        return f"--space {options.space}"
    if spec.profile is Profile.TERMINAL and path == os.path.realpath(spec.user_home):
        return "the home directory"
    return "the current directory" if path == spec.workdir else "the worktree"
