"""`agent-gateway demo`: a real `run` with a small agent, against targets of its own on loopback.

Needs no account and no internet, touches nothing of the user's, and leaves nothing behind. What the agent saw is
compared with what must happen and with what the audit log says; one difference, and the demo fails.
"""

import hashlib
import json
import shutil
import signal
import site
import ssl
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from gateway.demo_push import push_demo
from gateway.errors import GatewayError
from gateway.policy.wording import printable, printable_lines

# Seconds for the whole run; it takes about two.
_PATIENCE: Final = 120
_WIDTH: Final = 100
_NOT_IN_FORCE: Final = "not in force here: no wrap"
# Of the caller's environment: what would lead the demo to another configuration or another repository.
_NOT_PASSED: Final = ("AGENT_GATEWAY_", "XDG_", "GIT_")
# Of the record that is shown: what is left out is empty or long.
_NOT_SHOWN: Final = frozenset({"v", "seq", "prev", "workspace", "space", "agent", "code", "connection"})

_Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing the agent tries. `code` is what it must be refused with; `proxied`: it goes through the gateway;
    `wrap`: it must fail, and only a wrap sees to that."""

    text: str
    call: tuple[str, ...]
    code: str = ""
    proxied: bool = True
    wrap: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a step, in words, the rule that decided, and whether it is what must happen."""

    text: str
    rule: str
    fine: bool


