"""Host names: their one normal form, the patterns of the lists, and the matcher.

Every other module compares hosts in this form only. Nothing here decodes, converts or resolves anything: a
spelling outside the form is an error, never a different name.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address

MAX_NAME = 253  # RFC 1035 2.3.4: 255 octets on the wire, which is 253 characters without the trailing dot
MAX_LABEL = 63  # RFC 1035 2.3.4
MAX_PORT = 65535
MAX_AUTHORITY = 300  # longest name, brackets, colon and port fit; anything longer is refused unread
# Addresses and authorities that are remembered as read: the same ones come again and again. Each is short, and what is
# malformed is not kept.
_REMEMBERED = 1024

_CHARACTERS = re.compile(r"[A-Za-z0-9._-]+")
# Possessive: it gives nothing back, so hostile text costs no more than its length.
_LABEL = r"[a-z0-9_]++(?:-++[a-z0-9_]++)*+"
_LABELS = re.compile(rf"{_LABEL}(?:\.{_LABEL})*+")
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_DOTTED_QUAD = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}")
_LONGEST_QUAD = len("255.255.255.255")
_IPV6_CHARACTERS = re.compile(r"[0-9A-Fa-f:.]{2,45}")
_PORT = re.compile(r"0|[1-9][0-9]{0,9}")
_DIGITS = frozenset("0123456789")


class HostError(ValueError):
    """The text is no host in any accepted spelling; `str(error)` is one sentence without the text itself."""


class PortError(HostError):
    """A well-formed authority whose port is a number above 65535; carries what was read, for the record."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__("a port is a number from 0 to 65535")
        self.host = host
        self.port = port


class PatternError(ValueError):
    """The text is not a pattern of the lists; `str(error)` says what is wrong and what to write instead."""


def normalise_host(text: str) -> str:
    """The normal form of a name or of a strict dotted quad; HostError for everything else.

    ASCII letters, digits, `-`, `_` and `.`; lower case; one trailing dot dropped; at most 253 characters,
    labels of 1 to 63. A label may start with `_` (service names) but neither start nor end with `-`. A last
    label that is a number or starts with `0x` is accepted in a strict dotted quad alone, since resolvers read
    `127.1`, `0x7f.1` or `2130706433` as addresses. No brackets and no IPv6 here: see `split_authority`.
    """
    if len(text) > MAX_NAME + 1:
        raise HostError(f"a host has at most {MAX_NAME} characters")
    if _CHARACTERS.fullmatch(text) is None:
        raise HostError('a host consists of ASCII letters, digits, "-", "_" and "." only')
    host = text.lower()
    if host[-1] == ".":
        host = host[:-1]
    fault = _fault(host)
    if fault:
        raise HostError(fault)
    return host


def is_normal(host: str) -> bool:
    """Whether the text is in the normal form already, as `normalise_host` gives it."""
    return not _fault(host)


def _fault(host: str) -> str:
    """What keeps the text from being a host in normal form; "" if nothing does."""
    if len(host) > MAX_NAME:
        return f"a host has at most {MAX_NAME} characters"
    if _LABELS.fullmatch(host) is None:
        if "" in host.split("."):
            return "a host has no empty label"
        return 'a label of a host neither starts nor ends with "-"'
    if len(host) > MAX_LABEL and max(map(len, host.split("."))) > MAX_LABEL:
        return f"a label of a host has at most {MAX_LABEL} characters"
    last = host[host.rfind(".") + 1 :]
    numeric = last[0] in _DIGITS and (last.isdecimal() or last.startswith("0x"))
    if numeric and _DOTTED_QUAD.fullmatch(host) is None:
        return "an IPv4 address is written as four decimal numbers without leading zeros"
    return ""


def parse_literal(host: str) -> IPv4Address | IPv6Address | None:
    """The address that the host is: a dotted quad in normal form, or IPv6 text without brackets and zone.

    None for a name, and for anything that is not exactly one of the two (an IPv6 text with a zone, say).
    """
    if ":" in host:
        return _parse_ipv6(host)
    if not host or host[0] not in _DIGITS or host[-1] not in _DIGITS or len(host) > _LONGEST_QUAD:
        return None
    return _parse_quad(host)


