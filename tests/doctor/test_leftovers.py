"""What the dead leave: told from what the living hold, and never touched."""

import fcntl
import os
import socket
import time
from pathlib import Path

import pytest

from gateway.doctor.findings import Verdict
from gateway.doctor.leftovers import ABANDONED, look_at_leftovers
from gateway.doctor.place import Place
from gateway.operator_socket import listen, session_socket
from tests.fakes.doctor import only, place_in


def place(folder: Path) -> Place:
    found = place_in(folder, worktree=folder / "work")
    (folder / "work/.git").mkdir(parents=True)
    found.sockets.mkdir(mode=0o700, parents=True)
    return found


def old(path: Path, *, seconds: float = ABANDONED + 60) -> Path:
    """Something that has been there for a while."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (time.time() - seconds,) * 2)
    return path


def test_nothing_is_left(tmp_path: Path) -> None:
    finding = only(list(look_at_leftovers(place(tmp_path), "leftovers")))
    assert (finding.verdict, finding.reason) == (Verdict.OK, "none of dead sessions")


def test_nothing_is_there_at_all(tmp_path: Path) -> None:
    assert only(list(look_at_leftovers(place_in(tmp_path), "leftovers"))).verdict is Verdict.OK


def test_sockets(tmp_path: Path) -> None:
    where = place(tmp_path)
    with listen(session_socket(where.sockets, "alive")):
        dead = session_socket(where.sockets, "dead")
        listen(dead).close()
        finding = only(list(look_at_leftovers(where, "leftovers")))
        assert finding.verdict is Verdict.WARNING
        assert finding.reason == f"sockets on which nobody listens: {dead}"
        assert finding.cure == "agent-gateway approvals list removes them"
        assert dead.exists()


def test_a_file_by_the_name_of_a_socket_is_none(tmp_path: Path) -> None:
    where = place(tmp_path)
    session_socket(where.sockets, "file").touch()
    assert only(list(look_at_leftovers(where, "leftovers"))).verdict is Verdict.OK


def test_bridges(tmp_path: Path) -> None:
    where = place(tmp_path)
    alive, dead = where.sockets / "bridge-alive000", where.sockets / "bridge-dead0000"
    alive.mkdir()
    dead.mkdir()
    held = os.open(alive, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        finding = only(list(look_at_leftovers(where, "leftovers")))
    finally:
        os.close(held)
    assert finding.reason == f"folders of bridges whose launcher is dead: {dead}"


@pytest.mark.parametrize(
    "name",
    [
        "state/agent-gateway/workspaces/lab/agents/.claude-a1b2c3d4",
        "state/agent-gateway/workspaces/default/worktrees/x-0123/agents/.codex-a1b2c3d4",
        "state/agent-gateway/spaces/team/agents/alice/state/agents/.gemini-a1b2c3d4",
        "state/agent-gateway/claude/.hook-a1b2c3d4",
        "state/agent-gateway/audit/.20260102T030405Z-4711-0123abcd-0000.jsonl.01234567.part",
        "state/agent-gateway/audit-register/.4711-0123abcd.89abcdef",
        "state/agent-gateway/run/wrap-a1b2c3d4",
        "work/.git/config.agent-gateway",
    ],
)
def test_half_made_things(tmp_path: Path, name: str) -> None:
    where = place(tmp_path)
    path = old(tmp_path / name)
    finding = only(list(look_at_leftovers(where, "leftovers")))
    assert (finding.verdict, finding.cure) == (Verdict.WARNING, f"rm -r {path}")
    old(path, seconds=60)
    assert only(list(look_at_leftovers(where, "leftovers"))).verdict is Verdict.OK


def test_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    path = old(tmp_path / "tmp/agent-gateway-a1b2c3d4.gitconfig")
    old(tmp_path / "tmp/agent-gateway")
    assert only(list(look_at_leftovers(place(tmp_path), "leftovers"))).cure == f"rm -r {path}"


def test_what_was_moved_aside_is_looked_at_first(tmp_path: Path) -> None:
    where = place(tmp_path)
    path = tmp_path / "work/.git/commondir.agent-gateway-quarantined-1"
    path.touch()
    finding = only(list(look_at_leftovers(where, "leftovers")))
    assert finding.cure == f"look what they are, then rm -r {path}"


def test_many_are_counted(tmp_path: Path) -> None:
    where = place(tmp_path)
    for number in range(5):
        listen(session_socket(where.sockets, f"s{number}")).close()
    assert only(list(look_at_leftovers(where, "leftovers"))).reason.endswith(" and 2 more")


def test_names_are_quoted(tmp_path: Path) -> None:
    where = place(tmp_path / "a b")
    path = old(tmp_path / "a b/state/agent-gateway/claude/.hook-a1b2c3d4")
    assert only(list(look_at_leftovers(where, "leftovers"))).cure == f"rm -r '{path}'"


def test_somebody_elses_are_not_ours_to_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = place(tmp_path)
    path = where.sockets / "run-other.sock"
    monkeypatch.chdir(where.sockets)  # a socket's path has 107 characters, a temporary folder's may have more
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path.name)
    verdict = Verdict.WARNING
    if os.geteuid() == 0:  # nobody else can give a file away
        os.chown(path, 65534, 65534)
        verdict = Verdict.OK
    assert only(list(look_at_leftovers(where, "leftovers"))).verdict is verdict
