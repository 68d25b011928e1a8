"""The kernel's counters of kills for want of memory: which file counts, and what a file that says nothing means."""

from pathlib import Path

import pytest

from sandbox.memory import OomWatch, oom_kills

VMSTAT = "nr_free_pages 3\noom_kill 5\nzone_reclaim_success 0\n"
EVENTS = "low 0\nhigh 0\nmax 2\noom 9\noom_kill 2\noom_group_kill 7\n"


@pytest.mark.parametrize(
    ("own", "events", "vmstat", "count"),
    [
        ("0::/user/session\n", EVENTS, VMSTAT, 2),
        ("9:memory:/elsewhere\n0::/user/session\n", EVENTS, VMSTAT, 2),
        ("0::/other\n", EVENTS, VMSTAT, 5),
        ("9:memory:/user/session\n", EVENTS, VMSTAT, 5),
        ("", EVENTS, VMSTAT, 5),
        ("0::/user/session\n", "low 0\n", VMSTAT, 5),
        ("0::/user/session\n", EVENTS, "", 2),
        ("0::/other\n", EVENTS, "nothing\n", 0),
    ],
)
def test_counter(tmp_path: Path, own: str, events: str, vmstat: str, count: int) -> None:
    group = tmp_path / "cgroups/user/session"
    group.mkdir(parents=True)
    (group / "memory.events").write_text(events)
    (tmp_path / "own").write_text(own)
    (tmp_path / "vmstat").write_text(vmstat)
    found = oom_kills(str(tmp_path / "cgroups"), str(tmp_path / "own"), str(tmp_path / "vmstat"))
    assert found == count


def test_root_group_has_no_counter_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("0::/\n")
    (tmp_path / "vmstat").write_text(VMSTAT)
    assert oom_kills(str(tmp_path), str(tmp_path / "own"), str(tmp_path / "vmstat")) == 5


def test_where_nothing_counts(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    assert oom_kills(missing, missing, missing) == 0


def test_watch_sees_what_came_after_it() -> None:
    assert not OomWatch(oom_kills()).happened()
    assert OomWatch(oom_kills() - 1).happened()