@lru_cache(_REMEMBERED)
def _parse_quad(text: str) -> IPv4Address | None:
    return IPv4Address(text) if _DOTTED_QUAD.fullmatch(text) else None


def _parse_ipv6(text: str) -> IPv6Address | None:
    if _IPV6_CHARACTERS.fullmatch(text) is None:
        return None
    try:
        return IPv6Address(text)
    except AddressValueError:
        return None


@lru_cache(_REMEMBERED)
def literal_text(address: IPv4Address | IPv6Address) -> str:
    """The one spelling of an address (RFC 5952), the same for every version of the interpreter."""
    if isinstance(address, IPv6Address) and int(address) >> 32 == 0xFFFF:
        return f"::ffff:{IPv4Address(int(address) & 0xFFFFFFFF)}"
    return address.compressed


@lru_cache(_REMEMBERED)
def split_authority(text: str, default_port: int | None = None) -> tuple[str, int]:
    """Host and port of `host:port` or `[v6]:port`: a host in normal form (IPv6 compressed, without brackets).

    Without a port the default is taken, or HostError raised where there is none. A port is ASCII digits
    without sign, space or leading zero; HostError for other text, PortError (a HostError) for a number above
    65535.
    """
    if len(text) > MAX_AUTHORITY:
        raise HostError(f"a host with its port has at most {MAX_AUTHORITY} characters")
    if text.startswith("["):
        inner, closing, rest = text[1:].partition("]")
        address = _parse_ipv6(inner) if closing else None
        if address is None or (rest and rest[0] != ":"):
            raise HostError("brackets hold an IPv6 address without a zone, and only a port follows them")
        host, separator, port = literal_text(address), rest[:1], rest[1:]
    else:
        name, separator, port = text.partition(":")
        if ":" in port:
            raise HostError("an IPv6 address is written in brackets")
        host = normalise_host(name)
    if separator:
        return host, _parse_port(host, port)
    if default_port is None:
        raise HostError("the port is missing")
    return host, default_port


def _parse_port(host: str, text: str) -> int:
    if _PORT.fullmatch(text) is None:
        raise HostError("a port consists of ASCII digits only, without a leading zero")
    port = int(text)
    if port > MAX_PORT:
        raise PortError(host, port)
    return port


def parse_pattern(text: str) -> str:
    """The canonical text of a pattern; PatternError says what to write instead.

    An exact host; `*.x.y`, any name below x.y at any depth, never x.y itself; `a.*.x.y`, exactly one label in
    the star's place. One star at most, as a whole label, with at least two labels after it.
    """
    fault = _pattern_fault(text) if "*" in text else ""
    normal = ""
    try:
        normal = normalise_host(text.replace("*", "x"))
    except HostError as error:
        fault = fault or _pattern_fault(text) or f"is not a host: {error}"
    if fault:
        raise PatternError(f"{_shown(text)} {fault}")
    if "*" not in text:
        if parse_literal(normal) is not None:
            raise PatternError(f"{_shown(text)} is an address: write it with its port under egress.addresses")
        return normal
    labels = normal.split(".")
    star = text.split(".").index("*")
    if len(labels) - star < 3:
        raise PatternError(
            f"{_shown(text)} covers a whole top-level domain: "
            'write at least two labels after the star, "*.example.com"'
        )
    labels[star] = "*"
    return ".".join(labels)


# What is wrong with texts that people do write, first match wins: (test, what to write instead).
_PATTERN_FAULTS = (
    (lambda text: not text, 'is empty: write a host such as "api.example.com"'),
    (lambda text: "://" in text, 'is a URL: write its host alone, "api.example.com"'),
    (lambda text: "/" in text, 'holds a "/": write the host alone, without path or prefix length'),
    (lambda text: "@" in text, 'holds a "@": write the host alone, without a user'),
    (
        lambda text: _parse_ipv6(text.strip("[]")) is not None,
        "is an address: write it with its port under egress.addresses",
    ),
    (
        lambda text: ":" in text,
        "holds a port: write the host alone; ports stand under egress.ports or egress.raw",
    ),
    (lambda text: not text.isascii(), 'is not ASCII: write its labels in their "xn--" form'),
    (
        lambda text: text.startswith("."),
        'starts with a dot: write "*.example.com" for everything below example.com',
    ),
    (lambda text: text in {"*", "*."}, "matches every host: name the hosts, one entry each"),
    (lambda text: text.count("*") > 1, 'has more than one star: write exactly one, "*.example.com"'),
    (
        lambda text: "*" in text and "*" not in text.split("."),
        'has a star inside a label: a star stands for whole labels, "*.example.com" or "a.*.example.com"',
    ),
    (
        lambda text: text.rstrip(".").endswith("*"),
        'ends with a star: a star stands before a domain, "*.example.com" or "a.*.example.com"',
    ),
)


