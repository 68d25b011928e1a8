"""The embedded forge as a process of its own: `python -m tests.bench.push_forge FOLDER NAME...`.

Prints where it is as a line of JSON, then answers a line of JSON on standard input each, until that ends. It reads
chunks as the gateway does: were it slow with the small ones that git sends, the gateway, which sends large ones, would
look better than it is.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tornado.http1connection import HTTP1Connection
from tornado.httputil import HTTPMessageDelegate

from gateway.forge.server import Forge
from gateway.forge.threaded import serving
from gateway.forge.tokens import Credential
from gateway.push.chunked_body import read_chunked

MOST = 2 << 30  # bytes of a body

Facts = Mapping[str, object]


def describe(forge: Forge, names: Sequence[str]) -> Facts:
    """Where it listens, the App, a token that may push for whoever uses no gateway, and the repositories' folders."""
    app_id, key = forge.create_app()
    folders = {name: str(forge.create_repository(name)) for name in names}
    repository = forge.repositories.find(names[0])
    installation = forge.repositories.installation_of(repository) if repository else None
    assert installation is not None  # it was installed when it was made
    token = forge.tokens.mint(app_id, installation.id, None, {"contents": "write"}, stateless=False)
    return {
        "url": forge.url,
        "api_url": forge.api_url,
        "port": forge.port,
        "app_id": app_id,
        "key": key,
        "token": token.value,
        "folders": folders,
    }


def count(forge: Forge) -> Facts:
    """Tokens minted so far, and requests that came with one that may push."""
    writes = sum(seen.credential is Credential.WRITE for seen in forge.requests)
    return {"minted": len(forge.tokens.minted), "writes": writes}


def settle(forge: Forge) -> Facts:
    """Answers when no git runs any more."""
    return {"idle": forge.wait_until_idle()}


ANSWERS: Mapping[str, Callable[[Forge], Facts]] = {"count": count, "settle": settle}


async def read_many_chunks(connection: HTTP1Connection, delegate: HTTPMessageDelegate) -> None:
    """Stands in for tornado's own."""
    await read_chunked(connection.stream, MOST, delegate.data_received)


def main() -> int:
    """Serves until standard input ends."""
    HTTP1Connection._read_chunked_body = read_many_chunks  # type: ignore[assignment,method-assign]  # meant
    with serving(Forge(Path(sys.argv[1]))) as forge:
        print(json.dumps(describe(forge, sys.argv[2:])), flush=True)
        for line in sys.stdin:
            print(json.dumps(ANSWERS[json.loads(line)["do"]](forge)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
