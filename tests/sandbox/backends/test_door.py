"""File rules at creation time in a whole wrap: launched by the backend, as it is for `run` and for a Python caller."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from gateway.session import FileRules, Profile
from sandbox.backends.door import Door, door_rules, open_door
from sandbox.backends.life import Life
from sandbox.governed import Governed
from sandbox.handover import open_channel
from sandbox.spec import SandboxSpec
from tests.sandbox.wrapping import PATIENCE, PEOPLE, Place, place_of

GOVERNED = Governed(
    ("/srv/w",), ("/dev",), ("/tmp",), ("/srv/w/.git/hooks",), ("/srv/w/.git/config",), ("*/x.key",)
)
CREATE_TIME = {"file_rules": "create-time"}


@pytest.fixture(params=PEOPLE)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with place_of(request.param) as found:
        yield found


def spec(**fields: object) -> SandboxSpec:
    return SandboxSpec("s", "w", "", (), **fields)  # type: ignore[arg-type]  # a test's own fields


def test_rules_are_the_plans_and_the_configurations() -> None:
    rules = door_rules(spec(deny_write=("*.x",), allow_write=("a.key",)), GOVERNED, "0" * 16, ("/run/s",))
    assert (rules.writable, rules.private, rules.own) == (("/srv/w",), ("/dev",), ("/tmp",))
    assert (rules.sealed, rules.git_configs) == (("/srv/w/.git/hooks",), ("/srv/w/.git/config",))
    assert (rules.deny_write, rules.allow_write, rules.sockets) == (
        ("*.x",),
        ("a.key", "*/x.key"),
        ("/run/s",),
    )


@pytest.mark.parametrize(
    ("rules", "profile"),
    [(FileRules.EXISTING_ONLY, Profile.AGENT), (FileRules.CREATE_TIME, Profile.TERMINAL)],
)
def test_no_door_where_none_was_asked_for(rules: FileRules, profile: Profile) -> None:
    with ExitStack() as undo:
        assert open_door(spec(file_rules=rules, profile=profile), Life("s", "native"), undo) is None


def test_wrap_that_says_what_was_not_tried_is_refused() -> None:
    """A stub that claims to stand, and a supervisor that was asked for nothing."""
    ours, theirs = open_channel()
    opened = Door(Life("s", "native"))
    try:
        opened.spawn(("/bin/true",), (), spec(), GOVERNED)
        theirs.sendall(b"C\0\4")
        with pytest.raises(GatewayError, match="was not asked for what was tried") as refused:
            opened.prove(ours)
        assert "existing-only" in refused.value.hint and "--sandbox off" in refused.value.hint
    finally:
        opened.close()
        os.close(opened.complaint)
        ours.close()
        theirs.close()


def test_names_are_denied_when_they_are_created(place: Place) -> None:
    place.write(place.worktree / ".env", "secret")
    done = place.sh(
        "echo a > a; cat a; echo x > .env; echo x > new.key; mv a b.pem; mkdir .vscode; ln -s a .envrc;"
        " ls -A; cat .env",
        **CREATE_TIME,
    )
    assert done.stderr.count("ermission denied") == 4
    assert done.stdout.split() == ["a", ".env", ".envrc", "a", "secret"]
    assert sorted(path.name for path in place.worktree.iterdir()) == [".env", ".envrc", "a"]


def test_repository(place: Place) -> None:
    subprocess.run(
        ("git", "init", "-q", "-b", "main", str(place.worktree)), check=True, env={"PATH": "/usr/bin:/bin"}
    )
    done = place.sh(
        "git config user.name A; echo x > f; git add f;"
        " git -c user.name=A -c user.email=a@example.test commit -q -m first"
        " && git checkout -q -b t --track && git log --oneline | wc -l;"
        " echo x > .git/hooks/pre-commit; mv .git g; git clone -q . copy"
        " && git -C copy config user.name B && ls -d .git copy/.git/hooks",
        **CREATE_TIME,
    )
    assert done.stdout.split() == ["1", ".git", "copy/.git/hooks"]
    assert "user.name" not in (place.worktree / ".git/config").read_text()
    assert not (place.worktree / ".git/hooks/pre-commit").exists()


def test_review_mode_has_a_door_too(place: Place) -> None:
    done = place.sh(
        "echo x > a; echo x > $HOME/b && echo x > $HOME/b.key; ls $HOME", mode="review", **CREATE_TIME
    )
    assert done.stdout.split() == ["b"], done.stderr
    assert list(place.worktree.iterdir()) == []


def test_bridge(place: Place) -> None:
    script = "import socket; print(socket.create_connection(('127.0.0.1', 3128)).recv(9).decode())"
    done = place.sh(f'python3 -c "{script}"; echo x > .env', bridge="socat", **CREATE_TIME)
    assert done.stdout.split() == ["http"], done.stderr
    assert "ermission denied" in done.stderr


def test_nothing_stays_when_the_launcher_is_killed(place: Place) -> None:
    import select

    started = place.popen("/bin/sh", "-c", "echo runs; sleep 1000", **CREATE_TIME)
    assert started.stdout is not None and started.stdout.readline() == "runs\n"

    def below(pid: int) -> list[int]:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
        return [one for child in children for one in (child, *below(child))]

    ends = [os.pidfd_open(pid) for pid in below(started.pid)]
    assert len(ends) >= 4
    started.kill()
    started.communicate(timeout=PATIENCE)
    for end in ends:
        assert select.select([end], [], [], PATIENCE)[0], "a process stays"
        os.close(end)


def test_nothing_appears_in_the_worktree(place: Place) -> None:
    """Not even for the moment of the canary: the kernel would have told."""
    with tempfile.TemporaryFile("w+") as log:
        watcher = subprocess.Popen(
            ("python3", "-c", WATCH, str(place.worktree)),
            stdout=log,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert watcher.stderr is not None and watcher.stderr.readline() == "watching\n"
        assert place.run("/bin/true", **CREATE_TIME).returncode == 0
        watcher.communicate("", timeout=PATIENCE)
        log.seek(0)
        assert log.read() == ""


WATCH = """
import ctypes, os, select, struct, sys
libc = ctypes.CDLL(None)
watch = libc.inotify_init1(os.O_NONBLOCK)
libc.inotify_add_watch(watch, sys.argv[1].encode(), 0x100 | 0x200 | 0x40 | 0x80 | 0x2)
print("watching", file=sys.stderr, flush=True)
sys.stdin.read()
try:
    print(os.read(watch, 4096))
except BlockingIOError:
    pass
"""
