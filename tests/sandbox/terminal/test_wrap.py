"""A person's own shell in bubblewrap, for real: what can be written, read and reached."""

import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import GatewayError
from gateway.session import Profile
from sandbox.spec import SandboxBindMount, SandboxSpec
from sandbox.terminal.wrap import plan_terminal
from tests.sandbox.wrapping import PATIENCE, PYTHON, Place, read_until, terminal


def options(place: Place, *more: Path, **options: Any) -> dict[str, Any]:
    """The spec's fields as `run` fills them."""
    binds = [[str(path), False] for path in (place.home, place.worktree, *more)]
    fields = {"profile": "terminal", "bind_mounts": binds, "guest_workdir": str(place.worktree), "home": ""}
    return fields | options


def sh(place: Place, script: str, *more: Path, **given: Any) -> "subprocess.CompletedProcess[str]":
    return place.sh(script, **options(place, *more, **given))


def test_home_and_working_directory_can_be_written(place: Place) -> None:
    more = place.root / "more"
    more.mkdir()
    done = sh(place, f"echo a > {place.home}/a; echo b > b; echo c > {more}/c; pwd", more)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{place.worktree}\n"
    assert [path.read_text() for path in (place.home / "a", place.worktree / "b", more / "c")] == [
        "a\n",
        "b\n",
        "c\n",
    ]


def test_names_are_the_persons_own(place: Place) -> None:
    """The file rules are for agents: a shell in which `.bashrc` cannot be edited is none."""
    place.write(place.home / ".bashrc", "old\n")
    done = sh(place, f"echo new > {place.home}/.bashrc; echo A=1 > .env; git init -q . && git config a.b c")
    assert (done.returncode, done.stderr) == (0, "")
    assert (place.home / ".bashrc").read_text() == "new\n"


@pytest.mark.parametrize(
    "path",
    ["/usr/x", "/etc/x", "/opt/x", "/srv/x", "/x", "/var/x", "/etc/passwd", "/proc/sys/kernel/hostname"],
)
def test_the_rest_is_read_only(place: Place, path: str) -> None:
    done = sh(place, f"echo x >> {path}")
    assert done.returncode != 0
    assert any(word in done.stderr for word in ("Read-only file system", "Permission denied")), done.stderr


def test_the_rest_can_be_read(place: Place) -> None:
    done = sh(place, "cat /etc/os-release && ls /var/lib >/dev/null && cat /etc/resolv.conf")
    expected = Path("/etc/os-release").read_text() + Path("/etc/resolv.conf").read_text()
    assert (done.returncode, done.stdout) == (0, expected)


def test_temporary_files_are_the_wraps_own(place: Place) -> None:
    outside = Path("/tmp", f"{place.root.name}.outside")
    outside.touch()
    try:
        done = sh(
            place, f"ls {outside}; echo x > /tmp/{place.root.name}.inside && echo x > /var/tmp/x && echo ok"
        )
    finally:
        outside.unlink()
    assert done.stdout == "ok\n"
    assert not Path("/tmp", f"{place.root.name}.inside").exists()


@pytest.mark.parametrize("secret", [".ssh/id_ed25519", ".aws/credentials", ".netrc", ".config/gh/hosts.yml"])
def test_secrets_cannot_be_read(place: Place, secret: str) -> None:
    place.write(place.home / secret, "hush", 0o600)
    path = place.home / secret
    routes = (
        f"cat {path}", f"cp {path} copy; cat copy", f"ln {path} link; cat link", f"ln -s {path} soft; cat soft",
        f"cat /proc/self/root{path}", f"cd {path.parent} && cat {path.name}",
        f"mv {path.parent} {place.home}/moved; cat {place.home}/moved/{path.name}",
    )  # fmt: skip
    done = sh(place, "; ".join(routes))
    assert "hush" not in done.stdout
    assert path.read_text() == "hush"


def test_secrets_cannot_be_replaced(place: Place) -> None:
    ssh = place.home / ".ssh"
    done = sh(place, f"echo x > {ssh}/config; rm -rf {ssh}; mv {ssh} {place.home}/x; ls {ssh}")
    assert done.returncode != 0
    assert sorted(os.listdir(ssh)) == ["id_ed25519"]
    assert (ssh / "id_ed25519").read_text() == "the key"


def test_own_state_is_hidden(place: Place) -> None:
    place.write(place.state / "audit/log.jsonl", "record")
    done = sh(place, f"cat {place.state}/audit/log.jsonl; echo x > {place.state}/x")
    assert (done.stdout, done.returncode != 0) == ("", True)
    assert os.listdir(place.state) == ["audit"]


def test_protected_paths(place: Place) -> None:
    checkout = place.home / "src/checkout"
    place.write(checkout / "file", "old")
    (place.home / "link").symlink_to(checkout)
    script = f"echo new > {checkout}/file; echo x > {place.home}/link/x; rm -rf {checkout}; echo y > {place.home}/y"
    done = sh(place, script, protected_paths=[str(place.home / "link")])
    assert (done.returncode, (place.home / "y").read_text()) == (0, "y\n")
    assert (checkout / "file").read_text() == "old"
    assert os.listdir(checkout) == ["file"]


def test_working_directory_in_a_protected_path(place: Place) -> None:
    done = sh(place, "touch x", protected_paths=[str(place.worktree)])
    assert "Read-only file system" in done.stderr