def _pattern_fault(text: str) -> str:
    return next((instead for wrong, instead in _PATTERN_FAULTS if wrong(text)), "")


def _shown(text: str) -> str:
    """The text in quotes, ASCII only, cut to a length that fits a message."""
    return ascii(text if len(text) <= 80 else text[:77] + "...")


@dataclass(frozen=True, slots=True)
class HostPattern:
    """An entry of a list: `text` is canonical (`parse_pattern`), `rule` is its place, "baseline.txt:12"."""

    text: str
    rule: str


class HostMatcher:
    """Finds the entry that covers a host. Immutable; a match takes no longer with more entries.

    Exact entries are found by hash; entries with a star by hash of the text after it, tried for the host's
    suffixes from the shortest to the longest that any entry has. An exact entry wins, then the longest text
    after the star, then one label before any depth; of equal texts the first.

    The star of `a.*.x.y` does not stand for a storage service's label (`s3`, `s3-...`): it is meant for a
    region, and `bedrock.s3.amazonaws.com` is somebody's bucket. With `storage_labels` (deny lists) it does.
    """

    __slots__ = ("_exact", "_levels", "_middle", "_size", "_storage_labels", "_wild")

    def __init__(self, patterns: Iterable[HostPattern] = (), *, storage_labels: bool = False) -> None:
        """Takes patterns of canonical text; PatternError for any other."""
        self._storage_labels = storage_labels
        self._exact: dict[str, HostPattern] = {}
        self._wild: dict[str, HostPattern] = {}
        self._middle: dict[str, dict[str, HostPattern]] = {}
        self._add(patterns)

    def extended(self, patterns: Iterable[HostPattern]) -> "HostMatcher":
        """A matcher of these entries and more (a session's own); the entries of this one come first."""
        other = HostMatcher(storage_labels=self._storage_labels)
        other._exact = self._exact.copy()
        other._wild = self._wild.copy()
        other._middle = {tail: heads.copy() for tail, heads in self._middle.items()}
        other._add(patterns)
        return other

    def _add(self, patterns: Iterable[HostPattern]) -> None:
        for pattern in patterns:
            if parse_pattern(pattern.text) != pattern.text:
                raise PatternError(f"{_shown(pattern.text)} is not in canonical form")
            head, star, tail = pattern.text.partition("*.")
            if not star:
                self._exact.setdefault(pattern.text, pattern)
            elif head:
                self._middle.setdefault(tail, {}).setdefault(head[:-1], pattern)
            else:
                self._wild.setdefault(tail, pattern)
        tails = (*self._wild, *self._middle)
        # The shortest tail has two labels, so levels count from there.
        self._levels = range(max((tail.count(".") for tail in tails), default=0))
        self._size = len(self._exact) + len(self._wild) + sum(map(len, self._middle.values()))

    def match(self, host: str) -> HostPattern | None:
        """The entry that covers the host (in normal form), or None."""
        best = self._exact.get(host)
        if best is not None:
            return best
        dot = host.rfind(".")
        for _ in self._levels:
            dot = host.rfind(".", 0, dot)
            if dot <= 0:
                break
            tail = host[dot + 1 :]
            found = self._wild.get(tail)
            if tail in self._middle:
                found = self._one_label(host, dot, tail) or found
            if found is not None:
                best = found
        return best

    def _one_label(self, host: str, dot: int, tail: str) -> HostPattern | None:
        before = host.rfind(".", 0, dot)
        found = self._middle[tail].get(host[:before]) if before > 0 else None
        if found is None or self._storage_labels:
            return found
        label = host[before + 1 : dot]
        return None if label == "s3" or label.startswith("s3-") else found

    def __len__(self) -> int:
        return self._size
