"""One call of GitHub's REST API: bounded in size and time, tried again where that may help, never redirected.

Knows neither paths nor what an answer means. Whatever goes wrong becomes a `GitHubError` that holds no part of the
request: errors of the HTTP library may quote the header with the token, so none is passed on or chained.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import httpx

from gateway.errors import GatewayError
from gateway.policy.masking import mask
from gateway.policy.wording import printable

# Bytes of an answer. The longest we ask for lists a hundred repositories of about 6 KB each.
MAX_ANSWER: Final = 1 << 20
# Seconds for one attempt, from the first packet to the last byte. GitHub itself gives up after ten.
DEADLINE: Final = 15.0
# Attempts in all, and the seconds before the second and the third.
_PAUSES: Final = (1.0, 3.0)
# GitHub says how long to wait; somebody waits for us meanwhile.
_LONGEST_PAUSE: Final = 10
_LIMITED: Final = frozenset({403, 429})
_TROUBLED: Final = frozenset({500, 502, 503, 504})
_MAX_DETAIL: Final = 200
_ERRNO = re.compile(r"\A\[Errno -?[0-9]+\] ")

Sleep = Callable[[float], Awaitable[None]]


class GitHubError(GatewayError):
    """GitHub said no, or nothing that can be used. `sentence` may be shown to an agent: no token, no address in it.

    `detail` is for the operator; `status` is GitHub's, 0 where there was no answer.
    """

    def __init__(self, sentence: str, *, detail: str = "", status: int = 0) -> None:
        super().__init__(f"{sentence}: {detail}" if detail else sentence)
        self.sentence = sentence
        self.status = status


class Bearer(Protocol):
    """What a request is authorised with: a token, or a proof of being the App."""

    def bearer(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of any status. The body may hold a token: it is in no repr."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Trouble:
    """No answer. `again`: the connection broke, which an old one does that the other side had closed already."""

    sentence: str
    detail: str = ""
    again: bool = False


class Rest:
    """Calls below `api_url`. `deadline` is for one attempt; `sleep` waits between two."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        api_url: str,
        *,
        sleep: Sleep = asyncio.sleep,
        deadline: float = DEADLINE,
    ) -> None:
        self._client = client
        self._api_url = api_url
        self._sleep = sleep
        self._deadline = deadline

    async def call(
        self, method: str, path: str, bearer: Bearer, *, body: object = None, attempts: int = 1 + len(_PAUSES)
    ) -> Answer:
        """An answer that is neither "later" nor GitHub's own failure. GitHubError when there is none.

        A call that makes a token is repeated like any other: what was lost on the way is known to nobody and ends
        within the hour.
        """
        for pause in (*_PAUSES[: attempts - 1], None):
            outcome = await self._attempt(method, path, bearer, body)
            if isinstance(outcome, Answer):
                wait = _wait(outcome, pause)
                if wait is None:
                    return outcome
                if pause is None or wait > _LONGEST_PAUSE:
                    raise _later(outcome, wait)
                await self._sleep(wait)
            elif pause is None or not outcome.again:
                raise GitHubError(outcome.sentence, detail=outcome.detail)
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, method: str, path: str, bearer: Bearer, body: object) -> Answer | _Trouble:
        """One request. Only sentences of ours come out, and errors end here: see the module's docstring."""
        try:
            async with asyncio.timeout(self._deadline):
                return await self._exchange(method, path, bearer, body)
        except (TimeoutError, httpx.TimeoutException):
            return _Trouble("GitHub did not answer in time")
        except (httpx.ConnectError, httpx.ProxyError) as error:
            why = shown(_ERRNO.sub("", str(error)))
            return _Trouble("GitHub cannot be reached", f"{self._api_url}: {why}")
        except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
            return _Trouble("the connection to GitHub broke", type(error).__name__, again=True)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as error:
            return _Trouble("GitHub cannot be asked", type(error).__name__)

    async def _exchange(self, method: str, path: str, bearer: Bearer, body: object) -> Answer | _Trouble:
        request = self._client.build_request(
            method,
            self._api_url + path,
            json=body,
            headers={
                "Authorization": bearer.bearer(),
                "Accept": "application/vnd.github+json",
                # No decompression: what a small answer blows up to would have to be bounded as well.
                "Accept-Encoding": "identity",
                "X-GitHub-Api-Version": "2022-11-28",
            },
        )
        response = await self._client.send(request, stream=True)
        try:
            return await _read(response)
        finally:
            await response.aclose()


async def _read(response: httpx.Response) -> Answer | _Trouble:
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        return _Trouble("GitHub's answer cannot be read", "it is compressed")
    data = bytearray()
    async for piece in response.aiter_raw():
        data += piece
        if len(data) > MAX_ANSWER:
            return _Trouble("GitHub's answer is too long")
    return Answer(response.status_code, dict(response.headers), bytes(data))


def _wait(answer: Answer, pause: float | None) -> float | None:
    """Seconds until the call may be tried again; None for an answer to keep.

    Limits are told by status 429, or 403 with one of two headers (docs.github.com, "Rate limits for the REST API").
    """
    asked = answer.headers.get("retry-after", "")
    wait = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 10 else None
    used_up = answer.headers.get("x-ratelimit-remaining") == "0"
    if answer.status in _LIMITED and (answer.status == 429 or wait is not None or used_up):
        if wait is None and used_up:
            return float(_LONGEST_PAUSE + 1)  # until the hour is over
        return wait if wait is not None else pause or 0.0
    if answer.status in _TROUBLED:
        return wait if wait is not None else pause or 0.0
    return None


def _later(answer: Answer, wait: float) -> GitHubError:
    if answer.status in _LIMITED:
        sentence = "GitHub's rate limit is used up: try again later"
    else:
        sentence = f"GitHub is in trouble (status {answer.status}): try again later"
    detail = f"it asks for {wait:.0f} seconds" if wait > _LONGEST_PAUSE else ""
    return GitHubError(sentence, detail=detail, status=answer.status)


def shown(text: str) -> str:
    """Somebody else's words for a message of ours: masked, one line, not long."""
    line = printable(mask(text))
    return line if len(line) <= _MAX_DETAIL else line[: _MAX_DETAIL - 3] + "..."
