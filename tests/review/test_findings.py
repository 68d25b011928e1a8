"""How findings are told: for a person line by line, for a program as JSON, and nothing in them can speak itself."""

import json

from gateway.review.findings import ChainReport, Problem, ProblemKind, Report

PROBLEM = Problem(ProblemKind.CUT, "/audit/a.jsonl", 7, "12-0123abcd", "the tail was cut")
CHAIN = ChainReport(
    "12-0123abcd", files=2, records=10, signed=8, unsigned=2, removed=3, state="ended"
)  # fmt: skip


def test_intact() -> None:
    report = Report((CHAIN,), (), ("it was killed",), ("0123456789abcdef",))
    lines = report.as_text().splitlines()
    assert lines[0] == "note: it was killed"
    assert lines[1] == "intact: 10 records in 2 files, 1 chains; key: 0123456789abcdef"
    assert lines[2].startswith("8 records are signed: without the key nobody could have changed")
    assert "2 came after the last signature" in lines[2]
    assert report.as_json()["verdict"] == "intact"


def test_broken() -> None:
    report = Report((CHAIN,), (PROBLEM,), (), ())
    assert report.as_text().splitlines() == [
        "/audit/a.jsonl:7: cut: the tail was cut (chain 12-0123abcd)",
        "BROKEN: 1 problems in 10 records in 2 files, 1 chains; key: none",
    ]
    told = json.loads(json.dumps(report.as_json()))
    assert told["verdict"] == "broken"
    assert told["problems"] == [
        {
            "kind": "cut",
            "file": "/audit/a.jsonl",
            "line": 7,
            "chain": "12-0123abcd",
            "text": "the tail was cut",
        }
    ]
    assert told["chains"][0]["unsigned"] == 2
    assert (told["files"], told["records"]) == (2, 10)


def test_a_problem_with_a_file() -> None:
    assert str(Problem(ProblemKind.GONE, "/audit", 0, "c", "gone")) == "/audit: gone: gone (chain c)"


def test_many_notes() -> None:
    report = Report((CHAIN,), (), tuple("x" * 30), ())
    lines = report.as_text().splitlines()
    assert lines.count("note: x") == 20
    assert lines[20] == "note: there are 10 more notes; --json has them all"
    assert len(report.as_json()["notes"]) == 30  # type: ignore[arg-type]  # a list


def test_nothing() -> None:
    assert Report((), (), (), ()).as_text() == "nothing is recorded there"


def test_names_of_files_stay_names() -> None:
    report = Report((CHAIN,), (Problem(ProblemKind.ADDED, "a\n\x1b[2J", 1, "c\u202e", "x"),), ("n\x07",), ())
    text = report.as_text()
    assert len(text.splitlines()) == 3
    assert all(one.isprintable() for one in text.replace("\n", ""))
