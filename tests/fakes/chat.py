"""A WebSocket server on loopback (RFC 6455): it repeats what it is told."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from websockets.sync.server import ServerConnection, serve


@contextmanager
def open_chat(tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serves until it is left; gives the port."""
    with serve(_repeat, "127.0.0.1", 0, ssl=tls) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.socket.getsockname()[1]
        server.shutdown()


def _repeat(connection: ServerConnection) -> None:
    for message in connection:
        connection.send(f"said: {message}" if isinstance(message, str) else message)
