"""File rules at creation time, from the backend's side: the supervisor of one wrap, its rules, and the proof of it.

It decides nothing: what is denied is the plan's and the supervisor's. Whatever is missing ends the launch.
"""

import os
import secrets
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack

from gateway.errors import GatewayError
from gateway.session import FileRules, ProcessGroup, Profile
from sandbox.backends.base import LAUNCH_DEADLINE, WORD_DEADLINE
from sandbox.backends.life import Life
from sandbox.confinement import (
    DOOR_REQUESTS,
    encode_orders,
    explain_missing,
    explain_unseen,
    take_verdict,
)
from sandbox.events import SandboxViolation, Violation
from sandbox.governed import Governed
from sandbox.handover import Child
from sandbox.mounts import own_interpreter
from sandbox.seccomp import build_filter
from sandbox.spec import SandboxSpec
from sandbox.supervisor.client import Supervisor
from sandbox.supervisor.rules import CANARY_DIGITS, DoorRules
from sandbox.violations import Told

# Seconds for what the supervisor has told to be passed on; it takes a millisecond where there is a processor for it.
CATCH_UP = 0.5


class Door:
    """The supervisor of one wrap. Its process is started at once, so that it comes up while the host is looked at.

    `complaint` is where it, and bubblewrap below it, say what fails.
    """

    def __init__(self, life: Life) -> None:
        self._life = life
        self._told = Told(time.monotonic)
        self._canary = secrets.token_hex(CANARY_DIGITS // 2)
        with ExitStack() as undo:
            self.complaint, end = os.pipe()
            undo.callback(os.close, self.complaint)
            try:
                self._supervisor = Supervisor(own_interpreter(), end, self._tell)
            finally:
                os.close(end)
            undo.callback(self._supervisor.close)
            self._ours, self._theirs = socket.socketpair()
            undo.pop_all()

    def _tell(self, violation: SandboxViolation) -> None:
        """From the supervisor, in the thread that listens to it."""
        self._told.note(violation)
        self._life.tell(Violation(violation))

    def has_told(self, violation: SandboxViolation) -> bool:
        """Whether what stderr says of a refusal is known already, and better: with the rule."""
        self._supervisor.catch_up(CATCH_UP)
        return self._told.knows(violation)

    def orders(self, governed: Governed, group: ProcessGroup) -> bytes:
        """What the stub is told."""
        calls = build_filter(shares_group=group is ProcessGroup.SHARED, door=True)
        return encode_orders(calls, governed.private, governed.writable, self._canary)

    def stub_argument(self, orders: str) -> str:
        """What the stub finds its two descriptors by; `orders` is the number of the one with the orders."""
        return f"{self._theirs.fileno()},{orders}"

    def spawn(
        self,
        argv: Sequence[str],
        descriptors: Sequence[int],
        spec: SandboxSpec,
        governed: Governed,
        sockets: Sequence[str] = (),
    ) -> Child:
        """Has the supervisor start bubblewrap. The child that stands for both of them."""
        rules = door_rules(spec, governed, self._canary, sockets)
        with self._ours, self._theirs:
            passed = (self._theirs.fileno(), *descriptors)
            self._supervisor.spawn(argv, passed, self._ours.fileno(), rules)
        return self._supervisor.child

    def prove(self, channel: socket.socket) -> None:
        """Waits for the verdicts of both ends on the canary. GatewayError names what is missing.

        EOFError when the wrap is gone, TimeoutError when it says nothing.
        """
        try:
            at_wall = take_verdict(channel, LAUNCH_DEADLINE)
        except (EOFError, GatewayError):  # the wrap is over: without a supervisor it does not come up
            missing = self._supervisor.missing(WORD_DEADLINE)
            if missing:
                raise GatewayError(*explain_missing(*missing)) from None
            raise
        seen = self._supervisor.canary(WORD_DEADLINE)
        expected = {"door": DOOR_REQUESTS} | ({"wall": at_wall, "nameless": 1} if at_wall else {})
        if dict(seen) != expected:
            raise GatewayError(*explain_unseen(seen, expected))

    def close(self) -> None:
        """Ends the supervisor, and the wrap with it, unless they are over. May be called again."""
        self._supervisor.close()
        for end in (self._ours, self._theirs):
            end.close()


def open_door(spec: SandboxSpec, life: Life, undo: ExitStack) -> Door | None:
    """The door of a wrap whose spec asks for one."""
    if spec.file_rules is not FileRules.CREATE_TIME or spec.profile is not Profile.AGENT:
        return None
    door = Door(life)
    undo.callback(door.close)
    return door


def door_rules(spec: SandboxSpec, governed: Governed, canary: str, sockets: Sequence[str] = ()) -> DoorRules:
    """The rules of a wrap as the supervisor takes them."""
    return DoorRules(
        canary=canary,
        writable=governed.writable,
        read_only=governed.read_only,
        closed=governed.closed,
        private=governed.private,
        own=governed.own,
        sealed=governed.sealed,
        git_configs=governed.git_configs,
        sockets=tuple(sockets),
        deny_write=spec.deny_write,
        allow_write=(*spec.allow_write, *governed.allow_write),
    )
