"""The log as contract section 7 spells it, and that it says no rather than lose, mix or break a record."""

import errno
import hashlib
import json
import os
import resource
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.audit import AuditEvent, AuditLog, EventKind
from gateway.errors import AuditError
from gateway.session import SandboxStamp, Session
from tests.fakes.rules import rules_for
from tests.source_tree import ROOT

Record = dict[str, object]

ZEROS = "0" * 64
DAY = 86_400
# 2026-01-02T03:04:05.000006Z, and 789 nanoseconds that are cut off.
MOMENT = 1_767_323_045_000_006_789
SESSION = Session(
    id="s1",
    sandbox=SandboxStamp("native", "existing-only"),
    egress=rules_for(),
    secret="geheim",
    agent="claude",
)
TOKEN = "ghp_" + "x" * 36


def event(session: Session | None = SESSION, **fields: object) -> AuditEvent:
    return AuditEvent(EventKind.EGRESS, fields or {"host": "a.test"}, session)


def session(session_id: str, **more: str) -> Session:
    stamp = SandboxStamp("native", "create-time")
    return Session(session_id, stamp, rules_for(), "geheim", **more)  # type: ignore[arg-type]  # all of them are str


def lines(path: Path) -> list[bytes]:
    """The lines of a file, which ends with one."""
    data = path.read_bytes()
    assert data == b"" or data.endswith(b"\n")
    return data.split(b"\n")[:-1]


def chains(directory: Path) -> dict[str, list[Record]]:
    """The records by writing process, after checking every byte, chain and number."""
    found: dict[str, list[Record]] = {}
    heads: dict[str, str] = {}
    for path in sorted(directory.glob("*.jsonl"), key=lambda path: path.stem.rsplit("-", 3)[1:]):
        writer = "-".join(path.stem.rsplit("-", 3)[1:3])
        records = found.setdefault(writer, [])
        for line in lines(path):
            assert all(0x20 <= byte <= 0x7E for byte in line)
            record = json.loads(line)
            assert (record["seq"], record["prev"]) == (len(records), heads.get(writer, ZEROS))
            heads[writer] = hashlib.sha256(line).hexdigest()
            records.append(record)
    return found


def records(directory: Path) -> list[Record]:
    """The records of the one writer there is."""
    (found,) = chains(directory).values()
    return found


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AuditLog]:
    log = AuditLog(tmp_path)
    yield log
    log.close()


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Like a disk that has no room beyond `size` bytes of a file. The test itself must not write meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# --- Format ---------------------------------------------------------------------------------------


def test_a_line_word_for_word(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, clock=lambda: MOMENT)
    log.append(event(host="a.test", port=443, code=""))
    log.append(AuditEvent(EventKind.CONFIG, {"state": "loaded"}))
    first = (
        b'{"v":1,"ts":"2026-01-02T03:04:05.000006Z","seq":0,"prev":"' + b"0" * 64 + b'",'
        b'"session":"s1","workspace":"default","space":null,"agent":"claude",'
        b'"sandbox":{"backend":"native","file_rules":"existing-only"},"event":"egress",'
        b'"host":"a.test","port":443,"code":""}'
    )
    second = (
        b'{"v":1,"ts":"2026-01-02T03:04:05.000006Z","seq":1,"prev":"'
        + hashlib.sha256(first).hexdigest().encode()
        + b'",'
        b'"session":null,"workspace":null,"space":null,"agent":null,"sandbox":null,"event":"config","state":"loaded"}'
    )
    assert log.path.read_bytes() == first + b"\n" + second + b"\n"
    log.close()


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (999, "1970-01-01T00:00:00.000000Z"),
        (1_000, "1970-01-01T00:00:00.000001Z"),
        (999_999_999, "1970-01-01T00:00:00.999999Z"),
        (1_709_251_199_123_456_000, "2024-02-29T23:59:59.123456Z"),
        (4_102_444_800_000_000_000, "2100-01-01T00:00:00.000000Z"),
    ],
)
def test_timestamps(tmp_path: Path, nanoseconds: int, text: str) -> None:
    log = AuditLog(tmp_path, clock=lambda: nanoseconds)
    log.append(event())
    log.close()
    assert records(tmp_path)[0]["ts"] == text


