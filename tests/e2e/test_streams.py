"""Streams that nothing may hold up: events that come one by one, and a protocol in which the server speaks first."""

import threading
from collections import defaultdict
from collections.abc import Iterator

from tests.fakes.authority import Authority
from tests.fakes.origin import Origin
from tests.fakes.product import PATIENCE, PYTHON, REFUSED, Product, was_refused, went_out
from tests.fakes.site import ORIGIN, open_site
from tests.fakes.web import Answer, Request
from tests.fakes.wire import Wire


class Events:
    """Server-sent events by stream: each is sent once the client has confirmed the one before, so that a gateway which
    waits for more before it passes anything on would wait for ever."""

    def __init__(self) -> None:
        self._confirmed: defaultdict[str, threading.Semaphore] = defaultdict(lambda: threading.Semaphore(0))

    def stream(self, request: Request) -> Answer:
        """Three events."""
        return Answer(self._events(request.query), fields={"Content-Type": "text/event-stream"})

    def confirm(self, request: Request) -> Answer:
        """The client has the latest one."""
        self._confirmed[request.query].release()
        return Answer()

    def _events(self, name: str) -> Iterator[bytes]:
        for number in range(3):
            yield f"data: {name} {number}\n\n".encode()
            if not self._confirmed[name].acquire(timeout=PATIENCE):
                return


EVENTS = """
import os, ssl, sys, httpx
trust = ssl.create_default_context(cafile=sys.argv[1])
for name, url in (argument.split("=") for argument in sys.argv[2:]):
    proxy = os.environ["ALL_PROXY"] if name == "socks" else None
    with httpx.Client(verify=trust, proxy=proxy) as listener, httpx.Client(verify=trust) as other:
        with listener.stream("GET", f"{url}/events?{name}") as answer:
            for line in answer.iter_lines():
                if line:
                    print(line)
                    other.post(f"{url}/confirm?{name}").raise_for_status()
"""


def test_events_come_one_by_one(product: Product, authority: Authority) -> None:
    events = Events()
    with open_site(product, authority, {"events": events.stream, "confirm": events.confirm}) as site:
        streams = (f"http={site.http}", f"connect={site.https}", f"socks={site.https}")
        done = product.run(PYTHON, "-c", EVENTS, site.authority, *streams)
    assert done.lines == [
        f"data: {way} {number}" for way in ("http", "connect", "socks") for number in range(3)
    ]
    assert done.log == (
        went_out("http", site.plain_target, 4)
        + went_out("connect", site.secure_target, 3)
        + went_out("socks", site.secure_target)
    )


def mail_server(wire: Wire) -> None:
    """SMTP (RFC 5321) as far as HELP: nothing is sent to this server before its greeting."""
    wire.send(b"220 origin.test greets first\r\n")
    for expected, answer in (
        (b"EHLO ", b"250 origin.test\r\n"),
        (b"HELP", b"214 help from origin.test\r\n"),
        (b"QUIT", b"221 bye\r\n"),
    ):
        assert wire.until(b"\r\n").startswith(expected)
        wire.send(answer)


def test_server_speaks_first(product: Product) -> None:
    with Origin(mail_server) as mail:
        target = product.reach(ORIGIN, mail.port, raw=True)
        refused = f"{REFUSED}:{mail.port}"
        script = f"""
        curl -sS smtp://{target}
        curl -sS --proxytunnel -x "$HTTP_PROXY" smtp://{target}
        curl -sS smtp://{refused}; echo "exit $?"
        """
        done = product.run("sh", "-c", script)
        assert mail.faults == []
    assert done.lines == ["214 help from origin.test", "214 help from origin.test", "exit 97"]
    assert done.log == went_out("socks", target) + went_out("connect", target) + was_refused("socks", refused)
