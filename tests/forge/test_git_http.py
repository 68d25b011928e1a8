"""Real git against the forge: what works, what is refused in whose words, and what breaks when told to."""

import gzip
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from gateway.forge.faults import Fault, Moment, Point, garbage, redirect
from gateway.forge.rules import large_files, protected_branch, ruleset
from gateway.forge.server import Forge
from gateway.forge.tokens import Credential
from tests.fakes.forge import READ, WRITE, AppClient, Git, app_client, basic, new_worktree, open_forge

FLUSH = b"0000"
RECEIVE_REQUEST = {"Content-Type": "application/x-git-receive-pack-request"}
CAPABILITIES = {
    "report-status", "report-status-v2", "delete-refs", "side-band-64k", "quiet", "atomic", "ofs-delta",
    "push-options",
}  # fmt: skip


@pytest.fixture
def bare(forge: Forge) -> Path:
    """An empty repository, `acme/widget`."""
    return forge.create_repository("acme/widget")


@pytest.fixture
def git(forge: Forge, app: AppClient, bare: Path, tmp_path: Path) -> Git:
    """A worktree of it with one commit that is nowhere else, and a token that may push."""
    made = new_worktree(tmp_path / "w", f"{forge.url}/acme/widget.git", app.mint("acme/widget", WRITE))
    made.commit()
    return made


@pytest.fixture
def http(forge: Forge) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=forge.url, trust_env=False, verify=False) as client:
        yield client


def refs(bare: Path) -> dict[str, str]:
    """Of a bare repository."""
    done = subprocess.run(
        ("git", "--git-dir", str(bare), "for-each-ref", "--format=%(refname) %(objectname)"),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return dict(line.split(" ") for line in done.stdout.splitlines())


def refused(git: Git, *arguments: str) -> str:
    """What git says of what must fail."""
    done = git.try_to(*arguments)
    assert done.returncode != 0, done.stderr
    return done.stderr


# --- What works ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_a_repository_is_filled_and_cloned(
    forge: Forge, app: AppClient, tmp_path: Path, object_format: str
) -> None:
    bare = forge.create_repository("acme/thing", object_format)
    url, token = f"{forge.url}/acme/thing", app.mint("acme/thing", WRITE)
    git = new_worktree(tmp_path / "w", url, token, object_format=object_format)
    assert git("ls-remote", "origin") == ""
    first = git.commit()
    git("push", "origin", "HEAD:main", "HEAD:agent/one")
    second = git.commit(content=b"more\n")
    git("tag", "light")
    git("tag", "-a", "-m", "an annotated one", "heavy")
    git("push", "origin", "HEAD:main", "light", "heavy")
    assert refs(bare)["refs/heads/main"] == second
    assert refs(bare)["refs/tags/heavy"] == git("rev-parse", "heavy")
    git("push", "--force", "origin", f"{first}:main")
    git("push", "origin", ":agent/one", ":refs/tags/light")
    assert set(refs(bare)) == {"refs/heads/main", "refs/tags/heavy"}
    reader = Git(tmp_path, app.mint("acme/thing", READ))
    reader("clone", "-q", url, "copy")
    assert (tmp_path / "copy" / "file").read_bytes() == b"content\n"
    reader("clone", "-q", "--bare", "--filter=blob:none", url, "partial")


def test_shallow_clones_push(git: Git, bare: Path, tmp_path: Path) -> None:
    git.commit(content=b"two\n")
    git("push", "-q", "origin", "HEAD:main")
    url = git("remote", "get-url", "origin")
    Git(tmp_path, git.token)("clone", "-q", "--depth=1", url, "shallow")
    shallow = Git(tmp_path / "shallow", git.token)
    assert shallow("rev-list", "--count", "HEAD") == "1"
    made = shallow.commit(content=b"three\n")
    shallow("push", "-q", "origin", "HEAD:main")
    assert refs(bare)["refs/heads/main"] == made
    shallow("fetch", "-q", "--unshallow")
    assert shallow("rev-list", "--count", "HEAD") == "3"


def test_a_large_push_comes_in_pieces(forge: Forge, git: Git, bare: Path) -> None:
    """Beyond http.postBuffer: a probe, then chunks."""
    git.settings["http.postBuffer"] = "65536"
    made = git.commit("noise", b"".join(bytes([value]) * 7 for value in range(256)) * 2000)
    git.settings["core.compression"] = "0"
    forge.requests.clear()
    git("push", "-q", "origin", "HEAD:main")
    assert refs(bare)["refs/heads/main"] == made
    assert forge.requests.paths("POST") == ["/acme/widget.git/git-receive-pack"] * 2


