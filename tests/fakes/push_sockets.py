"""Runs inside, before what a test has to say: HTTP by hand to the gateway's listener. Standard library alone."""

import json
import os
import socket
import subprocess
import sys

PORT = int(os.environ["AGENT_GATEWAY_URL"].rpartition(":")[2])
SECRET = os.environ["AGENT_GATEWAY_SECRET"]
HOST = f"127.0.0.1:{PORT}"
PUSH = "/git/github.com/acme/widget.git/git-receive-pack"
REFS = "/git/github.com/acme/widget.git/info/refs?service=git-receive-pack"
TYPE = "Content-Type: application/x-git-receive-pack-request"
CHUNKED = "Transfer-Encoding: chunked"
# Seconds after which an answer that does not come is given up.
PATIENCE = 30


def head(
    target: str, *lines: str, method: str = "GET", secret: str = SECRET, host: str = HOST, close: bool = True
) -> bytes:
    """The head of a request, after whose answer the connection is closed."""
    first = [f"{method} {target} HTTP/1.1", f"Host: {host}", f"X-Agent-Gateway-Session: {secret}"]
    last = ["Connection: close"] if close else []
    return "\r\n".join([*first, *last, *lines, "", ""]).encode()


def dial(data: bytes) -> socket.socket:
    """A connection on which this was sent."""
    connection = socket.create_connection(("127.0.0.1", PORT))
    connection.settimeout(PATIENCE)
    connection.sendall(data)
    return connection


def ask(data: bytes) -> bytes:
    """All that is answered until the connection is closed."""
    answer = b""
    try:
        with dial(data) as connection:
            while piece := connection.recv(65536):
                answer += piece
    except ConnectionError:
        pass
    return answer


def chunk(data: bytes) -> bytes:
    """A piece of a body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def begin(new: str, ref: str) -> socket.socket:
    """A push that is begun, on a connection that was taken: the gateway asks for the body before it gets some."""
    line = f"{'0' * 40} {new} {ref}\0 report-status side-band-64k object-format=sha1".encode()
    commands = b"%04x" % (len(line) + 4) + line + b"0000"
    while True:
        try:
            connection = dial(head(PUSH, TYPE, CHUNKED, "Expect: 100-continue", method="POST"))
            if connection.recv(12) == b"HTTP/1.1 100":
                connection.sendall(chunk(commands))
                return connection
            connection.close()
        except ConnectionError:
            pass


def git(*arguments: str) -> list[object]:
    """Exit status and output."""
    done = subprocess.run(
        ("git", *arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return [done.returncode, done.stdout]


def tell(value: object) -> None:
    """To the test."""
    sys.stdout.write(f"{json.dumps(value)}\n")
