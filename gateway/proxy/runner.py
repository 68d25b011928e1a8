"""Runs a connection's coroutine and resumes it inside the event that it waits for.

An asyncio task is resumed one turn of the loop after its event, which costs as much as the work itself. What a
coroutine awaits here is either a `Wait`, resumed by whoever holds it, or an asyncio future, as in any task.
"""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any

_current: "Runner | None" = None


class Wait:
    """One suspension: `await` it, and somebody calls `resume` or `fail` once. Both do nothing when it is over."""

    __slots__ = ("_failure", "_future", "_over", "_runner")

    def __init__(self) -> None:
        self._runner: Runner | None = None
        self._future: asyncio.Future[None] | None = None
        self._failure: BaseException | None = None
        self._over = False

    def __await__(self) -> Generator[Any, None, None]:
        if not self._over:
            self._runner = _current
            try:
                if self._runner is not None:
                    yield self
                else:
                    # Inside an asyncio task: the same, one turn of the loop later.
                    self._future = asyncio.get_running_loop().create_future()
                    yield from self._future
            finally:
                # Cancelled: whoever holds this must not resume what is awaited next.
                self._over = True
        if self._failure is not None:
            raise self._failure

    def resume(self) -> None:
        """Goes on, now."""
        if self._over:
            return
        self._over = True
        if self._future is not None:
            if not self._future.done():
                self._future.set_result(None)
        elif self._runner is not None:
            self._runner.step()

    def fail(self, error: BaseException) -> None:
        """Goes on with an exception, now."""
        if not self._over:
            self._failure = error
            self.resume()


class Runner:
    """One coroutine on its way. Changes; used from one event loop. The coroutine must not raise."""

    __slots__ = ("_coroutine", "_ended", "_loop", "_running", "_waits_for", "done")

    def __init__(self, coroutine: Coroutine[Any, None, None], loop: asyncio.AbstractEventLoop) -> None:
        self._coroutine = coroutine
        self._loop = loop
        self._running = False
        self._waits_for: asyncio.Future[Any] | None = None
        self._ended: asyncio.Future[None] | None = None
        self.done = False

    def step(self, error: BaseException | None = None) -> None:
        """Runs until the next suspension."""
        global _current
        if self.done:
            return
        former, _current = _current, self
        self._running = True
        try:
            yielded = self._coroutine.throw(error) if error is not None else self._coroutine.send(None)
        except (StopIteration, asyncio.CancelledError):
            self._finish()
            return
        except BaseException:
            self._finish()
            raise
        finally:
            self._running = False
            _current = former
        if yielded is None:
            # A bare yield, which is asyncio.sleep(0): one turn of the loop.
            yielded = self._loop.create_future()
            self._loop.call_soon(_settle, yielded)
        if isinstance(yielded, asyncio.Future):
            # The protocol between a future and its task (PEP 3156): the flag says that it was awaited properly.
            yielded._asyncio_future_blocking = False
            self._waits_for = yielded
            yielded.add_done_callback(self._future_done)

    def cancel(self) -> None:
        """Throws CancelledError into the coroutine where it waits. One that runs now is cancelled after this event."""
        if self.done:
            return
        if self._running:
            self._loop.call_soon(self.cancel)
            return
        waiting, self._waits_for = self._waits_for, None
        if waiting is not None:
            waiting.remove_done_callback(self._future_done)
            waiting.cancel()
        self.step(asyncio.CancelledError())

    async def join(self) -> None:
        """Waits for the end."""
        if not self.done:
            if self._ended is None:
                self._ended = self._loop.create_future()
            await asyncio.shield(self._ended)

    def _future_done(self, future: "asyncio.Future[Any]") -> None:
        # One that was done already when the coroutine was cancelled is not what it waits for now.
        if future is self._waits_for:
            self._waits_for = None
            self.step()

    def _finish(self) -> None:
        self.done = True
        if self._ended is not None:
            _settle(self._ended)


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def run(coroutine: Coroutine[Any, None, None], loop: asyncio.AbstractEventLoop) -> Runner:
    """Starts a coroutine now, up to its first suspension."""
    runner = Runner(coroutine, loop)
    runner.step()
    return runner
