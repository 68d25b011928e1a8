"""Prints the figures as Markdown: one table of medians, one of ratios, one of pushes, one of bounds, then what is
missing and why.

A ratio is taken round by round, between neighbours in time, and then the median of those. It is turned so that more
than 1 means that the gateway is ahead; but for pushes, where it is what a push takes with the gateway to what it
takes without.
"""

import importlib.metadata
import os
import platform
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.filenames import FILENAME_FIGURES, FILENAMES, GROWTH, MEMORY
from tests.bench.guardrails import (
    DECISION,
    DECISION_ALIKE,
    GUARDRAIL_FIGURES,
    SHELL,
    SHELL_DENSE,
    SHELL_LONG,
    SHELL_WIDE,
)
from tests.bench.hooks import HOOK
from tests.bench.launcher import BARE, CONNECT, HOST, LAUNCH, LAUNCHER_FIGURES, SOCAT, STREAM
from tests.bench.measures import CLIENTS, IDLE_TUNNELS, Results
from tests.bench.pushes import DIRECT, GIT, PUSH_FIGURES
from tests.bench.review import (
    MONTH,
    OPENED,
    RECORD,
    REVIEW_FIGURES,
    SLOWEST,
    SUMMARY,
    SUMMARY_MEMORY,
    VERIFY,
)
from tests.bench.setups import SETUP, UNLOGGED
from tests.bench.subjects import RAISED_LIMITS, Subject

OURS = "gateway"
BUSY = 0.7  # load average of the last minute before the start


@dataclass(frozen=True, slots=True)
class Column:
    """A figure as it is shown. `more_is_better` turns the ratios; `added` = less what direct takes."""

    figure: str
    title: str
    digits: int
    more_is_better: bool = True
    added: bool = False


