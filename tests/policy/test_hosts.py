"""Host names: the normal form, authorities, patterns, and the matcher against a naive one."""

import string
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.hosts import (
    HostError,
    HostMatcher,
    HostPattern,
    PatternError,
    PortError,
    is_normal,
    literal_text,
    normalise_host,
    parse_literal,
    parse_pattern,
    split_authority,
)

LONGEST = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])  # 253 characters

NORMAL = {
    "plain": ("api.allowed.test", "api.allowed.test"),
    "upper case": ("API.Allowed.TEST", "api.allowed.test"),
    "one trailing dot": ("api.allowed.test.", "api.allowed.test"),
    "upper case and a dot": ("BAD.wild.test.", "bad.wild.test"),
    "one label": ("localhost", "localhost"),
    "underscore first": ("_dmarc.wild.test", "_dmarc.wild.test"),
    "underscore inside and last": ("a_b.c_.test", "a_b.c_.test"),
    "hyphens inside": ("r1---sn-4g5e.wild.test", "r1---sn-4g5e.wild.test"),
    "A-label, valid or not": ("xn--a.xn--bcher-kva.test", "xn--a.xn--bcher-kva.test"),
    "digits in front of a name": ("1.2.3.4.test", "1.2.3.4.test"),
    "last label that only starts with digits": ("a.1e5", "a.1e5"),
    "dotted quad": ("127.0.0.1", "127.0.0.1"),
    "dotted quad with a dot": ("10.0.0.255.", "10.0.0.255"),
    "longest name": (LONGEST, LONGEST),
    "longest name and a dot": (LONGEST + ".", LONGEST),
    "longest label": ("a" * 63 + ".test", "a" * 63 + ".test"),
}

MALFORMED = {
    "empty": "",
    "a dot": ".",
    "two trailing dots": "bad.wild.test..",
    "leading dot": ".bad.wild.test",
    "empty label": "a..wild.test",
    "brackets": "[bad.wild.test]",
    "two brackets": "[[bad.wild.test]]",
    "percent escape of a dot": "api%2eallowed%2etest",
    "userinfo": "user:pw@api.allowed.test@evil.test",
    "port": "api.allowed.test:443",
    "NUL after an address": "127.0.0.1\0.wild.test",
    "NUL after a name": "evil.test\0.wild.test",
    "Cyrillic a": "\u0430pi.allowed.test",
    "ideographic dots": "api\u3002allowed\u3002test",
    "full-width letters": "\uff21\uff30\uff29.allowed.test",
    "Kelvin sign, lower case k": "\u212a.allowed.test",
    "dotted capital I": "\u0130.allowed.test",
    "soft hyphen": "api.al\u00adlowed.test",
    "zero-width joiner": "api.al\u200dlowed.test",
    "full-width digits": "\uff11\uff12\uff17.0.0.1",
    "ideographic dots in an address": "127\u30020\u30020\u30021",
    "circled digits": "\u2460\u2461\u2466.0.0.1",
    "Arabic digits": "\u0661\u0662\u0667.0.0.1",
    "short address": "127.1",
    "hexadecimal address": "0x7f.1",
    "octal address": "0177.0.0.1",
    "one number": "2130706433",
    "one octal number": "017700000001",
    "one hexadecimal number": "0x7f000001",
    "zero": "0",
    "hexadecimal last label": "127.0.0.0x1",
    "bare 0x as last label": "a.0x",
    "five numbers": "1.2.3.4.5",
    "number above 255": "256.0.0.1",
    "leading zero": "127.0.0.01",
    "name with a numeric last label": "wild.test.1",
    "IPv6": "::1",
    "zone": "fe80::1%eth0",
    "zone with an allowed name": "::ffff:1.2.3.4%x.wild.test",
    "leading hyphen": "-a.wild.test",
    "trailing hyphen": "a-.wild.test",
    "leading hyphen in a later label": "a.-wild.test",
    "trailing hyphen at the end": "a.test-",
    "a star": "*.wild.test",
    "longest name and one more": LONGEST + "d",
    "longest name, one more and a dot": LONGEST + "d.",
    "label of 64": "a" * 64 + ".wild.test",
    "64 KiB": "a." * 32768 + "test",
    "1 MiB of A-labels": "xn--a." * 174763,
}


