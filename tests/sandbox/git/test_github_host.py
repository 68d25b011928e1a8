"""The addresses of the forge: every spelling that is listed is recognised, and nothing else's is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import GatewayError
from sandbox.git.github_host import (
    GITHUB_HOST,
    Address,
    GitHubHost,
    parse_github_url,
    parse_path,
    parse_remote,
)

ENTERPRISE = parse_github_url("https://ghe.test")
ODD_PORT = parse_github_url("https://ghe.test:8443")
STAND_IN = parse_github_url("http://forge.test:8080")
LITERAL = parse_github_url("http://[::1]:8080")
HOSTS = (GITHUB_HOST, ENTERPRISE, ODD_PORT, STAND_IN, LITERAL)


@pytest.mark.parametrize(
    ("url", "repository"),
    [
        # web
        ("https://github.com/acme/widget", "acme/widget"),
        ("https://github.com/acme/widget.git", "acme/widget"),
        ("https://github.com/acme/widget/", "acme/widget"),
        ("https://github.com/acme/widget.git/", "acme/widget"),
        ("https://github.com:443/acme/widget", "acme/widget"),
        ("https://me@github.com/acme/widget", "acme/widget"),
        ("https://me:word@github.com/acme/widget", "acme/widget"),
        ("https://a@b@github.com/acme/widget", "acme/widget"),
        ("https://GitHub.COM/Acme/Widget.GIT", "Acme/Widget"),
        ("HTTPS://github.com/acme/widget", "acme/widget"),
        ("https://www.github.com/acme/widget", "acme/widget"),
        ("http://github.com/acme/widget", "acme/widget"),
        ("http://github.com:80/acme/widget", "acme/widget"),
        ("git://github.com/acme/widget.git", "acme/widget"),
        # ssh
        ("git@github.com:acme/widget.git", "acme/widget"),
        ("github.com:acme/widget", "acme/widget"),
        ("git@github.com:/acme/widget", "acme/widget"),
        ("org-123@github.com:acme/widget", "acme/widget"),
        ("git@GITHUB.com:acme/widget/", "acme/widget"),
        ("ssh://git@github.com/acme/widget.git", "acme/widget"),
        ("ssh://github.com/acme/widget", "acme/widget"),
        ("ssh://git@github.com:22/acme/widget", "acme/widget"),
        ("ssh://git@ssh.github.com:443/acme/widget.git", "acme/widget"),
        ("git+ssh://git@github.com/acme/widget", "acme/widget"),
        ("ssh+git://git@github.com/acme/widget", "acme/widget"),
        ("https://github.com/acme/acme.github.io", "acme/acme.github.io"),
        # another port is another server
        ("https://github.com:8443/acme/widget", None),
        ("https://github.com:80/acme/widget", None),
        ("http://github.com:443/acme/widget", None),
        ("ssh://git@github.com:443/acme/widget", None),
        ("ssh://git@github.com:2222/acme/widget", None),
        ("ssh://git@ssh.github.com/acme/widget", None),
        ("git://github.com:9419/acme/widget", None),
        ("https://github.com:/acme/widget", None),
        ("https://github.com:443443/acme/widget", None),
        # another host
        ("https://gitlab.com/acme/widget", None),
        ("https://github.com.evil.test/acme/widget", None),
        ("https://evil-github.com/acme/widget", None),
        ("https://gist.github.com/acme/widget", None),
        ("https://api.github.com/acme/widget", None),
        ("https://github.com./acme/widget", None),
        ("https://github.com@evil.test/acme/widget", None),
        ("https://evil.test\\@github.com/acme/widget", None),
        ("https://evil.test?@github.com/acme/widget", None),
        ("https://evil.test#@github.com/acme/widget", None),
        ("https://evil.test/@github.com/acme/widget", None),
        ("https://evil.test @github.com/acme/widget", None),
        ("https://git%68ub.com/acme/widget", None),
        ("https://gıthub.com/acme/widget", None),
        ("git@evil.test:github.com/acme/widget", None),
        ("git@evil.test:github.com:acme/widget", None),
        ("github-work:acme/widget", None),
        # another kind of address
        ("github.com::acme/widget", None),
        ("https::https://github.com/acme/widget", None),
        ("ftp://github.com/acme/widget", None),
        ("file://github.com/acme/widget", None),
        ("/srv/github.com:acme/widget", None),
        ("./github.com:acme/widget", None),
        ("../widget", None),
        ("acme/widget", None),
        ("", None),
        ("https:///acme/widget", None),
        ("https://", None),
        # another path
        ("https://github.com/acme", None),
        ("https://github.com/", None),
        ("https://github.com", None),
        ("https://github.com//acme/widget", None),
        ("https://github.com/acme//widget", None),
        ("https://github.com/acme/widget//", None),
        ("https://github.com/acme/widget/tree/main", None),
        ("https://github.com/../widget", None),
        ("https://github.com/acme/..", None),
        ("https://github.com/acme/.git", None),
        ("https://github.com/acme/widget.git.git", None),
        ("https://github.com/acme/widget?x=1", None),
        ("https://github.com/acme/widget#x", None),
        ("https://github.com/ac%6de/widget", None),
        ("https://github.com/-acme/widget", None),
        ("git@github.com:~acme/widget", None),
        ("git@github.com://acme/widget", None),
        ("https://github.com/acme/widget\n", None),
        ("https://github.com/acme/wid\0get", None),
        ("https://github.com/acme/widg\u202eet", None),
        ("https://github.com/acme/wıdget", None),
    ],
)
def test_repositories_of_github(url: str, repository: str | None) -> None:
    found = parse_remote(url, GITHUB_HOST)
    assert (None if found is None else str(found)) == repository


@pytest.mark.parametrize(
    ("host", "url", "is_there"),
    [
        (ENTERPRISE, "https://ghe.test/acme/widget", True),
        (ENTERPRISE, "git@ghe.test:acme/widget", True),
        (ENTERPRISE, "http://ghe.test/acme/widget", True),
        (ENTERPRISE, "https://www.ghe.test/acme/widget", False),
        (ENTERPRISE, "ssh://git@ssh.ghe.test:443/acme/widget", False),
        (ENTERPRISE, "https://github.com/acme/widget", False),
        (ENTERPRISE, "git@github.com:acme/widget", False),
        (ODD_PORT, "https://ghe.test:8443/acme/widget", True),
        (ODD_PORT, "https://ghe.test/acme/widget", False),
        (ODD_PORT, "http://ghe.test/acme/widget", False),
        (ODD_PORT, "git@ghe.test:acme/widget", True),
        # a forge without TLS stands in for GitHub
        (STAND_IN, "http://forge.test:8080/acme/widget", True),
        (STAND_IN, "git@forge.test:acme/widget", True),
        (STAND_IN, "https://forge.test:8080/acme/widget", False),
        (STAND_IN, "http://forge.test/acme/widget", False),
        (STAND_IN, "https://github.com/acme/widget", True),
        (STAND_IN, "git@github.com:acme/widget", True),
        (STAND_IN, "https://ghe.test/acme/widget", False),
        (LITERAL, "http://[::1]:8080/acme/widget", True),
        (LITERAL, "http://[::1]:8081/acme/widget", False),
        (LITERAL, "git@[::1]:acme/widget", True),
    ],
)
def test_other_forges(host: GitHubHost, url: str, is_there: bool) -> None:
    assert (parse_remote(url, host) is not None) is is_there


@pytest.mark.parametrize(
    ("url", "authority", "is_github"),
    [
        ("https://github.com", "github.com", True),
        ("https://GitHub.com:443", "github.com", True),
        ("https://ghe.test:8443/", "ghe.test:8443", False),
        ("http://127.0.0.1:9000", "127.0.0.1:9000", False),
        ("http://github.com", "github.com", False),
        ("http://[::1]:80", "[::1]", False),
    ],
)
def test_configured_url(url: str, authority: str, is_github: bool) -> None:
    host = parse_github_url(url)
    assert (host.authority, host.is_github) == (authority, is_github)
    assert host.url == f"{url.partition(':')[0]}://{authority}"


@pytest.mark.parametrize(
    "url", ["", "github.com", "ftp://github.com", "https://me@github.com", "https://github.com/x"]
)
def test_url_of_no_forge(url: str) -> None:
    with pytest.raises(GatewayError):
        parse_github_url(url)


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.url)
def test_every_listed_spelling_is_recognised(host: GitHubHost) -> None:
    spellings = host.spellings()
    assert spellings[0] == f"{host.url}/"
    assert len(set(spellings)) == len(spellings)
    for spelling in spellings:
        for path in ("acme/widget", "acme/widget.git"):
            assert str(parse_remote(spelling + path, host)) == "acme/widget", spelling
        assert host.locate(spelling + "acme/widget") == Address(spelling, "acme/widget")


@pytest.mark.parametrize(
    "spelling",
    [
        "https://github.com/", "git@github.com:", "ssh://git@github.com/", "ssh://git@github.com:22/",
        "ssh://git@ssh.github.com:443/", "ssh://github.com/", "github.com:", "git+ssh://git@github.com/", "http://github.com/",
        "git://github.com/", "https://www.github.com/", "https://github.com:443/", "git@github.com:/",
    ],
)  # fmt: skip
def test_what_is_listed_for_github(spelling: str) -> None:
    assert spelling in GITHUB_HOST.spellings()
    assert spelling in STAND_IN.spellings()
    assert spelling not in ENTERPRISE.spellings()
    assert spelling.replace("github.com", "ghe.test") in (*ENTERPRISE.spellings(), *_only_githubs())


def _only_githubs() -> tuple[str, ...]:
    return "ssh://git@ssh.ghe.test:443/", "https://www.ghe.test/"


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,20}", fullmatch=True)


@given(host=st.sampled_from(HOSTS), owner=NAMES, name=NAMES, data=st.data())
def test_case_and_user_do_not_matter(host: GitHubHost, owner: str, name: str, data: st.DataObject) -> None:
    spelling = data.draw(st.sampled_from([s for s in host.spellings() if "://" in s and "@" not in s]))
    scheme, _, rest = spelling.partition("://")
    user = data.draw(st.from_regex(r"([a-z0-9-]{1,8}(:[a-z0-9]{0,8})?@)?", fullmatch=True))
    url = f"{scheme}://{user}{rest.upper()}{owner}/{name}"
    assert str(parse_remote(url, host)) == f"{owner}/{name}"


@given(st.text(max_size=60))
def test_no_text_breaks_the_parser(text: str) -> None:
    for host in HOSTS:
        found = host.locate(text)
        assert found is None or found.prefix + found.path == text
    parse_path(text)
