"""What a person's own shell may not read or reach: secrets, the product's state, sockets that somebody listens on."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import GatewayError
from sandbox.masks import Mask, MaskKind
from sandbox.places import Guard, guard
from sandbox.spec import SandboxSpec
from sandbox.terminal.masks import Covers, listed_sockets, secret_covers, socket_covers

# Where `tmp_path` is stands in for the whole host.
PRIVATE = ("/private",)


def spec(home: Path, **more: Any) -> SandboxSpec:
    return SandboxSpec("s", "w", "", (), user_home=str(home), **more)


def places(home: Path) -> Guard:
    own = home / ".local/state/agent-gateway"
    return Guard((str(home),), guard(str(home), ()).secrets, (str(own),))


def below(covers: Covers, folder: Path) -> dict[str, str]:
    """The masks below a folder, by relative path."""
    return {
        os.path.relpath(mask.path, folder): str(mask.kind)
        for mask in covers.in_order()
        if mask.path.startswith(f"{folder}/")
    }


def test_secrets_are_hidden(tmp_path: Path) -> None:
    for folder in (".ssh", ".config/gh", ".local/state/agent-gateway/audit", "src"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / ".netrc").touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".aws").symlink_to("elsewhere")
    (tmp_path / ".npmrc").symlink_to("nowhere")
    covers = Covers((), PRIVATE)
    secret_covers(covers, spec(tmp_path), places(tmp_path))
    assert below(covers, tmp_path) == {
        ".ssh": "empty-folder",
        ".config/gh": "empty-folder",
        ".local/state/agent-gateway": "empty-folder",
        ".netrc": "empty-file",
        "elsewhere": "empty-folder",
    }


def test_what_the_configuration_hides(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "a[b]*.txt").touch()
    covers = Covers((), PRIVATE)
    rules = (f"{tmp_path}/notes", f"{tmp_path}/a[[]b][*].txt", f"{tmp_path}/absent")
    secret_covers(covers, spec(tmp_path, deny_read=rules), places(tmp_path))
    assert below(covers, tmp_path) == {"notes": "empty-folder", "a[b]*.txt": "empty-file"}


@pytest.mark.parametrize("rule", ["*.secret", "name", "*/private", "/home/*/x", "/home/[ab]", "/x?"])
def test_what_would_have_to_be_searched_for(tmp_path: Path, rule: str) -> None:
    with pytest.raises(GatewayError, match=r"files\.deny_read: .* cannot be kept in a terminal"):
        secret_covers(Covers((), PRIVATE), spec(tmp_path, deny_read=(rule,)), places(tmp_path))


def test_what_is_not_seen_needs_no_mask(tmp_path: Path) -> None:
    (tmp_path / "bound").mkdir()
    for name in ("a", "bound/b"):
        (tmp_path / name).touch()
    covers = Covers((str(tmp_path / "bound"),), (str(tmp_path),))
    for name in ("a", "bound/b"):
        covers.hide(str(tmp_path / name))
    assert below(covers, tmp_path) == {"bound/b": "empty-file"}


def test_the_stronger_mask_counts_and_nothing_is_masked_in_the_dark(tmp_path: Path) -> None:
    (tmp_path / "secret/below").mkdir(parents=True)
    (tmp_path / "file").touch()
    covers = Covers((), PRIVATE)
    covers.seal(str(tmp_path / "file"))
    assert below(covers, tmp_path) == {"file": "read-only"}
    covers.hide(str(tmp_path / "file"))
    covers.seal(str(tmp_path / "file"))
    covers.seal(str(tmp_path / "secret/below"))
    covers.hide(str(tmp_path / "secret"))
    assert covers.in_order() == (
        Mask(str(tmp_path / "file"), MaskKind.EMPTY_FILE),
        Mask(str(tmp_path / "secret"), MaskKind.EMPTY_FOLDER),
    )


def test_a_closed_directory_of_ones_own_is_hidden_itself(tmp_path: Path) -> None:
    """Inside, its owner could open it; bubblewrap, which has no more power, could not mount anything in it."""
    (tmp_path / "closed/.ssh").mkdir(parents=True)
    (tmp_path / "closed").chmod(0)
    covers = Covers((), PRIVATE)
    covers.hide(str(tmp_path / "closed/.ssh"))
    assert below(covers, tmp_path) == {"closed": "empty-folder"}


def test_sockets_that_somebody_listens_on(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        covers = Covers((), PRIVATE)
        socket_covers(covers)
        assert below(covers, tmp_path) == {"agent.sock": "empty-file"}
    path.unlink()
    path.touch()
    covers = Covers((), PRIVATE)
    socket_covers(covers)
    assert below(covers, tmp_path) == {}


LISTING = """\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 1 /run/a b
0000000000000000: 00000002 00000000 00010000 0001 01 2 @abstract
0000000000000000: 00000002 00000000 00010000 0001 01 3
0000000000000000: 00000003 00000000 00000000 0001 03 4 /run/a b
0000000000000000: 00000002 00000000 00010000 0001 01 5 relative
0000000000000000: 00000002 00000000 00010000 0001 01 6 /home/ö
half a line
"""


def test_listing(tmp_path: Path) -> None:
    (tmp_path / "unix").write_text(LISTING)
    assert listed_sockets(str(tmp_path / "unix")) == ["/home/ö", "/run/a b"]
    assert listed_sockets(str(tmp_path / "absent")) == []
