"""The product with a forge for its GitHub: a worktree whose remote names GitHub, an App and its key, rules for pushes.

Inside, the forge stands under a name that the configuration maps, as in the product's own demo. What runs there is a
shell with real git; GitHub's real names lead nowhere.
"""

import json
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.forge.app import App
from gateway.forge.server import Forge
from tests.fakes.forge import Git, open_forge
from tests.fakes.product import PATIENCE, PROGRAM, SYSTEM_PATH, Done, Product, Record, Running

FORGE = "forge.test"
NAME = "acme/widget"
ADDRESS = f"https://github.com/{NAME}.git"
LABEL = "Control Center"

# Nobody pushes to the main branch; agents have their own branches, and tags; releases and all the rest are asked about.
RULES: tuple[Mapping[str, Any], ...] = (
    {"action": "push", "decision": "deny", "refs": ["main"]},
    {"action": "push", "decision": "allow", "refs": ["agent/**", "refs/tags/v*"]},
    {"action": "push", "decision": "ask", "refs": ["release/*"], "note": "ask the release managers"},
)
# What git shows of a refusal of main, and of a ref that is kept back by another one's.
ALLOWED = "allowed here: agent/**, refs/tags/v*"
DENIED = f"{LABEL} policy: Push to remote is denied for main by config.yaml:2; {ALLOWED}"
INNOCENT = f"{LABEL} policy: not pushed because another ref in this push was refused"

