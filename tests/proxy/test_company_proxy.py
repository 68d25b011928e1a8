"""The way out through the proxy of a company network: asked for vetted addresses, and for nothing else."""

import base64
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.policy.egress import Transport
from gateway.proxy.company_proxy import read_company_proxy
from tests.fakes.asking import (
    CONNECT,
    HTTP,
    TRANSPORTS,
    answer,
    ask,
    assert_refused,
    assert_upstream_trouble,
    get_head,
    start,
    tunnel,
)
from tests.fakes.certificate import client_context, server_context
from tests.fakes.gateway import Gateway
from tests.fakes.origin import Origin, answering, closed_port, full_backlog, http_origin
from tests.fakes.rules import GOOD, rules_for
from tests.fakes.wire import Wire

every_transport = pytest.mark.parametrize("transport", TRANSPORTS, ids=str)


@pytest.mark.parametrize(
    ("url", "host", "port", "credentials"),
    [
        ("http://proxy.corp.test:8080", "proxy.corp.test", 8080, ""),
        ("http://proxy.corp.test", "proxy.corp.test", 3128, ""),
        ("http://user:pass@proxy.corp.test:8080", "proxy.corp.test", 8080, "user:pass"),
        ("http://us%40er:p%3Aw@10.0.0.1:1", "10.0.0.1", 1, "us@er:p:w"),
        ("http://user@proxy.corp.test:8080", "proxy.corp.test", 8080, "user:"),
        ("http://[fd00::1]:8080", "fd00::1", 8080, ""),
    ],
)
def test_reading_the_setting(url: str, host: str, port: int, credentials: str) -> None:
    proxy = read_company_proxy(url)
    assert (proxy.host, proxy.port) == (host, port)
    expected = "Basic " + base64.b64encode(credentials.encode()).decode() if credentials else ""
    assert proxy.authorization == expected
    assert "pass" not in repr(proxy)
    assert "Basic" not in repr(proxy)


def company_proxy(said: bytes = b"HTTP/1.1 200 OK\r\nVia: corp\r\n\r\n") -> Origin:
    """Answers CONNECT with this, and where that is a yes connects to the target and carries what comes."""

    def talk(wire: Wire) -> None:
        line, fields = wire.head()
        asked.append((line, fields))
        wire.send(said)
        if b" 200 " in said:
            target, _, port = line.split(" ")[1].rpartition(":")
            with Wire.to(int(port), target.strip("[]")) as onward:
                onward.send(wire.some())
                while data := onward.some():
                    wire.send(data)

    asked: list[tuple[str, tuple[tuple[str, str], ...]]] = []
    origin = Origin(talk)
    origin.asked = asked  # type: ignore[attr-defined]  # what it was asked for, for the test
    return origin
