"""Which backend is in force, and the one line that says so. It starts nothing but the backends' own probes.

What was asked for is given with its origin, so that the line names whatever chose to run without a wrap.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gateway.errors import GatewayError, UsageError
from gateway.policy.wording import printable
from gateway.session import Bridge, FileRules, Profile, SandboxStamp
from sandbox.backends import BACKENDS
from sandbox.backends.base import Backend
from sandbox.bridge import probe_bridge
from sandbox.probing.probe import Probe

NATIVE, NONE, MICROVM = "native", "none", "microvm"
# Names in stored settings of earlier products.
FORMER_NAMES = {"docker": NATIVE}

# The environment variable beside the flag.
VARIABLE = "CC_SERVER_SANDBOX"
# For who asks for a micro-VM in vain: where to go, and not on to the next refusal.
NO_MICROVM = "and this version has none for that either: leave it out, or write --backend native"
SWITCH = {"on": True, "off": False}


@dataclass(frozen=True, slots=True)
class Choice:
    """The backend that will be used, what the records say of it, and the start-up line.

    `log` is a note for the user besides (empty: none): that a default was stepped down from, and why.
    """

    backend: Backend
    stamp: SandboxStamp
    line: str
    log: str = ""


@dataclass(frozen=True, slots=True)
class WrapOptions:
    """What the configuration says of a wrap, and the platform it is made on (`sys.platform`'s word)."""

    file_rules: FileRules = FileRules.CREATE_TIME
    bridge: Bridge = Bridge.HANDOVER
    platform: str = sys.platform


def from_name(name: str | None, backends: Sequence[Backend] = BACKENDS) -> Backend:
    """The backend of a stored name; unknown or no name is `none`: it claims nothing that is not there."""
    wanted = FORMER_NAMES.get(name or "", name)
    for backend in backends:
        if backend.name == wanted:
            return backend
    return next(backend for backend in backends if backend.name == NONE)


def choose_backend(
    flag: str | None,
    backend: str | None,
    environment: Mapping[str, str],
    config: bool,
    profile: str = Profile.AGENT,
    backends: Sequence[Backend] = BACKENDS,
    options: WrapOptions | None = None,
) -> Choice:
    """Decides between wrapping and not: flag before environment before config.

    `flag` is the value of `--sandbox`, `backend` of `--backend` (None where left out), `environment` the launcher's
    own, `config` the configuration's `sandbox`, `profile` `agent` or `terminal`. UsageError for a bad value and for
    what contradicts itself; GatewayError when a backend was asked for by name and cannot run (it is never replaced by
    a weaker one), and when it could not be found out whether this host can wrap.
    """
    options = options or WrapOptions()
    if profile == Profile.TERMINAL:  # it has the host's network
        options = replace(options, bridge=Bridge.HANDOVER)
    if backend not in (None, NATIVE, NONE, MICROVM):
        raise UsageError(f"--backend {printable(backend[:80])}: there are native, none and microvm")
    wanted, origin = _switch(flag, environment, config)
    _refuse_contradictions(flag, backend, profile)
    if backend == NONE:
        return _unwrapped(f"agent sandbox DISABLED by --backend {NONE}", backends)
    if backend is not None:
        return _wrapped(_demand(backend, backends, options), profile, options)
    if not wanted:
        return _unwrapped(f"agent sandbox DISABLED by {origin}", backends)
    if profile == Profile.TERMINAL:
        return _unwrapped("agent sandbox DISABLED by --profile terminal", backends, _stepped_down(backends))
    native = from_name(NATIVE, backends)
    probe = _probe(native, options)
    if probe.is_unsure:
        raise GatewayError(
            f"whether this host can wrap could not be found out: {printable(probe.hint)}",
            "try again when it has room; --sandbox off runs the command without a wrap",
        )
    if not probe.available:
        return _unwrapped(f"no OS-native agent sandbox on this host ({printable(probe.hint)})", backends)
    return _wrapped(native, profile, options)


def _switch(flag: str | None, environment: Mapping[str, str], config: bool) -> tuple[bool, str]:
    """On or off, and what says so, as the start-up line spells it. A bad variable is an error beside a flag, too."""
    variable = environment.get(VARIABLE, "")
    switched = _parse_switch(VARIABLE, variable) if variable else None
    if flag is not None:
        return _parse_switch("--sandbox", flag), f"--sandbox {flag}"
    if switched is not None:
        return switched, VARIABLE
    return config, "config"


def _parse_switch(name: str, text: str) -> bool:
    if text not in SWITCH:
        raise UsageError(f"{name} is on or off, not {text[:80]!r}")
    return SWITCH[text]


def _refuse_contradictions(flag: str | None, backend: str | None, profile: str) -> None:
    if flag == "off" and backend not in (None, NONE):
        raise UsageError(f"--sandbox off contradicts --backend {backend}")
    if flag == "on" and backend == NONE:
        raise UsageError("--sandbox on contradicts --backend none")
    if backend == MICROVM and profile != Profile.TERMINAL:
        raise UsageError("--backend microvm is for --profile terminal only", NO_MICROVM)


def _probe(backend: Backend, options: WrapOptions) -> Probe:
    """The backend's own, and that of the bridge, which has a program of its own on Linux."""
    probe = backend.probe()
    if probe.available and backend.name == NATIVE and options.platform == "linux":
        return probe_bridge(options.bridge) or probe
    return probe


def _demand(name: str, backends: Sequence[Backend], options: WrapOptions) -> Backend:
    """The backend of this name, which must work."""
    backend = from_name(name, backends)
    if backend.name != name:
        raise GatewayError(f"--backend {name} cannot run on this host", "this version has no such backend")
    probe = _probe(backend, options)
    if not probe.available:
        raise GatewayError(f"--backend {name} cannot run on this host", printable(probe.hint))
    return backend


def _stepped_down(backends: Sequence[Backend]) -> str:
    """What a terminal would have had besides: a kernel of its own, where one can run."""
    probe = from_name(MICROVM, backends).probe()
    reason = "it is used only when it is asked for" if probe.available else printable(probe.hint)
    return f"a terminal has no wrap unless --backend asks for one; {MICROVM} stepped down ({reason})"


def _wrapped(backend: Backend, profile: str, options: WrapOptions) -> Choice:
    """What is weaker than names denied whenever they are created is said in the line and on every record.

    Seatbelt knows nothing weaker. A terminal's own files have any name.
    """
    rules: str = options.file_rules
    if profile == Profile.TERMINAL:
        rules = NONE
    elif options.platform == "darwin":
        rules = FileRules.CREATE_TIME
    weaker = "" if rules == FileRules.CREATE_TIME else f"; file rules: {rules}"
    line = f"agent sandbox ON ({printable(backend.probe().note)}{weaker})"
    return Choice(backend, SandboxStamp(backend.name, rules), line)


def _unwrapped(line: str, backends: Sequence[Backend], log: str = "") -> Choice:
    """Without a wrap there are no file rules at all, and the records say that too."""
    return Choice(from_name(NONE, backends), SandboxStamp(NONE, NONE), line, log)
