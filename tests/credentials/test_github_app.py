"""The App against a forge that checks like GitHub: what it gets, and what it says when it gets nothing."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from gateway.credentials.answers import GoneNames
from gateway.credentials.broker import READ, WRITE
from gateway.credentials.github_app import (
    MAX_REPOSITORIES,
    GitHubApp,
    GitHubError,
    OutOfReachError,
    UnwantedTokenError,
)
from gateway.credentials.token import Repository, Token, TokenKind
from gateway.errors import GatewayError
from gateway.forge.app import register_app
from gateway.forge.faults import Fault, Point, garbage, redirect
from gateway.forge.server import Forge
from gateway.policy.repositories import parse_repository
from tests.fakes.forge import Git, new_worktree
from tests.fakes.github import WIDGET, Sleeps, WallClock, World, github, names, plain_client, run, told

Ask = Callable[[World], Awaitable[object]]


def with_github(folder: Path, scenario: Callable[[World], Awaitable[None]], *repositories: str) -> None:
    async def ask() -> None:
        async with github(folder, *repositories) as world:
            await scenario(world)

    run(ask())


async def read_token(world: World) -> Token:
    installation = await world.app.find(WIDGET)
    return await world.app.mint(installation, kind=TokenKind.READ, permissions=READ, names=[WIDGET])


async def write_token(world: World) -> Token:
    (repository,) = (await read_token(world)).repositories
    return await world.app.mint(
        repository.installation, kind=TokenKind.WRITE, permissions=WRITE, ids=[repository.id]
    )


async def find(world: World) -> object:
    return await world.app.find(WIDGET)


async def mint(world: World) -> object:
    return await world.app.mint(50_001, kind=TokenKind.READ, permissions=READ, names=[WIDGET])


async def failure(work: Awaitable[object]) -> GitHubError:
    with pytest.raises(GitHubError) as caught:
        await work
    return caught.value


# --- How it stands --------------------------------------------------------------------------------


def test_standing(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        standing = await world.app.standing()
        assert standing.permissions == {"contents": "write", "metadata": "read", "pull_requests": "write"}
        assert standing.ahead is not None
        installation = await world.app.installation(WIDGET)
        assert (installation.id, installation.permissions) == (
            await world.app.find(WIDGET),
            standing.permissions,
        )

    with_github(tmp_path, scenario)


def test_standing_of_an_app_that_github_does_not_know(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        other = register_app().private_key_pem
        async with plain_client() as client:
            app = GitHubApp(world.forge.api_url, 7, other, client, world.clock)
            assert (await failure(app.standing())).status == 401
            elsewhere = GitHubApp(world.forge.url, 7, other, client, world.clock)
            assert (await failure(elsewhere.standing())).status in {401, 404}

    with_github(tmp_path, scenario)


# --- What it gets ---------------------------------------------------------------------------------


@pytest.mark.parametrize("stateless", [False, True])
def test_read_token(tmp_path: Path, stateless: bool) -> None:
    async def scenario(world: World) -> None:
        world.forge.faults.stateless = stateless
        installation = await world.app.find(WIDGET)
        token = await world.app.mint(
            installation, kind=TokenKind.READ, permissions=READ, names=names("ACME/widget", "acme/Gadget")
        )
        (minted,) = world.forge.tokens.minted
        assert token.value == minted.value
        assert token.value.count(".") == 2 * stateless
        assert sorted(repository.id for repository in token.repositories) == sorted(minted.repositories or ())
        assert token.names == ("acme/widget", "acme/gadget")
        assert {repository.installation for repository in token.repositories} == {installation}
        assert token.permissions == minted.permissions == READ
        assert token.expires == world.clock.now + timedelta(hours=1)
        assert not minted.may("contents", "write")

    with_github(tmp_path, scenario, "acme/widget", "acme/gadget", "acme/other")


def test_write_token_reaches_one_repository(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        token = await write_token(world)
        minted = world.forge.tokens.minted[-1]
        assert minted.permissions == token.permissions == {"contents": "write", "metadata": "read"}
        assert len(minted.repositories or ()) == 1
        assert token.kind is TokenKind.WRITE

    with_github(tmp_path, scenario, "acme/widget", "acme/gadget")


def test_revoke_and_revoke_again(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        token = await read_token(world)
        await world.app.revoke(token)
        assert world.forge.tokens.live == ()
        await world.app.revoke(token)

    with_github(tmp_path, scenario)


def test_expired_token_is_as_good_as_revoked(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        token = await read_token(world)
        world.clock.advance(hours=1)
        await world.app.revoke(token)

    with_github(tmp_path, scenario)


@pytest.mark.parametrize("status", [200, 202, 403, 404, 500])
def test_token_that_may_live_on(tmp_path: Path, status: int) -> None:
    async def scenario(world: World) -> None:
        token = await read_token(world)
        world.forge.faults.set(Point.REVOKE, Fault(status, b"{}"))
        error = await failure(world.app.revoke(token))
        assert error.status == status
        assert world.count("DELETE", "/installation/token") == 1
        assert token.value not in told(error)

    with_github(tmp_path, scenario)


def test_repository_by_id(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        token = await read_token(world)
        (before,) = token.repositories
        world.forge.repositories.rename("acme/widget", "acme/Renamed")
        now = await world.app.repository_by_id(before.id, token)
        assert (now.id, str(now.name), now.installation) == (before.id, "acme/Renamed", before.installation)

    with_github(tmp_path, scenario)


def test_repository_out_of_reach(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        token = await read_token(world)
        for repository in (4711, next(iter(world.forge.tokens.minted[0].repositories or ())) + 1):
            error = await failure(world.app.repository_by_id(repository, token))
            assert "out of the GitHub App's reach" in error.sentence
        world.forge.faults.set(Point.REPOSITORY, garbage(b'{"id": 5, "full_name": "acme/widget"}'))
        assert "cannot be understood" in (await failure(world.app.repository_by_id(4711, token))).sentence

    with_github(tmp_path, scenario, "acme/widget", "acme/gadget")


# --- Ancestry -------------------------------------------------------------------------------------


def commits(folder: Path, bare: Path) -> dict[str, str]:
    """A, B after A, C after A, and X without a parent, in the forge's repository."""
    git = new_worktree(folder / "work", str(bare))
    ids = {"A": git.commit(), "B": git.commit(content=b"b")}
    git("checkout", "-q", "-b", "other", ids["A"])
    ids["C"] = git.commit(content=b"c")
    git("checkout", "-q", "--orphan", "lonely")
    ids["X"] = git.commit(content=b"x")
    git("push", "-q", "origin", "--all")
    return ids | {"?": "0" * 39 + "1"}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("A", "B", True),
        ("A", "A", True),
        ("B", "A", False),
        ("B", "C", False),
        ("A", "X", None),
        ("A", "?", None),
        ("?", "A", None),
    ],
)
def test_compare(tmp_path: Path, old: str, new: str, expected: bool | None) -> None:
    async def scenario(world: World) -> None:
        found = world.forge.repositories.find("acme/widget")
        assert found is not None
        ids = commits(tmp_path, found.path)
        token = await read_token(world)
        assert await world.app.compare(token.repositories[0], ids[old], ids[new], token) is expected

    with_github(tmp_path, scenario)