@pytest.mark.parametrize(("text", "host"), NORMAL.values(), ids=NORMAL.keys())
def test_normal_form(text: str, host: str) -> None:
    assert normalise_host(text) == host
    assert is_normal(host)
    assert is_normal(text) is (text == host)


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed(text: str) -> None:
    with pytest.raises(HostError) as caught:
        normalise_host(text)
    assert str(caught.value).isascii()
    assert len(str(caught.value)) < 120
    assert not is_normal(text)


@pytest.mark.parametrize("character", [*map(chr, range(256)), "\u2028", "\u202e", "\ud800"], ids=ascii)
def test_the_character_set(character: str) -> None:
    accepted = character in string.ascii_letters + string.digits + "-_"
    try:
        normalise_host(f"a{character}b.test")
    except HostError:
        assert not accepted
    else:
        assert accepted or character == "."


@given(st.text(max_size=80) | st.text(alphabet="aA0x-_.%*\0", max_size=20))
def test_what_is_accepted_is_in_the_set_and_stays(text: str) -> None:
    try:
        host = normalise_host(text)
    except HostError:
        return
    assert set(text) <= set(string.ascii_letters + string.digits + "-_.")
    assert host == text.lower().removesuffix(".")
    assert normalise_host(host) == host
    assert is_normal(host)
    if not host.endswith("."):
        assert normalise_host(host + ".") == host


@given(st.text(max_size=20), st.characters(), st.integers(0, 20))
def test_no_character_outside_of_the_set_gets_in(prefix: str, character: str, where: int) -> None:
    text = "api.allowed.test"
    text = text[:where] + character + text[where:]
    if character in string.ascii_letters + string.digits + "-_.":
        return
    with pytest.raises(HostError):
        normalise_host(text)
    with pytest.raises(HostError):
        normalise_host(prefix + character)


LITERALS = {
    "127.0.0.1": IPv4Address("127.0.0.1"),
    "255.255.255.255": IPv4Address("255.255.255.255"),
    "::1": IPv6Address("::1"),
    "FD00::5": IPv6Address("fd00::5"),
    "0:0:0:0:0:ffff:a9fe:a9fe": IPv6Address("::ffff:169.254.169.254"),
    "::ffff:127.0.0.1": IPv6Address("::ffff:127.0.0.1"),
    "api.allowed.test": None,
    "1a.test": None,
    "1.test1": None,
    "127.1": None,
    "127.0.0.01": None,
    "2130706433": None,
    "": None,
    ":": None,
    "::1%eth0": None,
    "[::1]": None,
    "::ffff:127.0.0.01": None,
    "::\u0661": None,
    "1:2:3": None,
    "::" + "0" * 50: None,
}


@pytest.mark.parametrize(("text", "address"), LITERALS.items(), ids=LITERALS.keys())
def test_literals(text: str, address: IPv4Address | IPv6Address | None) -> None:
    assert parse_literal(text) == address


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("::ffff:7f00:1", "::ffff:127.0.0.1"),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1"),
        ("64:FF9B::a9fe:a9fe", "64:ff9b::a9fe:a9fe"),
        ("2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
    ],
)
def test_one_spelling_of_an_address(text: str, shown: str) -> None:
    address = parse_literal(text)
    assert address is not None
    assert literal_text(address) == shown
    assert parse_literal(shown) == address


AUTHORITIES = {
    "name": ("api.allowed.test:443", ("api.allowed.test", 443)),
    "normalised": ("API.allowed.test.:80", ("api.allowed.test", 80)),
    "default": ("api.allowed.test", ("api.allowed.test", 8080)),
    "quad": ("10.1.2.3:8443", ("10.1.2.3", 8443)),
    "IPv6": ("[FD00:0::5]:443", ("fd00::5", 443)),
    "IPv6, default": ("[::1]", ("::1", 8080)),
    "mapped": ("[::ffff:7f00:1]:443", ("::ffff:127.0.0.1", 443)),
    "lowest port": ("a.test:0", ("a.test", 0)),
    "highest port": ("a.test:65535", ("a.test", 65535)),
}

