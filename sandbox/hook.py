"""Runs inside the wrap as Claude Code's PreToolUse hook: asks the gateway about one tool call.

    python -I -S -E -B hook.py [--limit SECONDS] [--gateway http://127.0.0.1:PORT]

The hook's input comes on stdin (Claude Code, hooks reference) and goes to the gateway as it is: the gateway reads it,
decides, records, and gives back what is to be written to stdout. Nothing, with status 0, is an allow: it does not
silence the agent's own prompts. A denial is JSON, with status 0 too.

Whatever goes wrong is status 2 with a reason on stderr, which blocks the call: no gateway, another answer than these
two, no answer within `--limit` seconds. An agent that ends its hooks after a time of its own lets the call through, so
the limit has to be shorter than that time.

The secret is in AGENT_GATEWAY_SECRET, and the gateway in AGENT_GATEWAY_URL unless `--gateway` names it: an agent that
starts another could set the variable. No proxy is used:

    POST /agent/pre-tool-use
    X-Agent-Gateway-Session: SECRET

    200, X-Agent-Gateway-Decision: allow (no body) or deny (the body is for stdout); anything else: a sentence

It is mounted into the wrap on its own, so it imports the standard library only; and as little of that as can be, since
every tool call waits for it to start: `socket` and `json` take as long to import as all the rest.
"""

import _socket
import os
import select
import sys
import time
from _collections_abc import Mapping, Sequence

# Bytes of a tool call. Models write some hundred kilobytes at once at most.
INPUT_LIMIT = 4 << 20
# Bytes of an answer: a head, and a sentence in JSON.
ANSWER_LIMIT = 64 << 10
# Seconds for all of it where nobody says otherwise: older versions of Claude Code end a hook after 60.
LIMIT = 55.0
# Thirty years, which every clock can count to.
LONGEST = 1e9
MESSAGE_LIMIT = 1000
CHUNK = 64 << 10
PATH = "/agent/pre-tool-use"
LOOPBACK = "127.0.0.1"
BLOCKED = 2

NO_GATEWAY = "the session's gateway cannot be asked ({reason}): start the command with `agent-gateway run`"
NO_ANSWER = "the gateway gave no answer that this hook understands, so the call is blocked"
TOO_LATE = "nobody answered within {limit:g} seconds, so the call is blocked"


class Failure(Exception):
    """Blocks the call, with one line on stderr."""


class Patience:
    """The time that is left. Changes by itself."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._end = time.monotonic() + limit

    def left(self) -> float:
        """Seconds, more than none. Failure when there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise Failure(TOO_LATE.format(limit=self.limit))
        return left


def read_call(patience: Patience) -> bytes:
    """All of stdin. Failure when that is nothing, too much, or takes too long."""
    parts: list[bytes] = []
    size = 0
    while True:
        if not select.select([0], [], [], patience.left())[0]:
            continue
        part = os.read(0, CHUNK)
        if not part:
            break
        parts.append(part)
        size += len(part)
        if size > INPUT_LIMIT:
            raise Failure(f"the tool call is larger than {INPUT_LIMIT >> 20} MiB, so it is blocked")
    if not size:
        raise Failure("there is no tool call on stdin")
    return b"".join(parts)


def find_port(gateway: str) -> int:
    """The port of `http://127.0.0.1:PORT`. Failure for any other address: the secret goes nowhere else."""
    start = f"http://{LOOPBACK}:"
    port = gateway[len(start) :]
    if not gateway.startswith(start) or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise Failure(NO_GATEWAY.format(reason="its address is not known"))
    return int(port)


def ask(port: int, secret: str, call: bytes, patience: Patience) -> tuple[bytes, bytes]:
    """Head and body of the answer. Failure says why there is none."""
    if not secret.isascii() or not secret.isprintable():
        raise Failure(NO_GATEWAY.format(reason="AGENT_GATEWAY_SECRET is none"))
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: {LOOPBACK}:{port}\r\nX-Agent-Gateway-Session: {secret}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(call)}\r\nConnection: close\r\n\r\n"
    )
    connection = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    try:
        connection.settimeout(patience.left())
        connection.connect((LOOPBACK, port))
        broken = send(connection, head.encode() + call, patience)
        answer = receive(connection, patience)
        if broken and not answer:
            raise Failure(NO_GATEWAY.format(reason="it hung up"))
    except TimeoutError:
        raise Failure(TOO_LATE.format(limit=patience.limit)) from None
    except OSError as error:
        raise Failure(NO_GATEWAY.format(reason=error.strerror or "no connection")) from None
    finally:
        connection.close()
    head_end = answer.find(b"\r\n\r\n")
    if head_end < 0:
        raise Failure(NO_ANSWER)
    return answer[:head_end], answer[head_end + 4 :]


