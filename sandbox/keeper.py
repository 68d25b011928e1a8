"""Owns a process tree on the host, where no wrap does: starts commands, and kills what is left of them.

    python -I -S -E -B keeper.py CHANNEL STDERR [PATH…]

It is told the word of one command, or SERVE (see `attendant.py`), and at the end of the channel, which is also the
launcher's death, it kills the whole tree and removes the files and directories at the paths. A backend may put a
program in front of it that becomes it.
"""

import os
import socket
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import ModuleType

# Seconds for killed processes to be gone; what the kernel holds, or another user owns, stays after that.
KILL_DEADLINE = 5.0


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
        for path in paths:
            remove(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
