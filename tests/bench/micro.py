"""The figures taken inside this process: the host matcher, and opening a session's pair of listeners."""

import asyncio
import random
import socket
import statistics
import tempfile
import time
from pathlib import Path

from gateway.allowlists import load_shipped
from gateway.audit import AuditLog
from gateway.authorizer import Authorizer
from gateway.config import compile_egress, load_config
from gateway.errors import GatewayError
from gateway.lifecycle import SessionRequest, close_session, new_secret, open_session
from gateway.policy.egress import EgressRules
from gateway.policy.hosts import HostMatcher, HostPattern
from gateway.policy.limits import Limits
from gateway.proxy.proxies import Proxies
from gateway.proxy.reactor import GatewayLoop
from gateway.session import SandboxStamp, Sessions
from tests.bench.measures import Results, Scale

SESSIONS = 100
ENTRIES = 5_000
HOSTS = 20_000
SEED = 20_000


def matcher_hosts(chance: random.Random) -> tuple[list[str], list[str]]:
    """`ENTRIES` patterns (two thirds exact, one third with a star) and hosts to look up: two
    thirds are listed, one third is not."""
    patterns, hosts = [], []
    for number in range(ENTRIES):
        domain = f"d{number}.zone{number % 97}.test"
        patterns.append(domain if number % 3 else f"*.{domain}")
    for _ in range(HOSTS):
        number = chance.randrange(ENTRIES)
        domain = f"d{number}.zone{number % 97}.test"
        listed = domain if number % 3 else f"api.eu-1.{domain}"
        hosts.append(chance.choice((listed, listed, f"www.{domain}.unlisted.test")))
    return patterns, hosts


def measure_matcher(scale: Scale, results: Results) -> None:
    """Microseconds of one lookup at 5,000 entries, hits and misses mixed, the loop's own cost included."""
    patterns, hosts = matcher_hosts(random.Random(SEED))
    matcher = HostMatcher(HostPattern(text, f"bench:{line}") for line, text in enumerate(patterns))
    for _ in range(scale.rounds + 1):
        begun = time.perf_counter()
        hits = sum(matcher.match(host) is not None for host in hosts)
        took = time.perf_counter() - begun
        if not 0 < hits < HOSTS:
            results.problems.append(f"matcher, gateway: {hits} of {HOSTS} hosts matched")
            return
        results.add("matcher", "gateway", took / HOSTS * 1e6)


def listener() -> socket.socket:
    """A listening, non-blocking socket on loopback, as a backend hands it over."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(1024)
    listening.setblocking(False)
    return listening


async def open_pairs(rules: EgressRules, folder: Path, count: int) -> list[float]:
    """Milliseconds of each opening: two listeners bound, the session registered and recorded, its proxies serving.
    All stay open until the last one is."""
    log, sessions, took = AuditLog(folder), Sessions(), []
    opened = []
    async with Proxies(Authorizer(log, time.monotonic)) as proxies:
        for number in range(count):
            request = SessionRequest(
                id=f"bench-{number}",
                egress=rules,
                sandbox=SandboxStamp("none", "existing-only"),
                secret=new_secret(),
            )
            begun = time.perf_counter()
            session = open_session(request, sessions, log)
            proxies.open(session, Limits(), listener(), listener())
            took.append((time.perf_counter() - begun) * 1e3)
            opened.append(session)
    for session in opened:
        close_session(session, sessions, log)
    log.close()
    return took


def measure_session(scale: Scale, results: Results) -> None:
    """Milliseconds to open a session's pair of listeners in a process that already runs, its rules compiled before."""
    try:
        lists = load_shipped()
        begun = time.perf_counter()
        rules = compile_egress(load_config(None, lists), lists, (), True)
        compiled = (time.perf_counter() - begun) * 1e3
        for _ in range(scale.rounds):
            with (
                tempfile.TemporaryDirectory(prefix="agw-bench-") as folder,
                asyncio.Runner(loop_factory=GatewayLoop) as runner,
            ):
                took = runner.run(open_pairs(rules, Path(folder), SESSIONS))
            results.add("session", "gateway", statistics.median(took))
    except (GatewayError, OSError) as error:
        results.problems.append(f"session, gateway: {error}")
        return
    results.notes.append(f"compiling a session's rules from the shipped lists took {compiled:.1f} ms more")
