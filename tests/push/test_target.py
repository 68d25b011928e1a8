"""Addresses: the few there are, and everything that looks like one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.repositories import parse_repository
from gateway.push.target import Refusal, Service, Target, parse_target

HOSTS = frozenset({"github.com", "forge.test:8443"})
REFS = "info/refs?service=git-receive-pack"
NOTHING = Refusal(404, "there is nothing at this address")

# Method, target, host, repository, service.
TARGETS = [
    ("GET", f"/git/github.com/acme/widget/{REFS}", "github.com", "acme/widget", Service.ADVERTISE),
    ("GET", f"/git/github.com/acme/widget.git/{REFS}", "github.com", "acme/widget", Service.ADVERTISE),
    (
        "POST",
        "/git/github.com/acme/widget.git/git-receive-pack",
        "github.com",
        "acme/widget",
        Service.RECEIVE,
    ),
    ("POST", "/git/forge.test:8443/a/b/git-receive-pack", "forge.test:8443", "a/b", Service.RECEIVE),
    # Row 29: one repository in every case.
    (
        "POST",
        "/git/github.com/ACME/Widget.GIT/git-receive-pack",
        "github.com",
        "acme/widget",
        Service.RECEIVE,
    ),
    ("GET", f"/git/github.com/acme/.github/{REFS}", "github.com", "acme/.github", Service.ADVERTISE),
    ("GET", f"/git/github.com/acme/a.b_c-d.gi/{REFS}", "github.com", "acme/a.b_c-d.gi", Service.ADVERTISE),
    (
        "GET",
        f"/git/github.com/acme/{'x' * 100}.git/{REFS}",
        "github.com",
        f"acme/{'x' * 100}",
        Service.ADVERTISE,
    ),
    (
        "POST",
        "/git/github.com/acme/widget.git/info/lfs/objects/batch",
        "github.com",
        "acme/widget",
        Service.LFS,
    ),
    ("POST", "/git/github.com/acme/widget/info/lfs/locks/verify", "github.com", "acme/widget", Service.LFS),
    (
        "GET",
        "/git/github.com/acme/widget/info/lfs/locks?path=a%2fb",
        "github.com",
        "acme/widget",
        Service.LFS,
    ),
    (
        "DELETE",
        "/git/github.com/acme/widget/info/lfs/locks/12/unlock",
        "github.com",
        "acme/widget",
        Service.LFS,
    ),
]


@pytest.mark.parametrize(("method", "target", "host", "name", "service"), TARGETS)
def test_target(method: str, target: str, host: str, name: str, service: Service) -> None:
    found = parse_target(target, method, HOSTS)
    assert found == Target(host, parse_repository(name), service)


def test_spelling_is_kept() -> None:
    found = parse_target("/git/github.com/ACME/Widget.GIT/git-receive-pack", "POST", HOSTS)
    assert isinstance(found, Target)
    assert str(found.repository) == "ACME/Widget"


# What follows the host of `/git/github.com/`, by the number of the row.
BELOW = [
    # 27: queries that are not exactly the one.
    "acme/widget/info/refs",
    "acme/widget/info/refs?",
    "acme/widget/info/refs?service=git-receive-pack&x=1",
    "acme/widget/info/refs?x=1&service=git-receive-pack",
    "acme/widget/info/refs?service=git-receive-pack&service=git-upload-pack",
    "acme/widget/info/refs?service=git-receive-pack#x",
    "acme/widget/info/refs?service=git%2dreceive-pack",
    "acme/widget/info/refs?Service=git-receive-pack",
    "acme/widget/info/refs?service=git-receive-pack ",
    "acme/widget/info/refs?service=git-receive-pack\r\nX: y",
    "acme/widget/info/refs?service=git-upload-archive",
    "acme/widget/git-receive-pack?",
    "acme/widget/git-receive-pack?service=git-receive-pack",
    "acme/widget/git-receive-pack;x",
    "acme/widget/git-receive-pack/",
    "acme/widget/GIT-RECEIVE-PACK",
    "acme/widget/git-receive-pack\n",
    # 28: what decodes or normalises into an address.
    f"acme%2fwidget/{REFS}",
    f"acme/widget%00/{REFS}",
    f"acme/widget%2egit/{REFS}",
    f"acme//widget/{REFS}",
    f"acme/widget//{REFS}",
    f"/acme/widget/{REFS}",
    f"acme/../acme/widget/{REFS}",
    f"acme/widget/../widget/{REFS}",
    f"acme/./widget/{REFS}",
    f"acme/widget/./{REFS}",
    f"acme\\widget/{REFS}",
    f"acme/widget\\{REFS}",
    f"acme/widget;x/{REFS}",
    f"acme/widget/./{REFS}/.",
    f"acme/widget.git.git/{REFS}",
    f"acme/widget.git.GIT/{REFS}",
    f"acme/.git/{REFS}",
    f"acme/.git.git/{REFS}",
    f"widget/{REFS}",
    f"/widget/{REFS}",
    f"acme/{REFS}",
    f"../widget/{REFS}",
    f"./widget/{REFS}",
    f"acme/../{REFS}",
    f"acme/./{REFS}",
    f"acme/..git/{REFS}",
    f"acme/...git/{REFS}",
    f"-acme/widget/{REFS}",
    f"acme/-widget/{REFS}",
    f"acme/{'x' * 101}/{REFS}",
    f"{'x' * 101}/widget/{REFS}",
    f"acme/wid get/{REFS}",
    f"acme/wid?get/{REFS}",
    f"acme/wid\u0501et/{REFS}",
    f"acme/widget\n/{REFS}",
    f"acme/widget:x/{REFS}",
    f"acme/w@idget/{REFS}",
    f"a/b/c/{REFS}",
    "acme/widget",
    "acme/widget/",
    "acme/widget/HEAD",
    "acme/widget/objects/info/packs",
    "acme/widget/info/lfs",
    "acme/widget/info/lfs/",
    "acme/widget/info/lfs/../refs",
    "acme/widget/info/lfs//locks",
    "acme/widget/info/lfs/%2e%2e/refs",
    "acme/widget/info/lfs/locks?a b",
    "",
]
ELSEWHERE = [
    # 30: another host, or another spelling of one.
    f"/git/github.com:443/acme/widget/{REFS}",
    f"/git/github.com./acme/widget/{REFS}",
    f"/git/GITHUB.com/acme/widget/{REFS}",
    f"/git/evil.com/acme/widget/{REFS}",
    f"/git/github.com@evil/acme/widget/{REFS}",
    f"/git/user@github.com/acme/widget/{REFS}",
    f"/git/github.com%2f/acme/widget/{REFS}",
    f"/git/forge.test/acme/widget/{REFS}",
    f"/git//acme/widget/{REFS}",
    f"/git/acme/widget/{REFS}",
    f"/Git/github.com/acme/widget/{REFS}",
    f"/git/../git/github.com/acme/widget/{REFS}",
    f"//git/github.com/acme/widget/{REFS}",
    f"git/github.com/acme/widget/{REFS}",
    f"http://127.0.0.1:3180/git/github.com/acme/widget/{REFS}",
    f"http://github.com/acme/widget/{REFS}",
    "/github.com/acme/widget/git-receive-pack",
    "/",
    "*",
    "",
]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("target", [*(f"/git/github.com/{one}" for one in BELOW), *ELSEWHERE])
def test_nothing_there(method: str, target: str) -> None:
    assert parse_target(target, method, HOSTS) == NOTHING


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("POST", REFS, "GET"),
        ("HEAD", REFS, "GET"),
        ("get", REFS, "GET"),
        ("GET", "git-receive-pack", "POST"),
        ("PUT", "git-receive-pack", "POST"),
        ("OPTIONS", "git-receive-pack", "POST"),
        ("POST", "info/refs?service=git-upload-pack", "GET"),
        ("GET", "git-upload-pack", "POST"),
    ],
)
def test_another_method(method: str, path: str, allow: str) -> None:
    """Row 27."""
    found = parse_target(f"/git/github.com/acme/widget/{path}", method, HOSTS)
    assert found == Refusal(405, f"this address answers {allow} only", allow)


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "info/refs?service=git-upload-pack"), ("POST", "git-upload-pack")]
)
def test_fetch_is_refused_in_words(method: str, path: str) -> None:
    found = parse_target(f"/git/github.com/acme/widget.git/{path}", method, HOSTS)
    assert isinstance(found, Refusal)
    assert (found.status, found.allow) == (403, "")
    assert "pushes only" in found.text


def test_no_host_no_address() -> None:
    assert parse_target(TARGETS[0][1], "GET", frozenset()) == NOTHING


@given(
    st.text(), st.sampled_from(["", "acme/widget/", "acme/widget/info/"]), st.sampled_from(["GET", "POST"])
)
def test_what_is_accepted_is_one_of_the_known(text: str, start: str, method: str) -> None:
    found = parse_target(f"/git/github.com/{start}{text}", method, HOSTS)
    if isinstance(found, Target) and found.service is not Service.LFS:
        assert f"{start}{text}".lower() in {
            f"{str(found.repository).lower()}{suffix}/{found.service.value}" for suffix in ("", ".git")
        }
