"""The git endpoints of GitHub as the gateway uses them: refs with the read token, a push with the write token.

Every request is made here, from nothing: no header, no byte of a command and no address comes from the wrapped process.
Redirects are not followed, challenges not answered; what goes wrong becomes one sentence without token or address.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import httpx

from gateway.credentials.token import Repository, Token
from gateway.push.capabilities import OWN_AGENT, ObjectFormat
from gateway.push.pkt import Flush, PktError, PktReader
from gateway.push.report import NO_STATUS, ReportParser, UpstreamReport, one_line

# Seconds. For an answer's head and beginning, where GitHub has little to do.
_SHORT: Final = 30.0
# Between two reads of a push's answer: GitHub unpacks and checks up to 2 GiB meanwhile, and shows signs of life.
_LONG: Final = 300.0
# For the whole of an answer that may take long: signs of life are no reason to wait for ever.
_WHOLE: Final = 3600.0
# Before the second and the third attempt with a token that was just made: not all of GitHub knows it at once.
_LAGS: Final = (3.0, 9.0)
_LAGGING: Final = frozenset({401, 404})
# Bytes of a list of refs that are read to keep its connection for the push; a longer one costs a new connection.
_WORTH_READING: Final = 256 * 1024
# Bytes of an error's text, and of the first packets of an advertisement.
_TEXT: Final = 4096
_FIRST: Final = 128 * 1024

UNKNOWN: Final = "the outcome is unknown, check with git ls-remote"
_RECEIVE: Final = "git-receive-pack"
_UPLOAD: Final = "git-upload-pack"
_OWN: Final[Mapping[str, str]] = {
    # GitHub serves git to clients whose name begins so.
    "User-Agent": f"git/{OWN_AGENT}",
    "Accept-Encoding": "identity",
}
# What an answer to a push means. 5xx: whether GitHub had done it by then, nobody knows.
_MEANINGS: Final[Mapping[int, str]] = {
    400: "did not understand the push",
    401: "did not accept the gateway's token",
    403: "refused the push",
    404: "knows no such repository",
    408: "gave up waiting for the push",
    413: "says that the push is too large",
    422: "did not accept the push",
    429: "asks to push less often",
}

Sleep = Callable[[float], Awaitable[None]]
Show = Callable[[str], Awaitable[None]]


class UpstreamError(Exception):
    """GitHub cannot be used, or said no. `sentence` is a line for the client; `unknown`: a push may have happened.

    `status` is GitHub's, 0 where there was no answer.
    """

    def __init__(self, sentence: str, *, status: int = 0, unknown: bool = False) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.status = status
        self.unknown = unknown

    @property
    def moved(self) -> bool:
        """Does the repository's name lead elsewhere, or nowhere?"""
        return 300 <= self.status < 400 or self.status == 404


