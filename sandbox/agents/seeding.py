"""Fills an agent's managed directory, once, from the user's own: a list of pieces, no link followed, all of it bounded.

What is read belongs to the user and is never changed. What cannot be taken (a link, something too large, no JSON) is
left out and said: an agent without one preference still works.
"""

import json
import os
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from shutil import rmtree
from tempfile import mkdtemp
from typing import BinaryIO

from gateway.errors import GatewayError
from sandbox.agents.claude import note_hooks
from sandbox.agents.state import ManagedState, Piece
from sandbox.agents.trust import note_trust
from sandbox.folders import make_private
from sandbox.variables import MODEL_PROVIDERS

# A file that is taken as it is: instructions and logins have some KB.
FILE_LIMIT = 1 << 20
# A file of which only some keys are taken: Claude Code keeps histories in its own, which grows to some MB.
FILTERED_LIMIT = 32 << 20
# All directories of one agent together.
TREE_LIMIT = 8 << 20
TREE_FILES = 1_000
TREE_DEPTH = 8

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _LeftOutError(Exception):
    """Something that is not taken: the path (empty: the piece itself) and the reason as a clause."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason


def seed(state: ManagedState) -> tuple[str, ...]:
    """Makes the directory when it is not there, and in any case what of it is sealed. Returns notes for the user, a
    line each. GatewayError when something else stands in the way."""
    notes: tuple[str, ...] = ()
    try:
        if not os.path.lexists(state.folder):
            notes = _make(state)
        _check_folder(state.folder)
        for path, text in state.agent.sealed:
            _make_sealed(state.folder, path, text)
        note_trust(state)
        if state.hooks:
            note_hooks(state.folder, state.hooks)
    except OSError as error:
        raise GatewayError(f"{state.folder} cannot be made: {error.strerror}") from error
    return notes


def _make(state: ManagedState) -> tuple[str, ...]:
    """A directory beside the final one, filled and then renamed: nobody ever sees half of it."""
    parent = os.path.dirname(state.folder)
    make_private(parent)
    draft = mkdtemp(prefix=f".{state.agent.name}-", dir=parent)  # 0700
    notes = []
    budget = _Budget()
    taken = False
    try:
        for piece in state.agent.pieces:
            base = state.home if piece.beside and not state.own_is_named else state.own
            try:
                taken |= _take(piece, base, draft, state, budget)
            except _LeftOutError as error:
                path = error.path or os.path.join(base, piece.path)
                notes.append(f"{state.agent.name}: {path} was not copied: {error.reason}")
        with suppress(OSError):  # another run was faster
            os.rename(draft, state.folder)
    finally:
        rmtree(draft, ignore_errors=True)
    told = f"{state.agent.name}: its login and preferences are kept in {state.folder}"
    if taken:
        told = f"{state.agent.name}: login and preferences are copied from {state.own} to {state.folder}, this once"
    return (told, *dict.fromkeys(notes))


class _Budget:
    """What may still be copied from directories. Changes while that is done."""

    def __init__(self) -> None:
        self.files, self.bytes = TREE_FILES, TREE_LIMIT

    def spend(self, size: int) -> None:
        self.files -= 1
        self.bytes -= size
        if self.files < 0 or self.bytes < 0:
            raise _LeftOutError(
                "", f"there is more than {TREE_FILES} files or {TREE_LIMIT >> 20} MiB of them"
            )


def _take(piece: Piece, base: str, draft: str, state: ManagedState, budget: _Budget) -> bool:
    """Copies one piece; False when there is none."""
    # From the home on no link is followed; the variable's own value is the user's word.
    start = base if state.own_is_named else state.home
    steps = [step for step in f"{os.path.relpath(base, start)}/{piece.path}".split("/") if step != "."]
    try:
        descriptor = _open(start, steps)
    except FileNotFoundError:
        return False
    except OSError as error:
        link = next((path for path in _paths(start, steps) if os.path.islink(path)), "")
        reason = "links are not followed" if link else str(error.strerror)
        raise _LeftOutError(link or os.path.join(base, piece.path), reason) from None
    target = os.path.join(draft, piece.path)
    try:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            _copy_tree(descriptor, target, budget, TREE_DEPTH)
        else:
            _write(target, _content(piece, descriptor), _mode(descriptor))
    finally:
        os.close(descriptor)
    return True


def _open(start: str, steps: Sequence[str]) -> int:
    """A descriptor of `start` and the steps below it, none of which may be a link."""
    descriptor = os.open(start, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for number, step in enumerate(steps):
        try:
            below = os.open(step, _READ if number == len(steps) - 1 else _FOLDER, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def _paths(start: str, steps: Sequence[str]) -> Iterator[str]:
    """The path after each step."""
    for step in steps:
        start = os.path.join(start, step)
        yield start


def _mode(descriptor: int) -> int:
    return 0o700 if os.fstat(descriptor).st_mode & stat.S_IXUSR else 0o600


def _read(descriptor: int, limit: int) -> bytes:
    """A regular file's content, bounded."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise _LeftOutError("", "it is no regular file")
    data = b""
    while len(data) <= limit:
        part = os.read(descriptor, min(limit + 1 - len(data), 1 << 20))
        if not part:
            return data
        data += part
    raise _LeftOutError("", f"it is larger than {limit >> 20} MiB")


