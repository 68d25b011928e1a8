"""The command of a `run`: started, given the signals that reach this process, and waited for."""

import asyncio
import signal
from typing import Any, Final

from gateway.errors import GatewayError
from gateway.plan import Plan
from gateway.session import ProcessGroup
from gateway.signals import Signals
from sandbox.backends.base import FAILED, Command, Execution, Running, Stdio
from sandbox.env import Environment

# What ends a command that has not started yet.
_ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})


async def run_command(plan: Plan, running: Running, environment: Environment, signals: Signals) -> int:
    """Starts the command, passes signals on, and waits for its end. GatewayError when the gateway fails before that."""
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[int] = loop.create_future()
    execution: Execution | None = None
    apart = plan.spec.group in (
        ProcessGroup.OWN,
        ProcessGroup.SESSION,
    )  # the terminal's keys do not reach CMD

    def pass_on(number: int, from_terminal: bool) -> None:
        if execution is not None:
            if apart or not from_terminal:
                execution.signal(number)
        elif number in _ENDING and not stopped.done():
            stopped.set_result(128 + number)

    failure = _failure_of(loop)
    signals.attach(loop, pass_on)
    try:
        await asyncio.sleep(0)  # lets signals that came while we set up arrive first
        if stopped.done():
            return stopped.result()
        command = Command(
            tuple(plan.options.command),
            environment.values,
            plan.workdir,
            Stdio.INHERIT,
            foreground=True,
            ignored=signals.ignored,
        )
        execution = plan.choice.backend.exec(running, command)
        over = asyncio.ensure_future(asyncio.to_thread(execution.wait))
        await asyncio.wait((over, failure), return_when=asyncio.FIRST_COMPLETED)
        if not over.done():
            raise failure.result()
        if over.result() == FAILED and running.handle.error:  # not the command's own 125
            raise GatewayError(
                running.handle.error, "what it had begun may be half done: look, and run it again"
            )
        return over.result()
    finally:
        signals.detach()


def _failure_of(loop: asyncio.AbstractEventLoop) -> "asyncio.Future[GatewayError]":
    """What comes when a callback of the loop raises. A connection answers for itself (`proxy/reactor.py`): this is the
    gateway's own machinery, deadlines among it, and without it no command may go on."""
    failure: asyncio.Future[GatewayError] = loop.create_future()

    def notice(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        loop.default_exception_handler(context)
        if "handle" in context and not failure.done():
            failure.set_result(
                GatewayError("the gateway failed, so the command was killed", "the error stands above")
            )

    loop.set_exception_handler(notice)
    return failure
