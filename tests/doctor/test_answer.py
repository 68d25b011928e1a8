"""`agent-gateway doctor` as a user starts it: on a host where all is well, and where much is not."""

import json
import os
from pathlib import Path

import pytest

from gateway.doctor.boundaries import BOUNDARIES
from gateway.doctor.examination import CHECKS
from tests.fakes.console import Console, without_bubblewrap
from tests.fakes.doctor import asked
from tests.sandbox.wrapping import HERE, PYTHON

# No network, and a hosts file that knows names.
OFFLINE = ("unshare", "--map-root-user", "--mount", "--net", "sh", "-c")
HOSTS = 'mount --bind "$1" /etc/hosts && "$2" -c "$3" && shift 3 && exec "$@"'
# The loopback is down in a new network (netdevice(7), SIOCSIFFLAGS).
LOOPBACK = """
import fcntl, socket, struct
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    fcntl.ioctl(sock.fileno(), 0x8914, struct.pack("16sh22x", b"lo", 0x49))
"""


def refusing(what: str) -> tuple[str, ...]:
    """Under a filter that refuses some calls."""
    return ("env", f"PYTHONPATH={HERE.parents[1]}", PYTHON, "-B", str(HERE / "refusing.py"), what)


def offline(hosts: Path, text: str) -> tuple[str, ...]:
    """Without a network; names are in a hosts file with this text."""
    hosts.write_text(text)
    return (*OFFLINE, HOSTS, "sh", str(hosts), PYTHON, LOOPBACK)


def test_a_host_where_all_is_well(tmp_path: Path) -> None:
    console = Console(tmp_path, before=offline(tmp_path / "hosts", "93.184.216.34 github.com\n"))
    done = console.call("doctor")
    assert (done.status, done.said) == (0, [])
    assert done.lines[0].startswith("ok      python            Python 3.")
    assert "what holds, under native:" in done.lines
    found = asked(console)
    names = {check.name for check in CHECKS if "linux" in check.platforms}
    assert found.keys() == names
    assert {name for name, one in found.items() if one["verdict"] != "ok"} == {"github app"}
    assert found["dns"]["reason"] == "github.com leads to 93.184.216.34"
    assert not console.left()


def test_a_host_without_a_network(tmp_path: Path) -> None:
    found = asked(Console(tmp_path, before=offline(tmp_path / "hosts", "127.0.0.1 localhost\n")))
    assert found["dns"]["verdict"] == "warning"
    assert "this machine may be offline" in found["dns"]["reason"]


def test_a_name_that_leads_into_the_own_network(tmp_path: Path) -> None:
    found = asked(Console(tmp_path, before=offline(tmp_path / "hosts", "10.1.2.3 github.com\n")))
    assert found["dns"]["verdict"] == "warning"
    assert found["dns"]["reason"].startswith("github.com leads to an address that is not public (")


@pytest.mark.parametrize(
    ("what", "failed"),
    [
        ("user", {"bubblewrap", "user namespaces", "file rules", "wall"}),
        ("mount", {"bubblewrap", "file rules", "wall"}),
        ("landlock", {"landlock", "file rules"}),
        ("notification", {"seccomp", "file rules"}),
        ("pidfd_getfd", {"file rules"}),
    ],
)
def test_a_host_that_refuses(tmp_path: Path, what: str, failed: set[str]) -> None:
    found = asked(Console(tmp_path, before=refusing(what)))
    assert {name for name, one in found.items() if one["verdict"] == "failed"} == failed
    assert all(found[name]["cure"] for name in failed if name != "user namespaces")


def test_a_host_without_bubblewrap(tmp_path: Path) -> None:
    console = Console(tmp_path, before=without_bubblewrap(os.devnull))
    found = asked(console)
    assert {name for name, one in found.items() if one["verdict"] == "failed"} == {
        "bubblewrap",
        "file rules",
        "wall",
    }
    assert found["run"]["verdict"] == "warning"
    assert "what holds, under none:" in console.call("doctor").lines


def test_a_broken_config_does_not_hide_the_rest(tmp_path: Path) -> None:
    console = Console(tmp_path)
    console.config("egress: {allow: [no host]}\n")
    found = asked(console)
    assert found["config"]["verdict"] == "failed"
    assert "config.yaml:1: egress.allow" in found["config"]["reason"]
    assert found["file rules"]["verdict"] == "ok"


def test_nothing_is_made(tmp_path: Path) -> None:
    console = Console(tmp_path)
    asked(console)
    assert not console.state.exists()
    assert not console.left()


def test_boundaries(tmp_path: Path) -> None:
    console = Console(tmp_path)
    done = console.call("doctor", "--boundaries")
    assert (done.status, len(done.lines)) == (0, 2 + len(BOUNDARIES))
    answer = json.loads(console.call("doctor", "--boundaries", "--json").stdout)
    assert [row["name"] for row in answer] == [row.name for row in BOUNDARIES]
    markdown = console.call("doctor", "--boundaries", "--markdown").lines
    assert markdown[1] == "| --- | --- | --- | --- | --- | --- |"


def test_no_home(tmp_path: Path) -> None:
    console = Console(tmp_path)
    del console.environ["HOME"], console.environ["XDG_STATE_HOME"]
    done = console.call("doctor")
    assert (done.status, done.stdout) == (125, b"")
