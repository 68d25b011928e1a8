"""Trust in worktrees, noted for an agent that cannot note it itself."""

import tomllib
from pathlib import Path

import pytest

from sandbox.agents.state import AGENTS, ManagedState
from sandbox.agents.trust import LIMIT, note_trust

CLAUDE, CODEX, _ = AGENTS


def state(place: Path, worktree: str = "/trees/tree") -> ManagedState:
    for folder in ("own", "managed"):
        (place / folder).mkdir(exist_ok=True)
    (place / "managed/config.toml").touch()
    return ManagedState(CODEX, f"{place}/managed", f"{place}/home", f"{place}/own", False, worktree)


def noted(place: Path) -> object:
    return tomllib.loads((place / "managed/config.toml").read_text())


def level(text: str) -> dict[str, dict[str, dict[str, str]]]:
    return {"projects": {"/trees/tree": {"trust_level": text}}}


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ("", "untrusted"),
        ('[projects."/trees/tree"]\ntrust_level = "trusted"\n', "trusted"),
        ('[projects."/trees/tree"]\ntrust_level = "untrusted"\n', "untrusted"),
        ('[projects."/trees/tree"]\ntrust_level = "x\\ny"\n', "untrusted"),
        ('[projects."/trees/tree"]\ntrust_level = []\n', "untrusted"),
        ('[projects."/trees"]\ntrust_level = "trusted"\n', "untrusted"),
        ("projects = 1\n", "untrusted"),
        ("[projects\n", "untrusted"),
        ("#" * LIMIT + '\n[projects."/trees/tree"]\ntrust_level = "trusted"\n', "untrusted"),
    ],
)
def test_users_own_word(tmp_path: Path, own: str, expected: str) -> None:
    made = state(tmp_path)
    (tmp_path / "own/config.toml").write_text(own)
    note_trust(made)
    assert noted(tmp_path) == level(expected)


def test_noted_once(tmp_path: Path) -> None:
    for text in ("trusted", "untrusted"):
        made = state(tmp_path)
        (tmp_path / "own/config.toml").write_text(f'[projects."/trees/tree"]\ntrust_level = "{text}"\n')
        note_trust(made)
    assert noted(tmp_path) == level("trusted")


def test_other_settings_stay_in_the_same_file(tmp_path: Path) -> None:
    """A mount that protects the file in a wrap that runs belongs to this very file."""
    made = state(tmp_path)
    config = tmp_path / "managed/config.toml"
    config.write_text('model = "large"\n[projects."/x"]\ntrust_level = "trusted"')
    identity = config.stat().st_ino
    note_trust(made)
    assert noted(tmp_path) == {
        "model": "large",
        "projects": {"/x": {"trust_level": "trusted"}, "/trees/tree": {"trust_level": "untrusted"}},
    }
    assert config.stat().st_ino == identity


@pytest.mark.parametrize("worktree", ['/trees/"quoted"', "/trees/ж", "/trees/back\\slash", "/trees/a b.c"])
def test_unusual_worktrees(tmp_path: Path, worktree: str) -> None:
    note_trust(state(tmp_path, worktree))
    assert noted(tmp_path) == {"projects": {worktree: {"trust_level": "untrusted"}}}


@pytest.mark.parametrize("worktree", ["", "/trees/new\nline", "/trees/\x1b[2J"])
def test_worktrees_that_are_not_noted(tmp_path: Path, worktree: str) -> None:
    note_trust(state(tmp_path, worktree))
    assert noted(tmp_path) == {}


def test_agents_that_ask_elsewhere(tmp_path: Path) -> None:
    note_trust(ManagedState(CLAUDE, f"{tmp_path}/managed", "", "", False, "/trees/tree"))
    assert list(tmp_path.iterdir()) == []


def test_link_is_not_written_through(tmp_path: Path) -> None:
    made = state(tmp_path)
    (tmp_path / "managed/config.toml").unlink()
    (tmp_path / "managed/config.toml").symlink_to(tmp_path / "victim")
    (tmp_path / "victim").touch()
    with pytest.raises(OSError, match="symbolic links"):
        note_trust(made)
    assert (tmp_path / "victim").read_text() == ""
