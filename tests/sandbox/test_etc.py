"""The view of /etc: what stands on the list and what every user may read, and nothing else."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from sandbox.etc import DEPTH_LIMIT, LISTED, NEVER, EtcEntry, accounts, hosts, view_etc

# A file by its mode, a directory by None, a link by where it leads.
type Tree = Mapping[str, int | str | None]


def build(root: Path, tree: Tree) -> None:
    """Makes the tree; whatever a name needs above it is made as a directory that all may read."""
    for name, what in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if what is None:
            path.mkdir(exist_ok=True)
        elif isinstance(what, str):
            path.symlink_to(what)
        else:
            path.write_text("content")
            path.chmod(what)


def view(root: Path) -> list[str]:
    """What is shown, relative to the root; a link as "name -> target"."""
    return [
        os.path.relpath(entry.path, root) + (f" -> {entry.target}" if entry.target else "")
        for entry in view_etc(str(root))
    ]


@pytest.mark.parametrize(
    ("tree", "shown"),
    [
        ({}, []),
        # files
        ({"os-release": 0o644, "passwd": 0o644, "hosts": 0o644, "machine-id": 0o444}, ["os-release"]),
        ({"protocols": 0o644, "services": 0o640, "rpc": 0o600, "shells": 0o004}, ["protocols", "shells"]),
        ({"arch-release": 0o644, "release-notes": 0o644}, ["arch-release"]),
        ({"python3.13/x": 0o644, "pythonista": 0o644, "xpython": 0o644}, ["python3.13", "pythonista"]),
        # what nobody listed, whatever it is
        ({"pip.conf": 0o644, "msmtprc": 0o644, "npmrc": 0o644, "gitconfig": 0o644, "environment": 0o644}, []),
        (
            {
                "shadow": 0o644,
                "sudoers": 0o644,
                "krb5.keytab": 0o644,
                "cron.d/x": 0o644,
                "ld.so.preload": 0o644,
            },
            [],
        ),
        # a directory that all may read is one entry
        ({"ssl/openssl.cnf": 0o644, "ssl/certs/a.crt": 0o644}, ["ssl"]),
        # one that holds more is opened, and only as far as needed
        (
            {"ssl/openssl.cnf": 0o644, "ssl/certs/a.crt": 0o644, "ssl/private/server": 0o644},
            ["ssl/certs", "ssl/openssl.cnf"],
        ),
        ({"ssl/a": 0o644, "ssl/b": 0o600}, ["ssl/a"]),
        ({"pki/tls/a": 0o644, "pki/tls/b": 0o640, "pki/java/c": 0o644}, ["pki/java", "pki/tls/a"]),
        ({"ssl/only": 0o600}, []),
        ({"ssl": None}, ["ssl"]),
        # never below a listed one, whatever the mode says, in any case
        ({"ssl/a_key": 0o644, "ssl/b.key": 0o644, "ssl/B.KEY": 0o644, "ssl/c": 0o644}, ["ssl/c"]),
        ({"ssl/Password.txt": 0o644, "ssl/my-secret": 0o644, "ssl/c": 0o644}, ["ssl/c"]),
        ({"maven/settings.xml": 0o644, "maven/settings-security.xml": 0o644}, ["maven/settings.xml"]),
        ({"ssl/shadow-": 0o644, "ssl/sudoers.d/x": 0o644, "ssl/c": 0o644}, ["ssl/c"]),
        ({"ssl/PRIVATE/x": 0o644, "ssl/keys/c": 0o644}, ["ssl/keys"]),
        # links are shown as links: where they lead is shown or not by itself
        ({"localtime": "/usr/share/zoneinfo/Etc/UTC"}, ["localtime -> /usr/share/zoneinfo/Etc/UTC"]),
        ({"os-release": "shadow", "shadow": 0o644}, ["os-release -> shadow"]),
        ({"alternatives/vi": "/usr/bin/vim", "alternatives/gone": "missing"}, ["alternatives"]),
        ({"ssl/certs": "/var/lib/certs", "ssl/x": 0o600}, ["ssl/certs -> /var/lib/certs"]),
        ({"ssl/server.key": "/elsewhere", "ssl/c": 0o644}, ["ssl/c"]),
        ({"ssl/loop": "loop"}, ["ssl"]),
        # names with a folder
        ({"default/locale": 0o644, "default/grub": 0o644}, ["default/locale"]),
        (
            {"ssh/ssh_config": 0o644, "ssh/sshd_config": 0o644, "ssh/ssh_host_rsa_key": 0o644},
            ["ssh/ssh_config"],
        ),
        ({"ssh/ssh_config.d/10.conf": 0o644, "ssh/ssh_known_hosts": 0o600}, ["ssh/ssh_config.d"]),
    ],
)
def test_view(tmp_path: Path, tree: Tree, shown: list[str]) -> None:
    build(tmp_path, tree)
    assert view(tmp_path) == shown


@pytest.mark.parametrize(
    ("mode", "shown"),
    [
        (0o755, ["ssl"]),
        (0o705, ["ssl"]),
        (0o750, []),
        (0o700, []),
        (0o751, []),  # may be entered, not listed
        (0o754, []),  # may be listed, not entered
    ],
)
def test_directory_that_not_all_may_read(tmp_path: Path, mode: int, shown: list[str]) -> None:
    build(tmp_path, {"ssl/a": 0o644})
    (tmp_path / "ssl").chmod(mode)
    assert view(tmp_path) == shown


def test_listed_below_a_closed_directory(tmp_path: Path) -> None:
    """Not every user may read it, so not the wrap either, though root could."""
    build(tmp_path, {"ssh/ssh_config": 0o644, "default/locale": 0o644})
    (tmp_path / "ssh").chmod(0o700)
    assert view(tmp_path) == ["default/locale"]


def test_listed_below_a_link(tmp_path: Path) -> None:
    """The folder is somewhere else: what is bound is the file, at its place below /etc."""
    build(tmp_path, {"elsewhere/ssh_config": 0o644, "ssh": "elsewhere"})
    assert view(tmp_path) == ["ssh/ssh_config"]


def test_what_is_neither_file_nor_directory(tmp_path: Path) -> None:
    build(tmp_path, {"ssl/a": 0o644})
    os.mkfifo(tmp_path / "ssl/pipe", 0o666)
    os.mkfifo(tmp_path / "shells", 0o666)
    assert view(tmp_path) == ["ssl/a"]


def test_too_deep(tmp_path: Path) -> None:
    deep = "ssl/" + "d/" * DEPTH_LIMIT
    build(tmp_path, {f"{deep}e/file": 0o644, "ssl/a": 0o644})
    assert view(tmp_path) == ["ssl/a"]


def test_missing_and_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert view(tmp_path / "missing") == []
    assert view(tmp_path / "file") == []


def test_order_is_stable(tmp_path: Path) -> None:
    names = ["zsh/a", "alternatives/b", "ssl/c", "ssl/a", "ssl/b.key", "fonts/x"]
    build(tmp_path, dict.fromkeys(names, 0o644))
    assert view(tmp_path) == ["alternatives", "fonts", "ssl/a", "ssl/c", "zsh"]


def test_this_hosts_view_shows_nothing_that_is_not_for_all() -> None:
    """Every file of the real view, all the way down, may be read by everybody."""
    for entry in view_etc():
        assert entry.path.startswith("/etc/")
        if entry.target:
            continue
        for folder, _, files in os.walk(entry.path):
            for path in (folder, *(os.path.join(folder, name) for name in files)):
                mode = os.lstat(path).st_mode
                assert stat.S_ISLNK(mode) or mode & stat.S_IROTH, path
                assert not os.path.basename(path).endswith((".key", "_key")), path
    shown = {entry.path for entry in view_etc()}
    own = {
        "/etc/passwd",
        "/etc/group",
        "/etc/hosts",
        "/etc/resolv.conf",
        "/etc/shadow",
        "/etc/sudoers",
        "/etc/fstab",
    }
    assert not shown & own


def test_entry_is_a_value() -> None:
    assert EtcEntry("/etc/x") == EtcEntry("/etc/x", "")


def test_lists_hold_no_path_that_leads_out() -> None:
    assert len(set(LISTED)) == len(LISTED)
    assert not [name for name in (*LISTED, *NEVER) if name.startswith("/") or ".." in name.split("/")]
    assert not {"passwd", "group", "hosts", "resolv.conf", "shadow", "sudoers", "gitconfig"} & set(LISTED)


# --- Accounts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uid", "gid", "people", "groups"),
    [
        (
            1000,
            1000,
            ["root:x:0:0:root:/root:/bin/sh", "dev:x:1000:1000:dev:/h:/bin/zsh", "NOBODY"],
            ["root:x:0:", "dev:x:1000:", "nogroup:x:65534:"],
        ),
        (0, 0, ["dev:x:0:0:dev:/h:/bin/zsh", "NOBODY"], ["root:x:0:", "nogroup:x:65534:"]),
        (
            65534,
            65534,
            ["root:x:0:0:root:/root:/bin/sh", "dev:x:65534:65534:dev:/h:/bin/zsh"],
            ["root:x:0:", "nogroup:x:65534:"],
        ),
        (
            100000,
            5,
            ["root:x:0:0:root:/root:/bin/sh", "NOBODY", "dev:x:100000:5:dev:/h:/bin/zsh"],
            ["root:x:0:", "dev:x:5:", "nogroup:x:65534:"],
        ),
    ],
)
def test_accounts(uid: int, gid: int, people: list[str], groups: list[str]) -> None:
    nobody = "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin"
    passwd, group = accounts(uid, gid, "dev", "/h", "/bin/zsh")
    assert passwd.splitlines() == [nobody if line == "NOBODY" else line for line in people]
    assert group.splitlines() == groups
    assert passwd.endswith("\n")
    assert group.endswith("\n")


# --- Names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hostname", "first"),
    [
        ("build-7.example", "127.0.0.1 localhost build-7.example"),
        ("localhost", "127.0.0.1 localhost localhost"),
        ("", "127.0.0.1 localhost"),
        ("two words", "127.0.0.1 localhost"),
        ("evil\n192.0.2.1 github.com", "127.0.0.1 localhost"),
        ("name#comment", "127.0.0.1 localhost"),
    ],
)
def test_hosts(hostname: str, first: str) -> None:
    assert hosts(hostname).splitlines() == [first, "::1 localhost ip6-localhost ip6-loopback"]
