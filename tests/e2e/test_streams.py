"""Streams that nothing may hold up: events that come one by one, and a protocol in which the server speaks first."""

import threading

from tests.fakes.authority import Authority
from tests.fakes.origin import Origin
from tests.fakes.product import PATIENCE, PYTHON, REFUSED, Product, was_refused, went_out
from tests.fakes.site import ORIGIN, open_site
from tests.fakes.web import Answer, Request
from tests.fakes.wire import Wire


class Events:
    """Server-sent events: the second is sent once the client has said that it has the first, so that a gateway which
    waits for more before it passes anything on would wait for ever. `late` are streams whose client never said so."""

    def __init__(self) -> None:
        self._received = {name: threading.Event() for name in ("http", "connect", "socks")}
        self.late: list[str] = []

    def stream(self, request: Request) -> Answer:
        return Answer(self._events(request.query), fields={"Content-Type": "text/event-stream"})

    def confirm(self, request: Request) -> Answer:
        self._received[request.query].set()
        return Answer()

    def _events(self, name: str) -> "list[bytes]":
        raise NotImplementedError
