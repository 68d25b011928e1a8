"""Real git with the configuration and environment of a session, and servers on loopback for gateway and forge."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.backends.base import Endpoints
from sandbox.env import build_environment
from sandbox.git.github_host import GITHUB_HOST, GitHubHost
from sandbox.git.remotes import find_aliases, read_remotes
from sandbox.git.session import config_text, make_session_git
from sandbox.git.settings import git_config_text, read_user_settings
from tests.fakes.origin import Origin, http_origin
from tests.fakes.wire import Message
from tests.sandbox.wrapping import PATIENCE, SOURCES

SECRET = "the-secret-of-the-session"
TOKEN = "ghs_" + "a.B-c_1" * 20
HELPER = (sys.executable, "-I", "-S", "-E", "-B", str(SOURCES / "sandbox/credential.py"))
IDENTITY = {
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@author.test",
    "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@author.test",
}  # fmt: skip


@dataclass
class Session:
    """A worktree with one commit, and what git finds in the session that `open` opens on it."""

    root: Path
    host: GitHubHost = GITHUB_HOST
    gateway_port: int = 9
    proxy_port: int = 9
    backend: str = "native"
    variables: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home.mkdir()
        self.work.mkdir()
        self.plain("init", "-q", "--initial-branch=main")
        self.plain("commit", "-q", "--allow-empty", "-m", "one")

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def gateway(self) -> str:
        return f"http://127.0.0.1:{self.gateway_port}"

    @property
    def pushes(self) -> str:
        return f"{self.gateway}/git/{self.host.authority}/"

    def plain(self, *arguments: str) -> None:
        """Git on the host, before the session."""
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.home),
            "GIT_CONFIG_NOSYSTEM": "1",
            **IDENTITY,
        }
        subprocess.run(("git", *arguments), cwd=self.work, env=environment, check=True, capture_output=True)

    def configure(self, text: str, users: bool = False) -> None:
        """Adds to the repository's configuration, or to the user's."""
        (self.home / ".gitconfig" if users else self.work / ".git/config").open("a").write(text)

    def open(self) -> None:
        """What a launch does: settings and remotes as the host has them, the session's file, its environment."""
        host = {"PATH": "/usr/bin:/bin", "HOME": str(self.home), "GH_TOKEN": "the user's", **IDENTITY}
        settings = read_user_settings(host, str(self.work))
        aliases = find_aliases(settings, self.host)
        git = make_session_git(self.host, read_remotes(host, str(self.work), self.host, aliases), aliases)
        file = self.root / "gitconfig"
        file.write_text(config_text(git, self.gateway_port, git_config_text(settings)))
        endpoints = Endpoints(self.proxy_port, self.proxy_port, self.gateway_port)
        built = build_environment(
            host, endpoints=endpoints, session_id="s", backend=self.backend, secret=SECRET, home=str(self.home),
            path="/usr/bin:/bin", tmpdir=str(self.root), git_config=str(file), connect=("/bin/false",),
            git=git, credential=HELPER, github_token=TOKEN,
        )  # fmt: skip
        self.variables = dict(built.values)

    def git(self, *arguments: str, text: str = "", **more: str) -> "subprocess.CompletedProcess[str]":
        """Git inside."""
        return subprocess.run(
            ("git", *arguments), cwd=self.work, env={**self.variables, **more}, input=text,
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip

    def told(self, *arguments: str) -> str:
        """What git inside prints."""
        done = self.git(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


def response(status: str, body: bytes = b"", *fields: str) -> bytes:
    """An HTTP answer."""
    lines = (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields)
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def gateway(password: str = TOKEN) -> Origin:
    """Refuses every push in words, and gives out a token for reading."""

    def respond(request: Message) -> bytes:
        if request.target == "/agent/git-credential":
            answer = json.dumps({"username": "x-access-token", "password": password})
            return response("200 OK", answer.encode(), "Content-Type: application/json")
        return response("403 Forbidden", b"Control Center policy: no\n", "Content-Type: text/plain")

    return http_origin(respond)
