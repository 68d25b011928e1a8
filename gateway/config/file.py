"""Which config file to use, and its text: one bounded read of a regular file, decoded strictly."""

import errno
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from gateway.config.tree import Reading
from gateway.errors import UsageError

VARIABLE = "AGENT_GATEWAY_CONFIG"
MAX_FILE = 1 << 20  # bytes; a larger file is a mistake, and would be read on every start

_BOM = b"\xef\xbb\xbf"
# Control characters but tab and line ends; what hides or reorders text; what only some call a line end.
_HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")
_LINE_END = re.compile("\r\n|\r|\n")
_UNREADABLE = {
    errno.ENOENT: "there is no such file: create it, or leave out what names it",
    errno.EACCES: "permission denied: let the user who runs the gateway read it",
    errno.EPERM: "permission denied: let the user who runs the gateway read it",
    errno.ELOOP: "a symbolic link that leads in a circle: point it to the file",
    errno.ENOTDIR: "a part of the path is not a directory: write the path of the file",
    errno.ENXIO: "a socket or a device, not a file: write the path of a file",
}


def find_config(explicit: str | None, environ: Mapping[str, str]) -> Path | None:
    """The config file to use, or None for the defaults; never one of the directory the agent works in.

    `explicit` (the option), AGENT_GATEWAY_CONFIG, or agent-gateway/config.yaml in $XDG_CONFIG_HOME or
    ~/.config. The first two need not exist here (`load_config` says so); of the last anything that stands
    there counts, also what cannot be read. UsageError for an empty option or a relative path in the variable.
    """
    if explicit is not None:
        if not explicit:
            raise UsageError("the path of the config file is empty", "write --config FILE, or leave it out")
        return Path(explicit)
    named = environ.get(VARIABLE, "")
    if named:
        if not Path(named).is_absolute():
            raise UsageError(
                f"{VARIABLE} is a relative path", "write an absolute one: the directory must not decide"
            )
        return Path(named)
    home = _config_home(environ)
    if home is None:
        return None
    path = home / "agent-gateway" / "config.yaml"
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return path
    return path


def _config_home(environ: Mapping[str, str]) -> Path | None:
    """$XDG_CONFIG_HOME, which counts only if absolute (XDG Base Directory Specification), or ~/.config."""
    for text, below in ((environ.get("XDG_CONFIG_HOME", ""), ""), (environ.get("HOME", ""), ".config")):
        if Path(text).is_absolute():
            return Path(text) / below
    home = Path.home()
    return home / ".config" if home.is_absolute() else None


def read_file(path: Path, reading: Reading) -> tuple[bytes, str] | None:
    """The bytes of the file and their text, read once; None where that failed (which was reported)."""
    try:
        data = _read_bytes(path)
    except OSError as error:
        reading.error(0, f"cannot be read, {_fault(path, error)}")
        return None
    text = _decode(data, reading)
    return None if text is None else (data, text)


def fault_of(path: Path) -> str | None:
    """Why a file that the config names cannot be read, with what to do; None for one that can."""
    try:
        _read_bytes(path)
    except OSError as error:
        return _fault(path, error)
    return None


def _read_bytes(path: Path) -> bytes:
    """A regular file, at most one byte over the bound; a pipe never blocks. OSError for anything else."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, "is a directory")
        if not stat.S_ISREG(mode):
            raise OSError(errno.ENXIO, "is not a file")
        data = b""
        while len(data) <= MAX_FILE and (chunk := os.read(descriptor, MAX_FILE + 1 - len(data))):
            data += chunk
        return data
    finally:
        os.close(descriptor)


def _fault(path: Path, error: OSError) -> str:
    if error.errno == errno.EISDIR:
        return "a directory, not a file: write the path of the file in it"
    if error.errno == errno.ENOENT and path.is_symlink():
        return "a symbolic link to a file that does not exist: mend or delete it"
    return _UNREADABLE.get(error.errno or 0, f"{error.strerror}: see to it that it can be read")


def _decode(data: bytes, reading: Reading) -> str | None:
    """The text, without a byte order mark; None where that was reported."""
    if len(data) > MAX_FILE:
        reading.error(0, f"more than {MAX_FILE} bytes: remove what does not belong there")
        return None
    data = data.removeprefix(_BOM)
    if b"\0" in data:
        reading.error(
            _line(data.decode("latin-1"), data.index(b"\0")),
            "a NUL byte, so this is no text in UTF-8: save the file as UTF-8",
        )
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        reading.error(
            _line(data.decode("latin-1"), error.start), "a byte that is not UTF-8: save the file as UTF-8"
        )
        return None
    lines = _LINE_END.split(text)
    hidden = {number: found[0] for number, line in enumerate(lines, 1) if (found := _HIDDEN.search(line))}
    for number, character in hidden.items():
        reading.error(number, f"an invisible character, U+{ord(character):04X}: remove it")
    return None if hidden else text


def _line(text: str, position: int) -> int:
    """The line of a position, counted from 1 as the YAML reader counts: LF, CR LF and CR end one."""
    return len(_LINE_END.findall(text[:position])) + 1
