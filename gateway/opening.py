"""The beginning of a session: the environment of its command, its record, and the proof that its wall stands."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gateway.audit import AuditLog
from gateway.lifecycle import SessionRequest, open_session
from gateway.plan import Plan
from gateway.session import Profile, Session, Sessions
from sandbox.backends.base import Running
from sandbox.env import Environment, build_environment
from sandbox.terminal.environment import terminal_environment

if TYPE_CHECKING:
    from gateway.self_test import Outcome


def command_environment(
    plan: Plan, environ: Mapping[str, str], running: Running, secret: str, github_token: str = ""
) -> Environment:
    """The command's environment; what --env and the config ask for is in the plan."""
    if plan.spec.profile is Profile.TERMINAL:
        is_wrapped = running.handle.backend != "none"
        return terminal_environment(
            environ, is_wrapped=is_wrapped, pass_names=plan.passed, set_values=plan.set_values
        )
    inside = running.inside
    return build_environment(
        environ,
        endpoints=running.endpoints,
        session_id=plan.session_id,
        backend=running.handle.backend,
        secret=secret,
        home=inside.home,
        path=inside.path,
        tmpdir=inside.tmpdir,
        git_config=inside.git_config,
        connect=inside.connect,
        roots=inside.roots,
        tools={**inside.variables, **(plan.managed.variables if plan.managed else {})},
        pass_names=plan.passed,
        set_values=plan.set_values,
        git=plan.spec.git,
        credential=inside.credential,
        gh_config=inside.gh_config,
        github_token=github_token,
    )


def open_planned(
    plan: Plan,
    environment: Environment,
    secret: str,
    sessions: Sessions,
    log: AuditLog,
    outcome: "Outcome | None",
) -> Session:
    """Opens the session that was planned; `outcome` is that of its self-test. ValueError, AuditError."""
    request = SessionRequest(
        id=plan.session_id,
        egress=plan.rules,
        sandbox=plan.choice.stamp,
        secret=secret,
        workspace=plan.options.workspace,
        space=plan.spec.space_id,
        agent=plan.spec.agent_id,
        mode=plan.spec.mode,
        worktree=plan.worktree or plan.workdir,
        rules=plan.config.rule_set,
    )
    return open_session(
        request,
        sessions,
        log,
        kept=environment.kept,
        dropped=environment.dropped,
        chosen=environment.chosen,
        self_test="" if outcome is None else outcome.state,
    )