BAD_AUTHORITIES = {
    "empty": "",
    "empty port": "a.test:",
    "port alone": ":443",
    "negative port": "a.test:-1",
    "signed port": "a.test:+443",
    "letter after the port": "a.test:443x",
    "space before the port": "a.test: 443",
    "space after the port": "a.test:443 ",
    "leading zero": "a.test:0443",
    "two zeros": "a.test:00",
    "Arabic digits": "a.test:\u0664\u0664\u0663",
    "superscript digit": "a.test:44\u00b3",
    "underscore in the port": "a.test:4_43",
    "hexadecimal port": "a.test:0x50",
    "two ports": "a.test:443:443",
    "line end after the port": "a.test:443\n",
    "IPv6 without brackets": "::1:443",
    "name in brackets": "[bad.wild.test]:443",
    "quad in brackets": "[127.0.0.1]:443",
    "two brackets": "[[::1]]:443",
    "open bracket": "[::1:443",
    "text behind the bracket": "[::1]x:443",
    "empty brackets": "[]:443",
    "empty port behind brackets": "[::1]:",
    "zone": "[fe80::1%eth0]:443",
    "zone with a name": "[::ffff:1.2.3.4%x.wild.test]:443",
    "userinfo": "user:pw@api.allowed.test@evil.test:443",
    "URL": "http://api.allowed.test:443/",
    "slash": "/",
    "star": "*",
    "space inside": "a b:443",
    "endless port": "a.test:" + "9" * 11,
    "endless text": "a" * 70000 + ":443",
}


@pytest.mark.parametrize(("text", "expected"), AUTHORITIES.values(), ids=AUTHORITIES.keys())
def test_authority(text: str, expected: tuple[str, int]) -> None:
    assert split_authority(text, 8080) == expected


@pytest.mark.parametrize("text", BAD_AUTHORITIES.values(), ids=BAD_AUTHORITIES.keys())
def test_bad_authority(text: str) -> None:
    with pytest.raises(HostError) as caught:
        split_authority(text, 443)
    assert not isinstance(caught.value, PortError)


@pytest.mark.parametrize("text", ["a.test", "[::1]"])
def test_a_missing_port_without_a_default(text: str) -> None:
    with pytest.raises(HostError):
        split_authority(text)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("A.test:65536", "a.test", 65536),
        ("[::1]:65536", "::1", 65536),
        ("a.test:9999999999", "a.test", 9999999999),
    ],
)
def test_a_port_beyond_the_range_is_told_apart(text: str, host: str, port: int) -> None:
    with pytest.raises(PortError) as caught:
        split_authority(text)
    assert (caught.value.host, caught.value.port) == (host, port)


PATTERNS = {
    "api.allowed.test": "api.allowed.test",
    "API.Allowed.test.": "api.allowed.test",
    "localhost": "localhost",
    "*.wild.test": "*.wild.test",
    "*.WILD.test.": "*.wild.test",
    "svc.*.multi.test": "svc.*.multi.test",
    "a.b.*.multi.test": "a.b.*.multi.test",
    "_x.*.multi.test": "_x.*.multi.test",
    "xn--bcher-kva.test": "xn--bcher-kva.test",
}

# Text and a word of what the error says to do.
BAD_PATTERNS = {
    "": "write a host",
    "*": "name the hosts",
    "*.": "name the hosts",
    "*.com": "two labels",
    "*.com.": "two labels",
    "svc.*.com": "two labels",
    "a*b.test": "whole labels",
    "a*.wild.test": "whole labels",
    "*wild.test": "whole labels",
    "*.*.test": "exactly one",
    "*.*.wild.test": "exactly one",
    "a.*.*.wild.test": "exactly one",
    "**.wild.test": "exactly one",
    "test.*": "ends with a star",
    "a.test.*.": "ends with a star",
    "http://x": "host alone",
    "https://api.allowed.test/": "host alone",
    "x/y": "host alone",
    "10.0.0.0/8": "host alone",
    "x:443": "egress.ports",
    "user@x.test": "without a user",
    ".wild.test": '"*.example.com"',
    "127.0.0.1": "egress.addresses",
    "::1": "egress.addresses",
    "[::1]": "egress.addresses",
    "127.1": "not a host",
    "*.0.0.1": "not a host",
    "a b.test": "not a host",
    " a.test": "not a host",
    "a.test#": "not a host",
    "-a.test": "not a host",
    "*..test.x": "not a host",
    "\u0430.test": "xn--",
    "a" * 64 + ".test": "not a host",
    "*." + LONGEST: "not a host",
}


@pytest.mark.parametrize(("text", "canonical"), PATTERNS.items(), ids=PATTERNS.keys())
def test_pattern(text: str, canonical: str) -> None:
    assert parse_pattern(text) == canonical
    assert parse_pattern(canonical) == canonical


