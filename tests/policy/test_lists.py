"""List files: what a line may hold, and every fault with its line and what to write instead."""

from ipaddress import IPv4Network, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.hosts import HostMatcher, HostPattern, PatternError, is_normal, parse_pattern
from gateway.policy.lists import MAX_FILE, MAX_LINE, MAX_PROBLEMS, ListEntry, ParsedList, a_labels, parse_list
from gateway.policy.problem import Problem

GOOD = b"""\
# What this list is for.
# count llm 2
# count git 1
api.allowed.test  # the API; its files API takes any key  group=llm risk=X2
*.wild.test # everything below   risk=X3 group=llm
#
SVC.*.Multi.test.\t# one region\tgroup=git raw=yes
plain.test # a reason with group=x inside
"""


def test_a_good_list() -> None:
    parsed = parse_list(GOOD, "baseline.txt")
    assert parsed.problems == ()
    assert parsed.name == "baseline.txt"
    assert parsed.patterns == (
        HostPattern("api.allowed.test", "baseline.txt:4"),
        HostPattern("*.wild.test", "baseline.txt:5"),
        HostPattern("svc.*.multi.test", "baseline.txt:7"),
        HostPattern("plain.test", "baseline.txt:8"),
    )
    assert parsed.entries == (
        ListEntry("api.allowed.test", 4, "the API; its files API takes any key", "llm", "X2"),
        ListEntry("*.wild.test", 5, "everything below", "llm", "X3"),
        ListEntry("svc.*.multi.test", 7, "one region", "git", raw=True),
        ListEntry("plain.test", 8, "a reason with group=x inside"),
    )
    assert dict(parsed.counts) == {"llm": 2, "git": 1}
    assert parsed.networks == ()


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + GOOD,
        GOOD.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + GOOD.replace(b"\n", b"\r\n"),
        GOOD.removesuffix(b"\n"),
    ],
    ids=["BOM", "CRLF", "BOM and CRLF", "no newline at the end"],
)
def test_what_editors_do_to_a_file_changes_nothing(data: bytes) -> None:
    assert parse_list(data, "baseline.txt") == parse_list(GOOD, "baseline.txt")


def only_problem(data: bytes, name: str = "baseline.txt") -> Problem:
    """The one problem of the list."""
    parsed = parse_list(data, name)
    assert len(parsed.problems) == 1, parsed.problems
    return parsed.problems[0]


# A line, and a word of what to write instead.
BAD_LINES = {
    "*": "name the hosts",
    "*.": "name the hosts",
    "*.com": "two labels",
    "a*b.test": "whole labels",
    "*.*.test": "exactly one",
    "test.*": "ends with a star",
    "": "empty line",
    "   ": "empty line",
    "http://x": "host alone",
    "x/y": "host alone",
    "x:443": "egress.ports",
    "a.test b.test": "one entry a line",
    "a.test, b.test": "one entry a line",
    "127.0.0.1": "egress.addresses",
    "10.0.0.0/8": "egress.addresses",
    "::1": "egress.addresses",
    "fd00::/8": "egress.addresses",
    "[::1]": "egress.addresses",
    "127.1": "192.0.2.1",
    ".wild.test": "*.example.com",
    "a..test": "not a host",
    "-a.test": "not a host",
    "a\tb.test": "one entry a line",
    "a\x0bb.test": "control",
    "a\x1b[2J.test": "control",
    "a.test # \u202e": "invisible",
    "a.test # \u2028": "invisible",
    "a.test\rb.test": "control",
    "al\u00adlowed.test": "invisible",
    "\uff21\uff30\uff29.test": "as the DNS has it",
    "api\u3002allowed\u3002test": "as the DNS has it",
    "stra\u00dfe.test": "as the DNS has it",
    "\u212aelvin.test": "as the DNS has it",
    "a.test # x risk=X4": "X1, X2 or X3",
    "a.test # x risk=": "X1, X2 or X3",
    "a.test # x group=A": "group=NAME",
    "a.test # x group=a group=b": "keep one",
    "a.test # x raw=no": "raw=yes",
    "# count llm": "",
    "# count llm two": "# count GROUP NUMBER",
    "# count llm 02": "# count GROUP NUMBER",
    "# count LLM 2": "# count GROUP NUMBER",
    "a.test # " + "x" * MAX_LINE: "shorten",
    "a.test # " + "\u00e9" * (MAX_LINE // 2): "shorten",
}


@pytest.mark.parametrize(("line", "instead"), BAD_LINES.items(), ids=[ascii(line)[:40] for line in BAD_LINES])
def test_bad_line(line: str, instead: str) -> None:
    data = f"# head\nfirst.test # a reason\n{line}\nlast.test # a reason\n".encode()
    parsed = parse_list(data, "baseline.txt")
    assert [pattern.text for pattern in parsed.patterns] == ["first.test", "last.test"]
    if not instead:
        assert parsed.problems == ()
        return
    (problem,) = parsed.problems
    assert (problem.file, problem.line, problem.warning) == ("baseline.txt", 3, False)
    assert instead in problem.message
    assert problem.message.isascii()
    assert parsed.errors == parsed.problems


def test_every_problem_is_reported_at_once() -> None:
    parsed = parse_list(b"*\na.test # x\nhttp://x\nA.TEST # x\n", "deny.txt")
    assert [problem.line for problem in parsed.errors] == [1, 3, 4]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("api.test", "api.test"),
        ("api.test", "API.test."),
        ("*.wild.test", "*.WILD.test"),
        ("xn--bcher-kva.test", "b\u00fccher.test"),
    ],
)
def test_a_repeated_entry_names_both_lines(first: str, second: str) -> None:
    parsed = parse_list(f"{first} # one\nother.test # x\n{second} # two\n".encode(), "baseline.txt")
    (problem,) = parsed.errors
    assert problem.line == 3
    assert "line 1" in problem.message
    assert len(parsed.patterns) == 2


