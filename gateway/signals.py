"""Signals while a command runs: told apart by who sent them, and given to the event loop.

A terminal sends Ctrl-C to its whole foreground process group, so the command has it already; a signal from another
process (`kill`, an orchestrator) reached us alone and is to be passed on. So is a terminal's hang-up where this process
leads the session: the kernel tells the leader alone. All that is where the command shares our process group; where it
stands apart, whatever reaches us reached us alone, and `run.py` passes everything on.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Final, Self

from gateway.children import minded

PASSED_ON: Final = frozenset(
    {
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGWINCH,
        signal.SIGUSR1,
        signal.SIGUSR2,
    }
)
# Python ignores these itself from its start on; what they were before is not known any more.
_INTERPRETERS_OWN: Final = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
_TERMINAL_KEYS: Final = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH, signal.SIGHUP})


class Signals:
    """Takes signals in a thread of its own from `__enter__` on, and gives them to `handler(number, from_terminal)` in
    the event loop. Enter before any other thread starts: they inherit what is blocked. Signals that were ignored when
    this process started stay ignored (`nohup`); they are in `ignored`."""

    def __init__(self) -> None:
        self.ignored = frozenset(
            number
            for number in signal.valid_signals() - _INTERPRETERS_OWN
            if signal.getsignal(number) is signal.SIG_IGN or number in minded()
        )
        self._handler: Callable[[int, bool], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._held: list[tuple[int, bool]] = []
        self._lock = threading.Lock()
        self._stopping = False
        self._former: set[int] = set()
        self._thread = threading.Thread(target=self._take, name="signals", daemon=True)

    def __enter__(self) -> Self:
        self._former = set(signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        signal.pthread_kill(self._thread.ident or 0, signal.SIGUSR2)
        self._thread.join()
        signal.pthread_sigmask(signal.SIG_SETMASK, self._former)

    def attach(self, loop: asyncio.AbstractEventLoop, handler: Callable[[int, bool], None]) -> None:
        """Hands over what has come so far, and everything from now on."""
        with self._lock:
            self._loop, self._handler = loop, handler
            held, self._held = self._held, []
        for number, from_terminal in held:
            loop.call_soon_threadsafe(handler, number, from_terminal)

    def detach(self) -> None:
        """From now signals are held again."""
        with self._lock:
            self._loop = self._handler = None

    def _take(self) -> None:
        while True:
            number, from_terminal = _wait(PASSED_ON)
            if self._stopping:
                return
            if number in self.ignored:
                continue
            with self._lock:
                if self._loop is None or self._handler is None:
                    self._held.append((number, from_terminal))
                    continue
                loop, handler = self._loop, self._handler
            loop.call_soon_threadsafe(handler, number, from_terminal)


def _wait(numbers: frozenset[signal.Signals]) -> tuple[int, bool]:
    """The next of these signals, and whether the terminal sent it."""
    if sys.platform == "darwin":
        # No siginfo here: a key at the terminal reaches the foreground group, and that is us or it is not.
        number = int(signal.sigwait(numbers))
        return number, number in _TERMINAL_KEYS and _in_foreground() and not _is_for_leader(number)
    info = signal.sigwaitinfo(numbers)
    # sigaction(2): a positive si_code comes from the kernel, here the terminal.
    return info.si_signo, info.si_code > 0 and not _is_for_leader(info.si_signo)


def _is_for_leader(number: int) -> bool:
    """Whether the terminal sent this signal to us alone."""
    return number == signal.SIGHUP and os.getsid(0) == os.getpid()


def _in_foreground() -> bool:
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False