def test_the_probe_is_answered(forge: Forge, git: Git, http: httpx.Client) -> None:
    answer = http.post(
        "/acme/widget.git/git-receive-pack",
        content=FLUSH,
        headers={**RECEIVE_REQUEST, "Authorization": basic(git.token)},
    )
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/x-git-receive-pack-result"
    assert answer.content == b""


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip"])
def test_a_compressed_body(git: Git, bare: Path, http: httpx.Client, encoding: str) -> None:
    git("push", "-q", "origin", "HEAD:main", "HEAD:other")
    old = git("rev-parse", "HEAD")
    line = f"{old} {'0' * 40} refs/heads/other\0report-status".encode()
    body = gzip.compress(b"%04x" % (len(line) + 4) + line + FLUSH)
    answer = http.post(
        "/acme/widget/git-receive-pack",
        content=body,
        headers={**RECEIVE_REQUEST, "Authorization": basic(git.token), "Content-Encoding": encoding},
    )
    assert b"ok refs/heads/other" in answer.content
    assert "refs/heads/other" not in refs(bare)


def test_what_is_offered(forge: Forge, git: Git, http: httpx.Client) -> None:
    answer = http.get(
        "/acme/widget/info/refs",
        params={"service": "git-receive-pack"},
        headers={"Authorization": basic(git.token)},
    )
    first = answer.content.split(b"\n")[1]
    assert re.fullmatch(rb"0000[0-9a-f]{4}0{40} capabilities\^\{\}\0.*", first)
    offered = {word.partition("=")[0] for word in first.partition(b"\0")[2].decode().split()}
    assert offered == CAPABILITIES | {"agent", "object-format", "session-id"}
    assert b"agent=github/spokes-receive-pack-" in first


def test_protocol_two_serves_fetches(forge: Forge, git: Git, http: httpx.Client) -> None:
    answer = http.get(
        "/acme/widget/info/refs",
        params={"service": "git-upload-pack"},
        headers={"Authorization": basic(git.token), "Git-Protocol": "version=2"},
    )
    assert b"version 2\n" in answer.content
    assert b"agent=git/github-" in answer.content


def test_pull_requests_are_shown_to_fetches_alone(git: Git, bare: Path, http: httpx.Client) -> None:
    git("push", "-q", "origin", "HEAD:main")
    commit = git("rev-parse", "HEAD")
    subprocess.run(("git", "--git-dir", str(bare), "update-ref", "refs/pull/1/head", commit), check=True)
    assert "refs/pull/1/head" in git("ls-remote", "origin")
    answer = http.get(
        "/acme/widget/info/refs?service=git-receive-pack", headers={"Authorization": basic(git.token)}
    )
    assert b"refs/pull/" not in answer.content
    assert "deny updating a hidden ref" in refused(git, "push", "origin", "HEAD:refs/pull/2/head")


def test_a_fork_tells_what_its_parent_has(forge: Forge, app: AppClient, git: Git, http: httpx.Client) -> None:
    git("push", "-q", "origin", "HEAD:main")
    forge.create_repository("other/fork", fork_of="acme/widget")
    answer = http.get(
        "/other/fork/info/refs?service=git-receive-pack",
        headers={"Authorization": basic(app.mint("other/fork", WRITE))},
    )
    assert git("rev-parse", "HEAD").encode() + b" .have" in answer.content


def test_atomic_and_options(git: Git, bare: Path) -> None:
    git("push", "-q", "--atomic", "-o", "ci.skip", "origin", "HEAD:main", "HEAD:other")
    assert set(refs(bare)) == {"refs/heads/main", "refs/heads/other"}


def test_a_public_repository_needs_no_token_to_read(
    forge: Forge, app: AppClient, git: Git, tmp_path: Path
) -> None:
    forge.create_repository("acme/public", private=False)
    url = f"{forge.url}/acme/public"
    Git(git.folder, app.mint("acme/public", WRITE))("push", "-q", url, "HEAD:main")
    Git(tmp_path)("clone", "-q", url, "copy")
    assert "could not read Username" in refused(Git(git.folder), "push", url, "HEAD:other")


