"""The self-test of a wrapped session: on a real wrap, on networks that are none, and its judgement as a table."""

import asyncio
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.allowlists import load_shipped
from gateway.config import Config, compile_egress
from gateway.errors import GatewayError
from gateway.policy.egress import EgressRules
from gateway.prober import Prober
from gateway.proxy.reactor import GatewayLoop
from gateway.self_test import (
    UNWRAPPED,
    Outcome,
    State,
    judge,
    prove_wall,
)
from gateway.session import FileRules
from sandbox.backends import NATIVE
from sandbox.backends.base import Endpoints, Running
from sandbox.launch import from_name
from sandbox.spec import SandboxBindMount, SandboxHandle, SandboxSpec, SandboxState
from tests.fakes.config_files import load

MARK = "0123"
HELD = {
    "devices": "lo",
    "route": "",
    "host": "closed",
    "refused": "403 deny; code=not_listed",
    "passed": f"200 {MARK}",
}
OFF = {"devices": "lo", "route": "", "host": "closed", "refused": "403 deny; code=network_off"}


def make_rules(*, network: bool = True) -> EgressRules:
    return compile_egress(Config(), load_shipped(), (), network)


@contextmanager
def wrap(folder: Path) -> Iterator[Running]:
    """A real one, with the weaker file rules: they come up faster."""
    spec = SandboxSpec(
        session_id="session-1",
        workspace_id="default",
        agent_id="",
        bind_mounts=(SandboxBindMount(str(folder), str(folder)),),
        search_path="/usr/bin:/bin",
        file_rules=FileRules.EXISTING_ONLY,
    )
    running = NATIVE.launch(spec)
    try:
        yield running
    finally:
        NATIVE.destroy(running)


