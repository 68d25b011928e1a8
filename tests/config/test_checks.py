"""What values mean to each other and to the shipped lists: errors and warnings, each with its line."""

from pathlib import Path

import pytest

from gateway.allowlists import load_cautions
from gateway.config.checks import Cover, check_breadth, check_config_values
from gateway.config.tree import Reading
from gateway.config.values import Config, EgressConfig
from gateway.policy.hosts import HostMatcher, HostPattern
from gateway.policy.problem import Problem
from tests.fakes.config_files import LISTS, assert_refused, assert_warned, problems

REFUSED = (
    ("a name that is nowhere", "egress:\n  allow: [x.onion]\n", 2, "x.onion can never match"),
    ("a denied host", "egress:\n  allow: [denied.test]\n", 2, "the fixed deny list refuses it (deny.txt:2"),
    ("in another spelling", "egress:\n  allow: [DENIED.test.]\n", 2, "(deny.txt:2"),
    ("below a denied zone", "egress:\n  allow: [a.b.denied.test]\n", 2, "(deny.txt:3"),
    ("a star on a denied zone", "egress:\n  allow: ['*.denied.test']\n", 2, "(deny.txt:3"),
    ("a star inside a denied zone", "egress:\n  allow: ['*.a.denied.test']\n", 2, "(deny.txt:3"),
    ("one label inside a denied zone", "egress:\n  allow: [x.*.a.denied.test]\n", 2, "(deny.txt:3"),
    ("denied inside an allowed zone", "egress:\n  allow: [bad.wide.test]\n", 2, "(deny.txt:4"),
    ("denied by one label", "egress:\n  allow: [log.eu.telemetry.test]\n", 2, "(deny.txt:5"),
    ("the same middle star", "egress:\n  allow: [log.*.telemetry.test]\n", 2, "(deny.txt:5"),
    (
        "a middle label that allow lists spare",
        "egress:\n  allow: [log.s3.telemetry.test]\n",
        2,
        "(deny.txt:5",
    ),
    (
        "own deny",
        "egress:\n  deny: [x.test]\n  allow: [x.test]\n",
        3,
        "egress.deny refuses it (config.yaml:2",
    ),
    (
        "own denied zone",
        "egress:\n  deny: ['*.x.test', x.test]\n  allow: ['*.y.x.test']\n",
        3,
        "(config.yaml:2",
    ),
    ("a forge", "github:\n  url: https://denied.test\n  api_url: https://x.test\n", 2, "github: denied.test"),
    ("an address in a denied network", "egress:\n  addresses: ['10.66.1.1:80']\n", 2, "deny.txt:6 denies it"),
    ("the same, mapped", "egress:\n  addresses: ['[::ffff:10.66.1.1]:80']\n", 2, "deny.txt:6 denies it"),
    (
        "own denied network",
        "egress:\n  deny: [10.0.0.0/8]\n  addresses: ['10.1.1.1:80']\n",
        3,
        "config.yaml:2",
    ),
    ("a mapped address", "egress:\n  hosts:\n    api.base.test: fd66::1\n", 3, "deny.txt:7 denies fd66::1"),
)

WARNED = (
    (
        "the same entry",
        "egress:\n  allow:\n    - x.test\n    - X.test\n",
        4,
        "stands in config.yaml:3 already",
    ),
    ("in the baseline", "egress:\n  allow: [api.base.test]\n", 2, "allowed already by baseline.txt:2"),
    ("a star of the baseline", "egress:\n  allow: ['*.wide.test']\n", 2, "allowed already by baseline.txt:3"),
    ("below a star of the baseline", "egress:\n  allow: ['*.a.wide.test']\n", 2, "by baseline.txt:3"),
    ("in the GitHub list", "egress:\n  allow: [hub.test]\n", 2, "allowed already by github.txt:2"),
    ("below an own star", "egress:\n  allow:\n    - a.x.test\n    - '*.x.test'\n", 3, "covered by *.x.test"),
    (
        "a narrower star",
        "egress:\n  allow:\n    - '*.x.test'\n    - '*.y.x.test'\n",
        4,
        "covered by *.x.test",
    ),
    ("a middle star", "egress:\n  allow:\n    - '*.x.test'\n    - a.*.y.x.test\n", 4, "covered by *.x.test"),
    (
        "below a middle star",
        "egress:\n  allow:\n    - a.*.x.test\n    - a.b.x.test\n",
        4,
        "covered by a.*.x.test",
    ),
    ("denied twice", "egress:\n  deny:\n    - x.test\n    - x.test\n", 4, "stands in config.yaml:3 already"),
    ("denied by the fixed list", "egress:\n  deny: [a.denied.test]\n", 2, "denied already by deny.txt:3"),
    (
        "below an own denial",
        "egress:\n  deny:\n    - '*.x.test'\n    - x.test\n    - a.x.test\n",
        5,
        "config.yaml:3",
    ),
    ("without the apex", "egress:\n  deny: ['*.x.test']\n", 2, "does not cover x.test"),
    ("raw to nowhere", "egress:\n  raw: ['x.test:22']\n", 2, "nothing allows it"),
    ("raw to a denied host", "egress:\n  raw: ['denied.test:22']\n", 2, "deny list refuses it"),
    ("raw to an address", "egress:\n  raw: ['10.1.2.3:22']\n", 2, "add it with port 22 to egress.addresses"),
    (
        "a mapped name nobody allows",
        "egress:\n  hosts: {x.test: 192.88.98.1}\n",
        2,
        "is not allowed by anything",
    ),
    (
        "a mapped name without its address",
        "egress:\n  hosts: {hub.test: 10.1.2.3}\n",
        2,
        "10.1.2.3 is not public",
    ),
    ("no port", "egress:\n  ports: []\n", 2, "no allowed host can be reached"),
    (
        "a forge on a closed port",
        "github:\n  url: https://ghe.test:8443\n  api_url: https://ghe.test/api/v3\n",
        2,
        "port 8443 is not open",
    ),
)