@pytest.mark.parametrize(("text", "instead"), BAD_PATTERNS.items(), ids=map(ascii, BAD_PATTERNS.keys()))
def test_bad_pattern(text: str, instead: str) -> None:
    with pytest.raises(PatternError) as caught:
        parse_pattern(text)
    assert instead in str(caught.value)
    assert str(caught.value).isascii()
    assert len(str(caught.value)) < 250


def patterns(*texts: str) -> list[HostPattern]:
    """Patterns with rules that count from 1."""
    return [HostPattern(text, f"list.txt:{line}") for line, text in enumerate(texts, start=1)]


LISTED = patterns("api.allowed.test", "*.wild.test", "svc.*.multi.test", "bedrock.*.amazonaws.com")

# Host and the line that covers it, 0 for none.
MATCHES = {
    "api.allowed.test": 1,
    "api.allowed.test.evil.test": 0,
    "evilapi.allowed.test": 0,
    "a.api.allowed.test": 0,
    "allowed.test": 0,
    "wild.test": 0,
    "a.wild.test": 2,
    "a.b.c.wild.test": 2,
    "_dmarc.wild.test": 2,
    "notwild.test": 0,
    "evilwild.test": 0,
    "x.wild.test.evil.test": 0,
    "svc.a.multi.test": 3,
    "svc.a.b.multi.test": 0,
    "svc.multi.test": 0,
    "x.svc.a.multi.test": 0,
    "svcx.a.multi.test": 0,
    "other.a.multi.test": 0,
    "a.multi.test": 0,
    "bedrock.us-east-1.amazonaws.com": 4,
    "bedrock.s3.amazonaws.com": 0,
    "bedrock.s3-us-west-2.amazonaws.com": 0,
    "bedrock.s3-accelerate.amazonaws.com": 0,
    "bedrock.s3-website-us-east-1.amazonaws.com": 0,
    "bedrock.s3.us-east-1.amazonaws.com": 0,
    "bedrock.s4.amazonaws.com": 4,
    "test": 0,
    "com": 0,
    "localhost": 0,
    "xn--pi-6kc.allowed.test": 0,
}


@pytest.mark.parametrize(("host", "line"), MATCHES.items(), ids=MATCHES.keys())
def test_match(host: str, line: int) -> None:
    found = HostMatcher(LISTED).match(host)
    assert (found.rule if found else "") == (f"list.txt:{line}" if line else "")


@pytest.mark.parametrize(("host", "line"), MATCHES.items(), ids=MATCHES.keys())
def test_match_among_thousands(host: str, line: int) -> None:
    more = [HostPattern(f"host{number}.other{number % 7}.test", "more") for number in range(3000)]
    more += [HostPattern(f"*.zone{number}.deep.er.test", "more") for number in range(1000)]
    more += [HostPattern(f"svc.*.zone{number}.test", "more") for number in range(1000)]
    matcher = HostMatcher([*more, *LISTED])
    assert len(matcher) == 5004
    found = matcher.match(host)
    assert (found.rule if found else "") == (f"list.txt:{line}" if line else "")


@pytest.mark.parametrize(
    ("texts", "host", "winner"),
    [
        (("*.b.test", "a.b.test"), "a.b.test", "a.b.test"),
        (("*.b.test", "*.a.b.test"), "x.a.b.test", "*.a.b.test"),
        (("*.b.test", "x.*.b.test"), "x.a.b.test", "x.*.b.test"),
        (("*.a.b.test", "x.*.b.test"), "x.a.b.test", "*.a.b.test"),
        (("*.b.test", "x.*.b.test"), "y.a.b.test", "*.b.test"),
        (("*.b.test", "x.*.b.test"), "a.b.test", "*.b.test"),
        (("*.test.c", "x.*.test.c"), "x.s3.test.c", "*.test.c"),
    ],
)
def test_the_closest_entry_wins_in_any_order(texts: tuple[str, ...], host: str, winner: str) -> None:
    for order in (texts, texts[::-1]):
        found = HostMatcher(patterns(*order)).match(host)
        assert found is not None
        assert found.text == winner


def test_of_equal_entries_the_first_wins() -> None:
    for text, host in (("a.b.test", "a.b.test"), ("*.b.test", "a.b.test"), ("a.*.b.test", "a.x.b.test")):
        matcher = HostMatcher([HostPattern(text, "first"), HostPattern(text, "second")])
        assert matcher.match(host) == HostPattern(text, "first")
        assert len(matcher) == 1


