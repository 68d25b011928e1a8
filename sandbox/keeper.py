"""Owns a process tree on the host, where no wrap does: starts commands, and kills what is left of them.

    python -I -S -E -B keeper.py CHANNEL STDERR [PATH…]

It is told the word of one command, or SERVE (see `attendant.py`), and at the end of the channel, which is also the
launcher's death, it kills the whole tree and removes the files and directories at the paths. A backend may put a
program in front of it that becomes it.

On macOS daemons leave the tree for good. Those of a Seatbelt wrap are known by their sandbox, and killed as well.
"""

import os
import signal
import socket
import sys
import time
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import ModuleType

TYPE_CHECKING = False  # as in `typing`, which is slow to import
if TYPE_CHECKING:
    from typing import Any

# Seconds for killed processes to be gone; what the kernel holds, or another user owns, stays after that.
KILL_DEADLINE = 5.0
# Seconds between two looks for daemons.
PAUSE = 0.05
# Of a launch's own directory, the part that its commands may write (`seatbelt/plan.py`).
TEMPORARY = "tmp"
# The kind of question that names a path (sandbox_filter_type of libSystem).
FILTER_PATH = 1


def load_beside(name: str) -> ModuleType:
    """The module in a file beside this one; there is no import path to find it on."""
    folder = os.path.dirname(os.path.abspath(__file__))
    loader = SourceFileLoader(name, os.path.join(folder, f"{name}.py"))
    spec = spec_from_loader(name, loader)
    assert spec is not None  # a loader was given
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def keep(stub: ModuleType, attendant: ModuleType, channel: socket.socket, stderr: int) -> None:
    """One command or many, and the end of them all."""
    head = stub.read_exactly(channel, 4)
    if head == stub.SERVE:
        os.close(stderr)
        attendant.serve(stub, channel)
        keeper = attendant.Attendant(channel.fileno(), attendant.wake_on_deaths(), -1)
    else:
        word = stub.receive(channel, head or bytes(4))
        if word is None:
            return
        wake = attendant.wake_on_deaths()
        # Not in the caller's group either: whoever kills that kills this process's only witness of the end.
        stub.stand_apart(word[2])
        keeper = attendant.Attendant(channel.fileno(), wake, attendant.start(stub, word, (0, 1, stderr)))
        keeper.run(stays=True)
    keeper.kill_all(KILL_DEADLINE)
    keeper.tell()


def find_strays(folder: str, library: "Any", kind: int) -> list[int]:
    """macOS: the processes in the sandbox of the launch whose own directory this is, wherever they have got to: no
    others may write in one part of it, and not in the whole. `library` is libSystem, `kind` that of the question."""
    import ctypes

    check = library.sandbox_check
    check.argtypes = (
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_int,
    )  # what follows is variadic, and passed apart

    def answer(pid: int, path: str) -> int:
        """0: may; more: may not; less: there is no such process, or it may not be asked."""
        result: int = check(pid, b"file-write-data", kind, ctypes.c_char_p(os.fsencode(path)))
        return result

    inner = os.path.join(folder, TEMPORARY)
    numbers = (ctypes.c_int * (2 * library.proc_listallpids(None, 0) + 64))()
    library.proc_listallpids(numbers, ctypes.sizeof(numbers))
    return [pid for pid in numbers if pid > 1 and answer(pid, inner) == 0 and answer(pid, folder) > 0]


def kill_strays(folder: str) -> None:
    """Until there are none, for a while: they may be born while others die."""
    import ctypes

    library = ctypes.CDLL(None)
    # The log is not told of it.
    kind = FILTER_PATH | ctypes.c_int.in_dll(library, "SANDBOX_CHECK_NO_REPORT").value
    end = time.monotonic() + KILL_DEADLINE
    while (found := find_strays(folder, library, kind)) and time.monotonic() < end:
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(PAUSE)


def remove(path: str) -> None:
    """A file, or a directory with what CMD left in it; what CMD has put in its place is not followed."""
    try:
        os.unlink(path)
        return
    except OSError:
        pass
    if os.path.isdir(path):
        from shutil import rmtree  # slow to import, and mostly not needed

        rmtree(path, ignore_errors=True)


def main(arguments: list[str]) -> int:
    """The keeper's life."""
    channel_number, stderr, *paths = arguments
    stub, attendant = load_beside("stub"), load_beside("attendant")
    channel = stub.open_channel(int(channel_number))
    attendant.set_process_option(attendant.PR_SET_CHILD_SUBREAPER, 1)
    channel.send(b"K")
    try:
        keep(stub, attendant, channel, int(stderr))
    finally:
        if sys.platform == "darwin":
            for path in paths:
                if os.path.isdir(os.path.join(path, TEMPORARY)):
                    kill_strays(path)
        for path in paths:
            remove(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
