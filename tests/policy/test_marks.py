"""What is found by a mark, and what is not by a hair; and that what fits bears a mark, whatever it is called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.action_request import ActionRequest
from gateway.policy.actions import Action
from gateway.policy.constraints import Hosts, Paths
from gateway.policy.hosts import HostPattern
from gateway.policy.marks import ANYTHING, Mark, MarkIndex, longest
from gateway.policy.push import PushRequest, Refs, UpdateKind
from gateway.policy.refs import RefPatternError, is_ref_name, parse_ref_pattern
from gateway.policy.repositories import parse_repository
from gateway.policy.rules import Constraint, Request

ROWS = (
    ("anything", ANYTHING, ("a",), "text", True),
    ("no mark at all", (), ("a",), "text", False),
    ("anchor", (Mark("a"),), ("b", "a"), "", True),
    ("another anchor", (Mark("a"),), ("A", "ab"), "a", False),
    ("fragment", (Mark(fragment="ex"),), (), "text", True),
    ("no fragment", (Mark(fragment="ex"),), ("ex",), "tEXt", False),
    ("both", (Mark("a", "ex"),), ("a",), "text", True),
    ("anchor without fragment", (Mark("a", "ex"),), ("a",), "a", False),
    ("fragment without anchor", (Mark("a", "ex"),), (), "text", False),
    ("the second", (Mark("b"), Mark(fragment="ex")), (), "text", True),
)


@pytest.mark.parametrize(
    ("marks", "anchors", "text", "found"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_find(marks: tuple[Mark, ...], anchors: tuple[str, ...], text: str, found: bool) -> None:
    index = MarkIndex([(Action.COMMIT, marks, 7)])
    assert index.find(Action.COMMIT, anchors, text) == [7] * found
    assert index.find(Action.PUSH, anchors, text) == []


def test_longest() -> None:
    assert longest(("a/b", "cde", "")) == "a/b"
    assert longest(()) == ""


# --- Whatever fits is found -----------------------------------------------------------------------

# Letters with other cases and forms, also such as join with what stands before them.
LETTERS = "aAbK/.-\u00e9\u0301\u212a\u0130\u00df\ufb01\u03c2\u03a3*"
TEXTS = st.text(LETTERS, min_size=1, max_size=8)


def bears(constraint: Constraint, request: Request) -> bool:
    index = MarkIndex([(request.action, constraint.marks or ANYTHING, constraint)])
    return bool(index.find(request.action, request.anchors, request.text))


@given(TEXTS, TEXTS, st.booleans())
def test_a_ref_that_fits_is_found(pattern: str, name: str, wide: bool) -> None:
    ref = name if name.startswith("refs/") else f"refs/heads/{name.replace('*', 'a')}"
    try:
        refs = Refs((parse_ref_pattern(pattern),))
    except RefPatternError:
        return
    request = PushRequest(parse_repository("a/b"), ref, UpdateKind.CREATE)
    if is_ref_name(ref) and refs.fit(request, wide=wide) is not None:
        assert bears(refs, request)


@given(
    TEXTS,
    TEXTS,
    st.sampled_from((Action.DELETE_FILE, Action.WRITE_OUTSIDE)),
    st.sampled_from(("", "?", "[a]")),
)
def test_a_path_that_fits_is_found(glob: str, path: str, action: Action, more: str) -> None:
    paths, request = Paths((f"/{glob}{more}",)), ActionRequest(action, path=f"/{path}")
    exactly, widely = (paths.fit(request, wide=wide) for wide in (False, True))
    assert exactly is None or widely is not None
    if widely is not None:
        assert bears(paths, request)


@given(
    st.sampled_from(("x.test", "*.x.test", "a.*.x.test", "*.a.b.x.test", "localhost")),
    st.lists(st.sampled_from(("a", "b", "x", "test", "s3", "localhost")), min_size=1, max_size=6),
)
def test_a_host_that_fits_is_found(pattern: str, labels: list[str]) -> None:
    hosts = Hosts((HostPattern(pattern, "c:1"),))
    request = ActionRequest(Action.ACCESS_NETWORK, host=".".join(labels))
    if hosts.fit(request, wide=True) is not None:
        assert bears(hosts, request)
