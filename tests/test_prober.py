"""The process that tries a wall: it waits to be told, and is gone when nobody wants it."""

import asyncio
import os
import subprocess

import pytest

from gateway.prober import Prober


def test_it_is_there_until_it_is_closed() -> None:
    before = set(os.listdir("/proc/self/fd"))
    prober = Prober()
    assert prober.process.poll() is None
    prober.close()
    prober.close()
    assert prober.process.poll() is not None
    assert set(os.listdir("/proc/self/fd")) == before


def test_it_ends_with_whoever_started_it() -> None:
    """Its channel is closed then, whatever else happens."""
    prober = Prober()
    prober._channel.close()
    assert prober.process.wait(30) == 0


def test_a_network_that_cannot_be_entered() -> None:
    """That of a process which has ended, and of what is no process at all."""
    with subprocess.Popen(["true"]) as child:
        process = os.pidfd_open(child.pid)
    prober = Prober()
    try:
        assert "failed" in asyncio.run(prober.ask(process, ("1", "a.invalid", "", "2")))
        with open(os.devnull, "rb") as null:
            assert "failed" in asyncio.run(Prober().ask(null.fileno(), ("1", "a.invalid", "", "2")))
    finally:
        os.close(process)
        prober.close()


@pytest.mark.parametrize("orders", [(), ("1",), ("1", "2", "3", "4", "5", "6")])
def test_orders_that_are_none(orders: tuple[str, ...]) -> None:
    prober = Prober()
    try:
        prober._channel.setblocking(True)
        prober._channel.sendall("\0".join(orders).encode() or b"x")
        assert prober._channel.recv(100) == b""
    finally:
        prober.close()