# --- Who may not --------------------------------------------------------------------------------------


def test_a_reader_does_not_push(git: Git, app: AppClient, bare: Path) -> None:
    git.token = app.mint("acme/widget", READ)
    said = refused(git, "push", "origin", "HEAD:main")
    assert "remote: Write access to repository not granted." in said
    assert "error: 403" in said
    assert refs(bare) == {}


def test_nobody_reads_what_is_private(git: Git) -> None:
    assert "could not read Username" in refused(Git(git.folder), "fetch", "origin")


@pytest.mark.parametrize("user", ["git", "", "x-access-tokens"])
def test_the_user_is_x_access_token(git: Git, http: httpx.Client, user: str) -> None:
    path = "/acme/widget/info/refs?service=git-upload-pack"
    answer = http.get(path, headers={"Authorization": basic(git.token, user)})
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == 'Basic realm="GitHub"'
    assert http.get(path, headers={"Authorization": basic(git.token)}).status_code == 200


@pytest.mark.parametrize("service", ["git-upload-pack", "git-receive-pack"])
@pytest.mark.parametrize("scheme", ["Bearer", "token", "Basic"])
def test_a_bare_token_is_no_password(git: Git, http: httpx.Client, scheme: str, service: str) -> None:
    path = f"/acme/widget/info/refs?service={service}"
    assert http.get(path, headers={"Authorization": f"{scheme} {git.token}"}).status_code == 401


def test_a_revoked_token_is_nobodys(git: Git, app: AppClient, http: httpx.Client) -> None:
    app.ask("DELETE", "/installation/token", git.token)
    assert "could not read Username" in refused(git, "push", "origin", "HEAD:main")
    answer = http.get(
        "/acme/widget/info/refs?service=git-receive-pack", headers={"Authorization": basic(git.token)}
    )
    assert answer.status_code == 401
    assert answer.text.startswith("Invalid username or token.")


def test_a_token_opens_its_repository_alone(forge: Forge, app: AppClient, git: Git) -> None:
    forge.create_repository("acme/other")
    forge.create_repository("acme/public", private=False)
    for name in ("acme/other", "acme/nothing", "other/widget"):
        assert "remote: Repository not found." in refused(git, "push", f"{forge.url}/{name}", "HEAD:main")
    said = refused(git, "push", f"{forge.url}/acme/public", "HEAD:main")
    assert "Permission to acme/public.git denied to agent-gateway[bot]." in said


def test_a_token_dies_with_its_installation(forge: Forge, git: Git) -> None:
    found = forge.repositories.find("acme/widget")
    assert found is not None
    found.installed = False
    assert "Repository not found." in refused(git, "push", "origin", "HEAD:main")


def test_a_renamed_repository_redirects(forge: Forge, git: Git, http: httpx.Client) -> None:
    forge.repositories.rename("acme/widget", "acme/renamed")
    headers = {"Authorization": basic(git.token)}
    path = "/acme/widget/info/refs?service=git-receive-pack"
    answer = http.get(path, headers=headers)
    assert answer.status_code == 301
    assert answer.headers["Location"] == forge.url + path.replace("widget", "renamed.git")
    answer = http.post("/acme/widget/git-receive-pack", headers={**headers, **RECEIVE_REQUEST}, content=FLUSH)
    assert answer.status_code == 301
    git("fetch", "-q", "origin")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/acme/widget/info/refs", 404),
        ("GET", "/acme/widget/info/refs?service=git-shell", 404),
        ("POST", "/acme/widget/info/refs?service=git-receive-pack", 404),
        ("GET", "/acme/widget/git-receive-pack", 404),
        ("GET", "/acme/widget/HEAD", 404),
        ("GET", "/acme/widget.git/objects/info/packs", 404),
        ("GET", "/acme/widget.git.git/info/refs?service=git-receive-pack", 404),
        ("GET", "/acme/..%2facme%2fwidget/info/refs?service=git-receive-pack", 404),
        ("GET", "/acme/1001/info/refs?service=git-receive-pack", 404),
        ("POST", "/acme/widget/git-receive-pack", 415),
    ],
)
def test_what_is_served_is_exact(git: Git, http: httpx.Client, method: str, path: str, status: int) -> None:
    answer = http.request(method, path, headers={"Authorization": basic(git.token)})
    assert answer.status_code == status


