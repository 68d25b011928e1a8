"""What keeps bubblewrap from working on a host, each cause with its cure. It reads the host's files and runs nothing.

Which step fails is found by `probing.py`; here the kernel's settings, and where this process runs, say why.
"""

import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gateway.policy.wording import printable
from sandbox.layout import STUB
from sandbox.probing.apparmor import explain_apparmor, restricts
from sandbox.probing.containers import find_container
from sandbox.probing.host_files import CAP_SETFCAP, Host

# The first bubblewrap with all options that a launch uses (--perms, --clearenv).
OLDEST = "0.5.0"


class Step(StrEnum):
    """What a wrap needs, in the order in which it is tried; the first that fails is the one to explain."""

    PROGRAM = "run"
    OPTIONS = "take the options of a wrap"
    USER = "make a user namespace"
    MOUNT = "set mounts up"
    PROC = "mount /proc in a process namespace"
    NETWORK = "make network, IPC and UTS namespaces"
    FILTER = "install a system-call filter"
    WHOLE = "set the whole wrap up"


# Where the program itself is at fault, not what it is forbidden.
OF_THE_PROGRAM = (Step.PROGRAM, Step.OPTIONS)


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed step of the program at `program`. `error`: the errno where it is known; `said`: its own words, which
    are quoted and never read; `is_unsure`: it was not refused, there was no answer."""

    step: Step
    program: str = ""
    error: int = 0
    said: str = ""
    is_unsure: bool = False


def explain(failure: Failure, host: Host) -> str:
    """Cause and cure in one line."""
    for obstacle in OBSTACLES:
        text = obstacle(failure, host)
        if text:
            return printable(text)
    said = printable(failure.said[:200]) or (
        os.strerror(failure.error) if failure.error else "without a message"
    )
    return f"{failure.program} cannot {failure.step} here ({said})"


def _old_wsl(failure: Failure, host: Host) -> str:
    """The first WSL has no Linux kernel; it spells the name of its imitation with a capital."""
    if "Microsoft" not in host.read("/proc/sys/kernel/osrelease"):
        return ""
    name = host.variable("WSL_DISTRO_NAME") or "DISTRIBUTION"
    return f"WSL 1 has no Linux kernel and so no namespaces: on Windows, wsl --set-version {name} 2"


def _nested(failure: Failure, host: Host) -> str:
    if host.variable("AGENT_GATEWAY_SANDBOX") == "native" or host.has(STUB):
        return "this already runs in a wrap of agent-gateway, which holds for all in it; no other can be made inside"
    return ""


def _no_process(failure: Failure, host: Host) -> str:
    if failure.step is not Step.PROGRAM or failure.error != errno.EAGAIN:
        return ""
    return "no further process can be started here: raise the limit of processes (ulimit -u, or pids.max of the cgroup)"


def _too_old(failure: Failure, host: Host) -> str:
    if failure.step is not Step.OPTIONS:
        return ""
    return f"{failure.program} is too old, version {OLDEST} or later is needed: {host.install('bubblewrap')}"


NAMESPACES: Mapping[Step, tuple[str, ...]] = {
    Step.USER: ("user",),
    Step.MOUNT: ("mnt",),
    Step.PROC: ("pid",),
    Step.NETWORK: ("net", "ipc", "uts"),
}


def _limit(failure: Failure, host: Host) -> str:
    """The sysctls user.max_*_namespaces. One per user namespace, so inside a container the container's own counts."""
    for name in NAMESPACES.get(failure.step, ()):
        setting = f"user.max_{name}_namespaces"
        value = host.read(f"/proc/sys/{setting.replace('.', '/')}").strip()
        if value == "0":
            return f"no {name} namespaces are allowed here: {_set(host, setting, '16384')}"
        if value.isdigit() and failure.error == errno.ENOSPC:
            return (
                f"all {value} {name} namespaces of {setting} are used up, or they are nested too deep:"
                f" end what holds them, or {_set(host, setting, str(int(value) * 2))}"
            )
    return ""


def _set(host: Host, setting: str, value: str) -> str:
    """The command that sets a sysctl, and where it has to be run."""
    where = " on the container's host" if find_container(host) else ""
    return f"{host.as_root(f'sysctl -w {setting}={value}')}{where} (to keep it: a file in /etc/sysctl.d)"


