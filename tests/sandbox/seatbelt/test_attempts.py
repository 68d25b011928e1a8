"""Attempts from inside, one by one. On a Mac each is made in the real sandbox; anywhere else the evaluator is asked
what the profile says of the operation that the attempt comes down to."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import pytest

from sandbox.backends.base import Command, Running
from sandbox.backends.seatbelt import Seatbelt
from sandbox.events import Exit
from sandbox.seatbelt.plan import NO_TAG, plan_seatbelt
from sandbox.spec import SandboxBindMount, SandboxSpec
from tests.sandbox.seatbelt.evaluator import Profile, Request
from tests.sandbox.wrapping import Place, place_of

# sysctl(3) of KERN_PROCARGS2: the arguments and the environment of a process.
ENVIRONMENT_OF = (
    """/usr/bin/perl -e 'my ($size, $found) = (pack("Q", 65536), "\\0" x 65536);"""
    """ exit(syscall(202, pack("iii", 1, 49, $ENV{L}), 3, $found, $size, 0, 0) != 0)'"""
)
# What the shell of each attempt finds: W the worktree, U the user's home, H the home inside, S the state, P the port of
# a service of the host, L the process of the launcher, T another terminal.
ATTEMPTS = (
    ("read a file of the host", "cat $U/notes.txt", "file-read-data", "U/notes.txt", True),
    ("read a key", "cat $U/.ssh/id_ed25519", "file-read-data", "U/.ssh/id_ed25519", False),
    ("read a key by another letter case", "cat $U/.SSH/id_ed25519", "file-read-data", "U/.SSH/id_ed25519", False),
    ("list the keys", "ls $U/.ssh", "file-read-data", "U/.ssh", False),
    ("link to a key", "ln $U/.ssh/id_ed25519 $W/key && cat $W/key", "file-link", "U/.ssh/id_ed25519", False),
    ("clone a key", "cp -c $U/.ssh/id_ed25519 $W/key && cat $W/key", "file-clone", "U/.ssh/id_ed25519", False),
    ("clone a file of the host to a denied name", "cp -c $W/src/a $W/.env", "file-clone", "W/.env", False),
    ("clone into the user's home", "cp -c $W/src/a $U/new", "file-clone", "U/new", False),
    ("a denied name with a letter that folds", "echo x > $W/x.\u212aey", "file-write-create", "W/x.\u212aey", False),
    ("read another terminal", ": <$T", "file-read-data", "T", False),
    ("write to another terminal", "echo x >$T", "file-write-data", "T", False),
    ("read another process's environment", ENVIRONMENT_OF, "sysctl-read kern.procargs2", "", False),
    ("ask how many processors there are", "test $(/usr/sbin/sysctl -n hw.ncpu) -gt 0", "sysctl-read hw.ncpu", "", True),
    ("read the product's state", "cat $S/audit/a.jsonl", "file-read-data", "S/audit/a.jsonl", False),
    ("write in the worktree", "echo x > $W/src/new", "file-write-create", "W/src/new", True),
    ("write in the home", "echo x > $H/new", "file-write-create", "H/new", True),
    ("write in the user's home", "echo x > $U/new", "file-write-create", "U/new", False),
    ("write in /tmp", "echo x > /tmp/agent-gateway-attempt", "file-write-create", "/tmp/agent-gateway-attempt", False),
    ("write a denied name", "echo x > $W/.env", "file-write-create", "W/.env", False),
    ("write it in another letter case", "echo x > $W/.ENV", "file-write-create", "W/.ENV", False),
    ("rename to a denied name", "mv $W/src/a $W/.env", "file-write-create", "W/.env", False),
    ("link to a denied name", "ln $W/src/a $W/x.pem", "file-write-create", "W/x.pem", False),
    ("symlink of a denied name", "ln -s src/a $W/x.key", "file-write-create", "W/x.key", False),
    ("a directory of a denied name", "mkdir $W/.vscode", "file-write-create", "W/.vscode", False),
    ("change a denied name that is there", "echo x > $W/old.pem", "file-write-data", "W/old.pem", False),
    ("remove one", "rm -f $W/old.pem", "file-write-unlink", "W/old.pem", False),
    ("an allowed name", "echo x > $W/.env.example", "file-write-create", "W/.env.example", True),
    ("a package's certificate", "echo x >$W/node_modules/c.pem", "file-write-create", "W/node_modules/c.pem", True),
    ("a hook", "echo x > $W/.git/hooks/pre-commit", "file-write-create", "W/.git/hooks/pre-commit", False),
    ("git's configuration", "echo x >> $W/.git/config", "file-write-data", "W/.git/config", False),
    ("git's index", "echo x > $W/.git/index", "file-write-create", "W/.git/index", True),
    ("the git directory away", "mv $W/.git $W/g", "file-write-unlink", "W/.git", False),
    ("what is above one away", "mv $W/vendor $W/v", "file-write-unlink", "W/vendor", False),
    ("settings by a renamed directory", "mkdir $W/c && mv $W/c $W/.claude", "file-write-create", "W/.claude", False),
    ("a new repository", "git init -q $W/r && git -C $W/r config a.b c", "file-write-create", "W/r/.git/config", True),
    ("git", "cd $W && git status -s && git log -1 2>&1 | grep -q commits", "process-exec", "/usr/bin/git", True),
    ("where it is", "cd $H && perl -MCwd -e 'exit(getcwd() ne $ENV{H})'", "file-read-metadata", "S/workspaces", True),
    ("a terminal of its own", "script -q /dev/null sh -c 'test -t 0 </dev/tty'", "file-read-data", "/dev/tty", True),
    ("execute the system's program", "/bin/ls / >/dev/null", "process-exec", "/bin/ls", True),
    ("execute what was written", "cp /bin/echo $W/e && $W/e", "process-exec", "W/e", False),
    ("execute a new script", "echo '#!/bin/sh' >$W/s && chmod +x $W/s && $W/s", "process-exec", "W/s", False),
    ("speak with other programs", "/usr/bin/osascript -e 1", "process-exec", "/usr/bin/osascript", False),
    ("speak with launchd", "/bin/launchctl list >/dev/null", "process-exec", "/bin/launchctl", False),
    ("stop the launcher", "kill -0 $L", "signal", "", False),
    ("stop a process of its own", "sleep 9 & kill $!", "signal self", "", True),
    ("another service of the host", "exec 3<>/dev/tcp/127.0.0.1/$P", "network-outbound tcp localhost:P", "", False),
    ("the session's own proxy", "exec 3<>/dev/tcp/127.0.0.1/$PROXY", "network-outbound tcp localhost:PROXY", "", True),
)  # fmt: skip


