"""git: which version, and where it would push. Real git, real configurations; the forge is a name and never asked."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.doctor.findings import Finding, Verdict
from gateway.doctor.git import look_at_git, look_at_remotes
from gateway.doctor.place import Place
from tests.fakes.doctor import only, place_in, program, verdicts
from tests.fakes.forge import Git, new_worktree

HTTPS = "https://github.com/acme/widget.git"
# As long as the session's own spelling of the forge, and longer.
EQUAL, LONGER = "https://github.com/", "https://github.com/acme/"
TOKEN = "x-access-token:ghs_0123456789abcdefghijABCDEFGHIJ012345"


def worktree(folder: Path, remote: str = HTTPS, **settings: str) -> Git:
    """A repository with these settings; two underscores stand for a dot, one at the end for nothing."""
    git = new_worktree(folder / "work", remote)
    for key, value in settings.items():
        git("config", "--add", key.replace("__", "."), value)
    return git


def at(folder: Path) -> Place:
    return place_in(folder, worktree=folder / "work")


def remotes(folder: Path) -> list[Finding]:
    return list(look_at_remotes(at(folder), "git remotes"))


# --- The program ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "verdict", "words"),
    [
        ("echo git version 2.32.0", Verdict.OK, "git 2.32 at "),
        ("echo git version 3.0", Verdict.OK, "git 3.0 at "),
        ("echo git version 2.31.9", Verdict.FAILED, "does not know GIT_CONFIG_GLOBAL"),
        ("echo git version 1.8.3.1", Verdict.FAILED, "git 1.8 at "),
        ("echo something else", Verdict.FAILED, "does not say which version it is"),
        ("exit 1", Verdict.FAILED, "does not say which version it is"),
    ],
)
def test_versions(tmp_path: Path, script: str, verdict: Verdict, words: str) -> None:
    program(tmp_path / "bin", "git", script)
    place = place_in(tmp_path)
    place = replace(place, environ={**place.environ, "PATH": str(tmp_path / "bin")})
    finding = only(list(look_at_git(place, "git")))
    assert finding.verdict is verdict
    assert words in finding.reason


def test_this_host_has_one(tmp_path: Path) -> None:
    assert only(list(look_at_git(place_in(tmp_path), "git"))).verdict is Verdict.OK


def test_no_git(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    place = replace(place, environ={**place.environ, "PATH": str(tmp_path)})
    assert only(list(look_at_git(place, "git"))).verdict is Verdict.WARNING
    assert only(list(look_at_remotes(place, "git remotes"))).verdict is Verdict.OK


# --- Where pushes go ------------------------------------------------------------------------------


def test_no_worktree(tmp_path: Path) -> None:
    assert only(list(look_at_remotes(place_in(tmp_path), "git remotes"))).verdict is Verdict.OK


@pytest.mark.parametrize(
    "remote",
    [
        HTTPS,
        "git@github.com:acme/widget.git",
        "ssh://git@github.com/acme/widget",
        "https://GitHub.com/acme/widget",
    ],
)
def test_pushes_come_to_the_gateway(tmp_path: Path, remote: str) -> None:
    worktree(tmp_path, remote)
    finding = only(remotes(tmp_path))
    assert finding.verdict is Verdict.OK
    assert finding.reason == f"pushes of {tmp_path}/work go to the gateway (1 repository at github.com)"


def test_another_forge_is_nothing_to_lead(tmp_path: Path) -> None:
    worktree(tmp_path, "https://forge.test/acme/widget.git")
    assert only(remotes(tmp_path)).reason == "no remote at https://github.com"


@pytest.mark.parametrize(
    ("settings", "verdict", "cure"),
    [
        ({"remote__origin__pushurl": "git@github.com:acme/fork.git"}, Verdict.OK, ""),
        (
            {"remote__origin__pushurl": "git@github.com:acme/fork"},
            Verdict.WARNING,
            "git config --unset-all remote.origin.pushurl",
        ),
        ({"url__https://mirror.test/__pushInsteadOf": EQUAL}, Verdict.OK, ""),
        (
            {"url__https://mirror.test/__pushInsteadOf": LONGER},
            Verdict.WARNING,
            "git config --unset-all url.https://mirror.test/.pushinsteadof",
        ),
        ({"url__https://mirror.test/__insteadOf": EQUAL}, Verdict.OK, ""),
        ({"url__https://mirror.test/__pushInsteadOf": "https://elsewhere.test/"}, Verdict.OK, ""),
    ],
    ids=("pushurl", "pushurl without .git", "equal length", "longer", "insteadOf", "of another"),
)
def test_settings_of_the_repository(
    tmp_path: Path, settings: dict[str, str], verdict: Verdict, cure: str
) -> None:
    worktree(tmp_path, **settings)
    finding = only(remotes(tmp_path))
    assert (finding.verdict, finding.cure) == (verdict, cure), finding


def test_settings_of_the_user_reach_no_session(tmp_path: Path) -> None:
    worktree(tmp_path)
    place = at(tmp_path)
    for base, value in (("https://mirror.test/", EQUAL), ("https://other.test/", LONGER)):
        config = Path(place.environ["HOME"], ".gitconfig")
        with config.open("a") as file:
            file.write(f'[url "{base}"]\n\tpushInsteadOf = {value}\n')
    assert only(list(look_at_remotes(place, "git remotes"))).verdict is Verdict.OK


# --- Logins ---------------------------------------------------------------------------------------


def test_a_login_in_an_address(tmp_path: Path) -> None:
    worktree(tmp_path, f"https://{TOKEN}@github.com/acme/widget.git")
    found = remotes(tmp_path)
    assert Verdict.WARNING in verdicts(found)
    assert found[0].cure == "git remote set-url origin https://github.com/acme/widget"
    assert "ghs_" not in str(found)


def test_a_login_in_a_header(tmp_path: Path) -> None:
    worktree(tmp_path, **{"http__https://github.com/__extraHeader": "AUTHORIZATION: basic c2VjcmV0"})
    finding = only(remotes(tmp_path))
    assert (finding.verdict, finding.cure) == (
        Verdict.WARNING,
        "git config --unset-all http.https://github.com/.extraHeader",
    )
    assert "c2VjcmV0" not in str(finding)


@pytest.mark.parametrize("key", ["credential__helper", "credential__https://github.com__helper"])
def test_a_credential_helper(tmp_path: Path, key: str) -> None:
    worktree(tmp_path, **{key: "store"})
    finding = only(remotes(tmp_path))
    assert (finding.verdict, finding.cure) == (
        Verdict.WARNING,
        f"git config --unset-all {key.replace('__', '.')}",
    )


def test_a_helper_that_is_reset_is_none(tmp_path: Path) -> None:
    worktree(tmp_path, credential__helper="")
    assert only(remotes(tmp_path)).verdict is Verdict.OK


# --- What the repository says is not obeyed --------------------------------------------------------


def test_nothing_of_the_repository_runs(tmp_path: Path) -> None:
    """Programs, includes and hooks of its configuration: none of them is started or read."""
    ran = tmp_path / "ran"
    evil = program(tmp_path / "bin", "evil", f"touch {ran}")
    git = worktree(
        tmp_path,
        core__fsmonitor=str(evil),
        core__sshCommand=str(evil),
        alias__remote=f"!{evil}",
        core__pager=str(evil),
    )
    with (git.folder / ".git/config").open("a") as file:
        file.write(
            '[include]\n\tpath = /dev/zero\n[url "https://mirror.test/"]\n\tpushInsteadOf = https://a.test/\n'
        )
    finding = only(remotes(tmp_path))
    assert (finding.verdict, ran.exists()) == (Verdict.OK, False)


@pytest.mark.parametrize("damage", ["[broken\n", "\0\0"])
def test_a_broken_configuration(tmp_path: Path, damage: str) -> None:
    git = worktree(tmp_path)
    (git.folder / ".git/config").write_text(damage)
    assert only(remotes(tmp_path)).verdict is Verdict.WARNING


def test_a_pipe_in_its_place_holds_nothing_up(tmp_path: Path) -> None:
    git = worktree(tmp_path)
    (git.folder / ".git/config").unlink()
    os.mkfifo(git.folder / ".git/config")
    assert verdicts(remotes(tmp_path))
