"""File rules at creation time, from the backend's side: the supervisor of one wrap, its rules, and the proof of it.

It decides nothing: what is denied is the plan's and the supervisor's. Whatever is missing ends the launch.
"""

import os
import secrets
import socket
from collections.abc import Sequence
from contextlib import ExitStack

from gateway.errors import GatewayError
from gateway.session import FileRules, ProcessGroup, Profile
from sandbox.backends.base import LAUNCH_DEADLINE, WORD_DEADLINE
from sandbox.backends.life import Life
from sandbox.confinement import DOOR_REQUESTS, WAYS_OUT, encode_orders, take_verdict
from sandbox.events import Violation
from sandbox.governed import Governed
from sandbox.handover import Child
from sandbox.mounts import own_interpreter
from sandbox.seccomp import build_filter
from sandbox.spec import SandboxSpec
from sandbox.supervisor.client import Supervisor
from sandbox.supervisor.rules import CANARY_DIGITS, DoorRules


class Door:
    """The supervisor of one wrap. Its process is started at once, so that it comes up while the host is looked at.

    `complaint` is where it, and bubblewrap below it, say what fails.
    """

    def __init__(self, life: Life) -> None:
        self._canary = secrets.token_hex(CANARY_DIGITS // 2)
        with ExitStack() as undo:
            self.complaint, end = os.pipe()
            undo.callback(os.close, self.complaint)
            try:
                self._supervisor = Supervisor(
                    own_interpreter(), end, lambda violation: life.tell(Violation(violation))
                )
            finally:
                os.close(end)
            undo.callback(self._supervisor.close)
            self._ours, self._theirs = socket.socketpair()
            undo.pop_all()

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
        at_wall = take_verdict(channel, LAUNCH_DEADLINE)
        seen = self._supervisor.canary(WORD_DEADLINE)
        expected = {"door": DOOR_REQUESTS} | ({"wall": at_wall, "nameless": 1} if at_wall else {})
        if dict(seen) != expected:
            raise GatewayError(
                "the file rules cannot hold at creation time: the supervisor was not asked for what was tried"
                f" ({dict(seen)} instead of {expected})",
                WAYS_OUT.removeprefix("or "),
            )

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
        private=governed.private,
        own=governed.own,
        sealed=governed.sealed,
        git_configs=governed.git_configs,
        sockets=tuple(sockets),
        deny_write=spec.deny_write,
        allow_write=(*spec.allow_write, *governed.allow_write),
    )
