"""The product as its user has it: the console script in a process of its own, on a machine in small.

The machine is a folder with a home, a configuration, a state directory and a worktree; of the real user nothing is
read and nothing is written.
"""

import hashlib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

# The script that the installation put beside the interpreter of the tests, and that interpreter for Python clients.
PROGRAM = Path(sys.executable).with_name("agent-gateway")
PYTHON = sys.executable
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
# Seconds after which a run is given up; no test waits for it to pass.
PATIENCE = 60.0

# A host that no list names; what is asked of it is refused by name, before anything is resolved.
REFUSED = "refused.test"

BACKENDS = {"on": "native", "off": "none"}
START_LINES = {
    "on": re.compile(r"agent sandbox ON \(.+: namespace isolation, no kernel boundary\)"),
    "off": re.compile(r"agent sandbox DISABLED by --sandbox off"),
}
CLOSING_LINE = re.compile(
    r"agent-gateway: (\d+) connections allowed, (\d+) denied; "
    r"(\d+) pushes forwarded, (\d+) refused; (\d+) violations; (?:\d+ new hosts?: [^;]+; )?log: (.+\.jsonl)"
)

Record = Mapping[str, Any]
# How often the log has a record of this state, transport, target and code.
Log = Counter[tuple[str, str, str, str]]


def went_out(transport: str, target: str, times: int = 1, *, inside: int = 0) -> Log:
    """The records of plain requests, or of tunnels, to `HOST:PORT` that came and went; `inside` counts the plain
    requests that each tunnel carried."""
    log: Log = Counter({("closed", transport, target, ""): times * (1 + inside)})
    if transport != "http":
        log["opened", transport, target, ""] = times
    return log


def was_refused(transport: str, target: str, times: int = 1, *, code: str = "not_listed") -> Log:
    """The records of refusals."""
    return Counter({("refused", transport, target, code): times})


@dataclass(frozen=True, slots=True)
class Done:
    """A run that is over. `stderr` is CMD's own, without the product's two lines; `records` are the session's."""

    status: int
    stdout: str
    stderr: str
    records: tuple[Record, ...]
    allowed: int
    denied: int
    forwarded: int = 0
    refused: int = 0
    violations: int = 0

    @property
    def lines(self) -> list[str]:
        """What CMD printed, once it has ended well."""
        assert self.status == 0, self.stderr or self.stdout
        return self.stdout.splitlines()

    @property
    def egress(self) -> tuple[Record, ...]:
        return tuple(record for record in self.records if record["event"] == "egress")

    @property
    def log(self) -> Log:
        """What the log says of connections. That a plain request took long, and was recorded before its end as well,
        is left out."""
        return Counter(
            (str(one["state"]), str(one["transport"]), f"{one['host']}:{one['port']}", str(one["code"]))
            for one in self.egress
            if one["state"] != "opened" or "method" not in one
        )

    def closed(self, transport: str) -> list[Record]:
        """The records of ended connections, in the order they ended."""
        return [one for one in self.egress if (one["state"], one["transport"]) == ("closed", transport)]


@dataclass
class Running:
    """A run that goes on. Use with `with`: a test that fails in the middle leaves nothing behind."""

    process: "subprocess.Popen[str]"
    product: "Product"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.communicate(timeout=PATIENCE)

    def tell(self, line: str) -> None:
        """A line to CMD's standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        """The next line of CMD's standard output; what was said on standard error when there is none."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate(timeout=PATIENCE)[1]
        return line.rstrip("\n")

    def end(self) -> Done:
        """Waits for the end."""
        stdout, stderr = self.process.communicate(timeout=PATIENCE)
        return self.product.done(self.process.returncode, stdout, stderr)