def test_an_empty_matcher_matches_nothing() -> None:
    matcher = HostMatcher()
    assert len(matcher) == 0
    assert [matcher.match(host) for host in ("a.b.test", "test", "", ".", "*")] == [None] * 5


@pytest.mark.parametrize("text", ["API.test", "a.test.", "*.com", "*", "", "a*b.test", "127.0.0.1"])
def test_a_matcher_takes_canonical_patterns_only(text: str) -> None:
    with pytest.raises(PatternError):
        HostMatcher([HostPattern(text, "list.txt:1")])


def test_a_host_with_an_empty_first_label_is_below_nothing() -> None:
    assert HostMatcher(LISTED).match(".wild.test") is None


def test_storage_labels_count_in_a_deny_list() -> None:
    matcher = HostMatcher(LISTED, storage_labels=True)
    assert matcher.match("bedrock.s3.amazonaws.com") == LISTED[3]
    assert matcher.extended(patterns("x.test")).match("bedrock.s3-eu.amazonaws.com") == LISTED[3]


def test_extending_leaves_the_first_matcher_alone() -> None:
    first = HostMatcher(LISTED)
    more = ("new.test", "*.new.test", "x.*.multi.test", "api.allowed.test")
    second = first.extended([HostPattern(text, "--allow") for text in more])
    hosts = ("new.test", "a.b.new.test", "x.a.multi.test", "svc.a.multi.test", "api.allowed.test")
    rules = [found.rule for found in map(second.match, hosts) if found]
    assert rules == ["--allow", "--allow", "--allow", "list.txt:3", "list.txt:1"]
    assert [first.match(host) is not None for host in hosts] == [False, False, False, True, True]
    assert (len(first), len(second)) == (4, 7)


# Few labels, so that generated patterns and hosts meet often; one is a storage label.
LABELS = st.sampled_from(["a", "b", "s3", "s3-x", "test"])
NAMES = st.lists(LABELS, min_size=1, max_size=5).map(".".join)
TAILS = st.lists(LABELS, min_size=2, max_size=4)
ENTRIES = st.one_of(
    NAMES,
    TAILS.map(lambda tail: ".".join(["*", *tail])),
    st.tuples(st.lists(LABELS, min_size=1, max_size=2), TAILS).map(
        lambda parts: ".".join([*parts[0], "*", *parts[1]])
    ),
)


def naive_match(pattern: str, host: str, storage_labels: bool) -> bool:
    """What the grammar says, label by label."""
    wanted, labels = pattern.split("."), host.split(".")
    if "*" not in wanted:
        return wanted == labels
    star = wanted.index("*")
    if star == 0:
        return len(labels) >= len(wanted) and labels[-len(wanted) + 1 :] == wanted[1:]
    if len(labels) != len(wanted):
        return False
    storage = labels[star] == "s3" or labels[star].startswith("s3-")
    if storage and not storage_labels:
        return False
    return all(one in ("*", label) for one, label in zip(wanted, labels, strict=True))


@given(st.lists(ENTRIES, max_size=12), NAMES, st.booleans(), st.integers(0, 12))
def test_the_matcher_agrees_with_a_naive_one(
    texts: list[str], host: str, storage_labels: bool, split: int
) -> None:
    entries = patterns(*texts)
    covering = {text for text in texts if naive_match(text, host, storage_labels)}
    whole = HostMatcher(entries, storage_labels=storage_labels)
    parts = HostMatcher(entries[:split], storage_labels=storage_labels).extended(entries[split:])
    for matcher in (whole, parts):
        found = matcher.match(host)
        assert (found is not None) is bool(covering)
        assert found is None or found.text in covering
        assert found == whole.match(host)
        if host in covering:
            assert found is not None
            assert found.text == host


@given(st.lists(ENTRIES, max_size=6), NAMES, st.booleans())
def test_case_and_a_trailing_dot_change_nothing(texts: list[str], host: str, dot: bool) -> None:
    spelled = [HostPattern(parse_pattern(text.upper() + "." * dot), "rule") for text in texts]
    plain = [HostPattern(text, "rule") for text in texts]
    assert spelled == plain
    asked = normalise_host(host.upper() + "." * dot)
    assert HostMatcher(spelled).match(asked) == HostMatcher(plain).match(host)