def test_timestamps_go_with_the_clock(tmp_path: Path) -> None:
    moments = [MOMENT, MOMENT, MOMENT + 1_000, MOMENT + 10**9, MOMENT - 10**9]
    now = [MOMENT]
    log = AuditLog(tmp_path, clock=lambda: now[0])
    for moment in moments:
        now[0] = moment
        log.append(event())
    log.close()
    assert [str(record["ts"])[17:] for record in records(tmp_path)] == [
        "05.000006Z",
        "05.000006Z",
        "05.000007Z",
        "06.000006Z",
        "04.000006Z",
    ]


def test_every_kind_has_its_contract_name() -> None:
    assert {"session", "egress", "config"} <= {kind.value for kind in EventKind}


def test_identity_is_the_session_s_own(tmp_path: Path, log: AuditLog) -> None:
    """Also where another bears the id of one that was closed, or the empty one."""
    log.append(event(session("a", agent="one", space="x")))
    log.append(event(session("a", agent="two")))
    log.append(event(session("")))
    log.append(event(None))
    log.forget("a")
    log.forget("unknown")
    log.append(event(session("a", workspace="other")))
    found = [
        (r["session"], r["workspace"], r["space"], r["agent"], r["sandbox"] is None)
        for r in records(tmp_path)
    ]
    assert found == [
        ("a", "default", "x", "one", False),
        ("a", "default", None, "two", False),
        ("", "default", None, None, False),
        (None, None, None, None, True),
        ("a", "other", None, None, False),
    ]


def test_memory_of_sessions_is_bounded(log: AuditLog) -> None:
    for number in range(2_000):
        log.append(event(session(str(number))))
    assert len(log._lines._identities) <= 1024


@pytest.mark.parametrize(
    "hostile",
    [
        'a\n{"verdict":"allow"}',
        "\x1b[2J\x7f\x9b",
        "\u2028\u2029\u202e",
        "\ud800",
        '","seq":7,"',
        "x" * 10_240,
    ],
    ids=["line", "terminal", "separators", "surrogate", "quotes", "10 KiB"],
)
def test_hostile_text_stays_in_its_field(tmp_path: Path, log: AuditLog, hostile: str) -> None:
    log.append(event(path=hostile, names=[hostile]))
    log.append(event(session(hostile, agent=hostile)))
    first, second = records(tmp_path)
    assert first["path"] == first["names"][0]  # type: ignore[index]  # a list
    assert second["session"] == second["agent"] == first["path"]
    assert (first["seq"], second["seq"]) == (0, 1)


def test_what_was_cut_says_so(tmp_path: Path, log: AuditLog) -> None:
    long = "x" * 2_000
    for fields in ({"host": "a"}, {"host": long}, {"names": ["a", long]}, {"refs": [{"ref": long}]}):
        log.append(event(**fields))
    log.append(event(session("s", agent=long)))
    assert [record.get("truncated") for record in records(tmp_path)] == [None, True, True, True, True]


def test_secrets_never(log: AuditLog) -> None:
    secrets = (TOKEN, "hunter2", "c2VjcmV0c2VjcmV0")
    for text in (
        f"x {TOKEN}",
        "http://u:hunter2@h.test",
        "http://h.test/?k=hunter2",
        "Basic c2VjcmV0c2VjcmV0",
    ):
        log.append(event(host=text, names=["PATH", text], refs=[{"ref": text, "deep": {"er": [text]}}]))
        log.append(event(session(text, workspace=text, space=text, agent=text)))
    data = log.path.read_text("ascii")
    assert not [secret for secret in (*secrets, SESSION.secret) if secret in data]


@pytest.mark.parametrize("name", ["v", "ts", "seq", "prev", "session", "sandbox", "event", "truncated"])
def test_no_field_hides_a_common_one(log: AuditLog, name: str) -> None:
    with pytest.raises(AuditError):
        log.append(AuditEvent(EventKind.EGRESS, {name: "x"}, SESSION))
    log.append(event())
    assert len(lines(log.path)) == 1


