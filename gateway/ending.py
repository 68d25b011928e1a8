"""The end of a session on record: what the wrap refused, what was found after it, and the exit status."""

import logging
from collections.abc import Callable

from gateway.audit import AuditLog
from gateway.errors import AuditError
from gateway.lifecycle import close_session, record_violation
from gateway.session import Session, Sessions
from gateway.violations import Violations
from sandbox.backends.base import Running
from sandbox.events import SandboxViolation

_log = logging.getLogger(__name__)


class Ending:
    """Records the session's end, with the command's exit status if it came that far. `say` tells the user a line."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.status: int | None = None
        self._say = say

    def close(
        self, session: Session, sessions: Sessions, log: AuditLog, running: Running, violations: Violations
    ) -> None:
        """The last thing of a session; a log that says no is said loudly, since nothing else can be done."""
        try:
            violations.detach()
            for finding in running.findings:
                self._say(f"agent-gateway: {finding}")
                record_violation(
                    session,
                    log,
                    action="file-write-create",
                    target=finding.path,
                    rule="file_rules",
                    raw=str(finding),
                )
            close_session(session, sessions, log, exit_status=self.status)
        except AuditError as error:
            _log.error("the end of the session is not recorded: %s", error)


def record(session: Session, log: AuditLog, violation: SandboxViolation) -> None:
    """What the wrap refused, into the log. AuditError."""
    record_violation(
        session,
        log,
        action=violation.action,
        target=violation.target,
        rule=violation.rule,
        raw=violation.raw,
        count=violation.count,
    )
