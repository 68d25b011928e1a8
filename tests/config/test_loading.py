"""Loading: every problem at once, never more open than the defaults, and the compiled rules of a session."""

import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from gateway.allowlists import load_shipped
from gateway.config import (
    Config,
    ConfigError,
    check_config,
    compile_egress,
    load_config,
)
from gateway.config.section import keys_of
from gateway.config.values import Workspace
from gateway.errors import GatewayError, UsageError
from gateway.policy.decision import Decision
from gateway.policy.egress import Code, EgressRequest, Transport, decide
from gateway.policy.hosts import HostMatcher, HostPattern, parse_pattern
from tests.fakes.config_files import LISTS, assert_refused, load, problems, write

EXAMPLE = Path(__file__).parent.parent.parent / "config.example.yaml"

# --- Text that is no YAML, or more than it should be ----------------------------------------------

REFUSED = (
    ("tab as indent", "audit:\n\tkeep_days: 1\n", 2, "not YAML: found character '\\t'"),
    ("two colons", "sandbox: on\naudit: keep_days: 1\n", 2, "mapping values are not allowed here"),
    ("open quote", "push:\n  label: 'x\n", 2, "not YAML: found unexpected end of stream"),
    ("open list", "egress:\n  allow: [x.test\n", 2, "not YAML: expected ',' or ']'"),
    ("open mapping", "audit: {keep_days: 1\n", 1, "not YAML: expected ',' or '}'"),
    ("list beside keys", "sandbox: on\n- x\n", 2, "not YAML: expected"),
    ("text after a list", "egress:\n  addresses:\n    - [fd00::5]:443\n", 3, "put a value in quotes"),
    ("forbidden first character", "push: {label: @x}\n", 1, "put a value in quotes"),
    ("unknown escape", 'push: {label: "\\q"}\n', 1, "unknown escape character 'q'"),
    (
        "a star without quotes",
        "egress:\n  allow:\n    - *.x.test\n",
        3,
        "put a pattern that starts with a star in quotes",
    ),
    ("alias of nothing", "audit: *nothing\n", 1, "*nothing refers to nothing"),
    ("alias of what it stands in", "audit: &a {directory: *a}\n", 1, "*a refers to nothing"),
    (
        "a character that cannot be",
        'push: {label: "\\U00110000"}\n',
        1,
        "a character or number that cannot be",
    ),
    ("second document", "sandbox: on\n---\nsandbox: off\n", 2, "a second document"),
    ("YAML 1.1", "%YAML 1.1\n---\nsandbox: on\n", 2, "write %YAML 1.2"),
    ("YAML 3", "%YAML 3.0\n---\nsandbox: on\n", 1, "incompatible YAML document"),
    ("a program's tag", "sandbox: !!python/object/apply:os.system [id]\n", 1, "a tag"),
    ("a tag of one's own", "push:\n  label: !secret x\n", 2, "a tag"),
    ("a tag of the core schema", "push:\n  label: !!str 12\n", 2, "a tag"),
    ("a tag on the whole", "!config\nsandbox: on\n", 1, "a tag"),
    ("deep lists", "[" * 100_000, 1, "nested more than 12 levels deep"),
    ("deep mappings", "{a: " * 1000, 1, "nested more than 12 levels deep"),
    (
        "deep blocks",
        "\n".join(" " * depth + "a:" for depth in range(500)),
        13,
        "nested more than 12 levels deep",
    ),
    ("many values", "rules:\n" + "- x\n" * 30_000, 19_999, "more than 20000 values"),
    (
        "a billion laughs",
        "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)),
        5,
        "more than 20000 values",
    ),
)


