"""Which backend is in force, and the line that says so."""

import pytest

from gateway.errors import GatewayError, UsageError
from gateway.session import Bridge, FileRules
from sandbox import launch
from sandbox.backends.base import Backend, OnEvent, Probe, Running
from sandbox.backends.wrap import WrapBackend
from sandbox.launch import WrapOptions, choose_backend, from_name
from sandbox.spec import SandboxSpec


class Stated(WrapBackend):
    """A backend that is what the test says."""

    def __init__(self, name: str, state: Probe) -> None:
        self.name = name
        self.state = state

    def probe(self) -> Probe:
        return self.state

    def launch(self, spec: SandboxSpec, on_event: OnEvent | None = None) -> Running:
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
ON = f"agent sandbox ON ({NOTE})"
WEAKER = f"agent sandbox ON ({NOTE}; file rules: existing-only)"
TERMINAL = f"agent sandbox ON ({NOTE}; file rules: none)"
MICROVM: tuple[Backend, ...] = (
    *WITH[:1],
    Stated("microvm", Probe(True, "a kernel of its own")),
    *WITH[2:],
)
KERNEL = "agent sandbox ON (a kernel of its own; file rules: none)"
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
        (None, "native", None, True, "terminal", WITH, "native", TERMINAL),
        (None, None, None, True, "terminal", WITHOUT, "none", "agent sandbox DISABLED by --profile terminal"),
        ("on", None, None, True, "terminal", WITH, "none", "agent sandbox DISABLED by --profile terminal"),
        ("off", None, None, True, "terminal", WITH, "none", "agent sandbox DISABLED by --sandbox off"),
        (None, "none", None, True, "terminal", WITH, "none", "agent sandbox DISABLED by --backend none"),
        (None, None, "off", True, "terminal", WITH, "none", "agent sandbox DISABLED by CC_SERVER_SANDBOX"),
        (None, None, None, False, "terminal", WITH, "none", "agent sandbox DISABLED by config"),
        (None, "microvm", None, True, "terminal", MICROVM, "microvm", KERNEL),
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
    assert choice.stamp.file_rules == ("create-time" if (chosen, profile) == ("native", "agent") else "none")
    assert ("stepped down" in choice.log) is (line == "agent sandbox DISABLED by --profile terminal")


UNSURE: tuple[Backend, ...] = (Stated("native", Probe(False, hint="no end", is_unsure=True)), *WITH[1:])


@pytest.mark.parametrize("flag", [None, "on"])
def test_what_could_not_be_found_out_is_no_reason_to_go_without(flag: str | None) -> None:
    with pytest.raises(
        GatewayError, match="whether this host can wrap could not be found out: no end"
    ) as error:
        choose_backend(flag, None, {}, True, "agent", UNSURE)
    assert "--sandbox off" in error.value.hint
    assert choose_backend("off", None, {}, True, "agent", UNSURE).backend.name == "none"


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
        (None, None, "ON", "agent"),
        ("off", None, "true", "agent"),
        (None, "none", "1", "agent"),
        (None, None, "\x1b[2J", "agent"),
        (None, "na\x1btive", None, "agent"),
        (None, "", None, "agent"),
    ],
)
def test_contradictions(flag: str | None, backend: str | None, variable: str | None, profile: str) -> None:
    environment = {} if variable is None else {"CC_SERVER_SANDBOX": variable}
    with pytest.raises(UsageError) as caught:
        choose_backend(flag, backend, environment, True, profile, WITH)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("backend", "profile", "hint"),
    [
        ("native", "agent", "apt-get install bubblewrap"),
        ("native", "terminal", "apt-get install bubblewrap"),
        ("microvm", "terminal", "no machine"),
    ],
)
def test_asked_for_by_name_is_never_replaced(backend: str, profile: str, hint: str) -> None:
    with pytest.raises(GatewayError) as caught:
        choose_backend(None, backend, {}, True, profile, WITHOUT)
    assert not isinstance(caught.value, UsageError)
    assert caught.value.hint == hint
    assert f"--backend {backend} cannot run on this host" in str(caught.value)


def test_backend_that_is_not_even_there() -> None:
    with pytest.raises(GatewayError, match="no such backend"):
        choose_backend(None, "native", {}, True, "agent", WITH[1:])


@pytest.mark.parametrize(
    ("rules", "platform", "stamp", "line"),
    [
        ("create-time", "linux", "create-time", f"agent sandbox ON ({NOTE})"),
        ("existing-only", "linux", "existing-only", WEAKER),
        # Seatbelt judges every name when it is made; there is nothing weaker to choose.
        ("create-time", "darwin", "create-time", f"agent sandbox ON ({NOTE})"),
        ("existing-only", "darwin", "create-time", f"agent sandbox ON ({NOTE})"),
    ],
)
@pytest.mark.parametrize("backend", [None, "native"])
def test_weaker_file_rules_are_named(
    backend: str | None, rules: str, platform: str, stamp: str, line: str
) -> None:
    options = WrapOptions(file_rules=FileRules(rules), platform=platform)
    choice = choose_backend(None, backend, {}, True, "agent", WITH, options)
    assert (choice.line, choice.stamp.file_rules) == (line, stamp)


def test_line_is_one_line_whatever_a_probe_says() -> None:
    odd = (Stated("native", Probe(False, hint="two\nlines\x1b[2J")), *WITH[1:])
    assert choose_backend(None, None, {}, True, "agent", odd).line.isprintable()


def test_default_that_steps_down_is_told_with_its_reason() -> None:
    choice = choose_backend(None, None, {}, True, "terminal", WITH)
    assert choice.log == (
        "a terminal has no wrap unless --backend asks for one; microvm stepped down (no machine)"
    )
    assert "only when it is asked for" in choose_backend(None, None, {}, True, "terminal", MICROVM).log


# --- The bridge's own program ---------------------------------------------------------------------

NO_SOCAT = Probe(False, requires_install=("socat",), hint="socat is not installed: apt-get install socat")


@pytest.mark.parametrize(
    ("bridge", "platform", "line"),
    [
        (Bridge.HANDOVER, "linux", ON),
        (Bridge.SOCAT, "linux", f"no OS-native agent sandbox on this host ({NO_SOCAT.hint})"),
        (Bridge.SOCAT, "darwin", f"agent sandbox ON ({NOTE})"),
    ],
)
def test_missing_socat_counts_where_it_is_needed(
    monkeypatch: pytest.MonkeyPatch, bridge: Bridge, platform: str, line: str
) -> None:
    monkeypatch.setattr(launch, "probe_bridge", lambda asked: NO_SOCAT if asked is Bridge.SOCAT else None)
    options = WrapOptions(bridge=bridge, platform=platform)
    assert choose_backend(None, None, {}, True, "agent", WITH, options).line == line
    if line.startswith("no"):
        with pytest.raises(GatewayError) as caught:
            choose_backend(None, "native", {}, True, "agent", WITH, options)
        assert caught.value.hint == NO_SOCAT.hint


def test_socat_that_is_there_is_no_reason() -> None:
    choice = choose_backend(
        None, None, {}, True, "agent", WITH, WrapOptions(bridge=Bridge.SOCAT, platform="linux")
    )
    assert choice.line == ON


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("native", "native"), ("docker", "native"), ("microvm", "microvm"),
        ("none", "none"), (None, "none"), ("", "none"), ("other", "none"),
    ],
)  # fmt: skip
def test_stored_names(name: str | None, backend: str) -> None:
    assert from_name(name).name == backend
