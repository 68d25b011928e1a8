"""The App API over HTTP: who is let in, what is handed out, and that it ends."""

import re
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from gateway.forge.app import register_app
from gateway.forge.faults import Fault, Moment, Point, redirect
from gateway.forge.server import Forge
from gateway.forge.tokens import Credential
from tests.fakes.forge import READ, WRITE, AppClient, new_worktree

WIDGET = "/repos/acme/widget"


@pytest.fixture(autouse=True)
def widget(forge: Forge) -> int:
    """The number of a repository that the App is installed on."""
    forge.create_repository("acme/widget")
    found = forge.repositories.find("acme/widget")
    assert found is not None
    return found.id


@pytest.fixture
def neighbours(forge: Forge) -> None:
    """Repositories beside it."""
    forge.create_repository("acme/gadget")
    forge.create_repository("acme/uninstalled", installed=False)
    forge.create_repository("acme/public", private=False, installed=False)


def message(answer: httpx.Response) -> tuple[int, str]:
    """Status and message of an error."""
    return answer.status_code, str(answer.json()["message"])


def minted(app: AppClient, body: object, headers: Mapping[str, str] | None = None) -> httpx.Response:
    path = f"/app/installations/{app.installation('acme/widget')}/access_tokens"
    return app.ask("POST", path, json=body, headers=headers)


def token_for(app: AppClient, *names: str, **permissions: str) -> str:
    answer = minted(app, {"repositories": list(names), "permissions": permissions})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["token"])


# --- The App ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "status", "text"),
    [
        ({"issued": 90}, 401, "'Issued at' claim"),
        ({"expires": -5}, 401, "'Expiration time' claim"),
        ({"expires": 900}, 401, "too far in the future"),
        ({"issuer": "12"}, 404, "Integration not found"),
        ({"key": register_app().private_key_pem}, 401, "could not be decoded"),
    ],
)
def test_a_token_that_is_not_the_apps(
    app: AppClient, claims: Mapping[str, object], status: int, text: str
) -> None:
    signed = app.jwt(**claims)  # type: ignore[arg-type]  # a table of keyword arguments
    for method, path in (("GET", "/app"), ("GET", f"{WIDGET}/installation")):
        answer = app.ask(method, path, signed)
        assert answer.status_code == status
        assert text in answer.json()["message"]


@pytest.mark.parametrize("credential", ["", "ghs_nobody", "a.b.c"])
def test_without_the_apps_signature(app: AppClient, credential: str) -> None:
    for method, path in (
        ("GET", f"{WIDGET}/installation"),
        ("POST", f"/app/installations/{app.installation('acme/widget')}/access_tokens"),
    ):
        assert app.ask(method, path, credential).status_code == 401


def test_the_app_knows_itself(app: AppClient) -> None:
    answer = app.ask("GET", "/app").json()
    assert answer["permissions"] == {"contents": "write", "metadata": "read", "pull_requests": "write"}
    assert app.ask("GET", "/app", app.jwt(issuer=answer["client_id"])).status_code == 200


# --- Finding ------------------------------------------------------------------------------------------


def test_installation_is_found(app: AppClient) -> None:
    found = app.ask("GET", "/repos/ACME/Widget/installation").json()
    assert found["account"] == {"login": "acme"}
    assert found["suspended_at"] is None
    assert found["permissions"]["contents"] == "write"


@pytest.mark.parametrize("name", ["acme/uninstalled", "acme/nothing", "nobody/widget"])
@pytest.mark.usefixtures("neighbours")
def test_installation_is_not_found(app: AppClient, name: str) -> None:
    assert message(app.ask("GET", f"/repos/{name}/installation")) == (404, "Not Found")


# --- Minting ------------------------------------------------------------------------------------------


def test_a_token_for_one_repository(app: AppClient, forge: Forge, widget: int) -> None:
    answer = minted(app, {"repository_ids": [widget], "permissions": {"contents": "write"}})
    assert answer.status_code == 201
    value = answer.json()
    assert value["permissions"] == {"contents": "write", "metadata": "read"}
    assert [item["full_name"] for item in value["repositories"]] == ["acme/widget"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value["expires_at"])
    (token,) = forge.tokens.minted
    assert token.value == value["token"]
    assert token.repositories == frozenset({widget})
    assert token.kind is Credential.WRITE


@pytest.mark.usefixtures("neighbours")
def test_a_token_for_everything(app: AppClient) -> None:
    value = minted(app, {}).json()
    assert "repositories" not in value
    listed = app.ask("GET", "/installation/repositories", value["token"]).json()
    assert {item["name"] for item in listed["repositories"]} == {"widget", "gadget"}


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({"repositories": ["uninstalled"]}, 422, "not accessible to the parent installation"),
        ({"repository_ids": [1]}, 422, "not accessible to the parent installation"),
        ({"permissions": {"workflows": "write"}}, 422, "not granted to this installation"),
        ({"permissions": {"contents": "admin"}}, 422, "not granted to this installation"),
        ({"repositories": "widget"}, 422, "not an array"),
        ([], 400, "should be a JSON object"),
    ],
)
def test_what_is_not_minted(app: AppClient, forge: Forge, body: object, status: int, text: str) -> None:
    answer = minted(app, body)
    assert answer.status_code == status
    assert text in answer.json()["message"]
    assert forge.tokens.minted == ()


