"""`agent-gateway hook pre-tool-use`, as a process: the same hook, and 2 for whatever goes wrong."""

import json
import subprocess

import pytest

from tests.fakes.hook_inputs import hook_input
from tests.fakes.origin import closed_port
from tests.fakes.product import PATIENCE, PROGRAM
from tests.sandbox.test_hook import ALLOW, DENIAL, DENY, SECRET, gateway


def hook(*arguments: str, text: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        (str(PROGRAM), "hook", "pre-tool-use", *arguments),
        input=text or json.dumps(hook_input("Read", {"file_path": "/a"})),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={"AGENT_GATEWAY_SECRET": SECRET, **environment},
    )


@pytest.mark.parametrize(("response", "output"), [(ALLOW, ""), (DENY, DENIAL.decode())])
def test_a_decision(response: bytes, output: str) -> None:
    with gateway(response) as (origin, _):
        done = hook(AGENT_GATEWAY_URL=f"http://127.0.0.1:{origin.port}")
    assert (done.returncode, done.stdout, done.stderr) == (0, output, "")


@pytest.mark.parametrize(
    "arguments",
    [("--limit", "0"), ("--limit", "x"), ("--other",), ("--limit",), ("--limit", "nan"), ("stray",)],
)
def test_whatever_is_wrong_blocks(arguments: tuple[str, ...]) -> None:
    with gateway(ALLOW) as (origin, _):
        done = hook(*arguments, AGENT_GATEWAY_URL=f"http://127.0.0.1:{origin.port}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr


def test_no_gateway_blocks() -> None:
    with closed_port() as port:
        done = hook(AGENT_GATEWAY_URL=f"http://127.0.0.1:{port}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("agent-gateway: the session's gateway cannot be asked")
