"""Histories in real repositories, made by git, and packed by git as `git push` packs them."""

import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from gateway.push.capabilities import ObjectFormat

_WHO = "A. U. Thor <author@origin.test>"
_SOME_DAY = 1_700_000_000


class History:
    """A bare repository at `path`."""

    def __init__(self, path: Path, object_format: ObjectFormat = "sha1") -> None:
        self.path = path
        self.object_format = object_format
        self._run(("git", "init", "-q", "--bare", f"--object-format={object_format}", str(path)))

    def git(self, *arguments: str, data: bytes = b"") -> str:
        """What git prints."""
        return self.raw(*arguments, data=data).decode().strip()

    def raw(self, *arguments: str, data: bytes = b"") -> bytes:
        """The same in bytes."""
        return self._run(("git", "--git-dir", str(self.path), *arguments), data)

    def grow(
        self,
        parents: Sequence[Sequence[int]],
        dates: Sequence[int] | None = None,
        message: bytes = b"a message\n",
    ) -> list[str]:
        """Adds commits that have each the parents of these numbers, and a file that changes; their ids."""
        stream = []
        for mark, numbers in enumerate(parents, 1):
            date = dates[mark - 1] if dates is not None else _SOME_DAY + mark
            text = b"%d %b" % (mark, message)
            content = b"".join(b"line %d\n" % line for line in range(50)) + b"%d\n" % mark
            lines = [f"from :{numbers[0] + 1}"] if numbers else []
            lines += [f"merge :{number + 1}" for number in numbers[1:]]
            # A ref for each, or fast-import would continue the one before.
            stream += [
                f"reset refs/made/{mark}\ncommit refs/made/{mark}\nmark :{mark}\n".encode(),
                f"committer {_WHO} {date} +0000\ndata {len(text)}\n".encode() + text,
                "".join(f"{line}\n" for line in lines).encode(),
                f"M 100644 inline file\ndata {len(content)}\n".encode() + content + b"\n",
            ]
        marks = self.path / "marks"
        self.git("fast-import", "--quiet", f"--export-marks={marks}", data=b"".join(stream))
        named = dict(line.split() for line in marks.read_text().splitlines())
        return [named[f":{mark}"] for mark in range(1, len(parents) + 1)]

    def pack(self, new: Iterable[str], old: Iterable[str] = (), *options: str) -> bytes:
        """The pack that takes somebody who has `old` to `new`."""
        wanted = "".join(f"{commit}\n" for commit in (*new, *(f"^{commit}" for commit in old)))
        return self.raw("pack-objects", "--revs", "--stdout", "-q", *options, data=wanted.encode())

    def receive(self, pack: bytes, ref: str, commit: str) -> None:
        """Takes a pushed pack, thin or not, and moves the ref."""
        self.git("index-pack", "--stdin", "--fix-thin", data=pack)
        self.git("update-ref", ref, commit)

    def is_ancestor(self, old: str, new: str) -> bool | None:
        """As git sees it; None if it lacks one of them."""
        status = self._status("merge-base", "--is-ancestor", old, new)
        return {0: True, 1: False}.get(status)

    def parents(self, *revisions: str) -> dict[str, tuple[str, ...]]:
        """Commit -> parents, of what is reachable."""
        lines = self.git("rev-list", "--parents", *revisions).splitlines()
        return {line.split()[0]: tuple(line.split()[1:]) for line in lines}

    def _status(self, *arguments: str) -> int:
        command = ("git", "--git-dir", str(self.path), *arguments)
        return subprocess.run(command, env=self._environment(), capture_output=True, check=False).returncode

    def _run(self, command: Sequence[str], data: bytes = b"") -> bytes:
        done = subprocess.run(command, input=data, env=self._environment(), capture_output=True, check=True)
        return done.stdout

    def _environment(self) -> dict[str, str]:
        who = {f"GIT_COMMITTER_{name}": value for name, value in (("NAME", "A"), ("EMAIL", "a@origin.test"))}
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.path),
            "GIT_CONFIG_NOSYSTEM": "1",
            "LC_ALL": "C",
            **who,
        }
