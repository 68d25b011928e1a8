"""A forge in small: one repository behind git's own `http-backend`, and behind a real sshd."""

import gzip
import os
import pwd
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.fakes.origin import Origin
from tests.fakes.web import Answer, Request
from tests.fakes.wire import Wire

SSHD = "/usr/sbin/sshd"
NAME = "project.git"
BRANCH = "main"
_AS_ROOT = sys.platform == "linux" and os.geteuid() == 0

_IDENTITY = {
    "GIT_AUTHOR_NAME": "A. U. Thor",
    "GIT_AUTHOR_EMAIL": "author@origin.test",
    "GIT_COMMITTER_NAME": "A. U. Thor",
    "GIT_COMMITTER_EMAIL": "author@origin.test",
}


class Repository:
    """A bare repository with two commits, below `folder`, which is also the home of who serves it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / NAME
        self._git("init", "-q", "--bare", f"--initial-branch={BRANCH}", str(self.path))
        self.commits = [self._commit("one"), self._commit("two")]

    def over_http(self, request: Request) -> Answer:
        """git-http-backend(1) as the CGI program it is (RFC 3875)."""
        body = b"".join(request.body)
        if request.fields.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        environment = self._environment() | {
            "GIT_PROJECT_ROOT": str(self.folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": request.method,
            "PATH_INFO": request.path.removeprefix("/git"),
            "QUERY_STRING": request.query,
            "CONTENT_TYPE": request.fields.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "GIT_PROTOCOL": request.fields.get("Git-Protocol", ""),
        }
        done = subprocess.run(
            ("git", "http-backend"), input=body, env=environment, capture_output=True, check=True
        )
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode("latin-1").split("\r\n"))
        status = int(fields.pop("Status", "200").split(" ")[0])
        return Answer(answer, status, fields)

    def _commit(self, name: str) -> str:
        blob = self._git("hash-object", "-w", "--stdin", text=f"{name}\n")
        tree = self._git("mktree", text=f"100644 blob {blob}\tREADME\n")
        parent = self._git("for-each-ref", "--format=-p%(objectname)", f"refs/heads/{BRANCH}")
        commit = self._git("commit-tree", *([parent] if parent else []), "-m", name, tree)
        self._git("update-ref", f"refs/heads/{BRANCH}", commit)
        return commit

    def _git(self, *arguments: str, text: str = "") -> str:
        where = () if arguments[0] == "init" else ("--git-dir", str(self.path))
        done = subprocess.run(
            ("git", *where, *arguments),
            input=text, env=self._environment(), capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.strip()

    def _environment(self) -> dict[str, str]:
        path = os.environ.get("PATH", os.defpath)
        return {"PATH": path, "HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1", **_IDENTITY}


class SshServer:
    """What a real sshd serves a repository with: keys, configuration, and an account where the test is root.

    `user` logs in with the key `identity`; `known` is the server's entry for a file of known hosts, without the host.
    """

    def __init__(self, folder: Path) -> None:
        assert os.access(SSHD, os.X_OK), f"{SSHD} is missing: install openssh-server"
        self._folder = folder
        self.user = "git" if _AS_ROOT else pwd.getpwuid(os.geteuid()).pw_name
        self.identity = _new_key(folder / "identity")
        host_key = _new_key(folder / "host")
        self.known = " ".join(host_key.with_suffix(".pub").read_text().split()[:2])
        self.config = folder / "sshd_config"
        settings = {
            "HostKey": host_key,
            "AuthorizedKeysFile": self.identity.with_suffix(".pub"),
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "PermitRootLogin": "prohibit-password",
            "UsePAM": "no",
            "StrictModes": "no",  # the folder lies below /tmp
            "PidFile": "none",
        }
        self.config.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        self._accounts = folder / "passwd"
        self._accounts.write_text(
            f"root:x:0:0::{folder}:/bin/sh\n{self.user}:x:0:0::{folder}:/bin/sh\n"
            "sshd:x:65534:65534::/run/sshd:/bin/false\n"
        )

    @contextmanager
    def listening(self) -> Iterator[Origin]:
        """Serves every connection with an sshd of its own (inetd mode), so that there is no port to guess."""
        with Origin(self._serve) as origin:
            yield origin

    def log(self) -> str:
        """What the server has to say."""
        return (self._folder / "sshd.log").read_text()

    def _serve(self, wire: Wire) -> None:
        wire.socket.settimeout(None)
        connection = wire.socket.fileno()
        subprocess.run(self._command(), stdin=connection, stdout=connection, check=False)

    def _command(self) -> Sequence[str]:
        server = (SSHD, "-i", "-f", str(self.config), "-E", str(self._folder / "sshd.log"))
        if not _AS_ROOT:
            return server
        # Root's sshd wants an account for its unprivileged half and an empty directory, which only a service's start
        # makes; both are put into a mount namespace of its own.
        script = f"""
        mount -t tmpfs -o mode=755 tmpfs /run && mkdir /run/sshd &&
        mount --bind {shlex.quote(str(self._accounts))} /etc/passwd && exec "$@"
        """
        return ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *server)


def _new_key(path: Path) -> Path:
    subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)), check=True)
    return path
