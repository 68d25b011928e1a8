"""Composition root of `run`: plan, log, wrap, session, proxies, command; and back again in the opposite order.

On a terminal the command stays in the caller's process group, so that Ctrl-C, Ctrl-Z and window size reach it as they
would without us; what is sent to this process alone is passed on. Elsewhere it stands apart, and everything is.
"""

import asyncio
import contextlib
import logging
import os
import resource
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gateway.approvals import Approvals
from gateway.as_written import named_as_written
from gateway.audit import AuditEvent, AuditLog, EventKind
from gateway.audit.signing import import_slowly
from gateway.authorizer import Authorizer, Counts
from gateway.closing import closing_line, note_hosts, ungoverned_line
from gateway.ending import Ending, record
from gateway.errors import AuditError, GatewayError
from gateway.foreground import run_command
from gateway.garbage import settle_garbage
from gateway.hooking import write_settings
from gateway.lifecycle import new_secret, record_violation
from gateway.log_sync import synced
from gateway.opening import command_environment, open_planned
from gateway.options import RunOptions
from gateway.plan import Plan, make_plan
from gateway.policy.wording import printable
from gateway.prober import Prober
from gateway.push_authorizer import PushAuthorizer, PushCounts
from gateway.session import Profile, Session, Sessions
from gateway.signals import Signals
from gateway.talk import log_to_stderr
from gateway.terminal import find_group, terminal_kept
from gateway.violations import Violations
from sandbox.agents.seeding import seed
from sandbox.agents.sharing import make_space_folders
from sandbox.backends.base import Running
from sandbox.folders import make_private

if TYPE_CHECKING:
    from gateway.api.agent import Malformed, Route
    from gateway.credentials.private_key import PrivateKeyFile
    from gateway.self_test import Outcome

# Descriptors this process may need: two per tunnel, four per hot pair of pipes, for as many tunnels as limits allow.
_DESCRIPTORS: Final = 65_536

_log = logging.getLogger(__name__)


def run(options: RunOptions, environ: Mapping[str, str]) -> int:
    """Runs the command and returns the exit status of the contract. GatewayError when the gateway itself fails."""
    log_to_stderr()
    with ExitStack() as stack:
        signals = stack.enter_context(Signals())
        group = find_group()  # before there are processes of our own, whose ends take their time
        plan = make_plan(options, environ)
        plan = replace(plan, spec=replace(plan.spec, group=group))
        imports = threading.Thread(target=_import_slowly, args=(plan,), name="imports", daemon=True)
        imports.start()
        prober = Prober() if plan.spec.profile is Profile.AGENT else None
        if prober is not None:
            stack.callback(prober.close)
        _make_state_directory(plan.spec.state_dir)
        key = _app_key(plan)
        log = _open_log(plan)
        stack.callback(_close_log, log)
        stack.enter_context(terminal_kept())
        notes = _make_folders(plan)
        backend, violations = plan.choice.backend, Violations()
        with named_as_written(plan.options, plan.spec):
            running = backend.launch(plan.spec, violations)
        stack.callback(backend.destroy, running)
        _say(plan.choice.line)
        for note in (*plan.notes, *notes, *running.notes):
            _say(f"agent-gateway: {note}")
        _raise_descriptor_limit()
        imports.join()
        log.prepare()
        end = _in_loop(_serve(plan, environ, log, running, violations, signals, key, prober))
    for line in end.left:
        _say(f"agent-gateway: {line}")
    closing = _closing_line(plan, end, violations.count + len(running.findings), log)
    if not options.quiet:
        _say(closing)
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
    violations: Violations,
    signals: Signals,
    key: "PrivateKeyFile | None",
    prober: Prober | None,
) -> _End:
    """The session's life. A person's own shell is recorded, and that is all."""
    door = Authorizer(log, time.monotonic)
    push_door = PushAuthorizer(log, Approvals(log, time.monotonic, plan.config.approvals.timeout), _now)
    sessions = Sessions()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(synced(log))
        secret = new_secret()
        outcome = await _prove(plan, running, prober) if prober is not None else None
        environment = command_environment(plan, environ, running, secret)
        session = open_planned(plan, environment, secret, sessions, log, outcome)
        ending = Ending(_say)
        stack.callback(ending.close, session, sessions, log, running, violations)
        stack.callback(plan.choice.backend.destroy, running)
        violations.attach(partial(record, session, log))
        if outcome is not None:
            _require(outcome, session, log)
        end = _End(125, door.counts(session.id), push_door.counts(session.id))
        if plan.spec.profile is Profile.AGENT:
            gateway = _gateway(plan, running, session, sessions, door, push_door, key, end)
            token = await stack.enter_async_context(gateway)
            environment = command_environment(plan, environ, running, secret, token)
        settle_garbage()
        ending.status = end.status = await run_command(plan, running, environment, signals)
        return end


