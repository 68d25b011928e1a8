"""What is put in front of a command, taken off."""

import pytest

from gateway.policy.commands.wrappers import WRAPPERS
from gateway.policy.shell import read_line
from gateway.policy.shell_words import shown
from gateway.policy.started import Started
from gateway.policy.unwrapping import started


def starts(line: str) -> Started:
    return started(read_line(line).commands[0].words)


def simple(line: str) -> list[str]:
    return [" ".join(map(shown, words)) for words in starts(line).simple]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("git push", ["git push"]),
        ("env A=1 B=2 git push", ["git push"]),
        ("env -i -u X -C d -- git push", ["git push"]),
        ("env", ["env"]),
        ("nohup nice -n 5 timeout -k 1 10 git push", ["git push"]),
        ("nice -5 git push", ["git push"]),
        ("sudo -u x -- git push", ["sudo -u x -- git push", "git push"]),
        ("sudo -nu x A=1 git push", ["sudo -nu x A=1 git push", "git push"]),
        ("su x -c ls", ["su x -c ls"]),
        ("command -v git", ["command -v git"]),
        ("command -p git x", ["git x"]),
        ("exec -a x git y", ["git y"]),
        ("xargs -0 -n1 git x", ["git x {}"]),
        ("xargs -I X git pushX X", ["git {} {} {}"]),
        ("xargs", ["xargs"]),
        ("parallel -j 4 git x ::: a b", ["git x {}"]),
        ("time -p git x", ["git x"]),
        ("! time env git x", ["git x"]),
        ("busybox rm x", ["rm x"]),
        ("npx -y x y", ["npx -y x y", "x y"]),
        ("uv --directory d run --with x pytest -q", ["pytest -q"]),
        ("npm run x", ["npm run x"]),
        ("ssh -p 22 h.test git push", ["ssh -p 22 h.test git push"]),
        ("ip netns exec x ls", ["ip netns exec x ls", "ls"]),
    ],
)
def test_what_only_starts_is_taken_off(line: str, found: list[str]) -> None:
    assert simple(line) == found


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("env -S 'git push'", ["git push"]),
        ("env -Sgit", ["git"]),
        ("env --split-string=ls", ["ls"]),
        ("watch -n 1 git x", ["git x"]),
        ("script -c 'git x' f", ["git x"]),
        ("flock f -c 'git x'", ["git x"]),
        ("su -c 'git x'", ["git x"]),
    ],
)
def test_texts_of_options(line: str, texts: list[str]) -> None:
    assert starts(line).texts == texts


@pytest.mark.parametrize(
    "line",
    [
        "nice --what ls",
        "env -X ls",
        "timeout --what 5 ls",
        "env $x ls",
        "$x",
        "ssh h.test ls",
        "xargs -I{} sh -c {}",
        "env -S ls -l",
    ],
)
def test_doubts(line: str) -> None:
    assert starts(line).doubts


def test_wrappers_around_one_another_end() -> None:
    assert starts("env " * 200 + "ls").doubts
    assert simple("env " * 30 + "ls") == ["ls"]


@pytest.mark.parametrize("key", [key for key in WRAPPERS if key not in {"!", "{", "env", "ssh", "mosh"}])
def test_every_wrapper_gives_what_it_starts(key: str) -> None:
    operands = " ".join(["5"] * WRAPPERS[key].operands)
    assert any(one.startswith("git commit") for one in simple(f"{key} {operands} git commit"))