COLUMNS: tuple[Column, ...] = (
    Column("connect", f"CONNECT tunnels/s ({CLIENTS} clients)", 0),
    Column("latency", "added latency p50, µs (1 client)", 0, more_is_better=False, added=True),
    Column("stream", "one tunnel MB/s", 0),
    Column("socks", f"SOCKS tunnels/s ({CLIENTS} clients)", 0),
    Column("http", f"plain HTTP keep-alive requests/s ({CLIENTS} connections)", 0),
    Column("idle", f"KB per idle tunnel (PSS, {IDLE_TUNNELS} tunnels)", 1, more_is_better=False),
    Column("idle-base", "MB without tunnels (PSS)", 1, more_is_better=False),
)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table of pushes: seconds with the gateway, and of whom it is compared with, if anybody."""

    figure: str
    title: str
    peer: str = DIRECT


PUSHES: tuple[Row, ...] = (
    Row("push-create", "300 MB: a new branch"),
    Row("push-update", "300 MB: a fast-forward, where a force is allowed too"),
    Row("push-proven", "300 MB: a fast-forward that the pack proves, where no force is allowed"),
    Row("push-asked", "300 MB: one that GitHub must prove, asked when all of it has been read (no bound)"),
    Row("push-denied", "300 MB: one that is denied", ""),
    Row("refs", "list of 100,000 refs, against git's own without HTTP", GIT),
    Row("refs", "the same, against the forge's own over HTTP"),
)


# Figure, title, digits, of whom it is compared with.
LAUNCHES: tuple[tuple[str, str, int, str], ...] = (
    (LAUNCH, "`true`, from the launch to its exit, ms (bare: bubblewrap alone)", 1, BARE),
    (STREAM, "out of the wrap through one connection, MB/s (bare: the host's loopback)", 0, HOST),
    (CONNECT, "connect, 100 bytes each way, close, µs (bare: the host's loopback)", 0, HOST),
)


@dataclass(frozen=True, slots=True)
class Bound:
    """A floor: `figure` of the gateway against `peer` (a ratio, at least `limit`), or alone (a value, at most).
    `times`: it takes at most `limit` times what the peer takes."""

    figure: str
    limit: float
    text: str
    peer: str = ""
    unit: str = ""
    times: bool = False


BOUNDS: tuple[Bound, ...] = (
    Bound("connect", 1.2, "CONNECT tunnels/s ≥ 1.2 × Node's multiplexed port", "node-mux"),
    Bound("connect", 0.8, "CONNECT tunnels/s ≥ 0.8 × Node's bare HTTP module", "node-bare"),
    Bound("connect", 0.65, "CONNECT tunnels/s ≥ 0.65 × squid", "squid"),
    Bound("latency", 1.0, "added latency p50 ≤ Node's bare HTTP module (its / ours ≥ 1)", "node-bare"),
    Bound("stream", 2.0, "one tunnel MB/s ≥ 2.0 × Node's bare HTTP module", "node-bare"),
    Bound("stream", 2.0, "one tunnel MB/s ≥ 2.0 × Node's multiplexed port", "node-mux"),
    Bound("stream", 1.5, "one tunnel MB/s ≥ 1.5 × squid", "squid"),
    Bound("socks", 0.8, "SOCKS tunnels/s ≥ 0.8 × Node's bare SOCKS module", "node-bare"),
    Bound("socks", 0.8, "SOCKS tunnels/s ≥ 0.8 × Node's multiplexed port", "node-mux"),
    Bound("http", 3.0, "plain HTTP requests/s ≥ 3 × Node's bare HTTP module", "node-bare"),
    Bound("http", 3.0, "plain HTTP requests/s ≥ 3 × Node's multiplexed port", "node-mux"),
    Bound("idle", 5.0, "memory per idle tunnel ≤ 5 KB", unit="KB"),
    Bound("session", 1.0, "opening a session's pair of listeners ≤ 1 ms", unit="ms"),
    Bound("matcher", 5.0, "matcher at 5,000 entries ≤ 5 µs", unit="µs"),
    Bound("cold", 1.5, "cold `agent-gateway run -- true` ≤ 1.5 s", unit="s"),
    Bound("body", 30.0, "a 5 GB body moves memory by ≤ 30 MB", unit="MB"),
    Bound("push-create", 1.15, "300 MB push of a new branch ≤ 1.15 × direct (aim 1.05)", DIRECT, times=True),
    Bound("push-update", 1.15, "300 MB fast-forward ≤ 1.15 × direct (aim 1.05)", DIRECT, times=True),
    Bound(
        "push-proven", 1.15, "300 MB fast-forward to be proven ≤ 1.15 × direct (aim 1.05)", DIRECT, times=True
    ),
    Bound("push-memory", 32.0, "a 300 MB push moves memory by ≤ 32 MB (highest of all)", unit="MB"),
    Bound("push-tokens", 0.0, "denied 300 MB pushes: no token minted, no request that may write"),
    Bound("refs", 3.0, "100,000 refs ≤ 3 × git's own receive-pack", GIT, times=True),
    Bound(LAUNCH, 5.0, "wrapped `true` ≤ 5 × bare bubblewrap", BARE, times=True),
    Bound(STREAM, 0.5, "through the bridge ≥ 0.5 × the host's loopback", HOST),
    Bound(CONNECT, 2.0, "connect through the bridge ≤ 2 × the host's loopback", HOST, times=True),
    *(
        Bound(figure, most, f"{title.rpartition(',')[0]} ≤ {most:g} × without file rules", DIRECT, times=True)
        for figure, title, _, most in FILENAMES
    ),
    Bound(MEMORY, 20.0, "the supervisor's memory ≤ 20 MB", unit="MB"),
    Bound(GROWTH, 0.5, "the supervisor's memory grows by ≤ 0.5 MB over the files of the note", unit="MB"),
    Bound(RECORD, 50.0, "recording ≤ 50 µs a record (20,000 a second)", unit="µs"),
    Bound(SLOWEST, 1.0, "p99 of one append ≤ 1 ms", unit="ms"),
    Bound(OPENED, 50.0, "the record that a client waits for ≤ 50 µs (median)", unit="µs"),
    Bound(SETUP, 1.10, "setting a connection up ≤ 1.10 × without a log", UNLOGGED, times=True),
    Bound(VERIFY, 5.0, "verifying ≤ 5 µs a record (200,000 a second)", unit="µs"),
    Bound(SUMMARY, 3.0, "a summary of 1,000,000 events ≤ 3 s", unit="s"),
    Bound(SUMMARY_MEMORY, 500.0, "a summary of 1,000,000 events takes ≤ 500 MB", unit="MB"),
    Bound(MONTH, 30.0, "a summary of 5,000,000 events: seconds", unit="s"),
    Bound(HOOK, 60.0, "the hook's round trip inside a session ≤ 60 ms (median)", unit="ms"),
    Bound(DECISION, 50.0, "one decision with 200 rules ≤ 50 µs (median)", unit="µs"),
    Bound(DECISION_ALIKE, 50.0, "the same where all are about one action (the slowest)", unit="µs"),
    Bound(SHELL, 4.0, "a shell line of 4 KB is classified in ≤ 4 ms", unit="ms"),
    Bound(SHELL_DENSE, 8.0, "4 KB of 200 short commands in ≤ 8 ms", unit="ms"),
    Bound(SHELL_LONG, 1.0, "a line of 1 MB is denied within 1 s", unit="s"),
    Bound(SHELL_WIDE, 1.0, "a pipeline of 10,000 parts is denied within 1 s", unit="s"),
    Bound("inflating", 64.0, "a 1 MB gzip body of 1 GiB moves memory by ≤ 64 MB (highest)", unit="MB"),
)


def values_of(results: Results, column: Column, name: str) -> list[float]:
    """A subject's values, round by round; where the column says so, less what direct took in the same round."""
    values = results.series.get(column.figure, {}).get(name, [])
    if not column.added:
        return values
    floor = results.series.get(column.figure, {}).get("direct", [])
    return [value - least for value, least in zip(values, floor, strict=False)]