async def _prove(plan: Plan, running: Running, prober: Prober) -> "Outcome":
    from gateway.self_test import prove_wall

    return await prove_wall(plan.rules, running, Path(plan.spec.state_dir), prober)


def _require(outcome: "Outcome", session: Session, log: AuditLog) -> None:
    """No command before its wall is proven. GatewayError; the hole, or that nobody knows, is on record before."""
    try:
        outcome.require()
    except GatewayError:
        record_violation(
            session, log, action="network-outbound", target="self-test", rule="self-test", raw=outcome.reason
        )
        raise


@asynccontextmanager
async def _gateway(
    plan: Plan,
    running: Running,
    session: Session,
    sessions: Sessions,
    door: Authorizer,
    push_door: PushAuthorizer,
    key: "PrivateKeyFile | None",
    end: _End,
) -> AsyncIterator[str]:
    """An agent's ways out: proxies, push gateway and agent API. Gives the read-only token, empty for none."""
    from gateway.action_half import action_half, protected_paths
    from gateway.github_half import github_half
    from gateway.operator_half import operator_half
    from gateway.proxy.proxies import Proxies
    from gateway.proxy.workers import usable_cores

    async with AsyncExitStack() as stack:
        proxies = await stack.enter_async_context(Proxies(door, cores=usable_cores()))
        ports = running.endpoints
        own = frozenset({ports.http_port, ports.socks_port, ports.gateway_port})
        proxies.open(
            session,
            plan.config.egress.limits,
            running.http,
            running.socks,
            own_ports=own if running.handle.backend == "none" else frozenset(),
            upstream_proxy=plan.config.egress.upstream_proxy,
        )
        # Before what asks, so that it ends after it: what waits at the end is withdrawn, nobody has said no.
        operator = operator_half(
            plan.config, plan.socket_folder, session, sessions, push_door.approvals, time.monotonic
        )
        notes = await stack.enter_async_context(operator)
        protected = protected_paths(plan, running)
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
                is_protected=protected,
            )
        )
        tracked = await asyncio.to_thread(protected.note, plan.spec.search_path) if protected else ""
        for note in filter(None, (*half.notes, tracked, *notes)):
            _say(f"agent-gateway: {note}")
        action = action_half(plan, running, session, push_door)
        stack.callback(action.door.forget, session.id)
        await stack.enter_async_context(_agent_api(running, (*half.routes, *action.routes), half.malformed))
        yield half.read_token


def _in_loop[T](main: Coroutine[Any, Any, T]) -> T:
    """asyncio.run on the loop that the proxies need."""
    from gateway.proxy.reactor import GatewayLoop

    with asyncio.Runner(loop_factory=GatewayLoop) as runner:
        return runner.run(main)


def _open_log(plan: Plan) -> AuditLog:
    audit = plan.config.audit
    log = AuditLog(
        plan.audit_directory,
        max_bytes=audit.max_file_mb << 20,
        keep_days=audit.keep_days,
        state=Path(plan.spec.state_dir),
    )
    fields = {"state": "loaded", "source": plan.config.source, "old": None, "new": plan.config.digest or None}
    log.append(AuditEvent(EventKind.CONFIG, fields))
    return log


def _close_log(log: AuditLog) -> None:
    try:
        log.close()
    except AuditError as error:
        _log.error("%s", error)


def _app_key(plan: Plan) -> "PrivateKeyFile | None":
    """The App's key, looked at before anything is started; None without an App, and where nobody would use it."""
    if plan.config.github.app_id is None or plan.spec.profile is Profile.TERMINAL:
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


def _import_slowly(plan: Plan) -> None:
    """What takes longest to import, while the wrap comes up; `_gateway` and `_agent_api` find it done."""
    import_slowly()
    if plan.spec.profile is Profile.TERMINAL:
        return
    import gateway.action_half  # noqa: F401  (imported to be there)
    import gateway.github_half  # noqa: F401  (imported to be there)
    import gateway.operator_half  # noqa: F401  (imported to be there)
    import gateway.self_test  # noqa: F401  (imported to be there)


def _make_folders(plan: Plan) -> tuple[str, ...]:
    """What the wrap is to show of the product's own state: a space's folders, an agent's directory. Notes for the
    user."""
    if plan.space is not None:
        make_space_folders(plan.space)
    write_settings(plan.spec, plan.options.command)
    return seed(plan.managed) if plan.managed is not None else ()


def _make_state_directory(path: str) -> None:
    try:
        make_private(path)
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


def _closing_line(plan: Plan, end: _End, violations: int, log: AuditLog) -> str:
    if plan.spec.profile is Profile.TERMINAL:
        return ungoverned_line(log.path)
    news = note_hosts(log.path, plan.session_id, Path(plan.spec.state_dir))
    return closing_line(end.connections, end.pushes, violations, news, log.path)


def _now() -> datetime:
    return datetime.now(UTC)
