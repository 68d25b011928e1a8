"""Where real git pushes to and fetches from in a session, whatever user and repository have configured."""

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.policy.repositories import RepositoryName
from sandbox.git.github_host import GITHUB_HOST, GitHubHost, parse_github_url
from sandbox.git.remotes import Remote, Remotes
from sandbox.git.session import SessionGit, config_text, last_settings, make_session_git, rewriting
from tests.fakes.git_forge import BRANCH, Repository
from tests.fakes.origin import Origin, http_origin, recorder
from tests.fakes.web import Answer, Request, Web
from tests.fakes.wire import Message
from tests.sandbox.inside_git import SECRET, TOKEN, Session, gateway, response

PUSHES = "http://127.0.0.1:9/git/github.com/"
WIDGET = RepositoryName("acme", "widget")


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path)


# --- Where an address leads -----------------------------------------------------------------------

SPELLINGS = (
    "https://github.com/", "git@github.com:", "ssh://git@github.com/", "ssh://git@github.com:22/",
    "ssh://git@ssh.github.com:443/", "ssh://github.com/", "github.com:", "git+ssh://git@github.com/",
    "git+ssh://github.com/", "ssh+git://git@github.com/", "http://github.com/", "git://github.com/",
    "https://www.github.com/", "https://github.com:443/", "git@github.com:/",
)  # fmt: skip


@pytest.mark.parametrize(
    "hostile",
    [
        "",
        # what user and repository say of the same beginnings is read later, or not at all
        '[url "ssh://evil.test/"]\n' + "".join(f"\tpushInsteadOf = {spelling}\n" for spelling in SPELLINGS),
        '[url "git@github.com:"]\n\tpushInsteadOf = https://github.com/\n\tinsteadOf = https://github.com/\n',
    ],
    ids=["plain", "taken over", "always ssh"],
)
def test_every_spelling(session: Session, hostile: str) -> None:
    session.configure(hostile, users=True)
    session.configure(hostile)
    for number, spelling in enumerate(SPELLINGS):
        session.configure(f'[remote "r{number}"]\n\turl = {spelling}acme/widget.git\n')
    session.open()
    for number, spelling in enumerate(SPELLINGS):
        assert session.told("remote", "get-url", "--push", f"r{number}") == f"{PUSHES}acme/widget.git", (
            spelling
        )
        assert session.told("remote", "get-url", f"r{number}") == "https://github.com/acme/widget.git", (
            spelling
        )
        # the address itself, with no remote of this name
        assert session.told("ls-remote", "--get-url", f"{spelling}a/b") == "https://github.com/a/b", spelling


@pytest.mark.parametrize(
    ("url", "pushed", "fetched"),
    [
        # cannot be listed beforehand, but a remote has it
        ("https://me@github.com/acme/widget", f"{PUSHES}acme/widget", "https://github.com/acme/widget"),
        ("https://me:word@github.com/acme/w", f"{PUSHES}acme/w", "https://github.com/acme/w"),
        ("https://GitHub.com/acme/widget/", f"{PUSHES}acme/widget/", "https://github.com/acme/widget/"),
        (
            "org-12@github.com:acme/widget.git",
            f"{PUSHES}acme/widget.git",
            "https://github.com/acme/widget.git",
        ),
        ("git@GitHub.com:/acme/widget", f"{PUSHES}acme/widget", "https://github.com/acme/widget"),
        ("gh:acme/widget", f"{PUSHES}acme/widget", "https://github.com/acme/widget"),
        # somewhere else
        (
            "https://gitlab.test/acme/widget",
            "https://gitlab.test/acme/widget",
            "https://gitlab.test/acme/widget",
        ),
        ("git@gitlab.test:acme/widget", "git@gitlab.test:acme/widget", "git@gitlab.test:acme/widget"),
        (
            "https://github.com.evil.test/a/b",
            "https://github.com.evil.test/a/b",
            "https://github.com.evil.test/a/b",
        ),
        ("../widget", "../widget", "../widget"),
    ],
)
def test_address_of_a_remote(session: Session, url: str, pushed: str, fetched: str) -> None:
    session.configure('[url "git@github.com:"]\n\tinsteadOf = gh:\n', users=True)
    session.plain("remote", "add", "origin", url)
    session.open()
    assert session.told("remote", "get-url", "--push", "origin") == pushed
    assert session.told("remote", "get-url", "origin") == fetched


