"""Violations on their way out: the first at once, floods as counts, and a reader who does not read."""

import fcntl
import json
import os
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.supervisor.report import INTERVAL, KINDS_LIMIT, WAITING_LIMIT, Reporter, to_json


class Stage:
    """A reporter with its reader, and a clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.cut = b""  # of a line that has not come whole
        self.reader, writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(writer, False)
        self.writer = writer
        self.reporter = Reporter(writer, lambda: self.now)

    def deny(self, target: str, rule: str = ".env") -> None:
        self.reporter.violation("file-write-create", target, rule, lambda: "raw")

    def told(self) -> list[list[object]]:
        while True:
            try:
                self.cut += os.read(self.reader, 1 << 20)
            except BlockingIOError:
                *lines, self.cut = self.cut.split(b"\n")
                return [json.loads(line)["violation"] for line in lines]


@pytest.fixture
def stage() -> Iterator[Stage]:
    one = Stage()
    yield one
    os.close(one.reader)
    os.close(one.writer)


def test_first_is_told_at_once(stage: Stage) -> None:
    stage.deny("/w/.env")
    assert stage.told() == [["file-write-create", "/w/.env", "raw", ".env", 1]]
    assert stage.reporter.due is None


def test_repeated_ones_are_counted(stage: Stage) -> None:
    for _ in range(1000):
        stage.deny("/w/.env")
    stage.deny("/w/.env.local")
    assert [line[4] for line in stage.told()] == [1, 1]
    assert stage.reporter.due == INTERVAL
    stage.now += INTERVAL
    assert stage.reporter.due == 0
    stage.reporter.flush()
    assert stage.told() == [["file-write-create", "/w/.env", "raw", ".env", 999]]
    assert stage.reporter.due is None


def test_late_one_is_told_at_once_with_what_waited(stage: Stage) -> None:
    for _ in range(3):
        stage.deny("/w/.env")
    stage.told()
    stage.now += 2 * INTERVAL
    stage.deny("/w/.env")
    assert [line[4] for line in stage.told()] == [2, 1]


def test_many_kinds_are_told_together(stage: Stage) -> None:
    for number in range(10 * KINDS_LIMIT):
        stage.deny(f"/w/{number}.key", "*.key")
    stage.reporter.flush()
    told = stage.told()
    assert len(told) == KINDS_LIMIT + 1
    assert told[-1] == ["file-write-create", "", "raw", "*.key", 9 * KINDS_LIMIT]


def test_reader_who_does_not_read_costs_a_bounded_room_and_no_count(stage: Stage) -> None:
    fcntl.fcntl(stage.writer, fcntl.F_SETPIPE_SZ, 4096)
    long = "x" * 3000
    for number in range(2000):
        stage.deny(f"/w/{number}/{long}")
        stage.now += INTERVAL
    assert stage.reporter.due is not None
    assert len(stage.reporter._unread) <= WAITING_LIMIT + 8192
    assert len(stage.reporter._counts) < 10
    told = stage.told()
    while stage.reporter.due is not None:
        stage.now += INTERVAL
        stage.reporter.flush()
        told += stage.told()
    assert sum(int(str(line[4])) for line in told) == 2000


def test_launcher_that_is_gone_is_no_error(stage: Stage) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    reporter = Reporter(writer, lambda: 0.0)
    reporter.violation("file-write-create", "/w/.env", ".env", lambda: "raw")
    assert reporter.due is None
    os.close(writer)


@given(st.text(st.characters(exclude_categories=())))
def test_json_is_json(text: str) -> None:
    assert json.loads(to_json({text: [text, 1, {"a": []}]})) == {text: [text, 1, {"a": []}]}
    assert to_json(text).isascii()
    assert b"\n" not in to_json(text)
