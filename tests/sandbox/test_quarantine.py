"""What is found and moved aside when a wrap is over: in real trees, then with bubblewrap and git."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox import quarantine as module
from sandbox.mounts import plan_wrap
from sandbox.quarantine import MARK, Known, quarantine, remember
from sandbox.spec import SandboxBindMount, SandboxSpec
from tests.sandbox.wrapping import NOBODY, Place

ASIDE = f"{MARK}1"


def told(known: Known) -> tuple[str, ...]:
    """What is found, as it is said."""
    return tuple(str(finding) for finding in quarantine(known))


def repository(path: Path, *more: str) -> Path:
    """A git directory as far as git looks before it calls it one; a name with "/" at the end is a directory."""
    for name in ("objects/", "refs/", "HEAD", *more):
        target, arrow, to = name.partition(" -> ")
        place = path / target
        place.parent.mkdir(parents=True, exist_ok=True)
        if arrow:
            place.symlink_to(to)
        elif name.endswith("/"):
            place.mkdir(exist_ok=True)
        else:
            place.touch()
    return path


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


# --- Repositories ---------------------------------------------------------------------------------

NEW: dict[str, Callable[[Path], object]] = {
    "commondir": lambda path: path.write_text("../evil\n"),
    "config": Path.touch,
    "config.worktree": Path.touch,
    "hooks": Path.mkdir,
    "gitdir": os.mkfifo,
    "COMMONDIR": Path.touch,
}


@pytest.mark.parametrize("name", NEW)
@pytest.mark.parametrize("link", [False, True])
def test_new_name_is_moved_aside(tmp_path: Path, name: str, link: bool) -> None:
    git = repository(tmp_path / "work/.git")
    known = remember([str(git)])
    assert told(known) == ()
    if link:
        (tmp_path / "outside").mkdir()
        (git / name).symlink_to(tmp_path / "outside")
    else:
        NEW[name](git / name)
    (finding,) = told(known)
    assert finding == f"{git}/{name} was not there before: renamed to {name}{ASIDE}"
    assert names(git) == {"objects", "refs", "HEAD", f"{name}{ASIDE}"}
    assert os.path.islink(git / f"{name}{ASIDE}") is link
    assert told(known) == ()


def test_what_was_there_stays(tmp_path: Path) -> None:
    git = repository(
        tmp_path / ".git", "config", "hooks/post-commit", "commondir", "config.worktree", "gitdir -> config"
    )
    known = remember([str(git)])
    for name in ("index", "ORIG_HEAD", "refs/heads", "FETCH_HEAD"):
        (git / name).mkdir()
    assert told(known) == ()
    assert told(Known()) == ()


def test_names_that_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever makes the name may make the other ones as well; nothing is ever written over."""
    git = repository(tmp_path / ".git")
    known = remember([str(git)])
    for number in (1, 2):
        (git / f"hooks{MARK}{number}").write_text("kept")
    (git / f"hooks{MARK}3").symlink_to("nowhere")
    (git / "hooks").mkdir()
    assert told(known)[0].endswith(f"renamed to hooks{MARK}4")
    monkeypatch.setattr(module, "NUMBER_LIMIT", 5)
    (git / "hooks").touch()
    assert len(told(known)) == 1
    assert not (git / "hooks").exists()
    assert (git / f"hooks{MARK}1").read_text() == "kept"
    assert len([name for name in names(git) if name.startswith("hooks")]) == 5


@pytest.mark.parametrize("mode", [0, 0o555, 0o111, 0o333])
def test_directory_that_was_closed(tmp_path: Path, mode: int) -> None:
    """Its owner may take their own rights on it away; git still reads what it knows by name."""
    tmp_path.chmod(0o755)
    git = repository(tmp_path / ".git")
    user = os.geteuid()
    if user == 0:
        os.chown(git, NOBODY, NOBODY)
        for folder in tmp_path.parents:
            if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
                folder.chmod(0o755)
    known = remember([str(git)])
    (git / "commondir").touch()
    git.chmod(mode)
    try:
        if user == 0:
            os.seteuid(NOBODY)
        (finding,) = told(known)
    finally:
        os.seteuid(user)
        git.chmod(0o755)
    assert finding.endswith(f"renamed to commondir{ASIDE}")


