"""What the process that opened a session says to a further one that is to serve it too, and what it hears at the end.

The word goes one way, from the process that started the other; what comes back are lines: counters for the operator,
again and again, and at the end the two figures of the session.
"""

import copyreg
import json
import pickle
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from gateway.authorizer import Counts
from gateway.metrics import Metrics
from gateway.policy.limits import Limits
from gateway.session import Session

# Length of what follows, before the assignment.
_LENGTH: Final = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a worker is to serve. `http`, `socks` and `shares` are descriptors it has inherited, `row` is its row of the
    shared counters."""

    session: Session
    limits: Limits
    http: int
    socks: int
    shares: int
    row: int
    rows: int
    own_ports: frozenset[int]
    upstream_proxy: str | None
    audit_directory: Path
    max_bytes: int
    keep_days: int
    state: Path | None = None

    def pack(self) -> bytes:
        """The assignment as bytes, for a process that trusts the sender wholly."""
        data = pickle.dumps(self)
        return _LENGTH.pack(len(data)) + data


def read_assignment(control: socket.socket) -> Assignment | None:
    """The assignment that the other end sends first; None when it has hung up instead."""
    head = _read_exactly(control, _LENGTH.size)
    data = _read_exactly(control, _LENGTH.unpack(head)[0]) if head else b""
    assignment = pickle.loads(data) if data else None
    assert assignment is None or isinstance(assignment, Assignment)
    return assignment


def _read_exactly(control: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = control.recv(size - len(data))
        if not part:
            return b""
        data += part
    return bytes(data)


def report(counts: Counts) -> bytes:
    """What a worker says last: the figures of the session's closing line."""
    return json.dumps({"allowed": counts.allowed, "denied": counts.denied}).encode() + b"\n"


def report_metrics(metrics: Metrics) -> bytes:
    """What a worker says every second: all that it has counted."""
    return json.dumps(metrics.as_json()).encode() + b"\n"


def read_report(line: bytes) -> Counts | Metrics | None:
    """What a worker said in a line; None for what is neither."""
    try:
        figures = json.loads(line)
        if "allowed" in figures:
            return Counts(int(figures["allowed"]), int(figures["denied"]))
        return Metrics.read(figures)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _view(values: dict[object, object]) -> "MappingProxyType[object, object]":
    return MappingProxyType(values)


# Values of the config are read-only views, which know no pickling of their own.
copyreg.pickle(MappingProxyType, lambda view: (_view, (dict(view),)))
