"""The App against the forge: as it should be, and everything that can be wrong with it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gateway.doctor.findings import Finding, Verdict
from gateway.doctor.github import look_at_app
from gateway.doctor.place import Place
from gateway.forge.app import register_app
from gateway.forge.faults import Fault, Point
from gateway.forge.server import Forge
from tests.fakes.doctor import only, place_in
from tests.fakes.forge import new_worktree, open_forge

NAME = "github app"


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Forge]:
    with open_forge(tmp_path) as forge:
        forge.create_repository("acme/widget")
        yield forge


def place_at(
    forge: Forge, folder: Path, *, pem: str = "", mode: int = 0o600, number: int = 0, more: str = ""
) -> Place:
    """A place whose App is the forge's, in a worktree of acme/widget."""
    app, own = forge.create_app()
    key = folder / "app.pem"
    key.write_text(pem or own)
    key.chmod(mode)
    work = folder / "work"
    if not work.exists():
        new_worktree(work, f"{forge.url}/acme/widget.git")
    config = (
        f'github: {{url: "{forge.url}", api_url: "{forge.api_url}", app_id: {number or app},'
        f' private_key_file: "{key}"}}\n{more}'
    )
    return place_in(folder, config, worktree=work)


def look(place: Place) -> dict[str, Finding]:
    return {one.name: one for one in look_at_app(place, NAME)}


def test_all_is_well(forge: Forge, tmp_path: Path) -> None:
    found = look(place_at(forge, tmp_path))
    assert {name: one.verdict.value for name, one in found.items()} == {
        f"{NAME} key": "ok",
        NAME: "ok",
        f"{NAME} clock": "ok",
        f"{NAME} repos": "ok",
    }
    assert found[f"{NAME} repos"].reason == "installed for acme/widget, with the permissions that are needed"
    assert not [seen for seen in forge.requests if seen.method != "GET"]


def test_no_app(tmp_path: Path) -> None:
    finding = only(list(look_at_app(place_in(tmp_path), NAME)))
    assert finding.verdict is Verdict.WARNING
    assert finding.reason.startswith("no App is configured")


@pytest.mark.parametrize(
    ("pem", "words"),
    [("no key\n", "holds no private key in PEM form"), ("", "")],
)
def test_the_key(forge: Forge, tmp_path: Path, pem: str, words: str) -> None:
    found = look(place_at(forge, tmp_path, pem=pem))
    assert found[f"{NAME} key"].verdict is (Verdict.FAILED if pem else Verdict.OK)
    assert words in found[f"{NAME} key"].reason
    assert (NAME in found) is not bool(pem)


def test_a_key_that_others_can_read(forge: Forge, tmp_path: Path) -> None:
    finding = look(place_at(forge, tmp_path, mode=0o640))[f"{NAME} key"]
    assert (finding.verdict, finding.cure) == (Verdict.WARNING, f"chmod 600 {tmp_path}/app.pem")


def test_the_key_of_another_app(forge: Forge, tmp_path: Path) -> None:
    finding = look(place_at(forge, tmp_path, pem=register_app().private_key_pem))[NAME]
    assert finding.verdict is Verdict.FAILED
    assert finding.reason == "GitHub does not accept the App's signature"
    assert finding.cure == "does github.private_key_file belong to github.app_id?"


def test_an_app_that_is_not_there(forge: Forge, tmp_path: Path) -> None:
    finding = look(place_at(forge, tmp_path, number=7))[NAME]
    assert (finding.verdict, finding.cure) == (Verdict.FAILED, "check github.app_id")


@pytest.mark.parametrize(
    ("seconds", "name", "verdict"),
    [(0, "clock", Verdict.OK), (30, "clock", Verdict.WARNING), (-40, "clock", Verdict.WARNING)],
)
def test_the_clock(forge: Forge, tmp_path: Path, seconds: int, name: str, verdict: Verdict) -> None:
    place = replace(place_at(forge, tmp_path), now=lambda: datetime.now(UTC) + timedelta(seconds=seconds))
    assert look(place)[f"{NAME} {name}"].verdict is verdict


@pytest.mark.parametrize(("seconds", "side"), [(600, "ahead of"), (-3600, "behind")])
def test_a_clock_that_github_does_not_take(forge: Forge, tmp_path: Path, seconds: int, side: str) -> None:
    place = replace(place_at(forge, tmp_path), now=lambda: datetime.now(UTC) + timedelta(seconds=seconds))
    finding = look(place)[NAME]
    assert finding.verdict is Verdict.FAILED
    assert f"seconds {side} GitHub's" in finding.reason


def test_not_installed(forge: Forge, tmp_path: Path) -> None:
    forge.create_repository("other/gadget", installed=False)
    place = place_at(forge, tmp_path, more="workspaces: {default: {repositories: [other/gadget]}}\n")
    found = [one for one in look_at_app(place, NAME) if one.name == f"{NAME} repos"]
    assert [one.verdict for one in found] == [Verdict.OK, Verdict.FAILED]
    assert found[1].reason == "the GitHub App is not installed for other/gadget"
    assert found[1].cure.startswith("install it for other")


def test_suspended(forge: Forge, tmp_path: Path) -> None:
    forge.repositories.suspend("acme")
    assert look(place_at(forge, tmp_path))[f"{NAME} repos"].verdict is Verdict.FAILED


def test_rights_that_are_lacking(tmp_path: Path) -> None:
    with open_forge(tmp_path, register_app({"contents": "read", "pull_requests": "write"})) as forge:
        forge.create_repository("acme/widget")
        found = look(place_at(forge, tmp_path))
    assert found[f"{NAME} rights"].verdict is found[f"{NAME} repos"].verdict is Verdict.FAILED
    assert found[f"{NAME} rights"].reason == "the App does not ask for contents: write"
    assert found[f"{NAME} repos"].reason == "the installation at acme does not grant contents: write"


def test_no_repository_to_ask_about(forge: Forge, tmp_path: Path) -> None:
    found = look(replace(place_at(forge, tmp_path), worktree=""))
    assert found[f"{NAME} repos"].verdict is Verdict.WARNING


def test_many_repositories(forge: Forge, tmp_path: Path) -> None:
    names = ", ".join(f"acme/r{number}" for number in range(9))
    place = place_at(forge, tmp_path, more=f"workspaces: {{default: {{repositories: [{names}]}}}}\n")
    found = [one for one in look_at_app(place, NAME) if one.name == f"{NAME} repos"]
    assert len(found) == 6
    assert found[-1].reason == "5 more were not asked about"


def test_nobody_is_there(forge: Forge, tmp_path: Path) -> None:
    place = place_at(forge, tmp_path)
    github = replace(place.config.github, api_url="http://127.0.0.1:1/api/v3")
    found = look(replace(place, config=replace(place.config, github=github)))
    assert found[NAME].verdict is Verdict.WARNING
    assert found[NAME].reason.startswith("GitHub cannot be reached")
    assert f"{NAME} repos" not in found


def test_an_answer_that_does_not_come(forge: Forge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.doctor.github.DEADLINE", 0.2)
    forge.faults.set(Point.FIND, Fault(stall=True))
    found = look(place_at(forge, tmp_path))
    assert found[NAME].verdict is Verdict.WARNING
    assert found[NAME].reason == f"{forge.api_url} did not answer within 0.2 seconds"


def test_another_server(forge: Forge, tmp_path: Path) -> None:
    place = place_at(forge, tmp_path)
    github = replace(place.config.github, api_url=f"{forge.url}/acme/widget.git/info")
    found = look(replace(place, config=replace(place.config, github=github)))
    assert found[NAME].verdict is Verdict.FAILED
