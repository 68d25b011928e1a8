"""The wrap: real trials of real programs, and programs that fail."""

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.doctor.findings import Verdict
from gateway.doctor.wrapping import (
    backend_in_force,
    look_at_backend,
    look_at_bubblewrap,
    look_at_file_rules,
    look_at_socat,
    look_at_wall,
)
from gateway.errors import UsageError
from tests.fakes.doctor import only, place_in, program
from tests.sandbox.hosts import DEBIAN, host_with


def test_bubblewrap_works(tmp_path: Path) -> None:
    finding = only(list(look_at_bubblewrap(place_in(tmp_path), "bubblewrap")))
    assert finding.verdict is Verdict.OK
    assert finding.reason.startswith("bubblewrap 0.")


def test_bubblewrap_is_missing(tmp_path: Path) -> None:
    host = host_with(
        tmp_path / "host", {"/etc/os-release": DEBIAN, "/usr/bin/apt-get*": ""}, administrator=True
    )
    place = replace(place_in(tmp_path, find=lambda _: ""), host=host)
    finding = only(list(look_at_bubblewrap(place, "bubblewrap")))
    assert (finding.verdict, finding.cure) == (Verdict.FAILED, "apt-get install bubblewrap")
    assert finding.reason == "bubblewrap is not installed"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 1", "cannot run here (exit status 1)"),
        ('case "$*" in --version) echo bubblewrap 0.1.0 ;; *) exit 1 ;; esac', "is too old"),
    ],
)
def test_bubblewrap_fails(tmp_path: Path, script: str, words: str) -> None:
    fake = program(tmp_path / "bin", "bwrap", script)
    finding = only(list(look_at_bubblewrap(place_in(tmp_path, find=lambda _: str(fake)), "bubblewrap")))
    assert finding.verdict is Verdict.FAILED
    assert words in finding.reason


def test_file_rules_hold(tmp_path: Path) -> None:
    finding = only(list(look_at_file_rules(place_in(tmp_path), "file rules")))
    assert finding.verdict is Verdict.OK, finding
    assert not list(Path("/tmp").glob("agent-gateway-doctor-*/free"))


def test_weaker_file_rules_are_named(tmp_path: Path) -> None:
    place = place_in(tmp_path, "file_rules: existing-only\n")
    finding = only(list(look_at_file_rules(place, "file rules")))
    assert (finding.verdict, finding.cure) == (Verdict.WARNING, "file_rules: create-time")


def test_file_rules_without_bubblewrap(tmp_path: Path) -> None:
    finding = only(list(look_at_file_rules(place_in(tmp_path, find=lambda _: ""), "file rules")))
    assert finding.verdict is Verdict.FAILED


def test_the_wall(tmp_path: Path) -> None:
    finding = only(list(look_at_wall(place_in(tmp_path), "wall")))
    assert (finding.verdict, finding.reason.startswith("no way past the proxies")) == (Verdict.OK, True)


def test_no_wall_without_bubblewrap(tmp_path: Path) -> None:
    assert only(list(look_at_wall(place_in(tmp_path, find=lambda _: ""), "wall"))).verdict is Verdict.FAILED


@pytest.mark.parametrize(
    ("config", "is_there", "verdict", "words"),
    [
        ("", True, Verdict.OK, "needed for bridge: socat alone"),
        ("bridge: socat\n", True, Verdict.OK, "/usr/bin/socat"),
        ("", False, Verdict.OK, "not installed, and not needed"),
        ("bridge: socat\n", False, Verdict.FAILED, "socat is not installed"),
    ],
)
def test_socat(tmp_path: Path, config: str, is_there: bool, verdict: Verdict, words: str) -> None:
    place = place_in(tmp_path, config, find=lambda name: f"/usr/bin/{name}" if is_there else "")
    finding = only(list(look_at_socat(place, "socat")))
    assert finding.verdict is verdict
    assert words in finding.reason


@pytest.mark.parametrize(
    ("config", "variable", "verdict", "backend"),
    [
        ("", "", Verdict.OK, "native"),
        ("file_rules: existing-only\n", "", Verdict.OK, "native"),
        ("sandbox: off\n", "", Verdict.WARNING, "none"),
        ("", "off", Verdict.WARNING, "none"),
        ("sandbox: off\n", "on", Verdict.OK, "native"),
    ],
)
def test_what_run_would_do(
    tmp_path: Path, config: str, variable: str, verdict: Verdict, backend: str
) -> None:
    place = place_in(tmp_path, config)
    place = replace(place, environ={**place.environ, "CC_SERVER_SANDBOX": variable})
    finding = only(list(look_at_backend(place, "run")))
    assert (finding.verdict, backend_in_force(place)) == (verdict, backend)
    assert finding.reason.startswith(
        "agent sandbox ON" if backend == "native" else "agent sandbox DISABLED by"
    )


def test_run_would_not_start(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    place = replace(place, environ={**place.environ, "CC_SERVER_SANDBOX": "maybe"})
    with pytest.raises(UsageError, match="CC_SERVER_SANDBOX is on or off"):
        list(look_at_backend(place, "run"))
    assert backend_in_force(place) == "none"
