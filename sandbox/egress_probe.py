"""Runs on the host, but in the network namespace of a wrap: tries what a wrapped process could try, and tells.

    python -I -S -E -B egress_probe.py CHANNEL

CHANNEL is an inherited end of a socket pair. There comes one message: a pidfd of a process in the wrap as a descriptor,
and the orders, NUL-separated:

    number of that process, port of the HTTP proxy, host that must be refused, host that must pass, port of the target

Back goes one line for each trial, NAME and TEXT with a space between, then the end:

    shared TEXT     "yes" where the wrap's network is the one of whoever started this, and nothing else then
    devices TEXT    the interfaces of the wrap's network
    route TEXT      which addresses there is a way to past the proxies; empty for none
    host TEXT       "closed", or what the host's own loopback said
    refused TEXT    status and code of the answer about the first host
    passed TEXT     status of the answer about the second, and its body
    failed TEXT     what kept it from trying

No packet leaves, whatever the wrap is like: connecting a datagram socket asks the kernel for a route and sends nothing.
It decides nothing. Standard library only, and little of it: a start waits for it.
"""

import _socket
import posix
import sys

# linux/sched.h
NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000
# Seconds for one step; both ends are on this machine.
PATIENCE = 3.0
LIMIT = 64 << 10
# Addresses for documentation (RFC 5737, RFC 3849), of private networks, and of cloud metadata.
ELSEWHERE = (
    (_socket.AF_INET, "192.0.2.1"), (_socket.AF_INET, "198.51.100.1"), (_socket.AF_INET, "10.0.0.1"),
    (_socket.AF_INET, "192.168.0.1"), (_socket.AF_INET, "169.254.169.254"),
    (_socket.AF_INET6, "2001:db8::1"), (_socket.AF_INET6, "fd00::1"),
)  # fmt: skip
LOOPBACK = "127.0.0.1"


def receive(channel: _socket.socket) -> tuple[list[str], list[int]]:
    """The orders and the descriptor; OSError and ValueError for anything else."""
    channel.settimeout(None)  # it may have been started long before it is needed
    data, ancillary, _, _ = channel.recvmsg(LIMIT, _socket.CMSG_SPACE(4))
    descriptors: list[int] = []
    for level, kind, content in ancillary:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            descriptors += [
                int.from_bytes(content[at : at + 4], sys.byteorder) for at in range(0, len(content), 4)
            ]
    return data.decode().split("\0"), descriptors


def routes() -> str:
    """The addresses that a datagram could be sent to."""
    found = []
    for family, address in ELSEWHERE:
        try:
            sock = _socket.socket(family, _socket.SOCK_DGRAM)
        except OSError:
            continue  # this kernel has no such family
        try:
            sock.connect((address, 53))
            found.append(address)
        except OSError:
            pass
        finally:
            sock.close()
    return " ".join(found)


def ask(port: int, request: str) -> str:
    """What a server at this port of the loopback says, to its end; "closed" where nobody is there."""
    sock = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    sock.settimeout(PATIENCE)
    try:
        sock.connect((LOOPBACK, port))
        sock.send(request.encode())
        answer = b""
        while len(answer) < LIMIT:
            part = sock.recv(LIMIT)
            if not part:
                break
            answer += part
        return answer.decode("latin-1")
    except ConnectionRefusedError:
        return "closed"
    except OSError as error:
        return f"failed: {error.strerror or error}"
    finally:
        sock.close()


def status(answer: str) -> str:
    """The status of an HTTP answer; what else it is, where it is none."""
    return answer[9:12] if answer.startswith("HTTP/1.1 ") else answer[:80] or "nothing"


def code(answer: str) -> str:
    """What the gateway's own header says of a refusal."""
    for line in answer.partition("\r\n\r\n")[0].split("\r\n"):
        name, _, value = line.partition(": ")
        if name.lower() == "x-agent-gateway":
            return value
    return ""


def try_all(orders: list[str]) -> list[str]:
    """Every trial, a line each."""
    proxy, refused, passing, target = int(orders[0]), orders[1], orders[2], int(orders[3])
    devices = " ".join(name for _, name in _socket.if_nameindex())
    lines = [f"devices {devices}", f"route {routes()}", f"host {status(ask(target, ''))}"]
    answer = ask(proxy, f"CONNECT {refused}:443 HTTP/1.1\r\nHost: {refused}:443\r\n\r\n")
    lines.append(f"refused {status(answer)} {code(answer)}")
    if passing:
        authority = f"{passing}:{target}"
        answer = ask(
            proxy, f"GET http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n"
        )
        body = answer.partition("\r\n\r\n")[2]
        lines.append(f"passed {status(answer)} {body}")
    return lines


def main(channel: _socket.socket) -> None:
    """One set of trials; nothing when nobody wants any."""
    try:
        orders, descriptors = receive(channel)
        if len(orders) != 5 or len(descriptors) != 1:
            return
        number, *orders = orders
        if posix.readlink(f"/proc/{int(number)}/ns/net") == posix.readlink("/proc/self/ns/net"):
            lines = ["shared yes"]
        else:
            # Both at once: one's own rights in the network come with the users it belongs to.
            posix.setns(descriptors[0], NEW_USER | NEW_NETWORK)
            lines = try_all(orders)
    except (OSError, ValueError) as error:
        lines = [f"failed {error}"]
    told = "\n".join(line.replace("\n", " ").replace("\r", " ") for line in lines)
    channel.sendall(told.encode("utf-8", "replace"))


if __name__ == "__main__":
    main(_socket.socket(fileno=int(sys.argv[1])))
