"""Lines taken apart: every command anywhere, and a problem wherever the grammar and bash may differ."""

import subprocess

import pytest

from gateway.policy.shell import read_line
from gateway.policy.shell_line import MAX_SHOWN, Problem, Redirect
from gateway.policy.shell_words import Vague, shown
from tests.fakes.shell_lines import cases

UNPARSABLE = (Problem.UNPARSABLE,)


def commands(line: str) -> list[str]:
    """The commands of a line, with words as they are shown."""
    return [" ".join(map(shown, command.words)) for command in read_line(line).commands]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("a b | c && d || e; f & g", ["a b", "c", "d", "e", "f", "g"]),
        ("(a; b) | { c; }", ["a", "b", "c"]),
        ("a $(b `c`) \"$(d)\" <(e) >(f)", ["a $(b `c`) \"$(d)\" <(e) >(f)", "b `c`", "c", "d", "e", "f"]),
        ("if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]),
        ("while a; do b; done; until c; do d; done", ["a", "b", "c", "d"]),
        ("for i in $(a); do b; done", ["a", "b"]),
        ("for ((i=$(a); i<$(b); i++)); do c; done", ["", "a", "b", "c"]),
        ("case $(a) in $(b)) c;; *) d;; esac", ["a", "b", "c", "d"]),
        ("f() { a; }; function g { b; }; f", ["a", "b", "f"]),
        ("[[ $(a) ]] && [ $(b) ] && (( $(c) ))", ["a", "b", "c"]),
        ("a ${x:-$(b)} $(( $(c) ))", ["a ${x:-$(b)} $(( $(c) ))", "b", "c"]),
        ("x=$(a) y=(b $(c)) z[$(d)]=1 e", ["e", "a", "c", "d"]),
        ("a <<E\n$(b)\nE\nc", ["a", "b", "c"]),
        ("a <<'E'\n$(b)\nE\nc", ["a", "c"]),
        ("a <<E | b && c > d\nx\nE", ["a", "b", "c"]),
        ("a <<< \"$(b)\"", ["a", "b"]),
        (">x a 2>&1 b <y c", ["a b c"]),
        ("a <<E b\nE", ["a b"]),
        ("a &>x b", ["a b"]),
        ("! a", ["a"]),
        ("export A=$(a) b; declare -x C", ["export b", "a", "declare -x C"]),
        ("# a\nb # c\nd", ["b", "d"]),
        ("a\\\nb c\\\n d", ["ab c d"]),
        ("a \\\n b", ["a b"]),
        ("a\tb", ["a b"]),
        ("a\u00a0b", ["a\u00a0b"]),
        ("a {b,c} {}", ["a b c {}"]),
        ("echo 'a; b' \"c | d\" e\\;f", ["echo a; b c | d e;f"]),
    ],
)  # fmt: skip
def test_every_command_is_found(line: str, found: list[str]) -> None:
    assert read_line(line).problems == ()
    assert sorted(commands(line)) == sorted(found)


@pytest.mark.parametrize(
    "line",
    [
        "'a", '"a', "$(a", "`a", "(a", "a)", "a; ; b", "if a; then b", "a <> b", "a <<E\nb", "{a}", "a ${x:-`b`}",
        # Where the grammar is content and bash reads something else.
        "echo 'x'; gi\\\nt push",
        "ls 'x'\n\\\ngit push",
        "c1\\\n\\\n'x' c2\n  \\\nc3",
        "a\\ b; \\ c",
 "[[a b ]]", "{ a; }; {b; }",
        ">&2`a`b",
        "é=1 a", "*a=1", "--a=1",
        "c2! *<<'E'\nc7 k\nE\nc1$#x\"$(c4 w)\" { ",
        "a <<E\nx\n E\nb <<F\nE\ngit push\nF", "a <<E\nx\nE \nb <<F\nE\ngit push\nF", "a <<E\nE x\nE\nb",
        "time if a; then b; fi", "! for i in a; do b; done",
    ],
)  # fmt: skip
def test_a_doubt_is_a_problem(line: str) -> None:
    assert Problem.UNPARSABLE in read_line(line).problems


@pytest.mark.parametrize(
    ("line", "problem"),
    [("ls\r", Problem.ODD_BLANK), ("ls\va", Problem.ODD_BLANK), ("a\fb", Problem.ODD_BLANK)],
)
def test_odd_blanks(line: str, problem: Problem) -> None:
    assert problem in read_line(line).problems


