"""The GitHub half of a session: what it has with and without GitHub, and the order in which it ends."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.api.agent import close_agent_api, serve_agent_api
from gateway.approvals import Approvals
from gateway.audit import AuditLog
from gateway.credentials.broker import OPENING
from gateway.credentials.private_key import PrivateKeyFile
from gateway.errors import AuditError, GatewayError
from gateway.forge.faults import Fault, Moment, Point
from gateway.forge.server import Forge
from gateway.github_half import GitHubHalf, github_half, read_app_key
from gateway.policy.repositories import SessionRepositories
from gateway.push_authorizer import PushAuthorizer
from gateway.session import Mode, SandboxStamp, Session, Sessions
from tests.fakes.config_files import load
from tests.fakes.forge import Git, new_worktree, open_forge
from tests.fakes.github import names
from tests.fakes.raw_push import RECEIVE, TYPE, ZERO, good_pack, section
from tests.fakes.rules import rules_for

NAME = "acme/widget"
SECRET = "a-secret-of-the-session"
RULES = 'rules:\n- {action: push, decision: allow, refs: ["agent/**"]}\n'
REFS = f"/git/github.com/{NAME}.git/info/refs?service=git-receive-pack"


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Forge]:
    with open_forge(tmp_path) as opened:
        opened.create_repository(NAME)
        yield opened


@dataclass
class Machine:
    """What `run` has when it opens the half. `left` are the lines that it would print at the end."""

    folder: Path
    forge: Forge
    app: bool = True
    network: bool = True
    mode: Mode = Mode.CHAT
    api_url: str = ""
    left: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log = AuditLog(self.folder / "audit")
        self.key = self.folder / "app.pem"
        self.number, pem = self.forge.create_app()
        self.key.touch(mode=0o600)
        self.key.write_text(pem)

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.path.read_text("utf-8").splitlines()]

    @property
    def events(self) -> list[tuple[str, str]]:
        """Event, and state and kind of a token's."""
        tokens = {"token": "{state} {kind}"}
        return [(one["event"], tokens.get(one["event"], "").format_map(one)) for one in self.records]

    def config(self) -> str:
        app = f"app_id: {self.number}, private_key_file: {self.key}" if self.app else "app_id: null"
        api_url = self.api_url or self.forge.api_url
        return f"github: {{url: '{self.forge.url}', api_url: '{api_url}', {app}}}\n{RULES}"

    @asynccontextmanager
    async def opened(
        self, own: Sequence[str] = (NAME,), linked: Sequence[str] = (), opening: float = OPENING
    ) -> AsyncIterator["Opened"]:
        """The half, served as `run` serves it."""
        config = load(self.folder, self.config())
        rules = replace(rules_for(), network=self.network)
        session = Session(
            "s1", SandboxStamp("none", "none"), rules, SECRET, mode=self.mode, rules=config.rule_set
        )
        sessions = Sessions()
        sessions.add(session)
        door = PushAuthorizer(self.log, Approvals(self.log, time.monotonic), lambda: datetime.now(UTC))
        repositories = SessionRepositories(tuple(names(*own)), tuple(names(*linked)))
        authority = self.forge.url.removeprefix("http://")
        async with github_half(
            config, read_app_key(config), session, sessions, door, repositories, authority, self.folder, self.left,
            opening=opening,
        ) as half:  # fmt: skip
            listening = socket.create_server(("127.0.0.1", 0))
            server = serve_agent_api(listening, half.routes, malformed=half.malformed)
            try:
                yield Opened(half, listening.getsockname()[1])
            finally:
                await close_agent_api(server)
                listening.close()


