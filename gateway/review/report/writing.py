"""Puts a report where it was asked for: whole, or not at all."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from gateway.errors import GatewayError


def write_page(path: Path, text: str) -> None:
    """Writes the file, for its owner alone, in the place of one that is there. A symbolic link is replaced, not
    followed: who chose where it leads is not known. GatewayError where that cannot be done."""
    try:
        if path.is_dir() or (path.exists() and not path.is_file()):
            raise GatewayError(f"{path} is no file", "name one, or - for stdout")
        number, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name[:100]}-")
    except OSError as error:
        raise _failed(path, error) from error
    try:
        with os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except OSError as error:
        with suppress(OSError):
            os.unlink(name)
        raise _failed(path, error) from error


def _failed(path: Path, error: OSError) -> GatewayError:
    return GatewayError(f"the report cannot be written to {path}: {error.strerror}", "name a file that can")
