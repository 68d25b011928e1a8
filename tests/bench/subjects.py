"""Starts and stops what is measured: direct, this gateway, squid, tinyproxy and the Node package's proxies.

Each is a process on loopback. Peers run in their fastest honest configuration: everything allowed, no access log,
the origin asked for by its address so that they resolve no name. The gateway runs as the product: `run`, a name
that its config maps, its checks and its audit log on; only its limits are raised.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.bench.processes import LOOPBACK, kept, quiet_port, running, wait_until_listening
from tests.bench.toolchain import (
    FOLDER,
    NODE_PACKAGE_VERSION,
    ROOT,
    SERVER_NAME,
    Unavailable,
    find_node,
    find_program,
    node_package,
    output_of,
)

RAISED_LIMITS = "{tunnels: 4096, new_per_second: 100000, burst: 100000, idle: 3600}"

# Prints the session's proxies and its own process id, then holds the session open.
HOLDER = """printf '%s %s %s\\n' "$HTTP_PROXY" "$ALL_PROXY" "$$"; exec cat >/dev/null"""

GATEWAY_CONFIG = """\
egress:
  allow: [{name}]
  ports: [{port}]
  hosts: {{{name}: "{address}"}}
  addresses: ["{address}:{port}"]
  limits: {limits}
file_rules: existing-only
audit: {{directory: {audit}}}
"""

SQUID_CONFIG = """\
http_port {address}:{port}
acl everyone src all
http_access allow everyone
cache deny all
access_log none
cache_store_log none
cache_log /dev/null
pid_filename none
coredump_dir /
pinger_enable off
netdb_filename none
via off
forwarded_for delete
shutdown_lifetime 0 seconds
max_filedescriptors 8192
dns_nameservers {address}
"""

TINYPROXY_CONFIG = """\
Listen {address}
Port {port}
Timeout 600
MaxClients 4096
LogLevel Critical
LogFile "{folder}/tinyproxy.log"
DisableViaHeader Yes
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """What a run of the benchmark stands on: the built programs, the origin, a temporary folder."""

    load: str
    hello: Path
    origin_port: int
    folder: Path


@dataclass(frozen=True, slots=True)
class Subject:
    """A running subject. Ports are on 127.0.0.1; 0 = it does not speak that. `host` is what it is asked for."""

    name: str
    http: int
    socks: int
    host: str
    pid: int = 0
    holder: int = 0  # a process below `pid` that is no part of the subject
    version: str = ""


@contextmanager
def origin(program: str, folder: Path) -> Iterator[int]:
    """The origin's port."""
    with running((program,), "origin", folder) as (_, line):
        yield int(line)


def gateway_program() -> str:
    """The console script of the environment the benchmark runs in, or of the checkout's."""
    for folder in (Path(sys.executable).parent, ROOT / ".venv" / "bin"):
        if (folder / "agent-gateway").exists():
            return str(folder / "agent-gateway")
    raise Unavailable("agent-gateway is not installed: make setup")


def own_environment(folder: Path) -> dict[str, str]:
    """The environment for the gateway: state, configuration and home in `folder`, nothing of the user's."""
    ours = ("AGENT_GATEWAY", "CC_SERVER")
    passed = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    places = {
        "HOME": "home",
        "XDG_STATE_HOME": "state",
        "XDG_CONFIG_HOME": "config",
        "XDG_RUNTIME_DIR": "runtime",
    }
    for name, place in places.items():
        (folder / place).mkdir(mode=0o700, exist_ok=True)
        passed[name] = str(folder / place)
    return passed


def own_worktree(folder: Path) -> Path:
    """An empty git repository to run in."""
    worktree = folder / "worktree"
    if not worktree.exists():
        worktree.mkdir()
        output_of((find_program("git", "apt-get install git"), "init", "-q", str(worktree)))
    return worktree


@contextmanager
def direct(stage: Stage) -> Iterator[Subject]:
    """No proxy: the floor."""
    yield Subject("direct", stage.origin_port, 0, LOOPBACK)


