"""A program that git runs on every push to the forge (githooks(5), `proc-receive`): says no in GitHub's words.

What it refuses git does not do; what it lets pass falls through to git's own update. It changes nothing itself. Started
by the hook with an isolated interpreter, so it imports nothing of this project.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import BinaryIO, Final

# Name of the variable that holds what to check: {"workflows": bool, "rules": [[pattern, reason, [message…]]…]}.
VARIABLE: Final = "FORGE_RULES"
WORKFLOWS: Final = ".github/workflows"
_FLUSH: Final = b"0000"

Command = tuple[str, str, str]


def read_packets(source: BinaryIO) -> Iterator[bytes]:
    """Payloads up to the next flush (gitprotocol-common(5)). ValueError when the input ends before."""
    while True:
        length = int(source.read(4), 16)
        if length == 0:
            return
        yield source.read(length - 4)


def packet(text: str) -> bytes:
    """One pkt-line."""
    data = text.encode("utf-8", "surrogateescape")
    return b"%04x" % (len(data) + 4) + data


def read_commands(source: BinaryIO) -> tuple[Command, ...]:
    """Old id, new id and ref of each update."""
    lines = (payload.decode("utf-8", "surrogateescape").rstrip("\n") for payload in read_packets(source))
    return tuple((old, new, ref) for old, new, ref in (line.split(" ", 2) for line in lines))


def default_branch() -> str:
    """The full name of the branch that HEAD names."""
    done = subprocess.run(("git", "symbolic-ref", "HEAD"), stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.strip()


def changed_workflow(new: str) -> str:
    """The first file of a workflow that is changed by what is new with this commit or tag; "" for none."""
    if not new.strip("0"):
        return ""
    done = subprocess.run(
        ("git", "log", "--max-count=1", "--full-history", "--no-renames", "-m", "--name-only", "--format=",
         new, "--not", "--all", "--", WORKFLOWS),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False,
    )  # fmt: skip
    return done.stdout.partition("\n")[0]


def judge(command: Command, workflows: bool, rules: Sequence[Sequence[object]]) -> tuple[str, Sequence[str]]:
    """Why the update is refused, and what the client is told besides; "" when it is not."""
    _, new, ref = command
    if not new.strip("0") and ref == default_branch():
        return f"refusing to delete the current branch: {ref}", ()
    for pattern, reason, messages in rules:
        if fnmatchcase(ref, str(pattern)) and isinstance(messages, list):
            return str(reason), [str(message).replace("{ref}", ref) for message in messages]
    name = "" if workflows else changed_workflow(new)
    if not name:
        return "", ()
    reason = (
        f"refusing to allow a GitHub App to create or update workflow `{name}` without `workflows` permission"
    )
    return reason, ()


def main() -> int:
    """One push."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    settings = json.loads(os.environ.get(VARIABLE, '{"workflows": true, "rules": []}'))
    version = b"".join(read_packets(source))
    atomic = b"atomic" in version.partition(b"\0")[2].split()
    target.write(packet("version=1") + _FLUSH)
    target.flush()
    commands = read_commands(source)
    verdicts = [judge(command, settings["workflows"], settings["rules"]) for command in commands]
    refused = any(reason for reason, _ in verdicts)
    for (_, _, ref), (reason, messages) in zip(commands, verdicts, strict=True):
        for message in messages:
            sys.stderr.write(f"{message}\n")
        if atomic and refused:
            reason = reason or "atomic push failure"
        target.write(packet(f"ng {ref} {reason}") if reason else packet(f"ok {ref}"))
        if not reason:
            target.write(packet("option fall-through"))
    target.write(_FLUSH)
    target.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
