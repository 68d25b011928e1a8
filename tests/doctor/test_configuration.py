"""The configuration and the lists: every problem with its place."""

from pathlib import Path

import pytest

from gateway.doctor.configuration import look_at_configuration, look_at_lists
from gateway.doctor.findings import Verdict
from gateway.doctor.place import find_place
from gateway.errors import UsageError
from tests.fakes.doctor import only, place_in, verdicts


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("sandbox: on\n", [Verdict.OK]),
        ("github: {private_key_file: /nowhere/key.pem}\n", [Verdict.WARNING, Verdict.FAILED]),
        ("operator: {token_file: /nowhere}\n", [Verdict.WARNING]),
        ("egress:\n  allow: [a b, api*.x.test]\n", [Verdict.FAILED, Verdict.FAILED]),
    ],
)
def test_problems(tmp_path: Path, config: str, expected: list[Verdict]) -> None:
    found = list(look_at_configuration(place_in(tmp_path, config), "config"))
    assert verdicts(found) == expected
    assert all("config.yaml" in one.reason for one in found)


def test_many_problems_are_counted(tmp_path: Path) -> None:
    config = "egress:\n  allow:\n" + "".join(f"  - 'a b {number}'\n" for number in range(30))
    found = list(look_at_configuration(place_in(tmp_path, config), "config"))
    assert (len(found), found[-1].verdict) == (21, Verdict.FAILED)
    assert found[-1].reason.startswith("10 more problems in ")


def test_no_config(tmp_path: Path) -> None:
    place = find_place(None, {"HOME": str(tmp_path)})
    finding = only(list(look_at_configuration(place, "config")))
    assert finding.verdict is Verdict.OK
    assert finding.reason.startswith("there is no config file")


def test_a_variable_that_cannot_be_meant(tmp_path: Path) -> None:
    place = find_place(None, {"HOME": str(tmp_path), "AGENT_GATEWAY_CONFIG": "relative.yaml"})
    with pytest.raises(UsageError, match="is a relative path"):
        list(look_at_configuration(place, "config"))


def test_lists(tmp_path: Path) -> None:
    assert only(list(look_at_lists(place_in(tmp_path), "lists"))).verdict is Verdict.OK
