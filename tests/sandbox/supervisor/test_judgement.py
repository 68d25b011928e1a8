"""The supervisor's rules applied to pinned places: names, sealed paths, what lies above them, sockets, the canary."""

import pytest

from sandbox.supervisor.judgement import (
    CREATE,
    GOVERNED,
    OUTSIDE,
    OWN,
    PRIVATE,
    READ_ONLY,
    Judge,
    Refused,
)
from sandbox.supervisor.resolution import Place
from sandbox.supervisor.rules import DoorRules

CANARY = "0123456789abcdef"
RULES = DoorRules(
    canary=CANARY,
    writable=("/srv/work", "/tmp/other", "/srv/odd.key", "/srv/work/read/write", "/srv/work/one.txt"),
    read_only=("/srv/work/read", "/tmp/closed"),
    private=("/dev", "/proc", "/var/tmp"),
    own=("/tmp",),
    sealed=(
        "/srv/work/.git/hooks",
        "/srv/work/.git/commondir",
        "/srv/work/deep/down/kept",
        "/srv/work/sub/.git/hooks",
    ),
    git_configs=("/srv/work/.git/config", "/srv/work/bare/config"),
    sockets=("/srv/work/listed.sock",),
    deny_write=("*.secret",),
    allow_write=("free.key", "/srv/work/fixtures/*"),
)


def place(path: str) -> Place:
    folder, _, name = path.encode("utf-8", "surrogateescape").rpartition(b"/")
    found = Place(-1, name)
    found.believe(folder or b"/")
    return found


@pytest.fixture
def judge() -> Judge:
    return Judge(RULES)


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("/srv/work/.env", ".env"),
        ("/srv/work/a/b/.ENV", ".env"),
        ("/srv/work/.e\u200bnv", ".env"),
        ("/srv/work/x.\u212aey", "*.key"),
        ("/srv/work/.vscode/tasks.json", ".vscode"),
        ("/srv/work/x.secret", "*.secret"),
        ("/tmp/other/.env", ".env"),
        ("/srv/work/read/write/.env", ".env"),
        ("/etc/.env", ".env"),
        ("/srv/work/.claude/settings.json", ".claude/settings.json"),
        ("/srv/work/.git/hooks", "/srv/work/.git/hooks"),
        ("/srv/work/.git/hooks/pre-commit", "/srv/work/.git/hooks"),
        ("/srv/work/.git/hooks/a/b/c", "/srv/work/.git/hooks"),
        ("/srv/work/.GIT/Hooks/pre-commit", "/srv/work/.git/hooks"),
        ("/srv/work/.git/ho\u200boks", "/srv/work/.git/hooks"),
        ("/srv/work/.git/config", "/srv/work/.git/config"),
        ("/srv/work/.git/CONFIG", "/srv/work/.git/config"),
        ("/srv/work/deep/down/kept", "/srv/work/deep/down/kept"),
        ("/srv/work/deep/down/kept/x", "/srv/work/deep/down/kept"),
    ],
)
def test_refused(judge: Judge, path: str, rule: str) -> None:
    with pytest.raises(Refused) as refused:
        judge.check(place(path), CREATE)
    assert (refused.value.rule, refused.value.action) == (rule, CREATE)
    assert refused.value.target == path.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize(
    ("path", "zone"),
    [
        ("/srv/work/a", GOVERNED),
        ("/srv/work/.envrc", GOVERNED),
        ("/srv/work/.env.example", GOVERNED),
        ("/srv/work/keys", GOVERNED),
        ("/srv/work/a.pem.txt", GOVERNED),
        ("/srv/work/free.key", GOVERNED),
        ("/srv/work/fixtures/ca.pem", GOVERNED),
        ("/srv/work/.git/config.lock", GOVERNED),
        ("/srv/work/.git/hooks2", GOVERNED),
        ("/srv/work/.git/index", GOVERNED),
        ("/srv/work/new/.git/hooks", GOVERNED),
        ("/srv/work/new/.git/config", GOVERNED),
        ("/srv/work/deep/down/kept2", GOVERNED),
        ("/srv/work2/x", OUTSIDE),
        ("/etc/passwd", OUTSIDE),
        ("/tmp/x", OWN),
        ("/tmp/.env", OWN),
        ("/tmp/otherwise", OWN),
        ("/tmp/other/x", GOVERNED),
        ("/dev/null", PRIVATE),
        ("/proc/self/oom_score_adj", PRIVATE),
        ("/var/tmp/a.key", PRIVATE),
        ("/devices", OUTSIDE),
        ("/srv/work/read/x", READ_ONLY),  # the kernel says it
        ("/srv/work/read/.env", READ_ONLY),
        ("/srv/work/read/write/x", GOVERNED),
        ("/tmp/closed/x", READ_ONLY),
    ],
)
def test_allowed(judge: Judge, path: str, zone: int) -> None:
    assert judge.check(place(path), CREATE) == zone
    assert judge.check(place(path), CREATE) == zone  # remembered


