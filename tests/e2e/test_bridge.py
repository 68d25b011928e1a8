"""`bridge: socat`: real clients find the same gateway, and nobody else finds theirs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.authority import Authority
from tests.fakes.product import Product, was_refused, went_out
from tests.fakes.push_machine import PushMachine, at_work
from tests.fakes.site import BLOCK, BLOCKS, Site, large_digest, open_site


@pytest.fixture
def bridged(tmp_path: Path) -> Product:
    """The product with the other bridge."""
    return Product(tmp_path / "machine", "on", settings={"bridge": "socat"})


@pytest.fixture
def bridged_site(bridged: Product, authority: Authority) -> Iterator[Site]:
    """A site within its reach."""
    with open_site(bridged, authority) as opened:
        yield opened


def test_every_way_out(bridged: Product, bridged_site: Site) -> None:
    site = bridged_site
    script = f"""
    set -e
    curl -sS {site.http}/hello?http
    curl -sS --cacert {site.authority} {site.https}/hello?https
    curl -sS -x "$ALL_PROXY" {site.http}/hello?socks
    curl -sS "$AGENT_GATEWAY_URL/healthz"; echo
    curl -sS -o plain http://{site.refused_plain}/hello; echo $?
    """
    done = bridged.run("sh", "-c", script)
    assert done.lines == ["hello GET http", "hello GET https", "hello GET socks", '{"status":"ok"}', "0"], (
        done
    )
    assert done.log == (
        went_out("http", site.plain_target)
        + went_out("connect", site.secure_target)
        + went_out("socks", site.plain_target, inside=1)
        + was_refused("http", site.refused_plain)
    )
    assert (done.allowed, done.denied) == (3, 1)


def test_much_comes_through_whole(bridged: Product, bridged_site: Site) -> None:
    script = f"""
    for way in 1 2 3; do
        curl -sS {bridged_site.http}/large | sha256sum &
        curl -sS --cacert {bridged_site.authority} {bridged_site.https}/large | sha256sum &
    done
    wait"""
    done = bridged.run("sh", "-c", script)
    assert done.lines == [f"{large_digest()}  -"] * 6
    assert done.allowed == 6


HALF_CLOSED = """
import os, socket, sys
port = int(os.environ["http_proxy"].rpartition(":")[2].strip("/"))
target, size = sys.argv[1:]
with socket.create_connection(("127.0.0.1", port)) as way:
    way.sendall(f"CONNECT {target} HTTP/1.1\\r\\nHost: {target}\\r\\n\\r\\n".encode())
    assert b" 200 " in way.recv(65536)
    way.sendall(f"GET /large HTTP/1.1\\r\\nHost: {target}\\r\\nConnection: close\\r\\n\\r\\n".encode())
    way.shutdown(socket.SHUT_WR)
    print(sum(len(part) for part in iter(lambda: way.recv(65536), b"")) > int(size))
"""


@pytest.mark.parametrize("bridge", ["handover", "socat"])
def test_client_that_has_said_all(bridged: Product, bridged_site: Site, bridge: str) -> None:
    """It closes its half and then reads a long answer."""
    bridged.settings["bridge"] = bridge
    size = str(BLOCKS * len(BLOCK))
    done = bridged.run("python3", "-c", HALF_CLOSED, bridged_site.plain_target, size)
    assert done.lines == ["True"], done


def test_push(bridged: Product, tmp_path: Path) -> None:
    with at_work(bridged, tmp_path) as machine:
        machine_pushes(machine)


def machine_pushes(machine: PushMachine) -> None:
    """One push that the rules allow."""
    ran = machine.run("git push origin agent/work")
    assert ran[0].status == 0, ran
    assert machine.has("agent/work")


def test_another_session_has_only_its_own(bridged: Product, bridged_site: Site, tmp_path: Path) -> None:
    """While one runs, neither the host nor a second wrap shows anything of its bridge."""
    with bridged.start("sh", "-c", "stat -c %i /run/agent-gateway/bridge/*; echo; read line") as first:
        own = set(iter(first.hear, ""))
        assert len(own) == 3
        sockets = [path.name for path in bridged.folder.rglob("*") if path.is_socket()]
        assert all(name.startswith("run-") for name in sockets), "only the operator's own is on the host"
        second = bridged.run("sh", "-c", "stat -c %i /run/agent-gateway/bridge/*")
        assert not own & set(second.lines)
        first.tell("")
        assert first.end().status == 0
