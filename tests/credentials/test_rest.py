"""A call's bounds: tries, waits, sizes and deadlines; and that no error quotes what was sent."""

import asyncio
import gzip
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from gateway.credentials.client import make_client
from gateway.credentials.rest import MAX_ANSWER, Answer, GitHubError, Rest, shown
from tests.fakes import web
from tests.fakes.github import Sleeps, plain_client, run, told
from tests.fakes.web import Request, Web

SECRET = "ghs_" + "s3cr3T" * 6


@dataclass(frozen=True)
class Secret:
    """Authorises a request."""

    value: str = field(default=SECRET, repr=False)

    def bearer(self) -> str:
        return f"Bearer {self.value}"


class Script:
    """Answers one after the other, the last one for ever; an exception breaks the connection."""

    def __init__(self, *answers: web.Answer | Exception) -> None:
        self._answers = list(answers)
        self.seen: list[Request] = []

    def __call__(self, request: Request) -> web.Answer:
        self.seen.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def call(
    route: Callable[[Request], web.Answer], method: str = "GET", *, body: object = None, attempts: int = 3
) -> tuple[Answer | GitHubError, list[float]]:
    """What comes of a call, and the waits in between."""
    sleeps = Sleeps()

    async def ask(url: str) -> Answer | GitHubError:
        async with plain_client() as client:
            rest = Rest(client, f"{url}/api", sleep=sleeps, deadline=30)
            try:
                return await rest.call(method, "/x", Secret(), body=body, attempts=attempts)
            except GitHubError as error:
                return error

    with Web({"api": route}) as served:
        return run(ask(f"http://127.0.0.1:{served.port}")), sleeps.asked


def status(code: int, **headers: str) -> web.Answer:
    return web.Answer(b"{}", code, {name.replace("_", "-"): value for name, value in headers.items()})


def test_request() -> None:
    script = Script(web.Answer(b'{"a": 1}', 201, {"X-One": "two"}))
    answer, waits = call(script, "POST", body={"b": [2]})
    assert isinstance(answer, Answer)
    assert (answer.status, answer.headers["x-one"], answer.body, waits) == (201, "two", b'{"a": 1}', [])
    (seen,) = script.seen
    assert (seen.method, seen.path) == ("POST", "/api/x")
    assert seen.fields["Authorization"] == f"Bearer {SECRET}"
    assert seen.fields["Accept"] == "application/vnd.github+json"
    assert seen.fields["X-GitHub-Api-Version"] == "2022-11-28"
    assert seen.fields["Accept-Encoding"] == "identity"
    assert seen.fields["User-Agent"] == "agent-gateway"
    assert "body" not in repr(answer)


LATER = "rate limit is used up"
TROUBLE = "GitHub is in trouble"

# Answers, status that comes out or words of the error, waits in between.
TRIES: list[tuple[str, list[web.Answer | Exception], int | str, list[float]]] = [
    ("good", [status(200)], 200, []),
    ("not there", [status(404)], 404, []),
    ("no", [status(403)], 403, []),
    ("redirect", [status(301, Location="/api/y")], 301, []),
    ("trouble that passes", [status(503), status(502), status(200)], 200, [1, 3]),
    ("trouble that stays", [status(500)], TROUBLE, [1, 3]),
    ("trouble with a date", [status(503, Retry_After="2"), status(200)], 200, [2]),
    ("trouble for long", [status(503, Retry_After="11")], TROUBLE, []),
    ("limit", [status(429), status(200)], 200, [1]),
    ("limit, bounded", [status(429, Retry_After="10"), status(200)], 200, [10]),
    ("limit for long", [status(429, Retry_After="3600")], LATER, []),
    ("limit, at once", [status(429, Retry_After="0"), status(200)], 200, [0]),
    ("limit that stays", [status(429, Retry_After="1")], LATER, [1, 1]),
    ("secondary limit", [status(403, Retry_After="5"), status(200)], 200, [5]),
    ("hour is used up", [status(403, X_RateLimit_Remaining="0")], LATER, []),
    ("hour is not used up", [status(403, X_RateLimit_Remaining="1")], 403, []),
    ("a date", [status(503, Retry_After="Wed, 21 Oct 2026 07:28:00 GMT"), status(200)], 200, [1]),
    ("negative", [status(503, Retry_After="-5"), status(200)], 200, [1]),
    ("digits of another script", [status(503, Retry_After="²"), status(200)], 200, [1]),
    ("endless number", [status(503, Retry_After="9" * 5000), status(200)], 200, [1]),
    ("connection breaks once", [EOFError(), status(200)], 200, []),
    ("connection breaks always", [EOFError()], "the connection to GitHub broke", []),
]


