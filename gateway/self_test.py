"""The self-test of a wrapped session, for the doctor: the wall is tried from where a command would stand.

A process of ours joins the wrap's network namespace and tries (`sandbox/egress_probe.py`): is there a way past the
proxies, is the host's loopback out of reach, does the HTTP proxy refuse a host that is on no list, and does it let one
through that is allowed (or a refusal would prove nothing). For that the session's own two listeners are served a moment
by the session's own rules and a name more, on a log that is thrown away.
"""

import asyncio
import contextlib
import fcntl
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib import resources
from pathlib import Path
from struct import Struct
from typing import Final

from gateway.audit import AuditLog
from gateway.authorizer import Authorizer
from gateway.errors import GatewayError
from gateway.policy.addresses import Address
from gateway.policy.egress import Code, EgressRules
from gateway.policy.hosts import HostPattern, parse_literal
from gateway.policy.limits import Limits
from gateway.policy.wording import printable
from gateway.proxy.proxies import Proxies
from gateway.session import SandboxStamp, Session
from sandbox.backends.base import Running
from sandbox.launch import NATIVE
from sandbox.mounts import own_interpreter

# Seconds for all of it; it takes some hundredths.
DEADLINE: Final = 10.0
_FLAGS: Final = ("-I", "-S", "-E", "-B")
_ANSWER: Final = 64 << 10
_LOOPBACK: Final = "127.0.0.1"
# linux/sockios.h and linux/nsfs.h: the network namespace of a socket, and the user namespace that it belongs to.
_SOCKET_NAMESPACE: Final = 0x894C
_OWNER: Final = 0xB701
# linux/sockios.h: struct ifconf and the struct ifreq in it, of 64-bit systems.
_LIST_INTERFACES: Final = 0x8912
_LIST: Final = Struct("i4xQ")
_INTERFACE: Final = Struct("16s24s")
_INTERFACES: Final = 64
_OWN_INTERFACE: Final = "lo"
_RULE: Final = "self-test"
# Nobody's, for ever (RFC 2606).
_ZONE: Final = "invalid"
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"