def ratios(results: Results, column: Column, peer: str) -> list[float]:
    """Gateway against peer, round by round, turned so that more than 1 is ahead; empty without both."""
    ours, theirs = values_of(results, column, OURS), values_of(results, column, peer)
    pairs = zip(ours, theirs, strict=False)
    if column.more_is_better:
        return [one / other for one, other in pairs if other > 0]
    return [other / max(one, 1e-9) for one, other in pairs]


def times_the_peer(results: Results, figure: str, peer: str) -> list[float]:
    """How often the gateway takes what the peer takes, round by round; empty without both."""
    series = results.series.get(figure, {})
    pairs = zip(series.get(OURS, []), series.get(peer, []), strict=False)
    return [ours / theirs for ours, theirs in pairs]


def spread(values: Sequence[float], digits: int) -> str:
    """Median with the range: `1.31 (1.22–1.40)`."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, the first column left and the others right."""
    lines = [head, [":--", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def medians_table(results: Results, names: Sequence[str]) -> str:
    """Medians: a row per figure, a column per subject."""
    rows = []
    for column in COLUMNS:
        cells = [values_of(results, column, name) for name in names]
        if any(cells):
            shown = (f"{statistics.median(cell):,.{column.digits}f}" if cell else "–" for cell in cells)
            rows.append([column.title, *shown])
    return table(["median", *names], rows)


def ratios_table(results: Results, names: Sequence[str]) -> str:
    """How far ahead the gateway is: a row per figure, a column per other subject."""
    others = [name for name in names if name != OURS]
    rows = []
    for column in COLUMNS:
        cells = [
            ratios(results, column, name) if name != "direct" or not column.added else [] for name in others
        ]
        if any(cells):
            rows.append(
                [column.title, *(f"{statistics.median(cell):.2f}" if cell else "–" for cell in cells)]
            )
    return table(["gateway is ahead by (> 1)", *others], rows)


def pushes_table(results: Results) -> str:
    """Seconds, as medians with their range: a row per kind of push."""
    rows = []
    for row in PUSHES:
        series = results.series.get(row.figure, {})
        ratio = times_the_peer(results, row.figure, row.peer)
        values = (series.get(row.peer, []), series.get(OURS, []), ratio)
        if series.get(OURS):
            rows.append([row.title, *(spread(value, 2) if value else "–" for value in values)])
    return table(["seconds", "without", "with the gateway", "ratio"], rows)


def launcher_table(results: Results) -> str:
    """The launcher's figures, as medians with their range; the socat bridge stands beside for comparison."""
    rows = []
    for figure, title, digits, peer in LAUNCHES:
        series = results.series.get(figure, {})
        values = [series.get(name, []) for name in (peer, OURS, SOCAT)]
        if series.get(OURS):
            rows.append([title, *(spread(value, digits) if value else "–" for value in values)])
    return table(["launcher", "bare", "wrapped", "wrapped, bridge: socat"], rows)


def filenames_table(results: Results) -> str:
    """What the file rules cost, as medians with their range."""
    rows = []
    for figure, title, digits, _ in FILENAMES:
        series = results.series.get(figure, {})
        ratio = times_the_peer(results, figure, DIRECT)
        if ratio:
            rows.append([title, *(spread(series[name], digits) for name in (DIRECT, OURS)), spread(ratio, 2)])
    return table(["in the wrap", "names judged at launch", "as they are created", "ratio"], rows)


def judge(results: Results, bound: Bound) -> tuple[str, bool | None]:
    """The figure as text and whether the bound is met; None when it could not be measured."""
    if bound.times:
        values = times_the_peer(results, bound.figure, bound.peer)
        return (
            (spread(values, 2), statistics.median(values) <= bound.limit)
            if values
            else ("not measured", None)
        )
    column = next((one for one in COLUMNS if one.figure == bound.figure), Column(bound.figure, "", 2))
    values = ratios(results, column, bound.peer) if bound.peer else values_of(results, column, OURS)
    if not values:
        return "not measured", None
    middle = statistics.median(values)
    if bound.peer:
        return spread(values, 2), middle >= bound.limit
    return f"{spread(values, 2)} {bound.unit}", middle <= bound.limit


def bounds_table(results: Results, figures: Sequence[str]) -> tuple[str, bool]:
    """The bounds of the figures that were asked for, and whether every one of them could be judged."""
    words = {True: "met", False: "**missed**", None: "**not measured**"}
    judged = [(bound, *judge(results, bound)) for bound in BOUNDS if bound.figure in figures]
    rows = [[bound.text, figure, words[met]] for bound, figure, met in judged]
    return table(["bound", "median (range)", ""], rows), all(met is not None for _, _, met in judged)


def machine() -> str:
    """Processor, count, system and Python in one line."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        model = next(
            (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model
        )
    system = f"{platform.system()} {platform.release()}"
    return f"{model}, {os.cpu_count()} CPUs, {system}, Python {platform.python_version()}"


def render(
    results: Results, subjects: Sequence[Subject], figures: Sequence[str], rounds: int
) -> tuple[str, bool]:
    """The whole report, and whether every bound asked for could be judged and nothing else failed."""
    names = [subject.name for subject in subjects]
    bounds, complete = bounds_table(results, figures)
    known = [f"{subject.name} {subject.version}" for subject in subjects if subject.version]
    versions = "; ".join([*known, f"mitmproxy {importlib.metadata.version('mitmproxy')}"])
    parts = [
        "# Benchmark",
        f"Machine: {machine()}; load average {results.load_before:.1f} before.\n\nVersions: {versions}.",
    ]
    parts_of_their_own = {
        "pushes",
        *PUSH_FIGURES,
        "launcher",
        *LAUNCHER_FIGURES,
        "filenames",
        *FILENAME_FIGURES,
        "review",
        *REVIEW_FIGURES,
        "guardrails",
        *GUARDRAIL_FIGURES,
    }
    if not set(figures) <= parts_of_their_own:
        parts.append(
            f"Gateway: audit log on, every check on, limits raised to `{RAISED_LIMITS}`. Peers: everything allowed, no "
            "access log, asked for the origin by its address. Every tunnel carries a real ClientHello (SNI "
            "origin.test) and a small reply, so the gateway reads and judges the name; the origin answers plain bytes. "
            f"Medians of {rounds} interleaved rounds; a ratio is the median of the rounds' own ratios."
        )
    if "pushes" in figures:
        parts.append(
            "Pushes: real git with one commit of random files, to the embedded forge, a process of its own that is as "
            "before each time; through `agent-gateway run` as it comes (wrap, limits, log), or without, with a token "
            "that may push. In turns; a ratio is the median of the pairs' own ratios."
        )
    if any(column.figure in results.series for column in COLUMNS):
        parts.append(medians_table(results, names))
        if OURS in names:
            parts.append(ratios_table(results, names))
    if any(row.figure in results.series for row in PUSHES):
        parts.append(pushes_table(results))
    if any(figure in results.series for figure, *_ in LAUNCHES):
        parts.append(launcher_table(results))
    if any(figure in results.series for figure in FILENAME_FIGURES):
        parts.append(filenames_table(results))
    parts.append(bounds)
    parts += [f"Note: {note}." for note in results.notes]
    if results.problems:
        parts.append("Missing:\n" + "\n".join(f"* {problem}" for problem in results.problems))
    if results.load_before > BUSY:
        parts.append("Note: the machine was busy with something else. Take no record from this run.")
    failed = any("," in problem.partition(":")[0] for problem in results.problems)
    return "\n\n".join(parts) + "\n", complete and not failed
