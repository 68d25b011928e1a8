"""Which backend is in force, and the one line that says so. It starts nothing.

What was asked for is given with its origin, so that the line names whatever chose to run without a wrap.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.errors import GatewayError, UsageError
from gateway.session import FileRules, SandboxStamp
from sandbox.backends import BACKENDS
from sandbox.backends.base import Backend

NATIVE, NONE, MICROVM = "native", "none", "microvm"
# Names in stored settings of earlier products.
FORMER_NAMES = {"docker": NATIVE}

# The environment variable beside the flag.
VARIABLE = "CC_SERVER_SANDBOX"
SWITCH = {"on": True, "off": False}


@dataclass(frozen=True, slots=True)
class Choice:
    """The backend that will be used, what the records say of it, and the start-up line."""

    backend: Backend
    stamp: SandboxStamp
    line: str


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
    profile: str = "agent",
    backends: Sequence[Backend] = BACKENDS,
) -> Choice:
    """Decides between wrapping and not: flag before environment before config.

    `flag` is the value of `--sandbox`, `backend` of `--backend` (None where left out), `environment` the launcher's
    own, `config` the configuration's `sandbox`, `profile` `agent` or `terminal`. UsageError for a bad value and for
    what contradicts itself; GatewayError when a backend was asked for by name and cannot run: it is never replaced by
    a weaker one.
    """
    if backend not in (None, NATIVE, NONE, MICROVM):
        raise UsageError(f"--backend {backend}: there are native, none and microvm")
    wanted, origin = _switch(flag, environment, config)
    _refuse_contradictions(flag, backend, profile)
    if backend == NONE:
        return _unwrapped(f"agent sandbox DISABLED by --backend {NONE}", backends)
    if backend is not None:
        return _wrapped(_demand(backend, backends))
    if not wanted:
        return _unwrapped(f"agent sandbox DISABLED by {origin}", backends)
    if profile == "terminal":
        return _unwrapped("agent sandbox DISABLED by --profile terminal", backends)
    native = from_name(NATIVE, backends)
    probe = native.probe()
    if not probe.available:
        return _unwrapped(f"no OS-native agent sandbox on this host ({probe.hint})", backends)
    return _wrapped(native)


def _switch(flag: str | None, environment: Mapping[str, str], config: bool) -> tuple[bool, str]:
    """On or off, and what says so, as the start-up line spells it."""
    if flag is not None:
        return _parse_switch("--sandbox", flag), f"--sandbox {flag}"
    if environment.get(VARIABLE):
        return _parse_switch(VARIABLE, environment[VARIABLE]), VARIABLE
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
    if backend == MICROVM and profile != "terminal":
        raise UsageError("--backend microvm is for --profile terminal only")


def _demand(name: str, backends: Sequence[Backend]) -> Backend:
    """The backend of this name, which must work."""
    backend = from_name(name, backends)
    probe = backend.probe()
    if backend.name != name or not probe.available:
        raise GatewayError(f"--backend {name} cannot run on this host", probe.hint)
    return backend


def _wrapped(backend: Backend) -> Choice:
    """The names that exist at launch are protected, those created later are not: said in line and records."""
    rules = FileRules.EXISTING_ONLY
    line = f"agent sandbox ON ({backend.probe().note}; file rules: {rules})"
    return Choice(backend, SandboxStamp(backend.name, rules), line)


def _unwrapped(line: str, backends: Sequence[Backend]) -> Choice:
    """Without a wrap there are no file rules at all, and the records say that too."""
    return Choice(from_name(NONE, backends), SandboxStamp(NONE, NONE), line)