def test_what_cannot_be_renamed_is_said(tmp_path: Path) -> None:
    git = repository(tmp_path / ".git")
    known = remember([str(git)])
    (git / ("commondir")).touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MARK", "x" * 300)
        (finding,) = told(known)
    assert "cannot be renamed (File name too long): remove it" in finding
    assert (git / "commondir").exists()


@pytest.mark.parametrize("above", [False, True])
def test_directory_that_became_a_link(tmp_path: Path, above: bool) -> None:
    """Nothing outside is renamed: not through the directory itself, nor through one above it."""
    git = repository(tmp_path / "work/.git")
    known = remember([str(git)])
    outside = repository(tmp_path / "outside/.git", "hooks/", "config")
    moved = git.parent if above else git
    moved.rename(tmp_path / "moved")
    moved.symlink_to(outside.parent if above else outside)
    assert told(known) == (f"{git} is gone or a link now: do not run git there",)
    assert names(outside) == {"objects", "refs", "HEAD", "hooks", "config"}


def test_directory_that_was_replaced(tmp_path: Path) -> None:
    """What is read under the old name is what matters: there, everything denied counts as new."""
    git = repository(tmp_path / ".git", "config")
    known = remember([str(git)])
    git.rename(tmp_path / "moved")
    repository(git, "config", "hooks/x")
    findings = told(known)
    assert findings[0] == f"{git} is another directory than before: do not run git there"
    assert [text.rsplit(" ", 1)[1] for text in findings[1:]] == [f"config{ASIDE}", f"hooks{ASIDE}"]
    assert "config" in names(tmp_path / "moved")


def test_directory_that_is_gone(tmp_path: Path) -> None:
    git = repository(tmp_path / "a/.git")
    known = remember([str(git), f"{tmp_path}/missing/.git"])
    git.rename(tmp_path / "moved")
    assert told(known) == (f"{git} is gone or a link now: do not run git there",)


def test_worktree_that_became_a_repository(tmp_path: Path) -> None:
    """Without a HEAD `.git` is none; then git takes the directory around it, if that is one."""
    git = repository(tmp_path / ".git", "config")
    (tmp_path / "refs").mkdir()
    known = remember([str(git)], worktrees=[str(tmp_path)])
    repository(tmp_path, "config")
    (git / "HEAD").rename(git / "HEAD.old")
    findings = told(known)
    assert findings[0] == f"{git} has no HEAD any more: git looks for another repository"
    assert findings[1].startswith(f"{tmp_path}/HEAD makes a repository of the directory")
    assert {"HEAD" + ASIDE, "objects", "refs", "config"} <= names(tmp_path)
    assert "HEAD" not in names(tmp_path)


def test_worktree_that_was_a_repository(tmp_path: Path) -> None:
    repository(tmp_path)
    git = repository(tmp_path / ".git")
    assert told(remember([str(git)], worktrees=[str(tmp_path)])) == ()


def test_repository_around_one_that_is_bound_alone(tmp_path: Path) -> None:
    """The directory around it is not the wrap's: nothing is touched there."""
    known = remember([str(repository(tmp_path / ".git"))])
    repository(tmp_path)
    assert told(known) == ()


def test_findings_are_printable(tmp_path: Path) -> None:
    git = repository(tmp_path / "a\x1b[2J\nb\udcff/.git")
    known = remember([str(git)])
    (git / "hooks").mkdir()
    (finding,) = told(known)
    assert finding.isprintable()
    assert f"hooks{ASIDE}" in names(git)


# --- Links ----------------------------------------------------------------------------------------


def replace_by_folder(link: Path) -> None:
    link.unlink()
    link.mkdir()


def lead_elsewhere(link: Path) -> None:
    link.unlink()
    link.symlink_to("other")


def replace_on_the_way(link: Path) -> None:
    (link.parent / "way").unlink()
    (link.parent / "way").symlink_to("other")


def swap(link: Path) -> None:
    (link.parent / "new").write_text("new")
    (link.parent / "new").rename(link)


