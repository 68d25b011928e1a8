"""What the audit log costs, and what reading it takes: one append, the slowest of a hundred, verifying, a summary.

A record is the door's own, of a tunnel that was opened; the log is chained and signed, and synced every second.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from gateway.allowlists import load_shipped
from gateway.audit import AuditLog
from gateway.authorizer import Attempt, Authorizer, Figures
from gateway.config import compile_egress, load_config
from gateway.errors import GatewayError
from gateway.policy.egress import Transport
from gateway.review.verify import verify
from gateway.session import SandboxStamp, Session
from tests.bench.measures import Results, Scale
from tests.bench.setups import SETUP, measure_setups

RECORD, SLOWEST, OPENED, VERIFY = "review-record", "review-p99", "review-opened", "review-verify"
SUMMARY, SUMMARY_MEMORY, MONTH = "review-summary", "review-summary-memory", "review-month"
REVIEW_FIGURES: Final = (SETUP, RECORD, SLOWEST, OPENED, VERIFY, SUMMARY, SUMMARY_MEMORY, MONTH)
# Connections of one round, each with two records.
CONNECTIONS: Final = 50_000
# Files of a log that is verified by as many processes as there are cores.
FILE_BYTES: Final = 16 << 20


def measure_review(scale: Scale, results: Results) -> None:
    """All of it, in this process."""
    try:
        lists = load_shipped()
        rules = compile_egress(load_config(None, lists), lists, (), True)
        session = Session("bench", SandboxStamp("native", "create-time"), rules, "secret", agent="claude")
        measure_setups(scale, results)
        for _ in range(scale.rounds):
            with tempfile.TemporaryDirectory(prefix="agw-bench-") as folder:
                _record(Path(folder), session, results)
                _verify(Path(folder), results)
        with tempfile.TemporaryDirectory(prefix="agw-bench-") as folder:
            _summaries(Path(folder), session, scale, results)
    except (GatewayError, OSError) as error:
        results.problems.append(f"review, gateway: {error}")


def _record(place: Path, session: Session, results: Results) -> None:
    """Microseconds for a record, on the whole; milliseconds of the slowest but one in a hundred; microseconds of the
    record that a client waits for."""
    log = AuditLog(place / "audit", state=place, max_bytes=FILE_BYTES)
    log.prepare()
    door, took, opened = Authorizer(log, time.monotonic), [], []
    attempts = [_attempt(door, session, number) for number in range(CONNECTIONS)]
    done = threading.Event()
    syncing = threading.Thread(target=_sync, args=(log, done))
    syncing.start()
    clock, figures = time.perf_counter_ns, Figures(1234, 56789, 250, "finished")
    begun = clock()
    for attempt in attempts:
        first = clock()
        door.open(attempt)
        second = clock()
        door.close(attempt, figures)
        took.append(clock() - second)
        opened.append(second - first)
    whole = clock() - begun
    done.set()
    syncing.join()
    log.close()
    results.add(RECORD, "gateway", whole / (2 * CONNECTIONS) / 1e3)
    results.add(SLOWEST, "gateway", statistics.quantiles(took + opened, n=100)[98] / 1e6)
    results.add(OPENED, "gateway", statistics.median(opened) / 1e3)


def _attempt(door: Authorizer, session: Session, number: int) -> Attempt:
    attempt = door.attempt(session, Transport.CONNECT, f"host{number % 500}.origin.test", 443)
    return replace(attempt, rule="baseline.txt:12", address="192.0.2.7", sni=attempt.host)


def _sync(log: AuditLog, done: threading.Event) -> None:
    """As a run does."""
    while not done.wait(1.0):
        log.sync()


def _verify(place: Path, results: Results) -> None:
    """Microseconds for a record."""
    begun = time.perf_counter()
    report = verify([place / "audit"], place, processes=os.cpu_count() or 1)
    took = time.perf_counter() - begun
    records = sum(chain.records for chain in report.chains)
    if not report.is_intact or records < 2 * CONNECTIONS:
        results.problems.append(f"review, gateway: {report.as_text()}")
        return
    results.add(VERIFY, "gateway", took / records * 1e6)


# --- Summaries ------------------------------------------------------------------------------------

# Records of a log that is summed up, and of a month of a busy team; and of the log that both are copies of.
MILLION: Final = 1_000_000
MONTH_RECORDS: Final = 5 * MILLION


def _summaries(place: Path, session: Session, scale: Scale, results: Results) -> None:
    """Seconds and megabytes of the command itself, from its start to its end, as a shell has it."""
    log = AuditLog(place / "one", max_bytes=FILE_BYTES)
    door, figures = Authorizer(log, time.monotonic), Figures(1234, 56789, 250, "finished")
    for number in range(CONNECTIONS):
        attempt = _attempt(door, session, number)
        door.open(attempt)
        door.close(attempt, figures)
    log.close()
    for name, records in (("million", MILLION), ("month", MONTH_RECORDS)):
        (place / name).mkdir()
        for copy in range(records // (2 * CONNECTIONS)):
            for file in (place / "one").iterdir():
                # Another process's log, by its name; its records take no room on the disk a second time.
                os.link(file, place / name / file.name.replace(f"-{os.getpid()}-", f"-{copy + 1}-"))
    for _ in range(scale.repeats):
        _summary(place / "million", MILLION, SUMMARY, SUMMARY_MEMORY, results)
    _summary(place / "month", MONTH_RECORDS, MONTH, None, results)


def _summary(log: Path, records: int, seconds: str, megabytes: str | None, results: Results) -> None:
    program = Path(sys.executable).with_name("agent-gateway")
    command = (str(program), "review", "--summary", "--json", "--log", str(log))
    begun = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        told = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    took = time.perf_counter() - begun
    if process.returncode or f'"records": {records}'.encode() not in told[:200]:
        results.problems.append(f"review, gateway: a summary of {records} records failed")
        return
    results.add(seconds, "gateway", took)
    if megabytes is not None:
        results.add(megabytes, "gateway", usage.ru_maxrss / 1024)