def in_loop[T](main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    with asyncio.Runner(loop_factory=GatewayLoop) as runner:
        return runner.run(main())


def tried(rules: EgressRules, running: Running, prober: Prober | None = None) -> Outcome:
    with tempfile.TemporaryDirectory() as scratch:
        return in_loop(lambda: prove_wall(rules, running, Path(scratch), prober))


@pytest.mark.parametrize("network", [True, False])
def test_a_wrap(tmp_path: Path, network: bool) -> None:
    with wrap(tmp_path) as running:
        outcome = tried(make_rules(network=network), running)
        assert outcome.state is State.HOLDS, outcome
        # The listeners are as they were: the session's own proxies can be opened on them.
        assert running.http.getsockname()[1] == running.endpoints.http_port


def test_it_leaves_nothing(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    before = set(os.listdir("/proc/self/fd"))
    with wrap(tmp_path) as running:
        up = set(os.listdir("/proc/self/fd"))
        assert in_loop(lambda: prove_wall(make_rules(), running, scratch)).state is State.HOLDS
        assert set(os.listdir("/proc/self/fd")) == up
    # But for the supervisor that waits for the next wrap.
    assert len(set(os.listdir("/proc/self/fd"))) <= len(before) + 1
    assert list(scratch.iterdir()) == []


def test_no_room_for_its_log(tmp_path: Path) -> None:
    with wrap(tmp_path) as running:
        outcome = in_loop(lambda: prove_wall(make_rules(), running, tmp_path / "missing"))
    assert outcome.state is State.UNTESTED
    assert "No such file or directory" in outcome.reason


def test_the_operators_own_denials_are_no_hindrance(tmp_path: Path) -> None:
    config = load(tmp_path, "egress: {deny: [127.0.0.0/8]}\n")
    rules = compile_egress(config, load_shipped(), (), network=True)
    with wrap(tmp_path) as running:
        assert tried(rules, running).state is State.HOLDS


@dataclass
class HostNetwork:
    """What a backend would give that wraps nothing: listeners and a process in the network of the host."""

    http: socket.socket
    socks: socket.socket
    endpoints: Endpoints
    process: int | None
    handle = SandboxHandle("session-1", "native", SandboxState.WARM)


@contextmanager
def host_network(process: int | None) -> Iterator[Any]:
    with socket.create_server(("127.0.0.1", 0)) as http, socket.create_server(("127.0.0.1", 0)) as socks:
        for listener in (http, socks):
            listener.setblocking(False)
        yield HostNetwork(http, socks, Endpoints(http.getsockname()[1], socks.getsockname()[1], 1), process)


def test_no_wall() -> None:
    process = os.pidfd_open(os.getpid())
    try:
        with host_network(process) as running:
            outcome = tried(make_rules(), running)
    finally:
        os.close(process)
    assert outcome == Outcome(
        State.OPEN, "the command would stand in the host's own network", outcome.milliseconds
    )


def test_a_wrap_that_has_ended() -> None:
    with subprocess.Popen(["true"]) as child:
        process = os.pidfd_open(child.pid)
    try:
        with host_network(process) as running:
            assert tried(make_rules(), running).state is State.UNTESTED
    finally:
        os.close(process)


def test_a_wrap_that_names_no_process() -> None:
    with host_network(None) as running:
        assert tried(make_rules(), running).state is State.UNTESTED


def test_a_prober_that_is_gone(tmp_path: Path) -> None:
    prober = Prober()
    prober.close()
    with wrap(tmp_path) as running:
        assert tried(make_rules(), running, prober).state is State.UNTESTED


def test_a_prober_that_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.self_test.DEADLINE", 0.2)
    prober = Prober()
    prober.process.send_signal(signal.SIGSTOP)
    with wrap(tmp_path) as running:
        outcome = tried(make_rules(), running, prober)
    assert outcome.state is State.UNTESTED
    assert outcome.reason == "the trial did not come to an end within 0.2 seconds"
    assert prober.process.poll() is not None


def test_a_prober_of_before_is_used_and_ended(tmp_path: Path) -> None:
    prober = Prober()
    with wrap(tmp_path) as running:
        assert tried(make_rules(), running, prober).state is State.HOLDS
    assert prober.process.poll() is not None


def test_without_a_wrap_there_is_nothing_to_try(tmp_path: Path) -> None:
    spec = SandboxSpec("s", "default", "", (SandboxBindMount(str(tmp_path), str(tmp_path)),))
    backend = from_name("none")
    running = backend.launch(spec)
    try:
        assert tried(make_rules(), running) is UNWRAPPED
    finally:
        backend.destroy(running)


# --- The judgement --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "network", "state", "words"),
    [
        (HELD, True, State.HOLDS, "no way past the proxies"),
        (OFF, False, State.HOLDS, "no way past the proxies"),
        (
            {**HELD, "route": "192.0.2.1 10.0.0.1"},
            True,
            State.OPEN,
            "past the proxies, to 192.0.2.1 10.0.0.1",
        ),
        ({**HELD, "devices": "lo eth0"}, True, State.OPEN, "further interfaces: lo eth0"),
        ({**HELD, "devices": ""}, True, State.OPEN, "further interfaces"),
        ({"shared": "yes"}, True, State.OPEN, "the host's own network"),
        ({**HELD, "host": "nothing"}, True, State.OPEN, "the host's own loopback can be reached"),
        ({**HELD, "host": "200"}, True, State.OPEN, "the host's own loopback can be reached"),
        ({**HELD, "refused": "200 "}, True, State.OPEN, "was not refused by the proxy: 200"),
        (
            {**HELD, "refused": "502 upstream; code=dns_failed"},
            True,
            State.OPEN,
            "was not refused by the proxy",
        ),
        ({**HELD, "refused": "403 deny; code=port"}, True, State.OPEN, "was not refused by the proxy"),
        ({**HELD, "refused": "403 "}, True, State.OPEN, "was not refused by the proxy"),
        ({**HELD, "refused": "closed "}, True, State.OPEN, "was not refused by the proxy: closed"),
        ({**HELD, "passed": "403 deny"}, True, State.UNTESTED, "did not come through the proxy: 403"),
        ({**HELD, "passed": "200 4567"}, True, State.UNTESTED, "did not come through the proxy: 200 4567"),
        ({**HELD, "refused": "403 deny; code=internal"}, True, State.UNTESTED, "the proxy could not judge"),
        ({**HELD, "refused": "403 deny; code=limit"}, True, State.UNTESTED, "the proxy could not judge"),
        (OFF, True, State.OPEN, "was not refused by the proxy"),
        (HELD, False, State.OPEN, "was not refused by the proxy"),
        ({}, True, State.UNTESTED, "the probe said nothing"),
        ({"failed": "[Errno 1] Operation not permitted"}, True, State.UNTESTED, "Operation not permitted"),
        ({"route": "", "host": "closed"}, True, State.UNTESTED, "the probe said nothing"),
    ],
)
def test_judgement(told: dict[str, str], network: bool, state: State, words: str) -> None:
    found, reason = judge(told, MARK, network=network)
    assert found is state
    assert words in reason


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (State.HOLDS, ""),
        (State.UNWRAPPED, ""),
        (State.UNSUPPORTED, ""),
        (State.OPEN, "the wrap has a hole, so the command was not started: because"),
        (State.UNTESTED, "the wrap was not proven, so the command was not started: because"),
    ],
)
def test_what_a_command_is_started_with(state: State, words: str) -> None:
    outcome = Outcome(state, "because")
    if not words:
        outcome.require()
        return
    with pytest.raises(GatewayError) as error:
        outcome.require()
    assert error.value.message == words
    assert error.value.hint