ANSWERS = [
    ("much", garbage(b'{"status": "ahead", "files": "' + b"x" * (1 << 20) + b'"}'), 2),
    ("no JSON", garbage(b"<html>"), 1),
    ("a status to come", garbage(b'{"status": "sideways"}'), 1),
    ("status is a list", garbage(b'{"status": ["ahead"]}'), 1),
    ("trouble", Fault(502, b"{}"), 4),
    ("limit", Fault(429, b"{}", headers={"Retry-After": "3600"}), 2),
    ("no", Fault(403, b"{}"), 1),
    ("bad credentials", Fault(401, b"{}"), 1),
    ("renamed", redirect("/elsewhere"), 1),
    ("cut", Fault(cut_answer=3), 4),
]


@pytest.mark.parametrize(("fault", "asked"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS])
def test_compare_that_says_nothing(tmp_path: Path, fault: Fault, asked: int) -> None:
    async def scenario(world: World) -> None:
        found = world.forge.repositories.find("acme/widget")
        assert found is not None
        ids = commits(tmp_path, found.path)
        token = await read_token(world)
        world.forge.faults.set(Point.COMPARE, fault)
        assert await world.app.compare(token.repositories[0], ids["A"], ids["B"], token) is None
        assert sum("/compare/" in seen.path for seen in world.forge.requests) == asked

    with_github(tmp_path, scenario)


