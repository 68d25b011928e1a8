"""Composition root of `run`: plan, log, wrap, session, proxies, command; and back again in the opposite order.

On a terminal the command stays in the caller's process group, so that Ctrl-C, Ctrl-Z and window size reach it as they
would without us; what is sent to this process alone is passed on. Elsewhere it stands apart, and everything is.
"""

import asyncio
import contextlib
import logging
import os
import resource
import signal
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gateway.approvals import Approvals
from gateway.audit import AuditEvent, AuditLog, EventKind
from gateway.authorizer import Authorizer, Counts
from gateway.errors import AuditError, GatewayError
from gateway.garbage import settle_garbage
from gateway.lifecycle import SessionRequest, close_session, new_secret, open_session, record_violation
from gateway.log_sync import synced
from gateway.plan import Plan, RunOptions, make_plan
from gateway.policy.wording import printable
from gateway.push_authorizer import PushAuthorizer, PushCounts
from gateway.session import ProcessGroup, Session, Sessions
from gateway.signals import Signals
from gateway.talk import log_to_stderr
from gateway.terminal import find_group, terminal_kept
from sandbox.backends.base import Running
from sandbox.env import Environment, build_environment

if TYPE_CHECKING:
    from gateway.api.agent import Malformed, Route
    from gateway.credentials.private_key import PrivateKeyFile

# Descriptors this process may need: two per tunnel, four per hot pair of pipes, for as many tunnels as limits allow.
_DESCRIPTORS: Final = 65_536
# What ends a command that has not started yet.
_ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})

_log = logging.getLogger(__name__)


def run(options: RunOptions, environ: Mapping[str, str]) -> int:
    """Runs the command and returns the exit status of the contract. GatewayError when the gateway itself fails."""
    log_to_stderr()
    with ExitStack() as stack:
        signals = stack.enter_context(Signals())
        group = find_group()  # before there are processes of our own, whose ends take their time
        plan = make_plan(options, environ)
        plan = replace(plan, spec=replace(plan.spec, group=group))
        imports = threading.Thread(target=_import_slowly, name="imports", daemon=True)
        imports.start()
        _make_state_directory(plan.spec.state_dir)
        key = _app_key(plan)
        log = _open_log(plan)
        stack.callback(_close_log, log)
        stack.enter_context(terminal_kept())
        running = plan.choice.backend.launch(plan.spec)
        stack.callback(running.destroy)
        _say(plan.choice.line)
        for note in (*plan.notes, *running.notes):
            _say(f"agent-gateway: {note}")
        _raise_descriptor_limit()
        imports.join()
        end = _in_loop(_serve(plan, environ, log, running, signals, key))
    for line in end.left:
        _say(f"agent-gateway: {line}")
    if not options.quiet:
        _say(_closing_line(end, len(running.findings), log))
    return end.status


@dataclass(slots=True)
class _End:
    """What is to be said at the end. Changes until then: `left` are lines about tokens that could not be revoked."""

    status: int
    connections: Counts
    pushes: PushCounts
    left: list[str] = field(default_factory=list)


async def _serve(
    plan: Plan,
    environ: Mapping[str, str],
    log: AuditLog,
    running: Running,
    signals: Signals,
    key: "PrivateKeyFile | None",
) -> _End:
    """The session's life."""
    from gateway.github_half import github_half
    from gateway.proxy.proxies import Proxies
    from gateway.proxy.workers import usable_cores

    door = Authorizer(log, time.monotonic)
    push_door = PushAuthorizer(log, Approvals(log, time.monotonic, plan.config.approvals.timeout), _now)
    sessions = Sessions()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(synced(log))
        secret = new_secret()
        environment = _environment(plan, environ, running, secret)
        session = _open_session(plan, environment, secret, sessions, log)
        ending = _Ending()
        stack.callback(ending.close, session, sessions, log, running)
        stack.callback(running.destroy)
        proxies = await stack.enter_async_context(Proxies(door, cores=usable_cores()))
        ports = running.endpoints
        own = frozenset({ports.http_port, ports.socks_port, ports.gateway_port})
        proxies.open(
            session,
            plan.config.egress.limits,
            running.http,
            running.socks,
            own_ports=own if running.backend == "none" else frozenset(),
            upstream_proxy=plan.config.egress.upstream_proxy,
        )
        end = _End(125, door.counts(session.id), push_door.counts(session.id))
        half = await stack.enter_async_context(
            github_half(
                plan.config,
                key,
                session,
                sessions,
                push_door,
                plan.repositories,
                plan.authority,
                Path(plan.spec.state_dir),
                end.left,
            )
        )
        for note in half.notes:
            _say(f"agent-gateway: {note}")
        environment = _environment(plan, environ, running, secret, half.read_token)
        await stack.enter_async_context(_agent_api(running, half.routes, half.malformed))
        settle_garbage()
        ending.status = end.status = await _command(plan, running, environment, signals)
        return end


