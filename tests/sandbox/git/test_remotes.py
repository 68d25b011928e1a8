"""The repositories of a worktree: real git makes it, somebody hostile may have been there before."""

import os
import subprocess
from pathlib import Path

import pytest

from sandbox.git import remotes
from sandbox.git.github_host import GITHUB_HOST, parse_github_url
from sandbox.git.remotes import (
    CONFIG_LIMIT,
    LISTING_LIMIT,
    REPOSITORY_LIMIT,
    Remotes,
    find_address,
    find_aliases,
    parse_remotes,
    read_remotes,
)
from sandbox.git.settings import Setting

HOST = {"PATH": "/usr/bin:/bin"}
GIT = {
    **HOST, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@author.test",
    "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@author.test",
}  # fmt: skip


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(("git", *arguments), cwd=folder, env=GIT, check=True, capture_output=True)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A repository without remotes."""
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "-q")
    return folder


def write(work: Path, text: str) -> None:
    (work / ".git/config").open("a").write(text)


def names(found: Remotes) -> list[str]:
    return [str(repository) for repository in found.repositories]


def read(work: Path, **more: object) -> Remotes:
    return read_remotes(HOST, str(work), GITHUB_HOST, **more)  # type: ignore[arg-type]  # one option


# --- What is found --------------------------------------------------------------------------------


def test_remotes_in_order(work: Path) -> None:
    for name, url in (
        ("fork", "git@github.com:me/widget.git"),
        ("elsewhere", "https://gitlab.test/acme/widget"),
        ("we.ird/name", "ssh://git@ssh.github.com:443/acme/other"),
        ("origin", "https://github.com/acme/widget"),
        ("again", "github.com:ACME/Widget.git"),
    ):
        git(work, "remote", "add", name, url)
    git(work, "remote", "set-url", "--add", "origin", "https://github.com/acme/mirror")
    git(work, "remote", "set-url", "--push", "fork", "git@github.com:me/pushed.git")
    found = read(work)
    assert names(found) == ["acme/widget", "acme/mirror", "me/widget", "me/pushed", "acme/other"]
    assert found.notes == ()
    assert [(r.name, r.prefix + r.path, r.for_push) for r in found.found if r.name == "fork"] == [
        ("fork", "git@github.com:me/widget.git", False),
        ("fork", "git@github.com:me/pushed.git", True),
    ]


def test_another_forge(work: Path) -> None:
    git(work, "remote", "add", "origin", "https://github.com/acme/widget")
    git(work, "remote", "add", "inside", "https://ghe.test/acme/internal")
    assert names(read_remotes(HOST, str(work), parse_github_url("https://ghe.test"))) == ["acme/internal"]


def test_linked_worktree(work: Path, tmp_path: Path) -> None:
    git(work, "remote", "add", "origin", "https://github.com/acme/widget")
    git(work, "commit", "-q", "--allow-empty", "-m", "one")
    git(work, "worktree", "add", "-q", str(tmp_path / "linked"))
    assert names(read(tmp_path / "linked")) == ["acme/widget"]
    (tmp_path / "alias").symlink_to(tmp_path / "linked")
    assert names(read(tmp_path / "alias")) == ["acme/widget"]


def test_submodule(work: Path, tmp_path: Path) -> None:
    git(work, "commit", "-q", "--allow-empty", "-m", "one")
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(work), "part")
    git(outer / "part", "remote", "set-url", "origin", "https://github.com/acme/part")
    git(outer, "remote", "add", "origin", "https://github.com/acme/outer")
    assert names(read(outer / "part")) == ["acme/part"]
    assert names(read(outer)) == ["acme/outer"]


def test_users_own_words(work: Path) -> None:
    settings = (
        Setting("url.git@github.com:.insteadof", "gh:"),
        Setting("url.https://github.com/.insteadof", "hub/"),
        Setting(
            "url.git@github.com:acme/.insteadof", "acme:"
        ),  # names an owner: the repository must do that itself
        Setting("url.https://gitlab.test/.insteadof", "gl:"),
        Setting("url.git@github.com:.pushinsteadof", "push:"),
        Setting("url.git@github.com:.insteadof", ""),
        Setting("url.git@github.com:.insteadof", None),
        Setting("url.git@github.com:.insteadof", "two\nlines:"),
        Setting("user.name", "gh:"),
    )
    aliases = find_aliases(settings, GITHUB_HOST)
    assert aliases == ("gh:", "hub/")
    git(work, "remote", "add", "origin", "gh:acme/widget")
    git(work, "remote", "add", "two", "hub/acme/second.git")
    git(work, "remote", "add", "three", "acme:third")
    git(work, "remote", "add", "four", "gl:acme/fourth")
    assert names(read(work, aliases=aliases)) == ["acme/widget", "acme/second"]
    assert names(read(work)) == []


def test_longest_word_counts() -> None:
    found = find_address("gh:x:acme/widget", GITHUB_HOST, ("gh:", "gh:x:"))
    assert found is not None
    assert (found.prefix, found.path) == ("gh:x:", "acme/widget")


# --- What the command does later, and what a hostile predecessor left --------------------------------------


def test_later_edits_change_nothing(work: Path) -> None:
    git(work, "remote", "add", "origin", "https://github.com/acme/widget")
    found = read(work)
    git(work, "remote", "set-url", "origin", "https://github.com/acme/other")
    assert names(found) == ["acme/widget"]


def test_nothing_of_the_repository_runs_or_is_read(work: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (tmp_path / "more").write_text('[remote "x"]\n\turl = https://github.com/acme/included\n')
    os.mkfifo(tmp_path / "pipe")
    write(
        work,
        f"""
