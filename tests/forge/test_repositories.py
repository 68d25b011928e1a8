"""Repositories of the forge: made, found, renamed, and whose App is where."""

import subprocess
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from gateway.forge.repositories import Git, Repositories, find_git, parse_name


@pytest.fixture
def git(tmp_path: Path) -> Git:
    return find_git(tmp_path)


@pytest.fixture
def repositories(tmp_path: Path, git: Git) -> Repositories:
    folder = tmp_path / "repositories"
    folder.mkdir()
    return Repositories(folder, git)


@pytest.mark.parametrize("name", ["acme/widget", "a/b", "A-1/.github", "acme/x.y_z-", "acme/" + "n" * 100])
def test_names(name: str) -> None:
    assert "/".join(parse_name(name)) == name


@pytest.mark.parametrize(
    "name",
    ["", "acme", "acme/", "/widget", "acme/w/x", "../x", "acme/..", "acme/.", "-a/b", "acme/w d", "acme/w.git",
     "acme/W.GIT", "acme/..git", "acme/" + "n" * 101, "acmé/w", "acme/w\n"],
)  # fmt: skip
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(GatewayError, match="no name of a repository"):
        parse_name(name)


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_a_new_repository_is_bare_and_empty(repositories: Repositories, git: Git, object_format: str) -> None:
    made = repositories.create("Acme/Widget", object_format=object_format)
    where = ("--git-dir", str(made.path))
    assert git.run(*where, "rev-parse", "--is-bare-repository") == "true"
    assert git.run(*where, "rev-parse", "--show-object-format") == object_format
    assert git.run(*where, "for-each-ref") == ""
    assert git.run(*where, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert git.run(*where, "config", "core.hooksPath") == str(made.path.parent / "hooks")


def test_letter_case_is_nothing(repositories: Repositories) -> None:
    made = repositories.create("Acme/Widget")
    assert repositories.find("aCME/wIDGET") is made
    assert made.full_name == "Acme/Widget"
    with pytest.raises(GatewayError, match="there already"):
        repositories.create("ACME/WIDGET")


def test_an_unknown_format_is_refused(repositories: Repositories) -> None:
    with pytest.raises(GatewayError, match="no object format"):
        repositories.create("acme/widget", object_format="md5")
    assert repositories.find("acme/widget") is None


def test_a_renamed_repository_answers_to_both_names(repositories: Repositories) -> None:
    made = repositories.create("acme/old")
    repositories.rename("acme/old", "acme/new")
    assert repositories.find("acme/old") is repositories.find("acme/new") is made
    assert made.full_name == "acme/new"
    assert repositories.by_id(made.id) is made


def test_a_squatter_takes_the_old_name(repositories: Repositories) -> None:
    moved = repositories.create("acme/old")
    repositories.rename("acme/old", "acme/new")
    squatter = repositories.create("acme/old")
    assert repositories.find("acme/old") is squatter
    assert squatter.id != moved.id
    assert squatter.path != moved.path
    with pytest.raises(GatewayError, match="there already"):
        repositories.rename("acme/old", "acme/new")


def test_a_transfer_leaves_the_installation(repositories: Repositories) -> None:
    made = repositories.create("acme/widget")
    before = repositories.installation_of(made)
    repositories.rename("acme/widget", "other/widget")
    after = repositories.installation_of(made)
    assert before is not None
    assert after is not None
    assert before.id != after.id
    assert repositories.of_installation(before) == ()
    assert repositories.of_installation(after) == (made,)


def test_installations_are_by_owner(repositories: Repositories) -> None:
    one, two = repositories.create("acme/one"), repositories.create("ACME/two")
    other = repositories.create("other/three")
    left_out = repositories.create("acme/four", installed=False)
    installation = repositories.installation_of(one)
    assert installation is not None
    assert installation is repositories.installation_of(two)
    assert installation is not repositories.installation_of(other)
    assert repositories.installation_of(left_out) is None
    assert repositories.of_installation(installation) == (one, two)
    assert repositories.installation(installation.id) is installation
    assert repositories.installation(1) is None


def test_suspending(repositories: Repositories) -> None:
    installation = repositories.installation_of(repositories.create("acme/one"))
    assert installation is not None
    repositories.suspend("ACME")
    assert installation.suspended
    repositories.suspend("acme", suspended=False)
    assert not installation.suspended
    with pytest.raises(GatewayError, match="not installed on nobody"):
        repositories.suspend("nobody")


def test_nothing_of_the_host_gets_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the user's settings nor a variable that moves git elsewhere."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Somebody\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "user.email")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "somebody@forge.test")
    git = find_git(tmp_path)
    assert git.run("config", "--list") == ""
    assert "GIT_DIR" not in git.environment
    assert git.environment["HOME"] == str(tmp_path)


def test_a_machine_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GatewayError, match="no git on PATH"):
        find_git(tmp_path)


def test_git_that_fails_is_named(git: Git, tmp_path: Path) -> None:
    with pytest.raises(GatewayError, match="git rev-parse failed"):
        git.run("rev-parse", "--git-dir")
    with pytest.raises(GatewayError, match="could not be run"):
        Git(str(tmp_path / "none"), tmp_path, {}).run("version")


def test_a_fork_shares_objects(repositories: Repositories, git: Git) -> None:
    source = repositories.create("acme/source")
    blob = git.run("--git-dir", str(source.path), "hash-object", "-w", "--stdin", text="hello")
    fork = repositories.create("other/fork", fork_of="acme/source")
    assert git.run("--git-dir", str(fork.path), "cat-file", "-p", blob) == "hello"
    with pytest.raises(GatewayError, match="no repository acme/none"):
        repositories.create("other/second", fork_of="acme/none")


def test_the_hook_is_a_program(repositories: Repositories) -> None:
    hook = repositories.create("acme/widget").path.parent / "hooks" / "proc-receive"
    done = subprocess.run((hook,), input=b"0000" + b"0000", capture_output=True, check=True)
    assert done.stdout == b"000dversion=100000000"
    assert done.stderr == b""