@dataclass
class Product:
    """One machine in small. Changes as a test sets it up. `sandbox` is the value of `--sandbox`; `settings` are parts
    of the configuration besides `egress`; `violates` says that the file rules are to refuse CMD something."""

    folder: Path
    sandbox: str
    environment: dict[str, str] = field(default_factory=dict)
    egress: dict[str, list[str]] = field(default_factory=lambda: {"allow": [], "addresses": [], "raw": []})
    hosts: dict[str, str] = field(default_factory=dict)
    ports: list[int] = field(default_factory=lambda: [80, 443])
    settings: dict[str, Any] = field(default_factory=dict)
    violates: bool = False

    def __post_init__(self) -> None:
        for folder in (
            self.home,
            self.work,
            self.folder / "run",
            self.folder / "config",
            self.folder / "state",
        ):
            folder.mkdir(parents=True)
        self.environment = {
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_RUNTIME_DIR": str(self.folder / "run"),
            "PATH": SYSTEM_PATH,
            "LANG": "C.UTF-8",
            **self.environment,
        }
        subprocess.run(("git", "init", "-q", str(self.work)), env=self.environment, check=True)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def work(self) -> Path:
        """The worktree, where CMD starts."""
        return self.folder / "work"

    @property
    def audit(self) -> Path:
        return self.folder / "state/agent-gateway/audit"

    def reach(self, host: str, port: int, address: str = "127.0.0.1", *, raw: bool = False) -> str:
        """Allows a server of this machine under a name: every setting that takes. Returns `HOST:PORT`."""
        self.hosts[host] = address
        literal = f"[{address}]" if ":" in address else address
        entries = {"allow": host, "addresses": f"{literal}:{port}"} | (
            {"raw": f"{host}:{port}"} if raw else {}
        )
        for name, entry in entries.items():
            if entry not in self.egress[name]:
                self.egress[name].append(entry)
        return f"{host}:{port}"

    def give(self, path: Path) -> str:
        """Copies a file into the worktree; its path there."""
        (self.work / path.name).write_bytes(path.read_bytes())
        return str(self.work / path.name)

    def activate(self, python: str) -> None:
        """Puts the folder of a virtual environment's interpreter first on PATH, as its user would."""
        self.environment["PATH"] = f"{Path(python).parent}:{self.environment['PATH']}"

    def run(self, *argv: str, options: Sequence[str] = (), text: str = "") -> Done:
        """Runs CMD to its end; `options` are those of `run`, `text` is CMD's standard input."""
        done = subprocess.run(
            self.command(argv, options),
            input=text,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            cwd=self.work,
            env=self.environment,
        )
        return self.done(done.returncode, done.stdout, done.stderr)

    def start(self, *argv: str, options: Sequence[str] = ()) -> Running:
        """Starts CMD."""
        process = subprocess.Popen(
            self.command(argv, options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.work,
            env=self.environment,
        )
        return Running(process, self)

    def done(self, status: int, stdout: str, stderr: str) -> Done:
        """What came of a run: the product's own lines and its log are checked and taken apart."""
        start, *said, end = stderr.splitlines(keepends=True)
        assert START_LINES[self.sandbox].fullmatch(start.rstrip("\n")), stderr
        closing = CLOSING_LINE.fullmatch(end.rstrip("\n"))
        assert closing, stderr
        log = Path(closing[6])
        assert log.parent == self.audit
        records = tuple(record for record in read_log(log) if record["session"])
        assert {record["sandbox"]["backend"] for record in records} == {BACKENDS[self.sandbox]}
        counts = tuple(int(closing[number]) for number in range(1, 6))
        assert self.violates or not counts[-1], records
        return Done(status, stdout, "".join(said), records, *counts)

    def command(self, argv: Sequence[str], options: Sequence[str] = ()) -> list[str]:
        """What a shell would start. Writes the configuration."""
        config = self.folder / "config.yaml"
        egress = {**self.egress, "hosts": self.hosts, "ports": self.ports}
        config.write_text(config_text({**self.settings, "egress": egress}))
        return [
            str(PROGRAM),
            "run",
            "--config",
            str(config),
            "--sandbox",
            self.sandbox,
            *options,
            "--",
            *argv,
        ]


def config_text(settings: Mapping[str, Any]) -> str:
    """The text of a configuration file: a line per key, and one for each rule, so that every rule has a place."""
    lines = []
    for key, value in settings.items():
        if key == "rules":
            lines += ["rules:", *(f"- {json.dumps(rule)}" for rule in value)]
        else:
            lines.append(f"{key}: {json.dumps(value)}")
    return "\n".join([*lines, ""])


def read_log(path: Path) -> list[Record]:
    """The records of one file of the audit log, whose chain is checked."""
    records: list[Record] = []
    previous = "0" * 64
    for number, line in enumerate(path.read_bytes().splitlines()):
        record = json.loads(line)
        assert (record["v"], record["seq"], record["prev"]) == (1, number, previous), line
        previous = hashlib.sha256(line).hexdigest()
        records.append(record)
    # Checkpoints sign what stands before them, and say nothing that a run did.
    return [record for record in records if record["event"] != "checkpoint"]