def test_other_encodings_are_refused(git: Git, http: httpx.Client) -> None:
    headers = {**RECEIVE_REQUEST, "Authorization": basic(git.token), "Content-Encoding": "deflate"}
    assert http.post("/acme/widget/git-receive-pack", headers=headers, content=b"x").status_code == 415


# --- What a repository refuses ------------------------------------------------------------------------


def test_rules_speak_as_github_does(forge: Forge, git: Git, bare: Path) -> None:
    found = forge.repositories.find("acme/widget")
    assert found is not None
    found.rules += [
        protected_branch("refs/heads/main"),
        ruleset("refs/heads/release/*"),
        large_files("refs/heads/x"),
    ]
    said = refused(git, "push", "origin", "HEAD:main", "HEAD:release/1", "HEAD:x", "HEAD:free")
    assert "! [remote rejected] HEAD -> main (protected branch hook declined)" in said
    assert "(push declined due to repository rule violations)" in said
    assert "! [remote rejected] HEAD -> x (pre-receive hook declined)" in said
    assert "remote: error: GH006: Protected branch update failed for refs/heads/main." in said
    assert "remote: error: GH013: Repository rule violations found for refs/heads/release/1." in said
    assert "remote: error: GH001: Large files detected." in said
    assert set(refs(bare)) == {"refs/heads/free"}
    said = refused(git, "push", "--atomic", "origin", "HEAD:main", "HEAD:second")
    assert "! [remote rejected] HEAD -> second (atomic push failure)" in said
    assert set(refs(bare)) == {"refs/heads/free"}


def test_workflows_need_a_permission(forge: Forge, app: AppClient, git: Git, bare: Path) -> None:
    git("push", "-q", "origin", "HEAD:main")
    made = git.commit(".github/workflows/x.yml")
    git("tag", "v1")
    reason = (
        "(refusing to allow a GitHub App to create or update workflow `.github/workflows/x.yml` "
        "without `workflows` permission)"
    )
    for target in ("HEAD:main", "HEAD:agent/x", "v1"):
        assert reason in refused(git, "push", "origin", target)
    assert set(refs(bare)) == {"refs/heads/main"}
    # What is there already is no change of this push.
    git("push", "-q", str(bare), "HEAD:main")
    git.commit("other")
    git("push", "-q", "origin", "HEAD:main", f"{made}:refs/heads/agent/x")


def test_the_default_branch_stays(git: Git) -> None:
    git("push", "-q", "origin", "HEAD:main", "HEAD:other")
    git("push", "-q", "origin", ":other")
    said = refused(git, "push", "origin", ":main")
    assert "(refusing to delete the current branch: refs/heads/main)" in said


# --- What breaks --------------------------------------------------------------------------------------


def test_a_new_token_lags(forge: Forge, app: AppClient, http: httpx.Client, bare: Path) -> None:
    path = "/acme/widget/info/refs?service=git-upload-pack"
    for status in (404, 401):
        forge.faults.lag, forge.faults.lag_status = 2, status
        headers = {"Authorization": basic(app.mint("acme/widget", READ))}
        assert [http.get(path, headers=headers).status_code for _ in range(4)] == [status, status, 200, 200]


@pytest.mark.parametrize(
    ("point", "path"),
    [
        (Point.UPLOAD_REFS, "info/refs?service=git-upload-pack"),
        (Point.RECEIVE_REFS, "info/refs?service=git-receive-pack"),
        (Point.UPLOAD, "git-upload-pack"),
        (Point.RECEIVE, "git-receive-pack"),
    ],
)
def test_a_status_of_ones_own(forge: Forge, git: Git, http: httpx.Client, point: Point, path: str) -> None:
    forge.faults.set(point, Fault(429, b"slow down", headers={"Retry-After": "3"}))
    headers = {"Authorization": basic(git.token), "Content-Type": f"application/x-{path}-request"}
    method = "GET" if "?" in path else "POST"
    answer = http.request(method, f"/acme/widget/{path}", headers=headers, content=FLUSH)
    assert (answer.status_code, answer.text, answer.headers["Retry-After"]) == (429, "slow down", "3")
    forge.faults.clear()
    assert http.request(method, f"/acme/widget/{path}", headers=headers, content=FLUSH).status_code == 200