@contextmanager
def gateway(stage: Stage) -> Iterator[Subject]:
    """`agent-gateway run --sandbox off`: the real product, audit log on, checks on, limits raised."""
    config = stage.folder / "bench.yaml"
    config.write_text(
        GATEWAY_CONFIG.format(
            name=SERVER_NAME,
            address=LOOPBACK,
            port=stage.origin_port,
            limits=RAISED_LIMITS,
            audit=stage.folder / "audit",
        )
    )
    program = gateway_program()
    options = ("run", "--sandbox", "off", "--config", str(config), "--quiet")
    argv = (program, *options, "--", "/bin/sh", "-c", HOLDER)
    environment, worktree = own_environment(stage.folder), own_worktree(stage.folder)
    with running(argv, "gateway", stage.folder, environment, worktree) as (child, line):
        http, socks, holder = line.split()
        version = output_of((program, "--version")).rpartition(" ")[2]
        yield Subject("gateway", port_of(http), port_of(socks), SERVER_NAME, child.pid, int(holder), version)


def port_of(url: str) -> int:
    """The port of a proxy URL."""
    port = urlsplit(url).port
    if port is None:
        raise Unavailable(f"no port in {url!r}")
    return port


@contextmanager
def squid(stage: Stage) -> Iterator[Subject]:
    """squid, one process, no cache, no log."""
    program = find_program("squid", "apt-get install squid")
    port, service = quiet_port(), f"bench{os.getpid()}"
    config = stage.folder / "squid.conf"
    config.write_text(SQUID_CONFIG.format(address=LOOPBACK, port=port))
    version = output_of((program, "--version")).partition("\n")[0].rpartition(" ")[2]
    argv = kept(program, "-N", "-d", "1", "-n", service, "-f", str(config))
    try:
        with running(argv, "squid", stage.folder) as (_, line):
            wait_until_listening(port, int(line), "squid", stage.folder)
            yield Subject("squid", port, 0, LOOPBACK, int(line), version=version)
    finally:
        for segment in Path("/dev/shm").glob(f"{service}-*"):
            segment.unlink(missing_ok=True)


@contextmanager
def tinyproxy(stage: Stage) -> Iterator[Subject]:
    """tinyproxy, no log. It closes the connection after each plain request, whatever the client wants."""
    program = find_program("tinyproxy", "apt-get install tinyproxy")
    port = quiet_port()
    config = stage.folder / "tinyproxy.conf"
    config.write_text(TINYPROXY_CONFIG.format(address=LOOPBACK, port=port, folder=stage.folder))
    version = output_of((program, "-v")).rpartition(" ")[2]
    argv = kept(program, "-d", "-c", str(config))
    with running(argv, "tinyproxy", stage.folder) as (_, line):
        wait_until_listening(port, int(line), "tinyproxy", stage.folder)
        yield Subject("tinyproxy", port, 0, LOOPBACK, int(line), version=version)


@contextmanager
def node_peer(stage: Stage, name: str, shape: str) -> Iterator[Subject]:
    """The Node package's proxies, as `node_peer.mjs` runs them."""
    node = find_node()
    argv = (node.binary, str(FOLDER / "node_peer.mjs"), str(node_package(node)), shape)
    with running(argv, name, stage.folder) as (child, line):
        ports = json.loads(line)
        version = f"{NODE_PACKAGE_VERSION} on Node {node.version.removeprefix('v')}"
        yield Subject(name, int(ports["http"]), int(ports["socks"]), LOOPBACK, child.pid, version=version)


def node_bare(stage: Stage) -> AbstractContextManager[Subject]:
    """The package's HTTP module and its SOCKS module, each on its own port."""
    return node_peer(stage, "node-bare", "bare")


def node_mux(stage: Stage) -> AbstractContextManager[Subject]:
    """The one port the package really exposes."""
    return node_peer(stage, "node-mux", "mux")


Starter = Callable[[Stage], AbstractContextManager[Subject]]

STARTERS: tuple[tuple[str, Starter], ...] = (
    ("direct", direct),
    ("gateway", gateway),
    ("squid", squid),
    ("tinyproxy", tinyproxy),
    ("node-bare", node_bare),
    ("node-mux", node_mux),
)
