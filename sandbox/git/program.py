"""Runs the host's git for a look at settings, outside the wrap: bounded output, a deadline, no environment but ours."""

import os
import select
import subprocess
import time
from collections.abc import Collection, Mapping

from sandbox.paths import find_program, path_folders
from sandbox.places import within

# What a pipe holds.
READ_SIZE = 64 << 10


def find_git(environment: Mapping[str, str], worktree: str = "") -> str:
    """The host's git; empty when there is none. One below `worktree` is none: it may be the wrapped process's."""
    folders = [
        folder
        for folder in path_folders(environment.get("PATH", ""))
        if not worktree or not within(os.path.realpath(folder), os.path.realpath(worktree))
    ]
    return find_program("git", folders, "/") or ""


def git_output(
    command: tuple[str, ...],
    environment: Mapping[str, str],
    folder: str,
    seconds: float,
    *,
    limit: int,
    stop: bytes = b"",
    source: int = subprocess.DEVNULL,
    accepted: Collection[int] = (0,),
) -> bytes | None:
    """What the command prints in `folder`; None when it cannot be started, takes longer than `seconds`, or ends with
    a status that is not among `accepted`.

    Reading ends early where `stop` has come, which nothing follows then, or after `limit` bytes: what is longer than
    that was cut. `source` is a descriptor that becomes its stdin.
    """
    end = time.monotonic() + seconds
    data = bytearray()
    try:
        process = subprocess.Popen(
            command, env=environment, cwd=folder,
            stdin=source, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:
        return None
    with process:
        try:
            assert process.stdout is not None  # a pipe was asked for
            poll = select.poll()  # select() knows no descriptor from 1024 on
            poll.register(process.stdout, select.POLLIN)
            while len(data) <= limit and not (stop and stop in data):
                if not poll.poll(_milliseconds(end)):
                    return None
                part = os.read(process.stdout.fileno(), READ_SIZE)
                if not part:
                    return bytes(data) if process.wait(_milliseconds(end) / 1000) in accepted else None
                data += part
        except subprocess.TimeoutExpired:
            return None
        finally:
            process.kill()
    return bytes(data.partition(stop)[0] + stop if stop and stop in data else data)


def _milliseconds(end: float) -> int:
    """How long is left, rounded up: a wait of zero would turn the last millisecond into a busy loop."""
    return max(0, int((end - time.monotonic()) * 1000) + 1)
