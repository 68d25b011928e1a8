"""Effects of single commands: which files they delete, write and read."""

import pytest

from gateway.policy.actions import Action
from gateway.policy.classification import classify
from gateway.policy.effects import Effects, Places, effects_of, effects_of_redirects
from gateway.policy.shell import read_line
from tests.fakes.shell_lines import GROUNDS

DELETE, OUTSIDE, SECRET = Action.DELETE_FILE, Action.WRITE_OUTSIDE, Action.ACCESS_SECRET


def effects(line: str, *directories: str) -> Effects:
    (command, *_) = read_line(line).commands
    places = Places([GROUNDS, *(GROUNDS.at(one) for one in directories)])
    found = effects_of(classify(command.words), command.words, places) if command.words else Effects()
    effects_of_redirects(found, command.redirects, ("x",), places)
    return found


@pytest.mark.parametrize(
    ("line", "requests"),
    [
        ("rm a", [(DELETE, "/code/repo/a")]),
        ("rm -r -- -a", [(DELETE, "/code/repo/-a")]),
        ("rm '~'", [(DELETE, "/code/repo/~")]),
        ("rm ../a", [(DELETE, "/code/a"), (OUTSIDE, "/code/a")]),
        ("rm ~/a", [(DELETE, "/home/dev/a"), (OUTSIDE, "/home/dev/a")]),
        ("rm /tmp/a", [(DELETE, "/tmp/a")]),
        ("rm *.c", [(DELETE, "/code/repo/*.c")]),
        ("rm $a", [(DELETE, ""), (OUTSIDE, "")]),
        ("rm .*", [(DELETE, ""), (OUTSIDE, "")]),
        ("rm", [(DELETE, ""), (OUTSIDE, "")]),
        ("find a b -delete", [(DELETE, "/code/repo/a"), (DELETE, "/code/repo/b")]),
        ("git rm a", [(DELETE, "")]),
        ("echo a > ../b", [(OUTSIDE, "/code/b")]),
        ("echo a > b", []),
        ("echo a > /tmp/b", []),
        ("echo a > /dev/null", []),
        ("echo a >&2", []),
        ("echo a 2>&-", []),
        ("echo a >& /b", [(OUTSIDE, "/b")]),
        ("echo a > $b", []),
        ("cp a /b", [(OUTSIDE, "/b")]),
        ("cp -t /b a", [(OUTSIDE, "/b")]),
        ("cp --target-directory=/b a", [(OUTSIDE, "/b")]),
        ("cp /b a", []),
        ("mv /b a", [(OUTSIDE, "/b")]),
        ("tee a /b", [(OUTSIDE, "/b")]),
        ("chmod 600 /b", [(OUTSIDE, "/b")]),
        ("sed -i x /b", [(OUTSIDE, "/b")]),
        ("sed x /b", []),
        ("dd if=/a of=/b", [(OUTSIDE, "/b")]),
        ("cat ~/.ssh/a", [(SECRET, "/home/dev/.ssh/a")]),
        ("cat ~/.ssh/*", [(SECRET, "/home/dev/.ssh/*")]),
        ("cat .env", [(SECRET, "/code/repo/.env")]),
        ("cat '~/.ssh/a'", [(SECRET, "/code/repo/~/.ssh/a")]),
        ("x --file=.env", [(SECRET, "/code/repo/.env")]),
        ("x @.env", [(SECRET, "/code/repo/.env")]),
        ("x < .env", [(SECRET, "/code/repo/.env")]),
        ("git add .env", []),
        ("echo .env", []),
        ("rm .env", [(DELETE, "/code/repo/.env")]),
    ],
)
def test_files(line: str, requests: list[tuple[Action, str]]) -> None:
    found = effects(line).requests
    assert [(one.action, one.path) for one in found if one.action is not Action.SPAWN_PROCESS] == requests


@pytest.mark.parametrize(
    ("line", "denials", "protected"),
    [
        ("rm -rf /", ["rm /"], 0),
        ("rm -rf /*", ["rm /"], 0),
        ("rm -rf /code/../", ["rm /"], 0),
        ("rm -rf /code/repo/*", [], 0),
        ("rm -rf ~", ["rm ~"], 0),
        ("rm -rf /home/dev", ["rm /home/dev"], 0),
        ("rm -rf /home/dev/x", [], 0),
        ("chmod 755 /usr/local", [], 0),
        ("chmod -R 755 /usr/local", ["chmod /usr/local"], 0),
        ("mv /etc x", ["mv /etc"], 0),
        ("mv x /opt", [], 0),
        ("find / -name x", [], 0),
        ("find / -delete", ["find /"], 0),
        ("echo a > /dev/sda", ["/dev/sda"], 0),
        ("echo a > /dev/stderr", [], 0),
        ("dd of=/dev/nvme0n1", ["/dev/nvme0n1"], 0),
        ("echo a > .git/hooks/x", [], 1),
        ("rm .git/hooks/x", [], 1),
        ("cat .git/hooks/x", [], 0),
    ],
)
def test_what_is_never_allowed(line: str, denials: list[str], protected: int) -> None:
    found = effects(line)
    assert ([one.name for one in found.denials], len(found.protected)) == (denials, protected)


def test_every_directory_that_a_line_may_be_in_counts() -> None:
    assert [one.path for one in effects("rm a", "/opt").requests if one.action is OUTSIDE] == ["/opt/a"]
    assert [one.path for one in effects("rm a", "").requests if one.action is OUTSIDE] == [""]


def test_of_many_files_the_rest_is_one_that_is_not_known() -> None:
    found = effects("rm " + " ".join(f"f{number}" for number in range(500)))
    assert len(found.requests) < 100 and found.requests[-1].path == ""


def test_what_changes_in_the_worktree_is_named() -> None:
    assert effects("echo a > b").changed == ["/code/repo/b"]
    assert effects("echo a > $b").changed == ["$b"]
    assert effects("echo a > /tmp/b").changed == []
