"""Credentials of a request, and the refusals of git clients."""

import base64
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.forge.access import CHALLENGE, NOBODY, STRANGER, api_caller, git_caller, refuse_git
from gateway.forge.activity import Activity
from gateway.forge.faults import Faults
from gateway.forge.git_process import GitProcesses
from gateway.forge.journal import Journal
from gateway.forge.repositories import Repositories, Repository, find_git
from gateway.forge.state import State
from gateway.forge.tokens import Credential, InstallationToken, Tokens
from tests.fakes.forge import basic

NOT_FOUND = "Repository not found."


def now() -> datetime:
    return datetime(2026, 3, 4, tzinfo=UTC)


@pytest.fixture
def state(tmp_path: Path) -> State:
    git, activity = find_git(tmp_path), Activity()
    return State(
        clock=now,
        git=git,
        processes=GitProcesses(git, tmp_path, tmp_path / "log", activity),
        repositories=Repositories(tmp_path, git),
        tokens=Tokens(now),
        faults=Faults(),
        journal=Journal(),
        activity=activity,
    )


def mint(state: State, repository: Repository, **permissions: str) -> InstallationToken:
    installation = state.repositories.installation_of(repository)
    assert installation is not None
    return state.tokens.mint(1, installation.id, frozenset({repository.id}), permissions, stateless=False)


def encoded(data: bytes) -> str:
    return "Basic " + base64.b64encode(data).decode()


def test_who_calls_git(state: State) -> None:
    token = mint(state, state.repositories.create("acme/widget"), contents="write")
    assert git_caller(state, None) is NOBODY
    for good in (basic(token.value), basic(token.value).replace("Basic", "basic")):
        caller = git_caller(state, good)
        assert (caller.credential, caller.token, caller.number) == (Credential.WRITE, token, token.id)
    strangers = [
        "", "Basic", "Basic !", f"Bearer {token.value}", f"token {token.value}", basic("ghs_other"),
        basic(token.value, "git"), encoded(token.value.encode()), encoded(b"\xff:\xff"),
        basic(token.value) + "x",
    ]  # fmt: skip
    for bad in strangers:
        assert git_caller(state, bad) is STRANGER, bad


def test_who_calls_the_api(state: State) -> None:
    token = mint(state, state.repositories.create("acme/widget"), contents="read")
    assert api_caller(state, None) is NOBODY
    for scheme in ("Bearer", "bearer", "token"):
        assert api_caller(state, f"{scheme} {token.value}").token is token
    caller = api_caller(state, "Bearer a.b.c")
    assert (caller.credential, caller.jwt) == (Credential.APP, "a.b.c")
    assert "a.b.c" not in repr(caller)
    for bad in ("", "Bearer", "token a.b.c", "Bearer ghs_1_a.b.c", "Bearer nothing", basic(token.value)):
        assert api_caller(state, bad) is STRANGER, bad


def test_what_git_clients_are_refused_with(state: State) -> None:
    private = state.repositories.create("acme/widget")
    public = state.repositories.create("acme/public", private=False)
    other = state.repositories.create("other/thing")
    reader, writer = mint(state, private, contents="read"), mint(state, private, contents="write")
    metadata = mint(state, private, issues="write")
    callers = {name: git_caller(state, basic(token.value)) for name, token in
               (("reader", reader), ("writer", writer), ("metadata", metadata))}  # fmt: skip
    callers |= {"nobody": NOBODY, "stranger": STRANGER}
    table: list[tuple[str, Repository | None, bool, int]] = [
        ("reader", private, False, 0),
        ("reader", private, True, 403),
        ("writer", private, False, 0),
        ("writer", private, True, 0),
        ("metadata", private, False, 403),
        ("reader", other, False, 404),
        ("writer", other, True, 404),
        ("writer", None, False, 404),
        ("reader", public, False, 0),
        ("writer", public, True, 403),
        ("nobody", public, False, 0),
        ("nobody", public, True, 401),
        ("nobody", private, False, 401),
        ("nobody", None, False, 401),
        ("stranger", public, False, 401),
        ("stranger", private, True, 401),
    ]
    for name, repository, write, status in table:
        refusal = refuse_git(state, callers[name], repository, write=write)
        assert (refusal.status if refusal else 0) == status, (name, repository, write)
        assert refusal is None or (refusal.headers == (CHALLENGE if status == 401 else {}))


def test_lag_is_counted_by_token(state: State) -> None:
    repository = state.repositories.create("acme/widget")
    state.faults.lag = 1
    for _ in range(2):
        caller = git_caller(state, basic(mint(state, repository, contents="read").value))
        refusals = [refuse_git(state, caller, repository, write=False) for _ in range(3)]
        assert [refusal.status if refusal else 0 for refusal in refusals] == [404, 0, 0]
        assert refusals[0] is not None
        assert refusals[0].text == NOT_FOUND
