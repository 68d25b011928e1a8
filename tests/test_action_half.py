"""The places of a session as its tool calls meet them: real files, real links, the real file rules."""

from pathlib import Path

import pytest

from gateway.action_half import make_grounds
from gateway.policy.grounds import Grounds, Place
from gateway.session import Mode
from sandbox.backends.base import Inside
from sandbox.spec import SandboxBindMount, SandboxSpec

HOME = "/private-home"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("tree", "shared", "read", "home/.ssh", "state"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "tree/out").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "tree/in").symlink_to(tmp_path / "tree/src")
    (tmp_path / "tree/keys").symlink_to(tmp_path / "home/.ssh")
    return tmp_path


def grounds(folder: Path, mode: Mode = Mode.CHAT, backend: str = "native", **more: object) -> Grounds:
    binds = (
        SandboxBindMount(str(folder / "tree"), str(folder / "tree")),
        SandboxBindMount(str(folder / "shared"), str(folder / "shared")),
        SandboxBindMount(str(folder / "read"), str(folder / "read"), read_only=True),
    )
    spec = SandboxSpec(
        "s",
        "default",
        "",
        binds,
        mode=mode,
        runner_state_dirs=(str(folder / "state"),),
        user_home=str(folder / "home"),
        guest_workdir=str(folder / "tree"),
        protected_paths=(str(folder / "shared/fixed"),),
        **more,  # type: ignore[arg-type]  # rows name the fields
    )
    home = HOME if backend == "native" else str(folder / "home")
    inside = Inside(home, "/usr/bin", "/tmp", "", (), (), {})
    return make_grounds(spec, str(folder / "tree"), inside, backend, (str(folder / "app.key"),))


@pytest.mark.parametrize(
    ("path", "mode", "place"),
    [
        ("a", Mode.CHAT, Place.INSIDE),
        ("{}/tree/a", Mode.CHAT, Place.INSIDE),
        ("{}/shared/a", Mode.CHAT, Place.INSIDE),
        ("{}/read/a", Mode.CHAT, Place.OUTSIDE),
        ("{}/state/a", Mode.CHAT, Place.INSIDE),
        ("{}/tree/a", Mode.PLAN, Place.OUTSIDE),
        ("{}/state/a", Mode.PLAN, Place.INSIDE),
        ("{}/tree/in/a", Mode.CHAT, Place.INSIDE),
        ("{}/tree/../a", Mode.CHAT, Place.OUTSIDE),
        ("/etc/a", Mode.CHAT, Place.OUTSIDE),
    ],
)
def test_without_a_wrap(folder: Path, path: str, mode: Mode, place: Place) -> None:
    found = grounds(folder, mode, "none")
    assert found.place(found.absolute(path.format(folder))) is place


def test_a_link_that_leads_out(folder: Path) -> None:
    found = grounds(folder, backend="none")
    assert found.absolute("out/a") == str(folder / "elsewhere/a")
    assert found.place(found.absolute("out/a")) is Place.OUTSIDE
    assert found.is_secret(found.absolute("keys/id_ed25519"))


@pytest.mark.parametrize("path", ["/tmp/a", "/var/tmp/a", f"{HOME}/a", "~/a", "/run/a"])
def test_what_is_a_wraps_own(folder: Path, path: str) -> None:
    found = grounds(folder)
    assert found.place(found.absolute(path)) is Place.PRIVATE
    found = grounds(folder, backend="none")
    assert found.place(found.absolute(path)) is Place.OUTSIDE


@pytest.mark.parametrize(
    ("path", "protected"),
    [
        ("tree/.env", True),
        ("tree/.env.example", False),
        ("tree/.git/hooks/post-commit", True),
        ("tree/.git/config", True),
        ("tree/.GIT/Config", True),
        ("tree/sub/.git/modules/x/hooks/a", True),
        ("tree/.git/info/exclude", False),
        ("tree/.git/refs/heads/config", False),
        ("tree/config", False),
        ("tree/.claude/settings.json", True),
        ("tree/.claude/hooks/x", True),
        ("tree/.gitmodules", True),
        ("tree/a.py", False),
        ("shared/fixed/a", True),
        ("shared/fixedly", False),
        ("tree/my.secret", True),
        ("tree/ok.secret", False),
    ],
)
def test_what_may_not_be_written(folder: Path, path: str, protected: bool) -> None:
    found = grounds(folder, deny_write=("*.secret",), allow_write=("ok.secret",))
    assert found.is_protected(found.absolute(f"{folder}/{path}")) is protected


@pytest.mark.parametrize(
    ("path", "secret"),
    [
        ("{}/home/.ssh/id_ed25519", True),
        ("{}/home/.ssh", True),
        ("{}/home/.sshrc", False),
        ("/etc/shadow", True),
        ("/etc/passwd", False),
        ("{}/tree/.env", True),
        ("{}/tree/.env.local", True),
        ("{}/tree/.env.example", False),
        ("{}/tree/tls.key", True),
        ("{}/tree/node_modules/x/tls.key", False),
        ("/etc/ssl/certs/a.pem", False),
        ("{}/tree/a.py", False),
        ("{}/tree/hidden.txt", True),
        ("{}/app.key", True),
        ("/", False),
    ],
)
def test_what_is_a_secret(folder: Path, path: str, secret: bool) -> None:
    found = grounds(folder, deny_read=("hidden.*",))
    assert found.is_secret(found.absolute(path.format(folder))) is secret
