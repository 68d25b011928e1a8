"""The list files: one entry a line, its reason after `#`. Parses bytes; whoever reads the file stands
outside.

    api.example.com  # what it is for  group=llm risk=X2
    # a line that starts with '#' is a comment; the next one claims how many entries the group has
    # count llm 12

Every fault is reported at once, each with its line and what to write instead. A list with an error must not
be used: the entries that could be read are returned for reporting, not for enforcement.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from types import MappingProxyType

from gateway.policy.addresses import Network
from gateway.policy.hosts import MAX_LABEL, HostMatcher, HostPattern, PatternError, parse_pattern
from gateway.policy.problem import Problem

DENY_LIST = "deny.txt"
MAX_FILE = 1 << 20  # bytes; some 15,000 entries with their reasons
MAX_LINE = 1 << 10  # bytes; the longest host and a paragraph of reason
MAX_PROBLEMS = 1000  # of one file; a file of the wrong kind would otherwise give one per line

_BOM = b"\xef\xbb\xbf"
_COUNT = re.compile(r"#\s*count\s+(\S+)\s+(\S+)\s*")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,5}")
_MARK = re.compile(r"(group|risk|raw)=(\S*)")
_GROUP = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_NETWORK = re.compile(r"(?:[0-9]+\.[0-9.]*[0-9]|[0-9A-Fa-f]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*)(?:/[0-9]{1,3})?")
_RISKS = frozenset({"X1", "X2", "X3"})


@dataclass(frozen=True, slots=True)
class ListEntry:
    """One line: canonical pattern or network, line number from 1, reason, group, and marks.

    `risk`: "" download only, "X1" narrow write access, "X2" upload with any account, "X3" anybody may become
    a tenant. `raw`: the line says `raw=yes`; something other than TLS or HTTP is spoken there.
    """

    pattern: str
    line: int
    why: str = ""
    group: str = ""
    risk: str = ""
    raw: bool = False


@dataclass(frozen=True, slots=True)
class ParsedList:
    """What a list file says. `counts`: entries per group as its head claims; `networks`: with their rule."""

    name: str
    patterns: tuple[HostPattern, ...] = ()
    entries: tuple[ListEntry, ...] = ()
    networks: tuple[tuple[Network, str], ...] = ()
    counts: Mapping[str, int] = MappingProxyType({})
    problems: tuple[Problem, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that forbid the use of the list."""
        return tuple(problem for problem in self.problems if not problem.warning)


class _LineError(ValueError):
    """A fault of the line at hand."""


def parse_list(data: bytes, name: str, *, deny: bool | None = None) -> ParsedList:
    """Reads a list file. `name` stands in rules and problems ("baseline.txt"); nothing is raised.

    `deny`: it is a deny list, which may hold addresses and networks; by default if it is called deny.txt.
    """
    lines = _split(data, name)
    if isinstance(lines, Problem):
        return ParsedList(name, problems=(lines,))
    reader = _Reader(name, name.rpartition("/")[2] == DENY_LIST if deny is None else deny)
    for number, line in enumerate(lines, start=1):
        try:
            reader.read(number, line)
        except (_LineError, PatternError) as error:
            reader.report(number, str(error))
    return reader.finish()


def _split(data: bytes, name: str) -> list[str] | Problem:
    """The lines of the file, or what forbids to read any."""
    if len(data) > MAX_FILE:
        return Problem(name, 0, f"the file has more than {MAX_FILE} bytes: split it or shorten the reasons")
    data = data.removeprefix(_BOM)
    nul = data.find(b"\0")
    if nul >= 0:
        return Problem(name, data.count(b"\n", 0, nul) + 1, "a NUL byte: this is not a text file in UTF-8")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return Problem(name, line, "a byte that is not UTF-8: save the file as UTF-8")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


