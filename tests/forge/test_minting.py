"""Requests for a token against what an installation grants."""

import json
from pathlib import Path

import pytest

from gateway.forge.minting import (
    MintError,
    MintRequest,
    granted_permissions,
    granted_repositories,
    read_mint_request,
)
from gateway.forge.repositories import Repository

NOT_AN_ARRAY = "is not an array"


def repository(number: int, name: str) -> Repository:
    return Repository(number, "acme", name, Path(name), "sha1", private=True, installed=True)


ONE, TWO = repository(1, "one"), repository(2, "Two")
GRANTED = {"contents": "write", "metadata": "read", "issues": "read"}


@pytest.mark.parametrize(
    ("body", "request_"),
    [
        ("", MintRequest()),
        (" \n", MintRequest()),
        ("{}", MintRequest()),
        ('{"repository_ids": [1, 2]}', MintRequest(repository_ids=(1, 2))),
        ('{"repositories": ["one"]}', MintRequest(repositories=("one",))),
        ('{"permissions": {"contents": "read"}}', MintRequest(permissions={"contents": "read"})),
    ],
)
def test_reading(body: str, request_: MintRequest) -> None:
    assert read_mint_request(body.encode()) == request_


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ("{", 400, "Problems parsing JSON"),
        ("\xff", 400, "Problems parsing JSON"),
        ("[]", 400, "should be a JSON object"),
        ('{"repository_ids": 1}', 422, NOT_AN_ARRAY),
        ('{"repository_ids": ["1"]}', 422, NOT_AN_ARRAY),
        ('{"repository_ids": [true]}', 422, NOT_AN_ARRAY),
        ('{"repositories": [1]}', 422, NOT_AN_ARRAY),
        ('{"permissions": ["contents"]}', 422, "is not an object"),
        ('{"permissions": {"contents": "own"}}', 422, "is not an object"),
        ('{"permissions": {"contents": 1}}', 422, "is not an object"),
        (json.dumps({"repository_ids": list(range(501))}), 422, "limit is 500"),
    ],
)
def test_what_is_no_request(body: str, status: int, message: str) -> None:
    with pytest.raises(MintError, match=message) as caught:
        read_mint_request(body.encode("latin-1"))
    assert caught.value.status == status


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (MintRequest(), None),
        (MintRequest(repository_ids=(), repositories=()), None),
        (MintRequest(repository_ids=(2,)), (TWO,)),
        (MintRequest(repositories=("TWO", "one")), (TWO, ONE)),
        (MintRequest(repository_ids=(1,), repositories=("one",)), (ONE,)),
    ],
)
def test_repositories_asked_for(asked: MintRequest, found: tuple[Repository, ...] | None) -> None:
    assert granted_repositories(asked, (ONE, TWO)) == found


@pytest.mark.parametrize(
    "asked", [MintRequest(repository_ids=(1, 3)), MintRequest(repositories=("one", "acme/two"))]
)
def test_repositories_out_of_reach(asked: MintRequest) -> None:
    with pytest.raises(MintError, match="not accessible to the parent installation"):
        granted_repositories(asked, (ONE, TWO))


@pytest.mark.parametrize(
    ("asked", "permissions"),
    [
        (None, GRANTED),
        ({"contents": "write"}, {"contents": "write", "metadata": "read"}),
        ({"contents": "read"}, {"contents": "read", "metadata": "read"}),
        ({}, {"metadata": "read"}),
    ],
)
def test_permissions_asked_for(asked: dict[str, str] | None, permissions: dict[str, str]) -> None:
    assert granted_permissions(MintRequest(permissions=asked), GRANTED) == permissions


@pytest.mark.parametrize("asked", [{"issues": "write"}, {"workflows": "write"}, {"contents": "admin"}])
def test_permissions_out_of_reach(asked: dict[str, str]) -> None:
    with pytest.raises(MintError, match="not granted to this installation"):
        granted_permissions(MintRequest(permissions=asked), GRANTED)
