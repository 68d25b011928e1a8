"""What a session gets: read tokens that do not run out, write tokens for one push, and an open door without GitHub."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from gateway.audit import AuditEvent, EventKind
from gateway.credentials.broker import AHEAD, PAUSE, READ, SessionCredentials
from gateway.credentials.github_app import MAX_REPOSITORIES, GitHubApp, GitHubError
from gateway.credentials.token import Repository, Token
from gateway.errors import AuditError
from gateway.forge.faults import Fault, Point
from gateway.proxy.reactor import GatewayLoop
from tests.fakes.github import GADGET, WIDGET, World, github, names, plain_client, run

Scenario = Callable[[World, SessionCredentials], Awaitable[None]]
MINTED, REVOKED, FAILED = ("minted", "read"), ("revoked", "read"), ("mint_failed", "read")
LIFE = timedelta(hours=1)


async def in_world(folder: Path, scenario: Scenario, *repositories: str, **bounds: float) -> None:
    async with github(folder, *repositories) as world:
        credentials = world.credentials(**bounds)
        await scenario(world, credentials)
        await credentials.close()
        assert not world.forge.tokens.live


def with_credentials(folder: Path, scenario: Scenario, *repositories: str, **bounds: float) -> None:
    run(in_world(folder, scenario, *repositories, **bounds))


def known(credentials: SessionCredentials) -> Repository:
    repository = credentials.repository(WIDGET)
    assert repository is not None
    return repository


async def read(credentials: SessionCredentials) -> Token:
    token = await credentials.read_token(WIDGET)
    assert token is not None
    return token


# --- Opening --------------------------------------------------------------------------------------


def test_one_token_per_installation(tmp_path: Path) -> None:
    async def scenario(world: World, credentials: SessionCredentials) -> None:
        assert await credentials.open(names("ACME/widget", "acme/gadget", "other/thing", "acme/WIDGET")) == ()
        assert world.states == [MINTED, MINTED]
        assert sorted(record["repositories"] for record in world.records) == [
            ["acme/widget", "acme/gadget"],
            ["other/thing"],
        ]
        assert all(record["permissions"] == READ for record in world.records)
        assert str(known(credentials).name) == "acme/widget"
        assert await credentials.read_token(WIDGET) is await credentials.read_token(GADGET)
        for name in names("acme/widget", "Acme/Gadget", "other/thing"):
            assert await credentials.read_token(name) is not None
            assert credentials.fault(name) == ""
        assert world.minted == 2

    with_credentials(tmp_path, scenario, "acme/widget", "acme/gadget", "other/thing", "acme/unasked")


def test_repository_that_is_not_the_sessions(tmp_path: Path) -> None:
    async def scenario(world: World, credentials: SessionCredentials) -> None:
        await credentials.open([WIDGET])
        assert credentials.repository(GADGET) is None
        assert await credentials.read_token(GADGET) is None
        assert credentials.fault(GADGET) == "the repository is not one of this session"
        stranger = Repository(known(credentials).id + 1, GADGET, known(credentials).installation)
        with pytest.raises(GitHubError, match="not one of this session"):
            async with credentials.write_token(stranger):
                raise AssertionError("handed out")
        assert world.minted == 1

    with_credentials(tmp_path, scenario, "acme/widget", "acme/gadget")


def test_one_repository_the_app_does_not_have(tmp_path: Path) -> None:
    async def scenario(world: World, credentials: SessionCredentials) -> None:
        notes = await credentials.open([WIDGET, GADGET])
        assert notes == (
            "no GitHub token for acme/gadget: the GitHub App is not installed for acme/gadget: install it for acme, "
            "or add the repository to those of the installation",
        )
        assert credentials.repository(GADGET) is None
        assert credentials.fault(GADGET).startswith("the GitHub App is not installed for acme/gadget")
        assert (await read(credentials)).names == ("acme/widget",)
        assert sorted(world.states) == [FAILED, MINTED]

    with_credentials(tmp_path, scenario)


def test_repository_lost_between_two_questions_takes_no_other_along(tmp_path: Path) -> None:
    async def scenario(world: World, credentials: SessionCredentials) -> None:
        message = b'{"message": "There is at least one repository that does not exist."}'
        world.forge.faults.set(Point.MINT, Fault(422, message, times=1))
        assert await credentials.open([WIDGET, GADGET]) == ()
        assert await read(credentials) is not await credentials.read_token(GADGET)

    with_credentials(tmp_path, scenario, "acme/widget", "acme/gadget")


def test_more_repositories_than_one_token_has(tmp_path: Path) -> None:
    many = [f"acme/r{number}" for number in range(MAX_REPOSITORIES + 1)]

    async def scenario(world: World, credentials: SessionCredentials) -> None:
        assert await credentials.open(names(*many)) == ()
        assert sorted(len(record["repositories"]) for record in world.records) == [1, MAX_REPOSITORIES]
        assert all([await credentials.read_token(name) for name in names(*many)])

    with_credentials(tmp_path, scenario, *many)


def test_no_app(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with github(tmp_path) as world:
            credentials = SessionCredentials(None, world.session, world.log, clock=world.clock)
            assert await credentials.open([WIDGET]) == ()
            assert await credentials.read_token(WIDGET) is None
            assert credentials.repository(WIDGET) is None
            for key in ("github.app_id", "github.private_key_file"):
                assert key in credentials.fault(WIDGET)
            with pytest.raises(GitHubError, match=r"github\.app_id"):
                async with credentials.write_token(Repository(1, WIDGET, 1)):
                    raise AssertionError("handed out")
            assert await credentials.close() == ()

    run(scenario())


def test_github_that_cannot_be_reached(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with github(tmp_path) as world, plain_client() as client:
            app_id, pem = world.forge.create_app()
            nowhere = GitHubApp("http://127.0.0.1:1", app_id, pem, client, world.clock, sleep=world.sleeps)
            credentials = SessionCredentials(nowhere, world.session, world.log, clock=world.clock)
            (note,) = await credentials.open([WIDGET, GADGET])
            assert note.startswith("no GitHub token for acme/widget, acme/gadget: GitHub cannot be reached: ")
            assert credentials.fault(WIDGET) == "GitHub cannot be reached"
            assert world.states == [FAILED, FAILED]
            assert [record["repositories"] for record in world.records] == [["acme/widget"], ["acme/gadget"]]
            assert await credentials.read_token(WIDGET) is None
            assert await credentials.close() == ()

    run(scenario())


def test_github_that_does_not_answer_holds_up_nobody(tmp_path: Path) -> None:
    async def scenario(world: World, credentials: SessionCredentials) -> None:
        world.answers.hold("GET")
        (note,) = await credentials.open([WIDGET])
        assert note == "no GitHub token for acme/widget: GitHub did not answer in time"
        assert credentials.repository(WIDGET) is None
        assert credentials.fault(WIDGET) == "GitHub did not answer in time"
        # What comes later is used all the same, and not asked for twice.
        world.answers.release()
        assert (await read(credentials)).names == ("acme/widget",)
        assert credentials.fault(WIDGET) == ""
        assert (world.count("GET", "/installation"), world.minted) == (1, 1)

    with_credentials(tmp_path, scenario, opening=0.05)


def test_what_was_missing_is_asked_for_again_but_not_all_the_time(tmp_path: Path) -> None:
    async def scenario(world: World, credentials: SessionCredentials) -> None:
        world.forge.repositories.suspend("acme")
        (note,) = await credentials.open([WIDGET])
        assert "suspended" in note
        world.forge.repositories.suspend("acme", suspended=False)
        assert await credentials.read_token(WIDGET) is None
        assert world.count("GET", "/installation") == 1
        world.clock.now += PAUSE
        tokens = await asyncio.gather(*(credentials.read_token(WIDGET) for _ in range(50)))
        assert len(set(tokens)) == 1
        assert tokens[0] is not None
        assert (world.count("GET", "/installation"), world.minted) == (2, 1)
        assert str(known(credentials).name) == "acme/widget"

    with_credentials(tmp_path, scenario)


def test_token_that_cannot_be_recorded_opens_nothing(tmp_path: Path) -> None:
    async def scenario(world: World, credentials: SessionCredentials) -> None:
        world.break_log()
        with pytest.raises(AuditError):
            await credentials.open([WIDGET, *names("other/thing")])
        assert len(world.forge.tokens.minted) == 2
        assert not world.forge.tokens.live
        assert credentials.repository(WIDGET) is None

    with_credentials(tmp_path, scenario, "acme/widget", "other/thing")


def test_opening_that_is_cancelled_leaves_no_token(tmp_path: Path) -> None:
    async def scenario(world: World, credentials: SessionCredentials) -> None:
        world.answers.hold("POST")
        opening = asyncio.create_task(credentials.open([WIDGET]))
        await world.answers.arrived()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert len(world.forge.tokens.live) == 1
        world.answers.release()
        assert await credentials.close() == ()
        assert not world.forge.tokens.live

    with_credentials(tmp_path, scenario)


def test_other_token_than_asked_for_is_no_token(tmp_path: Path) -> None:
    async def scenario(world: World, credentials: SessionCredentials) -> None:
        world.forge.faults.echo_permissions = {"contents": "write", "metadata": "read"}
        (note,) = await credentials.open([WIDGET])
        assert "other permissions than those asked for" in note
        assert credentials.repository(WIDGET) is None
        assert not world.forge.tokens.live

    with_credentials(tmp_path, scenario)


# --- Reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("left", "renewed"), [(AHEAD + timedelta(seconds=1), False), (AHEAD, True)])
def test_renewed_minutes_ahead(tmp_path: Path, left: timedelta, renewed: bool) -> None:
    async def scenario(world: World, credentials: SessionCredentials) -> None:
        await credentials.open([WIDGET])
        first = await read(credentials)
        world.clock.now = first.expires - left
        second = await read(credentials)
        assert (second is not first) is renewed
        assert second.expires == (world.clock.now + LIFE if renewed else first.expires)
        # A process that already runs holds the first one.
        assert first.value in {token.value for token in world.forge.tokens.live}

    with_credentials(tmp_path, scenario)


def test_fifty_that_wait_cause_one_mint(tmp_path: Path) -> None:
    async def scenario(world: World, credentials: SessionCredentials) -> None:
        await credentials.open([WIDGET, GADGET])
        world.clock.now += LIFE - AHEAD
        world.answers.hold("POST")
        waiting = [asyncio.create_task(credentials.read_token(name)) for name in [WIDGET, GADGET] * 25]
        await world.answers.arrived()
        for task in waiting[:10]:
            task.cancel()
        world.answers.release()
        tokens = await asyncio.gather(*waiting, return_exceptions=True)
        assert sum(isinstance(token, asyncio.CancelledError) for token in tokens) == 10
        assert len(set(tokens[10:])) == 1
        assert world.minted == 2

    with_credentials(tmp_path, scenario, "acme/widget", "acme/gadget")


def test_old_token_serves_until_it_expires(tmp_path: Path) -> None:
    async def scenario(world: World, credentials: SessionCredentials) -> None:
        await credentials.open([WIDGET])
        first = await read(credentials)
        world.forge.faults.set(Point.MINT, Fault(418, b"{}"))
        world.clock.now = first.expires - AHEAD
        assert {await read(credentials) for _ in range(3)} == {first}
        assert credentials.fault(WIDGET) == ""
        assert world.minted == 2
        world.clock.now = first.expires - timedelta(seconds=1)
        assert await read(credentials) is first
        world.clock.now = first.expires
        assert await credentials.read_token(WIDGET) is None
        assert "not expected (status 418)" in credentials.fault(WIDGET)
        assert known(credentials)
        world.forge.faults.set(Point.MINT, None)
        world.clock.now += PAUSE
        assert await read(credentials) is not first
        assert credentials.fault(WIDGET) == ""
        assert [state for state, _ in world.states].count("mint_failed") == 2

    with_credentials(tmp_path, scenario)


def test_repository_taken_from_the_app_takes_no_other_along(tmp_path: Path) -> None:
    async def scenario(world: World, credentials: SessionCredentials) -> None:
        await credentials.open([WIDGET, GADGET])
        lost = world.forge.repositories.find("acme/gadget")
        assert lost is not None
        lost.installed = False
        world.clock.now += LIFE
        assert (await read(credentials)).names == ("acme/widget",)
        assert await credentials.read_token(GADGET) is None
        assert "not among those of the GitHub App's installation" in credentials.fault(GADGET)

    with_credentials(tmp_path, scenario, "acme/widget", "acme/gadget")


def test_renamed_repository_is_still_the_same(tmp_path: Path) -> None:
    async def scenario(world: World, credentials: SessionCredentials) -> None:
        await credentials.open([WIDGET])
        before = known(credentials)
        world.forge.repositories.rename("acme/widget", "acme/renamed")
        world.forge.repositories.rename("acme/gadget", "acme/widget")
        world.clock.now += LIFE
        assert (await read(credentials)).names == ("acme/renamed",)
        now = known(credentials)
        assert (now.id, str(now.name)) == (before.id, "acme/renamed")
        async with credentials.write_token(before) as token:
            assert token.names == ("acme/renamed",)

    with_credentials(tmp_path, scenario, "acme/widget", "acme/gadget")


def test_renewal_that_cannot_be_recorded(tmp_path: Path) -> None:
    async def scenario(world: World, credentials: SessionCredentials) -> None:
        await credentials.open([WIDGET])
        first = await read(credentials)
        world.clock.now += LIFE - AHEAD
        world.break_log()
        with pytest.raises(AuditError):
            await credentials.read_token(WIDGET)
        assert [token.value for token in world.forge.tokens.live] == [first.value]

    with_credentials(tmp_path, scenario)


# --- Writing and closing --------------------------------------------------------------------------


def test_write_token(tmp_path: Path) -> None:
    async def scenario(world: World, credentials: SessionCredentials) -> None:
        await credentials.open([WIDGET, GADGET])
        async with credentials.write_token(known(credentials)) as token:
            minted = world.forge.tokens.minted[-1]
            assert (minted.value, minted.repositories) == (token.value, frozenset({known(credentials).id}))
            assert minted.permissions == {"contents": "write", "metadata": "read"}
            assert world.states[-1] == ("minted", "write")
        assert world.states[-1] == ("revoked", "write")
        assert minted.revoked
        assert token.value not in world.log.path.read_text()

    with_credentials(tmp_path, scenario, "acme/widget", "acme/gadget")


def test_each_push_has_a_token_of_its_own(tmp_path: Path) -> None:
    async def scenario(world: World, credentials: SessionCredentials) -> None:
        await credentials.open([WIDGET])
        repository = known(credentials)
        async with credentials.write_token(repository) as one, credentials.write_token(repository) as other:
            assert one.value != other.value
        assert world.states.count(("revoked", "write")) == 2

    with_credentials(tmp_path, scenario)


def test_close_revokes_all(tmp_path: Path) -> None:
    async def scenario(world: World, credentials: SessionCredentials) -> None:
        await credentials.open([WIDGET, *names("other/thing")])
        world.clock.now += LIFE - AHEAD
        await credentials.read_token(WIDGET)
        assert len(world.forge.tokens.live) == 3
        assert await credentials.close() == ()
        assert not world.forge.tokens.live
        assert world.states.count(MINTED) == world.states.count(REVOKED) == 3
        assert await credentials.read_token(WIDGET) is None
        assert await credentials.close() == ()

    with_credentials(tmp_path, scenario, "acme/widget", "other/thing")


def test_close_names_what_lives_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with github(tmp_path) as world:
            credentials = world.credentials(revoking=0.05)
            await credentials.open([WIDGET])
            world.forge.faults.set(Point.REVOKE, Fault(stall=True))
            (line,) = await credentials.close()
            assert line.startswith(
                "a GitHub token (read) for acme/widget could not be revoked; it ends by itself at "
            )

    run(scenario())


def test_in_the_gateways_own_loop(tmp_path: Path) -> None:
    async def scenario(world: World, credentials: SessionCredentials) -> None:
        await credentials.open([WIDGET])
        async with credentials.write_token(known(credentials)):
            assert len(world.forge.tokens.live) == 2

    with asyncio.Runner(loop_factory=GatewayLoop) as runner:
        runner.run(in_world(tmp_path, scenario))


def test_no_record_and_no_line_holds_a_token(tmp_path: Path) -> None:
    """Both formats; also the long one, of which a shorter pattern would leave the tail."""

    async def scenario(world: World, credentials: SessionCredentials) -> None:
        for stateless in (False, True):
            world.forge.faults.stateless = stateless
            await credentials.open([GADGET if stateless else WIDGET])
            async with credentials.write_token(known(credentials)) as token:
                # Whoever writes one into a record by mistake.
                world.log.append(
                    AuditEvent(EventKind.TOKEN, {"reason": f"{token} {token.value} {token.basic()}"})
                )
        text = world.log.path.read_text()
        for minted in world.forge.tokens.minted:
            assert minted.value not in text
            assert minted.value[-20:] not in text

    with_credentials(tmp_path, scenario, "acme/widget", "acme/gadget")
