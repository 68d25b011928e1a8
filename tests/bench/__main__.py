"""`python -m tests.bench [--rounds N] [--quick] [--only NAME]`: prints the report as Markdown on standard output.

Exit code 0 whatever the figures say, 1 when one that was asked for could not be measured.
"""

import argparse
import resource
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from tests.bench.filenames import FILENAME_FIGURES, measure_filenames
from tests.bench.guardrails import GUARDRAIL_FIGURES, measure_guardrails
from tests.bench.launcher import LAUNCHER_FIGURES, measure_launcher
from tests.bench.measures import (
    INTERLEAVED,
    Results,
    Scale,
    measure_body,
    measure_cold,
    measure_idle,
    measure_interleaved,
    start_all,
)
from tests.bench.micro import measure_matcher, measure_session
from tests.bench.pushes import PUSH_FIGURES, measure_pushes
from tests.bench.report import render
from tests.bench.review import REVIEW_FIGURES, measure_review
from tests.bench.subjects import Stage, Subject, origin
from tests.bench.toolchain import Unavailable, build, client_hello

FULL = Scale(rounds=15, seconds=0.3, warm_seconds=2.0, repeats=3, body_bytes=5_000_000_000, pairs=7)
QUICK = Scale(rounds=5, seconds=0.2, warm_seconds=0.6, repeats=1, body_bytes=5_000_000_000, pairs=3)

SINGLE = (
    "idle",
    "body",
    "cold",
    "pushes",
    "launcher",
    "filenames",
    "session",
    "matcher",
    "review",
    "guardrails",
)
FIGURES = (*(figure.name for figure in INTERLEAVED), *SINGLE)

DESCRIPTORS = 8192


def talk(text: str) -> None:
    """Progress, on standard error."""
    sys.stderr.write(f"bench: {text}\n")
    sys.stderr.flush()


def raise_descriptor_limit() -> None:
    """For the subjects and the load alike, as far as the host allows: a tunnel takes two in every proxy."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def parse_arguments() -> tuple[Scale, tuple[str, ...]]:
    """How much, and which figures."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description="measures the gateway and its peers"
    )
    parser.add_argument("--rounds", type=int, help="rounds of the interleaved figures")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: a look, not a record")
    parser.add_argument("--only", action="append", choices=FIGURES, metavar="NAME", help=", ".join(FIGURES))
    chosen = parser.parse_args()
    if chosen.rounds is not None and not 1 <= chosen.rounds <= 100:
        parser.error("--rounds takes 1 to 100")
    base = QUICK if chosen.quick else FULL
    rounds = chosen.rounds or base.rounds
    scale = replace(base, rounds=rounds)
    figures = tuple(chosen.only or FIGURES)
    parts = {
        "pushes": PUSH_FIGURES,
        "launcher": LAUNCHER_FIGURES,
        "filenames": FILENAME_FIGURES,
        "review": REVIEW_FIGURES,
        "guardrails": GUARDRAIL_FIGURES,
    }
    return scale, figures + tuple(part for name in figures for part in parts.get(name, ()))


@contextmanager
def attempted(figure: str, results: Results) -> Iterator[None]:
    """Says what is being measured. What fails in an unforeseen way costs this figure, never those taken before."""
    talk(figure)
    try:
        yield
    except Exception as error:
        results.problems.append(f"{figure}, the benchmark itself: {type(error).__name__}: {error}")


def measure(stage: Stage, scale: Scale, figures: tuple[str, ...], results: Results) -> list[Subject]:
    """Everything asked for. The interleaved figures share one set of running subjects; the others start their own."""
    subjects: list[Subject] = []
    wanted = [figure for figure in INTERLEAVED if figure.name in figures]
    if wanted or "idle" in figures:
        with ExitStack() as stack:
            talk("starting the subjects")
            subjects = start_all(stage, stack, results)
            for figure in wanted:
                with attempted(figure.name, results):
                    measure_interleaved(stage, subjects, figure, scale, results)
    singles = (
        ("idle", measure_idle),
        ("body", measure_body),
        ("cold", measure_cold),
        ("pushes", measure_pushes),
        ("launcher", measure_launcher),
        ("filenames", measure_filenames),
    )
    for name, take in singles:
        if name in figures:
            with attempted(name, results):
                take(stage, scale, results)
    inside = (
        ("session", measure_session),
        ("matcher", measure_matcher),
        ("review", measure_review),
        ("guardrails", measure_guardrails),
    )
    for name, take_inside in inside:
        if name in figures:
            with attempted(name, results):
                take_inside(scale, results)
    return subjects


def main() -> int:
    """Measures and prints; the exit code."""
    scale, figures = parse_arguments()
    raise_descriptor_limit()
    results = Results()
    with tempfile.TemporaryDirectory(prefix="agw-bench-") as name:
        folder = Path(name)
        hello = folder / "hello"
        hello.write_bytes(client_hello())
        try:
            load, origin_program = build("load"), build("origin")
            with origin(origin_program, folder) as port:
                subjects = measure(Stage(load, hello, port, folder), scale, figures, results)
        except Unavailable as error:
            talk(str(error))
            return 1
    text, complete = render(results, subjects, figures, scale.rounds)
    sys.stdout.write(text)
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
