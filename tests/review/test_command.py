"""`agent-gateway review verify` on the log of real runs: what it says, and its exit status."""

import json
from pathlib import Path

import pytest

from gateway.policy.limits import Limits
from gateway.proxy.workers import processes_for, usable_cores
from tests.fakes.audit_log import read_lines, write_lines
from tests.fakes.console import Console, hear


@pytest.fixture
def console(tmp_path: Path) -> Console:
    """Two runs were there, one that was wrapped and one that was not."""
    console = Console(tmp_path)
    assert console.run("true").status == 0
    assert console.run("true", options=("--sandbox", "off")).status == 0
    return console


def test_runs_leave_logs_that_hold(console: Console) -> None:
    done = console.call("review", "verify")
    assert (done.status, done.said) == (0, [])
    assert done.lines[0].startswith("intact: 10 records in 2 files, 2 chains; key: ")
    told = json.loads(console.call("review", "verify", "--json").stdout)
    assert told["verdict"] == "intact"
    assert [chain["unsigned"] for chain in told["chains"]] == [0, 0]
    assert [chain["state"] for chain in told["chains"]] == ["closed", "closed"]


def test_what_was_done_to_one_is_named(console: Console) -> None:
    first, second = console.logs()
    lines = read_lines(first)
    write_lines(first, [lines[0], lines[1].replace(b'"mode":"chat"', b'"mode":"plan"'), *lines[2:]])
    done = console.call("review", "verify")
    assert done.status == 1
    assert done.lines[0].startswith(f"{first}:2: edited: ")
    assert done.lines[-1].startswith("BROKEN: 1 problems")
    told = json.loads(console.call("review", "verify", "--json").stdout)
    assert [(one["kind"], one["file"], one["line"]) for one in told["problems"]] == [
        ("edited", str(first), 2)
    ]
    # The other one holds, and nothing is said of the one that was not asked about.
    assert console.call("review", "verify", str(second)).status == 0
    second.unlink()
    write_lines(first, lines)
    done = console.call("review", "verify")
    assert done.status == 1
    assert "gone" in done.lines[0]
    assert console.call("review", "verify", str(first)).status == 0


def test_another_directory(tmp_path: Path) -> None:
    console = Console(tmp_path)
    config = tmp_path / "other.yaml"
    config.write_text(f"audit: {{directory: {tmp_path}/elsewhere}}\n")
    assert console.run("true", options=("--config", str(config))).status == 0
    assert console.call("review", "verify").lines == ["nothing is recorded there"]
    for words in (("--config", str(config)), (str(tmp_path / "elsewhere"),)):
        done = console.call("review", "verify", *words)
        assert (done.status, done.lines[0][:17]) == (0, "intact: 5 records")
    public = console.state / "audit-key.pub"
    assert console.call("review", "verify", str(tmp_path / "elsewhere"), "--key", str(public)).status == 0


def test_every_process_of_a_session_signs_its_own(tmp_path: Path) -> None:
    console = Console(tmp_path)
    console.config("egress: {limits: {new_per_second: 3000}}\n")
    assert console.run("true").status == 0
    told = json.loads(console.call("review", "verify", "--json").stdout)
    processes = processes_for(Limits(new_per_second=3000), usable_cores())
    assert [chain["state"] for chain in told["chains"] if chain["records"]] in (
        ["closed"],
        ["closed"] * processes,
    )
    assert len(told["chains"]) == processes
    assert told["verdict"] == "intact"


def test_a_run_that_was_killed(tmp_path: Path) -> None:
    """Its log holds, and what is not known of it is said; gone, it is missed."""
    console = Console(tmp_path)
    process = console.start("sh", "-c", "echo ready; read x")
    assert hear(process) == b"ready"
    process.kill()
    process.communicate()
    done = console.call("review", "verify")
    assert done.status == 0
    (log,) = console.logs()
    assert done.lines[0].startswith(f"note: {log}: its process was killed, or never closed it: ")
    log.unlink()
    done = console.call("review", "verify")
    assert done.status == 1
    assert "the files of this chain are gone" in done.lines[0]


def test_before_anything_was_recorded(tmp_path: Path) -> None:
    console = Console(tmp_path)
    done = console.call("review", "verify")
    assert (done.status, done.lines) == (0, ["nothing is recorded there"])
    assert console.call("review", "verify", str(tmp_path / "nowhere")).status == 125