def test_a_repeated_network_and_count() -> None:
    data = b"# count x 1\n# count x 2\n10.0.0.0/8 # one\n10.0.0.0/8 # two\n"
    assert [problem.line for problem in parse_list(data, "deny.txt").errors] == [2, 4]


@pytest.mark.parametrize(
    ("data", "line", "word"),
    [
        (b"a.test # x\nb\0.test # x\n", 2, "NUL"),
        (b"a.test # x\n\nb.test # \xff\n", 3, "UTF-8"),
        (b"a.test # \xc0\x80\n", 1, "UTF-8"),
        (b"\xed\xa0\x80.test\n", 1, "UTF-8"),
        ("a.test # x\n".encode("utf-16"), 1, "NUL"),
        (b"\x7fELF\x02\x01\x01\0\0\0", 1, "NUL"),
        (b"\x1f\x8b\x08\xff", 1, "UTF-8"),
        (b"a" * (MAX_FILE + 1), 0, "bytes"),
        (b"", 0, "no entry"),
        (b"\n", 1, "empty line"),
        (b"# only a comment\n", 0, "no entry"),
        (b"\xef\xbb\xbf", 0, "no entry"),
    ],
)
def test_a_file_that_is_no_list(data: bytes, line: int, word: str) -> None:
    problem = only_problem(data)
    assert (problem.line, problem.warning) == (line, False)
    assert word in problem.message
    assert parse_list(data, "baseline.txt").patterns == ()


