"""Checks, after the mounts were made and before CMD runs, that the wrap is the one that was planned.

Between the look at the host and bubblewrap's mounts somebody else in the same worktree (another session, a build) can
put a link where a file was, and a mount would show or protect something else. The kernel's own list of the stub's
mounts cannot be fooled: whatever differs from the plan is a refusal.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.errors import GatewayError
from sandbox.masks import MaskKind
from sandbox.mounts import WrapPlan
from sandbox.places import within

# bubblewrap fills these itself.
OWN_TREES = ("/dev", "/proc")


@dataclass(frozen=True, slots=True)
class Mounted:
    """One line of mountinfo (proc_pid_mountinfo(5)): what of which device is where."""

    device: str
    root: str
    read_only: bool


def parse_mountinfo(data: bytes) -> Mapping[str, Mounted]:
    """The mounts by mount point; of several at one point the last, which is the one that is seen.

    The kernel escapes blank, tab, newline and backslash, nothing else: a name may hold whatever else ends a line
    elsewhere. GatewayError for a line of another form.
    """
    found = {}
    for line in os.fsdecode(data).removesuffix("\n").split("\n") if data else ():
        fields = line.split(" ")
        if len(fields) < 6:
            raise GatewayError("the wrap's mounts cannot be checked: the kernel's list has an unknown form")
        device, root, point, options = fields[2:6]
        found[_unescape(point)] = Mounted(device, _unescape(root), "ro" in options.split(","))
    return found


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)


def source_of(path: str, mounts: Mapping[str, Mounted]) -> tuple[str, str]:
    """The device of a path and its place on it, as mountinfo would name a bind of it.

    Empty when there is no root to be seen (a process in a chroot).
    """
    point = path
    while point not in mounts and point != "/":
        point = point.rsplit("/", 1)[0] or "/"
    if point not in mounts:
        return "", ""
    mounted = mounts[point]
    below = path[len(point) :] if point != "/" else path
    return mounted.device, (mounted.root.rstrip("/") + "/" + below.lstrip("/")).rstrip("/") or "/"


def compare(plan: WrapPlan, outside: Mapping[str, Mounted], inside: Mapping[str, Mounted]) -> str:
    """The first difference between plan and wrap, as a sentence; empty when there is none."""
    expected: dict[str, bool] = {bind.path: bind.read_only for bind in plan.binds}
    for mask in plan.masks:
        if mask.kind in (MaskKind.PIN, MaskKind.READ_ONLY):
            expected[mask.path] = mask.kind is MaskKind.READ_ONLY
    for path, read_only in expected.items():
        mounted = inside.get(path)
        if mounted is None or (mounted.device, mounted.root) != source_of(path, outside):
            return f"{path} is not what it was a moment ago"
        if read_only and not mounted.read_only:
            return f"{path} is not read-only"
    for mask in plan.masks:
        if mask.path not in inside:
            return f"{mask.path} is not hidden"
    planned = {"/", *plan.arguments}  # every place of a mount is an argument
    for point, mounted in inside.items():
        if point in planned or any(within(point, own) for own in OWN_TREES):
            continue
        there = outside.get(point)  # a file system mounted below a bind, which comes along
        if there is None or (there.device, there.root) != (mounted.device, mounted.root):
            return f"something is mounted on {point}"
    return ""


def verify_mounts(pid: int, plan: WrapPlan) -> None:
    """Compares the plan with the mounts of the waiting stub. GatewayError when they differ."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            outside = parse_mountinfo(file.read())
        with open(f"/proc/{pid}/mountinfo", "rb") as file:
            inside = parse_mountinfo(file.read())
    except OSError as error:
        raise GatewayError(f"the wrap's mounts cannot be checked: {error.strerror}") from error
    difference = compare(plan, outside, inside)
    if difference:
        raise GatewayError(
            f"the wrap is not the planned one: {difference}", "start again when nothing else changes it"
        )