@pytest.mark.parametrize(
    ("content", "line", "fragment"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_text_is_refused_with_its_line(tmp_path: Path, content: str, line: int, fragment: str) -> None:
    found = [problem for problem in problems(tmp_path, content) if fragment in problem.message]
    assert [problem.line for problem in found] == [line]
    with pytest.raises(ConfigError):
        load(tmp_path, content)


def test_thousands_of_entries_are_fine(tmp_path: Path) -> None:
    hosts = [f"h{number}.many.test" for number in range(5000)]
    config = load(tmp_path, "egress:\n  allow:\n" + "".join(f"    - {host}\n" for host in hosts))
    assert [pattern.text for pattern in config.egress.allow] == hosts
    assert config.egress.allow[-1].rule == "config.yaml:5002"


# --- Every problem at once ------------------------------------------------------------------------

BROKEN = """\
sandbox: maybe
worktree: git
egres: {}
egress:
  allow:
    - "*"
    - denied.test
    - api.base.test
  ports: [0]
  addresses: ["169.254.169.254:80"]
  hosts: {x.test: nowhere}
audit: {keep_days: none}
audit: {}
rules: [{action: push}]
push: !tag {label: ''}
"""


def test_every_problem_is_reported_at_once_and_by_line(tmp_path: Path) -> None:
    path = write(tmp_path, BROKEN)
    found = check_config(path, LISTS)
    assert [(problem.line, problem.warning) for problem in found] == [
        (1, False),
        (2, False),
        (3, False),
        (6, False),
        (7, False),
        (8, True),
        (9, False),
        (10, False),
        (11, False),
        (12, False),
        (13, False),
        (14, False),
        (15, False),
        (15, False),
    ]
    assert all(re.match(rf"{re.escape(str(path))}:\d+: ", str(problem)) for problem in found)
    assert len({str(problem) for problem in found}) == len(found)
    with pytest.raises(ConfigError) as caught:
        load_config(path, LISTS)
    assert caught.value.problems == tuple(problem for problem in found if not problem.warning)
    assert str(caught.value).splitlines() == [str(problem) for problem in caught.value.problems]
    assert isinstance(caught.value, GatewayError)


def test_warnings_do_not_stop_a_start(tmp_path: Path) -> None:
    content = "egress: {allow: [x.test, x.test]}"
    assert [problem.warning for problem in problems(tmp_path, content)] == [True]
    assert load(tmp_path, content).egress.allow == (
        HostPattern("x.test", "config.yaml:1"),
        HostPattern("x.test", "config.yaml:1"),
    )


def test_no_file_means_the_defaults() -> None:
    assert load_config(None, LISTS) == Config()
    assert check_config(None, LISTS) == ()


def test_source_and_digest_are_those_of_the_file(tmp_path: Path) -> None:
    config = load(tmp_path, b"\xef\xbb\xbfsandbox: on\r\n")
    assert config == Config(
        source=str(tmp_path / "config.yaml"), digest=sha256(b"\xef\xbb\xbfsandbox: on\r\n").hexdigest()
    )


# --- The example ----------------------------------------------------------------------------------

CONTRACT: dict[str, object] = {
    "sandbox": "on",
    "worktree": "in-place",
    "file_rules": "create-time",
    "bridge": "handover",
    "files": {"deny_write": [], "allow_write": [], "deny_read": []},
    "environment": {"pass": [], "set": {}},
    "egress": {
        "allow": [],
        "deny": [],
        "ports": [80, 443],
        "raw": [],
        "addresses": [],
        "hosts": {},
        "upstream_proxy": None,
        "limits": {"tunnels": 256, "new_per_second": 50, "burst": 200, "idle": 3600},
    },
    "github": {
        "url": "https://github.com",
        "api_url": "https://api.github.com",
        "app_id": None,
        "private_key_file": None,
    },
    "push": {"label": "Control Center"},
    "workspaces": {"default": {"repositories": [], "checkouts": []}},
    "rules": [],
    "managed_rules_file": None,
    "approvals": {"timeout": 300, "command": None},
    "audit": {"directory": None, "max_file_mb": 256, "keep_days": 90},
    "operator": {"listen": None, "token_file": None},
}


def test_example_is_the_defaults() -> None:
    assert check_config(EXAMPLE, load_shipped()) == ()
    config = load_config(EXAMPLE, load_shipped())
    default = Config()
    for one in fields(Config):
        if one.name not in {"source", "digest"}:
            assert getattr(config, one.name) == getattr(default, one.name), one.name
    assert replace(config, source=default.source, digest=default.digest) == default


def test_example_has_every_key_with_its_default() -> None:
    example = YAML(typ="safe", pure=True).load(EXAMPLE.read_text("utf-8"))
    assert example == CONTRACT
    assert_every_field(example, Config())
    assert tuple(example["workspaces"]["default"]) == keys_of(Workspace)


def assert_every_field(example: object, values: object) -> None:
    """The keys of this mapping are the fields of this value, and so on below."""
    assert isinstance(example, Mapping)
    assert is_dataclass(values)
    assert tuple(example) == keys_of(type(values))
    for one in fields(values):
        value = getattr(values, one.name)
        if is_dataclass(value):
            assert_every_field(example[one.name], value)


def test_example_explains_every_key() -> None:
    lines = EXAMPLE.read_text("utf-8").splitlines()
    starts = [number for number, line in enumerate(lines) if re.match(r"[a-z_]+:", line)]
    assert len(starts) == len(CONTRACT)
    for number in starts:
        below = lines[number + 1] if number + 1 < len(lines) else ""
        assert "#" in lines[number - 1] or "#" in below, lines[number]


# --- Compiled rules -------------------------------------------------------------------------------

OWN = """\
egress:
  allow: ["*.own.test"]
  deny: [bad.own.test, 10.77.0.0/16]
  ports: [443, 8443]
  raw: ["ssh.own.test:22"]
  addresses: ["10.1.2.3:9443"]
  hosts: {map.own.test: 10.1.2.3}
github:
  url: https://ghe.test
  api_url: https://ghe-api.test/api/v3
"""

DECISIONS = (
    ("api.base.test", 443, "", "baseline.txt:2"),
    ("a.b.wide.test", 8443, "", "baseline.txt:3"),
    ("hub.test", 443, "", "github.txt:2"),
    ("ghe.test", 443, "", "config.yaml:9"),
    ("ghe-api.test", 443, "", "config.yaml:10"),
    ("x.own.test", 443, "", "config.yaml:2"),
    ("map.own.test", 443, "", "config.yaml:2"),
    ("extra.test", 443, "", "--allow"),
    ("a.extra.test", 443, "", "--allow"),
    ("ssh.own.test", 22, "", "config.yaml:2"),
    ("10.1.2.3", 9443, "", "config.yaml:6"),
    ("x.own.test", 80, Code.PORT, "default"),
    ("x.own.test", 22, Code.PORT, "default"),
    ("bad.own.test", 443, Code.DENIED, "config.yaml:3"),
    ("bad.wide.test", 443, Code.DENIED, "deny.txt:4"),
    ("log.s3.telemetry.test", 443, Code.DENIED, "deny.txt:5"),
    ("10.66.0.1", 443, Code.DENIED, "deny.txt:6"),
    ("10.77.0.1", 443, Code.DENIED, "config.yaml:3"),
    ("10.1.2.3", 443, Code.IP_LITERAL, "default"),
    ("own.test", 443, Code.NOT_LISTED, "default"),
    ("other.test", 443, Code.NOT_LISTED, "default"),
)


def asked(
    config: Config, host: str, port: int, *, extras: tuple[str, ...] = (), network: bool = True
) -> Decision:
    rules = compile_egress(config, LISTS, extras, network)
    return decide(rules, EgressRequest(Transport.CONNECT, host, port))


@pytest.mark.parametrize(("host", "port", "code", "rule"), DECISIONS)
def test_compiled_rules_decide(tmp_path: Path, host: str, port: int, code: str, rule: str) -> None:
    decision = asked(load(tmp_path, OWN), host, port, extras=("Extra.test", "*.extra.test"))
    assert (decision.code, decision.rule) == (code, rule)


def test_compiled_rules_carry_the_rest(tmp_path: Path) -> None:
    rules = compile_egress(load(tmp_path, OWN), LISTS, (), network=True)
    assert rules.names == {"map.own.test": "10.1.2.3"}
    assert rules.addresses == {(IPv4Address("10.1.2.3"), 9443): "config.yaml:6"}
    assert rules.denied_networks == (
        (IPv4Network("10.66.0.0/16"), "deny.txt:6"),
        (IPv6Network("fd66::/16"), "deny.txt:7"),
        (IPv4Network("10.77.0.0/16"), "config.yaml:3"),
    )
    assert rules.raw == {
        ("ssh.base.test", 443): "baseline.txt:5",
        ("ssh.base.test", 8443): "baseline.txt:5",
        ("ssh.own.test", 22): "config.yaml:5",
    }


def test_without_config_there_are_the_lists_alone() -> None:
    assert asked(Config(), "api.base.test", 443).rule == "baseline.txt:2"
    assert asked(Config(), "extra.test", 443).code == Code.NOT_LISTED
    rules = compile_egress(Config(), LISTS, (), network=True)
    assert len(rules.allow) == 5
    assert rules.ports == {80, 443}
    assert (rules.names, rules.addresses) == ({}, {})


def test_network_off_allows_nothing(tmp_path: Path) -> None:
    for host in ("api.base.test", "x.own.test", "extra.test"):
        decision = asked(load(tmp_path, OWN), host, 443, extras=("extra.test",), network=False)
        assert decision.code == Code.NETWORK_OFF


@pytest.mark.parametrize(
    ("extra", "fragment"),
    [
        ("*", "matches every host"),
        ("", "is empty"),
        ("https://x.test", "is a URL"),
        ("x.test:443", "holds a port"),
        ("10.1.2.3", "under egress.addresses"),
        ("bücher.test", "is not ASCII"),
        ("x.test\n", "is not a host"),
        ("denied.test", "the fixed deny list refuses it (deny.txt:2"),
        ("DENIED.test.", "the fixed deny list refuses it (deny.txt:2"),
        ("*.a.denied.test", "the fixed deny list refuses it (deny.txt:3"),
        ("log.*.telemetry.test", "the fixed deny list refuses it (deny.txt:5"),
        ("bad.own.test", "egress.deny refuses it (config.yaml:3"),
    ],
)
def test_extra_that_cannot_be_is_a_usage_error(tmp_path: Path, extra: str, fragment: str) -> None:
    with pytest.raises(UsageError) as caught:
        compile_egress(load(tmp_path, OWN), LISTS, ("extra.test", extra), network=True)
    assert str(caught.value).startswith("--allow")
    assert fragment in str(caught.value)


def test_extra_shows_no_password() -> None:
    with pytest.raises(UsageError) as caught:
        compile_egress(Config(), LISTS, ("http://user:hunter2@x.test",), network=True)
    assert "hunter2" not in str(caught.value)


# --- Never more open ------------------------------------------------------------------------------

# fmt: off
WORDS = st.sampled_from((
    "sandbox", "on", "egress", "allow", "deny", "ports", "raw", "addresses", "hosts", "github", "url", "push",
    "x.test", '"*.y.test"', "*.y.test", "denied.test", "api.base.test", "80", "22", '"x.test:22"', "null", "~",
    '"10.1.2.3:443"', '"169.254.169.254:80"', "https://ghe.test", "true", "rules", "&a ", "*a", "!t ", "'", '"',
    ": ", ":\n  ", ":\n    - ", "\n", "\n  ", "\n    - ", "- ", ", ", "[", "]", "{", "}", "#", "|\n", ">\n", "<<: ",
    "---\n", "...\n", "%YAML 1.1\n", "\t", "\r\n", "\ufeff", "\x00",
))
# fmt: on
HOSTS = st.lists(
    st.sampled_from(("x.test", "*.y.test", "a.*.z.test", "api.base.test", "X.TEST.", "s.w.test")), max_size=4
)


def assert_not_more_open(content: str) -> None:
    """The file is refused, or allows no pattern, port or address but the defaults' and those that its text spells."""
    with TemporaryDirectory() as folder:
        try:
            config = load(Path(folder), content)
        except ConfigError as error:
            assert error.problems
            assert not any(problem.warning for problem in error.problems)
            return
    rules = compile_egress(config, LISTS, (), network=True)
    own = (*config.egress.allow, *config.github.hosts)
    words = set(re.findall(r"[a-z0-9.*_-]+", content.lower()))
    assert {pattern.text for pattern in own} <= words | {word.removesuffix(".") for word in words}
    shipped = (*LISTS.baseline.patterns, *LISTS.github.patterns)
    assert len(rules.allow) == len(HostMatcher((*shipped, *own)))
    numbers = {int(number) for number in re.findall(r"[0-9]+", content)}
    assert rules.ports <= {80, 443} | numbers
    assert all(str(address) in content and port in numbers for address, port in rules.addresses)
    assert all(
        rule.startswith("baseline.txt:") or (host in content and port in numbers)
        for (host, port), rule in rules.raw.items()
    )
    assert len(rules.fixed_deny) == len(LISTS.deny.patterns)
    assert set(rules.denied_networks) >= set(LISTS.deny.networks)


@given(st.lists(WORDS, max_size=40).map("".join))
def test_text_of_likely_words_opens_what_it_spells(content: str) -> None:
    assert_not_more_open(content)


@given(st.text(max_size=200))
def test_any_text_opens_what_it_spells(content: str) -> None:
    assert_not_more_open(content.encode("utf-8", "replace").decode())


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_the_defaults(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        try:
            config = load(Path(folder), content)
        except ConfigError:
            return
    assert config.egress == Config().egress


TARGETS = ("x.test:22", "denied.test:22", "10.1.2.3:443", "[fd00::5]:80", "169.254.169.254:80")
SECTIONS = st.fixed_dictionaries(
    {},
    optional={
        "allow": HOSTS,
        "deny": st.lists(st.sampled_from(("x.test", "*.z.test", "10.0.0.0/8", "0.0.0.0/0")), max_size=2),
        "ports": st.lists(st.integers(0, 70000), max_size=3),
        "raw": st.lists(st.sampled_from(TARGETS), max_size=2),
        "addresses": st.lists(st.sampled_from(TARGETS[2:]), max_size=2),
        "hosts": st.dictionaries(
            st.sampled_from(("x.test", "h.test")), st.sampled_from(("10.1.2.3", "8.8.8.8", "y"))
        ),
        "upstream_proxy": st.sampled_from((None, "http://proxy.test:3128", "proxy.test")),
        "limits": st.dictionaries(st.sampled_from(("tunnels", "burst")), st.integers(0, 300)),
    },
)


@given(SECTIONS)
def test_egress_opens_what_it_lists(egress: dict[str, list[str]]) -> None:
    assert_not_more_open(json.dumps({"egress": egress}))


@given(HOSTS, st.data())
def test_damaged_file_opens_no_more_than_the_whole(entries: list[str], data: st.DataObject) -> None:
    whole = (
        "egress:\n  allow:\n"
        + "".join(f"    - {entry!r}\n" for entry in entries)
        + "  deny: [no.test]\npush: {}\n"
    )
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(start + 8, len(whole))))
    damaged = (
        whole[:start] + data.draw(st.text(max_size=3).filter(lambda text: not text.isalnum())) + whole[end:]
    )
    with TemporaryDirectory() as folder:
        try:
            config = load(Path(folder), damaged.encode("utf-8", "replace"))
        except ConfigError:
            return
    # What is left of an entry is still an entry of the text; nothing that the text does not spell is allowed.
    for pattern in config.egress.allow:
        assert parse_pattern(pattern.text) == pattern.text
        assert pattern.text in damaged.lower() or "xn--" in pattern.text


def test_empty_file_is_no_defaults(tmp_path: Path) -> None:
    assert_refused(tmp_path, "", 1, 'write a key, such as "sandbox: on", or delete the file')
    assert load(tmp_path, "{}").egress == Config().egress


@pytest.mark.parametrize(
    ("text", "forges"),
    [
        ("", {"github.com", "www.github.com"}),
        ("github: {url: https://ghe.test}", {"ghe.test"}),
        ("github: {url: https://ghe.test:8443}", {"ghe.test"}),
        (
            'egress: {hosts: {forge.test: "127.0.0.1"}}\ngithub: {url: "http://forge.test:8080"}',
            {"forge.test"},
        ),
    ],
)
def test_forges_whose_pushes_are_led_through_the_gateway(tmp_path: Path, text: str, forges: set[str]) -> None:
    config = load(tmp_path, text) if text else Config()
    assert compile_egress(config, LISTS, (), network=True).forges == forges
