"""What the benchmark's pushes are made by, inside the gateway's wrap and outside alike: a program on the standard
library alone, given to an interpreter as text. A line of JSON in is a piece of work, a line out what came of it.
"""

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PIECE = 256 * 1024
SHOWN = 2000  # characters of what was said, from its end
PATIENCE = 300  # seconds for the next bytes of an answer

Work = dict[str, Any]


def run(work: Work) -> Work:
    """Runs a command to its end; what it writes is counted and, but for the end of it, thrown away."""
    begun = time.perf_counter()
    with subprocess.Popen(
        work["run"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **work.get("environment", {})},
    ) as child:
        assert child.stdout is not None
        output = child.stdout.fileno()
        size, tail = drain(lambda: os.read(output, PIECE))
        status = child.wait()
    return {"seconds": time.perf_counter() - begun, "status": status, "size": size, "tail": tail}


def ask(work: Work) -> Work:
    """One HTTP request without a proxy. A path alone is the gateway's, which gets the session's secret with it."""
    url, headers = work["ask"], dict(work.get("headers", {}))
    if url.startswith("/"):
        url = os.environ["AGENT_GATEWAY_URL"] + url
        headers["X-Agent-Gateway-Session"] = os.environ["AGENT_GATEWAY_SECRET"]
    parts = urlsplit(url)
    body = Path(work["body"]).read_bytes() if "body" in work else None
    begun = time.perf_counter()
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    connection.request("GET" if body is None else "POST", target, body, headers)
    answer = connection.getresponse()
    size, tail = drain(lambda: answer.read1(PIECE))
    connection.close()
    return {"seconds": time.perf_counter() - begun, "status": answer.status, "size": size, "tail": tail}


def drain(read: Callable[[], bytes]) -> tuple[int, str]:
    """How much there was, and the end of it."""
    size, tail = 0, b""
    while piece := read():
        size += len(piece)
        tail = (tail + piece[-SHOWN:])[-SHOWN:]
    return size, tail.decode("utf-8", "replace")


def stand_apart() -> None:
    """In a session of its own, which the kernel gives a share of its own (sched(7), autogroup): inside a wrap it has
    one, and on a busy machine that would count for the gateway."""
    try:
        os.setsid()
    except PermissionError:
        pass  # it leads one already


def main() -> None:
    """Works until standard input ends."""
    stand_apart()
    print(json.dumps({"program": sys.executable}), flush=True)
    for line in sys.stdin:
        work = json.loads(line)
        print(json.dumps(run(work) if "run" in work else ask(work)), flush=True)


if __name__ == "__main__":
    main()