class Upload:
    """A push by hand: its head and what is wanted of its body, over a socket."""

    def __init__(self, forge: Forge, token: str, length: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", forge.port))
        head = (
            "POST /acme/widget/git-receive-pack HTTP/1.1\r\nHost: forge.test\r\n"
            f"Content-Type: {RECEIVE_REQUEST['Content-Type']}\r\n"
            f"Authorization: {basic(token)}\r\nContent-Length: {length}\r\n\r\n"
        )
        self.send(head.encode())

    def __enter__(self) -> "Upload":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        """More of the request."""
        self._socket.sendall(data)

    def rest(self) -> bytes:
        """All that comes, until the other end closes or cuts."""
        pieces = []
        try:
            while piece := self._socket.recv(65536):
                pieces.append(piece)
        except ConnectionResetError:
            pieces.append(b"<reset>")
        return b"".join(pieces)

    def head(self) -> bytes:
        """The head of the answer, to its last byte."""
        data = b""
        while not data.endswith(b"\r\n\r\n"):
            piece = self._socket.recv(1)
            assert piece, data
            data += piece
        return data


def test_an_early_answer_lets_the_body_come(forge: Forge, git: Git) -> None:
    forge.faults.set(Point.RECEIVE, Fault(413, moment=Moment.EARLY))
    with Upload(forge, git.token, 100_000) as upload:
        assert upload.head().startswith(b"HTTP/1.1 413 ")
        upload.send(b"x" * 100_000)
        upload.send(b"GET /x/y/info/refs HTTP/1.1\r\nHost: forge.test\r\nConnection: close\r\n\r\n")
        assert upload.rest().startswith(b"HTTP/1.1 404 ")


def test_an_abrupt_answer_does_not(forge: Forge, git: Git) -> None:
    forge.faults.set(Point.RECEIVE, Fault(413, b"too big", moment=Moment.ABRUPT))
    with Upload(forge, git.token, 100_000) as upload:
        upload.send(b"x")
        assert upload.rest().startswith(b"HTTP/1.1 413 ")


def test_a_body_that_rests_is_too_slow(forge: Forge, git: Git) -> None:
    forge.faults.body_patience = 0.05
    with Upload(forge, git.token, 100) as upload:
        upload.send(b"00")
        assert upload.rest().startswith(b"HTTP/1.1 408 ")
    assert forge.wait_until_idle()
    forge.faults.clear()
    git("push", "-q", "origin", "HEAD:main")


def test_a_request_that_is_cut(forge: Forge, git: Git, bare: Path) -> None:
    forge.faults.set(Point.RECEIVE, Fault(cut_request=20))
    refused(git, "push", "origin", "HEAD:main")
    assert forge.wait_until_idle()
    assert refs(bare) == {}
    forge.faults.clear()
    git("push", "-q", "origin", "HEAD:main")


@pytest.mark.parametrize("bytes_", [0, 20])
def test_an_answer_that_is_cut_after_the_deed(forge: Forge, git: Git, bare: Path, bytes_: int) -> None:
    forge.faults.set(Point.RECEIVE, Fault(cut_answer=bytes_))
    refused(git, "push", "origin", "HEAD:main")
    assert refs(bare) == {"refs/heads/main": git("rev-parse", "HEAD")}


def test_an_answer_that_ends_too_soon(forge: Forge, git: Git, http: httpx.Client) -> None:
    """Not for git itself, which waits for the rest of the packet for ever."""
    git("push", "-q", "origin", "HEAD:main")
    forge.faults.set(Point.UPLOAD_REFS, Fault(end_answer=20))
    answer = http.get(
        "/acme/widget/info/refs?service=git-upload-pack", headers={"Authorization": basic(git.token)}
    )
    assert answer.status_code == 200
    assert answer.content == b"001e# service=git-up"


@pytest.mark.parametrize("body", [b"", b"garbage", b"0014\x02Hello, I am band 20000"])
def test_an_answer_of_ones_own(forge: Forge, git: Git, bare: Path, body: bytes) -> None:
    forge.faults.set(Point.RECEIVE, garbage(body))
    refused(git, "push", "origin", "HEAD:main")
    assert refs(bare) == {}


def test_an_answer_without_end(forge: Forge, git: Git, http: httpx.Client) -> None:
    forge.faults.set(Point.RECEIVE, Fault(200, b"0006\x02.", repeat=20_000))
    headers = {**RECEIVE_REQUEST, "Authorization": basic(git.token)}
    answer = http.post("/acme/widget/git-receive-pack", headers=headers, content=FLUSH)
    assert answer.content == b"0006\x02." * 20_000


def test_something_before_the_answer(forge: Forge, git: Git, bare: Path) -> None:
    """As GitHub's own receive-pack does."""
    forge.faults.set(Point.RECEIVE, Fault(before_answer=b"0006\x02\x00"))
    git("push", "-q", "origin", "HEAD:main")
    assert set(refs(bare)) == {"refs/heads/main"}


def test_redirects(forge: Forge, git: Git, http: httpx.Client) -> None:
    forge.faults.set(Point.RECEIVE, redirect("http://elsewhere.test/", 307))
    headers = {**RECEIVE_REQUEST, "Authorization": basic(git.token)}
    answer = http.post("/acme/widget/git-receive-pack", headers=headers, content=FLUSH)
    assert (answer.status_code, answer.headers["Location"]) == (307, "http://elsewhere.test/")


@pytest.mark.parametrize("moment", Moment)
def test_a_stall_says_nothing_until_the_forge_stops(tmp_path: Path, moment: Moment) -> None:
    with open_forge(tmp_path) as forge, app_client(forge) as app:
        bare = forge.create_repository("acme/widget")
        forge.faults.set(Point.RECEIVE, Fault(stall=True, moment=moment))
        upload = Upload(forge, app.mint("acme/widget", WRITE), 4)
        upload.send(FLUSH)
        assert forge.requests.wait_for(lambda seen: seen.path.endswith("/git-receive-pack"))
    with upload:
        assert upload.rest() in {b"", b"<reset>"}
    assert refs(bare) == {}


def test_an_answer_that_stalls_after_the_deed(forge: Forge, git: Git, bare: Path) -> None:
    forge.faults.set(Point.RECEIVE, Fault(stall_answer=0))
    git.settings |= {"http.lowSpeedLimit": "1000", "http.lowSpeedTime": "1"}
    assert "too slow" in refused(git, "push", "origin", "HEAD:main")
    assert set(refs(bare)) == {"refs/heads/main"}


def test_a_client_that_dies_leaves_nothing(forge: Forge, git: Git, bare: Path) -> None:
    commit = git("rev-parse", "HEAD")
    line = f"{'0' * 40} {commit} refs/heads/main\0report-status".encode()
    body = b"%04x" % (len(line) + 4) + line + FLUSH + b"PACK\0\0\0\2\0\0\0\3"
    with Upload(forge, git.token, 1_000_000) as upload:
        upload.send(body)
    assert forge.wait_until_idle()
    assert refs(bare) == {}
    git("push", "-q", "origin", "HEAD:main")


def test_a_client_that_leaves_has_asked_all_the_same(forge: Forge, git: Git, bare: Path) -> None:
    """What was sent to its end is done, whoever waits for the answer."""
    git("push", "-q", "origin", "HEAD:main", "HEAD:other")
    assert forge.wait_until_idle()
    forge.requests.clear()
    line = f"{git('rev-parse', 'HEAD')} {'0' * 40} refs/heads/other\0report-status".encode()
    body = b"%04x" % (len(line) + 4) + line + FLUSH
    with Upload(forge, git.token, len(body)) as upload:
        upload.send(body)
        assert forge.requests.wait_for(lambda seen: seen.method == "POST")
    assert forge.wait_until_idle()
    assert set(refs(bare)) == {"refs/heads/main"}


def test_requests_are_noted(forge: Forge, app: AppClient, git: Git) -> None:
    forge.requests.clear()
    git("push", "-q", "origin", "HEAD:main")
    git.token = app.mint("acme/widget", READ)
    git("fetch", "-q", "origin")
    seen = [(item.method, item.path, item.credential, item.token) for item in forge.requests]
    assert seen[0] == (
        "GET", "/acme/widget.git/info/refs?service=git-receive-pack", Credential.WRITE, 1,
    )  # fmt: skip
    assert seen[1] == ("POST", "/acme/widget.git/git-receive-pack", Credential.WRITE, 1)
    assert seen[-1] == ("POST", "/acme/widget.git/git-upload-pack", Credential.READ, 2)
    assert [token.uses for token in forge.tokens.minted] == [2, len(seen) - 4]