@dataclass(frozen=True)
class Opened:
    """A half that is served on a port."""

    half: GitHubHalf
    port: int

    async def get(self, path: str = REFS) -> tuple[int, str]:
        """Status and text of an answer."""
        headers = {"X-Agent-Gateway-Session": SECRET}
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            answer = await client.get(f"http://127.0.0.1:{self.port}{path}", headers=headers)
        return answer.status_code, answer.text.strip()

    async def push(self, git: Git) -> "asyncio.subprocess.Process":
        """A push of HEAD to agent/one, which goes on."""
        url = f"http://127.0.0.1:{self.port}/git/github.com/{NAME}.git"
        git.settings["http.extraHeader"] = f"X-Agent-Gateway-Session: {SECRET}"
        return await asyncio.create_subprocess_exec(
            "git", "-C", str(git.folder), "push", "-q", url, "HEAD:refs/heads/agent/one", env=git.variables(),
            stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip

    async def flood(self) -> asyncio.StreamWriter:
        """A push by hand of more than anybody takes; returns when nobody takes any more of it."""
        new, data = good_pack("one")
        body = section((ZERO, new, "refs/heads/agent/one")) + data + bytes(64 << 20)
        lines = [
            f"POST {RECEIVE} HTTP/1.1",
            f"Host: 127.0.0.1:{self.port}",
            f"X-Agent-Gateway-Session: {SECRET}",
            TYPE,
            "Transfer-Encoding: chunked",
        ]
        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write("\r\n".join([*lines, "", f"{len(body):x}", ""]).encode() + body)
        left = 0
        while left != (left := writer.transport.get_write_buffer_size()) or left > (60 << 20):
            await asyncio.sleep(0.1)
        return writer


def in_machine(
    tmp_path: Path, forge: Forge, scenario: Callable[[Machine], Coroutine[Any, Any, None]], **options: Any
) -> Machine:
    """Runs the scenario; no token outlives it."""
    machine = Machine(tmp_path, forge, **options)
    asyncio.run(scenario(machine))
    return machine


# --- What there is --------------------------------------------------------------------------------


def test_all_is_well(tmp_path: Path, forge: Forge) -> None:
    async def scenario(machine: Machine) -> None:
        async with machine.opened() as opened:
            [token] = forge.tokens.live
            assert opened.half.read_token == token.value
            assert token.value not in repr(opened.half)
            assert opened.half.notes == ()
            assert (await opened.get())[0] == 200
        assert not forge.tokens.live
        assert machine.events == [("token", "minted read"), ("token", "revoked read")]
        assert machine.left == []

    in_machine(tmp_path, forge, scenario)


def test_without_an_app(tmp_path: Path, forge: Forge) -> None:
    """All of it is there, says what is missing, and asks GitHub nothing."""

    async def scenario(machine: Machine) -> None:
        async with machine.opened() as opened:
            assert (opened.half.read_token, opened.half.notes) == ("", ())
            status, said = await opened.get()
            assert status == 403
            assert said.endswith(
                "set github.app_id and github.private_key_file in the gateway's configuration"
            )
        assert [one["code"] for one in machine.records] == ["no_app"]
        assert len(forge.requests) == 0

    in_machine(tmp_path, forge, scenario, app=False)


def test_without_an_app_where_one_would_change_nothing(tmp_path: Path, forge: Forge) -> None:
    """The mode is the reason then."""

    async def scenario(machine: Machine) -> None:
        async with machine.opened() as opened:
            status, said = await opened.get()
            assert (status, said.endswith("the mode review only reads, so nothing is pushed")) == (
                403,
                True,
            ), said
        assert [one["code"] for one in machine.records] == ["denied"]

    in_machine(tmp_path, forge, scenario, app=False, mode=Mode.REVIEW)


def test_without_a_network(tmp_path: Path, forge: Forge) -> None:
    async def scenario(machine: Machine) -> None:
        async with machine.opened() as opened:
            assert (opened.half.read_token, opened.half.notes) == ("", ())
            assert (await opened.get())[0] == 403
        assert [one["code"] for one in machine.records] == ["network_off"]
        assert len(forge.requests) == 0

    in_machine(tmp_path, forge, scenario, network=False)


def test_outside_any_repository(tmp_path: Path, forge: Forge) -> None:
    async def scenario(machine: Machine) -> None:
        async with machine.opened(own=()) as opened:
            assert (opened.half.read_token, opened.half.notes) == ("", ())
            assert (await opened.get())[0] == 403
        assert [one["code"] for one in machine.records] == ["not_linked"]
        assert len(forge.requests) == 0

    in_machine(tmp_path, forge, scenario)


@pytest.mark.parametrize(
    ("own", "linked", "of"),
    [
        (["acme/widget", "other/gadget"], [], "acme/widget"),
        (["other/gadget", "acme/widget"], [], "other/gadget"),
        # Not the App's: the next of the worktree's own, and never one that is only linked.
        (["acme/none", "other/gadget"], ["acme/widget"], "other/gadget"),
        (["acme/none"], ["acme/widget"], ""),
        ([], ["acme/widget"], ""),
    ],
)
def test_whose_token_is_the_session_s(
    tmp_path: Path, forge: Forge, own: list[str], linked: list[str], of: str
) -> None:
    forge.create_repository("other/gadget")

    async def scenario(machine: Machine) -> None:
        async with machine.opened(own, linked) as opened:
            token = forge.tokens.find(opened.half.read_token)
            repository = forge.repositories.find(of)
            if repository is None:
                assert token is None
            else:
                assert token is not None and token.reaches(repository)
            missing = [note for note in opened.half.notes if "no GitHub token for acme/none: " in note]
            assert len(missing) == ("acme/none" in own)
        assert not forge.tokens.live

    in_machine(tmp_path, forge, scenario)


# --- The key --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (None, 0o600, "cannot be read: No such file or directory"),
        ("", 0o600, "holds no private key in PEM form"),
        ("-----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----\n", 0o600, "holds no private key"),
    ],
)
def test_a_key_that_cannot_be_used(
    tmp_path: Path, forge: Forge, content: str | None, mode: int, said: str
) -> None:
    machine = Machine(tmp_path, forge)
    config = load(tmp_path, machine.config())
    machine.key.unlink()
    if content is not None:
        machine.key.write_text(content)
        machine.key.chmod(mode)
    with pytest.raises(GatewayError) as caught:
        read_app_key(config)
    assert f"the private key file {machine.key} {said}" in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_key_that_others_can_read(tmp_path: Path, forge: Forge) -> None:
    async def scenario(machine: Machine) -> None:
        machine.key.chmod(0o644)
        async with machine.opened() as opened:
            [note] = opened.half.notes
            assert note.endswith(
                f"is open to other users of this machine (mode 0644): chmod 600 {machine.key}"
            )
            assert opened.half.read_token

    in_machine(tmp_path, forge, scenario)


