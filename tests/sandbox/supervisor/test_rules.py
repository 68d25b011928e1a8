"""The supervisor's rules: what travels, and what is refused on arrival."""

import pytest

from sandbox.supervisor.rules import CANARY_DIGITS, PATH_LIMIT, DoorRules, RulesError, is_resolved, unpack

CANARY = "0123456789abcdef"
FULL = DoorRules(
    canary=CANARY,
    writable=("/srv/work", "/"),
    read_only=("/srv/work/closed",),
    private=("/dev", "/proc"),
    own=("/tmp",),
    sealed=("/srv/work/.git/hooks", "/srv/work/naïve\udcff", "/srv/work/two\nlines"),
    git_configs=("/srv/work/.git/config",),
    sockets=("/run/a.sock",),
    deny_write=("*.secret",),
    allow_write=("x.key", "/srv/work/*"),
)


@pytest.mark.parametrize("rules", [FULL, DoorRules(canary=CANARY)])
def test_what_is_packed_comes_out(rules: DoorRules) -> None:
    assert unpack(rules.pack()) == rules


def test_rules_are_frozen() -> None:
    with pytest.raises(AttributeError):
        FULL.sealed = ()
    assert hash(FULL) == hash(unpack(FULL.pack()))


@pytest.mark.parametrize(
    ("lists", "words"),
    [
        ({"writable": ("work",)}, "writable: 'work' is not an absolute path"),
        ({"sealed": ("/srv/../etc",)}, "sealed: .* without detours"),
        ({"private": ("/srv//x",)}, "private: .* without detours"),
        ({"git_configs": ("",)}, "git_configs: '' is no text"),
        ({"deny_write": ("",)}, "deny_write: '' is no text"),
        ({"sockets": ("/" + "x" * PATH_LIMIT,)}, "sockets: .* is no text of at most"),
        ({"sealed": ("/a\0/b",)}, "sealed: an entry holds a NUL"),
        ({"allow_write": ("a\0b",)}, "allow_write: an entry holds a NUL"),
        ({"writable": tuple(f"/{number}" for number in range(100_001))}, "writable: not a list"),
    ],
)
def test_out_of_bounds_is_refused_before_it_travels(lists: dict[str, tuple[str, ...]], words: str) -> None:
    with pytest.raises(RulesError, match=words):
        DoorRules(canary=CANARY, **lists).pack()


def test_unknown_lists_are_refused() -> None:
    with pytest.raises(RulesError, match="unknown rules: readable"):
        DoorRules(canary=CANARY, readable=("/",))


@pytest.mark.parametrize(
    "canary",
    ["", "0" * (CANARY_DIGITS - 1), "0" * (CANARY_DIGITS + 1), "x" * CANARY_DIGITS, "../" + "0" * 13],
)
def test_canary_is_sixteen_digits(canary: str) -> None:
    with pytest.raises(RulesError, match="canary"):
        DoorRules(canary=canary).pack()


WHOLE = FULL.pack()


@pytest.mark.parametrize(
    "message",
    [b"", b"\0", CANARY.encode(), CANARY.encode() + b"\0", WHOLE[:-1], WHOLE[:40], WHOLE + b"\0", WHOLE + WHOLE,
     WHOLE.replace(b"\x002\0", b"\x003\0", 1), WHOLE.replace(b"\x002\0", b"\x00-2\0", 1),
     WHOLE.replace(b"\x002\0", b"\x00\xd9\xa2\0", 1), b"{}", b"x" * (9 << 20)],
)  # fmt: skip
def test_what_is_no_message_is_refused(message: bytes) -> None:
    with pytest.raises(RulesError):
        unpack(message)


@pytest.mark.parametrize(
    ("path", "resolved"),
    [("/", True), ("/a", True), ("/a/b..", True), ("", False), ("a", False), ("/a/", False), ("//a", False),
     ("/a/./b", False), ("/a/../b", False), ("/..", False)],
)  # fmt: skip
def test_resolved_paths(path: str, resolved: bool) -> None:
    assert is_resolved(path) is resolved
