"""A WebSocket server on loopback (RFC 6455): it repeats what it is told.

On an event loop, as are its clients: a TLS socket of Python's that one thread reads while another writes may lose a
message.
"""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from websockets.asyncio.server import ServerConnection, serve


@contextmanager
def open_chat(tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serves until it is left; gives the port."""
    ready: Future[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def run() -> None:
        over = asyncio.Event()
        async with serve(_repeat, "127.0.0.1", 0, ssl=tls) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            ready.set_result((port, asyncio.get_running_loop(), over))
            await over.wait()

    thread = threading.Thread(target=asyncio.run, args=(run(),), daemon=True)
    thread.start()
    port, loop, over = ready.result()
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()


async def _repeat(connection: ServerConnection) -> None:
    async for message in connection:
        await connection.send(f"said: {message}" if isinstance(message, str) else message)
