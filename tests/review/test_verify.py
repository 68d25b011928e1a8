"""Whatever is done to a log without its key is found and named by file, line and chain; what a crash leaves is not."""

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.audit.register import FOLDER, Entry, Mark, Register, State
from gateway.audit.signing import KEY_NAME, PUBLIC_NAME, Signer
from gateway.errors import AuditError
from gateway.review.files import UnreadableFile
from gateway.review.findings import ProblemKind, Report
from gateway.review.verify import verify
from tests.fakes.audit_log import event, files_of, read_lines, write_lines, write_log
from tests.source_tree import ROOT

K = ProblemKind


def look(place: Path) -> Report:
    return verify([place / "audit"], place)


def found(report: Report) -> list[tuple[ProblemKind, str, int]]:
    """Kind, last word of the file's name and line of each problem."""
    return [(one.kind, Path(one.file).name.split(".")[0][-4:], one.line) for one in report.problems]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Twenty records in one file: a checkpoint in line 11 and the closing one in line 22."""
    write_log(tmp_path, 20, sessions=[9])
    return tmp_path


@pytest.fixture
def rotated(tmp_path: Path) -> Path:
    """Sixty records in several files of ten lines or so."""
    write_log(tmp_path, 60, max_bytes=5_000)
    assert len(files_of(tmp_path)) > 4
    return tmp_path


# --- What is as it was ----------------------------------------------------------------------------


def test_a_log_as_it_was_written(place: Path) -> None:
    report = look(place)
    assert report.is_intact
    assert report.notes == ()
    (chain,) = report.chains
    assert (chain.files, chain.records, chain.signed, chain.unsigned, chain.state) == (1, 22, 22, 0, "closed")
    assert "intact: 22 records in 1 files" in report.as_text()


def test_a_log_in_many_files(rotated: Path) -> None:
    report = look(rotated)
    assert report.is_intact
    assert report.chains[0].files == len(files_of(rotated))
    assert report.chains[0].unsigned == 0


def test_several_processes(place: Path) -> None:
    write_log(place, 3)
    write_log(place, 0)
    report = look(place)
    assert report.is_intact
    assert sorted(chain.records for chain in report.chains) == [0, 4, 22]


def test_a_log_that_is_being_written(tmp_path: Path) -> None:
    log = write_log(tmp_path, 5, closed=False)
    log.sync()
    log.append(event())
    report = look(tmp_path)
    assert report.is_intact
    assert (report.chains[0].state, report.chains[0].signed, report.chains[0].unsigned) == ("open", 5, 1)
    log.close()
    assert look(tmp_path).chains[0].state == "closed"


def test_compressed_files(rotated: Path) -> None:
    for path in files_of(rotated)[:-1]:
        pack(path)
    assert look(rotated).is_intact


def test_a_file_that_is_there_plain_and_compressed(rotated: Path) -> None:
    """Compressing was interrupted."""
    first = files_of(rotated)[0]
    data = first.read_bytes()
    pack(first)
    first.write_bytes(data)
    report = look(rotated)
    assert report.is_intact
    assert report.chains[0].records == sum(
        len(read_lines(p)) for p in files_of(rotated) if p.suffix == ".jsonl"
    )


def test_nothing_at_all(tmp_path: Path) -> None:
    (tmp_path / "audit").mkdir()
    assert look(tmp_path).as_text() == "nothing is recorded there"
    with pytest.raises(UnreadableFile):
        verify([tmp_path / "elsewhere"], tmp_path)


def test_a_log_without_key_and_register(tmp_path: Path) -> None:
    """As it was written before there were any: chained, and that is all."""
    write_log(tmp_path, 3, closed=False).sync()
    (path,) = files_of(tmp_path)
    shutil.rmtree(tmp_path / FOLDER)
    report = look(tmp_path)
    assert report.is_intact
    assert report.chains[0].unsigned == 3
    path.chmod(0o600)


def pack(path: Path) -> None:
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), 1))
    path.unlink()


# --- What somebody did to it ----------------------------------------------------------------------


@dataclass(frozen=True)
class Spoiled:
    name: str
    spoil: Callable[[list[bytes]], list[bytes]]
    expected: tuple[ProblemKind, int]


def edit(index: int, old: bytes, new: bytes) -> Callable[[list[bytes]], list[bytes]]:
    def change(lines: list[bytes]) -> list[bytes]:
        assert old in lines[index]
        return [*lines[:index], lines[index].replace(old, new), *lines[index + 1 :]]

    return change


def swap(a: int, b: int) -> Callable[[list[bytes]], list[bytes]]:
    def change(lines: list[bytes]) -> list[bytes]:
        lines = list(lines)
        lines[a], lines[b] = lines[b], lines[a]
        return lines

    return change


def drop(first: int, last: int) -> Callable[[list[bytes]], list[bytes]]:
    return lambda lines: [*lines[:first], *lines[last + 1 :]]


def insert(index: int, make: Callable[[list[bytes]], bytes]) -> Callable[[list[bytes]], list[bytes]]:
    return lambda lines: [*lines[:index], make(lines), *lines[index:]]


def rechained(lines: list[bytes], index: int) -> list[bytes]:
    """Everything from a line on, its hashes reckoned anew, as somebody without the key would."""
    done = list(lines[:index])
    for line in lines[index:]:
        head = hashlib.sha256(done[-1]).hexdigest().encode() if done else b"0" * 64
        before, _, after = line.partition(b'"prev":"')
        text = before + b'"prev":"' + head + after[64:]
        if b'"head":"' in text:
            a, _, b = text.partition(b'"head":"')
            text = a + b'"head":"' + head + b[64:]
        done.append(text)
    return done


def forged(lines: list[bytes]) -> bytes:
    """A record that follows well from the fifth."""
    head = hashlib.sha256(lines[4]).hexdigest().encode()
    before, _, after = lines[5].partition(b'"prev":"')
    return (before + b'"prev":"' + head + after[64:]).replace(b"a.test", b"b.test")


SPOILED = [
    Spoiled("a host is changed", edit(4, b"a.test", b"b.test"), (K.EDITED, 5)),
    Spoiled("a verdict is changed", edit(4, b'"allow"', b'"deny"'), (K.EDITED, 5)),
    Spoiled("a time is changed", edit(4, b'"ts":"2', b'"ts":"3'), (K.EDITED, 5)),
    Spoiled("the first line is changed", edit(0, b"a.test", b"b.test"), (K.EDITED, 1)),
    Spoiled("the first line's hash is changed", edit(0, b'"prev":"0', b'"prev":"1'), (K.EDITED, 1)),
    Spoiled("a number is changed", edit(4, b'"seq":4', b'"seq":9'), (K.EDITED, 5)),
    Spoiled("a line becomes rubbish", lambda x: [*x[:4], b"rubbish", *x[5:]], (K.EDITED, 5)),
    Spoiled("a line is emptied", lambda x: [*x[:4], b"", *x[5:]], (K.EDITED, 5)),
    Spoiled("the end of a line is taken", lambda x: [*x[:4], x[4][:-3], *x[5:]], (K.EDITED, 5)),
    Spoiled("a checkpoint is changed", edit(10, b'"reason":"session"', b'"reason":"count"'), (K.BAD_SIGNATURE, 11)),
    Spoiled("the last line is changed", edit(21, b'"ts":"2', b'"ts":"3'), (K.BAD_SIGNATURE, 22)),
    Spoiled("a line is taken out", drop(4, 4), (K.MISSING, 5)),
    Spoiled("lines are taken out", drop(4, 8), (K.MISSING, 5)),
    Spoiled("the first line is taken out", drop(0, 0), (K.GONE, 1)),
    Spoiled("neighbours are swapped", swap(4, 5), (K.REORDERED, 5)),
    Spoiled("lines are swapped", swap(4, 15), (K.REORDERED, 5)),
    Spoiled("the first two are swapped", swap(0, 1), (K.REORDERED, 2)),
    Spoiled("all is turned round", lambda x: x[::-1], (K.REORDERED, 2)),
    Spoiled("a line is there twice", insert(5, lambda x: x[4]), (K.ADDED, 6)),
    Spoiled("an old line comes again", insert(15, lambda x: x[2]), (K.ADDED, 16)),
    Spoiled("a line is added", insert(5, forged), (K.ADDED, 6)),
    Spoiled("a line is added at the end", lambda x: [*x, x[3]], (K.ADDED, 23)),
    Spoiled("the last line is cut", drop(21, 21), (K.CUT, 21)),
    Spoiled("the tail is cut at a checkpoint", drop(11, 21), (K.CUT, 11)),
    Spoiled("the tail is cut between", drop(15, 21), (K.CUT, 15)),
    Spoiled("all lines are cut", lambda x: [], (K.CUT, 0)),
    Spoiled(
        "it is written anew from a line on",
        lambda x: rechained(edit(4, b"a.test", b"b.test")(x), 4),
        (K.BAD_SIGNATURE, 11),
    ),
    Spoiled(
        "it is written anew behind the last checkpoint",
        lambda x: rechained(edit(15, b"a.test", b"b.test")(x), 15),
        (K.BAD_SIGNATURE, 22),
    ),
    Spoiled(
        "it is written anew, without checkpoints",
        lambda x: rechained([y.replace(b"a.test", b"b.test") for y in x if b'"checkpoint"' not in y], 0),
        (K.EDITED, 11),
    ),
]  # fmt: skip


@pytest.mark.parametrize("row", SPOILED, ids=lambda row: row.name)
def test_what_is_done_to_lines(place: Path, row: Spoiled) -> None:
    (path,) = files_of(place)
    write_lines(path, row.spoil(read_lines(path)))
    report = look(place)
    kind, line = row.expected
    first = report.problems[0]
    assert (first.kind, first.file, first.line) == (kind, str(path), line)
    assert first.chain in path.name
    text = report.as_text()
    assert text.startswith(f"{path}:{line}: {kind}: " if line else f"{path}: {kind}: ")
    assert "BROKEN" in text


@pytest.mark.parametrize("row", SPOILED, ids=lambda row: row.name)
def test_the_same_in_a_compressed_file(place: Path, row: Spoiled) -> None:
    (path,) = files_of(place)
    write_lines(path, row.spoil(read_lines(path)))
    pack(path)
    first = look(place).problems[0]
    assert (first.kind, first.line) == row.expected


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_byte_counts(place: Path, data: st.DataObject) -> None:
    """Any bit of any line: found, and its line named, or the one behind it where only that can tell."""
    (path,) = files_of(place)
    good = path.read_bytes()
    position = data.draw(st.integers(0, len(good) - 2))
    bad = bytes([good[position] ^ (1 << data.draw(st.integers(0, 7)))])
    line = good[:position].count(b"\n") + 1
    try:
        path.write_bytes(good[:position] + bad + good[position + 1 :])
        report = look(place)
    finally:
        path.write_bytes(good)
    assert not report.is_intact
    assert report.problems[0].line in {line, line + 1}, report.as_text()
    # A line end that is gone makes one line of two.
    named = any(problem.line == line for problem in report.problems)
    assert named or good[position : position + 1] == b"\n", report.as_text()


def test_several_edits_are_all_named(place: Path) -> None:
    (path,) = files_of(place)
    lines = read_lines(path)
    for index in (3, 8, 15):
        lines = edit(index, b"a.test", b"b.test")(lines)
    write_lines(path, lines)
    assert [line for _, _, line in found(look(place))] == [4, 9, 16]


def test_thousands_of_problems_are_not_told(tmp_path: Path) -> None:
    write_log(tmp_path, 300)
    (path,) = files_of(tmp_path)
    write_lines(path, [line.replace(b"a.test", b"b.test") for line in read_lines(path)])
    assert 0 < len(look(tmp_path).problems) <= 25


# --- Files and registers --------------------------------------------------------------------------


def _remove_middle(place: Path) -> None:
    files_of(place)[2].unlink()


def _remove_last(place: Path) -> None:
    files_of(place)[-1].unlink()


def _remove_first(place: Path) -> None:
    files_of(place)[0].unlink()


def _remove_all(place: Path) -> None:
    for path in files_of(place):
        path.unlink()


def _remove_folder(place: Path) -> None:
    shutil.rmtree(place / "audit")


def _swap_files(place: Path) -> None:
    first, second = files_of(place)[1:3]
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)


def _cut_a_middle_file(place: Path) -> None:
    path = files_of(place)[1]
    write_lines(path, read_lines(path)[:-2])


def _empty_a_middle_file(place: Path) -> None:
    files_of(place)[1].write_bytes(b"")


def _half_a_line_in_the_middle(place: Path) -> None:
    with files_of(place)[1].open("ab") as file:
        file.write(b'{"v":1')


def _half_a_line_behind_the_end(place: Path) -> None:
    with files_of(place)[-1].open("ab") as file:
        file.write(b'{"v":1')


def _edit_the_last_line_of_a_file(place: Path) -> None:
    path = files_of(place)[1]
    lines = read_lines(path)
    write_lines(path, [*lines[:-1], lines[-1].replace(b'"ts":"2', b'"ts":"3')])


def _copy_a_file(place: Path) -> None:
    shutil.copy(files_of(place)[1], place / "audit" / "copy.jsonl")


def _rename_a_file(place: Path) -> None:
    path = files_of(place)[-1]
    path.rename(place / "audit" / "20250101T000000Z-1-0123abcd-0000.jsonl")


def _notes(place: Path) -> None:
    (place / "audit" / "notes.jsonl").write_text('{"hello": 1}\n')


def _truncated_gzip(place: Path) -> None:
    pack(files_of(place)[1])
    path = files_of(place)[1]
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize(
    ("spoil", "kind", "name", "text"),
    [
        (_remove_first, K.GONE, "0001", "records 0 to"),
        (_remove_middle, K.GONE, "0001", "the files 0002 to 0002 of this chain are gone"),
        (_remove_last, K.CUT, "", "the tail was cut"),
        (_remove_all, K.GONE, "", "the files of this chain are gone"),
        (_remove_folder, K.GONE, "", "the files of this chain are gone"),
        (_swap_files, K.REORDERED, "0001", "files have changed places"),
        (_cut_a_middle_file, K.CUT, "0001", "missing behind this line"),
        (_empty_a_middle_file, K.GONE, "0000", "missing behind this line"),
        (_half_a_line_in_the_middle, K.ADDED, "0001", "no crash can have left them"),
        (_half_a_line_behind_the_end, K.ADDED, "", "no crash can have left them"),
        (_edit_the_last_line_of_a_file, K.BAD_SIGNATURE, "0001", "the signature does not fit"),
        (_copy_a_file, K.FOREIGN_FILE, "copy", "here a second time"),
        (_rename_a_file, K.FOREIGN_FILE, "0000", "belongs to chain"),
        (_notes, K.EDITED, "otes", "no record of this log"),
        (_truncated_gzip, K.UNREADABLE, "0001", "cannot be read"),
    ],
)  # fmt: skip
def test_what_is_done_to_files(
    rotated: Path, spoil: Callable[[Path], None], kind: ProblemKind, name: str, text: str
) -> None:
    spoil(rotated)
    problems = look(rotated).problems
    fitting = [one for one in problems if one.kind is kind and text in one.text]
    assert fitting, problems
    assert name in Path(fitting[0].file).name


def test_an_old_copy_put_back(tmp_path: Path) -> None:
    """It is signed to its end, and yet not all."""
    log = write_log(tmp_path, 10, sessions=[9], closed=False)
    old = log.path.read_bytes()
    for number in range(10):
        log.append(event(number))
    log.close()
    log.path.write_bytes(old)
    assert found(look(tmp_path)) == [(K.CUT, "0000", 11)]


def test_another_key(place: Path, tmp_path: Path) -> None:
    """Whoever makes a key of their own signs with a foreign one; the register is not theirs either."""
    (place / KEY_NAME).unlink()
    Signer(place).prepare()
    kinds = {problem.kind for problem in look(place).problems}
    assert kinds == {K.FOREIGN_KEY, K.REGISTER}


def test_no_key(place: Path) -> None:
    (place / KEY_NAME).unlink()
    report = look(place)
    assert {problem.kind for problem in report.problems} == {K.FOREIGN_KEY, K.REGISTER}
    assert report.keys == ()


def test_a_log_that_was_carried_elsewhere(place: Path, tmp_path: Path) -> None:
    """With the public key: signatures count, and that there is no register is said where it matters."""
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(place / "audit", elsewhere)
    state = tmp_path / "state"
    report = verify([elsewhere], state, [place / PUBLIC_NAME])
    assert report.is_intact
    (path,) = elsewhere.iterdir()
    write_lines(path, read_lines(path)[:15])
    report = verify([elsewhere], state, [place / PUBLIC_NAME])
    assert report.is_intact
    assert "nobody can tell whether its tail was cut" in report.notes[0]
    assert "the last 4 records are chained but not signed" in report.notes[0]
    with pytest.raises(AuditError, match="holds no key"):
        verify([elsewhere], state, [path])


def test_single_files_prove_nothing_about_others(rotated: Path) -> None:
    middle = files_of(rotated)[2]
    report = verify([middle], rotated)
    assert report.is_intact
    assert "what comes before was not looked at" in report.notes[0]
    write_lines(middle, edit(2, b"a.test", b"b.test")(read_lines(middle)))
    assert found(verify([middle], rotated)) == [(K.EDITED, "0002", 3)]


def test_an_entry_that_was_changed(place: Path) -> None:
    (entry,) = (place / FOLDER).iterdir()
    text = entry.read_text()
    count = json.loads(text)["tip"]["count"]
    entry.write_text(text.replace(f'"count":{count}', '"count":3'))
    assert [problem.kind for problem in look(place).problems] == [K.REGISTER]
    entry.write_text("rubbish")
    assert [problem.kind for problem in look(place).problems] == [K.REGISTER]
    # What a power cut may leave.
    entry.write_text("")
    assert look(place).is_intact


# --- What retention removes -----------------------------------------------------------------------


def test_what_retention_removed_is_not_gone(rotated: Path) -> None:
    _age(files_of(rotated)[:2])
    write_log(rotated, 1)
    report = look(rotated)
    assert report.is_intact
    assert max(chain.removed for chain in report.chains) > 0
    files_of(rotated)[0].unlink()
    assert [problem.kind for problem in look(rotated).problems] == [K.GONE]


def test_a_chain_that_retention_took_whole(rotated: Path) -> None:
    _age(files_of(rotated))
    write_log(rotated, 1)
    assert len(files_of(rotated)) == 1
    assert look(rotated).is_intact


def test_a_log_in_which_nothing_was_recorded(tmp_path: Path) -> None:
    """Its empty file was there, and is gone; retention may take it."""
    write_log(tmp_path, 0)
    (path,) = files_of(tmp_path)
    path.unlink()
    assert [problem.kind for problem in look(tmp_path).problems] == [K.GONE]
    path.touch(0o600)
    assert look(tmp_path).is_intact
    _age([path])
    write_log(tmp_path, 1)
    assert not path.exists()
    assert look(tmp_path).is_intact


def test_retention_hides_no_cut(rotated: Path) -> None:
    """Removing a chain whose tail was cut leaves the register's word for it."""
    files_of(rotated)[-1].unlink()
    _age(files_of(rotated))
    write_log(rotated, 1)
    assert [problem.kind for problem in look(rotated).problems] == [K.GONE]