@pytest.mark.parametrize(
    "value", [b"bytes", object(), float("nan"), {1}], ids=["bytes", "object", "nan", "set"]
)
def test_what_is_not_json_is_refused(tmp_path: Path, log: AuditLog, value: object) -> None:
    log.append(event())
    with pytest.raises(AuditError, match="JSON"):
        log.append(event(host=value))
    log.append(event())
    assert len(records(tmp_path)) == 2


_TEXT = st.text(st.characters())
_FIELDS = st.dictionaries(
    st.sampled_from(["host", "path", "rule", "names", "sni"]),
    _TEXT | st.lists(_TEXT, max_size=3) | st.integers(),
)


@given(st.lists(st.tuples(_TEXT, _FIELDS), min_size=1, max_size=6))
def test_any_text_is_one_line_of_the_chain(events: list[tuple[str, Mapping[str, object]]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        log = AuditLog(Path(directory), max_bytes=700)
        for agent, fields in events:
            log.append(AuditEvent(EventKind.EGRESS, fields, session("s", agent=agent)))
        log.close()
        found = records(Path(directory))
        assert [
            set(record) - {"truncated"} >= set(fields)
            for record, (_, fields) in zip(found, events, strict=True)
        ]


# --- Places ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_modes(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        log = AuditLog(tmp_path / "state" / "audit")
    finally:
        os.umask(before)
    log.close()
    for path, mode in ((log.path, 0o600), (log.path.parent, 0o700), (log.path.parent.parent, 0o700)):
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_modes_of_a_folder_that_is_there_are_the_operators(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    folder.mkdir()
    folder.chmod(0o750)
    AuditLog(folder).close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750


def _file(place: Path) -> Path:
    place.write_text("")
    return place


def _below_a_file(place: Path) -> Path:
    return _file(place) / "audit"


def _dangling(place: Path) -> Path:
    place.symlink_to(place.parent / "nowhere")
    return place


def _loop(place: Path) -> Path:
    place.symlink_to(place)
    return place


def _too_long(place: Path) -> Path:
    return place / ("x" * 300)


def _kernel(place: Path) -> Path:
    """A folder in which nobody makes anything, whoever runs the tests."""
    return Path("/dev/fd/audit")


@pytest.mark.parametrize("make", [_file, _below_a_file, _dangling, _loop, _too_long, _kernel])
def test_places_that_cannot_be_written(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    with pytest.raises(AuditError) as caught:
        AuditLog(make(tmp_path / "place"))
    assert "cannot be written" in caught.value.message
    assert "audit.directory" in caught.value.hint


def test_a_link_to_a_folder_is_the_operators_choice(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    log = AuditLog(tmp_path / "link")
    log.append(event())
    log.close()
    assert len(records(tmp_path / "real")) == 1


def test_a_relative_folder_stays_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = AuditLog(Path("audit"), max_bytes=1)
    log.append(event())
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    log.append(event())
    log.close()
    assert len(records(tmp_path / "audit")) == 2


# --- Rotation and age -----------------------------------------------------------------------------


def test_rotation_carries_the_chain_over(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, max_bytes=1_000)
    for number in range(50):
        log.append(event(number=number))
    log.close()
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) > 10
    assert max(sizes) <= 1_000
    assert [record["number"] for record in records(tmp_path)] == list(range(50))


def test_a_record_longer_than_a_file_has_one_of_its_own(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, max_bytes=10)
    for _ in range(3):
        log.append(event())
    log.close()
    assert [len(lines(path)) for path in tmp_path.iterdir()] == [1, 1, 1]
    assert len(records(tmp_path)) == 3


def test_full_files_are_closed_even_if_nobody_syncs(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    log = AuditLog(tmp_path, max_bytes=1)
    for _ in range(100):
        log.append(event())
    assert len(os.listdir("/dev/fd")) - before <= 12
    log.close()
    assert len(os.listdir("/dev/fd")) == before
    assert len(records(tmp_path)) == 100


def _aged(path: Path, days: float) -> Path:
    moment = MOMENT // 10**9 - int(days * DAY)
    os.utime(path, (moment, moment), follow_symlinks=False)
    return path


def _finished(directory: Path, name: str, days: float) -> Path:
    path = directory / name
    path.write_text("{}\n")
    return _aged(path, days)


def test_only_our_own_old_files_are_removed(tmp_path: Path) -> None:
    gone = [
        _finished(tmp_path, "20250101T000000Z-12-0123abcd-0000.jsonl", 91),
        _finished(tmp_path, "20250101T000000Z-4194304-0123abcd-0001.jsonl", 91),
        _finished(tmp_path, "20250101T000000Z-4194304-0123abcd-12345.jsonl", 91),
        _finished(tmp_path, f"20250101T000000Z-{os.getpid()}-0123abcd-0000.jsonl", 90.1),
        _finished(tmp_path, "20250101T000000Z-17-0123abcd-0000.jsonl.gz", 999),
    ]
    folder = tmp_path / "20250101T000000Z-13-0123abcd-0000.jsonl"
    folder.mkdir()
    link = tmp_path / "20250101T000000Z-14-0123abcd-0000.jsonl"
    kept = [
        _finished(tmp_path, "20250101T000000Z-15-0123abcd-0000.jsonl", 89.9),
        _finished(tmp_path, "20250101T000000Z-16-0123abcd-0000.jsonl", -1),
        _finished(tmp_path, "20250101T000000Z-17-0123abcd-0000.jsonl.xz", 999),
        _finished(tmp_path, "x20250101T000000Z-18-0123abcd-0000.jsonl", 999),
        _finished(tmp_path, "20250101T000000Z-19-0123abcd-0000.jsonl\n", 999),
        _finished(tmp_path, "audit.jsonl", 999),
        _finished(tmp_path, "notes.txt", 999),
        _aged(folder, 999),
    ]
    link.symlink_to(kept[-2])
    kept.append(_aged(link, 999))
    AuditLog(tmp_path, clock=lambda: MOMENT).close()
    assert [path.name for path in gone if path.exists()] == []
    assert [path.name for path in kept if not path.is_symlink() and not path.exists()] == []
    assert link.is_symlink()


def test_a_file_that_is_written_is_never_too_old(tmp_path: Path) -> None:
    idle = AuditLog(tmp_path, clock=lambda: MOMENT)
    idle.append(event())
    _aged(idle.path, 200)
    AuditLog(tmp_path, clock=lambda: MOMENT).close()
    idle.append(event())
    idle.close()
    _aged(idle.path, 200)
    AuditLog(tmp_path, clock=lambda: MOMENT).close()
    assert not idle.path.exists()


def test_old_files_go_while_it_runs(tmp_path: Path) -> None:
    now = MOMENT
    log = AuditLog(tmp_path, max_bytes=1, keep_days=1, clock=lambda: now)
    log.append(event())
    first = log.path
    log.append(event())
    log.sync()
    _aged(first, 0)
    now += 2 * DAY * 10**9
    log.append(event())
    log.sync()
    assert not first.exists()
    assert log.path.exists()
    log.close()


def test_any_number_of_days_can_be_kept(tmp_path: Path) -> None:
    old = _finished(tmp_path, "19990101T000000Z-1-0123abcd-0000.jsonl", 9_000)
    AuditLog(tmp_path, keep_days=10**9).close()
    assert old.exists()


# --- When writing fails ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "room", [0, 1, 100, -2, -1], ids=["none", "a byte", "half", "all but two", "all but the newline"]
)
def test_a_full_disk_leaves_no_half_line(tmp_path: Path, log: AuditLog, room: int) -> None:
    log.append(event())
    before = log.path.read_bytes()
    with file_size_limit(len(before) + (room if room >= 0 else len(before) + room)):
        for _ in range(3):
            with pytest.raises(AuditError):
                log.append(event())
    assert log.path.read_bytes() == before
    log.append(event(host="b.test"))
    assert [record["host"] for record in records(tmp_path)] == ["a.test", "b.test"]


def test_a_full_disk_at_the_first_record(tmp_path: Path, log: AuditLog) -> None:
    with file_size_limit(10), pytest.raises(AuditError, match="half a record"):
        log.append(event())
    assert log.path.read_bytes() == b""
    log.append(event())
    assert len(records(tmp_path)) == 1


def test_half_a_line_that_stays_is_the_last_ever(log: AuditLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, length: int) -> None:
        raise OSError(errno.EIO, "no")

    log.append(event())
    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", refuse)
        with file_size_limit(log.path.stat().st_size + 20), pytest.raises(AuditError):
            log.append(event())
    left = log.path.read_bytes()
    for _ in range(2):
        with pytest.raises(AuditError, match="half a record"):
            log.append(event())
    assert log.path.read_bytes() == left


def test_rotation_that_fails_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    log = AuditLog(folder, max_bytes=1)
    log.append(event())
    folder.rename(tmp_path / "away")
    for _ in range(3):
        with pytest.raises(AuditError):
            log.append(event())
    (tmp_path / "away").rename(folder)
    log.append(event())
    log.close()
    assert len(records(folder)) == 2
    assert sorted(path.stem[-4:] for path in folder.iterdir()) == ["0000", "0001"]


def test_a_removed_file_is_refused(log: AuditLog) -> None:
    log.append(event())
    path = log.path
    path.unlink()
    with pytest.raises(AuditError, match="removed"):
        log.append(event())
    path.write_bytes(b"")
    with pytest.raises(AuditError, match="removed"):
        log.append(event())
    assert path.read_bytes() == b""


def test_a_file_that_is_moved_is_written_on(tmp_path: Path, log: AuditLog) -> None:
    log.append(event())
    log.path.rename(tmp_path / "20250101T000000Z-1-0123abcd-0000.jsonl")
    log.append(event())
    assert len(records(tmp_path)) == 2


@pytest.mark.parametrize("change", ["cut", "emptied", "longer"])
def test_a_file_that_another_changes_is_refused(log: AuditLog, change: str) -> None:
    log.append(event())
    data = log.path.read_bytes()
    changed = {"cut": data[:-5], "emptied": b"", "longer": data + b"{}\n"}[change]
    log.path.write_bytes(changed)
    for _ in range(2):
        with pytest.raises(AuditError, match="another program"):
            log.append(event())
    assert log.path.read_bytes() == changed


def test_a_closed_log_is_refused(tmp_path: Path) -> None:
    log = AuditLog(tmp_path)
    log.append(event())
    log.close()
    log.close()
    log.sync()
    with pytest.raises(AuditError, match="closed"):
        log.append(event())
    assert len(records(tmp_path)) == 1


# --- Records that are promised --------------------------------------------------------------------

ROOM_FOR_ONE = 16 << 10
# Elsewhere nothing is promised, and whoever asks writes its record first.
KEEPS = sys.platform == "linux"


def on_disk(path: Path) -> int:
    """Bytes that a file takes on the disk."""
    return path.stat().st_blocks * 512


def test_room_is_kept_and_given_back(log: AuditLog) -> None:
    """Without a byte in the file, which a reader would meet."""
    log.append(event())
    before = log.path.read_bytes()
    assert [log.reserve() for _ in range(3)] == [KEEPS] * 3
    assert log.path.read_bytes() == before
    assert on_disk(log.path) >= (3 * ROOM_FOR_ONE if KEEPS else 0)
    log.close()
    assert log.path.read_bytes() == before
    assert on_disk(log.path) < 2 * ROOM_FOR_ONE


def _unlink(log: AuditLog) -> None:
    log.path.unlink()


def _lengthen(log: AuditLog) -> None:
    with log.path.open("ab") as file:
        file.write(b"{}\n")


def _empty(log: AuditLog) -> None:
    log.path.write_bytes(b"")


@pytest.mark.parametrize("change", [AuditLog.close, _unlink, _lengthen, _empty])
def test_nothing_is_promised_where_something_is_wrong(
    log: AuditLog, change: Callable[[AuditLog], None]
) -> None:
    """And whoever writes its record instead hears what it is."""
    log.append(event())
    assert log.reserve() is KEEPS
    change(log)
    assert not log.reserve()
    with pytest.raises(AuditError):
        log.append(event())
    assert not log.reserve()


def test_nothing_is_promised_beyond_a_file(tmp_path: Path) -> None:
    """A small file holds few promises, and one that is nearly full holds none."""
    log = AuditLog(tmp_path, max_bytes=4 * ROOM_FOR_ONE)
    promised = [log.reserve() for _ in range(6)]
    assert promised == [KEEPS] * 4 + [False] * 2
    for _ in range(sum(promised)):
        log.release()
    while log.path.stat().st_size < 3 * ROOM_FOR_ONE:
        log.append(event())
    assert not log.reserve()
    log.close()


def test_nothing_is_promised_in_tiny_files(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, max_bytes=1)
    assert not log.reserve()
    log.append(event())
    assert not log.reserve()
    log.close()


def test_nothing_is_promised_beyond_the_limit_of_the_process(log: AuditLog) -> None:
    log.append(event())
    with file_size_limit(log.path.stat().st_size + 2 * ROOM_FOR_ONE):
        promised = [log.reserve() for _ in range(3)]
    assert promised == [KEEPS, KEEPS, False]
    assert log.reserve() is KEEPS


def test_what_was_promised_is_taken_where_nothing_else_is(log: AuditLog, tmp_path: Path) -> None:
    """The disk is full but for the promised room: whatever else is to be recorded is refused."""
    log.append(event())
    assert log.reserve() is KEEPS
    with file_size_limit(log.path.stat().st_size + ROOM_FOR_ONE + (100 if KEEPS else -ROOM_FOR_ONE)):
        for _ in range(3):
            with pytest.raises(AuditError, match="kept for other records" if KEEPS else "cannot be written"):
                log.append(event())
        if KEEPS:
            log.release()
            log.append(event(path="p" * 1000))
    log.append(event())
    assert len(records(tmp_path)) == 2 + KEEPS


def test_a_file_is_left_when_what_was_promised_stands_in_it(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, max_bytes=2 * ROOM_FOR_ONE)
    promised = log.reserve()
    first = log.path
    for number in range(150):
        log.append(event(number=number))
        assert log.path == first or not promised
    assert first.stat().st_size > 2 * ROOM_FOR_ONE or not promised
    assert not log.reserve() or not promised
    if promised:
        log.release()
    log.append(event(number=150))
    assert log.path != first
    log.close()
    assert [record["number"] for record in records(tmp_path)] == list(range(151))
    assert all(on_disk(path) < path.stat().st_size + ROOM_FOR_ONE for path in tmp_path.iterdir())


def test_half_a_line_that_is_taken_back_takes_the_room_along(log: AuditLog) -> None:
    """So that it is asked for anew."""
    log.append(event())
    assert log.reserve() is KEEPS
    if KEEPS:
        log.release()
    with file_size_limit(log.path.stat().st_size + 10), pytest.raises(AuditError, match="half"):
        log.append(event())
    assert log.reserve() is KEEPS
    assert on_disk(log.path) >= (ROOM_FOR_ONE if KEEPS else 0)


def test_closing_takes_nothing_away_that_another_wrote(log: AuditLog) -> None:
    log.append(event())
    log.reserve()
    _lengthen(log)
    changed = log.path.read_bytes()
    log.close()
    assert log.path.read_bytes() == changed


# --- Several at once ------------------------------------------------------------------------------

_WRITER = """
import sys
from pathlib import Path
from gateway.audit import AuditEvent, AuditLog, EventKind
log = AuditLog(Path(sys.argv[1]), max_bytes=2000)
print("ready", flush=True)
sys.stdin.readline()
for number in range(200):
    log.append(AuditEvent(EventKind.EGRESS, {"number": number}))
log.close()
"""

_COPY = """
import os, sys
from pathlib import Path
from gateway.audit import AuditEvent, AuditLog, EventKind
from gateway.errors import AuditError
log = AuditLog(Path(sys.argv[1]))
event = AuditEvent(EventKind.EGRESS, {})
log.append(event)
child = os.fork()
if child == 0:
    if log.reserve():
        os._exit(8)
    try:
        log.append(event)
    except AuditError:
        os._exit(7)
    os._exit(0)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
log.append(event)
sys.exit(status)
"""


def _python(script: str, directory: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, str(directory)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_processes_never_share_a_file(tmp_path: Path) -> None:
    writers = [_python(_WRITER, tmp_path) for _ in range(3)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    assert len(list(tmp_path.iterdir())) == 3
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    found = chains(tmp_path)
    assert len(found) == 3
    for chain in found.values():
        assert [record["number"] for record in chain] == list(range(200))


def test_logs_of_one_process_never_share_a_file(tmp_path: Path) -> None:
    logs = [AuditLog(tmp_path, clock=lambda: MOMENT) for _ in range(10)]
    for log in logs:
        log.append(event())
        log.close()
    assert len(chains(tmp_path)) == 10


def test_a_copy_of_the_process_is_refused(tmp_path: Path) -> None:
    process = _python(_COPY, tmp_path)
    process.communicate()
    assert process.returncode == 7
    assert len(records(tmp_path)) == 2


# --- sync -----------------------------------------------------------------------------------------


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Inodes of the files that were brought to the disk."""
    inodes: list[int] = []
    fsync = os.fsync

    def watch(descriptor: int) -> None:
        inodes.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    return inodes


def test_sync_brings_what_was_written_to_the_disk(log: AuditLog, synced: list[int]) -> None:
    log.sync()
    assert synced == []
    log.append(event())
    assert synced == []
    log.sync()
    log.sync()
    assert synced == [log.path.stat().st_ino]


def test_sync_and_close_miss_no_full_file(tmp_path: Path, synced: list[int]) -> None:
    log = AuditLog(tmp_path, max_bytes=1)
    for _ in range(3):
        log.append(event())
    log.sync()
    assert set(synced) == {path.stat().st_ino for path in tmp_path.iterdir()}
    for _ in range(3):
        log.append(event())
    log.close()
    assert set(synced) == {path.stat().st_ino for path in tmp_path.iterdir()}
    assert len(synced) == 6


def test_a_disk_that_says_no_is_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(errno.EIO, "no")

    before = len(os.listdir("/dev/fd"))
    log = AuditLog(tmp_path, max_bytes=1)
    log.append(event())
    log.append(event())
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(AuditError, match="to the disk"):
            log.sync()
    with pytest.raises(AuditError, match="to the disk"):
        log.append(event())
    log.close()
    assert len(os.listdir("/dev/fd")) == before
    assert len(records(tmp_path)) == 2


def test_sync_from_other_threads(tmp_path: Path) -> None:
    """Through rotations and the close; had one of them synced or closed a wrong descriptor, an error would be here."""
    before = len(os.listdir("/dev/fd"))
    log = AuditLog(tmp_path, max_bytes=2_000)
    errors: list[BaseException] = []
    done = threading.Event()
    calls = 0

    def sync() -> None:
        nonlocal calls
        try:
            while not done.is_set():
                log.sync()
                calls += 1
            log.sync()
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=sync) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(2_000):
        log.append(event(number=number))
    log.close()
    done.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert calls
    assert len(os.listdir("/dev/fd")) == before
    assert [record["number"] for record in records(tmp_path)] == list(range(2_000))


def test_a_sync_that_takes_long_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Appending and rotating go on; only closing waits, so that the descriptor stays what it is."""
    begun, release = threading.Event(), threading.Event()
    fsync = os.fsync

    def slow(descriptor: int) -> None:
        begun.set()
        assert release.wait(60)
        fsync(descriptor)

    log = AuditLog(tmp_path, max_bytes=1)
    log.append(event())
    monkeypatch.setattr(os, "fsync", slow)
    syncing = threading.Thread(target=log.sync)
    syncing.start()
    assert begun.wait(60)
    for _ in range(5):
        log.append(event())
    closing = threading.Thread(target=log.close)
    closing.start()
    assert syncing.is_alive()
    release.set()
    syncing.join()
    closing.join()
    assert len(records(tmp_path)) == 6
