"""Runs inside the wrap, before CMD: opens the listeners, hands them out, waits for the word and becomes CMD.

    python -I -S -E -B stub.py SOCKET STDERR PORT PORT PORT [DOOR,ORDERS] [SOCAT]

It is on the way of every start, so it imports what is built into the interpreter and nothing else; it is mounted
into the wrap on its own, so it cannot import the rest of this package. `attendant.py` uses `receive` and `become` too,
and `bridge_inside.py`, where SOCAT is named, what closes descriptors. With DOOR, a socket to the supervisor, it first
builds wall and door; ORDERS begin with the program that does (`confine.py`, compiled), which is told the rest.
It must not read a file, look at the environment or decide anything: what it is told is in the word.

The word is a four-byte big-endian length and that many bytes of NUL-separated fields:
workdir, signals to ignore ("1,13" or nothing), where to stand among processes ("0": here, "1": a process group of its
own, "2": a session of its own), number of arguments, the arguments, then NAME=VALUE for each variable.
Instead of a word there may come SERVE: then it stays, and `attendant.py` beside it runs many commands.
"""

import _signal  # type: ignore[import-not-found]  # typeshed does not know it; `signal` would bring enum along
import _socket
import errno
import marshal
import posix
import sys

TYPE_CHECKING = False  # as in `typing`, which would be the slowest import of all
if TYPE_CHECKING:
    from types import ModuleType

# The same bound as the launcher's (`handover.WORD_LIMIT`). The kernel takes at most 6 MiB of arguments and
# environment (a quarter of the largest stack it counts with), so whatever is longer could not be executed.
WORD_LIMIT = 8 << 20
# Longer than any word, so no length of one.
SERVE = b"SERV"
# The gateway accepts at once; the queue only has to hold a burst (`npm ci` opens some hundred connections).
BACKLOG = 1024

NOT_FOUND = 127
CANNOT_EXECUTE = 126
GATEWAY_FAILED = 125

Word = tuple[bytes, list[int], bytes, list[bytes], dict[bytes, bytes]]


def open_channel(number: int) -> _socket.socket:
    """The inherited end of the socket pair."""
    return _socket.socket(fileno=number)


def listen(ports: list[int]) -> list[_socket.socket]:
    """One listener on 127.0.0.1 for each port."""
    listeners = []
    for port in ports:
        listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        listener.bind(("127.0.0.1", port))
        listener.listen(BACKLOG)
        listeners.append(listener)
    return listeners


def hand_out(channel: _socket.socket, listeners: list[_socket.socket]) -> None:
    """Sends the listeners' descriptors; the kernel adds who is sending."""
    descriptors = b"".join(listener.fileno().to_bytes(4, sys.byteorder) for listener in listeners)
    channel.sendmsg([b"L"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])


def read_exactly(channel: _socket.socket, size: int) -> bytes:
    """`size` bytes, or an empty string when the launcher is gone."""
    parts = []
    while size:
        part = channel.recv(min(size, 1 << 16))
        if not part:
            return b""
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def receive(channel: _socket.socket, head: bytes = b"") -> Word | None:
    """Waits for the word, or for the rest of it after its length; None when the launcher is gone or sends another
    thing."""
    size = int.from_bytes(head or read_exactly(channel, 4), "big")
    if not 0 < size <= WORD_LIMIT:
        return None
    fields = read_exactly(channel, size).split(b"\0")
    if len(fields) < 5 or not fields[3].isdigit() or fields[2] not in (b"0", b"1", b"2"):
        return None
    end = 4 + int(fields[3])
    argv = fields[4:end]
    variables = dict(field.split(b"=", 1) for field in fields[end:] if b"=" in field)
    ignored = [int(number) for number in fields[1].split(b",") if number.isdigit()]
    return (fields[0], ignored, fields[2], argv, variables) if argv else None


def say(text: bytes) -> None:
    """One line on stderr, whatever the name in it holds."""
    shown = "".join(one if one.isprintable() else "?" for one in text.decode("utf-8", "surrogateescape"))
    try:
        posix.write(2, b"agent-gateway: " + shown.encode("utf-8") + b"\n")
    except OSError:
        pass


def close_all_but_stdio() -> None:
    """Closes what bubblewrap or the launcher left open. By list: closing a whole range is slow on old kernels."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            numbers = posix.listdir(folder)
        except OSError:
            continue
        for number in numbers:
            if int(number) > 2:
                try:
                    posix.close(int(number))
                except OSError:
                    pass  # the listing's own descriptor
        return


def stand_apart(where: bytes) -> None:
    """Leaves the caller's process group: signals for "my group" (`kill(0)`) ignore namespaces and would reach it."""
    if where == b"1":
        posix.setpgid(0, 0)
    elif where == b"2":
        posix.setsid()