_GITHUB = ("github.com", "www.github.com", "ssh.github.com")
_IDENTITY = {
    "GIT_AUTHOR_NAME": "A. Gent",
    "GIT_AUTHOR_EMAIL": "agent@forge.test",
    "GIT_COMMITTER_NAME": "A. Gent",
    "GIT_COMMITTER_EMAIL": "agent@forge.test",
}
# Stands alone on a line of a script's output, with the status of the command before it.
_MARK = "-----status"
_ENDED = re.compile(rf"{_MARK} (\d+)\n")
# Of a record of a push: ref, kind, verdict, status.
Outcome = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a script: its exit status, and what it said, on whichever stream."""

    status: int
    said: str

    @property
    def lines(self) -> list[str]:
        return self.said.splitlines()


@dataclass(frozen=True, slots=True)
class Ran:
    """A script that is over, and the run it was in."""

    steps: tuple[Step, ...]
    done: Done

    def __getitem__(self, number: int) -> Step:
        return self.steps[number]


@dataclass
class PushMachine:
    """Use through `push_machine` or `at_work`. Changes as a test sets it up."""

    product: Product
    forge: Forge
    key: Path = field(init=False)

    def __post_init__(self) -> None:
        folder = self.product.folder
        self.key = folder / "app.pem"
        number, pem = self.forge.create_app()
        self.key.touch(mode=0o600)
        self.key.write_text(pem)
        self.tmp.mkdir()
        self.product.environment |= {"TMPDIR": str(self.tmp), "GIT_CONFIG_NOSYSTEM": "1", **_IDENTITY}
        self.product.reach(FORGE, self.forge.port)
        self.product.egress["allow"].clear()  # the forge is allowed for being the forge
        self.product.hosts |= dict.fromkeys(_GITHUB, "127.0.0.1")
        self.product.settings |= {
            "rules": list(RULES),
            "github": {
                "url": self.url,
                "api_url": self.forge.api_url.replace("127.0.0.1", FORGE),
                "app_id": number,
                "private_key_file": str(self.key),
            },
        }

    @property
    def url(self) -> str:
        """The forge, as it is called inside."""
        return f"http://{FORGE}:{self.forge.port}"

    @property
    def tmp(self) -> Path:
        """Where temporary files of the product go."""
        return self.product.folder / "tmp"

    # --- Setting up ---

    def create(self, name: str = NAME, **options: Any) -> str:
        """A repository at the forge with one commit on main; its id."""
        bare = self.forge.create_repository(name, **options)
        folder = self.product.folder / "seed" / name
        folder.mkdir(parents=True)
        git = Git(folder)
        git("init", "-q", f"--object-format={options.get('object_format', 'sha1')}")
        commit = git.commit("README", f"{name}\n".encode())
        git("push", "-q", str(bare), "main")
        return commit

    def git(self, *arguments: str) -> str:
        """Git in the worktree, outside the product."""
        command = ("git", "-C", str(self.product.work), *arguments)
        environment = self.product.environment
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def start_from(self, name: str = NAME, branch: str = "agent/work") -> None:
        """The worktree gets the repository's main, and a branch with a commit more."""
        self.git("fetch", "-q", str(self.bare(name)), "main")
        self.git("switch", "-q", "-c", branch, "FETCH_HEAD")
        self.git("commit", "-q", "--allow-empty", "-m", "What the agent did")

    # --- Running ---

    def run(self, *commands: str, options: Sequence[str] = ()) -> Ran:
        """Runs commands one after another in one shell inside; a failure of one is no end."""
        script = "".join(f"{command}\nprintf '\\n{_MARK} %s\\n' $?\n" for command in commands)
        done = self.product.run("sh", "-uc", f"exec 2>&1\n{script}", options=options)
        assert done.status == 0, done
        *found, rest = _ENDED.split(done.stdout)
        assert not rest, done.stdout
        steps = tuple(
            Step(int(status), said.removesuffix("\n"))
            for said, status in zip(found[::2], found[1::2], strict=True)
        )
        return Ran(steps, done)

    def start(self, script: str, *, options: Sequence[str] = ()) -> Running:
        """Starts a script inside; what it says first is "ready"."""
        running = self.product.start("sh", "-uc", f"echo ready\n{script}", options=options)
        assert running.hear() == "ready"
        return running

    def check(self, *arguments: str) -> tuple[int, Mapping[str, Any]]:
        """Exit status and answer of `agent-gateway check push` with the configuration of the last run."""
        config = str(self.product.folder / "config.yaml")
        done = subprocess.run(
            (str(PROGRAM), "check", "push", "--config", config, "--json", *arguments),
            env={**self.product.environment, "PATH": SYSTEM_PATH},
            cwd=self.product.work,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        answer = json.loads(done.stdout)
        assert isinstance(answer, dict), done
        return done.returncode, answer

    # --- Looking ---

    def until(self, condition: Callable[[], bool]) -> None:
        """Waits for what happens in other processes."""
        given_up, pause = time.monotonic() + PATIENCE, threading.Event()
        while not condition():
            assert time.monotonic() < given_up, "it did not come about"
            pause.wait(0.01)

    def asked(self, method: str, end: str) -> bool:
        """Did the forge get such a request?"""
        return any(seen.method == method and seen.path.endswith(end) for seen in self.forge.requests)

    def has(self, branch: str) -> bool:
        """Does the forge have this branch of the repository, pushed lately?"""
        return (self.bare() / "refs/heads" / branch).exists()

    def bare(self, name: str = NAME) -> Path:
        """The repository as the forge has it."""
        repository = self.forge.repositories.find(name)
        assert repository is not None
        return repository.path

    def refs(self, name: str = NAME) -> dict[str, str]:
        """The refs at the forge, by short name."""
        lines = Git(self.bare(name))("for-each-ref", "--format=%(refname:short) %(objectname)").splitlines()
        return {ref: commit for ref, _, commit in (line.partition(" ") for line in lines)}

    def token_values(self, kind: str = "") -> list[str]:
        """The texts of the tokens that were minted, of that kind if one is named."""
        return [token.value for token in self.forge.tokens.minted if kind in ("", token.kind.value)]

    def settled(self, done: Done, *, read: int = 1, write: int = 0, stuck: bool = False) -> None:
        """Exactly so many tokens of each kind were minted and revoked, that is what the log says, and nothing is left
        of the session: no token, no temporary file, no text of a token in anything that was written. `stuck`: the
        forge was told not to read on, so it does not notice that anybody has gone."""
        assert stuck or self.forge.wait_until_idle()
        assert not self.forge.tokens.live, "a token outlived its session"
        expected = Counter({"read": read, "write": write})
        minted = Counter(token.kind.value for token in self.forge.tokens.minted)
        assert minted == expected, minted
        for state in ("minted", "revoked"):
            found = Counter(str(one["kind"]) for one in records(done, "token") if one["state"] == state)
            assert found == expected, (state, found)
        assert list(self.tmp.iterdir()) == []
        assert self.spilt() == []

    def spilt(self) -> list[str]:
        """The files of the machine, the log among them, that hold the text of a token."""
        values = [value.encode() for value in self.token_values()]
        files = (path for path in self.product.folder.rglob("*") if path.is_file())
        return [str(path) for path in files if any(value in path.read_bytes() for value in values)]


@contextmanager
def push_machine(product: Product, folder: Path, app: App | None = None) -> Iterator[PushMachine]:
    """The product with a forge that has no repository yet."""
    with open_forge(folder, app) as forge:
        yield PushMachine(product, forge)


@contextmanager
def at_work(product: Product, folder: Path, url: str = ADDRESS) -> Iterator[PushMachine]:
    """The same, with a repository that the worktree was made from: one commit ahead of main, on agent/work."""
    with push_machine(product, folder) as machine:
        machine.create()
        machine.git("remote", "add", "origin", url)
        machine.git("config", "core.compression", "0")  # of random bytes nothing is gained but time
        machine.start_from()
        yield machine


def records(done: Done, event: str) -> list[Record]:
    """The records of one kind."""
    return [one for one in done.records if one["event"] == event]


def outcomes(done: Done) -> list[list[Outcome]]:
    """What the log says of each push that named refs, these in alphabetical order."""
    return [
        sorted((ref["ref"], ref["kind"], ref["verdict"], ref["status"]) for ref in one["refs"])
        for one in records(done, "push")
        if one["refs"]
    ]


def codes(done: Done) -> list[str]:
    """Why the pushes that named no refs were turned away."""
    return [str(one["code"]) for one in records(done, "push") if not one["refs"]]


def rejected(step: Step, *lines: str) -> None:
    """git says no in its own words, with these lines, and says nothing that a fault would make it say."""
    assert step.status == 1, step.said
    said = [line for line in step.lines if line.startswith((" ! ", "!\t"))]
    assert sorted(said) == sorted(lines), step.said
    for word in ("Everything up-to-date", "RPC failed", "curl ", "unexpected disconnect", "fatal:"):
        assert word not in step.said, step.said
