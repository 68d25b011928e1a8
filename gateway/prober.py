"""A process of ours that tries the wall of a wrap from inside its network (`sandbox/egress_probe.py`), and its orders.

Apart from what judges the answers, since it is started before all of that is imported.
"""

import asyncio
import socket
import subprocess
from collections.abc import Mapping
from importlib import resources
from typing import Final

from sandbox.mounts import own_interpreter

_FLAGS: Final = ("-I", "-S", "-E", "-B")
_ANSWER: Final = 64 << 10


class Prober:
    """The process that tries, started beforehand so that its interpreter is up by then. Used once; `close` always."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair()
        with theirs:
            program = str(resources.files("sandbox") / "egress_probe.py")
            command = (own_interpreter(), *_FLAGS, program, str(theirs.fileno()))
            self.process = subprocess.Popen(
                command,
                env={},
                cwd="/",
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._channel.setblocking(False)

    async def ask(self, process: int, orders: tuple[str, ...]) -> Mapping[str, str]:
        """The trials by name, in the network of this process (a pidfd). OSError when it cannot be told."""
        loop = asyncio.get_running_loop()
        told = "\0".join((str(_number(process)), *orders)).encode()
        socket.send_fds(self._channel, [told], [process])
        data = b""
        while len(data) < _ANSWER:
            part = await loop.sock_recv(self._channel, _ANSWER)
            if not part:
                break
            data += part
        lines = (line.partition(" ") for line in data.decode("utf-8", "replace").splitlines())
        return {name: text for name, _, text in lines}

    def close(self) -> None:
        """Ends the process, whatever it is at."""
        self._channel.close()  # may be called again
        self.process.kill()
        self.process.wait()


def _number(process: int) -> int:
    """The number of a pidfd's process; -1 once it has ended. OSError for what is no pidfd."""
    with open(f"/proc/self/fdinfo/{process}", encoding="ascii") as info:
        fields = (line.partition(":") for line in info)
        return next((int(value) for name, _, value in fields if name == "Pid"), -1)
