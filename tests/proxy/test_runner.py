"""Coroutines that are resumed inside the event they wait for: order, failing, cancelling, futures as in any task."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gateway.proxy.runner import Runner, Wait, run


def alone(scenario: Callable[[], Awaitable[None]]) -> None:
    """Runs a scenario on a loop of its own, whose turns are the scenario's to give."""

    async def start() -> None:
        await scenario()

    asyncio.run(start())


class Work:
    """A coroutine that waits `count` times; `steps` says how far it has come, `waits` what it waits for."""

    def __init__(self, count: int = 2) -> None:
        self.steps: list[str] = []
        self.waits: list[Wait] = []
        self._count = count

    async def run(self) -> None:
        try:
            for number in range(self._count):
                self.steps.append(f"wait {number}")
                self.waits.append(Wait())
                await self.waits[-1]
            self.steps.append("end")
        except BaseException as error:
            self.steps.append(type(error).__name__)
            raise


def test_goes_on_inside_the_event() -> None:
    """`resume` returns when the coroutine waits again, or is done."""

    async def scenario() -> None:
        work = Work()
        runner = run(work.run(), asyncio.get_running_loop())
        assert (work.steps, runner.done) == (["wait 0"], False)
        work.waits[0].resume()
        assert (work.steps, runner.done) == (["wait 0", "wait 1"], False)
        work.waits[1].resume()
        assert (work.steps, runner.done) == (["wait 0", "wait 1", "end"], True)

    alone(scenario)


def test_is_resumed_once() -> None:
    """A wait that is over does nothing any more, also when the coroutine waits for something else by then."""

    async def scenario() -> None:
        work = Work()
        runner = run(work.run(), asyncio.get_running_loop())
        work.waits[0].resume()
        work.waits[0].resume()
        work.waits[0].fail(OSError())
        assert (work.steps, runner.done) == (["wait 0", "wait 1"], False)
        runner.cancel()

    alone(scenario)


def test_wait_that_is_over_before_it_is_awaited() -> None:
    async def scenario() -> None:
        seen: list[str] = []

        async def work() -> None:
            wait = Wait()
            wait.resume()
            await wait
            seen.append("went on")
            wait = Wait()
            wait.fail(OSError("broken"))
            with pytest.raises(OSError, match="broken"):
                await wait
            seen.append("failed")

        assert run(work(), asyncio.get_running_loop()).done
        assert seen == ["went on", "failed"]

    alone(scenario)


def test_failure_arrives_where_it_is_waited_for() -> None:
    async def scenario() -> None:
        work = Work()
        seen: list[BaseException] = []

        async def begin() -> None:
            try:
                await work.run()
            except OSError as error:
                seen.append(error)

        runner = run(begin(), asyncio.get_running_loop())
        failure = OSError("broken")
        work.waits[0].fail(failure)
        assert (work.steps, seen, runner.done) == (["wait 0", "OSError"], [failure], True)

    alone(scenario)


def test_future_as_in_any_task() -> None:
    """One turn of the loop later."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()
        seen: list[object] = []

        async def work() -> None:
            seen.append(await future)
            await asyncio.sleep(0)
            seen.append("turn")
            seen.append(await asyncio.gather(*(asyncio.sleep(0, number) for number in range(3))))

        runner = run(work(), loop)
        future.set_result(7)
        assert seen == []
        await runner.join()
        assert seen == [7, "turn", [0, 1, 2]]

    alone(scenario)


def test_future_that_fails() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()
        seen: list[str] = []

        async def work() -> None:
            try:
                await future
            except ValueError as error:
                seen.append(str(error))

        runner = run(work(), loop)
        future.set_exception(ValueError("broken"))
        await runner.join()
        assert seen == ["broken"]

    alone(scenario)


def test_cancelling_at_a_wait() -> None:
    async def scenario() -> None:
        work = Work()
        runner = run(work.run(), asyncio.get_running_loop())
        runner.cancel()
        assert (work.steps, runner.done) == (["wait 0", "CancelledError"], True)
        runner.cancel()
        work.waits[0].resume()
        assert work.steps == ["wait 0", "CancelledError"]

    alone(scenario)


def test_cancelling_at_a_future() -> None:
    """What it waited for is cancelled too, and does not resume it afterwards."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()
        seen: list[str] = []

        async def work() -> None:
            try:
                await future
            finally:
                seen.append("clean up")
                await asyncio.sleep(0)
                seen.append("cleaned up")

        runner = run(work(), loop)
        runner.cancel()
        assert future.cancelled()
        assert (seen, runner.done) == (["clean up"], False)
        await runner.join()
        assert seen == ["clean up", "cleaned up"]

    alone(scenario)