def demo(environ: Mapping[str, str]) -> int:
    """Runs the demo and prints what happened. 0 when every step did what it must, otherwise 1."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that it cleans up as after Ctrl-C
    with tempfile.TemporaryDirectory(prefix="agent-gateway-demo-") as folder, ExitStack() as stack:
        place = Path(folder).resolve()
        plain, secure = (stack.enter_context(_target(tls)) for tls in (False, True))
        _lay_out(place, environ, plain, secure)
        steps = _steps(place, plain, secure)
        try:
            said, results = _run(place, environ, steps)
            records = _read_log(place)
            outcomes = _judge(steps, results, records)
        except GatewayError as error:
            sys.stdout.write(printable_lines(f"The demo failed: {error}") + "\n")
            return 1
    told = [
        "A small agent ran behind the gateway, its targets on this machine. The gateway said:",
        *_wrap(said),
    ]
    pushes, fine = push_demo(environ, _read_log)
    parts = (told, _table(steps, outcomes), _recorded(records), pushes, _verdict(steps, outcomes))
    sys.stdout.write("\n\n".join("\n".join(part) for part in parts) + "\n")
    return 0 if fine and all(outcome.fine for outcome in outcomes) else 1


# --- The place ------------------------------------------------------------------------------------


class _Answer(BaseHTTPRequestHandler):
    """Says hello to everybody, and nothing on stderr."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello\n")

    def log_message(self, format: str, *arguments: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was cut off in the middle is part of the demo."""


@contextmanager
def _target(tls: bool) -> Iterator[int]:
    """A server on loopback; its port. With TLS it needs no certificate: the suites are anonymous, TLS 1.2."""
    with _Server(("127.0.0.1", 0), _Answer) as server:
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            context.set_ciphers("aNULL:@SECLEVEL=0")
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def _lay_out(place: Path, environ: Mapping[str, str], plain: int, secure: int) -> None:
    """A home with a key in it, a worktree with the agent in it, a configuration."""
    for name in ("home/.ssh", "worktree"):
        (place / name).mkdir(parents=True)
    (place / "home/.ssh/id_ed25519").write_text("a key that nobody uses\n")
    (place / "worktree/agent.py").write_bytes((files("gateway") / "demo_agent.py").read_bytes())
    (place / "config.yaml").write_text(
        "egress:\n"
        "  allow:\n"
        "    - allowed.test\n"
        "    - inward.test\n"
        "  hosts: {allowed.test: 127.0.0.1, inward.test: 127.0.0.1}\n"
        f'  addresses: ["127.0.0.1:{plain}", "127.0.0.1:{secure}"]\n'
    )
    git = shutil.which("git", path=environ.get("PATH"))
    if git is not None:  # without git the folder is no repository, and the demo the same
        command = (git, "init", "--quiet", str(place / "worktree"))
        subprocess.run(command, env=_environment(place, environ), check=False, stdin=subprocess.DEVNULL)


def _environment(place: Path, environ: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in environ.items() if not name.startswith(_NOT_PASSED)}
    own = {
        "HOME": str(place / "home"),
        "XDG_STATE_HOME": str(place / "state"),
        "PYTHONUSERBASE": site.getuserbase(),
    }
    return kept | own


def _steps(place: Path, plain: int, secure: int) -> tuple[Step, ...]:
    target = f"allowed.test:{secure}"
    key, notes = str(place / "home/.ssh/id_ed25519"), str(place / "worktree/notes.txt")
    metadata = "metadata.google.internal"
    return (
        Step("GET http://allowed.test", ("fetch", f"http://allowed.test:{plain}/")),
        Step("TLS to allowed.test, by CONNECT", ("tunnel", target, "allowed.test")),
        Step("TLS to allowed.test, by SOCKS5", ("socks", target, "allowed.test")),
        Step("GET http://unlisted.test", ("fetch", "http://unlisted.test/"), "not_listed"),
        Step("TLS to unlisted.test, by SOCKS5", ("socks", "unlisted.test:443", "unlisted.test"), "not_listed"),
        Step(f"GET http://{metadata}", ("fetch", f"http://{metadata}/"), "denied"),
        Step("GET http://192.0.2.7, an address", ("fetch", "http://192.0.2.7/"), "ip_literal"),
        Step("GET http://inward.test, which leads here", ("fetch", "http://inward.test/"), "resolved_address"),
        Step("TLS to other.test in a tunnel to allowed.test", ("tunnel", target, "other.test"), "sni_mismatch"),
        Step("connecting without the proxies", ("dial", "127.0.0.1", str(plain)), proxied=False, wrap=True),
        Step("reading ~/.ssh/id_ed25519", ("read", key), proxied=False, wrap=True),
        Step("writing a file in the worktree", ("write", notes), proxied=False),
    )  # fmt: skip


# --- The run --------------------------------------------------------------------------------------


def _run(place: Path, environ: Mapping[str, str], steps: Sequence[Step]) -> tuple[str, list[_Record]]:
    """Runs the agent; what the gateway said on stderr, and the agent's results. GatewayError when it is cut short."""
    worktree = place / "worktree"
    product = (sys.executable, "-P", "-m", "gateway", "run", "--config", str(place / "config.yaml"))
    command = (*product, "--agent", "demo", "--", sys.executable, "-I", "-B", str(worktree / "agent.py"))
    with subprocess.Popen(
        command,
        cwd=worktree,
        env=_environment(place, environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(json.dumps([step.call for step in steps]), timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            raise GatewayError(f"the run did not end within {_PATIENCE} seconds") from None
        finally:
            process.kill()  # which ends everything in it; nothing where it is over
    results = [json.loads(line) for line in stdout.splitlines()]
    if process.returncode or len(results) != len(steps):
        raise GatewayError(
            f"the run ended with {process.returncode} after {len(results)} steps:\n{stderr.rstrip()}"
        )
    return stderr, results


def _read_log(place: Path) -> list[_Record]:
    """The records, their chain checked."""
    (path,) = (place / "state/agent-gateway/audit").glob("*.jsonl")
    records: list[_Record] = []
    previous = "0" * 64
    for line in path.read_bytes().splitlines():
        record = json.loads(line)
        if record["prev"] != previous:
            raise GatewayError(f"the chain of the audit log is broken at record {record['seq']}")
        previous = hashlib.sha256(line).hexdigest()
        records.append(record)
    return records


def _judge(steps: Sequence[Step], results: Sequence[_Record], records: Sequence[_Record]) -> list[Outcome]:
    """Each step's outcome. The agent goes step by step, so the log's connections stand in the order of the steps."""
    last = {record["connection"]: record for record in records if record["event"] == "egress"}
    connections = iter(last.values())
    wrapped = all(record["sandbox"]["backend"] != "none" for record in records if record["session"])
    outcomes = []
    for step, result in zip(steps, results, strict=True):
        if step.proxied:
            outcomes.append(_judge_connection(step, result, next(connections, {})))
        elif step.wrap and result["ok"] and not wrapped:
            outcomes.append(Outcome(f"possible ({result['said']})", _NOT_IN_FORCE, True))
        else:
            text = str(result["said"]) if result["ok"] else f"failed: {result['said']}"
            outcomes.append(
                Outcome(text, "the wrap" if step.wrap else "", bool(result["ok"]) is not step.wrap)
            )
    if next(connections, None) is not None:
        raise GatewayError("the audit log has connections that no step made")
    return outcomes


def _judge_connection(step: Step, result: _Record, record: _Record) -> Outcome:
    if not record:
        return Outcome(f"not on record (the agent saw: {result['said']})", "", False)
    if record["verdict"] == "allow":
        text = "allowed" + ("" if result["ok"] else f", but failed: {result['said']} {record['code']}")
        return Outcome(text, record["rule"], bool(result["ok"]) and not step.code)
    as_told = not result["ok"] and result.get("code", step.code) == step.code
    return Outcome(f"refused: {record['code']}", record["rule"], as_told and record["code"] == step.code)


# --- The report -----------------------------------------------------------------------------------


def _wrap(text: str) -> list[str]:
    return [
        f"  {part}"
        for line in text.splitlines()
        for part in textwrap.wrap(printable(line), _WIDTH - 2, break_on_hyphens=False, break_long_words=False)
    ]


def _table(steps: Sequence[Step], outcomes: Sequence[Outcome]) -> list[str]:
    rows = [("What it tried", "what happened", "by which rule")]
    rows += [(step.text, outcome.text, outcome.rule) for step, outcome in zip(steps, outcomes, strict=True)]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    return [f"{tried:{first}}   {happened:{second}}   {rule}".rstrip() for tried, happened, rule in rows]


def _recorded(records: Sequence[_Record]) -> list[str]:
    """How many records of each kind there are, and one of them."""
    kinds = Counter(
        " ".join(
            filter(None, (record["event"], record.get("state"), record.get("verdict"), record.get("code")))
        )
        for record in records
    )
    counted = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    sample = next(
        (record for record in records if record.get("state") == "closed" and record.get("sni")), records[0]
    )
    return [
        f"Recorded, each record with the hash of the one before: {len(records)} records",
        *_wrap(counted),
        "One of them, in part:",
        *_wrap(json.dumps({name: value for name, value in sample.items() if name not in _NOT_SHOWN})),
    ]


def _verdict(steps: Sequence[Step], outcomes: Sequence[Outcome]) -> list[str]:
    wrong = [step.text for step, outcome in zip(steps, outcomes, strict=True) if not outcome.fine]
    if wrong:
        return [f"{len(wrong)} of {len(steps)} steps did not do what they must: {'; '.join(wrong)}."]
    missing = sum(outcome.rule == _NOT_IN_FORCE for outcome in outcomes)
    but = f", but {missing} of them would fail with a wrap, which is not in force here" if missing else ""
    return [
        f"All {len(steps)} steps did what they must{but}.",
        "This log is removed with the demo. Yours, by `agent-gateway run -- CMD`, will be kept in",
        "~/.local/state/agent-gateway/audit.",
    ]
