"""The interpreter and the kernel: on this host, and on one that lacks them, by filters of others."""

from pathlib import Path

import pytest

from gateway.doctor.findings import Verdict
from gateway.doctor.kernel import look_at_landlock, look_at_namespaces, look_at_python, look_at_seccomp
from tests.doctor.test_answer import refusing
from tests.fakes.console import Console
from tests.fakes.doctor import asked, only, place_in


@pytest.mark.parametrize(
    ("python", "verdict", "cure"),
    [
        ((3, 12, 0), Verdict.OK, ""),
        ((3, 13, 1), Verdict.OK, ""),
        ((3, 11, 9), Verdict.FAILED, "install Python 3.12 or newer, then make setup"),
    ],
)
def test_python(tmp_path: Path, python: tuple[int, int, int], verdict: Verdict, cure: str) -> None:
    finding = only(list(look_at_python(place_in(tmp_path, python=python), "python")))
    assert (finding.verdict, finding.cure) == (verdict, cure)
    assert ".".join(map(str, python)) in finding.reason


@pytest.mark.parametrize("look", [look_at_namespaces, look_at_landlock, look_at_seccomp])
def test_this_host(tmp_path: Path, look: type) -> None:
    assert only(list(look(place_in(tmp_path), "x"))).verdict is Verdict.OK


@pytest.mark.parametrize(
    ("what", "name", "reason", "cure"),
    [
        ("user", "user namespaces", "cannot be made (Operation not permitted)", ""),
        ("landlock", "landlock", "this kernel has no Landlock (ENOSYS)", "it takes Linux 5.19 or newer"),
        (
            "notification",
            "seccomp",
            "a system-call filter with a listener is refused here (ENOTSUP)",
            "allow it",
        ),
    ],
)
def test_a_host_that_lacks_it(tmp_path: Path, what: str, name: str, reason: str, cure: str) -> None:
    finding = asked(Console(tmp_path, before=refusing(what)))[name]
    assert finding["verdict"] == "failed"
    assert finding["reason"].startswith(reason)
    assert cure in finding["cure"]


def test_who_has_chosen_the_weaker_rules_lacks_nothing(tmp_path: Path) -> None:
    console = Console(tmp_path, before=refusing("landlock"))
    console.config("file_rules: existing-only\n")
    found = asked(console)
    assert {name for name, one in found.items() if one["verdict"] == "failed"} == set()
    assert found["landlock"]["verdict"] == found["file rules"]["verdict"] == "warning"