def test_cancelling_while_it_runs() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        seen: list[str] = []
        waits: list[Wait] = []

        async def work() -> None:
            waits.append(Wait())
            await waits[0]
            runner.cancel()
            seen.append("went on")
            await Wait()
            seen.append("never")

        runner = run(work(), loop)
        waits[0].resume()
        assert (seen, runner.done) == (["went on"], False)
        await asyncio.sleep(0)
        assert (seen, runner.done) == (["went on"], True)

    alone(scenario)


def test_runner_inside_a_runner() -> None:
    """Each waits for its own; the outer one is resumed by what the inner one does."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        seen: list[str] = []
        waits: dict[str, Wait] = {}

        async def inner() -> None:
            waits["inner"] = Wait()
            await waits["inner"]
            seen.append("inner")
            waits["outer"].resume()

        async def outer() -> None:
            run(inner(), loop)
            waits["outer"] = Wait()
            await waits["outer"]
            seen.append("outer")

        runner = run(outer(), loop)
        waits["inner"].resume()
        assert (seen, runner.done) == (["inner", "outer"], True)

    alone(scenario)


def test_wait_in_a_task() -> None:
    """Outside of a runner a wait is an ordinary future."""

    async def scenario() -> None:
        wait = Wait()

        async def resume() -> None:
            wait.resume()

        task = asyncio.ensure_future(resume())
        await wait
        await task
        wait = Wait()
        wait_task = asyncio.ensure_future(_await(wait))
        await asyncio.sleep(0)
        wait.fail(OSError("broken"))
        with pytest.raises(OSError, match="broken"):
            await wait_task

    alone(scenario)


async def _await(wait: Wait) -> None:
    await wait


def test_error_that_nobody_catches() -> None:
    """The coroutine must not raise; where it does all the same, whoever resumed it hears of it, and it is over."""

    async def scenario() -> None:
        async def work() -> None:
            raise RuntimeError("broken")

        runner = Runner(work(), asyncio.get_running_loop())
        with pytest.raises(RuntimeError, match="broken"):
            runner.step()
        assert runner.done
        await runner.join()

    alone(scenario)


def test_joining() -> None:
    async def scenario() -> None:
        work = Work(1)
        loop = asyncio.get_running_loop()
        runner = run(work.run(), loop)
        loop.call_soon(work.waits[0].resume)
        await runner.join()
        await runner.join()
        assert work.steps == ["wait 0", "end"]

    alone(scenario)


def test_cleaning_up_is_not_disturbed() -> None:
    """What was waited for when the coroutine was cancelled does not resume what it waits for afterwards."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        seen: list[str] = []
        waits = [Wait(), Wait()]

        async def work() -> None:
            try:
                await waits[0]
            finally:
                await waits[1]
                seen.append("cleaned up")

        runner = run(work(), loop)
        runner.cancel()
        waits[0].resume()
        waits[0].fail(OSError("late"))
        assert (seen, runner.done) == ([], False)
        waits[1].resume()
        assert (seen, runner.done) == (["cleaned up"], True)

    alone(scenario)