async def _command(plan: Plan, running: Running, environment: Environment, signals: Signals) -> int:
    """Starts the command, passes signals on, and waits for its end. GatewayError when the gateway fails before that."""
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[int] = loop.create_future()
    started = False
    apart = plan.spec.group in (
        ProcessGroup.OWN,
        ProcessGroup.SESSION,
    )  # the terminal's keys do not reach CMD

    def pass_on(number: int, from_terminal: bool) -> None:
        if started:
            if apart or not from_terminal:
                running.signal(number)
        elif number in _ENDING and not stopped.done():
            stopped.set_result(128 + number)

    failure = _failure_of(loop)
    signals.attach(loop, pass_on)
    try:
        await asyncio.sleep(0)  # lets signals that came while we set up arrive first
        if stopped.done():
            return stopped.result()
        running.start(plan.options.command, environment.values, plan.workdir, signals.ignored)
        started = True
        over = asyncio.ensure_future(asyncio.to_thread(running.wait))
        await asyncio.wait((over, failure), return_when=asyncio.FIRST_COMPLETED)
        if not over.done():
            raise failure.result()
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


class _Ending:
    """Records the session's end, with the command's exit status if it came that far."""

    def __init__(self) -> None:
        self.status: int | None = None

    def close(self, session: Session, sessions: Sessions, log: AuditLog, running: Running) -> None:
        """The last thing of a session; a log that says no is said loudly, since nothing else can be done."""
        try:
            for finding in running.findings:
                _say(f"agent-gateway: {finding}")
                record_violation(session, log, finding.path, str(finding))
            close_session(session, sessions, log, exit_status=self.status)
        except AuditError as error:
            _log.error("the end of the session is not recorded: %s", error)


def _in_loop[T](main: Coroutine[Any, Any, T]) -> T:
    """asyncio.run on the loop that the proxies need."""
    from gateway.proxy.reactor import GatewayLoop

    with asyncio.Runner(loop_factory=GatewayLoop) as runner:
        return runner.run(main)


def _environment(
    plan: Plan, environ: Mapping[str, str], running: Running, secret: str, github_token: str = ""
) -> Environment:
    """The command's environment; what --env and the config ask for is in the plan."""
    inside = running.inside
    return build_environment(
        environ,
        endpoints=running.endpoints,
        session_id=plan.session_id,
        backend=running.backend,
        secret=secret,
        home=inside.home,
        path=inside.path,
        tmpdir=inside.tmpdir,
        git_config=inside.git_config,
        connect=inside.connect,
        roots=inside.roots,
        tools=inside.variables,
        pass_names=plan.passed,
        set_values=plan.set_values,
        git=plan.spec.git,
        credential=inside.credential,
        gh_config=inside.gh_config,
        github_token=github_token,
    )


def _open_session(
    plan: Plan, environment: Environment, secret: str, sessions: Sessions, log: AuditLog
) -> Session:
    request = SessionRequest(
        id=plan.session_id,
        egress=plan.rules,
        sandbox=plan.choice.stamp,
        secret=secret,
        workspace=plan.options.workspace,
        agent=plan.options.agent or "",
        mode=plan.spec.mode,
        worktree=plan.worktree,
        rules=plan.config.rule_set,
    )
    return open_session(request, sessions, log, kept=environment.kept, dropped=environment.dropped)


def _open_log(plan: Plan) -> AuditLog:
    audit = plan.config.audit
    log = AuditLog(plan.audit_directory, max_bytes=audit.max_file_mb << 20, keep_days=audit.keep_days)
    fields = {"state": "loaded", "source": plan.config.source, "old": None, "new": plan.config.digest or None}
    log.append(AuditEvent(EventKind.CONFIG, fields))
    return log


def _close_log(log: AuditLog) -> None:
    try:
        log.close()
    except AuditError as error:
        _log.error("%s", error)


def _app_key(plan: Plan) -> "PrivateKeyFile | None":
    """The App's key, looked at before anything is started; None without an App."""
    if plan.config.github.app_id is None:
        return None
    from gateway.github_half import read_app_key

    return read_app_key(plan.config)


@asynccontextmanager
async def _agent_api(
    running: Running, routes: "Sequence[Route]", malformed: "Malformed"
) -> AsyncIterator[None]:
    from gateway.api.agent import close_agent_api, serve_agent_api

    server = serve_agent_api(
        running.gateway, routes, port=running.endpoints.gateway_port, malformed=malformed
    )
    try:
        yield
    finally:
        await close_agent_api(server)


def _import_slowly() -> None:
    """What takes longest to import, while the wrap comes up; `_serve` and `_agent_api` find it done."""
    import gateway.github_half  # noqa: F401  (imported to be there)
    import gateway.proxy.proxies  # noqa: F401  (imported to be there)


def _make_state_directory(path: str) -> None:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.makedirs(path, mode=0o700, exist_ok=True)
    except OSError as error:
        raise GatewayError(
            f"the state directory {path} cannot be made: {error.strerror}", "set XDG_STATE_HOME"
        ) from error


def _raise_descriptor_limit() -> None:
    """For this process alone: the command was spawned before and keeps what it was given."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _say(line: str) -> None:
    """One line on stderr. Not by `print`: what a reader that has gone leaves in a buffer changes the exit status."""
    with contextlib.suppress(OSError):
        os.write(2, f"{printable(line)}\n".encode())


def _closing_line(end: _End, violations: int, log: AuditLog) -> str:
    return (
        f"agent-gateway: {end.connections.allowed} connections allowed, {end.connections.denied} denied; "
        f"{end.pushes.forwarded} pushes forwarded, {end.pushes.refused} refused; {violations} violations; "
        f"log: {log.path}"
    )


def _now() -> datetime:
    return datetime.now(UTC)
