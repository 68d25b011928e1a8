"""GitHub's git endpoints: what is sent there, and what is understood of the answers."""

import asyncio
import base64
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from gateway.credentials.client import make_client
from gateway.credentials.token import Repository, Token, TokenKind
from gateway.policy.repositories import parse_repository
from gateway.push import upstream as upstream_module
from gateway.push.pkt import FLUSH, pkt, sideband
from gateway.push.report import ReportParser, UpstreamReport
from gateway.push.upstream import UNKNOWN, Upstream, UpstreamError
from tests.fakes.web import Answer, Request, Web

WIDGET = Repository(7, parse_repository("acme/widget"), 1)
TOKEN = Token(TokenKind.WRITE, (WIDGET,), {}, datetime.now(UTC) + timedelta(hours=1), "ghs_secret")
UPLOAD_REFS = {"Content-Type": "application/x-git-upload-pack-advertisement"}
RECEIVE_REFS = {"Content-Type": "application/x-git-receive-pack-advertisement"}
RESULT = {"Content-Type": "application/x-git-receive-pack-result"}
OK = b"".join(sideband(1, pkt(b"unpack ok\n") + pkt(b"ok refs/heads/x\n") + FLUSH)) + FLUSH


class Seen:
    """What came to the server, and how often somebody waited."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.bodies: list[bytes] = []
        self.pauses: list[float] = []


def against[T](answers: list[Answer], work: Callable[[Upstream], Coroutine[Any, Any, T]]) -> tuple[T, Seen]:
    """Does the work with a server that gives these answers, the last one for ever."""
    seen = Seen()

    def answer(request: Request) -> Answer:
        seen.requests.append(request)
        seen.bodies.append(b"".join(request.body))
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def pause(seconds: float) -> None:
        seen.pauses.append(seconds)

    async def main(url: str) -> T:
        async with make_client({}, None) as client:
            return await work(Upstream(client, url, pause))

    with Web({"acme": answer}) as web:
        return asyncio.run(main(f"http://127.0.0.1:{web.port}")), seen


async def body(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def hear(text: str) -> None:
    heard.append(text)


heard: list[str] = []


def push(
    *pieces: bytes, length: int | None = None
) -> Callable[[Upstream], Coroutine[Any, Any, UpstreamReport]]:
    heard.clear()
    return lambda upstream: upstream.push(
        WIDGET, TOKEN, body(*pieces), length, ReportParser(["refs/heads/x"]), hear
    )


# --- What is sent ---------------------------------------------------------------------------------


def test_requests_are_made_from_nothing() -> None:
    _, seen = against([Answer(OK, 200, RESULT)], push(b"com", b"mands"))
    [request] = seen.requests
    assert (request.method, request.path) == ("POST", "/acme/widget.git/git-receive-pack")
    assert seen.bodies == [b"commands"]
    fields = {name.lower(): value for name, value in request.fields.items()}
    assert fields.pop("host").startswith("127.0.0.1:")
    assert fields.pop("user-agent").startswith("git/agent-gateway/")
    assert fields.pop("connection", "keep-alive") == "keep-alive"
    assert fields == {
        "authorization": "Basic " + base64.b64encode(b"x-access-token:ghs_secret").decode(),
        "content-type": "application/x-git-receive-pack-request",
        "accept": "application/x-git-receive-pack-result",
        "accept-encoding": "identity",
        "transfer-encoding": "chunked",
    }


def test_a_known_length_is_announced() -> None:
    _, seen = against([Answer(OK, 200, RESULT)], push(b"com", b"mands", length=8))
    fields = {name.lower(): value for name, value in seen.requests[0].fields.items()}
    assert (fields["content-length"], "transfer-encoding" in fields) == ("8", False)


# --- Reports --------------------------------------------------------------------------------------


def test_a_report_and_text() -> None:
    report, _ = against([Answer(b"".join(sideband(2, b"hello\n")) + OK, 200, RESULT)], push(b"x"))
    assert [(status.ref, status.ok) for status in report.statuses] == [("refs/heads/x", True)]
    assert heard == ["hello\n"]


def test_text_without_end_of_line() -> None:
    against([Answer(b"".join(sideband(2, b"hello")) + OK, 200, RESULT)], push(b"x"))
    assert heard == ["hello"]


# --- Formats --------------------------------------------------------------------------------------


def capabilities(*lines: bytes) -> Answer:
    return Answer(b"".join(pkt(line + b"\n") for line in lines) + FLUSH, 200, UPLOAD_REFS)


@pytest.mark.parametrize(
    ("lines", "object_format"),
    [
        ((b"version 2", b"agent=git/2", b"object-format=sha256"), "sha256"),
        ((b"version 2", b"object-format=sha1"), "sha1"),
        ((b"version 2", b"agent=git/2"), "sha1"),
        ((b"# service=git-upload-pack", b"version 2", b"object-format=sha256"), "sha256"),
    ],
)
def test_formats(lines: tuple[bytes, ...], object_format: str) -> None:
    found, seen = against([capabilities(*lines)], lambda upstream: upstream.object_format(WIDGET, TOKEN))
    assert found == object_format
    assert seen.requests[0].fields["Git-Protocol"] == "version=2"


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (capabilities(b"version 1"), "GitHub does not speak version 2 of git's protocol"),
        (Answer(b"", 200, UPLOAD_REFS), "GitHub's answer is cut off"),
        (
            Answer(pkt(b"version 2\n") + pkt(b"object-format=sha256\n")[:9], 200, UPLOAD_REFS),
            "GitHub's answer is cut off",
        ),
        (Answer(b"zzzz", 200, UPLOAD_REFS), "GitHub's answer cannot be read"),
        (Answer(pkt(b"x" * 60_000) * 3, 200, UPLOAD_REFS), "GitHub's answer is too long"),
        (Answer(b"", 200, {"Content-Type": "text/html"}), "GitHub's answer is not one of git's"),
        (Answer(b"", 503, {}), "GitHub is in trouble (status 503)"),
        (
            Answer(b"\x1b[2Jghs_abcdefghijklmnop says no\nmore", 403, {"Content-Type": "text/plain"}),
            "GitHub refused the push (status 403): \\x1b[2J*** says no",
        ),
        (Answer(b"<b>no</b>", 403, {"Content-Type": "text/html"}), "GitHub refused the push (status 403)"),
    ],
)
def test_answers_that_are_none(answer: Answer, sentence: str) -> None:
    async def work(upstream: Upstream) -> str:
        with pytest.raises(UpstreamError) as caught:
            await upstream.object_format(WIDGET, TOKEN)
        assert not caught.value.unknown
        return caught.value.sentence

    found, _ = against([answer], work)
    assert found == sentence


# --- Greetings ------------------------------------------------------------------------------------


def greeting(line: bytes, *more: bytes) -> Answer:
    data = pkt(b"# service=git-receive-pack\n") + FLUSH + pkt(line) + b"".join(map(pkt, more)) + FLUSH
    return Answer(data, 200, RECEIVE_REFS)


@pytest.mark.parametrize(
    ("answer", "offered"),
    [
        (
            greeting(b"1" * 40 + b" refs/heads/x\0report-status atomic agent=x\n"),
            {"report-status", "atomic", "agent"},
        ),
        (greeting(b"0" * 40 + b" capabilities^{}\0quiet\n"), {"quiet"}),
        (
            greeting(b"1" * 40 + b" refs/heads/x\0atomic\n", *[b"1" * 40 + b" refs/heads/y\n"] * 9000),
            {"atomic"},
        ),
    ],
    ids=["refs", "empty", "many"],
)
def test_greetings(answer: Answer, offered: set[str]) -> None:
    found, _ = against([answer], lambda upstream: upstream.greet(WIDGET, TOKEN))
    assert found == offered


def test_a_token_not_known_yet() -> None:
    answers = [Answer(b"", 404, {}), Answer(b"", 401, {}), greeting(b"1" * 40 + b" refs/heads/x\0atomic\n")]
    found, seen = against(answers, lambda upstream: upstream.greet(WIDGET, TOKEN))
    assert found == {"atomic"}
    assert seen.pauses == [3.0, 9.0]


@pytest.mark.parametrize(("status", "tries"), [(401, 3), (404, 3), (403, 1), (500, 1)])
def test_how_often_is_asked(status: int, tries: int) -> None:
    async def work(upstream: Upstream) -> int:
        with pytest.raises(UpstreamError) as caught:
            await upstream.greet(WIDGET, TOKEN)
        return caught.value.status

    found, seen = against([Answer(b"", status, {})], work)
    assert (found, len(seen.requests)) == (status, tries)


# --- No answer ------------------------------------------------------------------------------------


def test_nobody_there() -> None:
    """Nothing was sent, so the outcome is known."""

    async def main() -> UpstreamError:
        async with make_client({}, None) as client:
            with pytest.raises(UpstreamError) as caught:
                await push(b"x")(Upstream(client, "http://127.0.0.1:1"))
            return caught.value

    error = asyncio.run(main())
    assert (error.sentence, error.unknown) == ("GitHub cannot be reached", False)
    assert error.__cause__ is None


def test_an_answer_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a limit for the whole of it, however many signs of life it gives."""
    monkeypatch.setattr(upstream_module, "_SHORT", 0.2)
    monkeypatch.setattr(upstream_module, "_WHOLE", 0.2)
    over = threading.Event()

    def dripping() -> Iterator[bytes]:
        while not over.wait(0.05):
            yield b"0005\2"

    async def greet(upstream: Upstream) -> str:
        with pytest.raises(UpstreamError) as caught:
            await upstream.greet(WIDGET, TOKEN)
        return caught.value.sentence

    async def push_on(upstream: Upstream) -> str:
        found = await push(b"x")(upstream)
        return found.statuses[0].reason

    try:
        for work, fields, said in (
            (greet, RECEIVE_REFS, "GitHub did not answer in time"),
            (push_on, RESULT, f"GitHub did not answer in time: {UNKNOWN}"),
        ):
            found, _ = against([Answer(dripping(), 200, fields)], work)
            assert found == said
    finally:
        over.set()