class State(StrEnum):
    """What came of it. `untested`: it could not be tried, which says nothing of it; `unwrapped`: there is none."""

    HOLDS = "holds"
    OPEN = "open"
    UNTESTED = "untested"
    UNWRAPPED = "unwrapped"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`reason` is a sentence for people."""

    state: State
    reason: str
    milliseconds: int = 0


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

    async def ask(self, listener: socket.socket, orders: tuple[str, ...]) -> Mapping[str, str]:
        """The trials by name, in the network namespace of this listener. OSError when that cannot be entered."""
        loop = asyncio.get_running_loop()
        network = fcntl.ioctl(listener.fileno(), _SOCKET_NAMESPACE)
        with open(network, closefd=True, mode="rb", buffering=0) as held:
            user = fcntl.ioctl(held.fileno(), _OWNER)
            with open(user, closefd=True, mode="rb", buffering=0) as owner:
                socket.send_fds(self._channel, ["\0".join(orders).encode()], [held.fileno(), owner.fileno()])
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


async def prove_wall(
    rules: EgressRules, running: Running, limits: Limits, prober: Prober | None = None
) -> Outcome:
    """Tries the wall of a wrap that has just come up, for a session with these rules and limits. Before its proxies are
    opened: for this moment its two listeners are served here. Nothing is raised: what cannot be tried is an outcome.

    A `prober` that was started beforehand saves the start of an interpreter; it is ended here in any case.
    """
    if running.handle.backend != NATIVE:
        return UNWRAPPED
    if sys.platform != "linux":
        return NOT_HERE
    start = time.monotonic()
    try:
        own = prober or Prober()
        try:
            async with asyncio.timeout(DEADLINE):
                state, reason = await _try(rules, running, limits, own)
        finally:
            own.close()
    except TimeoutError:
        state, reason = State.UNTESTED, f"the trial did not come to an end within {DEADLINE:g} seconds"
    except (OSError, GatewayError) as error:
        state, reason = State.UNTESTED, f"the wall could not be tried: {error}"
    return Outcome(state, printable(reason), round((time.monotonic() - start) * 1000))


async def _try(rules: EgressRules, running: Running, limits: Limits, prober: Prober) -> tuple[State, str]:
    further = [name for name in interfaces(running.http) if name != _OWN_INTERFACE]
    if further:
        return State.OPEN, f"the session's network has further interfaces: {', '.join(further)}"
    mark = secrets.token_hex(8)
    refused, passing = f"refused-{mark}.{_ZONE}", f"passing-{mark}.{_ZONE}"
    async with _target(mark.encode()) as port:
        stamp = SandboxStamp(running.handle.backend, "")
        own = Session(_RULE, stamp, _with_target(rules, passing, port), secret="")
        with tempfile.TemporaryDirectory(prefix="agent-gateway-test-") as folder:
            log = AuditLog(Path(folder))
            try:
                async with Proxies(Authorizer(log, time.monotonic)) as proxies:
                    proxies.open(own, limits, running.http.dup(), running.socks.dup())
                    wanted = passing if rules.network else ""
                    orders = (str(running.endpoints.http_port), refused, wanted, str(port))
                    told = await prober.ask(running.http, orders)
            finally:
                log.close()
    return judge(told, mark, network=rules.network)


def judge(told: Mapping[str, str], mark: str, *, network: bool) -> tuple[State, str]:
    """What the trials say. Pure. `mark` is what the local target answers; without a network it is not asked."""
    if told.get("failed") or not {"route", "host", "refused"} <= told.keys():
        return (
            State.UNTESTED,
            f"the wall could not be tried: {told.get('failed') or 'the probe said nothing'}",
        )
    if told["route"]:
        return State.OPEN, f"there is a way out past the proxies, to {told['route']}"
    if told["host"] != "closed":
        return State.OPEN, f"the host's own loopback can be reached from inside ({told['host']})"
    code = Code.NOT_LISTED if network else Code.NETWORK_OFF
    if told["refused"] != f"403 deny; code={code}":
        return State.OPEN, f"a host on no list was not refused by the proxy: {told['refused'][:80]}"
    if network and told.get("passed") != f"200 {mark}":
        reason = f"an allowed host did not come through the proxy: {told.get('passed', '')[:80]}"
        return State.UNTESTED, reason
    return State.HOLDS, "no way past the proxies; a host on no list was refused, an allowed one came through"


def interfaces(listener: socket.socket) -> tuple[str, ...]:
    """The interfaces with an IPv4 address in the network that this socket was made in (netdevice(7), SIOCGIFCONF)."""
    room = array("B", bytes(_INTERFACES * _INTERFACE.size))
    address, size = room.buffer_info()
    asked = _LIST.pack(size, address)
    filled, _ = _LIST.unpack(fcntl.ioctl(listener.fileno(), _LIST_INTERFACES, asked))
    records = _INTERFACE.iter_unpack(room.tobytes()[:filled])
    return tuple(dict.fromkeys(name.partition(b"\0")[0].decode("ascii", "replace") for name, _ in records))


def _with_target(rules: EgressRules, name: str, port: int) -> EgressRules:
    """The rules with one name more, which leads to the local target."""
    address = parse_literal(_LOOPBACK)
    assert address is not None
    addresses: dict[tuple[Address, int], str] = {**rules.addresses, (address, port): _RULE}
    return replace(
        rules,
        allow=rules.allow.extended((HostPattern(name, _RULE),)),
        names={**rules.names, name: _LOOPBACK},
        addresses=addresses,
        denied_networks=(),  # they may hold the loopback
    )


@asynccontextmanager
async def _target(body: bytes) -> AsyncIterator[int]:
    """A server on the host's loopback that answers whatever it hears; its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(_HEAD % (len(body), body))
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, _LOOPBACK, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


NOT_HERE: Final = Outcome(State.UNTESTED, "on this system the wall is not tried at the start of a session")
UNWRAPPED: Final = Outcome(
    State.UNWRAPPED, "there is no wrap: connections that use no proxy are neither refused nor recorded"
)
