"""A token's life: recorded before anybody has it, revoked whatever happens to those that wait for it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.credentials.broker import READ, WRITE
from gateway.credentials.github_app import GitHubError, UnwantedTokenError
from gateway.credentials.ledger import Ledger, settled
from gateway.credentials.token import Repository, TokenKind
from gateway.errors import AuditError
from gateway.forge.faults import Fault, Point
from tests.fakes.github import PATIENCE, WIDGET, World, github, run, told

MINTED, REVOKED, FAILED = ("minted", "write"), ("revoked", "write"), ("revoke_failed", "write")
STALL = Fault(stall=True)


def with_ledger(
    folder: Path, scenario: Callable[[World, Ledger, Repository], Awaitable[None]], **bounds: float
) -> None:
    """A ledger for a forge where nothing was minted yet, and a repository as GitHub knows it."""

    async def ask() -> None:
        async with github(folder) as world:
            ledger = Ledger(
                world.app, world.session, world.log, clock=world.clock, sleep=world.sleeps, **bounds
            )
            found = world.forge.repositories.find("acme/widget")
            assert found is not None
            await scenario(world, ledger, Repository(found.id, WIDGET, await world.app.find(WIDGET)))
            await ledger.close()

    run(ask())


def test_records(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        async with ledger.lend(repository, WRITE) as token:
            assert len(world.forge.tokens.live) == 1
            (minted,) = world.records
        minted, revoked = world.records
        common = {
            "kind": "write",
            "repositories": ["acme/widget"],
            "permissions": {"contents": "write", "metadata": "read"},
            "expires": token.expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "session": "s1",
        }
        assert common.items() <= minted.items()
        assert common.items() <= revoked.items()
        assert (minted["state"], revoked["state"]) == ("minted", "revoked")
        assert dict(world.log.metrics.tokens) == {"minted": 1, "revoked": 1}
        assert "reason" not in minted | revoked
        assert token.value not in world.log.path.read_text()
        assert not world.forge.tokens.live

    with_ledger(tmp_path, scenario)


def test_revoked_when_the_block_fails(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        with pytest.raises(ZeroDivisionError):
            async with ledger.lend(repository, WRITE):
                raise ZeroDivisionError
        assert world.states == [MINTED, REVOKED]
        assert not world.forge.tokens.live

    with_ledger(tmp_path, scenario)


def test_token_that_cannot_be_recorded_is_revoked_and_not_handed_out(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        world.break_log()
        with pytest.raises(AuditError) as caught:
            async with ledger.lend(repository, WRITE):
                raise AssertionError("handed out")
        assert len(world.forge.tokens.minted) == 1
        assert not world.forge.tokens.live
        assert world.forge.tokens.minted[0].value not in told(caught.value)

    with_ledger(tmp_path, scenario)


def test_log_that_breaks_later_keeps_no_token_alive(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        async with ledger.lend(repository, WRITE) as token:
            world.break_log()
        assert not world.forge.tokens.live
        assert "the end of a token is not in the audit log" in caplog.text
        assert token.value not in caplog.text

    with_ledger(tmp_path, scenario)


def test_other_token_than_asked_for_is_revoked_and_recorded(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        world.forge.faults.echo_permissions = {"contents": "write", "administration": "write"}
        with pytest.raises(UnwantedTokenError):
            async with ledger.lend(repository, WRITE):
                raise AssertionError("handed out")
        assert not world.forge.tokens.live
        assert world.states == [MINTED, REVOKED]
        assert world.records[0]["permissions"] == {"contents": "write", "administration": "write"}
        assert "other permissions" in world.records[0]["reason"]

    with_ledger(tmp_path, scenario)


def test_other_token_is_revoked_even_unrecorded(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        world.forge.faults.echo_repositories = ()
        world.break_log()
        with pytest.raises(AuditError):
            async with ledger.lend(repository, WRITE):
                raise AssertionError("handed out")
        assert len(world.forge.tokens.minted) == 1
        assert not world.forge.tokens.live

    with_ledger(tmp_path, scenario)


def test_repository_with_another_owner_gets_no_token(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        world.forge.create_repository("evil/other")
        world.forge.faults.set(Point.MINT, None)
        transferred = Repository(repository.id, WIDGET, repository.installation + 1)
        world.forge.repositories.rename("acme/widget", "evil/widget")
        with pytest.raises(GitHubError, match="acme/widget belongs to another owner by now: evil/widget"):
            async with ledger.lend(transferred, WRITE):
                raise AssertionError("handed out")
        assert world.states == [MINTED, REVOKED]
        assert not world.forge.tokens.live

    with_ledger(tmp_path, scenario)


def test_renamed_repository_is_told_under_its_name_of_now(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        world.forge.repositories.rename("acme/widget", "acme/Renamed")
        async with ledger.lend(repository, WRITE) as token:
            assert token.names == ("acme/Renamed",)
            assert token.repositories[0].id == repository.id

    with_ledger(tmp_path, scenario)


def test_refused_mint_is_recorded(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        world.forge.repositories.suspend("acme")
        with pytest.raises(GitHubError, match="suspended"):
            async with ledger.lend(repository, WRITE):
                raise AssertionError("handed out")
        (record,) = world.records
        assert (record["state"], record["kind"], record["repositories"]) == (
            "mint_failed",
            "write",
            ["acme/widget"],
        )
        assert (record["permissions"], record["expires"]) == ({"contents": "write"}, None)
        assert "suspended" in record["reason"]

    with_ledger(tmp_path, scenario)


# --- Revoking -------------------------------------------------------------------------------------


def test_revoking_is_tried_again(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        world.forge.faults.set(Point.REVOKE, Fault(502, b"{}", times=2))
        async with ledger.lend(repository, WRITE):
            pass
        assert world.states == [MINTED, REVOKED]
        assert world.sleeps.asked == [0.5, 1.0]
        assert not world.forge.tokens.live

    with_ledger(tmp_path, scenario)


def test_revoking_that_fails_is_recorded_and_done_at_the_end(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        world.forge.faults.set(Point.REVOKE, Fault(502, b"{}", times=3))
        async with ledger.lend(repository, WRITE):
            pass
        assert world.states == [MINTED, FAILED]
        assert "GitHub is in trouble (status 502)" in world.records[1]["reason"]
        assert await ledger.close() == ()
        assert world.states == [MINTED, FAILED, REVOKED]
        assert not world.forge.tokens.live

    with_ledger(tmp_path, scenario)


def test_what_cannot_be_revoked_is_told(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        world.forge.faults.set(Point.REVOKE, Fault(502, b"{}"))
        async with ledger.lend(repository, WRITE) as token:
            pass
        (line,) = await ledger.close()
        assert "(write) for acme/widget could not be revoked" in line
        assert token.expires.strftime("%Y-%m-%dT%H:%M:%SZ") in line
        assert token.value not in line
        assert await ledger.close() == (line,)
        world.clock.advance(hours=1)
        assert await ledger.close() == ()

    with_ledger(tmp_path, scenario)


def test_revoking_has_a_deadline(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        world.forge.faults.set(Point.REVOKE, STALL)
        async with ledger.lend(repository, WRITE):
            pass
        assert world.states == [MINTED, FAILED]
        assert world.records[1]["reason"] == "GitHub did not answer in time"
        assert len(await ledger.close()) == 1

    with_ledger(tmp_path, scenario, revoking=0.05)


def test_token_that_expired_meanwhile_is_dead(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        world.forge.faults.set(Point.REVOKE, Fault(502, b"{}"))
        async with ledger.lend(repository, WRITE):
            world.clock.advance(hours=1)
        assert world.states == [MINTED, REVOKED]
        assert await ledger.close() == ()

    with_ledger(tmp_path, scenario)


# --- Cancelling -----------------------------------------------------------------------------------


async def hold(ledger: Ledger, repository: Repository, inside: asyncio.Event) -> None:
    """A push that lasts until it is cancelled."""
    async with ledger.lend(repository, WRITE):
        inside.set()
        async with asyncio.timeout(PATIENCE):
            await asyncio.Event().wait()


async def cancelled(task: "asyncio.Task[Any]") -> None:
    with pytest.raises(asyncio.CancelledError):
        await task


def test_cancelled_block(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        inside = asyncio.Event()
        task = asyncio.create_task(hold(ledger, repository, inside))
        await inside.wait()
        task.cancel()
        await cancelled(task)
        assert world.states == [MINTED, REVOKED]
        assert not world.forge.tokens.live

    with_ledger(tmp_path, scenario)


def test_cancelled_again_while_revoking(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        inside = asyncio.Event()
        task = asyncio.create_task(hold(ledger, repository, inside))
        await inside.wait()
        world.answers.hold("DELETE")
        task.cancel()
        await world.answers.arrived()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        world.answers.release()
        await cancelled(task)
        assert world.states == [MINTED, REVOKED]

    with_ledger(tmp_path, scenario)


def test_token_that_arrives_after_its_push_was_cancelled(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        world.answers.hold("POST")
        task = asyncio.create_task(hold(ledger, repository, asyncio.Event()))
        await world.answers.arrived()
        task.cancel()
        await cancelled(task)
        assert len(world.forge.tokens.live) == 1
        world.answers.release()
        assert await ledger.close() == ()
        assert not world.forge.tokens.live
        assert world.states == [MINTED, REVOKED]

    with_ledger(tmp_path, scenario)


def test_the_same_with_nobody_closing(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        world.answers.hold("POST")
        task = asyncio.create_task(hold(ledger, repository, asyncio.Event()))
        await world.answers.arrived()
        task.cancel()
        await cancelled(task)
        world.answers.release(watch="DELETE")
        await world.answers.arrived()
        assert not world.forge.tokens.live

    with_ledger(tmp_path, scenario)


@pytest.mark.parametrize("steps", range(12))
def test_cancelled_at_any_moment(tmp_path: Path, steps: int) -> None:
    """Wherever a push is when it is cancelled, no token is left, and each that was made is recorded twice."""

    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        inside = asyncio.Event()
        task = asyncio.create_task(hold(ledger, repository, inside))
        for _ in range(1 << steps):
            if inside.is_set():
                break
            await asyncio.sleep(0)
        task.cancel()
        await cancelled(task)
        assert await ledger.close() == ()
        assert not world.forge.tokens.live
        states = [state for state, _ in world.states]
        assert states in ([], ["minted", "revoked"])
        assert len(world.forge.tokens.minted) == len(states) // 2

    with_ledger(tmp_path, scenario)


# --- Closing --------------------------------------------------------------------------------------


def test_close_takes_a_running_push_its_token(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        async with ledger.lend(repository, WRITE):
            assert await ledger.close() == ()
            assert not world.forge.tokens.live
        assert world.states == [MINTED, REVOKED]

    with_ledger(tmp_path, scenario)


def test_nothing_is_minted_after_close(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        await ledger.close()
        with pytest.raises(GitHubError, match="the session has ended"):
            async with ledger.lend(repository, WRITE):
                raise AssertionError("handed out")
        with pytest.raises(GitHubError, match="the session has ended"):
            await ledger.mint_for_names(repository.installation, [WIDGET], READ)
        assert world.minted == 0

    with_ledger(tmp_path, scenario)


def test_close_while_a_token_is_on_its_way(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        world.answers.hold("POST")
        push = asyncio.create_task(hold(ledger, repository, asyncio.Event()))
        await world.answers.arrived()
        close = asyncio.create_task(ledger.close())
        await asyncio.sleep(0)
        world.answers.release()
        with pytest.raises(GitHubError, match="the session has ended"):
            await push
        assert await close == ()
        assert not world.forge.tokens.live
        assert world.states == [MINTED, REVOKED]

    with_ledger(tmp_path, scenario)


def test_close_does_not_wait_for_ever(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        world.answers.hold("POST")
        push = asyncio.create_task(hold(ledger, repository, asyncio.Event()))
        await world.answers.arrived()
        assert await ledger.close() == ()
        with pytest.raises(GitHubError, match="the session has ended"):
            await push

    with_ledger(tmp_path, scenario, arriving=0.05)


def test_cancelled_close_goes_on(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        token = await ledger.mint_for((repository,), TokenKind.READ, READ)
        world.answers.hold("DELETE")
        close = asyncio.create_task(ledger.close())
        await world.answers.arrived()
        close.cancel()
        await asyncio.sleep(0)
        assert not close.done()
        world.answers.release()
        await cancelled(close)
        assert not world.forge.tokens.live
        assert world.states == [("minted", "read"), ("revoked", "read")]
        assert token.kind is TokenKind.READ

    with_ledger(tmp_path, scenario)


def test_two_that_end_one_token_ask_once(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        token = await ledger.mint_for((repository,), TokenKind.READ, READ)
        await asyncio.gather(ledger.end(token), ledger.end(token))
        await ledger.end(token)
        assert world.count("DELETE", "/installation/token") == 1

    with_ledger(tmp_path, scenario)


def test_expired_tokens_are_forgotten(tmp_path: Path) -> None:
    async def scenario(world: World, ledger: Ledger, repository: Repository) -> None:
        await ledger.mint_for((repository,), TokenKind.READ, READ)
        world.clock.advance(hours=2)
        ledger.forget_expired()
        assert await ledger.close() == ()
        assert world.count("DELETE", "/installation/token") == 0

    with_ledger(tmp_path, scenario)


# --- settled --------------------------------------------------------------------------------------


def test_settled_gives_result_or_error() -> None:
    async def give() -> int:
        await asyncio.sleep(0)
        return 7

    async def fail() -> int:
        raise ZeroDivisionError

    async def scenario() -> None:
        assert await settled(asyncio.ensure_future(give())) == 7
        with pytest.raises(ZeroDivisionError):
            await settled(asyncio.ensure_future(fail()))

    run(scenario())


def test_settled_is_cancelled_after_the_end() -> None:
    async def scenario() -> None:
        over = asyncio.Event()
        inner = asyncio.ensure_future(over.wait())
        outer = asyncio.ensure_future(settled(inner))
        await asyncio.sleep(0)
        outer.cancel()
        await asyncio.sleep(0)
        assert not outer.done()
        over.set()
        await cancelled(outer)
        assert inner.result() is True

    run(scenario())