def test_the_largest_file_is_read() -> None:
    data = b"a.test # x\n"
    data += b"#\n" * ((MAX_FILE - len(data) - 3) // 2)
    data += b"#" * (MAX_FILE - len(data))
    assert len(data) == MAX_FILE
    assert parse_list(data, "baseline.txt").problems == ()


def test_thousands_of_entries() -> None:
    data = "".join(f"host{number}.example.test # x group=many\n" for number in range(5000)).encode()
    parsed = parse_list(data, "baseline.txt")
    assert parsed.problems == ()
    assert len(parsed.patterns) == len(HostMatcher(parsed.patterns)) == 5000
    found = HostMatcher(parsed.patterns).match("host4999.example.test")
    assert found == HostPattern("host4999.example.test", "baseline.txt:5000")


def test_a_file_full_of_faults_is_cut_short() -> None:
    parsed = parse_list(b"*\n" * (MAX_PROBLEMS + 5), "baseline.txt")
    assert len(parsed.problems) == MAX_PROBLEMS + 1
    assert parsed.problems[-1] == Problem("baseline.txt", 0, "and 5 more problems")


def test_a_cut_of_warnings_alone_stays_a_warning() -> None:
    data = "".join(f"b\u00fccher{number}.test # x\n" for number in range(MAX_PROBLEMS + 5)).encode()
    assert parse_list(data, "baseline.txt").errors == ()


def test_an_entry_without_a_reason_is_a_warning_once() -> None:
    problem = only_problem(b"a.test\nb.test # x\nc.test #\n")
    assert (problem.line, problem.warning) == (1, True)
    assert "2 without a reason" in problem.message


DENY = b"""\
metadata.google.internal # GCP
169.254.0.0/16 # link-local group=metadata
168.63.129.16 # Azure
fd00:ec2::/32 # AWS
FD20:CE::254 # GCP
10.0.0.0/255.0.0.0 # a mask
10.1.0.0/8 # bits beyond the prefix
127.1 # short
::ffff # a short one, which is right
fd00::1%eth0 # a zone
"""


def test_a_deny_list_holds_networks() -> None:
    parsed = parse_list(DENY, "deny.txt")
    assert parsed.networks == (
        (IPv4Network("169.254.0.0/16"), "deny.txt:2"),
        (IPv4Network("168.63.129.16/32"), "deny.txt:3"),
        (IPv6Network("fd00:ec2::/32"), "deny.txt:4"),
        (IPv6Network("fd20:ce::254/128"), "deny.txt:5"),
        (IPv6Network("::ffff/128"), "deny.txt:9"),
    )
    assert [problem.line for problem in parsed.errors] == [6, 7, 8, 10]
    assert parsed.entries[1] == ListEntry("169.254.0.0/16", 2, "link-local", "metadata")
    assert parse_list(DENY, "mine/deny.txt").networks[0][1] == "mine/deny.txt:2"


def test_which_list_is_a_deny_list() -> None:
    data = b"10.0.0.0/8 # x\n"
    assert parse_list(data, "baseline.txt").errors
    assert parse_list(data, "not-deny.txt").errors
    assert not parse_list(data, "mine.txt", deny=True).errors
    assert parse_list(data, "deny.txt", deny=False).errors


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"*.zone.test # x\n", [1]),
        (b"*.zone.test # x\nzone.test # x\n", []),
        (b"zone.test # x\n*.zone.test # x\n", []),
        (b"*.a.zone.test # x\n*.zone.test # x\nzone.test # x\n", []),
        (b"a.*.zone.test # x\n", []),
        (b"a.*.zone.test # x\n*.a.s3.zone.test # x\n", []),
        (b"zone.test # x\n", []),
        (b"*.one.test # x\n*.two.test # x\n", [1, 2]),
    ],
)
def test_a_wildcard_deny_without_its_apex_is_a_warning(data: bytes, lines: list[int]) -> None:
    problems = parse_list(data, "deny.txt").problems
    assert [problem.line for problem in problems] == lines
    assert all(problem.warning for problem in problems)
    assert parse_list(data, "baseline.txt").problems == ()


U_LABELS = {
    "b\u00fccher.test": "xn--bcher-kva.test",
    "B\u00dcCHER.test": "xn--bcher-kva.test",
    "*.b\u00fccher.test": "*.xn--bcher-kva.test",
    "a.*.b\u00fccher.test": "a.*.xn--bcher-kva.test",
    "\u0430pi.test": "xn--pi-6kc.test",  # Cyrillic: another name than api.test, and shown as such
    "\u4f8b\u3048.test": "xn--r8jz45g.test",
}


@pytest.mark.parametrize(("text", "ascii_text"), U_LABELS.items(), ids=map(ascii, U_LABELS.keys()))
def test_a_name_that_is_not_ascii_is_converted_with_a_warning(text: str, ascii_text: str) -> None:
    parsed = parse_list(f"{text} # x\n".encode(), "baseline.txt")
    assert [pattern.text for pattern in parsed.patterns] == [ascii_text]
    (problem,) = parsed.problems
    assert problem.warning
    assert ascii_text in problem.message


@pytest.mark.parametrize(
    "text",
    [
        "stra\u00dfe",
        "\u212a",
        "\uff41",
        "a\u3002b\u00fc",
        "\ufb01",
        "\u00fc" * 64,
        "\u0132",
        "\u200d",
        "\u2460",
    ],
)
def test_a_label_that_would_become_another_name_is_refused(text: str) -> None:
    with pytest.raises(PatternError):
        a_labels(text)


@given(st.text(min_size=1, max_size=20))
def test_conversion_gives_the_same_name_or_an_error(text: str) -> None:
    try:
        converted = a_labels(text)
    except PatternError:
        return
    assert converted.isascii()
    for label, back in zip(text.split("."), converted.split("."), strict=True):
        assert back == label if label.isascii() else back.encode().decode("idna") == label.lower()


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode), st.booleans())
def test_any_bytes_give_a_list_in_canonical_form(data: bytes, deny: bool) -> None:
    parsed = parse_list(data, "any.txt", deny=deny)
    assert isinstance(parsed, ParsedList)
    assert parsed.entries or parsed.errors
    for pattern in parsed.patterns:
        assert parse_pattern(pattern.text) == pattern.text
        assert is_normal(pattern.text.replace("*", "x"))
    assert all(str(problem).isprintable() for problem in parsed.problems)
