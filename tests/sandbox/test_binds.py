"""Which directories a spec leads to. How they are seen is in the tests of `mounts`."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from sandbox.binds import is_own_place, private_home, protected_paths, spec_binds
from sandbox.places import guard
from sandbox.spec import SandboxBindMount, SandboxSpec

SPEC = SandboxSpec("session", "one", "agent", (), state_dir="/people/dev/state", space_id="space")


def own(path: str) -> str:
    """A path below the state directory."""
    return os.path.join(SPEC.state_dir, path)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("workspaces/one/home", True),
        ("workspaces/one/home/below", True),
        ("workspaces/one/agents/claude", True),
        ("workspaces/one/worktrees/tree-12/home", True),
        ("workspaces/one/worktrees/tree-12/agents/claude/below", True),
        ("spaces/space/repos", True),
        ("spaces/space/agents/agent/work", True),
        ("spaces/space/agents/agent/agents/claude", True),
        ("workspaces/one", False),
        ("workspaces/one/agents", False),
        ("workspaces/one/worktrees", False),
        ("workspaces/one/worktrees/tree-12", False),
        ("workspaces/one/worktrees/tree-12/deeper/home", False),
        ("workspaces/other/home", False),
        ("workspaces/onë/home", False),
        ("workspaces", False),
        ("spaces/other/repos", False),
        ("spaces/space/agents/other/work", False),
        ("spaces/space/agents/agent", False),
        ("spaces/space/else", False),
        ("audit", False),
        ("", False),
        ("../else/../elsewhere", False),
        ("workspaces/one/home/../../../audit", False),
        ("workspaces/one/home\n", False),
    ],
)
def test_own_places(path: str, expected: bool) -> None:
    assert is_own_place(SPEC, own(path)) is expected


def test_names_are_no_patterns() -> None:
    spec = replace(SPEC, workspace_id="o.e", space_id=".*")
    assert not is_own_place(spec, own("workspaces/one/home"))
    assert not is_own_place(spec, own("spaces/space/repos"))
    assert is_own_place(spec, own("workspaces/o.e/home"))


def test_own_place_through_a_link(tmp_path: Path) -> None:
    for folder in ("workspaces/one/home", "audit"):
        (tmp_path / "state" / folder).mkdir(parents=True)
    (tmp_path / "link").symlink_to("state")
    (tmp_path / "state" / "workspaces/one/home/audit").symlink_to("../../../audit")
    spec = replace(SPEC, state_dir=f"{tmp_path}/link")
    assert is_own_place(spec, str(tmp_path / "state" / "workspaces/one/home"))
    assert not is_own_place(spec, str(tmp_path / "state" / "workspaces/one/home/audit"))
    assert not is_own_place(replace(spec, state_dir=""), str(tmp_path / "state" / "workspaces/one/home"))


def test_home_of_another_workspace(tmp_path: Path) -> None:
    """Its package caches and shell files are not this session's."""
    state = tmp_path / "state"
    for name in ("one", "other"):
        (state / "workspaces" / name / "home").mkdir(parents=True)
    spec = replace(SPEC, state_dir=str(state))
    places = guard("", (str(state),))
    for name, expected in (("one", True), ("other", False)):
        path = str(state / "workspaces" / name / "home")
        for asked in (
            replace(spec, runner_state_dirs=(path,)),
            replace(spec, bind_mounts=(SandboxBindMount(path, path),)),
        ):
            if expected:
                assert [bind.path for bind in spec_binds(asked, places)] == [path]
            else:
                with pytest.raises(GatewayError, match="own state"):
                    spec_binds(asked, places)


def test_what_is_not_there_yet(tmp_path: Path) -> None:
    """A plan that is only looked at makes nothing, and wants nothing made."""
    folder = str(tmp_path / "workspaces/one/agents/claude")
    spec = replace(
        SPEC, state_dir=str(tmp_path), runner_state_dirs=(folder,), home=str(tmp_path / "workspaces/one/home")
    )
    places = guard("", (str(tmp_path),))
    assert [bind.path for bind in spec_binds(spec, places, make_home=False)] == [folder]
    assert private_home(spec, places, make=False) == spec.home
    assert os.listdir(tmp_path) == []
    with pytest.raises(GatewayError, match=r"^runner_state_dirs\[0\]: "):
        spec_binds(spec, places)
    assert private_home(spec, places) == spec.home
    assert private_home(replace(spec, home=""), places) == ""


def test_protected_paths(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    spec = replace(SPEC, protected_paths=(f"{tmp_path}/link", f"{tmp_path}/folder", "/gone/../away"))
    assert protected_paths(spec) == (f"{tmp_path}/folder", "/away")