[include]
	path = {tmp_path}/more
	path = {tmp_path}/pipe
[includeIf "hasconfig:remote.*.url:https://github.com/**"]
	path = {tmp_path}/more
[core]
	fsmonitor = touch {ran}
	sshCommand = touch {ran}
	hooksPath = {tmp_path}
	pager = touch {ran}
	worktree = {tmp_path}
[pager]
	config = touch {ran}
[alias]
	config = !touch {ran}
[url "https://github.com/acme/"]
	insteadOf = https://gitlab.test/
[trace2]
	eventTarget = {ran}
[remote "origin"]
	url = https://github.com/acme/widget
	uploadpack = touch {ran}
[remote "two"]
	url = https://gitlab.test/two
""",
    )
    assert names(read(work)) == ["acme/widget"]
    assert not ran.exists()


def test_settings_of_the_hosts_environment_do_not_count(work: Path, tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text('[remote "x"]\n\turl = https://github.com/acme/global\n')
    git(work, "remote", "add", "origin", "https://github.com/acme/widget")
    environment = {
        **HOST, "HOME": str(tmp_path), "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "remote.y.url",
        "GIT_CONFIG_VALUE_0": "https://github.com/acme/injected", "GIT_DIR": str(tmp_path),
    }  # fmt: skip
    assert names(read_remotes(environment, str(work), GITHUB_HOST)) == ["acme/widget"]


def test_git_of_the_worktree_is_not_run(work: Path) -> None:
    git(work, "remote", "add", "origin", "https://github.com/acme/widget")
    planted = work / "git"
    planted.write_text(f"#!/bin/sh\ntouch {work}/ran\n")
    planted.chmod(0o755)
    assert names(read_remotes({"PATH": f"{work}:/usr/bin:/bin"}, str(work), GITHUB_HOST)) == ["acme/widget"]
    assert read_remotes({"PATH": str(work)}, str(work), GITHUB_HOST) == Remotes()
    assert not (work / "ran").exists()


@pytest.mark.parametrize(
    "what", ["a fifo", "a folder", "nothing", "too long", "broken", "binary", "a device"]
)
def test_configuration_that_cannot_be_read(work: Path, what: str) -> None:
    config = work / ".git/config"
    config.unlink()
    match what:
        case "a fifo":
            os.mkfifo(config)
        case "a folder":
            config.mkdir()
        case "a device":
            config.symlink_to("/dev/zero")
        case "too long":
            lines = '[remote "origin"]\n\turl = https://github.com/acme/widget\n'
            config.write_text(lines + "#" * CONFIG_LIMIT)
        case "broken":
            config.write_text('[remote "origin"]\n\turl = https://github.com/acme/widget\n[broken')
        case "binary":
            config.write_bytes(bytes(range(256)))
    assert read(work) == Remotes()


def test_configuration_that_multiplies(work: Path) -> None:
    """A name of a quarter of the limit, and many addresses below it: git would print gigabytes."""
    write(work, f'[remote "{"x" * (CONFIG_LIMIT // 4)}"]\n' + "\turl=a\n" * 50_000)
    assert (work / ".git/config").stat().st_size <= CONFIG_LIMIT
    assert 50_000 * (CONFIG_LIMIT // 4) > LISTING_LIMIT
    assert read(work) == Remotes()


def test_git_that_does_not_end(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remotes, "REMOTES_DEADLINE", 0.3)
    stuck = tmp_path / "bin/git"
    stuck.parent.mkdir()
    stuck.write_text("#!/bin/sh\nexec sleep 1000\n")
    stuck.chmod(0o755)
    assert read_remotes({"PATH": f"{tmp_path}/bin"}, str(work), GITHUB_HOST) == Remotes()


def test_pointer_that_does_not_hold(work: Path, tmp_path: Path) -> None:
    """A `.git` file may be planted; the directory it names must know of the worktree."""
    git(work, "remote", "add", "origin", "https://github.com/acme/widget")
    other = tmp_path / "other"
    other.mkdir()
    (other / ".git").symlink_to(work / ".git")
    assert read(other) == Remotes()
    (other / ".git").unlink()
    (other / ".git").write_text(f"gitdir: {work}/.git\n")
    assert read(other) == Remotes()
    (other / ".git").write_text("gitdir: hidden\n")
    git(other, "init", "-q", "--bare", "hidden")
    git(other / "hidden", "remote", "add", "origin", "https://github.com/acme/widget")
    assert read(other) == Remotes()


def test_no_repository(tmp_path: Path) -> None:
    assert read(tmp_path) == read_remotes(HOST, "", GITHUB_HOST) == Remotes()
    git(tmp_path, "init", "-q", "--bare", ".")
    git(tmp_path, "remote", "add", "origin", "https://github.com/acme/widget")
    assert read(tmp_path) == Remotes()  # files that a command can lie down in any folder


# --- Bounds and notes -----------------------------------------------------------------------------


def test_so_many_repositories_and_no_more(work: Path) -> None:
    write(
        work, "".join(f'[remote "r{n}"]\n\turl = https://github.com/r/{n}\n' for n in range(REPOSITORY_LIMIT))
    )
    write(work, '[remote "origin"]\n\turl = https://github.com/acme/widget\n')
    found = read(work)
    assert names(found) == ["acme/widget", *(f"r/{n}" for n in range(REPOSITORY_LIMIT - 1))]
    assert len(found.notes) == 1
    assert str(REPOSITORY_LIMIT) in found.notes[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[remote "origin"]\n\turl = https://me:word@github.com/acme/widget', "remote set-url origin"),
        ('[remote "or\x1bigin"]\n\turl = https://me:word@github.com/acme/widget', r"or\x1bigin"),
        ('[remote "origin"]\n\tpushurl = https://:word@github.com/acme/widget', "remote set-url origin"),
        (
            '[http "https://github.com/"]\n\textraheader = AUTHORIZATION: basic word',
            "http.https://github.com/.ext",
        ),
        ("[http]\n\textraheader = authorization: basic word", "--unset-all http.extraHeader"),
        ('[http "https://word@github.com"]\n\textraheader = Authorization: basic word', "--unset-all KEY"),
    ],
)
def test_login_in_the_configuration(work: Path, text: str, said: str) -> None:
    write(work, f"{text}\n")
    found = read(work)
    assert len(found.notes) == 1
    assert said in found.notes[0]
    assert "word" not in found.notes[0]
    assert "word" not in repr(found)
    assert found.notes[0].isprintable()


@pytest.mark.parametrize(
    "text",
    [
        '[remote "origin"]\n\turl = https://me@github.com/acme/widget',
        '[remote "origin"]\n\turl = ssh://git@github.com:22/acme/widget',
        '[remote "origin"]\n\turl = https://me:word@gitlab.test/acme/widget',
        '[http "https://gitlab.test/"]\n\textraheader = AUTHORIZATION: basic word',
        '[http "https://github.com/"]\n\textraheader = X-Tracing: 1',
    ],
)
def test_nothing_to_say(work: Path, text: str) -> None:
    write(work, f"{text}\n")
    assert read(work).notes == ()


def test_listings_of_no_git() -> None:
    for listing in (
        b"",
        b"\0\0",
        b"remote",
        b"remote.\nx\0",
        b"remote.x.url\0",
        b"\xff\n\xff\0",
        b"http\n\0",
    ):
        assert parse_remotes(listing, GITHUB_HOST) == Remotes()
