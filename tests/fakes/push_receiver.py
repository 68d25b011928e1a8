"""A receiver of pushes that answers as it is told and stores nothing, and a work tree for real git to push from."""

import os
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from gateway.push.capabilities import ID_LENGTHS, OFFERED, ObjectFormat
from gateway.push.commands import CommandReader, Probe, PushCommands
from gateway.push.pkt import FLUSH, pkt
from tests.fakes.web import Answer, Request, Web

Reply = Callable[[PushCommands], bytes | Iterable[bytes]]


class PushReceiver:
    """Listens at `url`. Use with `with`.

    `pushes` are what was asked for, `sections` the bytes that asked for it, `packs` the bytes that came behind.
    """

    def __init__(
        self,
        reply: Reply,
        *,
        refs: Mapping[str, str] | None = None,
        offered: Iterable[str] = OFFERED,
        object_format: ObjectFormat = "sha1",
    ) -> None:
        self.pushes: list[PushCommands] = []
        self.sections: list[bytes] = []
        self.packs: list[bytes] = []
        self.probes = 0
        self._reply = reply
        self._refs = refs or {}
        self._offered = tuple(offered)
        self._format = object_format
        self._web = Web({"git": self._serve})

    def __enter__(self) -> Self:
        self._web.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._web.__exit__(kind, error, trace)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._web.port}/git/widget"

    def _serve(self, request: Request) -> Answer:
        if request.method == "GET":
            fields = {"Content-Type": "application/x-git-receive-pack-advertisement"}
            return Answer(self._advertisement(), fields=fields)
        fields = {"Content-Type": "application/x-git-receive-pack-result"}
        reader = CommandReader(self._format, frozenset(self._offered))
        body, pack = b"", b""
        for piece in request.body:
            if reader.result is None:
                body += piece
            pack += reader.feed(piece) or b""
        result = reader.finish()
        if isinstance(result, Probe):
            self.probes += 1
            return Answer(fields=fields)
        self.pushes.append(result)
        self.sections.append(body[: result.size])
        self.packs.append(pack)
        return Answer(self._reply(result), fields=fields)

    def _advertisement(self) -> bytes:
        valued = {"object-format": f"object-format={self._format}", "agent": "agent=receiver/1"}
        capabilities = " ".join(valued.get(name, name) for name in self._offered)
        refs = dict(sorted(self._refs.items())) or {"capabilities^{}": "0" * ID_LENGTHS[self._format]}
        lines = [f"{object_id} {name}" for name, object_id in refs.items()]
        lines[0] += f"\0{capabilities}"
        head = pkt(b"# service=git-receive-pack\n") + FLUSH
        return head + b"".join(pkt(f"{line}\n".encode()) for line in lines) + FLUSH


class Pusher:
    """A repository with one commit on `main`, and git to be run in it without anybody's configuration."""

    def __init__(self, folder: Path, object_format: ObjectFormat = "sha1") -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "--initial-branch=main", f"--object-format={object_format}")
        self.commit("one")

    def git(self, *arguments: str, status: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Runs git, which has to end with this status (None: any)."""
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C.UTF-8",
            **{f"GIT_{who}_NAME": "A. U. Thor" for who in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{who}_EMAIL": "author@client.test" for who in ("AUTHOR", "COMMITTER")},
        }
        done = subprocess.run(
            ("git", "-c", "core.quotePath=false", *arguments),
            cwd=self.folder, env=environment, capture_output=True, check=False,
            encoding="utf-8", errors="surrogateescape",
        )  # fmt: skip
        assert status in (None, done.returncode), done.stdout + done.stderr
        return done

    def commit(self, name: str, content: bytes = b"content\n") -> str:
        """One more commit on the current branch; its id."""
        (self.folder / name).write_bytes(content)
        self.git("add", name)
        self.git("commit", "-q", "-m", name)
        return self.tip()

    def tip(self, name: str = "HEAD") -> str:
        return self.git("rev-parse", name).stdout.strip()
