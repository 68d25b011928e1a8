"""Runs inside the wrap as ssh's ProxyCommand: a connection through the session's SOCKS5 proxy as stdin and stdout.

    python -I -S -E -B connect.py [SOCKS HTTP] HOST PORT

SOCKS and HTTP are the session's proxies as ADDRESS:PORT; without them ALL_PROXY and HTTP_PROXY say where they are.
SOCKS5 (RFC 1928) has a number for a refusal but no words, so a refused connection is asked for once more at the
HTTP proxy, whose answer has them; they go to stderr, where the user of ssh or git reads them. Exit status 1 then.
It is mounted into the wrap on its own, so it imports the standard library only.
"""

import json
import os
import socket
import sys
import threading
from collections.abc import Mapping, Sequence

# Seconds for the proxy, which is on loopback, to accept.
CONNECT_DEADLINE = 10.0
# Seconds for its answers; it dials for up to 30 seconds before it says anything.
ANSWER_DEADLINE = 45.0
# A refusal's head and body are a few hundred bytes.
ANSWER_LIMIT = 64 << 10
MESSAGE_LIMIT = 2_000
CHUNK = 64 << 10

# RFC 1928, section 6.
REPLIES: Mapping[int, str] = {
    1: "the proxy failed",
    2: "refused by the sandbox's policy",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused by the host",
    6: "time to live expired",
    7: "command not supported",
    8: "address type not supported",
}

# How a refusal begins that comes after the connection was granted; no server that speaks to ssh begins so.
GATEWAY_ANSWER = b"HTTP/1.1 4"
NOT_TLS = (
    "{host}:{port} was closed before the host said anything. If the host did not do that itself, it was this sandbox's "
    "policy: connections carry TLS or HTTP, and something else, ssh too, only where the operator lists host and port "
    "under egress.raw in the config."
)

Address = tuple[str, int]


class Failure(Exception):
    """Ends the helper with one line on stderr."""


def parse_address(text: str) -> Address:
    """`socks5h://127.0.0.1:1080`, `http://…` or `127.0.0.1:1080`."""
    host, _, port = text.rpartition("://")[2].rstrip("/").rpartition(":")
    if not host or not (port.isascii() and port.isdigit()):
        raise Failure(f"{text!r} is not the address of a proxy")
    return host.strip("[]"), int(port)


def destination(host: str, port: int) -> bytes:
    """The address of a SOCKS request: a literal as such, a name by name, so that the proxy resolves it."""
    for family, kind in ((socket.AF_INET, b"\x01"), (socket.AF_INET6, b"\x04")):
        try:
            return kind + socket.inet_pton(family, host) + port.to_bytes(2, "big")
        except OSError:
            continue
    if not host.isascii() or not 0 < len(host) <= 255:
        raise Failure(f"{host!r} is not a host name")
    return b"\x03" + bytes([len(host)]) + host.encode() + port.to_bytes(2, "big")


def read_exactly(proxy: socket.socket, size: int) -> bytes:
    """`size` bytes of the proxy's answer."""
    data = b""
    while len(data) < size:
        part = proxy.recv(size - len(data))
        if not part:
            raise Failure("the proxy closed the connection")
        data += part
    return data


def open_through_socks(address: Address, host: str, port: int) -> tuple[socket.socket, int]:
    """The connection to the proxy and its reply; 0 is success."""
    proxy = socket.create_connection(address, CONNECT_DEADLINE)
    proxy.settimeout(ANSWER_DEADLINE)
    proxy.sendall(b"\x05\x01\x00")
    if read_exactly(proxy, 2) != b"\x05\x00":
        raise Failure("the proxy does not speak SOCKS5")
    proxy.sendall(b"\x05\x01\x00" + destination(host, port))
    version, reply, _, kind = read_exactly(proxy, 4)
    if version != 5:
        raise Failure("the proxy does not speak SOCKS5")
    if reply:
        return proxy, reply
    sizes = {1: 4, 4: 16, 3: 0}
    if kind not in sizes:
        raise Failure("the proxy answered with an unknown kind of address")
    size = read_exactly(proxy, 1)[0] if kind == 3 else sizes[kind]
    read_exactly(proxy, size + 2)
    return proxy, 0


def ask_for_reason(address: Address, host: str, port: int) -> str:
    """The words of the HTTP proxy's refusal for the same target; empty when it has none."""
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        with socket.create_connection(address, CONNECT_DEADLINE) as proxy:
            proxy.settimeout(ANSWER_DEADLINE)
            proxy.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
            answer = b""
            while len(answer) < ANSWER_LIMIT:
                part = proxy.recv(CHUNK)
                if not part or answer.startswith(b"HTTP/1.1 200"):
                    break
                answer += part
                message = _message(answer)
                if message:
                    return message
    except OSError:
        pass
    return ""


def _message(answer: bytes) -> str:
    """`message` of the JSON body, once it is complete; printable and bounded."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 403 " not in head.split(b"\r\n", 1)[0]:
        return ""
    try:
        found = json.loads(body)
    except ValueError:
        return ""
    message = found.get("message") if isinstance(found, dict) else None
    if not isinstance(message, str):
        return ""
    return "".join(c if c.isprintable() else " " for c in message[:MESSAGE_LIMIT])


def send_input(proxy: socket.socket) -> None:
    """stdin to the proxy until it ends; then the other side reads an end as well."""
    try:
        while data := os.read(0, CHUNK):
            proxy.sendall(data)
        proxy.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the other side is gone; the reading half says so


def relay(proxy: socket.socket) -> bool:
    """Both directions until both have ended; whether the host said anything that was not the gateway's own refusal.
    Blocking, one thread each: stdin's flags are shared with others."""
    proxy.settimeout(None)
    sender = threading.Thread(target=send_input, args=(proxy,), daemon=True)
    sender.start()
    answered = False
    try:
        while data := proxy.recv(CHUNK):
            if not answered and data.startswith(GATEWAY_ANSWER):
                return False
            answered = True
            while data:
                data = data[os.write(1, data) :]
        if answered:
            os.close(1)
    except OSError:
        return answered  # nobody reads any more, or the connection broke
    if answered:
        sender.join()
    return answered


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Connects and relays; Failure says why not."""
    if len(arguments) == 2:
        arguments = (environment.get("ALL_PROXY", ""), environment.get("HTTP_PROXY", ""), *arguments)
    if len(arguments) != 4 or not (arguments[3].isascii() and arguments[3].isdigit()):
        raise Failure("usage: connect.py [SOCKS HTTP] HOST PORT")
    host, port = arguments[2], int(arguments[3])
    if not 0 < port < 65536:
        raise Failure(f"{port} is not a port")
    try:
        proxy, reply = open_through_socks(parse_address(arguments[0]), host, port)
    except OSError as error:
        raise Failure(f"{host}:{port}: {error}") from error
    if reply:
        reason = (
            ask_for_reason(parse_address(arguments[1]), host, port) if reply == 2 and arguments[1] else ""
        )
        raise Failure(reason or f"{host}:{port}: {REPLIES.get(reply, f'the proxy answered {reply}')}")
    if not relay(proxy):
        raise Failure(NOT_TLS.format(host=host, port=port))


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """The helper; one line on stderr when it fails."""
    try:
        run(arguments, environment)
    except Failure as failure:
        os.write(2, f"agent-gateway: {failure}\n".encode(errors="replace"))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