def test_future_that_is_done_when_it_is_cancelled() -> None:
    """Its news is under way already, and must not pass for that of the next one."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        first, second = loop.create_future(), loop.create_future()
        seen: list[object] = []

        async def work() -> None:
            try:
                seen.append(await first)
            finally:
                seen.append(await second)

        runner = run(work(), loop)
        first.set_result("first")
        runner.cancel()
        for _ in range(3):
            await asyncio.sleep(0)
        assert (seen, runner.done) == ([], False)
        second.set_result("second")
        await runner.join()
        assert seen == ["second"]

    alone(scenario)


def test_cancelling_before_the_first_step() -> None:
    async def scenario() -> None:
        seen: list[str] = []

        async def work() -> None:
            seen.append("never")

        runner = Runner(work(), asyncio.get_running_loop())
        runner.cancel()
        assert (seen, runner.done) == ([], True)

    alone(scenario)


def test_cancelling_again_while_it_cleans_up() -> None:
    """Interrupts the cleaning up, as with a task."""

    async def scenario() -> None:
        seen: list[str] = []

        async def work() -> None:
            try:
                await Wait()
            finally:
                try:
                    await Wait()
                finally:
                    seen.append("interrupted")

        runner = run(work(), asyncio.get_running_loop())
        runner.cancel()
        assert not runner.done
        runner.cancel()
        assert (seen, runner.done) == (["interrupted"], True)

    alone(scenario)


def test_task_that_is_waited_for() -> None:
    """Its result, its failure; and it is cancelled along."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        seen: list[object] = []

        async def answer(failure: Exception | None) -> str:
            async with asyncio.timeout(600):
                await asyncio.sleep(0)
            if failure is not None:
                raise failure
            return "answer"

        async def work() -> None:
            seen.append(await asyncio.ensure_future(answer(None)))
            try:
                await asyncio.ensure_future(answer(OSError("broken")))
            except OSError as error:
                seen.append(str(error))
            task = asyncio.ensure_future(asyncio.Event().wait())
            seen.append(task)
            await task

        runner = run(work(), loop)
        while len(seen) < 3:
            await asyncio.sleep(0)
        assert seen[:2] == ["answer", "broken"]
        runner.cancel()
        assert runner.done
        task = seen[2]
        assert isinstance(task, asyncio.Task)
        await asyncio.wait([task])
        assert task.cancelled()

    alone(scenario)


def test_future_that_is_cancelled_by_others() -> None:
    """Arrives as a cancellation, as in a task."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        async def work() -> None:
            await future

        runner = run(work(), loop)
        future.cancel()
        await runner.join()
        assert runner.done

    alone(scenario)


def test_wait_made_by_one_and_awaited_by_another() -> None:
    """Whoever awaits it goes on."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        seen: list[str] = []
        made: list[Wait] = []

        async def maker() -> None:
            made.append(Wait())
            await Wait()
            seen.append("maker")

        async def waiter() -> None:
            await made[0]
            seen.append("waiter")

        first, second = run(maker(), loop), run(waiter(), loop)
        made[0].resume()
        assert (seen, first.done, second.done) == (["waiter"], False, True)
        first.cancel()

    alone(scenario)


def test_inner_runner_that_fails_leaves_the_outer_one_in_charge() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        seen: list[str] = []
        waits = [Wait()]

        async def inner() -> None:
            raise RuntimeError("broken")

        async def outer() -> None:
            try:
                run(inner(), loop)
            except RuntimeError:
                seen.append("heard")
            await waits[0]
            seen.append("outer")

        runner = run(outer(), loop)
        assert (seen, runner.done) == (["heard"], False)
        waits[0].resume()
        assert (seen, runner.done) == (["heard", "outer"], True)

    alone(scenario)


def test_late_failure_of_a_wait_that_was_resumed() -> None:
    """In a task, which goes on a turn later: the first word counts."""

    async def scenario() -> None:
        wait = Wait()
        task = asyncio.ensure_future(_await(wait))
        await asyncio.sleep(0)
        wait.resume()
        wait.fail(OSError("late"))
        await task

    alone(scenario)


def test_joining_by_several() -> None:
    """From tasks and runners; one that gives up does not take the others along."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        wait, seen = Wait(), list[str]()

        async def work() -> None:
            await wait

        worker = run(work(), loop)

        async def join(name: str) -> None:
            await worker.join()
            seen.append(name)

        tasks = [asyncio.ensure_future(join(name)) for name in ("one", "two", "given up")]
        joined = run(join("runner"), loop)
        await asyncio.sleep(0)
        tasks[2].cancel()
        await asyncio.sleep(0)
        assert seen == []
        wait.resume()
        await asyncio.wait(tasks)
        await joined.join()
        assert sorted(seen) == ["one", "runner", "two"]

    alone(scenario)