def test_errors_show_no_token() -> None:
    async def main() -> UpstreamError:
        async with httpx.AsyncClient(timeout=0.05, trust_env=False) as client:
            held: list[asyncio.StreamWriter] = []
            server = await asyncio.start_server(lambda reading, writing: held.append(writing), "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(UpstreamError) as caught:
                await Upstream(client, f"http://127.0.0.1:{port}").greet(WIDGET, TOKEN)
            held[0].close()
            server.close()
            return caught.value

    error = asyncio.run(main())
    assert error.sentence == "GitHub did not answer in time"
    assert "ghs_" not in repr(error) and error.__cause__ is None


def test_a_body_that_fails_is_not_a_fault_of_github() -> None:
    class Gone(Exception):
        pass

    async def failing() -> AsyncIterator[bytes]:
        yield b"x"
        raise Gone

    async def work(upstream: Upstream) -> None:
        with pytest.raises(Gone):
            await upstream.push(WIDGET, TOKEN, failing(), None, ReportParser(["refs/heads/x"]), hear)

    against([Answer(OK, 200, RESULT)], work)


def test_what_may_have_happened_is_said() -> None:
    async def work(upstream: Upstream) -> UpstreamError:
        with pytest.raises(UpstreamError) as caught:
            await push(b"x")(upstream)
        return caught.value

    error, _ = against([Answer(b"", 502, {})], work)
    assert error.unknown and error.sentence.endswith(UNKNOWN)
    error, _ = against([Answer(b"", 413, {})], work)
    assert not error.unknown and UNKNOWN not in error.sentence