class Side(Protocol):
    """Who answers whether an attempt succeeds."""

    def succeeds(self, script: str, operation: str, path: str) -> bool:
        """The one looks at the script, the other at what it comes down to."""


@dataclass
class Paper:
    """The profile, read by the evaluator."""

    profile: Profile
    places: dict[str, str]

    def succeeds(self, script: str, operation: str, path: str) -> bool:
        name, *words = operation.split()
        first, _, rest = path.partition("/")
        place = f"{self.places[first]}/{rest}".rstrip("/") if first else path
        request = Request(name, place.encode() if path else b"")
        if name == "sysctl-read":
            request = Request(name, service=words[0].encode())
        elif name == "signal":
            request = Request(name, target="same-sandbox" if words else "others")
        elif words:
            host, _, port = words[1].partition(":")
            request = Request(name, remote=f"tcp {host}:{self.places[port]}")
        return self.profile.allows(request)


@dataclass
class Kernel:
    """The real thing."""

    backend: Seatbelt
    running: Running
    places: dict[str, str]

    def succeeds(self, script: str, operation: str, path: str) -> bool:
        environment = {**self.places, "PATH": self.running.inside.path, "HOME": self.running.inside.home}
        command = Command(("/bin/bash", "-c", script), environment)
        return list(self.backend.exec(self.running, command))[-1] == Exit(0)