def send(connection: _socket.socket, data: bytes, patience: Patience) -> bool:
    """Sends it; True where the other side takes no more, and may have said why."""
    view = memoryview(data)
    try:
        while view:
            connection.settimeout(patience.left())
            view = view[connection.send(view[:CHUNK]) :]
    except (BrokenPipeError, ConnectionResetError):
        return True
    return False


def receive(connection: _socket.socket, patience: Patience) -> bytes:
    """What comes until the other side is done. Failure when it is too much."""
    answer = b""
    while True:
        connection.settimeout(patience.left())
        part = connection.recv(CHUNK)
        if not part:
            return answer
        answer += part
        if len(answer) > ANSWER_LIMIT:
            raise Failure(NO_ANSWER)


def fields_of(head: bytes) -> tuple[int, dict[bytes, bytes]]:
    """Status and fields, names in lower case. Failure for what is no HTTP/1.1 answer, or says something twice."""
    first, *lines = head.split(b"\r\n")
    status = first[9:12]
    if not first.startswith(b"HTTP/1.1 ") or first[12:13] not in (b" ", b"") or not status.isdigit():
        raise Failure(NO_ANSWER)
    fields: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or name.strip() != name or name.lower() in fields:
            raise Failure(NO_ANSWER)
        fields[name.lower()] = value.strip()
    return int(status), fields


def decision_of(head: bytes, body: bytes) -> bytes:
    """What is to be written to stdout: nothing for an allow. Failure for everything that is no decision."""
    status, fields = fields_of(head)
    length = fields.get(b"content-length", b"")
    if not length.isdigit() or int(length) != len(body) or b"transfer-encoding" in fields:
        raise Failure(NO_ANSWER)
    if status != 200:
        raise Failure(shown(body) or NO_ANSWER)
    decision = fields.get(b"x-agent-gateway-decision")
    if decision == b"allow" and not body:
        return b""
    if decision == b"deny" and body:
        return body
    raise Failure(NO_ANSWER)


def shown(text: bytes) -> str:
    """Somebody's text as part of a line for people."""
    decoded = text[:MESSAGE_LIMIT].decode(errors="replace").strip()
    return "".join(one if one.isprintable() else " " for one in decoded)


def read_arguments(arguments: Sequence[str]) -> tuple[float, str]:
    """Limit and gateway; the second empty where it is not named. Failure for anything else."""
    usage = "usage: hook.py [--limit SECONDS] [--gateway URL]"
    given = dict(zip(arguments[::2], arguments[1::2], strict=False))
    if len(arguments) % 2 or not given.keys() <= {"--limit", "--gateway"}:
        raise Failure(usage)
    try:
        limit = float(given.get("--limit", LIMIT))
    except ValueError:
        raise Failure(usage) from None
    if not 0 < limit < LONGEST:
        raise Failure(usage)
    return limit, given.get("--gateway", "")


def decide(arguments: Sequence[str], environment: Mapping[str, str]) -> bytes:
    """What is to be written to stdout. Failure blocks the call."""
    limit, gateway = read_arguments(arguments)
    patience = Patience(limit)
    call = read_call(patience)  # always: whoever writes it would find the pipe broken
    secret = environment.get("AGENT_GATEWAY_SECRET", "")
    if not secret:
        raise Failure(NO_GATEWAY.format(reason="AGENT_GATEWAY_SECRET is not set"))
    port = find_port(gateway or environment.get("AGENT_GATEWAY_URL", ""))
    return decision_of(*ask(port, secret, call, patience))


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """The hook: 0 when the gateway has decided, 2 whatever else has happened."""
    try:
        answer = memoryview(decide(arguments, environment))
        while answer:
            answer = answer[os.write(1, answer) :]
    except Failure as failure:
        return block(str(failure))
    except BaseException as error:  # an unknown failure that lets the call through would be a way in
        return block(f"the hook failed ({type(error).__name__}), so the call is blocked")
    return 0


def block(reason: str) -> int:
    """Says why, if anybody listens."""
    try:
        os.write(2, f"agent-gateway: {reason}\n".encode(errors="replace"))
    except OSError:
        pass
    return BLOCKED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
