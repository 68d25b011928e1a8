"""One line on a terminal that says how far a long reading is; nothing where nobody looks."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

# Seconds before the first word, and between two.
_PATIENCE: Final = 0.5
_ERASE: Final = "\r\x1b[K"


@contextmanager
def progress_line(
    stream: TextIO, what: str, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[int, int], None]]:
    """Gives what is to be told the bytes done and all bytes. The line goes at the end."""
    shown, due = False, clock() + _PATIENCE
    is_terminal = stream.isatty()

    def tell(done: int, total: int) -> None:
        nonlocal shown, due
        if is_terminal and clock() >= due and total:
            shown, due = True, clock() + _PATIENCE
            stream.write(f"{_ERASE}{what}: {done * 100 // total} % of {total >> 20} MB")
            stream.flush()

    try:
        yield tell
    finally:
        if shown:
            stream.write(_ERASE)
            stream.flush()
