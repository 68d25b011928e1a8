"""Whether this process hears of the end of its children. It starts none itself."""

import signal
from typing import Final

# What was ignored when this process started and is no more: state of the process, as its dispositions are.
_minded: Final[set[signal.Signals]] = set()


def mind_children() -> None:
    """Ends the ignoring of SIGCHLD that this process may have been started with: whoever ignores it learns of no
    child's end, bubblewrap waits for ever, and every failure looks like a success. Once, before anything is started."""
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _minded.add(signal.SIGCHLD)


def minded() -> frozenset[signal.Signals]:
    """What was ignored before: a command that is run has it ignored as its caller meant."""
    return frozenset(_minded)