def test_compare_asks_for_a_shorter_answer_when_the_first_is_too_long(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        found = world.forge.repositories.find("acme/widget")
        assert found is not None
        ids = commits(tmp_path, found.path)
        token = await read_token(world)
        world.forge.faults.set(Point.COMPARE, Fault(200, b" " * 4096, repeat=300, times=1))
        assert await world.app.compare(token.repositories[0], ids["A"], ids["B"], token) is True

    with_github(tmp_path, scenario)


def test_gone_names(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        found = world.forge.repositories.find("acme/widget")
        assert found is not None
        ids = commits(tmp_path, found.path)
        git = Git(tmp_path / "work")
        git("checkout", "-q", "-B", "gone", ids["B"])
        git("rm", "-q", "file")
        git("commit", "-q", "-m", "gone")
        git("push", "-q", "origin", "HEAD")
        head = git("rev-parse", "HEAD")
        token = await read_token(world)
        [repository] = token.repositories
        gone = GoneNames(("file",), True)
        assert await world.app.gone_names(repository, ids["B"], head, token) == gone
        assert await world.app.gone_names(repository, "", head, token) == gone
        assert await world.app.gone_names(repository, head, head, token) == GoneNames((), True)
        assert await world.app.gone_names(repository, ids["?"], head, token) is None
        for pair in ((head, "main"), ("main", head), ("", "")):
            with pytest.raises(ValueError, match="full id"):
                await world.app.gone_names(repository, *pair, token)

    with_github(tmp_path, scenario)


@pytest.mark.parametrize(
    "name", ["main", "0" * 39, "A" * 40, "0" * 40 + "\n", "../" + "0" * 40, "evil:" + "0" * 40, ""]
)
def test_compare_takes_full_ids_only(tmp_path: Path, name: str) -> None:
    async def scenario(world: World) -> None:
        token = await read_token(world)
        for pair in ((name, "0" * 40), ("0" * 40, name)):
            with pytest.raises(ValueError, match="full id"):
                await world.app.compare(token.repositories[0], *pair, token)

    with_github(tmp_path, scenario)


# --- What it says when it gets nothing ------------------------------------------------------------


def suspend(world: World) -> None:
    world.forge.repositories.suspend("acme")


def rename(world: World) -> None:
    world.forge.repositories.rename("acme/widget", "acme/new")


def ungrant(world: World) -> None:
    found = world.forge.repositories.find("acme/widget")
    assert found is not None
    found.installed = False


def fault(point: Point, one: Fault) -> Callable[[World], None]:
    return lambda world: world.forge.faults.set(point, one)


def message(status: int, text: str) -> Fault:
    return Fault(status, b'{"message": "' + text.encode() + b'"}')


REFUSALS: list[tuple[str, Callable[[World], None], Ask, str]] = [
    ("suspended", suspend, find, "suspended for acme: an owner can unsuspend it"),
    ("suspended since", suspend, mint, "suspended for acme: an owner can unsuspend it"),
    ("renamed", rename, find, "acme/widget has another name or owner on GitHub by now: write the new one"),
    ("not granted", ungrant, find, "not installed for acme/widget: install it for acme, or add the repository"),
    ("not granted since", ungrant, mint, "not among those of the GitHub App's installation: add it there"),
    ("uninstalled", fault(Point.MINT, Fault(404, b"{}")), mint, "not installed for acme any more"),
    ("permission", fault(Point.MINT, message(422, "The permissions requested are not granted to this installation.")),
     mint, "lacks a permission (contents: read, metadata: read, pull_requests: write): give it"),
    ("signature", fault(Point.FIND, message(401, "A JSON web token could not be decoded")), find, "signature"),
    ("no such App", fault(Point.FIND, message(404, "Integration not found")), find, "check github.app_id"),
    ("no such App any more", fault(Point.MINT, message(404, "Integration not found")), mint, "check github.app_id"),
    ("forbidden", fault(Point.FIND, message(403, "no")), find, "not expected (status 403)"),
    ("teapot", fault(Point.MINT, message(418, "no")), mint, "not expected (status 418)"),
    ("another success", fault(Point.MINT, Fault(200, b"{}")), mint, "not expected (status 200)"),
    ("trouble", fault(Point.MINT, Fault(503, b"{}")), mint, "GitHub is in trouble (status 503)"),
    ("limit", fault(Point.MINT, Fault(429, b"{}")), mint, "rate limit"),
    ("redirected mint", fault(Point.MINT, redirect("/elsewhere", 307)), mint, "not expected (status 307)"),
    ("a page of another site", fault(Point.FIND, Fault(404, b"<html>")), find, "check github.api_url"),
    ("its way to a login", fault(Point.FIND, redirect("/login", 302)), find, "check github.api_url"),
    ("html", fault(Point.FIND, Fault(200, b"<html>")), find, "cannot be understood"),
    ("empty", fault(Point.FIND, Fault(200)), find, "cannot be understood"),
    ("list", fault(Point.FIND, Fault(200, b"[1]")), find, "cannot be understood"),
    ("number as text", fault(Point.FIND, Fault(200, b'{"id": "1"}')), find, "cannot be understood"),
    ("no token", fault(Point.MINT, Fault(201, b'{"expires_at": "x"}')), mint, "cannot be understood"),
    ("too long", fault(Point.FIND, Fault(200, b" " * 1024, repeat=1025)), find, "too long"),
    ("cut", fault(Point.FIND, Fault(cut_answer=5)), find, "the connection to GitHub broke"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("prepare", "ask", "words"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS]
)
def test_refusal_says_what_to_do(
    tmp_path: Path, prepare: Callable[[World], None], ask: Ask, words: str
) -> None:
    async def scenario(world: World) -> None:
        prepare(world)
        error = await failure(ask(world))
        assert words in error.sentence
        assert "http" not in error.sentence
        assert "Bearer" not in told(error)
        assert "eyJ" not in told(error)

    with_github(tmp_path, scenario)


def test_one_of_several_repositories_is_out_of_reach(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        for wrong in ("acme/there-is-none", "acme/gadget"):
            found = world.forge.repositories.find("acme/gadget")
            assert found is not None
            found.installed = False
            with pytest.raises(OutOfReachError):
                await world.app.mint(
                    50_001, kind=TokenKind.READ, permissions=READ, names=[WIDGET, parse_repository(wrong)]
                )

    with_github(tmp_path, scenario, "acme/widget", "acme/gadget")


def test_permission_the_app_does_not_have(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        work = world.app.mint(
            50_001, kind=TokenKind.WRITE, permissions={"workflows": "write"}, names=[WIDGET]
        )
        error = await failure(work)
        assert not isinstance(error, OutOfReachError)
        assert "lacks a permission (workflows: write)" in error.sentence

    with_github(tmp_path, scenario)


@asynccontextmanager
async def app_with(
    folder: Path, key: bytes | str = "", app_id: int | str = 0, shift: timedelta = timedelta()
) -> AsyncIterator[GitHubApp]:
    """The App with another key or number, or on a machine whose clock is off by `shift`, before a forge on time."""
    clock = WallClock()
    clock.now += shift
    forge = Forge(folder)
    forge.create_repository("acme/widget")
    number, pem = forge.create_app()
    async with forge, plain_client() as client:
        yield GitHubApp(forge.api_url, app_id or number, key or pem, client, clock, sleep=Sleeps())


@pytest.mark.parametrize(
    ("shift", "words"),
    [
        (timedelta(minutes=5), "300 seconds ahead of GitHub's"),
        (timedelta(minutes=-20), "1200 seconds behind GitHub's"),
        (timedelta(days=400), "seconds ahead of GitHub's"),
    ],
)
def test_clock_that_is_off(tmp_path: Path, shift: timedelta, words: str) -> None:
    async def scenario() -> str:
        async with app_with(tmp_path, shift=shift) as app:
            return (await failure(app.find(WIDGET))).sentence

    sentence = run(scenario())
    number, rest = words.split(" ", 1)
    assert rest in sentence
    assert "this machine's clock" in sentence
    assert not number.isdigit() or abs(int(sentence.split(" clock is ")[1].split(" ")[0]) - int(number)) < 60


@pytest.mark.parametrize("seconds", [-400, -30, 0, 30])
def test_clock_that_is_off_a_little(tmp_path: Path, seconds: int) -> None:
    async def scenario() -> None:
        async with app_with(tmp_path, shift=timedelta(seconds=seconds)) as app:
            await app.find(WIDGET)

    run(scenario())


def test_key_of_another_app(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with app_with(tmp_path, key=register_app().private_key_pem) as app:
            error = await failure(app.find(WIDGET))
            assert "does github.private_key_file belong to github.app_id?" in error.sentence

    run(scenario())


def test_number_of_another_app(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with app_with(tmp_path, app_id=1) as app:
            assert "check github.app_id" in (await failure(app.find(WIDGET))).sentence

    run(scenario())


@pytest.mark.parametrize(
    "date", ["", "yesterday", "Mon, 01 Jan 99999999999999999999 00:00:00 GMT", "Mon, 99 Jan 2026"]
)
def test_date_that_is_none(tmp_path: Path, date: str) -> None:
    async def scenario(world: World) -> None:
        world.forge.faults.set(Point.FIND, Fault(401, b"{}", headers={"Date": date}))
        assert "signature" in (await failure(find(world))).sentence

    with_github(tmp_path, scenario)


def test_key_that_is_none() -> None:
    async def scenario() -> None:
        async with httpx.AsyncClient() as client:
            with pytest.raises(GatewayError, match="no private key in PEM form") as caught:
                GitHubApp("http://127.0.0.1:1", 1, "no key", client, WallClock())
            assert caught.value.hint

    run(scenario())


# --- Tokens that were not asked for ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("permissions", "repositories", "words"),
    [
        ({**READ, "contents": "write"}, None, "other permissions"),
        ({**READ, "administration": "write"}, None, "other permissions"),
        ({"metadata": "read"}, None, "other permissions"),
        (None, ("acme/widget", "acme/gadget"), "other repositories"),
        (None, ("acme/gadget",), "other repositories"),
        (None, (), "other repositories"),
    ],
)
def test_other_token_than_asked_for(
    tmp_path: Path, permissions: dict[str, str] | None, repositories: tuple[str, ...] | None, words: str
) -> None:
    async def scenario(world: World) -> None:
        world.forge.faults.echo_permissions = permissions
        world.forge.faults.echo_repositories = repositories
        with pytest.raises(UnwantedTokenError, match=words) as caught:
            await mint(world)
        (minted,) = world.forge.tokens.live
        assert caught.value.token.value == minted.value
        assert minted.value not in told(caught.value)
        await world.app.revoke(caught.value.token)
        assert world.forge.tokens.live == ()

    with_github(tmp_path, scenario, "acme/widget", "acme/gadget")


@pytest.mark.parametrize(
    ("scope", "permissions"),
    [
        ({}, READ),
        ({"names": [], "ids": []}, READ),
        ({"names": [WIDGET], "ids": [7]}, READ),
        ({"names": [WIDGET]}, {}),
        ({"names": names("acme/widget", "other/widget")}, READ),
        ({"ids": list(range(1, MAX_REPOSITORIES + 2))}, READ),
    ],
)
def test_request_that_github_would_take_for_everything(
    tmp_path: Path, scope: dict[str, list[object]], permissions: dict[str, str]
) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(ValueError, match=r"repositories|owner"):
            await world.app.mint(50_001, kind=TokenKind.READ, permissions=permissions, **scope)  # type: ignore[arg-type]  # the mix of both is the point
        assert world.minted == 0

    with_github(tmp_path, scenario, "acme/widget")


def test_most_repositories_of_one_token_fit_the_answer(tmp_path: Path) -> None:
    """GitHub describes a repository in about six kilobytes."""

    async def scenario(world: World) -> None:
        many = names(*(f"acme/repository-{number}" for number in range(MAX_REPOSITORIES)))
        described = [
            f'{{"id": {number}, "full_name": "{name}", "description": "{"x" * 8000}"}}'
            for number, name in enumerate(many, start=1)
        ]
        expires = (world.clock.now + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = (
            f'{{"token": "ghs_x", "expires_at": "{expires}", "permissions": {{"contents": "read"}}, '
            f'"repositories": [{", ".join(described)}]}}'
        )
        world.forge.faults.set(Point.MINT, Fault(201, body.encode()))
        token = await world.app.mint(
            50_001, kind=TokenKind.READ, permissions={"contents": "read"}, names=many
        )
        assert token.names == tuple(map(str, many))

    with_github(tmp_path, scenario)


def test_repositories_are_told_apart_by_number(tmp_path: Path) -> None:
    """Somebody else's new repository under the old name is not what the session opened with."""

    async def scenario(world: World) -> None:
        (before,) = (await read_token(world)).repositories
        world.forge.repositories.rename("acme/widget", "acme/moved")
        world.forge.repositories.rename("acme/gadget", "acme/widget")
        token = await world.app.mint(
            before.installation, kind=TokenKind.WRITE, permissions=WRITE, ids=[before.id]
        )
        assert token.repositories == (
            Repository(before.id, parse_repository("acme/moved"), before.installation),
        )

    with_github(tmp_path, scenario, "acme/widget", "acme/gadget")