def _kernel(failure: Failure, host: Host) -> str:
    """What the kernel was built without."""
    for name in NAMESPACES.get(failure.step, ()):
        if host.has("/proc/self/ns") and not host.has(f"/proc/self/ns/{name}"):
            return f"this kernel was built without {name} namespaces (CONFIG_{name.upper()}_NS): boot one that has them"
    if failure.step is Step.FILTER and not host.has("/proc/sys/kernel/seccomp/actions_avail"):
        return "this kernel was built without system-call filters (CONFIG_SECCOMP_FILTER): boot one that has them"
    return ""


def _forbidden_to_users(failure: Failure, host: Host) -> str:
    """Debian's switch (and that of hardened kernels)."""
    setting = "kernel.unprivileged_userns_clone"
    value = host.read(f"/proc/sys/{setting.replace('.', '/')}").strip()
    if failure.step is not Step.USER or value != "0" or host.capable():
        return ""
    return f"this kernel forbids user namespaces to ordinary users: {_set(host, setting, '1')}"


def _bare_root(failure: Failure, host: Host) -> str:
    """Root may be mapped into a user namespace only by who has this capability (user_namespaces(7), Linux 5.12)."""
    if failure.step is not Step.MOUNT or not host.administrator or host.capable(CAP_SETFCAP):
        return ""
    added = "start the container with --cap-add SETFCAP, or " if find_container(host) else "give it back, or "
    return f"this is root without the capability CAP_SETFCAP, which a user namespace needs: {added}be an ordinary user"


def _changed_root(failure: Failure, host: Host) -> str:
    """In a chroot no user namespace can be made. Its root is usually no mount of its own (proc(5), mountinfo)."""
    mounts = [line.split(" ") for line in host.read("/proc/self/mountinfo").splitlines()]
    if failure.step is not Step.USER or not mounts or any(fields[4:5] == ["/"] for fields in mounts):
        return ""
    return (
        "the kernel makes no user namespaces in a chroot: run agent-gateway outside it, or enter the tree by"
        " systemd-nspawn -D instead of chroot"
    )


def _container(failure: Failure, host: Host) -> str:
    """Container runtimes forbid what a wrap needs, each in its own way."""
    container = find_container(host)
    if container is None or failure.step in OF_THE_PROGRAM:
        return ""
    options = list(container.options)
    if failure.step is Step.PROC:
        options = [option for option in options if option.proc]
    elif failure.step not in (Step.USER, Step.MOUNT):
        options = [option for option in options if option.filters]
    if not host.filtered:
        options = [option for option in options if not option.filters]
    text = f"{container.title} does not let bubblewrap {failure.step}: {container.advise(options)}"
    if restricts(host) and failure.step is not Step.PROC:
        text += "; its host restricts user namespaces by AppArmor and needs the profile bwrap-userns-restrict as well"
    return text


def _apparmor(failure: Failure, host: Host) -> str:
    return "" if failure.step in (*OF_THE_PROGRAM, Step.FILTER) else explain_apparmor(failure.program, host)


def _other_sandbox(failure: Failure, host: Host) -> str:
    """Sandboxes that forbid another one inside."""
    if failure.step in OF_THE_PROGRAM:
        return ""
    name = ""
    if host.has("/.flatpak-info"):
        name = "a Flatpak"
    elif host.variable("container") == "firejail" or host.has("/run/firejail/mnt"):
        name = "Firejail"
    elif host.has("/var/lib/snapd/hostfs"):
        name = "a snap"
    elif host.read("/proc/1/comm").strip() == "bwrap":
        name = "another bubblewrap sandbox"
    if not name:
        return ""
    return f"{name} around this does not let bubblewrap {failure.step}: start agent-gateway outside of it"


def _filtered(failure: Failure, host: Host) -> str:
    if failure.step in OF_THE_PROGRAM or not host.filtered:
        return ""
    return (
        f"a system-call filter that this process was started with does not let bubblewrap {failure.step}: a service"
        " needs RestrictNamespaces=no and @mount in SystemCallFilter= of its unit, a container its runtime's leave"
    )


# The first that speaks counts: what is sure and what nothing else could mend stands first.
OBSTACLES: tuple[Callable[[Failure, Host], str], ...] = (
    _no_process,
    _old_wsl,
    _too_old,
    _nested,
    _limit,
    _kernel,
    _forbidden_to_users,
    _changed_root,
    _bare_root,
    _other_sandbox,
    _container,
    _apparmor,
    _filtered,
)