def test_an_unknown_installation(app: AppClient) -> None:
    assert message(app.ask("POST", "/app/installations/1/access_tokens")) == (404, "Not Found")


def test_a_suspended_installation(app: AppClient, forge: Forge) -> None:
    token = token_for(app, "widget", contents="read")
    forge.repositories.suspend("acme")
    assert message(minted(app, {})) == (403, "This installation has been suspended")
    assert app.ask("GET", f"{WIDGET}/installation").json()["suspended_at"] is not None
    assert app.ask("GET", WIDGET, token).status_code == 404


def test_a_body_without_end(app: AppClient) -> None:
    assert message(minted(app, {"repositories": ["x" * 300_000]})) == (413, "Payload too large")


@pytest.mark.parametrize(
    ("header", "default", "stateless"),
    [("enabled", False, True), ("disabled", True, False), ("", False, False), ("", True, True)],
)
def test_both_formats(app: AppClient, forge: Forge, header: str, default: bool, stateless: bool) -> None:
    forge.faults.stateless = default
    headers = {"X-GitHub-Stateless-S2S-Token": header} if header else {}
    token = minted(app, {}, headers).json()["token"]
    assert token.startswith("ghs_")
    assert (token.count(".") == 2) is stateless
    assert app.ask("GET", WIDGET, token).status_code == 200


# --- Revoking -----------------------------------------------------------------------------------------


def test_a_token_is_revoked_once(app: AppClient, forge: Forge) -> None:
    token = token_for(app, "widget", contents="read")
    answer = app.ask("DELETE", "/installation/token", token)
    assert (answer.status_code, answer.content) == (204, b"")
    assert message(app.ask("DELETE", "/installation/token", token)) == (401, "Bad credentials")
    assert message(app.ask("GET", WIDGET, token)) == (401, "Bad credentials")
    assert forge.tokens.live == ()


def test_nothing_is_revoked_without_a_token(app: AppClient) -> None:
    assert message(app.ask("DELETE", "/installation/token", "")) == (401, "Requires authentication")
    assert app.ask("DELETE", "/installation/token").status_code == 401


# --- Repositories -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("neighbours")
def test_a_token_sees_its_repositories(app: AppClient, widget: int) -> None:
    token = token_for(app, "widget", contents="read")
    for path in ("/repos/ACME/WIDGET", f"/repositories/{widget}"):
        answer = app.ask("GET", path, token)
        assert (answer.json()["id"], answer.json()["full_name"]) == (widget, "acme/widget")
    for path in ("/repos/acme/gadget", "/repos/acme/uninstalled", "/repos/acme/none", "/repositories/1"):
        assert message(app.ask("GET", path, token)) == (404, "Not Found")
    assert app.ask("GET", "/repos/acme/public", token).status_code == 200


@pytest.mark.usefixtures("neighbours")
def test_nobody_sees_what_is_public(app: AppClient) -> None:
    assert app.ask("GET", "/repos/acme/public", "").status_code == 200
    assert message(app.ask("GET", WIDGET, "")) == (404, "Not Found")


def test_an_old_name_leads_to_the_number(app: AppClient, forge: Forge, widget: int) -> None:
    token = token_for(app, "widget", contents="read")
    forge.repositories.rename("acme/widget", "acme/renamed")
    for path, credential in ((WIDGET, token), (f"{WIDGET}/installation", None)):
        answer = app.ask("GET", path, credential)
        assert answer.status_code == 301
        to = answer.headers["Location"]
        assert to == f"{forge.api_url}/repositories/{widget}" + path.removeprefix(WIDGET)
        assert app.ask("GET", to, credential).status_code == 200
    assert app.ask("GET", f"/repositories/{widget}", token).json()["full_name"] == "acme/renamed"


def test_a_squatter_is_outside_the_token(app: AppClient, forge: Forge) -> None:
    token = token_for(app, "widget", contents="read")
    forge.repositories.rename("acme/widget", "acme/renamed")
    forge.create_repository("acme/widget")
    assert app.ask("GET", WIDGET, token).status_code == 404