def test_network_is_the_hosts(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        script = f"import socket; socket.create_connection(('127.0.0.1', {port}), 30).sendall(b'hello')"
        done = place.run(PYTHON, "-c", script, **options(place))
        assert (done.returncode, done.stderr) == (0, "")
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(16) == b"hello"


def test_nothing_of_ours_listens_on_the_host(place: Place) -> None:
    """The agents' ports are numbers of a network of their own; this one is everybody's."""
    inodes = "cat /proc/net/tcp | awk '$4 == \"0A\" {print $2}'"
    done = sh(place, f"{inodes} | grep -iE ':(0C38|0438|0C6C)$'")
    assert done.stdout == ""


@pytest.mark.parametrize("where", ["home", "/run", "/tmp"])
def test_services_of_the_host_are_out_of_reach(place: Place, where: str) -> None:
    folder = place.home if where == "home" else Path(where)
    path = folder / f"{place.root.name}.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        try:
            path.chmod(0o777)
            script = f"import socket; socket.socket(socket.AF_UNIX).connect('{path}')"
            done = place.run(PYTHON, "-c", script, **options(place))
        finally:
            path.unlink(missing_ok=True)
    assert done.returncode == 1
    assert any(word in done.stderr for word in ("Connection refused", "No such file", "Permission denied"))


def test_processes_of_the_host_are_not_seen(place: Place) -> None:
    done = sh(place, f"test -e /proc/{os.getpid()}/cmdline || echo gone; ls /proc | grep -cE '^[0-9]+$'")
    gone, count = done.stdout.split()
    assert (gone, int(count) < 10) == ("gone", True)


def test_nothing_appears_on_the_host(place: Place) -> None:
    place.write(place.home / "file")
    place.give()
    before = sorted(str(path) for path in place.root.rglob("*"))
    assert sh(place, "true").returncode == 0
    after = sorted(str(path) for path in place.root.rglob("*") if path.suffix != ".json")
    assert after == before


def test_job_control_on_a_terminal(place: Place) -> None:
    """Ctrl-Z stops the job and not the shell, `fg` lets it go on, Ctrl-C ends it."""
    given = options(place, group="alone")
    with terminal(place.command(["/bin/bash", "--norc", "-i"], **given)) as (process, ours):
        os.write(ours, b"PS1='re''ady '\n")
        read_until(ours, b"ready ")
        os.write(ours, b"test -t 0 && test -t 1 && echo it is; cat\n")
        read_until(ours, b"it is\r\n")
        os.write(ours, b"typed\n")
        read_until(ours, b"typed\r\ntyped\r\n")
        os.write(ours, b"\x1a")
        read_until(ours, b"Stopped")
        os.write(ours, b"fg\n")
        read_until(ours, b"fg\r\ncat\r\n")
        os.write(ours, b"again\n")
        read_until(ours, b"again\r\nagain\r\n")
        os.write(ours, b"\x03")
        read_until(ours, b"ready ")
        os.write(ours, b"exit 7\n")
        assert process.wait(PATIENCE) == 7


# --- What is refused before anything starts -------------------------------------------------------


def spec(home: Path, workdir: Path, **more: Any) -> SandboxSpec:
    binds = (SandboxBindMount(str(workdir), str(workdir)),)
    fields = {"user_home": str(home), "profile": Profile.TERMINAL, "guest_workdir": str(workdir), **more}
    return SandboxSpec("s", "default", "", fields.pop("bind_mounts", binds), **fields)


@pytest.mark.parametrize("workdir", ["/", "/etc", "/usr", "/tmp/..", "/proc/self", "/dev", "/run"])
def test_working_directories_that_are_nobodys(tmp_path: Path, workdir: str) -> None:
    with pytest.raises(GatewayError, match=r"bind_mounts\[0\]: .* cannot be made writable in a terminal"):
        plan_terminal(spec(tmp_path, Path(workdir)))


def test_working_directory_that_holds_the_home(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    with pytest.raises(GatewayError, match="it holds the home directory"):
        plan_terminal(spec(tmp_path / "home", tmp_path))


def test_working_directory_that_is_hidden(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    with pytest.raises(GatewayError, match="it is hidden"):
        plan_terminal(spec(tmp_path, tmp_path / ".ssh"))
    (tmp_path / ".config/gh").mkdir(parents=True)
    assert plan_terminal(spec(tmp_path, tmp_path / ".config")).masks[-1].path == str(tmp_path / ".config/gh")


@pytest.mark.parametrize("home", ["", "/", "/usr", "/nowhere"])
def test_homes_that_are_none(tmp_path: Path, home: str) -> None:
    with pytest.raises(GatewayError):
        plan_terminal(spec(Path("/"), tmp_path, user_home=home))


def test_protected_path_that_could_be_made(tmp_path: Path) -> None:
    with pytest.raises(
        GatewayError, match=r"protected_paths: .*/absent is to be protected and does not exist"
    ):
        plan_terminal(spec(tmp_path, tmp_path, protected_paths=(str(tmp_path / "absent"),)))
    plan_terminal(spec(tmp_path, tmp_path, protected_paths=("/nowhere/absent",)))


def test_plan_of_the_wrap(tmp_path: Path) -> None:
    plan = plan_terminal(spec(tmp_path, tmp_path))
    assert "--unshare-net" not in plan.arguments
    assert {"--unshare-pid", "--die-with-parent", "--cap-drop"} <= set(plan.arguments)
    assert not [file.path for file in plan.files if "connect" in file.path or file.path.startswith("/etc")]
    assert (plan.home, plan.git_config, plan.gh_config, plan.governed) == (str(tmp_path), "", "", None)
