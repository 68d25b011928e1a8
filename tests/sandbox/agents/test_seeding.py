"""What an agent's managed directory gets of the user's own: the list and no more, once, and no link is followed."""

import json
import os
import socket
import stat
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import GatewayError
from sandbox.agents import seeding
from sandbox.agents.seeding import seed
from sandbox.agents.state import AGENTS, ManagedState

CLAUDE, CODEX, GEMINI = AGENTS


def write(path: Path, text: str = "", mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def state(place: Path, agent: int = 0, own: str = "", named: bool = False) -> ManagedState:
    """The state of an agent with a home and a workspace in a directory."""
    chosen = AGENTS[agent]
    found = own or os.path.normpath(f"{place}/home/{chosen.own}")
    return ManagedState(chosen, f"{place}/kept/agents/{chosen.name}", f"{place}/home", found, named)


def tree(folder: str) -> dict[str, str]:
    """Files and their text; directories end in a slash."""
    root = Path(folder)
    return {
        str(path.relative_to(root)) + ("/" if path.is_dir() else ""): ""
        if path.is_dir()
        else path.read_text()
        for path in sorted(root.rglob("*"))
    }


def values(folder: str, name: str) -> Any:
    return json.loads(Path(folder, name).read_text())


SEALED = {
    "settings.json": "{}\n",
    "settings.local.json": "{}\n",
    "hooks/": "",
    "commands/": "",
    "agents/": "",
}


def test_login_and_preferences(tmp_path: Path) -> None:
    own = tmp_path / "home/.claude"
    login = {"claudeAiOauth": {"accessToken": "own"}, "mcpOAuth": {"tracker": {"accessToken": "other"}}}
    write(own / ".credentials.json", json.dumps(login), 0o600)
    settings = {
        "model": "large", "permissions": {"deny": ["WebFetch"]}, "hooks": {"Stop": []}, "apiKeyHelper": "/bin/x",
        "statusLine": {"command": "x"}, "env": {"ANTHROPIC_BASE_URL": "u", "GITHUB_TOKEN": "t", "anthropic_x": 1},
        "enabledPlugins": {}, "unknown": 1,
    }  # fmt: skip
    write(own / "settings.json", json.dumps(settings))
    write(own / "CLAUDE.md", "be brief\n")
    write(own / "commands/deep/review.md", "review\n")
    write(own / "skills/one/run.sh", "#!/bin/sh\n", 0o755)
    for name in ("history.jsonl", "projects/x/1.jsonl", "hooks/stop.sh", "plugins/p/hooks.json", "todos/1"):
        write(own / name, "not for others")
    main = {"oauthAccount": {"emailAddress": "a@b.test"}, "theme": "dark", "projects": {}, "mcpServers": {}}
    write(tmp_path / "home/.claude.json", json.dumps(main))
    write(own / ".claude.json", json.dumps({"theme": "of an older one"}))
    made = state(tmp_path)
    notes = seed(made)
    assert notes == (f"claude: login and preferences are copied from {own} to {made.folder}, this once",)
    found = tree(made.folder)
    assert set(found) == {
        *SEALED, ".credentials.json", ".claude.json", "CLAUDE.md", "commands/deep/", "commands/deep/review.md",
        "skills/", "skills/one/", "skills/one/run.sh",
    }  # fmt: skip
    assert values(made.folder, ".credentials.json") == {"claudeAiOauth": {"accessToken": "own"}}
    assert values(made.folder, "settings.json") == {
        "env": {"ANTHROPIC_BASE_URL": "u"}, "model": "large", "permissions": {"deny": ["WebFetch"]},
    }  # fmt: skip
    assert values(made.folder, ".claude.json") == {
        "oauthAccount": main["oauthAccount"], "theme": "dark",
    }  # fmt: skip
    modes = {path: stat.S_IMODE(os.stat(f"{made.folder}/{path}").st_mode) for path in ("", *found)}
    assert {mode for path, mode in modes.items() if path.endswith("/") or not path} == {0o700}
    assert modes["skills/one/run.sh"] == 0o700
    assert {modes[name] for name in (".credentials.json", "settings.json", "CLAUDE.md")} == {0o600}
    assert os.listdir(os.path.dirname(made.folder)) == ["claude"]


def test_seeded_once(tmp_path: Path) -> None:
    write(tmp_path / "home/.claude/CLAUDE.md", "one")
    made = state(tmp_path)
    seed(made)
    write(tmp_path / "home/.claude/CLAUDE.md", "two")
    write(Path(made.folder, "kept"))
    os.unlink(f"{made.folder}/settings.local.json")
    assert seed(made) == ()
    assert tree(made.folder) == {**SEALED, "CLAUDE.md": "one", "kept": ""}


def test_nothing_to_copy(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    made = state(tmp_path)
    assert seed(made) == (f"claude: its login and preferences are kept in {made.folder}",)
    assert tree(made.folder) == SEALED


def test_users_own_directory_is_not_changed(tmp_path: Path) -> None:
    own = tmp_path / "home/.claude"
    write(own / "settings.json", "{}", 0o400)
    write(own / "commands/a.md", "text", 0o400)
    before = {path: path.stat() for path in (own, *own.rglob("*"))}
    seed(state(tmp_path))
    after = {path: path.stat() for path in (own, *own.rglob("*"))}
    assert {path: (found.st_mode, found.st_mtime_ns, found.st_ino) for path, found in before.items()} == {
        path: (found.st_mode, found.st_mtime_ns, found.st_ino) for path, found in after.items()
    }


def test_directory_that_a_variable_named(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere/.claude.json", json.dumps({"theme": "named"}))
    write(tmp_path / "home/.claude.json", json.dumps({"theme": "home"}))
    write(tmp_path / "home/.claude/CLAUDE.md", "home")
    (tmp_path / "link").symlink_to("elsewhere")  # the user's own word
    made = state(tmp_path, own=f"{tmp_path}/link", named=True)
    seed(made)
    assert values(made.folder, ".claude.json") == {"theme": "named"}
    assert "CLAUDE.md" not in tree(made.folder)


def test_codex(tmp_path: Path) -> None:
    own = tmp_path / "home/.codex"
    write(own / "auth.json", '{"OPENAI_API_KEY": "own"}', 0o600)
    text = (
        'model = "large \\"one\\""\nnotify = ["sh", "-c", "x"]\nhide_agent_reasoning = true\n'
        'model_provider = "x"\n[mcp_servers.a.env]\nTOKEN = "t"\n'
    )
    write(own / "config.toml", text)
    write(own / "history.jsonl", "no")
    made = state(tmp_path, 1)
    seed(made)
    found = tree(made.folder)
    assert found["config.toml"] == 'model = "large \\"one\\""\nhide_agent_reasoning = true\n'
    assert found["auth.json"] == '{"OPENAI_API_KEY": "own"}'
    assert set(found) == {"auth.json", "config.toml", "hooks.json", "prompts/", "rules/"}


def test_trust_in_the_worktree(tmp_path: Path) -> None:
    made = replace(state(tmp_path, 1), worktree="/trees/tree")
    for worktree in ("/trees/tree", "/trees/tree", "/trees/other"):
        seed(replace(made, worktree=worktree))
    found = tomllib.loads(Path(made.folder, "config.toml").read_text())
    assert set(found["projects"]) == {"/trees/tree", "/trees/other"}


def test_gemini(tmp_path: Path) -> None:
    own = tmp_path / "home/.gemini"
    write(own / "oauth_creds.json", "login", 0o600)
    write(own / "settings.json", '{"security": {"auth": {}}, "mcpServers": {}, "hooks": {}}')
    write(own / ".env", "TOKEN=t")
    write(tmp_path / "home/notes", "not for others")
    made = state(tmp_path, 2)
    seed(made)
    found = tree(made.folder)
    assert values(made.folder, ".gemini/settings.json") == {"security": {"auth": {}}}
    assert set(found) == {
        ".gemini/", ".gemini/oauth_creds.json", ".gemini/settings.json", ".gemini/commands/", ".gemini/policies/",
        ".gemini/extensions/",
    }  # fmt: skip


# --- What is left out -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("link", "target"),
    [
        (".claude/.credentials.json", "../.ssh/id"),
        (".claude/settings.json", "../.ssh/id"),
        (".claude/CLAUDE.md", "../.ssh/id"),
        (".claude.json", ".ssh/id"),
        (".claude/skills", "../.ssh"),
        (".claude/skills", ".ssh/missing"),
        (".claude/CLAUDE.md", "CLAUDE.md"),
        (".claude", ".ssh"),
    ],
)
def test_links_are_not_followed(tmp_path: Path, link: str, target: str) -> None:
    write(tmp_path / "home/.ssh/id", '{"theme": "the key"}')
    write(tmp_path / "home/.ssh/CLAUDE.md", "the key")
    path = tmp_path / "home" / link
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    made = state(tmp_path)
    told = seed(made)[1:]
    assert told
    assert all(note.endswith(" was not copied: links are not followed") for note in told)
    assert tree(made.folder) == SEALED


def test_what_is_passed_over_in_directories(tmp_path: Path) -> None:
    skills = tmp_path / "home/.claude/skills"
    write(skills / "a.md", "text")
    write(tmp_path / "home/secret", "the key")
    (skills / "link").symlink_to(tmp_path / "home/secret")
    (skills / "folder").symlink_to(tmp_path / "home")
    os.mkfifo(skills / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        directory = os.open(skills, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{directory}/s")
        os.close(directory)
    made = state(tmp_path)
    seed(made)
    assert tree(made.folder) == {**SEALED, "skills/": "", "skills/a.md": "text"}


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        (".claude.json", "{", "it cannot be understood"),
        (".claude.json", "[]", "it holds no keys"),
        (".claude.json", "[" * 100_000, "it cannot be understood"),
        (".claude/settings.json", "\ufffd", "it cannot be understood"),
        (".claude/CLAUDE.md", "x" * (seeding.FILE_LIMIT + 1), "it is larger than 1 MiB"),
        (".claude/skills/big", "x" * (seeding.FILE_LIMIT + 1), "it is larger than 1 MiB"),
        (".claude/skills/a/b/c/d/e/f/g/h/i", "x", "it is deeper than 8 directories"),
    ],
)
def test_what_cannot_be_taken(tmp_path: Path, name: str, text: str, reason: str) -> None:
    write(tmp_path / "home" / name, text)
    write(tmp_path / "home/.claude/.credentials.json", "{}")
    made = state(tmp_path)
    _, note = seed(made)
    assert note.startswith("claude: ")
    assert note.endswith(f" was not copied: {reason}")
    assert ".credentials.json" in tree(made.folder)


def test_files_at_the_limit_and_one_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeding, "TREE_FILES", 3)
    for number in range(3):
        write(tmp_path / f"home/.claude/skills/{number}")
    assert len(seed(state(tmp_path))) == 1
    write(tmp_path / "home/.claude/skills/3")
    again = replace(state(tmp_path), folder=f"{tmp_path}/again/agents/claude")
    assert "more than 3 files" in seed(again)[1]


def test_pipe_in_the_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "home/.claude").mkdir(parents=True)
    os.mkfifo(tmp_path / "home/.claude/CLAUDE.md")
    assert seed(state(tmp_path))[1].endswith("it is no regular file")


