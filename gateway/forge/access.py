"""Who asks, and may they: credentials of a request, and GitHub's answers to git clients that may not.

Pure but for the counting of a token's uses.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.forge.repositories import Repository
from gateway.forge.state import State
from gateway.forge.tokens import Credential, InstallationToken

_USER: Final = "x-access-token"
# Makes git ask for a password, as GitHub's answer does.
CHALLENGE: Final[Mapping[str, str]] = {"WWW-Authenticate": 'Basic realm="GitHub"'}


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever sent a request. `jwt`: the text of a JSON Web Token that came as Bearer, not yet verified."""

    credential: Credential
    token: InstallationToken | None = None
    jwt: str = field(default="", repr=False)

    @property
    def number(self) -> int:
        """Of the token; 0 without one."""
        return self.token.id if self.token else 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that says no."""

    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)


NOBODY: Final = Caller(Credential.NONE)
STRANGER: Final = Caller(Credential.BAD)


def git_caller(state: State, authorization: str | None) -> Caller:
    """Of a request to git: Basic with `x-access-token` and a token that lives. Bearer is a stranger's."""
    if authorization is None:
        return NOBODY
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return STRANGER
    try:
        user, colon, password = (
            base64.b64decode(encoded.strip(), validate=True).decode("utf-8").partition(":")
        )
    except (binascii.Error, UnicodeDecodeError):
        return STRANGER
    token = state.tokens.find(password) if colon and user == _USER else None
    return STRANGER if token is None else Caller(token.kind, token)


def api_caller(state: State, authorization: str | None) -> Caller:
    """Of a request to the API: `Bearer` or `token`, with a token that lives or a JSON Web Token."""
    if authorization is None:
        return NOBODY
    scheme, _, value = authorization.partition(" ")
    value = value.strip()
    if scheme.lower() not in {"bearer", "token"} or not value:
        return STRANGER
    token = state.tokens.find(value)
    if token is not None:
        return Caller(token.kind, token)
    if scheme.lower() == "bearer" and value.count(".") == 2 and not value.startswith("ghs_"):
        return Caller(Credential.APP, jwt=value)
    return STRANGER


def refuse_git(state: State, caller: Caller, repository: Repository | None, *, write: bool) -> Refusal | None:
    """GitHub's refusal of a request to git, in its words; None when it may go on.

    Sources: claude-code#84335, open-swe#1599, fabro#667 and other public reports.
    """
    if caller.credential is Credential.BAD:
        text = "Invalid username or token. Password authentication is not supported for Git operations."
        return Refusal(401, text, CHALLENGE)
    token = caller.token
    if token is not None:
        token.uses += 1
        if token.uses <= state.faults.lag:
            status = state.faults.lag_status
            return Refusal(status, "Repository not found.", CHALLENGE if status == 401 else {})
    if repository is None or (token is None and (repository.private or write)):
        if token is None:
            return Refusal(401, "Repository not found.", CHALLENGE)
        return Refusal(404, "Repository not found.")
    if token is None:
        return None
    if not state.reaches(token, repository):
        return _outside(state, repository, write)
    if not token.may("contents", "write" if write else "read"):
        return Refusal(403, "Write access to repository not granted.")
    return None


def _outside(state: State, repository: Repository, write: bool) -> Refusal | None:
    """A repository that the token does not reach."""
    if repository.private:
        return Refusal(404, "Repository not found.")
    login = state.app.login if state.app else ""
    return Refusal(403, f"Permission to {repository.full_name}.git denied to {login}.") if write else None
