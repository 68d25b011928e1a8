"""A repository's configuration: git's own way of changing it works where that is harmless, and nothing else does."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.sandbox.supervisor.supervised import Ground, Outcome, ground_of
from tests.sandbox.wrapping import PEOPLE


class Repository:
    """A repository with a remote, whose configuration is judged."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        run = ("git", "-C", str(ground.root), "-c", "user.name=A", "-c", "user.email=a@example.test")
        for more in (("init", "-q", "-b", "main"), ("commit", "-q", "--allow-empty", "-m", "first"),
                     ("config", "remote.origin.url", "https://forge.test/a/b"),
                     ("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")):  # fmt: skip
            subprocess.run(
                (*run, *more), check=True, env={"PATH": os.environ["PATH"], "HOME": str(ground.root)}
            )
        self.folder = ground.root / ".git"
        self.config = self.folder / "config"

    def sh(self, script: str) -> Outcome:
        sealed = [str(self.folder / name) for name in ("hooks", "commondir", "gitdir", "config.worktree")]
        return self.ground.sh(
            f"export HOME=/var/tmp; {script}", sealed=sealed, git_configs=[str(self.config)]
        )


@pytest.fixture(params=PEOPLE)
def repository(request: pytest.FixtureRequest) -> Iterator[Repository]:
    with ground_of(request.param) as ground:
        yield Repository(ground)


def test_harmless_changes_are_made(repository: Repository) -> None:
    before = repository.config.stat()
    done = repository.sh(
        "git checkout -q -b x --track && git config branch.x.description words && git branch -m x y"
    )
    assert (done.code, done.err) == (0, "")
    text = repository.config.read_text()
    assert '[branch "y"]' in text and "description = words" in text and "hooksPath" not in text
    after = repository.config.stat()
    assert (after.st_mode, after.st_uid, after.st_nlink) == (
        before.st_mode,
        repository.folder.stat().st_uid,
        1,
    )
    assert sorted(path.name for path in repository.folder.iterdir() if "config" in path.name) == ["config"]


@pytest.mark.parametrize(
    ("setting", "value"),
    [("core.hooksPath", "/var/tmp"), ("alias.st", "!cmd"), ("filter.x.clean", "cmd"), ("include.path", "x"),
     ("remote.origin.url", "https://evil.test/x"), ("submodule.m.update", "!cmd"), ("core.fsmonitor", "cmd")],
)  # fmt: skip
def test_others_are_refused_with_the_reason(repository: Repository, setting: str, value: str) -> None:
    before = repository.config.read_bytes()
    done = repository.sh(f"git config {setting} '{value}'")
    assert done.code != 0 and "Permission denied" in done.err
    assert repository.config.read_bytes() == before
    (action, target, rule, _), *_ = done.violations
    assert (action, target) == ("file-write-create", str(repository.config))
    assert rule.startswith(f"{repository.config}: {setting.lower()}")


def test_no_other_way_leads_to_it(repository: Repository) -> None:
    before = repository.config.read_bytes()
    done = repository.sh(
        "cd .git; echo x > config; echo x >> config; mv config away; ln config twin; ln -s config alias;"
        "ln -sf x config;"
        "ln -f HEAD config; cp HEAD config; mkfifo config; mkdir config; rm -rf config.lock;"
        "mkfifo config.lock; mv -f config.lock config;"
        "rm -f config.lock; ln -s HEAD config.lock; mv -f config.lock config; rm config.lock;"
        "mkdir config.lock; mv -fT config.lock config;"
        "rmdir config.lock; head -c 2000000 /dev/zero > config.lock; mv -f config.lock config; cd ..; mv .git x"
    )
    assert repository.config.read_bytes() == before
    assert done.err.count("ermission denied") >= 10
    assert not [path for path in repository.folder.iterdir() if path.name in ("twin", "alias", "away")]


KEPT = r"""
import os, time
text = open(".git/config").read()
lock = os.open(".git/config.lock", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
os.write(lock, (text + '[branch "z"]\n\tremote = origin\n').encode())
os.rename(".git/config.lock", ".git/config")
evil = b"[core]\n\thooksPath = /evil\n"
for write in (lambda: os.write(lock, evil),
              lambda: os.write(os.open(f"/proc/self/fd/{lock}", os.O_WRONLY | os.O_APPEND), evil)):
    try:
        write()
    except OSError as error:
        print(error.errno)
os.link(f"/proc/self/fd/{lock}", ".git/config", src_dir_fd=0, follow_symlinks=True)
"""


def test_kept_descriptor_is_of_another_file(repository: Repository) -> None:
    done = repository.sh(f"python3 - <<'END'\n{KEPT}\nEND")
    assert "PermissionError" in done.err  # the last line's
    text = repository.config.read_text()
    assert '[branch "z"]' in text and "evil" not in text


def test_another_repository_is_its_own(repository: Repository) -> None:
    done = repository.sh(
        "git clone -q . copy && git -C copy config core.hooksPath /var/tmp && git init -q new"
        " && git -C new config alias.x y"
        " && git worktree add -q tree -b t && git -C tree status --short"
    )
    assert (done.code, done.err) == (0, "")


def test_removing_it_gains_nothing(repository: Repository) -> None:
    """A new one without the user's settings is no harmless change, and in the end it is back as it was."""
    before = repository.config.read_text()
    done = repository.sh(
        "rm .git/config; git config branch.a.description words; echo status $?; ls .git/config"
    )
    assert "status 4" in done.out or "status 255" in done.out, done
    assert repository.config.read_text() == before
    actions = {(action, target) for action, target, _, _ in done.violations}
    assert ("file-write-unlink", str(repository.config)) in actions


def test_written_again_as_it_was_it_may_be_changed(repository: Repository) -> None:
    done = repository.sh(
        "cp .git/config /var/tmp/kept; rm .git/config; cp /var/tmp/kept .git/config.lock; "
        "git config --file /var/tmp/kept branch.a.description words; cp /var/tmp/kept .git/config.lock; "
        "mv .git/config.lock .git/config; echo status $?"
    )
    assert "status 0" in done.out, done
    assert "description = words" in repository.config.read_text()
    assert done.violations == []