def test_retention_signs_no_entry_anew_that_is_not_ours(rotated: Path) -> None:
    (entry,) = (rotated / FOLDER).iterdir()
    entry.write_text(entry.read_text().replace('"closed"', '"open"'))
    before = files_of(rotated)
    _age(before)
    write_log(rotated, 1)
    assert set(before) <= set(files_of(rotated))
    assert K.REGISTER in [problem.kind for problem in look(rotated).problems]


def test_retention_that_was_interrupted(rotated: Path) -> None:
    """It was noted, but the files are still there."""
    (entry,) = (rotated / FOLDER).iterdir()
    fields = json.loads(entry.read_text())
    second = json.loads(read_lines(files_of(rotated)[1])[0])
    register = Register(rotated, Signer(rotated))
    register.write(
        Entry(
            fields["chain"],
            fields["directory"],
            Mark(**fields["tip"]),
            State.CLOSED,
            Mark(second["seq"], second["prev"]),
        )
    )
    assert look(rotated).is_intact
    files_of(rotated)[0].unlink()
    assert look(rotated).is_intact


def _age(paths: list[Path]) -> None:
    for path in paths:
        os.utime(path, (1, 1))


# --- Crashes --------------------------------------------------------------------------------------


def test_half_a_line_at_the_end_is_a_crash(tmp_path: Path) -> None:
    log = write_log(tmp_path, 5, closed=False)
    log.sync()
    data = log.path.read_bytes()
    log.close()
    crashed = tmp_path / "crashed"
    shutil.copytree(tmp_path / "audit", crashed / "audit")
    (path,) = files_of(crashed)
    path.write_bytes(data + data[:100])
    report = verify([crashed / "audit"], crashed, [tmp_path / PUBLIC_NAME])
    assert report.is_intact
    assert f"{path}:6: half a record of 100 bytes" in report.notes[0]


