"""The self-test of a wrapped session, before its command starts: the wall is tried from where that would stand.

A process of ours joins the wrap's network namespace and tries (`sandbox/egress_probe.py`): is there a way past the
proxies, is the host's loopback out of reach, does the HTTP proxy refuse a host that is on no list, and does it let one
through that is allowed (or a refusal would prove nothing). For that the session's own two listeners are served a moment
by the session's own rules and a name more, on a log that is thrown away.
"""

import asyncio
import contextlib
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from gateway.audit import AuditLog
from gateway.authorizer import Authorizer
from gateway.errors import GatewayError
from gateway.policy.addresses import Address
from gateway.policy.egress import Code, EgressRules
from gateway.policy.hosts import HostPattern, parse_literal
from gateway.policy.limits import Limits
from gateway.policy.wording import printable
from gateway.prober import Prober
from gateway.proxy.proxies import Proxies
from gateway.session import SandboxStamp, Session
from sandbox.backends.base import Running
from sandbox.launch import NATIVE

# Seconds for all of it; it takes some hundredths.
DEADLINE: Final = 10.0
_LOOPBACK: Final = "127.0.0.1"
_OWN_INTERFACE: Final = "lo"
_RULE: Final = "self-test"
# What a gateway says that has no room, or whose log cannot be written.
_NO_ANSWER: Final = frozenset({f"403 deny; code={code}" for code in (Code.INTERNAL, Code.LIMIT)})
# Nobody's, for ever (RFC 2606).
_ZONE: Final = "invalid"
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"


class State(StrEnum):
    """What came of it. `untested`: it could not be tried, which says nothing of it; `unwrapped`: there is none;
    `unsupported`: this system has no such trial."""

    HOLDS = "holds"
    OPEN = "open"
    UNTESTED = "untested"
    UNWRAPPED = "unwrapped"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`reason` is a sentence for people."""

    state: State
    reason: str
    milliseconds: int = 0

    def require(self) -> None:
        """GatewayError where there is a hole, and where nobody knows. What was said to have no wrap needs none."""
        if self.state is State.OPEN:
            raise GatewayError(
                f"the wrap has a hole, so the command was not started: {self.reason}",
                "agent-gateway doctor looks at it again; run no agent here before it holds, and report it",
            )
        if self.state is State.UNTESTED:
            raise GatewayError(
                f"the wrap was not proven, so the command was not started: {self.reason}",
                "try again; agent-gateway doctor looks at it too, and --sandbox off runs the command without a wrap",
            )


async def prove_wall(
    rules: EgressRules, running: Running, scratch: Path, prober: Prober | None = None
) -> Outcome:
    """Tries the wall of a wrap that has just come up, for a session with these rules. Before its proxies are opened:
    for this moment its two listeners are served here, with no limits of the session's. Nothing is raised: what cannot
    be tried is an outcome.

    `scratch` is a directory out of the command's reach, for a log that is thrown away. A `prober` that was started
    beforehand saves the start of an interpreter; it is ended here in any case.
    """
    if running.handle.backend != NATIVE or sys.platform != "linux":
        if prober is not None:
            prober.close()
        return UNWRAPPED if running.handle.backend != NATIVE else NOT_HERE
    start = time.monotonic()
    try:
        own = prober or Prober()
        try:
            async with asyncio.timeout(DEADLINE):
                state, reason = await _try(rules, running, scratch, own)
        finally:
            own.close()
    except TimeoutError:
        state, reason = State.UNTESTED, f"the trial did not come to an end within {DEADLINE:g} seconds"
    except (OSError, GatewayError) as error:
        state, reason = State.UNTESTED, f"the wall could not be tried: {error}"
    return Outcome(state, printable(reason), round((time.monotonic() - start) * 1000))


async def _try(rules: EgressRules, running: Running, scratch: Path, prober: Prober) -> tuple[State, str]:
    if running.process is None:
        return State.UNTESTED, "the wrap names no process of its own"
    mark = secrets.token_hex(8)
    refused, passing = f"refused-{mark}.{_ZONE}", f"passing-{mark}.{_ZONE}"
    async with _target(mark.encode()) as port:
        stamp = SandboxStamp(running.handle.backend, "")
        own = Session(_RULE, stamp, _with_target(rules, passing, port), secret="")
        with tempfile.TemporaryDirectory(prefix="self-test-", dir=scratch) as folder:
            log = AuditLog(Path(folder))
            try:
                async with Proxies(Authorizer(log, time.monotonic)) as proxies:
                    proxies.open(own, Limits(), running.http.dup(), running.socks.dup())
                    wanted = passing if rules.network else ""
                    orders = (str(running.endpoints.http_port), refused, wanted, str(port))
                    told = await prober.ask(running.process, orders)
            finally:
                log.close()
    return judge(told, mark, network=rules.network)


def judge(told: Mapping[str, str], mark: str, *, network: bool) -> tuple[State, str]:
    """What the trials say. Pure. `mark` is what the local target answers; without a network it is not asked."""
    if told.get("shared"):
        return State.OPEN, "the command would stand in the host's own network"
    if told.get("failed") or not {"devices", "route", "host", "refused"} <= told.keys():
        return (
            State.UNTESTED,
            f"the wall could not be tried: {told.get('failed') or 'the probe said nothing'}",
        )
    if told["devices"] != _OWN_INTERFACE:
        return State.OPEN, f"the session's network has further interfaces: {told['devices']}"
    if told["route"]:
        return State.OPEN, f"there is a way out past the proxies, to {told['route']}"
    if told["host"] != "closed":
        return State.OPEN, f"the host's own loopback can be reached from inside ({told['host']})"
    code = Code.NOT_LISTED if network else Code.NETWORK_OFF
    if told["refused"] in _NO_ANSWER:
        return State.UNTESTED, f"the proxy could not judge: {told['refused']}"
    if told["refused"] != f"403 deny; code={code}":
        return State.OPEN, f"a host on no list was not refused by the proxy: {told['refused'][:80]}"
    if network and told.get("passed") != f"200 {mark}":
        reason = f"an allowed host did not come through the proxy: {told.get('passed', '')[:80]}"
        return State.UNTESTED, reason
    return State.HOLDS, "no way past the proxies; a host on no list was refused, an allowed one came through"


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


NOT_HERE: Final = Outcome(State.UNSUPPORTED, "on this system the wall is not tried at the start of a session")
UNWRAPPED: Final = Outcome(
    State.UNWRAPPED, "there is no wrap: connections that use no proxy are neither refused nor recorded"
)
