"""Runs of git http-backend: both ways streamed, and nothing left of them."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from gateway.forge.activity import Activity
from gateway.forge.git_process import GitProcess, GitProcesses
from gateway.forge.repositories import Git, Repositories, find_git
from gateway.proxy.reactor import GatewayLoop

Loop = Callable[[], asyncio.AbstractEventLoop]
REFS = {
    "REQUEST_METHOD": "GET",
    "QUERY_STRING": "service=git-receive-pack",
    "PATH_INFO": "/1001.git/info/refs",
}
RECEIVE = {
    "REQUEST_METHOD": "POST",
    "PATH_INFO": "/1001.git/git-receive-pack",
    "CONTENT_TYPE": "application/x-git-receive-pack-request",
}


class Place:
    """A folder with one repository, or with a program that stands in for git."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "git.log"
        self.activity = Activity()

    def processes(self, git: Git | None = None) -> GitProcesses:
        return GitProcesses(git or find_git(self.folder), self.folder, self.log, self.activity)

    def program(self, script: str) -> Git:
        """A git whose http-backend is a shell script."""
        backend, program = self.folder / "git-http-backend", self.folder / "git"
        program.write_text(f"#!/bin/sh\necho '{self.folder}'\n")
        backend.write_text(f"#!/bin/sh\n{script}")
        for path in (program, backend):
            path.chmod(0o755)
        return find_git(self.folder, str(program))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def run(work: Coroutine[None, None, None], loop: Loop = asyncio.new_event_loop) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asyncio.wait_for(work, 60))


async def everything(process: GitProcess) -> bytes:
    pieces = []
    while piece := await process.read():
        pieces.append(piece)
    return b"".join(pieces)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, GatewayLoop])
def test_git_answers(place: Place, loop: Loop) -> None:
    """Also in the gateway's own loop."""
    Repositories(place.folder, find_git(place.folder)).create("acme/widget")

    async def work() -> None:
        processes = place.processes()
        process = await processes.start(REFS, with_input=False)
        assert not place.activity.wait_until_idle(0)
        head = await process.head()
        assert head.status == 200
        assert head.headers["Content-Type"] == "application/x-git-receive-pack-advertisement"
        assert (await everything(process)).startswith(b"001f# service=git-receive-pack\n0000")
        await processes.finish(process)
        assert place.activity.wait_until_idle(0)

    run(work(), loop)


def test_input_flows_while_output_does(place: Place) -> None:
    """More than every pipe holds, either way."""
    git = place.program("printf 'Status: 201 Created\\r\\nX-Y:  z \\r\\n\\r\\n'; exec cat\n")
    piece = bytes(range(256)) * 1024

    async def work() -> None:
        processes = place.processes(git)
        process = await processes.start({}, with_input=True)

        async def feed() -> None:
            for _ in range(16):
                await process.feed(piece)
            process.end_input()

        feeding = asyncio.create_task(feed())
        head = await process.head()
        assert (head.status, head.headers) == (201, {"X-Y": "z"})
        assert await everything(process) == piece * 16
        await feeding
        await processes.finish(process)

    run(work())


def test_git_that_has_stopped_reading_is_fed_in_vain(place: Place) -> None:
    git = place.program("exec <&-; printf 'Status: 500 No\\r\\n\\r\\nwhy'\n")

    async def work() -> None:
        processes = place.processes(git)
        process = await processes.start({}, with_input=True)
        assert (await process.head()).status == 500
        for _ in range(20):
            await process.feed(b"x" * 100_000)
        process.end_input()
        assert await everything(process) == b"why"
        await processes.finish(process)

    run(work())


@pytest.mark.parametrize("script", ["exit 1\n", "printf 'no head'\n", "printf 'Status: odd\\r\\n\\r\\n'\n"])
def test_a_program_that_says_nothing_sensible(place: Place, script: str) -> None:
    async def work() -> None:
        processes = place.processes(place.program(script))
        process = await processes.start({}, with_input=False)
        assert (await process.head()).status == 500
        await everything(process)
        await processes.finish(process)

    run(work())


def test_nothing_of_the_host_gets_in(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "elsewhere")
    monkeypatch.setenv("SECRET", "of the host")
    git = place.program("printf '\\r\\n\\r\\n'; env\n")
    said: dict[str, str] = {}

    async def work() -> None:
        processes = place.processes(git)
        process = await processes.start({"REQUEST_METHOD": "GET"}, with_input=False)
        await process.head()
        lines = (await everything(process)).decode().splitlines()
        said.update({name: value for name, _, value in (line.partition("=") for line in lines)})
        await processes.finish(process)

    run(work())
    allowed = {
        "GATEWAY_INTERFACE", "GIT_HTTP_EXPORT_ALL", "GIT_PROJECT_ROOT", "PWD", "REMOTE_ADDR", "REQUEST_METHOD",
        "SERVER_PROTOCOL", "_", "SHLVL", "OLDPWD",
    }  # fmt: skip
    assert set(said) - allowed == set(git.environment)
    assert said["GIT_PROJECT_ROOT"] == said["PWD"] == str(place.folder)


# A leader and a child that both say their number; the child, and the leader if it is to, ignore SIGTERM.
STUBBORN = """
{leader}
printf 'Status: 200 OK\\r\\n\\r\\n'
echo $$
sh -c 'trap "" TERM; echo $$; exec sleep 1000' &
wait
"""


@pytest.mark.parametrize("leader", ["", 'trap "" TERM'])
def test_stop_leaves_nothing(place: Place, leader: str) -> None:
    git = place.program(STUBBORN.format(leader=leader))

    async def work() -> None:
        processes = place.processes(git)
        process = await processes.start({}, with_input=True)
        await process.head()
        said = b""
        while said.count(b"\n") < 2:
            said += await process.read()
        relay = asyncio.create_task(everything(process))
        await processes.stop(grace=0.05)
        assert await relay == b""
        assert place.activity.wait_until_idle(0)
        for number in said.split():
            while lives(int(number)):  # for the moment it takes to die of a signal
                await asyncio.sleep(0)

    run(work())


def test_a_push_that_is_ended_cleans_up(place: Place) -> None:
    """receive-pack takes its quarantine away."""
    bare = Repositories(place.folder, find_git(place.folder)).create("acme/widget").path
    line = f"{'0' * 40} {'1' * 40} refs/heads/main\0report-status".encode()
    body = b"%04x" % (len(line) + 4) + line + b"0000PACK\0\0\0\2\0\0\0\3"

    async def work() -> None:
        processes = place.processes()
        process = await processes.start(RECEIVE, with_input=True)
        await process.feed(body)
        await process.head()
        relay = asyncio.create_task(everything(process))
        await processes.stop()
        await relay

    run(work())
    assert not list((bare / "objects").glob("tmp_*"))


def test_a_machine_without_http_backend(place: Place) -> None:
    git = place.program("")
    (place.folder / "git-http-backend").unlink()
    with pytest.raises(GatewayError, match=r"there is no .*git-http-backend"):
        place.processes(git)


def test_a_backend_that_cannot_be_started(place: Place) -> None:
    processes = place.processes(place.program(""))
    (place.folder / "git-http-backend").unlink()

    async def work() -> None:
        with pytest.raises(OSError, match="No such file"):
            await processes.start({}, with_input=False)

    run(work())
    assert place.activity.wait_until_idle(0)


def lives(number: int) -> bool:
    """A zombie, whose new parent has not looked yet, does not."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{number}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
