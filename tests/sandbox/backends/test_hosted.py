"""What a hosted backend may put in front of its keeper, and that all of it goes again; the rest is in test_none.py."""

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from sandbox.backends.base import Command, Inside
from sandbox.backends.hosted import (
    Front,
    Hosted,
    Hosting,
    Places,
    launch_hosted,
    temporary_file,
    temporary_folder,
)
from sandbox.backends.life import Life
from sandbox.events import Exit, Stderr, Stdout, Violation
from sandbox.spec import SandboxBindMount, SandboxSpec

VARIABLES = {"PATH": "/usr/bin:/bin"}


def inside(spec: SandboxSpec, places: Places) -> Inside:
    return Inside("/", "/usr/bin:/bin", "/tmp", places.git_config, (), ("/",), {})


def launch(folder: Path, hosting: Hosting) -> Hosted:
    binds = (SandboxBindMount(str(folder), str(folder)),)
    spec = SandboxSpec("s", "w", "a", binds, git_config="[user]\n\tname = x\n")
    return launch_hosted(spec, Life("s", "hosted"), hosting)


def test_program_in_front_becomes_the_keeper(tmp_path: Path) -> None:
    """It knows the ports and the files before anything runs, and everything below it is wrapped by it."""
    seen: list[Places] = []

    def front(spec: SandboxSpec, places: Places, undo: ExitStack) -> Front:
        seen.append(places)
        profile = temporary_file(f"port {places.endpoints.http_port}", ".profile", undo)
        limited = ("/bin/sh", "-c", 'ulimit -n 123; exec "$@"', "sh")
        return Front(limited, (profile, temporary_folder(".room", undo)))

    running = launch(tmp_path, Hosting(inside, wrapped=True, front=front))
    (places,) = seen
    files = [path for path in running._temporary if path]
    try:
        assert (running.endpoints, running.inside.git_config) == (places.endpoints, places.git_config)
        assert len(files) == 3 and all(os.path.lexists(path) for path in files)
        assert os.stat(files[1]).st_mode & 0o777 == 0o600
        assert os.stat(files[2]).st_mode & 0o777 == 0o700
        assert Path(files[1]).read_text() == f"port {places.endpoints.http_port}"
        script = "ulimit -n; echo 'x: Permission denied' >&2"
        events = list(running.exec(Command(("sh", "-c", script), VARIABLES)))
        assert Stdout(b"123\n") in events
        assert Stderr(b"x: Permission denied\n") in events
        assert [event.violation.target for event in events if isinstance(event, Violation)] == ["x"]
        assert events[-1] == Exit(0)
    finally:
        running.destroy()
    assert not any(os.path.lexists(path) for path in files)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("/no/such/program",), "cannot start /no/such/program"),
        (("/bin/false",), "did not start: no message"),
        (("/bin/sh", "-c", "echo profile is wrong >&2; exit 65"), "did not start: profile is wrong"),
    ],
)
def test_front_that_fails(tmp_path: Path, argv: tuple[str, ...], said: str) -> None:
    """The launch fails with what it said, and nothing is left."""
    before, files = sorted(os.listdir("/dev/fd")), []

    def front(spec: SandboxSpec, places: Places, undo: ExitStack) -> Front:
        files.extend([places.git_config, temporary_file("text", ".profile", undo)])
        return Front(argv, tuple(files[1:]))

    with pytest.raises(GatewayError, match=said):
        launch(tmp_path, Hosting(inside, wrapped=True, front=front))
    assert sorted(os.listdir("/dev/fd")) == before
    assert not any(os.path.lexists(path) for path in files)


def test_front_that_cannot_be_made(tmp_path: Path) -> None:
    before = sorted(os.listdir("/dev/fd"))

    def front(spec: SandboxSpec, places: Places, undo: ExitStack) -> Front:
        raise GatewayError("no profile")

    with pytest.raises(GatewayError, match="no profile"):
        launch(tmp_path, Hosting(inside, wrapped=True, front=front))
    assert sorted(os.listdir("/dev/fd")) == before
