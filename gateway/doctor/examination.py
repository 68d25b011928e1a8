"""The table of checks, and their running: all at once, each in a thread of its own and with a deadline.

A check that raises is a finding of its own, and one that does not come to an end is too: the doctor always answers.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from gateway.doctor.configuration import look_at_configuration, look_at_lists
from gateway.doctor.findings import Finding, Verdict, failed
from gateway.doctor.git import look_at_git, look_at_remotes
from gateway.doctor.github import DEADLINE as GITHUB_DEADLINE
from gateway.doctor.github import look_at_app
from gateway.doctor.kernel import look_at_landlock, look_at_namespaces, look_at_python, look_at_seccomp
from gateway.doctor.leftovers import look_at_leftovers
from gateway.doctor.network import look_at_dns, look_at_proxies
from gateway.doctor.place import Place
from gateway.doctor.state import look_at_disk, look_at_log, look_at_permissions
from gateway.doctor.wrapping import (
    look_at_backend,
    look_at_bubblewrap,
    look_at_file_rules,
    look_at_seatbelt,
    look_at_socat,
    look_at_wall,
)
from gateway.errors import GatewayError

# Seconds for what reads a few files or starts a program; a host on its knees takes some.
USUAL: Final = 30.0
LINUX: Final = "linux"
MACOS: Final = "darwin"


@dataclass(frozen=True, slots=True)
class Check:
    """A row: its name, what looks, on which platforms, the seconds it may take. `late` is the verdict where it takes
    longer, `cure` what is to be done then."""

    name: str
    look: Callable[[Place, str], Iterable[Finding]]
    platforms: tuple[str, ...] = (LINUX, MACOS)
    seconds: float = USUAL
    late: Verdict = Verdict.FAILED
    cure: str = ""


# In the order in which they are shown. A new check is a function and a line.
CHECKS: Final[tuple[Check, ...]] = (
    Check("python", look_at_python),
    Check("bubblewrap", look_at_bubblewrap, (LINUX,), 90.0),
    Check("user namespaces", look_at_namespaces, (LINUX,)),
    Check("landlock", look_at_landlock, (LINUX,)),
    Check("seccomp", look_at_seccomp, (LINUX,)),
    Check("file rules", look_at_file_rules, (LINUX,), 90.0),
    Check("wall", look_at_wall, (LINUX,), 90.0),
    Check("socat", look_at_socat, (LINUX,)),
    Check("seatbelt", look_at_seatbelt, (MACOS,), 90.0),
    Check("run", look_at_backend, seconds=90.0),
    Check("git", look_at_git),
    Check("git remotes", look_at_remotes),
    Check("dns", look_at_dns, seconds=6.0, late=Verdict.WARNING, cure="see /etc/resolv.conf"),
    Check("proxy variables", look_at_proxies, seconds=6.0),
    Check("github app", look_at_app, seconds=GITHUB_DEADLINE + 5.0, late=Verdict.WARNING),
    Check("config", look_at_configuration),
    Check("lists", look_at_lists),
    Check("audit log", look_at_log, late=Verdict.WARNING, cure="agent-gateway review verify (which takes its time)"),
    Check("disk", look_at_disk, seconds=10.0),
    Check("permissions", look_at_permissions, seconds=10.0),
    Check("leftovers", look_at_leftovers),
)  # fmt: skip


def examine(place: Place, checks: Sequence[Check] = CHECKS) -> tuple[Finding, ...]:
    """Every check of this platform, in the table's order."""
    running = [_Running(check, place) for check in checks if _is_for(check, place.platform)]
    for one in running:
        one.start()
    return tuple(finding for one in running for finding in one.findings())


def _is_for(check: Check, platform: str) -> bool:
    return any(platform.startswith(name) for name in check.platforms)


@dataclass
class _Running:
    """A check under way. Changes once, when it is over; a daemon, so that one that hangs holds up nobody's end."""

    check: Check
    place: Place
    _found: list[Finding] = field(default_factory=list)
    _until: float = 0.0

    def start(self) -> None:
        self._until = time.monotonic() + self.check.seconds
        self._thread = threading.Thread(target=self._run, name=f"doctor {self.check.name}", daemon=True)
        self._thread.start()

    def findings(self) -> Sequence[Finding]:
        """What was found; after the deadline, that nothing was."""
        self._thread.join(max(0.0, self._until - time.monotonic()))
        if not self._thread.is_alive():
            return self._found
        reason = f"this look did not come to an end within {self.check.seconds:g} seconds"
        return (Finding(self.check.name, self.check.late, reason, self.check.cure),)

    def _run(self) -> None:
        """The top of the thread."""
        name = self.check.name
        try:
            self._found = list(self.check.look(self.place, name))
        except GatewayError as error:
            self._found = [failed(name, error.message, error.hint)]
        except Exception as error:
            reason = f"this look failed: {type(error).__name__}: {error}"
            self._found = [failed(name, reason, "a fault of the doctor's own: please report it")]