class Upstream:
    """GitHub's git endpoints below `url` ("https://github.com"). Holds no token and no state."""

    def __init__(self, client: httpx.AsyncClient, url: str, sleep: Sleep = asyncio.sleep) -> None:
        self._client = client
        self._url = url
        self._sleep = sleep

    async def object_format(self, repository: Repository, token: Token) -> ObjectFormat:
        """Of the repository's ids, from the capabilities of protocol v2. Asked again where GitHub may not know the
        token yet. UpstreamError."""
        return await self._patiently(lambda: self._object_format(repository, token))

    async def _object_format(self, repository: Repository, token: Token) -> ObjectFormat:
        headers = {**_authorized(token), "Git-Protocol": "version=2"}
        packets: list[bytes] = []
        async with self._answer("GET", repository, f"info/refs?service={_UPLOAD}", headers) as response:
            await self._expect(response, f"application/x-{_UPLOAD}-advertisement")
            async for packet in _packets(response, _FIRST):
                packets.append(packet.rstrip(b"\n"))
        if b"version 2" not in packets[:2]:
            raise UpstreamError("GitHub does not speak version 2 of git's protocol")
        if b"object-format=sha256" in packets:
            return "sha256"
        return "sha1"

    @asynccontextmanager
    async def list_refs(
        self, repository: Repository, token: Token, request: bytes
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The answer to an `ls-refs` request, in pieces as they come. UpstreamError, also while reading."""
        headers = {
            **_authorized(token),
            "Git-Protocol": "version=2",
            "Content-Type": f"application/x-{_UPLOAD}-request",
            "Accept": f"application/x-{_UPLOAD}-result",
        }
        async with self._answer("POST", repository, _UPLOAD, headers, content=request, long=True) as response:
            await self._expect(response, f"application/x-{_UPLOAD}-result")
            yield response.aiter_raw()

    async def greet(self, repository: Repository, token: Token) -> frozenset[str]:
        """Asks whether this write token may push, before any byte of a push is sent, and again where GitHub may not
        know the token yet. The names of the capabilities that GitHub offers. UpstreamError."""
        return await self._patiently(lambda: self._greet(repository, token))

    async def _patiently[T](self, ask: Callable[[], Awaitable[T]]) -> T:
        for pause in (*_LAGS, None):
            try:
                return await ask()
            except UpstreamError as error:
                if pause is None or error.status not in _LAGGING:
                    raise
            await self._sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def push(
        self,
        repository: Repository,
        token: Token,
        body: AsyncIterator[bytes],
        length: int | None,
        parser: ReportParser,
        show: Show,
    ) -> UpstreamReport:
        """Sends a push, `length` bytes or in chunks, and reads the report; text of GitHub's is shown as it comes.

        UpstreamError when there is none; what `body` and `show` raise passes through, and leaves the request cut off.
        """
        headers = {
            **_authorized(token),
            "Content-Type": f"application/x-{_RECEIVE}-request",
            "Accept": f"application/x-{_RECEIVE}-result",
        }
        if length is not None:
            headers["Content-Length"] = str(length)
        timeout = httpx.Timeout(**{**self._client.timeout.as_dict(), "read": _LONG})
        missing = ""
        try:
            async with self._answer(
                "POST", repository, _RECEIVE, headers, content=body, timeout=timeout, pushes=True
            ) as response:
                await self._expect(response, f"application/x-{_RECEIVE}-result", pushes=True)
                missing = NO_STATUS
                await _read_report(response, parser, show)
        except UpstreamError as error:
            # What was heard before the answer broke off counts.
            if not missing:
                raise
            missing = error.sentence
        found, text = parser.finish(missing)
        if text:
            await show(text)
        return found

    async def _greet(self, repository: Repository, token: Token) -> frozenset[str]:
        path = f"info/refs?service={_RECEIVE}"
        async with self._answer("GET", repository, path, _authorized(token)) as response:
            await self._expect(response, f"application/x-{_RECEIVE}-advertisement")
            read, reader, offered = 0, PktReader(), None
            async for data in response.aiter_raw():
                read += len(data)
                if offered is None:
                    offered = _offered(reader, data)
                if read > (_WORTH_READING if offered is not None else _FIRST):
                    break
            if offered is None:
                raise UpstreamError("GitHub's list of refs cannot be read")
            return offered

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        repository: Repository,
        path: str,
        headers: Mapping[str, str],
        *,
        content: bytes | AsyncIterator[bytes] | None = None,
        timeout: httpx.Timeout | None = None,
        long: bool = False,
        pushes: bool = False,
    ) -> AsyncIterator[httpx.Response]:
        """Sends a request of ours; errors of the HTTP library, also while the answer is read, become sentences. They
        may quote the request, so none of them is chained. `long`: the answer may be."""
        request = self._client.build_request(
            method,
            f"{self._url}/{repository.name}.git/{path}",
            headers={**_OWN, **headers},
            content=content,
            timeout=timeout or self._client.timeout,
        )
        trouble = ""
        try:
            async with asyncio.timeout(None if pushes else _SHORT) as deadline:
                response = await self._client.send(request, stream=True)
                if long or pushes:
                    deadline.reschedule(asyncio.get_running_loop().time() + _WHOLE)
                try:
                    yield response
                finally:
                    await response.aclose()
        except (TimeoutError, httpx.TimeoutException) as error:
            # No connection: nothing was sent.
            certain = isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout)
            trouble, pushes = "GitHub did not answer in time", pushes and not certain
        except (httpx.ConnectError, httpx.ProxyError, httpx.UnsupportedProtocol):
            trouble, pushes = "GitHub cannot be reached", False
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError):
            trouble = "the connection to GitHub broke"
        if trouble:
            raise UpstreamError(f"{trouble}: {UNKNOWN}" if pushes else trouble, unknown=pushes)

    async def _expect(self, response: httpx.Response, content_type: str, *, pushes: bool = False) -> None:
        """UpstreamError for any answer but a 200 of that type."""
        status = response.status_code
        if status == 200:
            if response.headers.get("content-type", "").partition(";")[0].strip().lower() == content_type:
                return
            sentence = "GitHub's answer is not one of git's"
            raise UpstreamError(f"{sentence}: {UNKNOWN}" if pushes else sentence, unknown=pushes)
        unknown = pushes and status >= 500
        if 300 <= status < 400:
            sentence = f"GitHub sends this repository's clients elsewhere (status {status}): was it renamed or moved?"
        elif status >= 500:
            sentence = f"GitHub is in trouble (status {status})"
        else:
            sentence = (
                f"GitHub {_MEANINGS.get(status, 'gave an answer that was not expected')} (status {status})"
            )
            if text := await _text(response):
                sentence = f"{sentence}: {text}"
        raise UpstreamError(f"{sentence}: {UNKNOWN}" if unknown else sentence, status=status, unknown=unknown)


def _authorized(token: Token) -> dict[str, str]:
    return {"Authorization": token.basic()}


async def _text(response: httpx.Response) -> str:
    """The first line of an error's text; an HTML page has none."""
    if not response.headers.get("content-type", "").startswith("text/plain"):
        return ""
    data = bytearray()
    async for piece in response.aiter_raw():
        data += piece
        if len(data) >= _TEXT:
            break
    line = bytes(data[:_TEXT]).decode("utf-8", "replace").strip().partition("\n")[0].strip()
    return one_line(line)[:200] if line else ""


async def _packets(response: httpx.Response, most: int) -> AsyncIterator[bytes]:
    """All packets of an answer of at most so many bytes, which must end with a flush. UpstreamError."""
    reader, read, ended = PktReader(), 0, False
    async for data in response.aiter_raw():
        read += len(data)
        if read > most:
            raise UpstreamError("GitHub's answer is too long")
        reader.feed(data)
        try:
            while (packet := reader.next()) is not None:
                ended = isinstance(packet, Flush)
                if not isinstance(packet, Flush):
                    yield packet
        except PktError as error:
            raise UpstreamError("GitHub's answer cannot be read") from error
    if reader.pending or not ended:
        raise UpstreamError("GitHub's answer is cut off")


def _offered(reader: PktReader, data: bytes) -> frozenset[str] | None:
    """The names of the capabilities in an advertisement; None while its first line is not there. UpstreamError."""
    reader.feed(data)
    try:
        while (packet := reader.next()) is not None:
            if not isinstance(packet, Flush) and b"\0" in packet:
                words = packet.partition(b"\0")[2].decode("ascii", "replace").split()
                return frozenset(word.partition("=")[0] for word in words)
    except PktError as error:
        raise UpstreamError("GitHub's list of refs cannot be read") from error
    return None


async def _read_report(response: httpx.Response, parser: ReportParser, show: Show) -> None:
    async for data in response.aiter_raw():
        if text := parser.feed(data):
            await show(text)
        if parser.broken:
            return