def test_no_app_needs_no_key(tmp_path: Path, forge: Forge) -> None:
    machine = Machine(tmp_path, forge, app=False)
    assert read_app_key(load(tmp_path, machine.config())) is None
    machine.app = True
    assert isinstance(read_app_key(load(tmp_path, machine.config())), PrivateKeyFile)


# --- GitHub in trouble ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("point", "fault", "sentence"),
    [
        (None, None, "GitHub cannot be reached"),
        (Point.FIND, Fault(404, b"{}"), "the GitHub App is not installed for acme/widget"),
        (Point.FIND, Fault(200, b"{}"), "GitHub's answer cannot be understood"),
        (Point.MINT, Fault(403, b"{}"), "the GitHub App is suspended for acme"),
        (Point.MINT, Fault(cut_answer=1), "the connection to GitHub broke"),
    ],
)
def test_opening_without_github(
    tmp_path: Path, forge: Forge, point: Point | None, fault: Fault | None, sentence: str
) -> None:
    """It opens, without a token, says so and records it; pushes are told the same, as GitHub's trouble."""

    async def scenario(machine: Machine) -> None:
        if point is None:
            machine.api_url = "http://127.0.0.1:1"
        else:
            forge.faults.set(point, fault)
        async with machine.opened() as opened:
            assert opened.half.read_token == ""
            [note] = opened.half.notes
            assert note.startswith(f"no GitHub token for {NAME}: {sentence}")
            status, said = await opened.get()
            assert status == 503
            assert said.startswith(f"Control Center: {NAME} cannot be pushed to: {sentence}")
        [failed] = [one for one in machine.records if one["event"] == "token"]
        assert failed["state"] == "mint_failed"
        assert failed["reason"].startswith(sentence)
        assert machine.left == []

    in_machine(tmp_path, forge, scenario)


def test_a_token_for_more_than_was_asked_for(tmp_path: Path, forge: Forge) -> None:
    """It is nobody's, and revoked at once."""

    async def scenario(machine: Machine) -> None:
        forge.faults.echo_permissions = {"contents": "write", "metadata": "read"}
        async with machine.opened() as opened:
            assert opened.half.read_token == ""
            assert "GitHub's answer to the request for a token is refused" in opened.half.notes[0]
            assert [token.revoked for token in forge.tokens.minted] == [True]
        assert machine.events == [("token", "minted read"), ("token", "revoked read")]

    in_machine(tmp_path, forge, scenario)


