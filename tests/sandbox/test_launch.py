"""Which backend is in force, and the line that says so."""

from dataclasses import dataclass, field

import pytest

from gateway.errors import GatewayError, UsageError
from sandbox.backends.base import Backend, Probe, Running
from sandbox.launch import choose_backend, from_name
from sandbox.spec import SandboxSpec


@dataclass
class Stated:
    """A backend that is what the test says."""

    name: str
    state: Probe
    launched: list[SandboxSpec] = field(default_factory=list)

    def probe(self) -> Probe:
        return self.state

    def launch(self, spec: SandboxSpec) -> Running:
        raise AssertionError("choosing starts nothing")


NOTE = "bubblewrap: namespace isolation, no kernel boundary"
WITH: tuple[Backend, ...] = (
    Stated("native", Probe(True, NOTE)),
    Stated("microvm", Probe(False, hint="no machine")),
    Stated("none", Probe(True)),
)
WITHOUT: tuple[Backend, ...] = (
    Stated("native", Probe(False, requires_install=("bubblewrap",), hint="apt-get install bubblewrap")),
    *WITH[1:],
)
ON = f"agent sandbox ON ({NOTE}; file rules: existing-only)"
ABSENT = "no OS-native agent sandbox on this host (apt-get install bubblewrap)"


@pytest.mark.parametrize(
    ("flag", "backend", "variable", "config", "profile", "there", "chosen", "line"),
    [
        (None, None, None, True, "agent", WITH, "native", ON),
        (None, None, None, True, "agent", WITHOUT, "none", ABSENT),
        ("on", None, None, False, "agent", WITH, "native", ON),
        ("on", None, "off", False, "agent", WITHOUT, "none", ABSENT),
        ("off", None, None, True, "agent", WITH, "none", "agent sandbox DISABLED by --sandbox off"),
        ("off", None, "on", True, "agent", WITH, "none", "agent sandbox DISABLED by --sandbox off"),
        ("off", "none", None, True, "agent", WITH, "none", "agent sandbox DISABLED by --backend none"),
        (None, None, "off", True, "agent", WITH, "none", "agent sandbox DISABLED by CC_SERVER_SANDBOX"),
        (None, None, "on", False, "agent", WITH, "native", ON),
        (None, None, "", False, "agent", WITH, "none", "agent sandbox DISABLED by config"),
        (None, None, None, False, "agent", WITH, "none", "agent sandbox DISABLED by config"),
        (None, "none", None, True, "agent", WITH, "none", "agent sandbox DISABLED by --backend none"),
        (None, "native", None, True, "agent", WITH, "native", ON),
        (None, "native", "off", False, "agent", WITH, "native", ON),
        (None, None, None, True, "terminal", WITH, "none", "agent sandbox DISABLED by --profile terminal"),
        (None, "native", None, True, "terminal", WITH, "native", ON),
    ],
)
def test_choice(
    flag: str | None,
    backend: str | None,
    variable: str | None,
    config: bool,
    profile: str,
    there: tuple[Backend, ...],
    chosen: str,
    line: str,
) -> None:
    environment = {} if variable is None else {"CC_SERVER_SANDBOX": variable}
    choice = choose_backend(flag, backend, environment, config, profile, there)
    assert (choice.backend.name, choice.line, choice.stamp.backend) == (chosen, line, chosen)
    assert choice.stamp.file_rules == ("existing-only" if chosen == "native" else "none")


@pytest.mark.parametrize(
    ("flag", "backend", "variable", "profile"),
    [
        ("off", "native", None, "agent"),
        ("off", "microvm", None, "terminal"),
        ("on", "none", None, "agent"),
        (None, "docker", None, "agent"),
        (None, "microvm", None, "agent"),
        ("perhaps", None, None, "agent"),
        (None, None, "true", "agent"),
    ],
)
def test_contradictions(flag: str | None, backend: str | None, variable: str | None, profile: str) -> None:
    environment = {} if variable is None else {"CC_SERVER_SANDBOX": variable}
    with pytest.raises(UsageError):
        choose_backend(flag, backend, environment, True, profile, WITH)


@pytest.mark.parametrize(
    ("backend", "profile", "hint"),
    [("native", "agent", "apt-get install bubblewrap"), ("microvm", "terminal", "no machine")],
)
def test_asked_for_by_name_is_never_replaced(backend: str, profile: str, hint: str) -> None:
    with pytest.raises(GatewayError) as caught:
        choose_backend(None, backend, {}, True, profile, WITHOUT)
    assert not isinstance(caught.value, UsageError)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("native", "native"), ("docker", "native"), ("microvm", "microvm"),
        ("none", "none"), (None, "none"), ("", "none"), ("other", "none"),
    ],
)  # fmt: skip
def test_stored_names(name: str | None, backend: str) -> None:
    assert from_name(name).name == backend
