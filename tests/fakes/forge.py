"""The embedded forge in a thread, and clients of it: real git, and an App that mints tokens over the API."""

import base64
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import httpx
import jwt

from gateway.forge.app import App, register_app
from gateway.forge.server import Forge
from gateway.forge.threaded import serving

_IDENTITY = {
    "GIT_AUTHOR_NAME": "A. U. Thor",
    "GIT_AUTHOR_EMAIL": "author@forge.test",
    "GIT_COMMITTER_NAME": "A. U. Thor",
    "GIT_COMMITTER_EMAIL": "author@forge.test",
}
READ = {"contents": "read"}
WRITE = {"contents": "write"}


@cache
def the_app() -> App:
    """The App of every forge here: making its key takes a while."""
    return register_app()


@contextmanager
def open_forge(folder: Path, app: App | None = None) -> Iterator[Forge]:
    """A running forge with its App registered; everything of it lies in `folder/forge`."""
    root = folder / "forge"
    root.mkdir()
    with serving(Forge(root, app=app or the_app())) as forge:
        yield forge


def basic(token: str, user: str = "x-access-token") -> str:
    """The value of `Authorization` for git."""
    return "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode("ascii")


@dataclass
class Git:
    """Real git with nothing of this machine's configuration. `token` is sent to the forge with every request."""

    folder: Path
    token: str = ""
    program: str = "git"
    settings: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    def __call__(self, *arguments: str, text: str | None = None) -> str:
        """What git says on stdout, stripped; it must succeed."""
        done = self.try_to(*arguments, text=text)
        assert done.returncode == 0, f"git {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def try_to(self, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """What became of it."""
        return subprocess.run(
            (self.program, "-C", str(self.folder), *arguments),
            env=self.variables(), input=text, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def variables(self) -> dict[str, str]:
        """The whole environment git is given."""
        settings = {"init.defaultBranch": "main", "protocol.version": "2", **self.settings}
        if self.token:
            settings["http.extraHeader"] = f"Authorization: {basic(self.token)}"
        configured = {"GIT_CONFIG_COUNT": str(len(settings))}
        for index, (key, value) in enumerate(settings.items()):
            configured |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.folder),
            "LC_ALL": "C",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            **_IDENTITY,
            **configured,
            **self.environment,
        }

    def commit(self, name: str = "file", content: bytes = b"content\n", message: str = "") -> str:
        """Writes one file and commits it; the commit's id."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self("add", "--", name)
        self("commit", "-q", "-m", message or f"{name} written")
        return self("rev-parse", "HEAD")


def new_worktree(folder: Path, remote: str, token: str = "", *, object_format: str = "sha1") -> Git:
    """An empty repository with `origin`, on the branch `main`."""
    folder.mkdir(parents=True)
    git = Git(folder, token)
    git("init", "-q", f"--object-format={object_format}")
    git("remote", "add", "origin", remote)
    return git


class AppClient:
    """The App as its owner uses it: signs with its key, asks the API. Every answer is the raw response."""

    def __init__(self, forge: Forge) -> None:
        self._forge = forge
        # Nothing to verify without TLS; loading the machine's authorities takes a while.
        self._client = httpx.Client(base_url=forge.api_url, trust_env=False, verify=False)

    def close(self) -> None:
        """Closes its connections."""
        self._client.close()

    def jwt(self, *, issued: int = -60, expires: int = 540, issuer: str = "", key: str = "") -> str:
        """A JSON Web Token; seconds are counted from now."""
        number, pem = self._forge.create_app()
        now = int(datetime.now(UTC).timestamp())
        claims = {"iat": now + issued, "exp": now + expires, "iss": issuer or str(number)}
        return jwt.encode(claims, key or pem, algorithm="RS256")

    def ask(
        self,
        method: str,
        path: str,
        credential: str | None = None,
        *,
        json: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """One request below the API's URL; by the App itself unless another credential is given ("" for none)."""
        value = self.jwt() if credential is None else credential
        fields = {**(headers or {}), **({"Authorization": f"Bearer {value}"} if value else {})}
        return self._client.request(method, path, json=json, headers=fields)

    def installation(self, full_name: str) -> int:
        """Its number, of the App on that repository."""
        answer = self.ask("GET", f"/repos/{full_name}/installation").raise_for_status()
        return int(answer.json()["id"])

    def mint(self, full_name: str, permissions: Mapping[str, str]) -> str:
        """A token for one repository."""
        number = self.installation(full_name)
        body = {"repositories": [full_name.partition("/")[2]], "permissions": dict(permissions)}
        answer = self.ask("POST", f"/app/installations/{number}/access_tokens", json=body).raise_for_status()
        return str(answer.json()["token"])


@contextmanager
def app_client(forge: Forge) -> Iterator[AppClient]:
    """The App, until it is left."""
    client = AppClient(forge)
    try:
        yield client
    finally:
        client.close()
