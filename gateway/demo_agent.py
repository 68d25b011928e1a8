"""The agent of `agent-gateway demo`: tries what it is told, as any program would, and says what came of it.

Runs as the command of a real `run`, from a copy in the worktree, on the standard library alone. It knows the gateway by
the proxy variables only. It reads the steps from stdin as JSON, [[KIND, ARGUMENT...]...], and writes one JSON object a
line: `ok`, `said` (what it saw), and `code` where a refusal named one.
"""

import http.client
import json
import socket
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from email.message import Message
from urllib.parse import urlsplit

# Seconds for a connection, and for each answer; everything is on this machine.
PATIENCE = 20
# Bytes of an answer: a line or two is all that the targets say.
LIMIT = 4096

Result = Mapping[str, object]


def failed(error: OSError) -> Result:
    """What an error of the system or of TLS amounts to."""
    return {"ok": False, "said": str(getattr(error, "reason", "") or error.strerror or error)}


def refused(status: int, fields: Message) -> Result:
    """A refusal of the proxy: its code stands in a header."""
    _, _, code = fields.get("X-Agent-Gateway", "").partition("code=")
    return {"ok": False, "said": str(status), "code": code}


def fetch(url: str) -> Result:
    """Plain HTTP through the proxy of the environment, as urllib does it for everybody."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as response:
            return {"ok": True, "said": str(response.status)}
    except urllib.error.HTTPError as error:
        with error:
            return refused(error.code, error.headers)


def connect(scheme: str) -> socket.socket:
    """A connection to the proxy that the environment names for a scheme."""
    proxy = urlsplit(urllib.request.getproxies()[scheme])
    return socket.create_connection((proxy.hostname or "", proxy.port or 0), PATIENCE)


def tunnel(target: str, name: str) -> Result:
    """CONNECT to HOST:PORT, then TLS for `name` inside."""
    with connect("https") as connection:
        connection.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        response = http.client.HTTPResponse(connection, method="CONNECT")
        response.begin()
        return (
            greet(connection, name) if response.status == 200 else refused(response.status, response.headers)
        )


def socks(target: str, name: str) -> Result:
    """The same by SOCKS5 (RFC 1928), the name resolved by the proxy."""
    host, _, port = target.rpartition(":")
    with connect("all") as connection, connection.makefile("rb") as answers:
        connection.sendall(b"\5\1\0")
        answers.read(2)
        connection.sendall(b"\5\1\0\3" + bytes([len(host)]) + host.encode() + int(port).to_bytes(2, "big"))
        answer = answers.read(10)
        if len(answer) < 2 or answer[1] != 0:
            return {"ok": False, "said": f"SOCKS reply {answer[1:2].hex() or 'none'}"}
        return greet(connection, name)


def greet(connection: socket.socket, name: str) -> Result:
    """TLS and one request inside a tunnel. The target has no certificate: the suites are anonymous, TLS 1.2."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("aNULL:@SECLEVEL=0")
    with context.wrap_socket(connection, server_hostname=name) as protected:
        protected.sendall(f"GET / HTTP/1.0\r\nHost: {name}\r\n\r\n".encode())
        with protected.makefile("rb") as answer:
            words = answer.read(LIMIT).split()
        return {"ok": words[1:2] == [b"200"], "said": words[1].decode() if len(words) > 1 else "nothing"}


def dial(host: str, port: str) -> Result:
    """A connection past the proxies."""
    socket.create_connection((host, int(port)), PATIENCE).close()
    return {"ok": True, "said": "connected"}


def read(path: str) -> Result:
    """A file's content."""
    with open(path, "rb") as file:
        return {"ok": True, "said": f"{len(file.read(LIMIT))} bytes"}


def write(path: str) -> Result:
    """A new file."""
    with open(path, "w", encoding="ascii") as file:
        file.write("written by the agent\n")
    return {"ok": True, "said": "written"}


KINDS: Mapping[str, Callable[..., Result]] = {
    "fetch": fetch,
    "tunnel": tunnel,
    "socks": socks,
    "dial": dial,
    "read": read,
    "write": write,
}


def main() -> None:
    """One step after the other."""
    for kind, *arguments in json.load(sys.stdin):
        try:
            result = KINDS[kind](*arguments)
        except OSError as error:
            result = failed(error)
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