def test_a_github_that_is_slow_is_not_waited_for(tmp_path: Path, forge: Forge) -> None:
    """Neither for its answer nor, once more, for the token of one's own repository. What comes late is used, and
    revoked at the end like any other."""

    async def scenario(machine: Machine) -> None:
        forge.faults.set(Point.FIND, Fault(503, headers={"Retry-After": "1"}, times=1))
        async with machine.opened(opening=0.0) as opened:
            assert opened.half.read_token == ""
            assert opened.half.notes == (f"no GitHub token for {NAME}: GitHub did not answer in time",)
            assert not forge.tokens.minted
            assert (await opened.get())[0] == 200
        assert machine.events == [("token", "minted read"), ("token", "revoked read")]
        assert not forge.tokens.live

    in_machine(tmp_path, forge, scenario)


def test_a_token_that_cannot_be_recorded_opens_nothing(tmp_path: Path, forge: Forge) -> None:
    async def scenario(machine: Machine) -> None:
        machine.log.close()
        with pytest.raises(AuditError):
            async with machine.opened():
                raise AssertionError("it opened")
        assert len(forge.tokens.minted) == 1
        assert not forge.tokens.live

    in_machine(tmp_path, forge, scenario)


# --- The end --------------------------------------------------------------------------------------


def test_the_order_of_the_end(tmp_path: Path, forge: Forge) -> None:
    """Pushes are cut, with their tokens and records; then the tokens to read are revoked; nothing comes after that."""
    git = new_worktree(tmp_path / "work", "none")
    git.commit()

    async def scenario(machine: Machine) -> None:
        forge.faults.set(Point.RECEIVE, Fault(stall_answer=0))
        async with machine.opened() as opened:
            pushing = await opened.push(git)
            while not any(seen.method == "POST" and "receive" in seen.path for seen in forge.requests):
                await asyncio.sleep(0)
        assert await pushing.wait() != 0
        assert machine.events == [
            ("token", "minted read"),
            ("token", "minted write"),
            ("token", "revoked write"),
            ("push", ""),
            ("token", "revoked read"),
        ]
        assert machine.records[3]["refs"][0]["ref"] == "refs/heads/agent/one"
        assert not forge.tokens.live
        assert machine.left == []

    in_machine(tmp_path, forge, scenario)


def test_a_push_that_github_does_not_take(tmp_path: Path, forge: Forge) -> None:
    """With all buffers full, nobody reads from anybody. It ends all the same, also where the listener goes first."""

    async def scenario(machine: Machine) -> None:
        forge.faults.set(Point.RECEIVE, Fault(stall=True, moment=Moment.ABRUPT))
        async with machine.opened() as opened:
            writer = await opened.flood()
        [push] = [one for one in machine.records if one["event"] == "push"]
        assert push["refs"][0]["status"].startswith("the session was closed")
        assert machine.events[-1] == ("token", "revoked read")
        assert not forge.tokens.live
        writer.transport.abort()

    in_machine(tmp_path, forge, scenario)


def test_what_lives_on_is_said(tmp_path: Path, forge: Forge) -> None:
    async def scenario(machine: Machine) -> None:
        forge.faults.set(Point.REVOKE, Fault(500))
        async with machine.opened():
            [token] = forge.tokens.live
        [line] = machine.left
        assert line == (
            f"a GitHub token (read) for {NAME} could not be revoked; it ends by itself at "
            f"{token.expires:%Y-%m-%dT%H:%M:%SZ}"
        )
        assert machine.events[-1] == ("token", "revoke_failed read")

    in_machine(tmp_path, forge, scenario)


@pytest.mark.parametrize("error", [RuntimeError("a fault in the gateway"), asyncio.CancelledError()])
def test_whatever_ends_it(tmp_path: Path, forge: Forge, error: BaseException) -> None:
    async def scenario(machine: Machine) -> None:
        with pytest.raises(type(error)):
            async with machine.opened():
                raise error
        assert machine.events[-1] == ("token", "revoked read")
        assert not forge.tokens.live

    in_machine(tmp_path, forge, scenario)


def test_a_half_that_is_over_gives_nothing(tmp_path: Path, forge: Forge) -> None:
    """Should its routes be served a moment longer."""

    async def scenario(machine: Machine) -> None:
        async with machine.opened() as opened:
            routes = opened.half.routes
        listening = socket.create_server(("127.0.0.1", 0))
        server = serve_agent_api(listening, routes)
        over = Opened(opened.half, listening.getsockname()[1])
        with pytest.raises(httpx.RemoteProtocolError):
            await over.get()
        await close_agent_api(server)
        listening.close()
        assert len(forge.tokens.minted) == 1

    in_machine(tmp_path, forge, scenario)
