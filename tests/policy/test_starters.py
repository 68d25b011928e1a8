"""Programs that start others in a way of their own."""

import pytest

from gateway.policy.commands.wrappers import SHELLS
from tests.policy.test_unwrapping import simple, starts


@pytest.mark.parametrize(
    ("line", "texts", "doubts"),
    [
        ("bash -c 'a b' c", ["a b"], 0),
        ("bash -lc a", ["a"], 0),
        ("bash -euo pipefail -c a", ["a"], 0),
        ("bash -o errexit +x --norc --rcfile f -c a", ["a"], 0),
        ("bash -c -- a", ["a"], 0),
        ("bash -c", [], 0),
        ("bash -c $x", [], 1),
        ("bash a.sh -c b", [], 0),
        ("bash --version", [], 0),
        ("bash", [], 1),
        ("bash -", [], 1),
        ("bash -s a", [], 1),
        ("bash /dev/stdin", [], 1),
        ("bash <(a)", [], 1),
        ("fish -c a", ["a"], 1),
        ("eval a b", ["a b"], 0),
        ("eval -- a", ["a"], 0),
        ("eval", [], 0),
        ("trap a EXIT", ["a"], 0),
        ("trap - EXIT", [], 0),
        ("trap", [], 0),
        ("alias a=b c='d e'", ["b", "d e"], 0),
        ("source a", [], 0),
        ("source <(a)", [], 1),
        (". /dev/stdin", [], 1),
        ("git -c alias.x='!a b' x", ["a b"], 0),
        ("git -c core.pager='a b' log", ["a b"], 0),
        ("git -c core.pager=cat log", [], 0),
        ("git -c include.path=x log", [], 1),
        ("git -c $x log", [], 1),
        ("git -c user.name=$x log", [], 0),
        ("git --exec-path=x log", [], 1),
        ("git --exec-path", [], 0),
        ("git rebase -x 'a b' c", ["a b"], 0),
        ("git rebase --exec='a b' c", ["a b"], 0),
        ("git submodule foreach a b", ["a b"], 0),
        ("python -m $x", [], 1),
    ],
)
def test_texts_and_doubts(line: str, texts: list[str], doubts: int) -> None:
    found = starts(line)
    assert (found.texts, len(found.doubts)) == (texts, doubts)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("find a -exec b {} \\; -execdir c +", ["find a -exec b {} ; -execdir c +", "b a/*", "c"]),
        ("find -exec b{} \\;", ["find -exec b{} ;"]),
        ("git -c alias.x=push x y", ["git -c alias.x=push x y", "git push y"]),
        ("git bisect run a b", ["git bisect run a b", "a b"]),
        ("python -m pip install x", ["pip install x"]),
        ("python3 -Im pip install x", ["pip install x"]),
        ("python -mpip install x", ["pip install x"]),
        ("python -m http.server", ["python -m http.server"]),
        ("python -c 'import x' -m pip", ["python -c import x -m pip"]),
        ("python a.py", ["python a.py"]),
        ("coproc a b", ["a b"]),
        ("coproc X { a", ["a"]),
        ("time { a", ["a"]),
    ],
)
def test_commands(line: str, found: list[str]) -> None:
    assert simple(line) == found


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_every_shell_runs_a_text(shell: str) -> None:
    assert starts(f"{shell} -c 'git push'").texts == ["git push"]
    assert starts(f"/bin/{shell}").doubts