def reset_signals(ignored: list[int]) -> None:
    """Default dispositions and an empty mask; the interpreter and the launcher had theirs."""
    for number in range(1, _signal.NSIG):
        try:
            _signal.signal(number, _signal.SIG_IGN if number in ignored else _signal.SIG_DFL)
        except (OSError, ValueError):
            pass  # SIGKILL, SIGSTOP and the two that libc keeps for itself
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


def why_not(path: bytes, error: OSError) -> bytes:
    """What execve's error means for a file that is there."""
    if error.errno == errno.ENOENT:
        return b"bad interpreter: No such file or directory"
    try:
        if posix.stat(path).st_mode & 0o170000 == 0o040000:
            return b"Is a directory"
    except OSError:
        pass
    return posix.strerror(error.errno or 0).encode()


def exists(path: bytes) -> bool:
    """Whether something stands at this path."""
    try:
        posix.stat(path)
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR)
    return True


def execute(argv: list[bytes], variables: dict[bytes, bytes]) -> int:
    """execvp with the new environment's PATH; returns the exit status when nothing could be executed.

    Unlike execvp it never hands a file without a known format to a shell: that is 126, as with docker run.
    """
    name = argv[0]
    folders = [b""] if b"/" in name else variables.get(b"PATH", b"/usr/bin:/bin").split(b":")
    reason = b""
    for folder in folders:
        path = folder + b"/" + name if folder else name
        if b"/" not in path or not name:
            continue  # an empty PATH entry would mean the working directory
        try:
            posix.execve(path, argv, variables)
        except OSError as error:
            if error.errno == errno.E2BIG:
                reason = posix.strerror(error.errno).encode()
                break
            if not reason and exists(path):
                reason = why_not(path, error)
    say(name + b": " + (reason or (b"No such file or directory" if b"/" in name else b"command not found")))
    return CANNOT_EXECUTE if reason else NOT_FOUND


def become(word: Word) -> int:
    """Becomes CMD; returns only when that failed, with the exit status that says why."""
    workdir, ignored, where, argv, variables = word
    stand_apart(where)
    reset_signals(ignored)
    try:
        posix.chdir(workdir)
    except OSError as error:
        say(b"cannot start in " + workdir + b": " + posix.strerror(error.errno or 0).encode())
        return GATEWAY_FAILED
    return execute(argv, variables)


def load(name: str) -> "ModuleType":
    """A program beside this one, as a module; importing what that takes is slow, and mostly not needed."""
    from importlib.machinery import SourceFileLoader
    from importlib.util import module_from_spec, spec_from_loader

    loader = SourceFileLoader(name, f"{__file__.rpartition('/')[0]}/{name}.py")
    spec = spec_from_loader(name, loader)
    assert spec is not None  # a loader was given
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def serve(channel: _socket.socket) -> int:
    """Runs many commands, until the launcher is gone."""
    load("attendant").serve(sys.modules[__name__], channel)
    return 0


def open_ports(channel: _socket.socket, ports: list[int], bridge: "ModuleType | None") -> None:
    """What leads out: listeners that are handed out, or a bridge that was started and must answer."""
    if bridge is not None:
        bridge.prove(channel, ports)
        return
    listeners = listen(ports)
    hand_out(channel, listeners)
    for listener in listeners:
        listener.close()


def build_door(channel: _socket.socket, door: str) -> None:
    """Confines this process and all that come from it, as the orders say, and tells the launcher how that went."""
    supervisor, orders = (int(number) for number in door.split(","))
    data = b""
    while part := posix.read(orders, 1 << 20):
        data += part
    posix.close(orders)
    end = 4 + int.from_bytes(data[:4], "big")
    module = type(sys)("confine")
    exec(marshal.loads(data[4:end]), module.__dict__)
    channel.sendall(module.confine(supervisor, data[end:]))


def main(arguments: list[str]) -> int:
    """The stub's life; the exit status only counts when it could not become CMD."""
    socat = arguments.pop() if arguments[-1].startswith("/") else ""
    door = arguments.pop() if "," in arguments[-1] else ""
    channel_number, stderr_number, *ports = (int(argument) for argument in arguments)
    channel = open_channel(channel_number)
    bridge = load("bridge_inside") if socat else None
    if (
        bridge is not None
    ):  # socat makes datagram sockets, which the door refuses; the wall keeps everybody off it
        bridge.spawn(sys.modules[__name__], socat, ports)
    if door:  # before anything else is started, so that nothing in the wrap is outside of it
        build_door(channel, door)
    open_ports(channel, ports, bridge)
    head = read_exactly(channel, 4)
    if head == SERVE:
        posix.close(stderr_number)
        return serve(channel)
    word = receive(channel, head or bytes(4))
    if word is None:
        return GATEWAY_FAILED
    # Until here stderr was the launcher's pipe, so that a failure is told as the gateway's; from here it is CMD's.
    posix.dup2(stderr_number, 2)
    channel.detach()
    close_all_but_stdio()
    return become(word)


if __name__ == "__main__":
    posix._exit(main(sys.argv[1:]))