def _content(piece: Piece, descriptor: int) -> bytes:
    """What is written for a file: all of it, or its keys."""
    if not piece.keys:
        return _read(descriptor, FILE_LIMIT)
    text = _read(descriptor, FILTERED_LIMIT).decode(errors="replace")
    try:
        values = tomllib.loads(text) if piece.path.endswith(".toml") else json.loads(text)
    except (ValueError, RecursionError):
        raise _LeftOutError("", "it cannot be understood") from None
    if not isinstance(values, dict):
        raise _LeftOutError("", "it holds no keys")
    kept = {name: values[name] for name in piece.keys if name in values}
    if "env" in kept:
        kept["env"] = _provider_variables(kept["env"])
    if piece.path.endswith(".toml"):
        return "".join(_toml_lines(kept)).encode()
    return (json.dumps(kept, indent=2) + "\n").encode()


def _provider_variables(values: object) -> Mapping[str, str]:
    """Variables of model providers alone: the rest may be the login of something else."""
    if not isinstance(values, dict):
        return {}
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, str) and any(fnmatchcase(name.upper(), one) for one in MODEL_PROVIDERS)
    }


def _toml_lines(values: Mapping[str, object]) -> Iterator[str]:
    """Plain values of a TOML file; what is not plain is no preference of these lists."""
    for name, value in values.items():
        if isinstance(value, bool):
            yield f"{name} = {str(value).lower()}\n"
        elif isinstance(value, int):
            yield f"{name} = {value}\n"
        elif isinstance(value, str) and value.isprintable():
            yield f"{name} = {json.dumps(value, ensure_ascii=False)}\n"


def _copy_tree(descriptor: int, target: str, budget: _Budget, depth: int) -> None:
    """Regular files and directories; links and all else are passed over."""
    if depth == 0:
        raise _LeftOutError("", f"it is deeper than {TREE_DEPTH} directories")
    make_private(target)
    for name in sorted(os.listdir(descriptor)):
        try:
            below = os.open(name, _READ, dir_fd=descriptor)
        except OSError:  # a link, a socket, somebody else's
            continue
        try:
            mode = os.fstat(below).st_mode
            path = os.path.join(target, name)
            if stat.S_ISDIR(mode):
                _copy_tree(below, path, budget, depth - 1)
            elif stat.S_ISREG(mode):
                data = _read(below, FILE_LIMIT)
                budget.spend(len(data))
                _write(path, data, _mode(below))
        finally:
            os.close(below)


def _write(path: str, data: bytes, mode: int) -> None:
    """A new file in the draft."""
    make_private(os.path.dirname(path))
    with _create(path, mode) as file:
        file.write(data)


def _create(path: str, mode: int, folder: int | None = None) -> BinaryIO:
    """A file that was not there before."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return open(os.open(path, flags, mode, dir_fd=folder), "wb")


def _check_folder(folder: str) -> None:
    """GatewayError unless it is a directory of this user and no link."""
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise GatewayError(f"{folder} is not a directory of this user", "remove it: it is made anew")


def _make_sealed(folder: str, path: str, text: str | None) -> None:
    """What is protected has to be there, and of the right kind: a mount needs something that it can cover."""
    above, _, name = path.rpartition("/")
    descriptor = os.open(folder, _FOLDER)
    try:
        for step in (*above.split("/"), *((name,) if text is None else ())):
            descriptor = _enter(descriptor, step)
        if text is not None:
            with suppress(FileExistsError), _create(name, 0o600, descriptor) as file:
                file.write(text.encode())
            if not stat.S_ISREG(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                raise NotADirectoryError
    except NotADirectoryError:  # a link too, since none is followed
        raise GatewayError(
            f"{folder}/{path} is not what it was made as",
            f"remove {folder}: it is made anew at the next start",
        ) from None
    finally:
        os.close(descriptor)


def _enter(descriptor: int, name: str) -> int:
    """A directory's descriptor in place of that of the directory above; made when missing."""
    if not name:
        return descriptor
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=descriptor)
    below = os.open(name, _FOLDER, dir_fd=descriptor)
    os.close(descriptor)
    return below