# --- What stands in the way -----------------------------------------------------------------------


@pytest.mark.parametrize("what", ["file", "link", "folder above is a file"])
def test_folder_that_is_something_else(tmp_path: Path, what: str) -> None:
    made = state(tmp_path)
    path = Path(made.folder)
    if what == "link":
        (tmp_path / "elsewhere").mkdir()
        path.parent.mkdir(parents=True)
        path.symlink_to(tmp_path / "elsewhere")
    else:
        write(path if what == "file" else path.parent)
    with pytest.raises(GatewayError, match="agents/claude"):
        seed(made)
    assert not (tmp_path / "elsewhere").exists() or not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize(
    ("agent", "path"),
    [
        (0, "settings.json"),
        (0, "hooks"),
        (2, ".gemini"),
        (2, ".gemini/settings.json"),
        (2, ".gemini/extensions"),
    ],
)
@pytest.mark.parametrize("what", ["link", "other kind"])
def test_sealed_path_that_is_something_else(tmp_path: Path, agent: int, path: str, what: str) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "elsewhere").mkdir()
    write(tmp_path / "elsewhere/settings.json", "untouched")
    made = state(tmp_path, agent)
    seed(made)
    place = Path(made.folder, path)
    place.rename(tmp_path / "aside")
    if what == "link":
        place.symlink_to(tmp_path / "elsewhere" / ("settings.json" if path.endswith(".json") else ""))
    elif path.endswith(".json"):
        place.mkdir()
    else:
        write(place)
    with pytest.raises(GatewayError, match="is not what it was made as"):
        seed(made)
    assert tree(str(tmp_path / "elsewhere")) == {"settings.json": "untouched"}


def test_two_runs_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that comes second finds the directory of the first and takes it as it is."""
    write(tmp_path / "home/.claude/CLAUDE.md", "mine")
    made = state(tmp_path)
    rename = os.rename

    def other_first(source: str, target: str) -> None:
        write(Path(made.folder, "CLAUDE.md"), "theirs")
        rename(source, target)

    monkeypatch.setattr(os, "rename", other_first)
    seed(made)
    assert tree(made.folder) == {**SEALED, "CLAUDE.md": "theirs"}
    assert os.listdir(os.path.dirname(made.folder)) == ["claude"]