@pytest.mark.parametrize(
    ("path", "guarded"),
    [
        ("/srv/work/.git", True),
        ("/srv/work/.GIT", True),
        ("/srv/work/deep", True),
        ("/srv/work/deep/down", True),
        ("/srv/work/bare", True),
        ("/srv/work/sub", True),
        ("/srv/work/sub/.git", True),
        ("/srv/work/deeper", False),
        ("/srv/work/.git/objects", False),
        ("/srv/work/new/.git", False),
        ("/srv", True),
        ("/srv/work", True),
        ("/tmp", True),
        ("/tmp/closed", True),
        ("/tmp/elsewhere", False),
        ("/srv/work/read", True),
        ("/srv/work/read/write", True),
        ("/srv/work/one.txt", True),
        ("/srv/work/reader", False),
    ],
)
def test_what_lies_above_something_sealed_stays(judge: Judge, path: str, guarded: bool) -> None:
    if guarded:
        with pytest.raises(Refused):
            judge.guard(place(path), CREATE)
    else:
        judge.guard(place(path), CREATE)


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        ("/srv/work/x", "/srv/work/.claude", True),
        ("/srv/work/x", "/srv/work/a/.config/fish", True),
        ("/srv/work/x", "/srv/work/y", False),
        ("/srv/work/x", "/srv/work/.claude/worktrees", False),
        ("/srv/work/x", "/tmp/.claude", False),
    ],
)
def test_directories_bring_nothing_under_a_path_rule(judge: Judge, old: str, new: str, refused: bool) -> None:
    if refused:
        with pytest.raises(Refused):
            judge.guard_move(place(old), place(new))
        with pytest.raises(Refused):
            judge.guard_link(place(new))
    else:
        assert not judge.guard_move(place(old), place(new))
        judge.guard_link(place(new))


def test_directories_that_leave_the_packages_are_looked_into(judge: Judge) -> None:
    assert judge.guard_move(place("/srv/work/node_modules/a"), place("/srv/work/b"))
    assert judge.guard_move(place("/srv/work/node_modules"), place("/srv/work/old"))
    assert not judge.guard_move(place("/srv/work/node_modules/a"), place("/srv/work/node_modules/b"))


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("/srv/work/read", "read-only bind"),
        ("/srv/work/read/file", "read-only bind"),
        ("/srv/work/.env", ".env"),
        ("/srv/work/read/write/file", ""),
        ("/srv/work/file", ""),
        ("/tmp/file", ""),
    ],
)
def test_links_lead_to_nothing_that_may_not_be_written(judge: Judge, path: str, rule: str) -> None:
    if rule:
        with pytest.raises(Refused) as refused:
            judge.check_alias(place(path))
        assert refused.value.rule == rule
    else:
        judge.check_alias(place(path))


def test_configurations(judge: Judge) -> None:
    assert judge.config(place("/srv/work/.git/config")) == "/srv/work/.git/config"
    assert judge.config(place("/srv/work/.git/config.lock")) == ""
    assert judge.config(place("/srv/work/new/.git/config")) == ""


def test_nameless_files_lie_in_a_directory(judge: Judge) -> None:
    assert judge.check_folder(b"/srv/work/a", CREATE) == GOVERNED
    assert judge.check_folder(b"/srv/work", CREATE) == GOVERNED
    assert judge.check_folder(b"/dev/shm", CREATE) == PRIVATE
    for denied in (b"/srv/work/.git/hooks", b"/srv/work/.vscode", b"/srv/work/.vscode/x"):
        with pytest.raises(Refused):
            judge.check_folder(denied, CREATE)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/dev/shm/s", True),
        ("/tmp/s", True),
        ("/var/tmp/deep/s", True),
        ("/srv/work/listed.sock", True),
        ("/srv/work/s", False),
        ("/run/docker.sock", False),
        ("/tmp/other/s", False),
        ("/srv/work/LISTED.sock", False),
    ],
)
def test_sockets(judge: Judge, path: str, allowed: bool) -> None:
    if allowed:
        assert judge.check_socket(path.encode()) is (path == "/srv/work/listed.sock")
    else:
        with pytest.raises(Refused, match="unix-socket"):
            judge.check_socket(path.encode())


def test_canary_is_special_until_it_is_over(judge: Judge) -> None:
    wall, door = place(f"/srv/work/{CANARY}.wall"), place(f"/srv/work/{CANARY}.door")
    assert judge.check(wall, CREATE) == PRIVATE
    with pytest.raises(Refused, match="canary"):
        judge.check(door, CREATE)
    assert judge.seen == {"wall": 1, "door": 1}
    judge.canary = b""
    assert judge.check(wall, CREATE) == judge.check(door, CREATE) == GOVERNED


def test_what_is_remembered_is_bounded(judge: Judge) -> None:
    judge.canary = b""
    for number in range(6000):
        judge.check(place(f"/srv/work/{number}/x"), CREATE)
    judge.check(place("/srv/work/" + "long/" * 300 + "x"), CREATE)
    assert len(judge._grounds) <= 2048
    assert max(map(len, judge._grounds)) < 600


# --- What the kernel refuses ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/srv/shown/new", True),
        ("/srv/shown/deep/down/new", True),
        ("/srv/shown/.env", True),
        ("/srv/shown", True),
        ("/srv/shownelse/new", False),
        ("/usr/lib/python3/__pycache__", False),
        ("/tmp/shown/new", True),
    ],
)
def test_refusals_of_a_read_only_bind(path: str, told: bool) -> None:
    judge = Judge(
        DoorRules(
            canary=CANARY, writable=("/srv/work",), private=("/tmp",), closed=("/srv/shown", "/tmp/shown")
        )
    )
    judge.canary = b""
    assert judge.refused_by_mount() is None
    judge.check(place(path), CREATE)  # the kernel's matter
    refused = judge.refused_by_mount()
    expected = (CREATE, path.encode(), "read-only bind") if told else None
    assert (refused and (refused.action, refused.target, refused.rule)) == expected
    assert judge.refused_by_mount() is None
