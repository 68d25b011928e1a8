"""The operator's sockets from inside: out of reach in a wrap wherever they are, and no option brings them in."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.fakes.product import PATIENCE, Product

# From within the folder: its whole path is too long for a socket's name.
LOOK = (
    "ls {folder} 2>&1 | tail -n 1; cd {folder} 2>/dev/null; "
    "curl -s --max-time 5 --unix-socket run-$AGENT_GATEWAY_SESSION.sock http://x/healthz; echo"
)


def folder_of(product: Product, has_runtime: bool) -> Path:
    """Where the sockets of its runs are."""
    if has_runtime:
        return product.folder / "run/agent-gateway"
    del product.environment["XDG_RUNTIME_DIR"]
    return product.folder / "state/agent-gateway/run"


@pytest.mark.parametrize("has_runtime", [True, False], ids=["runtime directory", "state directory"])
def test_only_without_a_wrap_it_can_be_reached(product: Product, has_runtime: bool) -> None:
    folder = folder_of(product, has_runtime)
    listed, answer = product.run("sh", "-c", LOOK.format(folder=folder)).stdout.splitlines()
    if product.sandbox == "on":
        assert "No such file or directory" in listed
        assert answer == ""
    else:
        assert listed.startswith("run-")
        assert json.loads(answer) == {"status": "ok"}
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("option", ["--bind", "--state-dir"])
@pytest.mark.parametrize("has_runtime", [True, False], ids=["runtime directory", "state directory"])
def test_no_option_brings_it_in(wrapped: Product, option: str, has_runtime: bool) -> None:
    folder = folder_of(wrapped, has_runtime)
    folder.mkdir(parents=True)
    for shown in (folder, folder.parent):
        done = subprocess.run(
            wrapped.command(("true",), (option, str(shown))),
            capture_output=True, text=True, timeout=PATIENCE, check=False,
            cwd=wrapped.work, env=wrapped.environment,
        )  # fmt: skip
        assert done.returncode == 125, (shown, done.stderr)
        assert "cannot be seen from inside the wrap" in done.stderr, (shown, done.stderr)