def furnish(place: Place) -> SandboxSpec:
    """Everything that the attempts are made on."""
    work = place.worktree
    for repository in (work, work / "vendor/lib"):
        subprocess.run(("git", "init", "-q", str(repository)), check=True)
        (repository / ".git/hooks").mkdir(exist_ok=True)
    for path in (work / "src/a", work / "old.pem", place.home / "notes.txt", place.state / "audit/a.jsonl"):
        place.write(path, "text")
    (work / "node_modules").mkdir()
    bind = SandboxBindMount(str(work), str(work))
    return SandboxSpec(
        "session", "default", "", (bind,), home=str(place.state / "workspaces/default/home"),
        state_dir=str(place.state), user_home=str(place.home), search_path="/usr/bin:/bin",
    )  # fmt: skip


@contextmanager
def other_terminal() -> Iterator[str]:
    """A terminal that the wrap has nothing to do with. Elsewhere it is only spoken of."""
    ours, theirs = os.openpty()
    try:
        yield os.ttyname(theirs) if sys.platform == "darwin" else "/dev/ttys012"
    finally:
        os.close(ours)
        os.close(theirs)


@contextmanager
def on_paper(spec: SandboxSpec, places: dict[str, str]) -> Iterator[Side]:
    layout = plan_seatbelt(spec, os.path.join(spec.state_dir, "run/wrap-1"))
    yield Paper(Profile(layout.profile((int(places["PROXY"]),), NO_TAG)), {**places, "H": layout.home})


@contextmanager
def in_the_kernel(spec: SandboxSpec, places: dict[str, str]) -> Iterator[Side]:
    # Who asks must be able to: otherwise it proves nothing that nobody can inside.
    subprocess.run(("/bin/bash", "-c", ENVIRONMENT_OF), env={"L": places["L"]}, check=True)
    backend = Seatbelt()
    running = backend.launch(spec)
    try:
        proxy = str(running.endpoints.http_port)
        yield Kernel(backend, running, {**places, "H": running.inside.home, "PROXY": proxy})
    finally:
        backend.destroy(running)


SIDE = in_the_kernel if sys.platform == "darwin" else on_paper


@pytest.fixture(scope="module")
def side() -> Iterator[Side]:
    with place_of("root") as place, socket.create_server(("127.0.0.1", 0)) as service:
        places = {
            "W": str(place.worktree), "U": str(place.home), "S": str(place.state), "L": str(os.getpid()),
            "P": str(service.getsockname()[1]), "PROXY": "3128",
        }  # fmt: skip
        with other_terminal() as terminal, SIDE(furnish(place), {**places, "T": terminal}) as made:
            yield made


@pytest.mark.parametrize(
    ("what", "script", "operation", "path", "allowed"), ATTEMPTS, ids=[row[0] for row in ATTEMPTS]
)
def test_attempts(side: Side, what: str, script: str, operation: str, path: str, allowed: bool) -> None:
    assert side.succeeds(script, operation, path) is allowed, what


# Leaves its parents for good, twice, and holds a named pipe.
DAEMON = """/usr/bin/perl -MPOSIX -e 'fork and exit; POSIX::setsid(); fork and exit;
open(my $held, ">", "$ENV{W}/held") or exit 1; syswrite($held, "x"); sleep 1000' <>/dev/null >&0 2>&0"""


if sys.platform == "darwin":

    def test_daemons_end_with_the_wrap() -> None:
        with place_of("root") as place:
            spec = furnish(place)
            os.mkfifo(place.worktree / "held")
            places = {"W": str(place.worktree), "L": str(os.getpid()), "PROXY": ""}
            with in_the_kernel(spec, places) as kernel:
                assert kernel.succeeds(DAEMON, "", "")
                held = (place.worktree / "held").open("rb", buffering=0)
                assert held.read(1) == b"x"
            with held:
                assert held.read(1) == b""