@pytest.mark.parametrize(
    ("answers", "outcome", "waits"), [row[1:] for row in TRIES], ids=[row[0] for row in TRIES]
)
def test_tries(answers: list[web.Answer | Exception], outcome: int | str, waits: list[float]) -> None:
    script = Script(*answers)
    answer, waited = call(script)
    if isinstance(outcome, int):
        assert isinstance(answer, Answer)
        assert answer.status == outcome
    else:
        assert isinstance(answer, GitHubError)
        assert outcome in answer.sentence
        assert SECRET not in told(answer)
    assert waited == waits
    assert len(script.seen) <= 3


def test_one_attempt() -> None:
    script = Script(status(503), status(200))
    answer, waits = call(script, attempts=1)
    assert isinstance(answer, GitHubError)
    assert (len(script.seen), waits, answer.status) == (1, [], 503)


def endless() -> Iterator[bytes]:
    while True:
        yield b" " * 65536


def test_answer_has_a_longest_size() -> None:
    whole, _ = call(Script(web.Answer(b"x" * MAX_ANSWER)))
    assert isinstance(whole, Answer)
    assert len(whole.body) == MAX_ANSWER
    for body in (b"x" * (MAX_ANSWER + 1), endless()):
        answer, _ = call(Script(web.Answer(body)))
        assert isinstance(answer, GitHubError)
        assert "too long" in answer.sentence


@pytest.mark.parametrize("encoding", ["gzip", "br", "GZIP", "identity, gzip"])
def test_compressed_answer_is_not_blown_up(encoding: str) -> None:
    answer, _ = call(Script(web.Answer(gzip.compress(b" " * 10), fields={"Content-Encoding": encoding})))
    assert isinstance(answer, GitHubError)
    assert "compressed" in str(answer)


def failing(bearer: Secret, url: str, names: Mapping[str, str], deadline: float = 30) -> GitHubError:
    async def ask() -> GitHubError:
        async with make_client(names, None) as client:
            with pytest.raises(GitHubError) as caught:
                await Rest(client, url, sleep=Sleeps(), deadline=deadline).call("POST", "/x", bearer, body={})
            return caught.value

    return run(ask())


def test_deadline() -> None:
    over = threading.Event()

    def stall(_: Request) -> web.Answer:
        over.wait()
        return status(200)

    with Web({"api": stall}) as served:
        error = failing(Secret(), f"http://127.0.0.1:{served.port}/api", {}, 0.05)
        over.set()
    assert error.sentence == "GitHub did not answer in time"
    assert SECRET not in told(error)


def test_deadline_holds_for_an_answer_that_drips() -> None:
    over = threading.Event()

    def drip() -> Iterator[bytes]:
        while not over.wait(0.01):
            yield b" "

    with Web({"api": Script(web.Answer(drip()))}) as served:
        error = failing(Secret(), f"http://127.0.0.1:{served.port}/api", {}, 0.1)
        over.set()
    assert error.sentence == "GitHub did not answer in time"


def test_unreachable() -> None:
    error = failing(Secret(), "http://forge.test:1/api", {"forge.test": "127.0.0.1"})
    assert error.sentence == "GitHub cannot be reached"
    assert error.status == 0
    assert "forge.test" not in error.sentence
    assert str(error) == "GitHub cannot be reached: http://forge.test:1/api: All connection attempts failed"
    assert SECRET not in told(error)


@pytest.mark.parametrize("value", [SECRET + "\n", f"x\r\nX-Evil: {SECRET}", SECRET + "\x00"])
def test_library_that_quotes_the_header_is_not_quoted(value: str) -> None:
    """h11's error for a header that cannot be sent has the header in its text."""
    with Web({"api": Script(status(200))}) as served:
        error = failing(Secret(value), f"http://127.0.0.1:{served.port}/api", {})
        assert served.requests == []
    assert error.__cause__ is error.__context__ is None
    assert "s3cr3T" not in told(error)


def test_cancelled_is_cancelled() -> None:
    async def ask() -> None:
        arrived, over = threading.Event(), threading.Event()

        def stall(_: Request) -> web.Answer:
            arrived.set()
            over.wait()
            return status(200)

        with Web({"api": stall}) as served:
            async with plain_client() as client:
                rest = Rest(client, f"http://127.0.0.1:{served.port}/api", sleep=Sleeps(), deadline=30)
                task = asyncio.create_task(rest.call("GET", "/x", Secret()))
                await asyncio.to_thread(arrived.wait)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            over.set()

    run(ask())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Not Found", "Not Found"),
        ("a\nb\x1b[31m", "a\\nb\\x1b[31m"),
        (f"token {SECRET} is bad", "token *** is bad"),
        ("x" * 300, "x" * 197 + "..."),
        ("\u202eabc", "\\u202eabc"),
    ],
)
def test_words_of_somebody_else(text: str, line: str) -> None:
    assert shown(text) == line


def test_error_shows_an_agent_less_than_the_operator() -> None:
    error = GitHubError("no", detail="because of this", status=7)
    assert (error.sentence, str(error), error.status) == ("no", "no: because of this", 7)