@pytest.mark.parametrize(
    ("url", "pushurl", "pushed"),
    [
        ("https://github.com/acme/widget", "git@github.com:acme/widget.git", f"{PUSHES}acme/widget.git"),
        ("https://github.com/acme/widget", "git@github.com:me/fork.git", f"{PUSHES}me/fork.git"),
        ("https://gitlab.test/acme/widget", "https://github.com/acme/w.git", f"{PUSHES}acme/w.git"),
        # rewriting these would take a fetch along: with the read token GitHub refuses the push
        ("git@github.com:acme/w.git", "git@github.com:acme/w.git", "https://github.com/acme/w.git"),
        ("git@github.com:acme/w.github.io", "git@github.com:acme/w.git", "https://github.com/acme/w.git"),
        ("https://github.com/acme/widget", "git@github.com:acme/w", "https://github.com/acme/w"),
    ],
)
def test_address_for_pushes_alone(session: Session, url: str, pushurl: str, pushed: str) -> None:
    session.plain("remote", "add", "origin", url)
    session.plain("remote", "set-url", "--push", "origin", pushurl)
    session.open()
    assert session.told("remote", "get-url", "--push", "origin") == pushed
    assert session.told("remote", "get-url", "origin") == url.replace(
        "git@github.com:", "https://github.com/"
    )


@pytest.mark.parametrize(
    ("url", "address", "pushed", "fetched"),
    [
        ("https://ghe.test", "git@ghe.test:a/b", "/git/ghe.test/a/b", "https://ghe.test/a/b"),
        ("https://ghe.test", "git@github.com:a/b", None, "git@github.com:a/b"),
        (
            "https://ghe.test:8443",
            "https://ghe.test:8443/a/b",
            "/git/ghe.test:8443/a/b",
            "https://ghe.test:8443/a/b",
        ),
        ("https://ghe.test:8443", "https://ghe.test/a/b", None, "https://ghe.test/a/b"),
        ("http://forge.test:80", "https://github.com/a/b", "/git/forge.test/a/b", "http://forge.test/a/b"),
        ("http://forge.test:81", "git@github.com:a/b", "/git/forge.test:81/a/b", "http://forge.test:81/a/b"),
        ("http://forge.test:81", "git@forge.test:a/b", "/git/forge.test:81/a/b", "http://forge.test:81/a/b"),
    ],
)
def test_another_forge(tmp_path: Path, url: str, address: str, pushed: str | None, fetched: str) -> None:
    session = Session(tmp_path, parse_github_url(url))
    session.plain("remote", "add", "origin", address)
    session.open()
    assert session.told("remote", "get-url", "--push", "origin") == (
        f"{session.gateway}{pushed}" if pushed else address
    )
    assert session.told("remote", "get-url", "origin") == fetched


# --- A push ---------------------------------------------------------------------------------------

HOSTILE = """
[http]
	proxy = http://127.0.0.1:{proxy}
	extraHeader = X-Leak: 1
	lowSpeedLimit = 1000000
	lowSpeedTime = 1
[http "http://127.0.0.1:{gateway}"]
	proxy = http://127.0.0.1:{proxy}
	extraHeader = X-Leak: 2
[credential]
	helper = "!touch {ran};"
[credential "http://127.0.0.1:{gateway}"]
	helper = "!touch {ran};"
[core]
	askPass = touch {ran}
"""


@pytest.fixture
def refusing(tmp_path: Path) -> Iterator[tuple[Session, Origin, Origin]]:
    """A session whose gateway refuses pushes, with a proxy that takes whatever goes astray."""
    with gateway() as there, recorder() as proxy:
        yield Session(tmp_path, gateway_port=there.port, proxy_port=proxy.port), there, proxy


