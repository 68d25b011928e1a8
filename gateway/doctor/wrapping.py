"""Checks of the wrap itself, each a real trial. What is launched works in a temporary directory, which is removed."""

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway.allowlists import load_shipped
from gateway.config import compile_egress
from gateway.doctor.findings import Finding, Verdict, failed, ok, warning
from gateway.doctor.kernel import look_at_landlock, look_at_seccomp
from gateway.doctor.place import Place
from gateway.errors import GatewayError
from gateway.proxy.reactor import GatewayLoop
from gateway.self_test import State, prove_wall
from gateway.session import Bridge, FileRules
from sandbox.backends import NATIVE
from sandbox.backends.base import Command
from sandbox.bridge import find_socat
from sandbox.events import Exit
from sandbox.launch import NATIVE as NATIVE_NAME
from sandbox.launch import NONE as NONE_NAME
from sandbox.launch import Choice, WrapOptions, choose_backend
from sandbox.probing.trial import TRIAL_DEADLINE, missing_programs, probe_linux
from sandbox.spec import SandboxBindMount, SandboxSpec

# A name that the file rules deny, and one that they do not, made in the wrap: 1 where the first could be made, 2 where
# the second could not.
_TRY: Final = "if (: >.env) 2>/dev/null; then exit 1; fi; (: >free) || exit 2"
_SECONDS: Final = 20.0
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_SAID: Final = 200


def look_at_bubblewrap(place: Place, name: str) -> Iterator[Finding]:
    """Found, its version, and a trial run with everything a wrap uses."""
    program = place.find("bwrap")
    probe = probe_linux(program, place.host)
    if probe.available:
        yield ok(name, f"{_version(program)} at {program} makes a wrap here")
        return
    reason, _, cure = probe.hint.partition(": ")
    yield failed(name, reason, cure)


def look_at_seatbelt(place: Place, name: str) -> Iterator[Finding]:
    """macOS: the backend's own probe, which runs it."""
    probe = NATIVE.probe()
    yield ok(name, probe.note) if probe.available else failed(name, probe.hint)


def look_at_file_rules(place: Place, name: str) -> Iterator[Finding]:
    """Whether names are denied when they are created: a real wrap, with its canary, and a shell that tries."""
    if place.config.file_rules is FileRules.EXISTING_ONLY:
        yield warning(
            name,
            "the config asks for existing-only: a new .env can be created, .git/config cannot be changed",
            "file_rules: create-time",
        )
        return
    missing = next(_missing(place, name), None)
    if missing is not None:
        yield missing
        return
    with tempfile.TemporaryDirectory(prefix="agent-gateway-doctor-") as folder:
        status = _try_out(place, os.path.realpath(folder))
    if status == 0:
        yield ok(name, "create-time holds: a denied name was refused in a wrap, a free one was made")
    elif status == 1:
        yield failed(
            name, "a denied name could be created in a wrap", "do not run agents here, and report it"
        )
    else:
        yield failed(
            name, f"a wrap did not do what it was told (status {status})", "free room in the temporary folder"
        )


def _missing(place: Place, name: str) -> Iterator[Finding]:
    """What a wrap with these rules would fail for; it takes its time to say so itself."""
    if not probe_linux(place.find("bwrap"), place.host).available:
        yield failed(name, "cannot be tried: bubblewrap makes no wrap here", "mend that first")
    for look in (look_at_landlock, look_at_seccomp):
        yield from (finding for finding in look(place, name) if finding.verdict is Verdict.FAILED)


def _try_out(place: Place, folder: str) -> int:
    """The exit status of the trial in a wrap. GatewayError says what the wrap lacks."""
    running = NATIVE.launch(_spec(place, folder))
    try:
        command = Command(("/bin/sh", "-c", _TRY), {"PATH": _PATH}, folder, timeout=_SECONDS)
        events = list(NATIVE.exec(running, command))
    finally:
        NATIVE.destroy(running)
    return next((event.code for event in events if isinstance(event, Exit)), -1)


def _spec(place: Place, folder: str, file_rules: FileRules = FileRules.CREATE_TIME) -> SandboxSpec:
    return SandboxSpec(
        session_id="doctor",
        workspace_id="default",
        agent_id="",
        bind_mounts=(SandboxBindMount(folder, folder),),
        user_home=place.environ.get("HOME", ""),
        search_path=_PATH,
        command=("/bin/sh",),
        file_rules=file_rules,
    )


def look_at_wall(place: Place, name: str) -> Iterator[Finding]:
    """Whether there is a way out of a wrap past its proxies: the self-test of a session, in a wrap of its own."""
    if not probe_linux(place.find("bwrap"), place.host).available:
        yield failed(name, "cannot be tried: bubblewrap makes no wrap here", "mend that first")
        return
    rules = compile_egress(place.config, load_shipped(), (), network=True)
    with tempfile.TemporaryDirectory(prefix="agent-gateway-doctor-") as folder:
        # The weaker file rules: whether the others hold is another check's business.
        running = NATIVE.launch(_spec(place, os.path.realpath(folder), FileRules.EXISTING_ONLY))
        try:
            with asyncio.Runner(loop_factory=GatewayLoop) as runner:
                outcome = runner.run(prove_wall(rules, running, Path(folder)))
        finally:
            NATIVE.destroy(running)
    if outcome.state is State.HOLDS:
        yield ok(name, outcome.reason)
    elif outcome.state is State.OPEN:
        yield failed(name, outcome.reason, "do not run agents here, and report it")
    else:
        yield warning(name, outcome.reason)


def look_at_socat(place: Place, name: str) -> Iterator[Finding]:
    """Only `bridge: socat` needs it."""
    program, wanted = find_socat() if place.find("socat") else "", place.config.bridge is Bridge.SOCAT
    if program:
        yield ok(
            name, f"{program}{'' if wanted else '; needed for bridge: socat alone, which is not configured'}"
        )
    elif wanted:
        hint = missing_programs(("socat",), place.host).hint.partition(": ")[2]
        yield failed(
            name, "bridge: socat is configured, and socat is not installed", f"{hint}; or bridge: handover"
        )
    else:
        yield ok(name, "not installed, and not needed: bridge is handover")


def look_at_backend(place: Place, name: str) -> Iterator[Finding]:
    """What `run` without options would do, in the words of its start-up line. GatewayError where it would not start."""
    choice = _choose(place)
    if choice.backend.name == NATIVE_NAME:
        yield ok(name, choice.line)
        return
    reason = f"{choice.line}: without a wrap there is no boundary, only conveniences (doctor --boundaries)"
    yield warning(name, reason, "run --backend native fails instead of going on without one")


def backend_in_force(place: Place) -> str:
    """The name of the backend that `run` without options would take; `none` where it would not start."""
    try:
        return _choose(place).backend.name
    except GatewayError:
        return NONE_NAME


def _choose(place: Place) -> Choice:
    options = WrapOptions(place.config.file_rules, place.config.bridge, place.platform)
    return choose_backend(None, None, place.environ, place.config.sandbox, options=options)


def _version(program: str) -> str:
    """The first line of what it says of itself."""
    command = (program, "--version")
    done = subprocess.run(
        command, env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=TRIAL_DEADLINE, check=False
    )
    said = done.stdout[:_SAID].decode(errors="replace").strip()
    return said.partition("\n")[0] or os.path.basename(program)
