"""A forge with a thread and an event loop of its own, for those that have none."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from gateway.forge.server import Forge


@contextmanager
def serving(forge: Forge) -> Iterator[Forge]:
    """The forge runs until it is left. Raises what its start raises."""
    ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def run() -> None:
        over = asyncio.Event()
        async with forge:
            ready.set_result((asyncio.get_running_loop(), over))
            await over.wait()

    def top() -> None:
        try:
            asyncio.run(run())
        except OSError as error:
            if ready.done():
                raise
            ready.set_exception(error)
        finally:
            # Whoever waits for the start must not wait for ever.
            ready.cancel()

    thread = threading.Thread(target=top, name="forge")
    thread.start()
    loop, over = ready.result()
    try:
        yield forge
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