def test_push_arrives_with_the_secret_and_nothing_else(refusing: tuple[Session, Origin, Origin]) -> None:
    session, there, proxy = refusing
    hostile = HOSTILE.format(proxy=proxy.port, gateway=there.port, ran=session.root / "ran")
    session.configure(hostile)
    session.configure(hostile, users=True)
    session.plain("remote", "add", "origin", "git@github.com:acme/widget.git")
    session.open()
    for arguments in (("origin",), ("https://github.com/acme/widget.git",)):
        done = session.git("push", *arguments, "HEAD:refs/heads/agent/x", NO_PROXY="", no_proxy="")
        assert done.returncode == 128
        assert "remote: Control Center policy: no\n" in done.stderr
        assert SECRET not in done.stdout + done.stderr
        request = there.requests.pop()
        assert request.target == "/git/github.com/acme/widget.git/info/refs?service=git-receive-pack"
        assert request.field("X-Agent-Gateway-Session") == SECRET
        assert request.field("X-Leak") is None
        assert request.field("Authorization") is None
        assert not there.requests
    assert proxy.accepted == 0
    assert not (session.root / "ran").exists()


def test_slow_gateway_is_waited_for(session: Session) -> None:
    session.configure(HOSTILE.format(proxy=9, gateway=9, ran="x"))
    session.open()
    url = f"{PUSHES}acme/widget"
    for key in ("http.lowSpeedLimit", "http.lowSpeedTime"):
        assert session.told("config", "--get-urlmatch", key, url) == "0"
        assert session.told("config", "--get-urlmatch", key, "https://github.com/acme/widget") != "0"
    assert session.told("config", "--get-urlmatch", "http.proxy", url) == ""


def test_secret_is_in_no_address(refusing: tuple[Session, Origin, Origin]) -> None:
    session, *_ = refusing
    session.plain("remote", "add", "origin", "https://me@github.com/acme/widget.git")
    session.open()
    shown = session.told("remote", "-v") + (session.root / "gitconfig").read_text()
    assert f"{session.pushes}acme/widget.git (push)" in shown
    for word in (SECRET, TOKEN):
        assert word not in shown
        assert word not in repr(SessionGit(GITHUB_HOST, (word,), ((word, ""),)))


def test_other_hosts_do_not_get_the_secret(session: Session) -> None:
    with http_origin(lambda _: response("404 Not Found")) as other, recorder() as proxy:
        session.proxy_port = proxy.port
        session.open()
        for path in ("acme/widget", "git/github.com/acme/widget"):
            session.git("ls-remote", f"http://127.0.0.1:{other.port}/{path}")
        assert [request.field("X-Agent-Gateway-Session") for request in other.requests] == [None, None]


# --- A fetch --------------------------------------------------------------------------------------


def test_fetch_with_the_read_token(tmp_path: Path) -> None:
    """From a private repository, by its ssh address, with hostile helpers about: a real clone, and no prompt."""
    folder = tmp_path / "forge"
    folder.mkdir()
    repository = Repository(folder)
    expected = "Basic " + base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
    seen: list[str | None] = []

    def private(request: Request) -> Answer:
        seen.append(request.fields.get("Authorization"))
        if seen[-1] != expected:
            return Answer(b"", 401, {"WWW-Authenticate": 'Basic realm="GitHub"'})
        return repository.over_http(request)

    with Web({"git": private}) as forge, gateway() as there, recorder() as proxy:
        host = parse_github_url(f"http://127.0.0.1:{forge.port}")
        session = Session(tmp_path, host, there.port, proxy.port)
        ran = tmp_path / "ran"
        for users in (True, False):
            session.configure(
                f'[credential]\n\thelper = "!touch {ran};"\n\tusername = somebody\n[core]\n\taskPass = touch {ran}\n'
                f'[credential "{host.url}"]\n\thelper = "!touch {ran};"\n\tuseHttpPath = false\n'
                f'[credential "{host.url}/git/project.git"]\n\thelper = "!touch {ran};"\n',
                users,
            )
        session.plain("remote", "add", "origin", "git@github.com:git/project.git")
        session.open()
        done = session.git("fetch", "origin")
        assert done.returncode == 0, done.stderr
        assert session.told("rev-parse", f"origin/{BRANCH}") == repository.commits[-1]
        assert proxy.accepted == 0
    assert seen[0] is None and set(seen[1:]) == {expected}
    assert not ran.exists()
    asked = there.requests[0]
    assert (asked.method, asked.target) == ("POST", "/agent/git-credential")
    assert asked.field("X-Agent-Gateway-Session") == SECRET
    assert asked.json() == {"host": host.authority, "path": "git/project.git"}


