"""Nodes: what a scalar is, what the builder bounds, what a message may show."""

import pytest

from gateway.config.tree import (
    MAX_DEPTH,
    MAX_NODES,
    Kind,
    MappingNode,
    Reading,
    ScalarNode,
    SequenceNode,
    TreeBuilder,
    TreeError,
    described,
    line_of,
    masked,
    shown,
)

KINDS = (
    ("", Kind.EMPTY),
    ("~", Kind.EMPTY),
    ("null", Kind.EMPTY),
    ("NULL", Kind.EMPTY),
    ("nUll", Kind.TEXT),
    ("true", Kind.TRUTH),
    ("False", Kind.TRUTH),
    ("tRue", Kind.TEXT),
    ("on", Kind.TEXT),
    ("off", Kind.TEXT),
    ("yes", Kind.TEXT),
    ("n", Kind.TEXT),
    ("0", Kind.INTEGER),
    ("443", Kind.INTEGER),
    ("-1", Kind.INTEGER),
    ("0443", Kind.NUMBER),
    ("+443", Kind.NUMBER),
    ("4.5", Kind.NUMBER),
    (".5", Kind.NUMBER),
    ("1e3", Kind.NUMBER),
    ("0x1bb", Kind.NUMBER),
    ("0o17", Kind.NUMBER),
    ("9" * 19, Kind.NUMBER),
    ("12:30", Kind.TEXT),
    ("1_000", Kind.TEXT),
    ("٤٤٣", Kind.TEXT),
    ("10.1.2.3", Kind.TEXT),
    ("2026-11-30", Kind.TEXT),
)


@pytest.mark.parametrize(("text", "kind"), KINDS)
def test_scalars_are_those_of_yaml_1_2(text: str, kind: Kind) -> None:
    assert ScalarNode(1, text).kind is kind
    assert ScalarNode(1, text, plain=False).kind is Kind.TEXT


def test_descriptions_never_show_the_text() -> None:
    for node in (ScalarNode(1, "hunter2"), SequenceNode(1, ()), MappingNode(1, ())):
        assert described(node) in {"text", "a list", "a mapping"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x.test", "'x.test'"),
        ("http://user:hunter2@x.test", "'...@x.test'"),
        ("user:hunter2@x.test", "'...@x.test'"),
        ("user:hunter2@twice@x.test", "'...@x.test'"),
        ("a\n\x1b[2Jü", "'a\\n\\x1b[2J\\xfc'"),
        ("x" * 100, "'" + "x" * 75 + "...'"),
    ],
)
def test_shown_text_is_ascii_short_and_masked(text: str, expected: str) -> None:
    assert shown(text) == expected


def test_masking_leaves_a_lone_sign() -> None:
    assert masked("'a:b@x.test' holds a \"@\"") == "'...@x.test' holds a \"@\""


def test_rule_names_its_line() -> None:
    assert line_of(Reading("/etc/x/config.yaml", "config.yaml").rule(7)) == 7


def test_problems_come_by_line() -> None:
    reading = Reading("/etc/x/config.yaml", "config.yaml")
    reading.error(7, "seven")
    reading.warn(2, "two")
    assert [str(problem) for problem in reading.problems] == [
        "/etc/x/config.yaml:2: warning: two",
        "/etc/x/config.yaml:7: seven",
    ]


def builder() -> TreeBuilder:
    return TreeBuilder(Reading("config.yaml", "config.yaml"))


def test_tree_follows_the_parser() -> None:
    tree = builder()
    tree.start(1, True, None)
    tree.scalar(1, "a", True, None)
    tree.start(2, False, "list")
    tree.scalar(2, "x", False, None)
    tree.end()
    tree.scalar(3, "b", True, None)
    tree.alias(3, "list")
    tree.end()
    items = SequenceNode(2, (ScalarNode(2, "x", plain=False),))
    assert tree.root == MappingNode(1, ((ScalarNode(1, "a"), items), (ScalarNode(3, "b"), items)))


def test_depth_is_bounded() -> None:
    tree = builder()
    for line in range(1, MAX_DEPTH + 1):
        tree.start(line, False, None)
    with pytest.raises(TreeError, match="levels deep") as caught:
        tree.start(99, False, None)
    assert caught.value.line == 99


def test_depth_through_an_alias_is_bounded() -> None:
    tree = builder()
    tree.start(1, False, None)
    for anchor in range(MAX_DEPTH - 2):
        tree.start(anchor, False, str(anchor))
        if anchor:
            tree.alias(anchor, str(anchor - 1))
        tree.end()
    tree.start(98, False, None)
    with pytest.raises(TreeError, match="through an alias"):
        for line in range(99, 103):
            tree.start(line, False, None)
            tree.alias(line, str(MAX_DEPTH - 3))


def test_nodes_are_bounded_however_they_come() -> None:
    tree = builder()
    tree.start(1, False, None)
    tree.start(1, False, "0")
    for _ in range(9):
        tree.scalar(1, "x", True, None)
    tree.end()
    with pytest.raises(TreeError, match=f"more than {MAX_NODES} values"):
        for step in range(1, 9):  # ten times as many with every step
            tree.start(step, False, str(step))
            for _ in range(10):
                tree.alias(step, str(step - 1))
            tree.end()
    tree = builder()
    tree.start(1, False, None)
    with pytest.raises(TreeError, match=f"more than {MAX_NODES} values"):
        for line in range(MAX_NODES + 1):
            tree.scalar(line, "x", True, None)


@pytest.mark.parametrize("name", ["nothing", "self"])
def test_alias_of_nothing_finished_is_refused(name: str) -> None:
    tree = builder()
    tree.start(1, False, "self")
    with pytest.raises(TreeError, match="refers to nothing") as caught:
        tree.alias(2, name)
    assert caught.value.line == 2


def test_key_that_is_no_word_is_refused() -> None:
    tree = builder()
    tree.start(1, True, None)
    tree.start(2, False, None)
    with pytest.raises(TreeError, match="a list as a key"):
        tree.end()


def test_second_of_two_keys_is_reported_and_dropped() -> None:
    reading = Reading("config.yaml", "config.yaml")
    tree = TreeBuilder(reading)
    tree.start(1, True, None)
    for line, value in ((1, "first"), (2, "second")):
        tree.scalar(line, "key", True, None)
        tree.scalar(line, value, True, None)
    tree.end()
    assert tree.root == MappingNode(1, ((ScalarNode(1, "key"), ScalarNode(1, "first")),))
    assert [str(problem) for problem in reading.problems] == [
        "config.yaml:2: duplicate key 'key': line 1 has it too, keep one"
    ]


def test_missing_value_stands_in_the_line_of_its_key() -> None:
    tree = builder()
    tree.start(1, True, None)
    tree.scalar(1, "key", True, None)
    tree.scalar(2, "", True, None)  # where the parser sees the next key
    tree.end()
    assert tree.root == MappingNode(1, ((ScalarNode(1, "key"), ScalarNode(1, "")),))
