"""Where the benchmark's pushes happen: the forge, the gateway as a user starts it, and somebody who pushes on either
side of it. Starts and stops them; it measures nothing.
"""

import base64
import json
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench import push_place
from tests.bench.measures import SETTLE_SECONDS, MeasurementFailed
from tests.bench.memory import forget_highest, highest_resident, pause, resident
from tests.bench.processes import running
from tests.bench.push_place import Commits, Remembered
from tests.bench.subjects import gateway_program, own_environment
from tests.bench.toolchain import FOLDER, ROOT

ANSWER_SECONDS = 300
"""For one push; it takes seconds."""

WIDGET, MANY = "acme/widget", "acme/many"
FORGE = "forge.test"

CONFIG = """\
egress:
  hosts: {{{forge}: 127.0.0.1}}
  addresses: ["127.0.0.1:{port}"]
github:
  url: http://{forge}:{port}
  api_url: {api_url}
  app_id: {app_id}
  private_key_file: {key}
rules:
  - {{action: push, decision: deny, refs: [main]}}
  - {{action: push, decision: allow, refs: ["agent/**"]}}
  - {{action: push, decision: allow, refs: ["proven/**"]}}
  - {{action: push, decision: deny, force: true, refs: ["proven/**"]}}
audit: {{directory: {audit}}}
"""


class Worker:
    """A child that answers a line of JSON with a line of JSON."""

    def __init__(self, child: subprocess.Popen[str], name: str) -> None:
        self._child = child
        self._name = name

    def __call__(self, **work: object) -> Mapping[str, Any]:
        """Its answer. `MeasurementFailed` when there is none in time."""
        child = self._child
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(json.dumps(work) + "\n")
        child.stdin.flush()
        ready, _, _ = select.select([child.stdout], [], [], ANSWER_SECONDS)
        line = child.stdout.readline() if ready else ""
        if not line:
            raise MeasurementFailed(f"{self._name} did not answer")
        answer: Mapping[str, Any] = json.loads(line)
        return answer


class Rise:
    """How far a process's memory goes above what it was at the beginning. Changes; Linux, elsewhere it is 0."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.idle = resident(pid) if sys.platform == "linux" else 0

    def begin(self) -> None:
        """From now on."""
        if sys.platform == "linux":
            forget_highest(self._pid)

    def highest(self) -> int:
        """Bytes of resident memory, since `begin`."""
        return highest_resident(self._pid) - self.idle if sys.platform == "linux" else 0


@dataclass(frozen=True, slots=True)
class Site:
    """What the pushes go through and to. `inside` works in the gateway's wrap, `outside` beside it; `token` may push
    to the forge at `url` without the gateway, whose memory `rise` watches."""

    forge: Worker
    inside: Worker
    outside: Worker
    rise: Rise
    url: str
    port: int
    token: str
    widget: Remembered
    many: Path
    worktree: Path
    commits: Commits

    @property
    def authorization(self) -> str:
        """The value of the header for whoever uses no gateway."""
        return "Basic " + base64.b64encode(f"x-access-token:{self.token}".encode()).decode()


@contextmanager
def open_site(folder: Path) -> Iterator[Site]:
    """Forge, gateway and a worktree, until it is left. The forge is in memory where there is room."""
    with ExitStack() as stack:
        fast = push_place.fast_folder()
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="agw-bench-", dir=fast)))
        argv = (sys.executable, "-m", "tests.bench.push_forge", str(root), WIDGET, MANY)
        forge, line = stack.enter_context(running(argv, "forge", folder, cwd=ROOT))
        facts = json.loads(line)
        widget, many = (Path(facts["folders"][name]) for name in (WIDGET, MANY))
        worktree = folder / "pushing"
        remotes = {"origin": f"https://github.com/{WIDGET}.git", "many": f"https://github.com/{MANY}.git"}
        commits = push_place.lay_out_worktree(worktree, widget, remotes)
        push_place.lay_out_refs(many)
        agent = (sys.executable, "-I", "-c", (FOLDER / "push_agent.py").read_text())
        outside, _ = stack.enter_context(running(agent, "outside", folder, cwd=worktree))
        inside, _ = stack.enter_context(_gateway_around(agent, folder, worktree, facts))
        pause(SETTLE_SECONDS)
        yield Site(
            forge=Worker(forge, "the forge"),
            inside=Worker(inside, "whoever pushes through the gateway"),
            outside=Worker(outside, "whoever pushes without a gateway"),
            rise=Rise(inside.pid),
            url=facts["url"],
            port=facts["port"],
            token=facts["token"],
            widget=Remembered(widget),
            many=many,
            worktree=worktree,
            commits=commits,
        )


@contextmanager
def _gateway_around(
    agent: tuple[str, ...], folder: Path, worktree: Path, facts: Mapping[str, Any]
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The product as a user starts it, with whatever wrap this machine has, around the agent."""
    key, config = folder / "app.pem", folder / "pushes.yaml"
    key.touch(mode=0o600)
    key.write_text(facts["key"])
    config.write_text(
        CONFIG.format(
            forge=FORGE,
            port=facts["port"],
            api_url=facts["api_url"].replace("127.0.0.1", FORGE),
            app_id=facts["app_id"],
            key=key,
            audit=folder / "audit",
        )
    )
    argv = (gateway_program(), "run", "--quiet", "--config", str(config), "--", *agent)
    with running(argv, "gateway-pushes", folder, own_environment(folder), worktree) as started:
        yield started