@pytest.mark.parametrize(
    ("line", "redirects"),
    [
        ("a > b", [Redirect(">", "b")]),
        ("a >>'b c' 2>d", [Redirect(">>", "b c"), Redirect(">", "d")]),
        ("a < b", [Redirect("<", "b")]),
        ("a &> b", [Redirect("&>", "b")]),
        ("a >| b", [Redirect(">|", "b")]),
        ("a 2>&1", [Redirect(">&", "1")]),
        ("a > $b", [Redirect(">", Vague("$b"))]),
        ("a <<'E'\nb\nE", [Redirect("<<", "b\n")]),
        ("a <<-E\n\tb\n\tE", [Redirect("<<", "b\n")]),
        ("a <<E\n$b\nE", [Redirect("<<", Vague("$b\n"))]),
        ("a <<< b", [Redirect("<<<", "b")]),
        ("{ a; } > b", []),
    ],
)
def test_redirections_belong_to_their_command(line: str, redirects: list[Redirect]) -> None:
    assert list(read_line(line).commands[0].redirects) == redirects
    assert read_line(line).problems == ()


def test_redirections_of_a_group_are_commands_without_words() -> None:
    assert [command.redirects for command in read_line("{ a; } > b").commands if not command.words] == [
        (Redirect(">", "b"),)
    ]


def test_variables_before_a_command() -> None:
    (command,) = read_line("A=1 B='x y' C=$d e").commands
    assert command.assignments == (("A", "1"), ("B", "x y"), ("C", Vague("$d")))


def test_what_is_shown_is_short_and_holds_the_redirections() -> None:
    assert read_line("a b > c; d").commands[0].text == "a b > c"
    assert len(read_line("a " + "b" * 1000).commands[0].text) == MAX_SHOWN


LINES = [case.line for case in cases() if "\0" not in case.line]


def test_bash_reads_what_is_parsed() -> None:
    """No line that bash itself refuses passes without a problem."""
    for line in LINES:
        found = read_line(line)
        answer = subprocess.run(
            ["bash", "--norc", "-n", "-c", line], capture_output=True, timeout=10, check=False
        )
        assert answer.returncode == 0 or found.problems, line


def test_known_words_are_those_of_bash() -> None:
    """Every command of the corpus whose words are known to the letter, written anew and read by bash."""
    for line in LINES:
        for command in read_line(line).commands:
            if command.words and all(isinstance(word, str) for word in command.words):
                words = [shown(word) for word in command.words]
                quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
                (again,) = read_line(quoted).commands
                assert list(again.words) == words


STUB = 'command_not_found_handle() { printf "%s\\0" "$@" $\'\\1\' >&7; return 0; }\n'


@pytest.mark.parametrize(
    "line",
    [
        "c1 a | c2 'b c' && c3 $(c4 d) || c5", "c1 2>&1 a\\ b", "c1 <<E\n$(c2)\nE\nc3", "for i in a b; do c1 x; done",
        "f() { c1; }; f; (c2); { c3; }", "if c1; then c2; fi", "c\\\n1", "c1 {a,b} 'x'\"y\"", "case a in a) c1;; esac",
        "! c1; time c2; coproc c3; wait", "A=1 c1; >/dev/null c2 x", "c1 \"$(c2 \"$(c3)\")\" `c4`", "cat <(c1 x)",
    ],
)  # fmt: skip
def test_what_bash_runs_was_found(line: str) -> None:
    """bash runs the line where no program is to be found, and tells the words of each that it looked for."""
    script = f"exec 7>&1 >/dev/null\n{STUB}{line}\nwait"
    answer = subprocess.run(
        ["/bin/bash", "--norc", "-c", script],
        capture_output=True,
        timeout=20,
        check=False,
        env={"PATH": "/nonexistent"},
        cwd="/",
    )
    ran = [run.rstrip("\0").split("\0") for run in answer.stdout.decode().split("\1\0") if run]
    assert ran
    known = [
        [word for word in command.words if isinstance(word, str)] for command in read_line(line).commands
    ]
    for words in ran:
        name = words[0]
        assert any(name in row for row in known), (words, known)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("日本 é\u2003x", ["日本 é\u2003x"]),
        ("a $(é) 'ü'ö", ["a $(é) üö", "é"]),
        ("a <<E\nü $(b)\nE\nc", ["a", "b", "c"]),
        ("a <<E!\nü $(b)\nE!\nc", ["a", "b", "c"]),
        (
            "\U000625bc\U00054b0c\U0006f2dd\u2d9e \U0010fa1c",
            ["\U000625bc\U00054b0c\U0006f2dd\u2d9e \U0010fa1c"],
        ),
    ],
)
def test_letters_beyond_ascii_are_letters(line: str, found: list[str]) -> None:
    assert read_line(line).problems == ()
    assert sorted(commands(line)) == sorted(found)