class _Reader:
    """Collects entries and problems of one file, line by line. Changes; lives for one `parse_list`."""

    def __init__(self, name: str, deny: bool) -> None:
        self._name = name
        self._deny = deny
        self._patterns: list[HostPattern] = []
        self._networks: list[tuple[Network, str]] = []
        self._entries: list[ListEntry] = []
        self._first: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._problems: list[Problem] = []
        self._unreadable = 0

    def report(self, line: int, message: str, warning: bool = False) -> None:
        """Notes a fault; `line` 0 is the file as a whole."""
        self._unreadable += not warning
        self._problems.append(Problem(self._name, line, message, warning))

    def read(self, number: int, line: str) -> None:
        """Takes one line; _LineError or PatternError says what is wrong with it."""
        if len(line) > MAX_LINE or len(line.encode()) > MAX_LINE:
            raise _LineError(f"the line has more than {MAX_LINE} bytes: shorten its reason")
        if not line.replace("\t", " ").isprintable():
            raise _LineError("a control or invisible character: remove it")
        entry, _, comment = line.partition("#")
        text = entry.strip()
        if text:
            self._add(number, text, comment)
        elif "#" in line:
            self._read_comment(line.strip())
        else:
            raise _LineError('an empty line: remove it, or start it with "#"')

    def _read_comment(self, line: str) -> None:
        found = _COUNT.fullmatch(line)
        if found is None:
            return
        group, number = found.groups()
        if _GROUP.fullmatch(group) is None or _NUMBER.fullmatch(number) is None:
            raise _LineError('a count that cannot be read: write "# count GROUP NUMBER"')
        if group in self._counts:
            raise _LineError(f"a second count for {group}: keep one")
        self._counts[group] = int(number)

    def _add(self, number: int, text: str, comment: str) -> None:
        if len(text.split()) > 1:
            raise _LineError('more than one word before "#": write one entry a line, then "#" and its reason')
        why, marks = _split_comment(comment)
        rule = f"{self._name}:{number}"
        network = _parse_network(text) if _NETWORK.fullmatch(text) else None
        if network is None:
            canonical = parse_pattern(self._to_ascii(number, text))
        elif self._deny:
            canonical = str(network)
        else:
            raise _LineError(
                "an address: an allowlist holds names; write it with its port under egress.addresses"
            )
        first = self._first.setdefault(canonical, number)
        if first != number:
            raise _LineError(f"{canonical} stands in line {first} already: remove one of the two")
        if network is None:
            self._patterns.append(HostPattern(canonical, rule))
        else:
            self._networks.append((network, rule))
        self._entries.append(
            ListEntry(canonical, number, why, marks.get("group", ""), marks.get("risk", ""), "raw" in marks)
        )

    def _to_ascii(self, number: int, text: str) -> str:
        if text.isascii():
            return text
        converted = a_labels(text)
        self.report(number, f"a name that is not ASCII is read as {converted}: write that", warning=True)
        return converted

    def finish(self) -> ParsedList:
        """Checks what only the whole file shows, and gives the result."""
        if not self._entries and not self._unreadable:
            self.report(0, "the list has no entry: write one, or remove the file from use")
        bare = [entry.line for entry in self._entries if not entry.why]
        if bare:
            message = f'{len(bare)} without a reason, this first: write "# why" after each entry'
            self.report(bare[0], message, warning=True)
        if self._deny:
            self._check_apexes()
        problems = sorted(self._problems, key=lambda problem: problem.line)
        if len(problems) > MAX_PROBLEMS:
            rest = problems[MAX_PROBLEMS:]
            warning = all(problem.warning for problem in rest)
            problems[MAX_PROBLEMS:] = [Problem(self._name, 0, f"and {len(rest)} more problems", warning)]
        return ParsedList(
            self._name,
            tuple(self._patterns),
            tuple(self._entries),
            tuple(self._networks),
            MappingProxyType(self._counts),
            tuple(problems),
        )

    def _check_apexes(self) -> None:
        matcher = HostMatcher(self._patterns, storage_labels=True)
        for entry in self._entries:
            apex = entry.pattern.removeprefix("*.")
            if apex != entry.pattern and matcher.match(apex) is None:
                self.report(entry.line, f"{entry.pattern} leaves {apex} out: add a line for it", warning=True)


def _split_comment(comment: str) -> tuple[str, dict[str, str]]:
    """The reason, and the marks (`group=`, `risk=`, `raw=`) at its end."""
    words = comment.split()
    marks: dict[str, str] = {}
    while words and (found := _MARK.fullmatch(words[-1])):
        words.pop()
        key, value = found.groups()
        if key in marks:
            raise _LineError(f"two marks {key}=: keep one")
        if key == "group" and _GROUP.fullmatch(value) is None:
            raise _LineError("a group is lower-case letters, digits and single hyphens: group=NAME")
        if key == "risk" and value not in _RISKS:
            raise _LineError("a risk is X1, X2 or X3, or left out")
        if key == "raw" and value != "yes":
            raise _LineError("the mark raw is written raw=yes, or left out")
        marks[key] = value
    return " ".join(words), marks


def _parse_network(text: str) -> Network:
    try:
        return IPv6Network(text) if ":" in text else IPv4Network(text)
    except ValueError:
        raise _LineError(
            "an address or network that cannot be read: "
            'write "192.0.2.1", "192.0.2.0/24" or "2001:db8::/32", no bits beyond the prefix'
        ) from None


def a_labels(text: str) -> str:
    """A pattern with its labels that are not ASCII in `xn--` form; PatternError where that changes a name.

    The standard library's codec is IDNA 2003, which maps many characters to others or drops them (full-width
    letters, sharp s, ideographic dots). A label is taken only if its `xn--` form decodes to it, lower-cased.
    """
    return ".".join(label if label.isascii() else _a_label(label) for label in text.split("."))


def _a_label(label: str) -> str:
    lowered = label.lower()
    if len(lowered) <= MAX_LABEL:  # the codec's time grows with the square of the length
        try:
            encoded = lowered.encode("idna")
            # Lower case alone may be ASCII (the Kelvin sign), and what is ASCII is no `xn--` form.
            if encoded.startswith(b"xn--") and encoded.decode("idna") == lowered:
                return encoded.decode("ascii")
        except UnicodeError:
            pass
    raise PatternError(f'{label[:MAX_LABEL]!a} has no unique "xn--" form: write the name as the DNS has it')
