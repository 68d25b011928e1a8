"""The second half of `agent-gateway demo`: real git behind the gateway, against the embedded forge.

One push is forwarded and one is refused. What git said is shown as it stands, and compared with what the forge then
has, which tokens were minted and what the audit log says.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gateway.errors import GatewayError
from gateway.policy.wording import printable_lines

# Seconds for the whole run; it takes about three.
_PATIENCE: Final = 120
_REPOSITORY: Final = "acme/widget"
_FORGE: Final = "forge.test"
_IDENTITY: Final = {
    "GIT_AUTHOR_NAME": "A. Gent",
    "GIT_AUTHOR_EMAIL": "agent@forge.test",
    "GIT_COMMITTER_NAME": "A. Gent",
    "GIT_COMMITTER_EMAIL": "agent@forge.test",
}
# What the agent does, a command a line; each is shown, with what git answers.
_COMMANDS: Final = (
    ("git", "fetch", "--quiet", "origin"),
    ("git", "switch", "--quiet", "--no-track", "-c", "agent/demo", "origin/main"),
    ("git", "commit", "--quiet", "--allow-empty", "-m", "What the agent did"),
    ("git", "push", "origin", "agent/demo"),
    ("git", "push", "origin", "agent/demo:main"),
)
# Of these the last alone must fail.
_STATUSES: Final = (0, 0, 0, 0, 1)
_DENIED: Final = "! [remote rejected] agent/demo -> main (Control Center policy:"
# Runs the commands as they are, without a shell, and says how each ended.
_AGENT: Final = """\
import json, subprocess, sys
for command in json.loads(sys.argv[1]):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(json.dumps([done.returncode, done.stdout]), flush=True)
"""

_Record = Mapping[str, Any]
_ReadLog = Callable[[Path], Sequence[_Record]]


@dataclass(frozen=True, slots=True)
class _Facts:
    """What came of it: status and output of each command, the log, the forge's branches, tokens minted and left."""

    results: tuple[tuple[int, str], ...]
    records: Sequence[_Record]
    branches: Mapping[str, str]
    minted: int
    left: int


def push_demo(environ: Mapping[str, str], read_log: _ReadLog) -> tuple[list[str], bool]:
    """Runs it; the lines to print, and whether everything was as it must be, as far as there is a git to run it with.
    `read_log` takes the demo's folder."""
    if shutil.which("git", path=environ.get("PATH")) is None:
        return [
            "The second half, pushes, needs git, which is not here: install it and run the demo again."
        ], True
    with tempfile.TemporaryDirectory(prefix="agent-gateway-demo-") as folder:
        try:
            facts = _play(Path(folder).resolve(), environ, read_log)
        except GatewayError as error:
            return [printable_lines(f"The second half failed: {error}")], False
    wrong = _faults(facts)
    return [*_told(facts), *(f"But: {fault}." for fault in wrong)], not wrong


def _play(place: Path, environ: Mapping[str, str], read_log: _ReadLog) -> _Facts:
    from gateway.forge.server import Forge
    from gateway.forge.threaded import serving

    (place / "forge").mkdir()
    with serving(Forge(place / "forge")) as forge:
        app_id, key = forge.create_app()
        bare = forge.create_repository(_REPOSITORY)
        _lay_out(place, environ, bare)
        _write_config(place, forge.port, forge.api_url, app_id, key)
        results = _run(place, environ)
        forge.wait_until_idle()
        listing = _git(place, environ, bare, "for-each-ref", "--format=%(objectname) %(refname:short)")
        branches = {name: commit for commit, _, name in (line.partition(" ") for line in listing)}
        tokens = forge.tokens
        return _Facts(results, read_log(place), branches, len(tokens.minted), len(tokens.live))


def _lay_out(place: Path, environ: Mapping[str, str], bare: Path) -> None:
    """A home, a worktree with a remote at GitHub, and one commit on the forge's main."""
    for name in ("home", "worktree"):
        (place / name).mkdir()
    tree = place / "worktree"
    for arguments in (
        ("init", "--quiet", "--initial-branch=main"),
        ("commit", "--quiet", "--allow-empty", "-m", "The beginning"),
        ("push", "--quiet", str(bare), "main"),
        ("remote", "add", "origin", f"https://github.com/{_REPOSITORY}.git"),
    ):
        _git(place, environ, tree, *arguments)


