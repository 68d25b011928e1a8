"""Where paths lie: named rows of path, place and verdict."""

import pytest

from gateway.policy.grounds import PATH_LIMIT, Grounds, Place, normal, within

LINKS = {"/w/repo/out": "/etc", "/w/repo/in": "/w/repo/src"}


def resolve(path: str) -> str:
    """Follows the links of the table, as a file system would."""
    found = "/"
    for step in path.split("/"):
        found = normal(f"{found}/{step}")
        found = LINKS.get(found, found)
    return found


GROUNDS = Grounds(
    worktree="/w/repo",
    cwd="/w/repo/src",
    home="/home/u",
    writable=("/w/repo", "/tmp/scratch"),
    private=("/tmp", "/var/tmp", "/home/u"),
    protected=lambda path: path.endswith("/.env"),
    secret=lambda path: path.startswith("/home/u/.ssh"),
    resolve=resolve,
)


@pytest.mark.parametrize(
    ("path", "found", "place"),
    [
        ("a.py", "/w/repo/src/a.py", Place.INSIDE),
        (".", "/w/repo/src", Place.INSIDE),
        ("/w/repo", "/w/repo", Place.INSIDE),
        ("..", "/w/repo", Place.INSIDE),
        ("../..", "/w", Place.OUTSIDE),
        ("../../repository/a", "/w/repository/a", Place.OUTSIDE),
        ("//w//repo/./a/", "/w/repo/a", Place.INSIDE),
        ("/etc/passwd", "/etc/passwd", Place.OUTSIDE),
        ("/", "/", Place.OUTSIDE),
        ("/tmp/x", "/tmp/x", Place.PRIVATE),
        ("/tmpx", "/tmpx", Place.OUTSIDE),
        ("/tmp/scratch/x", "/tmp/scratch/x", Place.INSIDE),
        ("/tmp/../etc", "/etc", Place.OUTSIDE),
        ("~", "/home/u", Place.PRIVATE),
        ("~/.bashrc", "/home/u/.bashrc", Place.PRIVATE),
        ("~root/x", "", Place.OUTSIDE),
        ("/w/repo/out/passwd", "/etc/passwd", Place.OUTSIDE),
        ("/w/repo/out/../x", "/x", Place.OUTSIDE),
        ("../in/a", "/w/repo/src/a", Place.INSIDE),
        ("/dev/null", "/dev/null", Place.PRIVATE),
        ("/dev/fd/3", "/dev/fd/3", Place.PRIVATE),
        ("/dev/sda", "/dev/sda", Place.OUTSIDE),
        ("", "", Place.OUTSIDE),
        ("a\0b", "", Place.OUTSIDE),
        ("/" + "a" * PATH_LIMIT, "", Place.OUTSIDE),
    ],
)
def test_a_path_lies_somewhere(path: str, found: str, place: Place) -> None:
    assert (GROUNDS.absolute(path), GROUNDS.place(GROUNDS.absolute(path))) == (found, place)


def test_grounds_without_places_know_nothing() -> None:
    assert Grounds().absolute("a") == ""
    assert Grounds().absolute("~/a") == ""
    assert Grounds().place("/a") is Place.OUTSIDE
    assert not Grounds().is_protected("/a")
    assert not Grounds().is_secret("/a")


def test_another_directory() -> None:
    assert GROUNDS.at("..").absolute("a") == "/w/repo/a"
    assert GROUNDS.at("/etc").absolute("a") == "/etc/a"
    assert GROUNDS.at("~other").absolute("a") == ""
    assert GROUNDS.at("~other").absolute("/etc/a") == "/etc/a"


@pytest.mark.parametrize(
    ("path", "protected", "secret"),
    [
        ("/w/repo/.env", True, False),
        ("/w/repo/.env.md", False, False),
        ("/home/u/.ssh/id", False, True),
        ("", True, True),
    ],
)
def test_what_is_not_known_is_protected_and_a_secret(path: str, protected: bool, secret: bool) -> None:
    assert (GROUNDS.is_protected(path), GROUNDS.is_secret(path)) == (protected, secret)


def test_normal_and_within() -> None:
    assert normal("a") == ""
    assert normal("/../..") == "/"
    assert within("/a", "/")
    assert within("/", "/")
    assert not within("/ab", "/a")
    assert not within("/a", "")
