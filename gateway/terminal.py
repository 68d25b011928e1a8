"""The terminal around a run: where the command stands on it, and that it is as it was when the run is over."""

import os
import signal
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gateway.session import ProcessGroup


def find_group() -> ProcessGroup:
    """Where the command is to stand. In our process group where a terminal's job control is about that group; apart
    from whoever started us otherwise, since a signal for a process group passes every namespace."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return ProcessGroup.SESSION  # there is none
    try:
        if _is_alone():
            return ProcessGroup.ALONE
        return ProcessGroup.SHARED if _is_held(terminal) else ProcessGroup.OWN
    finally:
        os.close(terminal)


def _is_alone() -> bool:
    """Whether nobody else is in our process group, as far as can be seen: when in doubt, somebody is."""
    own = os.getpgrp()
    if not own:
        return False  # its leader is outside our PID namespace
    try:
        others = [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    except OSError:
        return False
    return bool(others) and not any(_group_of(name) == own for name in others)


def _group_of(pid: str) -> int:
    """A process's group from proc_pid_stat(5); 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The second field is a name and may hold anything, also ")": the fields after the last one count.
            return int(file.read().rpartition(b")")[2].split()[2])
    except (OSError, IndexError):
        return 0


def _is_held(terminal: int) -> bool:
    """Whether we are in the terminal's foreground."""
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False


@contextmanager
def terminal_kept() -> Iterator[None]:
    """Gives the terminal back as it was, if it was ours and is: the foreground that a killed shell inside cannot give
    back itself, the settings and the non-blocking flag that a killed program leaves behind."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        yield  # there is none
        return
    held = _is_held(terminal)
    settings = _settings(terminal) if held else None
    blocking = {number: os.get_blocking(number) for number in range(3) if held and _is_terminal(number)}
    try:
        yield
    finally:
        former = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        if held and _is_abandoned(terminal):
            with suppress(OSError):
                os.tcsetpgrp(terminal, os.getpgrp())
        if _is_held(terminal):
            _restore(terminal, settings, blocking)
        signal.signal(signal.SIGTTOU, former)
        os.close(terminal)


def _restore(terminal: int, settings: list[object] | None, blocking: dict[int, bool]) -> None:
    if settings is not None and settings != _settings(terminal):
        with suppress(termios.error):
            termios.tcsetattr(terminal, termios.TCSADRAIN, settings)  # type: ignore[arg-type]  # what it gave
    for number, value in blocking.items():
        with suppress(OSError):
            os.set_blocking(number, value)


def _settings(terminal: int) -> list[object] | None:
    try:
        return [*termios.tcgetattr(terminal)]
    except termios.error:
        return None


def _is_terminal(number: int) -> bool:
    """Whether a standard stream is a terminal whose foreground is ours."""
    return os.isatty(number) and _is_held(number)


def _is_abandoned(terminal: int) -> bool:
    """Whether the terminal's foreground group has no process any more. A living one is another job of the user's: we
    were sent into the background meanwhile."""
    try:
        os.killpg(os.tcgetpgrp(terminal), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
