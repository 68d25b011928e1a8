"""What an answer must say to be believed. Bodies hold tokens, so nothing may raise whatever they are."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.credentials.answers import (
    GoneNames,
    Installation,
    Unwanted,
    Wanted,
    is_object,
    read_comparison,
    read_gone_names,
    read_installation,
    read_message,
    read_mint,
    read_repository,
)
from gateway.credentials.rest import Answer
from gateway.credentials.token import Repository, Token, TokenKind
from tests.fakes.github import GADGET, WIDGET

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
VALUE = "ghs_" + "s3cr3T" * 6
READ = {"contents": "read", "metadata": "read"}
BY_NAME = Wanted(TokenKind.READ, 50, READ, names=(WIDGET, GADGET))
BY_ID = Wanted(TokenKind.WRITE, 50, {"contents": "write"}, ids=(7,))


def answer(value: object) -> Answer:
    return Answer(200, {}, value if isinstance(value, bytes) else json.dumps(value).encode())


def grant(**changes: object) -> dict[str, object]:
    """A good answer for `BY_NAME`, with changes; None takes a field away."""
    fields: dict[str, object] = {
        "token": VALUE,
        "expires_at": "2026-05-04T13:00:00Z",
        "permissions": READ,
        "repository_selection": "selected",
        "repositories": [{"id": 7, "full_name": "acme/widget"}, {"id": 8, "full_name": "acme/gadget"}],
        **changes,
    }
    return {name: value for name, value in fields.items() if value is not None}


def write_grant(**changes: object) -> dict[str, object]:
    """The same for `BY_ID`."""
    return grant(
        **{
            "permissions": {"contents": "write"},
            "repositories": [{"id": 7, "full_name": "acme/widget"}],
            **changes,
        }
    )


GOOD = [
    ("as asked", grant(), BY_NAME),
    ("in another order", grant(repositories=[*reversed(grant()["repositories"])]), BY_NAME),  # type: ignore[call-overload]  # a list
    ("metadata comes by itself", write_grant(permissions={"contents": "write", "metadata": "read"}), BY_ID),
    ("metadata is not mentioned", write_grant(), BY_ID),
    ("renamed since", write_grant(repositories=[{"id": 7, "full_name": "acme/new-name"}]), BY_ID),
    (
        "another letter case",
        grant(repositories=[{"id": 7, "full_name": "ACME/Widget"}, {"id": 8, "full_name": "acme/GADGET"}]),
        BY_NAME,
    ),
    ("stateless", grant(token="ghs_123_eyJh.eyJi.c-_d" + "x" * 500), BY_NAME),
    ("more is said", grant(single_file="README.md", has_multiple_single_files=False), BY_NAME),
]


@pytest.mark.parametrize(("fields", "wanted"), [row[1:] for row in GOOD], ids=[row[0] for row in GOOD])
def test_token(fields: dict[str, object], wanted: Wanted) -> None:
    token = read_mint(answer(fields), wanted, NOW)
    assert isinstance(token, Token)
    assert token.value == fields["token"]
    assert token.kind is wanted.kind
    assert token.expires == NOW + timedelta(hours=1)
    assert token.permissions == fields["permissions"]
    assert {repository.installation for repository in token.repositories} == {50}


EXPIRY, RIGHTS, REACH = "expires", "other permissions", "other repositories"
FIRST, SECOND = {"id": 7, "full_name": "acme/widget"}, {"id": 8, "full_name": "acme/gadget"}
# Name, change of a good answer, words of the fault. Each holds a token, which must be revoked.
UNWANTED: list[tuple[str, dict[str, object], str]] = [
    ("no expiry", {"expires_at": None}, EXPIRY),
    ("expiry is a number", {"expires_at": 1_777_900_000}, EXPIRY),
    ("local time", {"expires_at": "2026-05-04T13:00:00"}, EXPIRY),
    ("another offset", {"expires_at": "2026-05-04T13:00:00+00:00"}, EXPIRY),
    ("fractions", {"expires_at": "2026-05-04T13:00:00.000Z"}, EXPIRY),
    ("a blank", {"expires_at": "2026-05-04 13:00:00Z"}, EXPIRY),
    ("one digit", {"expires_at": "2026-5-4T13:00:00Z"}, EXPIRY),
    ("thirteenth month", {"expires_at": "2026-13-04T13:00:00Z"}, EXPIRY),
    ("year 0", {"expires_at": "0000-01-01T00:00:00Z"}, EXPIRY),
    ("digits of another script", {"expires_at": "٢٠٢٦-05-04T13:00:00Z"}, EXPIRY),
    ("line end behind it", {"expires_at": "2026-05-04T13:00:00Z\n"}, EXPIRY),
    ("over already", {"expires_at": "2026-05-04T12:00:00Z"}, EXPIRY),
    ("no permissions", {"permissions": None}, RIGHTS),
    ("permissions are a list", {"permissions": ["contents"]}, RIGHTS),
    ("a level is no text", {"permissions": {**READ, "contents": 1}}, RIGHTS),
    ("more permissions", {"permissions": {**READ, "issues": "write"}}, RIGHTS),
    ("fewer permissions", {"permissions": {"metadata": "read"}}, RIGHTS),
    ("a higher level", {"permissions": {**READ, "contents": "write"}}, RIGHTS),
    ("metadata above reading", {"permissions": {**READ, "metadata": "write"}}, RIGHTS),
    ("no repositories", {"repositories": None}, REACH),
    ("repositories are an object", {"repositories": FIRST}, REACH),
    ("none", {"repositories": []}, REACH),
    ("one too few", {"repositories": [FIRST]}, REACH),
    ("one too many", {"repositories": [FIRST, SECOND, {"id": 9, "full_name": "acme/other"}]}, REACH),
    ("one twice", {"repositories": [FIRST, SECOND, SECOND]}, REACH),
    ("another one", {"repositories": [FIRST, {"id": 8, "full_name": "acme/other"}]}, REACH),
    ("another owner's", {"repositories": [FIRST, {"id": 8, "full_name": "evil/gadget"}]}, REACH),
    ("one number for two", {"repositories": [FIRST, {**SECOND, "id": 7}]}, REACH),
    ("a number that is none", {"repositories": [FIRST, {**SECOND, "id": "8"}]}, REACH),
    ("true for a number", {"repositories": [{**FIRST, "id": True}, SECOND]}, REACH),
    ("number 0", {"repositories": [{**FIRST, "id": 0}, SECOND]}, REACH),
    ("a name that is none", {"repositories": [FIRST, {"id": 8, "full_name": "acme/../gadget"}]}, REACH),
    ("a name with .git", {"repositories": [FIRST, {"id": 8, "full_name": "acme/gadget.git"}]}, REACH),
    ("no name", {"repositories": [FIRST, {"id": 8}]}, REACH),
    ("a list in the list", {"repositories": [FIRST, [SECOND]]}, REACH),
    ("null in the list", {"repositories": [FIRST, None]}, REACH),
]


@pytest.mark.parametrize(("change", "words"), [row[1:] for row in UNWANTED], ids=[row[0] for row in UNWANTED])
def test_unwanted_token(change: dict[str, object], words: str) -> None:
    outcome = read_mint(answer(grant(**change)), BY_NAME, NOW)
    assert isinstance(outcome, Unwanted)
    assert words in outcome.fault
    assert outcome.token is not None
    assert outcome.token.value == VALUE
    assert "s3cr3T" not in repr(outcome)


@pytest.mark.parametrize("ids", [[], [8], [7, 8], [7, 7]])
def test_other_numbers(ids: list[int]) -> None:
    repositories = [{"id": number, "full_name": f"acme/r{place}"} for place, number in enumerate(ids)]
    outcome = read_mint(answer(write_grant(repositories=repositories)), BY_ID, NOW)
    assert isinstance(outcome, Unwanted)
    assert REACH in outcome.fault


@pytest.mark.parametrize(
    "value",
    [
        grant(token=None),
        grant(token=""),
        grant(token=["x"]),
        grant(token="x" * 4097),
        grant(token="ghs_a\r\nb"),
        [grant()],
        "text",
        None,
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"token": ' + b"9" * 5000 + b"}",
    ],
)
def test_no_token(value: object) -> None:
    outcome = read_mint(answer(value), BY_NAME, NOW)
    assert isinstance(outcome, Unwanted)
    assert outcome.token is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"id": 5, "suspended_at": None}, Installation(5, suspended=False)),
        ({"id": 5}, Installation(5, suspended=False)),
        ({"id": 5, "suspended_at": "2026-01-01T00:00:00Z"}, Installation(5, suspended=True)),
        ({"id": 5, "suspended_at": False}, Installation(5, suspended=True)),
        ({"id": "5"}, None),
        ({"id": True}, None),
        ({"id": -5}, None),
        ({"id": 5.0}, None),
        ({}, None),
        ([5], None),
    ],
)
def test_installation(value: object, expected: Installation | None) -> None:
    assert read_installation(answer(value)) == expected


def test_repository() -> None:
    found = read_repository(answer({"id": 7, "full_name": "Acme/Widget", "private": True}), 50)
    assert found == Repository(7, WIDGET, 50)
    assert found is not None
    assert str(found.name) == "Acme/Widget"
    assert read_repository(answer({"id": 7}), 50) is None


@pytest.mark.parametrize(
    ("value", "expected"), [({"status": "ahead"}, "ahead"), ({"status": 1}, None), ({}, None), ([], None)]
)
def test_comparison(value: object, expected: str | None) -> None:
    assert read_comparison(answer(value)) == expected


GONE = {"filename": "a", "status": "removed"}
MOVED = {"filename": "c", "status": "renamed", "previous_filename": "b"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([], GoneNames((), True)),
        ([GONE, {"filename": "x", "status": "added"}, MOVED], GoneNames(("a", "b"), True)),
        ([GONE] * 300, GoneNames(("a",) * 300, False)),
        ([GONE, {"status": "removed"}], GoneNames(("a",), False)),
        ([GONE, {"status": "renamed", "filename": "x"}], GoneNames(("a",), False)),
        ([GONE, 7], GoneNames(("a",), False)),
        ([{"status": []}], GoneNames((), True)),
        (None, None),
        ({"a": 1}, None),
    ],
)
def test_gone_names(files: object, expected: GoneNames | None) -> None:
    assert read_gone_names(answer({"files": files})) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"message": "Bad credentials"}, "Bad credentials"),
        ({"message": f"{VALUE}\nis bad"}, "***\\nis bad"),
        ({"message": {"a": 1}}, ""),
        ({}, ""),
        (b"<html>", ""),
    ],
)
def test_message(value: object, expected: str) -> None:
    assert read_message(answer(value)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [({}, True), ({"message": "no"}, True), ([], False), (b"", False), (b"<html>", False), (b"[" * 9000, False)],
)  # fmt: skip
def test_objects(value: object, expected: bool) -> None:
    assert is_object(answer(value)) is expected


READERS: list[Callable[[Answer], object]] = [
    read_installation,
    read_comparison,
    read_gone_names,
    read_message,
    lambda one: read_repository(one, 1),
    lambda one: read_mint(one, BY_NAME, NOW),
    lambda one: read_mint(one, BY_ID, NOW),
]
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
_GRANTS = st.fixed_dictionaries(
    {},
    optional={
        "id": _JSON,
        "full_name": _JSON,
        "status": _JSON,
        "message": _JSON,
        "token": st.just(VALUE) | _JSON,
        "expires_at": st.just("2026-05-04T13:00:00Z") | _JSON,
        "permissions": st.just(READ) | _JSON,
        "repositories": st.lists(st.fixed_dictionaries({}, optional={"id": _JSON, "full_name": _JSON}))
        | _JSON,
    },
)


@given(st.binary() | (_JSON | _GRANTS).map(lambda value: json.dumps(value).encode()))
def test_no_body_raises(body: bytes) -> None:
    for read in READERS:
        read(Answer(200, {}, body))