QUIET = (
    ("partly denied", "egress: {allow: ['*.telemetry.test']}"),
    ("the apex beside the star", "egress: {allow: [x.test, '*.x.test']}"),
    ("a middle star beside one label that it spares", "egress: {allow: [a.*.x.test, a.s3.x.test]}"),
    ("a middle star beside more labels", "egress: {allow: [a.*.x.test, a.b.c.x.test]}"),
    ("a denial inside the baseline", "egress: {deny: [api.base.test, a.wide.test]}"),
    ("denied with the apex", "egress: {deny: ['*.x.test', x.test, 10.0.0.0/8]}"),
    (
        "raw to an allowed host",
        "egress: {allow: [x.test], raw: ['x.test:22', 'hub.test:22', 'a.wide.test:22']}",
    ),
    ("raw to a listed address", "egress: {raw: ['10.1.2.3:22'], addresses: ['10.1.2.3:22']}"),
    (
        "a mapped name with its address",
        "egress: {hosts: {hub.test: 127.0.0.1}, addresses: ['127.0.0.1:443']}",
    ),
    (
        "an own forge by its mapped name",
        "github: {url: 'https://ghe.test', api_url: 'https://ghe.test/api/v3'}\n"
        "egress: {hosts: {ghe.test: 10.1.2.3}, addresses: ['10.1.2.3:443'], raw: ['ghe.test:22']}",
    ),
)


def ids(table: tuple[tuple[object, ...], ...]) -> list[str]:
    return [str(row[0]) for row in table]


@pytest.mark.parametrize(("content", "line", "fragment"), [row[1:] for row in REFUSED], ids=ids(REFUSED))
def test_contradiction_is_an_error(tmp_path: Path, content: str, line: int, fragment: str) -> None:
    assert_refused(tmp_path, content, line, fragment)


@pytest.mark.parametrize(("content", "line", "fragment"), [row[1:] for row in WARNED], ids=ids(WARNED))
def test_entry_without_effect_is_a_warning(tmp_path: Path, content: str, line: int, fragment: str) -> None:
    assert_warned(tmp_path, content, line, fragment)


@pytest.mark.parametrize("content", [row[1] for row in QUIET], ids=ids(QUIET))
def test_entry_with_effect_is_no_problem(tmp_path: Path, content: str) -> None:
    assert problems(tmp_path, content) == ()


def test_defaults_have_no_problem() -> None:
    reading = Reading("config.yaml", "config.yaml")
    check_config_values(Config(), LISTS, reading)
    assert reading.problems == ()


COVER = (
    ("x.test", "x.test", "x.test", True),
    ("*.x.test", "x.test", None, False),
    ("*.x.test", "a.x.test", "a.x.test", True),
    ("*.x.test", "*.x.test", "a.x.test", True),
    ("*.x.test", "*.a.x.test", "b.a.x.test", True),
    ("*.a.x.test", "*.x.test", "b.x.test", False),
    ("*.x.test", "*.yx.test", "a.yx.test", False),
    ("*.x.test", "b.*.x.test", "b.a.x.test", True),
    ("b.*.x.test", "*.x.test", "c.x.test", False),
    ("b.*.x.test", "b.*.x.test", "b.a.x.test", True),
    ("b.*.x.test", "c.*.x.test", "c.a.x.test", False),
    ("b.*.x.test", "*.b.a.x.test", "c.b.a.x.test", False),
)


@pytest.mark.parametrize(("entry", "pattern", "example", "covered"), COVER)
def test_cover_agrees_with_the_matcher(entry: str, pattern: str, example: str | None, covered: bool) -> None:
    found = Cover([HostPattern(entry, "deny.txt:1")], deny=True).find(HostPattern(pattern, "config.yaml:1"))
    assert (found is not None) is covered
    if example is not None:
        assert HostMatcher([HostPattern(pattern, "")], storage_labels=True).match(example)
        assert (
            HostMatcher([HostPattern(entry, "")], storage_labels=True).match(example) is not None
        ) is covered


@pytest.mark.parametrize(
    ("entry", "fragment"),
    [
        ("*.github.io", "strangers' names come in"),
        ("*.co.uk", "anybody can register a name"),
        ("storage.googleapis.com", "shared storage"),
        ("me.github.io", ""),
        ("*.example.test", ""),
    ],
)
def test_breadth(entry: str, fragment: str) -> None:
    """Told once, and not where another problem is about the same line."""
    config = Config(egress=EgressConfig(allow=(HostPattern(entry, "config.yaml:4"),)))
    found = check_breadth(config, "config.yaml", (), load_cautions())
    assert [(one.line, one.warning) for one in found] == ([(4, True)] if fragment else [])
    assert not fragment or fragment in found[0].message
    told = (Problem("config.yaml", 4, "something else"),)
    assert check_breadth(config, "config.yaml", told, load_cautions()) == ()
