"""Typed reading: keys, types and ranges of a section, by hand-made nodes."""

from pathlib import Path

import pytest

from gateway.config.section import Section, keys_of
from gateway.config.tree import MappingNode, Node, Reading, ScalarNode, SequenceNode
from gateway.config.values import AuditConfig, Config, EgressConfig, EnvironmentConfig, GitHubConfig, Worktree


def section(of: type = Config, path: str = "", **values: Node) -> Section:
    """A section with these values, one line each, from line 1."""
    entries = tuple(
        (ScalarNode(line, key), value) for line, (key, value) in enumerate(values.items(), start=1)
    )
    return Section(MappingNode(1, entries), path, of, Reading("config.yaml", "config.yaml"))


def messages(of: Section) -> list[str]:
    return [str(problem) for problem in of.reading.problems]


def test_keys_are_the_fields_that_are_not_derived() -> None:
    assert keys_of(EnvironmentConfig) == ("pass", "set")
    assert "hosts" not in keys_of(GitHubConfig)
    assert "denied_networks" not in keys_of(EgressConfig)
    assert not {"source", "digest"} & set(keys_of(Config))
    assert keys_of(dict) == ()


@pytest.mark.parametrize(
    ("key", "fragment"),
    [
        ("egres", "write egress"),
        ("Sandbox", "write sandbox"),
        ("work-tree", "write worktree"),
        ("max_file_mb", "write it below audit:"),
        ("tunnels", "the keys here are sandbox"),
        ("source", "the keys here are sandbox"),
        ("<<", "merge keys are not part of YAML 1.2"),
        ("", "the keys here are sandbox"),
    ],
)
def test_unknown_key_comes_with_the_nearest_known(key: str, fragment: str) -> None:
    reading = Reading("config.yaml", "config.yaml")
    Section(MappingNode(1, ((ScalarNode(1, key), ScalarNode(1, "x")),)), "", Config, reading)
    found = [str(problem) for problem in reading.problems]
    assert len(found) == 1
    assert found[0].startswith(f"config.yaml:1: unknown key {key!r}: ")
    assert fragment in found[0]


def test_unknown_key_of_a_section_names_the_section() -> None:
    assert messages(section(AuditConfig, "audit", other=ScalarNode(1, "1"))) == [
        "config.yaml:1: unknown key 'other' in audit: the keys here are directory, max_file_mb, keep_days"
    ]


def test_lines_of_known_keys_are_kept() -> None:
    assert section(AuditConfig, "audit", keep_days=ScalarNode(1, "1")).reading.lines == {"audit.keep_days": 1}


@pytest.mark.parametrize(("text", "value"), [("on", True), ("off", False), ("true", True), ("FALSE", False)])
@pytest.mark.parametrize("plain", [True, False])
def test_switch(text: str, value: bool, plain: bool) -> None:
    at = section(sandbox=ScalarNode(1, text, plain))
    assert at.switch("sandbox", not value) is (value if plain or text.islower() else not value)


@pytest.mark.parametrize("text", ["yes", "no", "1", "On", "OFF", "", "~", "truE", " on"])
def test_switch_takes_nothing_else(text: str) -> None:
    at = section(sandbox=ScalarNode(1, text))
    assert at.switch("sandbox", True) is True
    assert messages(at)[0].startswith("config.yaml:1: sandbox must be on or off, not ")
    assert messages(at)[0].endswith(": write sandbox: on")


@pytest.mark.parametrize(
    ("node", "fragment"),
    [
        (
            ScalarNode(4, "0"),
            "config.yaml:4: keep_days must be from 1 to 9, not 0: the default is keep_days: 5",
        ),
        (ScalarNode(4, "10"), "must be from 1 to 9, not 10"),
        (ScalarNode(4, "-1"), "must be from 1 to 9, not -1"),
        (ScalarNode(4, "3", plain=False), "must be a whole number from 1 to 9, not text: write keep_days: 5"),
        (ScalarNode(4, "3.0"), "not a number that is not whole and decimal"),
        (ScalarNode(4, "3d"), "not text"),
        (ScalarNode(4, ""), "not empty"),
        (ScalarNode(4, "true"), "not true or false"),
        (SequenceNode(4, ()), "not a list"),
        (MappingNode(4, ()), "not a mapping"),
    ],
)
def test_number_out_of_range_or_of_another_type(node: Node, fragment: str) -> None:
    at = section(AuditConfig, keep_days=node)
    assert at.number("keep_days", 5, 1, 9) == 5
    assert len(messages(at)) == 1
    assert fragment in messages(at)[0]


def test_number_at_its_bounds() -> None:
    for text in ("1", "9"):
        assert section(AuditConfig, keep_days=ScalarNode(1, text)).number("keep_days", 5, 1, 9) == int(text)


@pytest.mark.parametrize(
    ("node", "fragment"),
    [
        (ScalarNode(1, "gti"), "must be one of in-place, cow, git: write worktree: git"),
        (ScalarNode(1, "x"), "write worktree: in-place"),
        (SequenceNode(1, ()), "write worktree: in-place"),
    ],
)
def test_choice_names_what_there_is(node: Node, fragment: str) -> None:
    at = section(worktree=node)
    assert at.choice("worktree", Worktree.IN_PLACE) is Worktree.IN_PLACE
    assert fragment in messages(at)[0]
    assert section(worktree=ScalarNode(1, "cow")).choice("worktree", Worktree.IN_PLACE) is Worktree.COW


@pytest.mark.parametrize("text", ["a\nb", "a\tb", "a\u200bb", "a\xa0b", " ", ""])
def test_text_is_one_visible_line(text: str) -> None:
    at = section(sandbox=ScalarNode(1, text, plain=False))
    assert at.text("sandbox", "x") is None
    assert len(messages(at)) == 1


def test_null_is_no_text_unless_it_may_be() -> None:
    at = section(sandbox=ScalarNode(1, "null"))
    assert at.text("sandbox", "x", nullable=True) is None
    assert messages(at) == []
    assert at.text("sandbox", "x") is None
    assert messages(at) == [
        "config.yaml:1: sandbox must be text, not empty: write x, in quotes if it looks like something else"
    ]


def test_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/of/test")
    at = section(AuditConfig, "audit", directory=ScalarNode(1, "~/log"))
    assert at.path("directory") == Path("/home/of/test/log")
    assert section(AuditConfig, directory=ScalarNode(1, "/a/../b")).path("directory") == Path("/a/../b")
    assert section(AuditConfig, directory=ScalarNode(1, "~")).path("directory") is None
    for text, fragment in (
        ("log", "relative path"),
        ("../log", "relative path"),
        ("~nobody-known/x", "nobody known"),
    ):
        at = section(AuditConfig, "audit", directory=ScalarNode(3, text))
        assert at.path("directory") is None
        assert messages(at)[0].startswith("config.yaml:3: audit.directory ")
        assert fragment in messages(at)[0]


def test_section_that_is_no_mapping() -> None:
    reading = Reading("config.yaml", "config.yaml")
    Section(ScalarNode(2, ""), "audit", AuditConfig, reading)
    Section(SequenceNode(3, ()), "", Config, reading)
    assert [str(problem) for problem in reading.problems] == [
        "config.yaml:2: audit must be a mapping of keys to values, not empty: write {} or delete the key",
        'config.yaml:3: the file must be a mapping of keys to values, not a list: write keys, such as "sandbox: on"',
    ]