# --- Comparing ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("neighbours")
def test_comparing_commits(app: AppClient, forge: Forge, widget: int, tmp_path: Path) -> None:
    found = forge.repositories.by_id(widget)
    assert found is not None
    git = new_worktree(tmp_path / "worktree", str(found.path))
    one, two = git.commit(content=b"1"), git.commit(content=b"2")
    git("push", "-q", "origin", "HEAD:main")
    read, other = token_for(app, "widget", contents="read"), token_for(app, "gadget", contents="read")

    def ask(base: str, head: str, token: str = read) -> httpx.Response:
        return app.ask("GET", f"{WIDGET}/compare/{base}...{head}", token)

    assert ask(one, two).json()["status"] == "ahead"
    assert ask(one, two).json()["merge_base_commit"] == {"sha": one}
    assert ask(two, one).json()["status"] == "behind"
    assert ask("main", two).json()["status"] == "identical"
    assert ask(one, "0" * 40).status_code == 404
    assert app.ask("GET", f"{WIDGET}/compare/main", read).status_code == 404
    assert ask(one, two, other).status_code == 404
    metadata_only = token_for(app, "widget", pull_requests="read")
    assert message(ask(one, two, metadata_only)) == (403, "Resource not accessible by integration")


# --- Everything else ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/"), ("POST", WIDGET), ("GET", "/app/installations/1/access_tokens"), ("GET", "/installation/token"),
     ("DELETE", f"{WIDGET}/git/refs/heads/main"), ("GET", f"{WIDGET}/../gadget")],
)  # fmt: skip
def test_what_there_is_not(app: AppClient, method: str, path: str) -> None:
    token = token_for(app, "widget", contents="write")
    assert message(app.ask(method, path, token)) == (404, "Not Found")


def test_requests_are_noted(app: AppClient, forge: Forge) -> None:
    token = token_for(app, "widget", **READ)
    app.ask("GET", WIDGET, token)
    app.ask("GET", WIDGET, token_for(app, "widget", **WRITE))
    app.ask("GET", WIDGET, "ghs_nobody")
    app.ask("GET", WIDGET, "")
    seen = [(item.credential, item.token) for item in forge.requests if item.path == f"/api/v3{WIDGET}"]
    assert seen == [
        (Credential.READ, 1), (Credential.WRITE, 2), (Credential.BAD, 0), (Credential.NONE, 0),
    ]  # fmt: skip
    assert (
        forge.requests.paths("POST")
        == [f"/api/v3/app/installations/{app.installation('acme/widget')}/access_tokens"] * 2
    )
    assert token not in repr(list(forge.requests))


# --- Failing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("point", "method", "path"),
    [
        (Point.FIND, "GET", f"{WIDGET}/installation"),
        (Point.MINT, "POST", "/app/installations/50001/access_tokens"),
        (Point.REVOKE, "DELETE", "/installation/token"),
        (Point.REPOSITORY, "GET", WIDGET),
        (Point.COMPARE, "GET", f"{WIDGET}/compare/a...b"),
    ],
)
@pytest.mark.parametrize("moment", Moment)
def test_a_status_of_ones_own(
    app: AppClient, forge: Forge, point: Point, method: str, path: str, moment: Moment
) -> None:
    fault = Fault(503, b"sorry", headers={"Retry-After": "7"}, moment=moment, times=1)
    forge.faults.set(point, fault)
    answer = app.ask(method, path)
    assert (answer.status_code, answer.content, answer.headers["Retry-After"]) == (503, b"sorry", "7")
    assert app.ask(method, path).status_code != 503
    assert forge.tokens.minted == () or point is Point.MINT


def test_answers_that_break_off(app: AppClient, forge: Forge) -> None:
    for fault in (Fault(cut_answer=0), Fault(cut_answer=5)):
        forge.faults.set(Point.FIND, fault)
        with pytest.raises(httpx.RemoteProtocolError):
            app.ask("GET", f"{WIDGET}/installation")
    forge.faults.set(Point.FIND, Fault(end_answer=5))
    assert app.ask("GET", f"{WIDGET}/installation").content == b'{"id"'


def test_redirects(app: AppClient, forge: Forge) -> None:
    forge.faults.set(Point.MINT, redirect("http://elsewhere.test/", 307))
    answer = minted(app, {})
    assert (answer.status_code, answer.headers["Location"]) == (307, "http://elsewhere.test/")


@pytest.mark.usefixtures("neighbours")
def test_an_echo_that_lies(app: AppClient, forge: Forge) -> None:
    forge.faults.echo_permissions = {"contents": "write", "administration": "write"}
    forge.faults.echo_repositories = ("acme/gadget",)
    value = minted(app, {"repositories": ["widget"], "permissions": {"contents": "read"}}).json()
    assert value["permissions"] == {"contents": "write", "administration": "write"}
    assert [item["name"] for item in value["repositories"]] == ["gadget"]
    assert forge.tokens.minted[0].kind is Credential.READ


def test_a_client_without_a_name(forge: Forge) -> None:
    answer = httpx.get(f"{forge.api_url}{WIDGET}", headers={"User-Agent": ""}, trust_env=False)
    assert message(answer) == (403, "Request forbidden by administrative rules.")