def test_without_a_token_a_fetch_fails_at_once(tmp_path: Path) -> None:
    challenge = response("401 Unauthorized", b"", 'WWW-Authenticate: Basic realm="GitHub"')
    missing = response("404 Not Found", b'{"error": "Not Found"}')
    with http_origin(lambda _: challenge) as forge, http_origin(lambda _: missing) as there:
        session = Session(tmp_path, parse_github_url(f"http://127.0.0.1:{forge.port}"), there.port)
        session.open()
        done = session.git("ls-remote", "git@github.com:acme/widget.git")
    assert done.returncode == 128
    assert "agent-gateway: this session has no token to read acme/widget.git" in done.stderr
    assert "terminal prompts disabled" in done.stderr


def test_token_goes_to_the_forge_alone(session: Session) -> None:
    """Another host that asks for a login gets none, and the gateway is not asked."""

    def challenge(request: Message) -> bytes:
        return response("401 Unauthorized", b"", 'WWW-Authenticate: Basic realm="x"')

    with http_origin(challenge) as other, gateway() as there:
        session.gateway_port = there.port
        session.open()
        done = session.git("ls-remote", f"http://127.0.0.1:{other.port}/acme/widget")
        assert done.returncode == 128
        assert [request.field("Authorization") for request in other.requests] == [None]
        assert there.accepted == 0


# --- The text -------------------------------------------------------------------------------------


def test_ours_comes_first_and_the_users_is_kept() -> None:
    git = make_session_git(GITHUB_HOST, Remotes())
    text = config_text(git, 3180, "[user]\n\tname = me\n")
    assert text.startswith(
        '[url "http://127.0.0.1:3180/git/github.com/"]\n\tpushInsteadOf = "https://github.com/"\n'
    )
    assert text.endswith("[user]\n\tname = me\n")
    assert text.count("[url ") == 2
    assert config_text(None, 3180, "[user]\n") == "[user]\n"


@pytest.mark.parametrize("url", ["https://github.com", "https://ghe.test:8443", "http://forge.test:81"])
def test_both_ways_have_every_spelling(url: str) -> None:
    host = parse_github_url(url)
    settings = list(rewriting(SessionGit(host), "http://127.0.0.1:1"))
    pushes = [
        s.value for s in settings if s.name == f"url.http://127.0.0.1:1/git/{host.authority}/.pushInsteadOf"
    ]
    fetches = [s.value for s in settings if s.name == f"url.{host.url}/.insteadOf"]
    assert pushes == fetches == list(host.spellings())
    assert len(settings) == len(pushes) + len(fetches)


def remote(name: str, address: str, for_push: bool = False, host: GitHubHost = GITHUB_HOST) -> Remote:
    found = host.locate(address)
    assert found is not None
    return Remote(name, WIDGET, found.prefix, found.path, for_push)


def test_spellings_of_the_remotes_are_added_once() -> None:
    found = Remotes((
        remote("a", "https://me@github.com/acme/widget"),
        remote("b", "https://me@github.com/acme/other"),
        remote("c", "git@github.com:acme/widget"),
        remote("d", "git@GITHUB.com:acme/widget.git", for_push=True),
        remote("e", "git@GITHUB.com:acme/widget.git", for_push=True),
    ))  # fmt: skip
    git = make_session_git(GITHUB_HOST, found, ("gh:", "https://github.com/"))
    assert git.prefixes == ("https://me@github.com/", "git@GITHUB.com:", "gh:")
    assert git.push_addresses == (("git@GITHUB.com:", "acme/widget.git"),)
    fetched = replace(found.found[4], for_push=False)
    assert make_session_git(GITHUB_HOST, Remotes((*found.found, fetched))).push_addresses == ()


def test_what_is_read_last() -> None:
    settings = last_settings(
        SessionGit(GITHUB_HOST), "http://127.0.0.1:7", "word", ("/a b/python", "helper.py")
    )
    assert settings == (
        ("credential.helper", ""),
        ("credential.https://github.com.helper", "!'/a b/python' helper.py https://github.com"),
        ("credential.https://github.com.useHttpPath", "true"),
        ("http.http://127.0.0.1:7/git/.extraHeader", ""),
        ("http.http://127.0.0.1:7/git/.extraHeader", "X-Agent-Gateway-Session: word"),
        ("http.http://127.0.0.1:7/git/.proxy", ""),
        ("http.http://127.0.0.1:7/git/.lowSpeedLimit", "0"),
        ("http.http://127.0.0.1:7/git/.lowSpeedTime", "0"),
    )
