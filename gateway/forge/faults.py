"""How the forge fails when it is told to: what tests need of a GitHub that is slow, wrong, or half dead.

Values only; the handlers act on them.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum


class Point(StrEnum):
    """Where a fault is: one kind of request."""

    FIND = "find"  # GET /repos/O/R/installation
    MINT = "mint"
    REVOKE = "revoke"
    REPOSITORY = "repository"  # GET /repos/O/R and /repositories/ID
    COMPARE = "compare"
    UPLOAD_REFS = "upload-refs"  # GET info/refs?service=git-upload-pack
    UPLOAD = "upload"
    RECEIVE_REFS = "receive-refs"
    RECEIVE = "receive"


class Moment(StrEnum):
    """When an answer is given."""

    LATE = "late"  # after the whole body was read, and thrown away
    EARLY = "early"  # at once; the body is read all the same
    ABRUPT = "abrupt"  # at once, then the connection is closed with the body unread


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong.

    With a `status` the forge gives that answer and does nothing else; with 0 it does what it was asked, and the rest
    says what becomes of the real answer.
    """

    status: int = 0
    # The answer's body, `repeat` times over.
    body: bytes = b""
    repeat: int = 1
    headers: Mapping[str, str] = field(default_factory=dict)
    moment: Moment = Moment.LATE
    # Says nothing more until the client has gone or the forge stops; the body is read unless the moment is ABRUPT.
    stall: bool = False
    # The connection is cut after that many bytes of the request's body.
    cut_request: int | None = None
    # The connection is cut after that many bytes of the answer's body. git has done its work by then.
    cut_answer: int | None = None
    # Nothing more is said after that many bytes, until the client has gone or the forge stops.
    stall_answer: int | None = None
    # The answer ends there, well-formed as HTTP.
    end_answer: int | None = None
    # Put before the real answer's body (GitHub's receive-pack sends a band-2 packet of one NUL: 0006 02 00).
    before_answer: bytes = b""
    # How often; None means always.
    times: int | None = None

    @property
    def answer_limit(self) -> int | None:
        """Bytes of the real answer that are let through; None for all."""
        limits = (self.cut_answer, self.stall_answer, self.end_answer)
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def answers(self) -> bool:
        """Does the fault stand in for the real answer?"""
        return bool(self.status or self.stall)


def redirect(location: str, status: int = 301) -> Fault:
    """Sends the client elsewhere."""
    return Fault(status, headers={"Location": location})


def garbage(body: bytes, content_type: str = "application/x-git-receive-pack-result") -> Fault:
    """A success with a body of its own, also an empty one."""
    return Fault(200, body, headers={"Content-Type": content_type})


class Faults:
    """The switches. Changes; may be set from any thread, at any time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: dict[Point, Fault] = {}
        # The first so many uses of every token on a git endpoint find nothing (replication lag), with that status.
        self.lag = 0
        self.lag_status = 404
        # Seconds a request's body may rest before a 408; 0 is for ever.
        self.body_patience = 0.0
        # What the answer to a mint says was granted, instead of the truth.
        self.echo_permissions: Mapping[str, str] | None = None
        # What the answer to a mint says the token reaches, full names, instead of the truth.
        self.echo_repositories: tuple[str, ...] | None = None
        # The format of new tokens where the request does not say.
        self.stateless = False

    def set(self, point: Point, fault: Fault | None) -> None:
        """From now on; None takes it away."""
        with self._lock:
            if fault is None:
                self._faults.pop(point, None)
            else:
                self._faults[point] = fault

    def clear(self) -> None:
        """All is well again."""
        with self._lock:
            self._faults.clear()
        self.lag, self.lag_status, self.body_patience = 0, 404, 0.0
        self.echo_permissions = self.echo_repositories = None
        self.stateless = False

    def take(self, point: Point) -> Fault | None:
        """What goes wrong with the request at hand, counted."""
        with self._lock:
            fault = self._faults.get(point)
            if fault is None or fault.times is None:
                return fault
            if fault.times <= 1:
                del self._faults[point]
            else:
                self._faults[point] = replace(fault, times=fault.times - 1)
            return fault if fault.times > 0 else None
