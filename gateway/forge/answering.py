"""What the forge's handlers have in common: knowing that the client has gone, and failing when told to."""

import asyncio
from http import HTTPStatus
from typing import cast

from tornado.http1connection import HTTP1Connection
from tornado.iostream import IOStream, StreamClosedError
from tornado.web import RequestHandler, stream_request_body

from gateway.forge.faults import Fault
from gateway.forge.state import State


@stream_request_body
class ForgeHandler(RequestHandler):
    """One request. `_gone` is set when nobody waits for more of the answer."""

    def initialize(self, state: State) -> None:
        """tornado's constructor."""
        self._state = state
        self._fault: Fault | None = None
        self._gone = asyncio.Event()
        self._body_ended = False
        state.activity.begin(self)

    def set_default_headers(self) -> None:
        """tornado's."""
        self.set_header("Server", "GitHub Babel 2.0")
        self.set_header("Content-Type", "text/plain; charset=utf-8")

    def on_connection_close(self) -> None:
        """tornado's: the client has gone, or the forge stops."""
        super().on_connection_close()
        self._gone.set()
        if not self._body_ended:
            self._state.activity.end(self)  # tornado leaves it there

    def on_finish(self) -> None:
        """tornado's."""
        self._gone.set()
        self._state.activity.end(self)

    def say_status(self, status: int) -> None:
        """Also one that HTTP has no phrase for."""
        known = status in HTTPStatus.__members__.values()
        self.set_status(status, HTTPStatus(status).phrase if known else "Unknown")

    async def send(self, data: bytes) -> None:
        """A piece of the answer; nothing happens when the client has gone."""
        if self._gone.is_set() or not data:
            return
        try:
            self.write(data)
            await self.flush()
        except StreamClosedError:
            self._gone.set()

    async def say_fault(self, fault: Fault) -> None:
        """The fault's own answer, or none at all."""
        if fault.stall:
            await self._gone.wait()
            return
        self.say_status(fault.status)
        for name, value in fault.headers.items():
            self.set_header(name, value)
        length = len(fault.body) * fault.repeat
        self.set_header("Content-Length", str(length))
        if length == 0:
            await self._send_head()
        for _ in range(fault.repeat):
            await self.send(fault.body)

    async def fail_at_once(self, fault: Fault) -> None:
        """Answers before the body is read, and cuts: for `prepare`, with a fault that is ABRUPT."""
        # In this state tornado does not watch the connection.
        self._stream.set_close_callback(self._gone.set)
        await self.say_fault(fault)
        self.cut()

    def cut(self) -> None:
        """Closes the connection, whatever is still to be said."""
        self._stream.close()

    @property
    def _stream(self) -> IOStream:
        return cast(HTTP1Connection, self.request.connection).stream

    async def _send_head(self) -> None:
        try:
            await self.flush()
        except StreamClosedError:
            self._gone.set()