def _write_config(place: Path, port: int, api_url: str, app_id: int, key: str) -> None:
    (place / "app.pem").touch(mode=0o600)
    (place / "app.pem").write_text(key)
    api_url = api_url.replace("127.0.0.1", _FORGE)
    (place / "config.yaml").write_text(
        "egress:\n"
        f"  hosts: {{{_FORGE}: 127.0.0.1}}\n"
        f'  addresses: ["127.0.0.1:{port}"]\n'
        "github:\n"
        f"  url: http://{_FORGE}:{port}\n"
        f"  api_url: {api_url}\n"
        f"  app_id: {app_id}\n"
        f"  private_key_file: {place / 'app.pem'}\n"
        "rules:\n"
        "  - {action: push, decision: deny, refs: [main]}\n"
        '  - {action: push, decision: allow, refs: ["agent/**"]}\n'
    )


def _run(place: Path, environ: Mapping[str, str]) -> tuple[tuple[int, str], ...]:
    """Runs the agent. GatewayError when it is cut short."""
    product = (sys.executable, "-P", "-m", "gateway", "run", "--config", str(place / "config.yaml"))
    command = (*product, "--agent", "demo", "--", sys.executable, "-I", "-c", _AGENT, json.dumps(_COMMANDS))
    try:
        done = subprocess.run(
            command,
            cwd=place / "worktree",
            env=_environment(place, environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise GatewayError(f"the run did not end within {_PATIENCE} seconds") from None
    results = tuple((status, text) for status, text in map(json.loads, done.stdout.splitlines()))
    if done.returncode or len(results) != len(_COMMANDS):
        raise GatewayError(
            f"the run ended with {done.returncode} after {len(results)} commands:\n{done.stderr.rstrip()}"
        )
    return results


def _git(place: Path, environ: Mapping[str, str], folder: Path, *arguments: str) -> list[str]:
    """What git says, outside the gateway. GatewayError when it fails."""
    done = subprocess.run(
        ("git", "-C", str(folder), *arguments),
        env=_environment(place, environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise GatewayError(f"git {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout.splitlines()


def _environment(place: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The caller's, without what would lead the demo to another configuration or another repository."""
    dropped = ("AGENT_GATEWAY_", "XDG_", "GIT_")
    kept = {name: value for name, value in environ.items() if not name.startswith(dropped)}
    own = {"HOME": str(place / "home"), "XDG_STATE_HOME": str(place / "state"), "GIT_CONFIG_NOSYSTEM": "1"}
    return kept | own | _IDENTITY


def _faults(facts: _Facts) -> list[str]:
    """What is not as it must be."""
    pushes = [record for record in facts.records if record["event"] == "push"]
    seen = [(one["refs"][0]["ref"], one["refs"][0]["verdict"], one["refs"][0]["status"]) for one in pushes]
    tokens = [record["state"] for record in facts.records if record["event"] == "token"]
    agent, main = facts.branches.get("agent/demo"), facts.branches.get("main")
    checks = (
        (tuple(status for status, _ in facts.results) == _STATUSES, "a command did not end as it must"),
        (_DENIED in facts.results[-1][1], "git did not show the refusal"),
        (agent is not None and agent != main, "the forge has not got the branch that was allowed"),
        (len(seen) == 2 and seen[0] == ("refs/heads/agent/demo", "allow", "ok"), "the log lacks the push"),
        (len(seen) == 2 and seen[1][:2] == ("refs/heads/main", "deny"), "the log lacks the refusal"),
        (facts.minted == 2 and facts.left == 0, "tokens are left, or others than two were minted"),
        (tokens.count("minted") == tokens.count("revoked") == 2, "the log lacks a token"),
    )
    return [fault for fine, fault in checks if not fine]


def _told(facts: _Facts) -> list[str]:
    """Every command with what git answered, and what the log has of the pushes."""
    lines = [
        "Then an agent worked on a repository. Its remote names GitHub; a forge on this machine stood in for it.",
        "The rules: pushes to main are denied, to agent/** allowed, everything else is asked about.",
    ]
    for command, (_, output) in zip(_COMMANDS, facts.results, strict=True):
        lines.append(f"  $ {' '.join(command)}")
        lines += [f"  {line}" for line in printable_lines(output).splitlines()]
    lines.append("Recorded of the two pushes, in part:")
    for record in facts.records:
        if record["event"] == "push":
            shown = {name: record[name] for name in ("repository", "refs", "bytes") if name in record}
            lines.append(f"  {json.dumps(shown)}")
    lines.append(
        f"{facts.minted} tokens were minted, one to read for the session and one to write for the push that was "
        f"allowed; {facts.left or 'none'} of them is left."
    )
    return lines
