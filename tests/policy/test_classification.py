"""What commands mean by the tables."""

import pytest

from gateway.policy.actions import Action
from gateway.policy.classification import Meaning, classify, has_option, option_names
from gateway.policy.shell import read_line


def meaning(line: str) -> Meaning:
    return classify(read_line(line).commands[0].words)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("git -C d push -f", "git push -f"),
        ("/usr/bin/GIT push", "git push"),
        ("npm --prefix d i x", "npm i x"),
        ("docker compose -f a up -d", "docker compose up -f a -d"),
        ("gh pr -R o/n create -t x", "gh pr create -R o/n -t x"),
        ("gh -R o/n pr create", "gh pr create"),
        ("kubectl -n x delete pod y", "kubectl delete pod y"),
        ("aws s3 rm x", "aws s3 rm x"),
        ("git what x", "git what x"),
        ("git -p what x", "git what x"),
        ("ls -la x", "ls -la x"),
        ("rm -rf $x", "rm -rf $x"),
        ("pip3.12 install x", "pip3.12 install x"),
    ],
)
def test_words_are_normal(line: str, words: str) -> None:
    assert " ".join(meaning(line).words) == words


@pytest.mark.parametrize(
    ("line", "effects", "asks", "changes"),
    [
        ("git commit", [Action.COMMIT], False, False),
        ("git status", [], False, False),
        ("git pull", [Action.COMMIT, Action.ACCESS_NETWORK], False, False),
        ("npm publish", [], True, True),
        ("docker run x", [], True, True),
        ("docker ps", [], False, False),
        ("rm x", [Action.DELETE_FILE], False, True),
        ("touch x", [], False, True),
        ("sed -i x y", [], False, True),
        ("sed --in-pl x y", [], False, True),
        ("sed -n x y", [], False, False),
        ("git branch", [], False, False),
        ("git branch x", [], False, True),
        ("git branch -D x", [], False, True),
        ("git branch --list -D x", [], False, True),
        ("git tag -l x", [], False, False),
        ("git tag x", [], False, True),
        ("git config x", [], False, False),
        ("git config x y", [], False, True),
        ("git config --unset x", [], False, True),
        ("git stash list", [], False, False),
        ("git stash push list", [], False, True),
        ("tar tf x", [], False, False),
        ("tar xtf x", [], False, True),
        ("tar xf x", [], False, True),
        ("yarn", [Action.INSTALL_PACKAGE], False, False),
        ("yarn --version", [], False, False),
        ("bundle exec x", [], False, False),
        ("npm --what install x", [Action.INSTALL_PACKAGE], False, False),
        ("npm --what x install", [Action.INSTALL_PACKAGE], False, False),
        ("npm run install", [], False, False),
        ("gh api x", [Action.ACCESS_NETWORK], False, False),
        ("gh api x -f a=b", [Action.ACCESS_NETWORK], True, True),
        ("gh api x -XDELETE", [Action.ACCESS_NETWORK], True, True),
        ("gh api x -X GET -f a=b", [Action.ACCESS_NETWORK], False, False),
        ("gh api x -X $m", [Action.ACCESS_NETWORK], True, True),
        ("aws s3 ls", [Action.ACCESS_NETWORK], False, False),
        ("aws s3 rm x", [Action.ACCESS_NETWORK], True, True),
        ("aws ec2 describe-instances", [Action.ACCESS_NETWORK], False, False),
    ],
)
def test_tables(line: str, effects: list[Action], asks: bool, changes: bool) -> None:
    found = meaning(line)
    assert (found.effects, found.asks, found.changes) == (effects, asks, changes)
    assert not found.doubt and not found.denials


@pytest.mark.parametrize(
    "line", ["git $x", "git -C d $x", "gh pr $x", "docker compose $x", "aws $x", "npm $x install"]
)
def test_an_unknown_command_of_a_tool_is_a_doubt(line: str) -> None:
    assert meaning(line).doubt


@pytest.mark.parametrize(
    "line", ["git show $x", "ls $x", "npm run $x", "rm $x", "git commit $x", "git", "git -C $d status"]
)
def test_other_unknown_words_are_none(line: str) -> None:
    assert not meaning(line).doubt


@pytest.mark.parametrize(
    ("line", "denied"),
    [
        ("sudo x", "sudo"),
        ("mkfs.ext4 x", "mkfs.ext4"),
        ("systemctl reboot", "systemctl reboot"),
        ("systemctl status", ""),
        ("docker run --privileged x", "docker --privileged"),
        ("docker run --privileged=false x", ""),
        ("docker run -v /:/x y", "docker -v"),
        ("docker run -v$PWD:/x y", ""),
        ("docker run -v /code:/x y", ""),
        ("docker run -v $HOME:/x y", "docker -v"),
        ("docker run --mount src=/etc,target=/x y", "docker --mount"),
        ("docker run --mount src=/etc/x,target=/x y", ""),
        ("docker run --network none x", ""),
        ("docker run --network host x", "docker --network"),
        ("docker ps --privileged", ""),
        ("sudoku", ""),
    ],
)
def test_the_fixed_list(line: str, denied: str) -> None:
    assert [denial.name for denial in meaning(line).denials] == ([denied] if denied else [])


def test_options() -> None:
    options = option_names(("rm", "-rf", "--recursive=x", "a", "--", "-z"))
    assert options == {"-rf", "-r", "-f", "--recursive"}
    assert has_option(frozenset({"--recurs"}), frozenset({"--recursive"}))
    assert not has_option(frozenset({"--r"}), frozenset({"--recursive"}))