@pytest.mark.parametrize("change", [replace_by_folder, lead_elsewhere, replace_on_the_way, swap])
def test_link_that_leads_elsewhere(tmp_path: Path, change: Callable[[Path], None]) -> None:
    for name in ("real/below", "other/below"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "way").symlink_to("real")
    link = tmp_path / ".vscode"
    link.symlink_to("way/below")
    known = remember((), [str(link)])
    assert told(known) == ()
    change(link)
    (finding,) = told(known)
    assert finding == f"{link} was a link to something else before: renamed to .vscode{ASIDE}"
    assert not os.path.lexists(link)


def test_link_to_nothing_that_leads_somewhere_now(tmp_path: Path) -> None:
    git = repository(tmp_path / ".git", "hooks -> ../later", "config -> ../gone")
    (tmp_path / ".env").symlink_to("later/env")
    known = remember([str(git)], [f"{tmp_path}/.env"])
    assert told(known) == ()
    (tmp_path / "later").mkdir()
    (tmp_path / "later/env").touch()
    findings = told(known)
    assert {text.split(" ", 1)[0] for text in findings} == {f"{git}/hooks", f"{tmp_path}/.env"}
    assert (tmp_path / "later/env").exists()


def test_link_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / ".env").symlink_to("x")
    known = remember((), [f"{tmp_path}/.env", f"{tmp_path}/missing"])
    (tmp_path / ".env").unlink()
    assert told(known) == ()


# --- With bubblewrap and git ----------------------------------------------------------------------


def git(place: Place, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Git of the host, with nothing of its configuration."""
    identity = ("-c", "user.name=A", "-c", "user.email=a@b.test")
    (place.root / ".gitconfig").write_text("[safe]\n\tdirectory = *\n")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(place.root), "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        ("git", *identity, *arguments),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def plan_of(place: Place) -> Known:
    """What a launch in the worktree remembers."""
    work = str(place.worktree)
    spec = SandboxSpec("session", "default", "", (SandboxBindMount(work, work),), user_home=str(place.home))
    return plan_wrap(spec).known


@pytest.mark.parametrize(
    "script",
    [
        'mkdir evil; cp -r .git/HEAD .git/objects .git/refs .git/config evil/; TRAP; echo ../evil >.git/commondir',
        'cp -r .git/HEAD .git/objects .git/refs .git/config .; rm .git/HEAD; TRAP_HERE',
        'mkdir evil; cp -r .git/HEAD .git/objects .git/refs .git/config evil/; TRAP; ln -s ../evil/commondir .git/;'
        ' echo ../evil >evil/commondir',
    ],
)  # fmt: skip
@pytest.mark.parametrize("looks", [True, False])
def test_git_of_the_host_runs_nothing_afterwards(place: Place, script: str, looks: bool) -> None:
    """And does once what was moved aside is put back: the trap is one."""
    assert git(place, place.worktree, "init", "-q").returncode == 0
    assert git(place, place.worktree, "commit", "-q", "--allow-empty", "-m", "x").returncode == 0
    trap = f"git config -f FILE core.fsmonitor 'touch {place.root}/ran; false'"
    here = (
        f"git config core.worktree . ; {trap.replace('FILE', 'config')}; git config -f config core.bare false"
    )
    script = script.replace("TRAP_HERE", here).replace("TRAP", trap.replace("FILE", "evil/config"))
    place.sh(script)
    aside = list(place.worktree.rglob(f"*{MARK}*"))
    assert aside
    if not looks:
        for path in aside:
            path.rename(path.with_name(path.name.partition(MARK)[0]))
    git(place, place.worktree, "status")
    assert (place.root / "ran").exists() is not looks


def test_ordinary_work_is_left_alone(place: Place) -> None:
    git(place, place.worktree, "init", "-q")
    known = plan_of(place)
    done = place.sh("""
    export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@b.test GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@b.test
    set -e
    echo x >x; git add x; git commit -qm x; git checkout -qb other; git gc -q; git worktree add -q tree
    git init -q new; git stash list; git tag one""")
    assert (done.returncode, done.stderr) == (0, "")
    assert told(known) == ()
