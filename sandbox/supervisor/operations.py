"""Which system call is handled by what, and where its arguments are (the calls' own manual pages)."""

import os
from _collections_abc import Callable, Mapping

from sandbox.supervisor import connecting, naming, opening, pairing, truncating
from sandbox.supervisor.call import Call
from sandbox.supervisor.resolution import AT_FDCWD
from sandbox.system_calls import numbers

_MODE = 0o177777
_CREAT = os.O_CREAT | os.O_WRONLY | os.O_TRUNC


def _open(call: Call) -> None:
    opening.open_file(call, AT_FDCWD, call.path(0), call.number(1), call.arguments[2] & _MODE)


def _openat(call: Call) -> None:
    opening.open_file(call, call.number(0), call.path(1), call.number(2), call.arguments[3] & _MODE)


def _creat(call: Call) -> None:
    opening.open_file(call, AT_FDCWD, call.path(0), _CREAT, call.arguments[1] & _MODE)


def _rename(call: Call) -> None:
    naming.rename(call, AT_FDCWD, 0, AT_FDCWD, 1, 0)


def _renameat(call: Call) -> None:
    naming.rename(call, call.number(0), 1, call.number(2), 3, 0)


def _renameat2(call: Call) -> None:
    naming.rename(call, call.number(0), 1, call.number(2), 3, call.number(4))


def _link(call: Call) -> None:
    naming.link(call, AT_FDCWD, 0, AT_FDCWD, 1, 0)


def _linkat(call: Call) -> None:
    naming.link(call, call.number(0), 1, call.number(2), 3, call.number(4))


def _symlink(call: Call) -> None:
    naming.symlink(call, 0, AT_FDCWD, 1)


def _symlinkat(call: Call) -> None:
    naming.symlink(call, 0, call.number(1), 2)


def _mknod(call: Call) -> None:
    naming.mknod(call, AT_FDCWD, 0, call.arguments[1], call.arguments[2])


def _mknodat(call: Call) -> None:
    naming.mknod(call, call.number(0), 1, call.arguments[2], call.arguments[3])


def _mkdir(call: Call) -> None:
    naming.mkdir(call, AT_FDCWD, 0, call.arguments[1])


def _mkdirat(call: Call) -> None:
    naming.mkdir(call, call.number(0), 1, call.arguments[2])


def _umask(call: Call) -> None:
    """The kernel does it: its argument is a number, which nobody can change any more. We only take note."""
    call.door.tracees.mask_changes(call.tracee, call.number(0))
    call.confirm()
    call.go_on()


Handler = Callable[[Call], None]
HANDLERS: Mapping[str, Handler] = {
    "open": _open,
    "openat": _openat,
    "creat": _creat,
    "rename": _rename,
    "renameat": _renameat,
    "renameat2": _renameat2,
    "link": _link,
    "linkat": _linkat,
    "symlink": _symlink,
    "symlinkat": _symlinkat,
    "mknod": _mknod,
    "mknodat": _mknodat,
    "mkdir": _mkdir,
    "mkdirat": _mkdirat,
    "truncate": truncating.truncate,
    "umask": _umask,
    "connect": connecting.connect,
    "socketpair": pairing.pair,
}


def handlers(machine: str) -> Mapping[int, tuple[str, Handler]]:
    """By the calls' numbers on a machine: their names and who handles them."""
    known = numbers(machine)
    return {known[name]: (name, handler) for name, handler in HANDLERS.items() if name in known}
