"""Coroutines resumed inside the event they wait for: order, cancelling, and what else a task can do."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gateway.proxy.runner import Runner, Wait, run


def alone(scenario: Callable[[], Awaitable[None]]) -> None:
    """Runs a scenario on a loop of its own, of which every turn is the scenario's to give."""

    async def start() -> None:
        await scenario()

    asyncio.run(start())


def test_goes_on_inside_the_event() -> None:
    """`resume` returns when the coroutine waits again, or is done."""

    async def scenario() -> None:
        steps: list[int] = []
        waits = [Wait(), Wait()]

        async def work() -> None:
            steps.append(0)
            for number, wait in enumerate(waits, start=1):
                wait.__init__()  # type: ignore[misc]  # made inside the runner, as everywhere
                await wait
                steps.append(number)

        runner = run(work(), asyncio.get_running_loop())
        assert (steps, runner.done) == ([0], False)
        waits[0].resume()
        assert (steps, runner.done) == ([0, 1], False)
        waits[1].resume()
        assert (steps, runner.done) == ([0, 1, 2], True)

    alone(scenario)
