"""The half of a session that its operator meets, put together: the socket with its API, and the program that answers.

Composition only. Where the socket cannot be made the session runs on, and whatever needs an approval is refused.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from gateway.api.operator import Desk, close_operator_api, operator_routes, serve_operator_api
from gateway.approvals import Approvals
from gateway.approver_command import ApproverCommand
from gateway.config import Config
from gateway.errors import GatewayError
from gateway.operator_socket import listen, session_socket
from gateway.session import Session


@asynccontextmanager
async def operator_half(
    config: Config,
    folder: Path,
    session: Session,
    sessions: Iterable[Session],
    approvals: Approvals,
    clock: Callable[[], float],
) -> AsyncIterator[tuple[str, ...]]:
    """The half for the time of the block, with notes for whoever started it. `folder` is that of the sockets."""
    notes: list[str] = []
    async with AsyncExitStack() as stack:
        stack.callback(approvals.forget, session.id)
        if config.approvals.command is not None:
            program = ApproverCommand(config.approvals.command, approvals, clock)
            stack.push_async_callback(program.close)
            approvals.attach(program)
            stack.callback(approvals.detach, program)
        path = session_socket(folder, session.id)
        try:
            listening = listen(path)
        except GatewayError as error:
            notes.append(f"approvals cannot be answered from another terminal: {error}")
        else:
            stack.callback(_remove, path)
            server = serve_operator_api(listening, operator_routes(Desk(approvals, sessions, clock)))
            stack.push_async_callback(close_operator_api, server)
        yield tuple(notes)


def _remove(path: Path) -> None:
    with suppress(OSError):
        os.unlink(path)