_KILLED = """
import os, signal, sys
from pathlib import Path
from tests.fakes.audit_log import event
from gateway.audit import AuditEvent, AuditLog, EventKind
from gateway.audit.signing import import_slowly
import_slowly()
place = Path(sys.argv[1])
big = AuditEvent(EventKind.EGRESS, {"host": "a.test", "paths": ["p" * 1000] * 20})
for round in range(200):
    heard, said = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(heard)
        log = AuditLog(place / "audit", state=place, max_bytes=200_000)
        log.prepare()
        while True:
            log.append(big)
            os.write(said, b".")
            if round % 3 == 0:
                log.sync()
    os.close(said)
    taken = 0
    while taken < 1 + round % 40:
        taken += len(os.read(heard, 1 + round % 7))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(heard, 65536):
        taken += len(more)
    os.close(heard)
    print(child, taken, flush=True)
"""


def test_processes_that_are_killed_while_they_write(tmp_path: Path) -> None:
    """Two hundred of them: every record that was taken is there, and nothing looks like tampering."""
    command = [sys.executable, "-c", _KILLED, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    taken = {int(pid): int(count) for pid, count in (line.split() for line in done.stdout.splitlines())}
    report = look(tmp_path)
    assert report.is_intact, report.as_text()
    written: dict[int, int] = {}
    for path in files_of(tmp_path):
        pid = int(path.name.split("-")[1])
        written[pid] = written.get(pid, 0) + path.read_bytes().count(b'"event":"egress"')
    assert sum(taken.values()) > 1000
    assert len(taken) > 150  # numbers of processes come again
    for pid, count in taken.items():
        assert written[pid] >= count
    assert any("its process was killed" in note for note in report.notes)
