"""A selection in SQL picks what the selection itself picks, record by record."""

from pathlib import Path

import pytest

from gateway.audit import EventKind
from gateway.review.picking import condition
from gateway.review.reading import Damages, read_records
from gateway.review.selection import Selection
from gateway.review.store import Store
from tests.fakes.review_log import Writer, files, push_fields, token_fields


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    writer = Writer(tmp_path_factory.mktemp("audit"))
    for number in range(3):
        session = writer.open(f"s{number}", "codex" if number else "")
        writer.at += 3600
        writer.tunnel(session, "api.a.test")
        writer.refuse(session, "x.B.test\n\u202e")
        writer.cut(session, "c.test")
        writer.fail(session, "d.test")
        writer.request(session, "a.test", 302, path="/Secret/place")
        writer.note(EventKind.PUSH, session, **push_fields("deny" if number else "allow"))
        writer.note(EventKind.TOKEN, session, **token_fields("minted"))
        writer.note(
            EventKind.VIOLATION,
            session,
            action="file-write-create",
            target="/x",
            rule="hooks",
            raw="r",
            count=4,
        )
        writer.note(
            EventKind.ACTION,
            session,
            tool="Bash",
            command="ls 'a\"b'",
            effects=["spawn_process"],
            verdict="ask",
            rule="preset",
            reason="",
            approver="",
        )
        writer.close(session)
    writer.log.close()
    return writer.directory


@pytest.mark.parametrize("few", [50, 0])
@pytest.mark.parametrize(
    "selection",
    [
        Selection(),
        Selection(events=frozenset({"egress", "push"})),
        Selection(sessions=frozenset({"s1", "s2"})),
        Selection(hosts=("*.a.test", "C.test")),
        Selection(hosts=("?.test",)),
        Selection(hosts=("*b.test*",)),
        Selection(hosts=("[a].test", "(.*)", "a.tes.")),
        Selection(verdicts=frozenset({"deny"})),
        Selection(verdicts=frozenset({"allow", "ask"})),
        Selection(codes=frozenset({"not_listed", "dns_failed"})),
        Selection(rules=("baseline.txt:*",)),
        Selection(rules=("config.yaml:3", "hooks")),
        Selection(since="2026-01-01T02:00:00.000000Z"),
        Selection(until="2026-01-01T02:00:00.000000Z"),
        Selection(texts=("secret/",)),
        Selection(texts=("spawn_PROCESS", "bash")),
        Selection(texts=('a"b',)),
        Selection(texts=("acme/w",)),
        Selection(texts=("native",)),
        Selection(texts=("backend",)),
        Selection(texts=("file-write",), sessions=frozenset({"s1"})),
        Selection(texts=("true",)),
        Selection(texts=("refs/heads",), verdicts=frozenset({"deny"})),
        Selection(hosts=("';--",)),
    ],
)
def test_the_same_records(log: Path, selection: Selection, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few files, and of many small ones, which are read in another way."""
    monkeypatch.setattr("gateway.review.store._FEW", few)
    wanted = {(line.record["seq"]) for line in read_records(files(log), selection, Damages())}
    where, values = condition(selection)
    with Store(files(log)) as store:
        picked = {seq for (seq,) in store.query(f"SELECT seq FROM lines WHERE {where}", values)}
    assert picked == wanted
