"""The parsers of `review` and `review verify`."""

import argparse
from typing import Final

from gateway.parser import Commands, Parser, add_command

_REVIEW_TEXT: Final = (
    "Shows what is recorded, the newest last, as lines for people; or answers one question about it. Nothing is "
    "changed. What cannot be read of the log is named on stderr. Times are UTC."
)
_EVENTS: Final = (
    "session", "egress", "push", "token", "action", "approval", "violation", "config", "checkpoint",
)  # fmt: skip


def add_review(commands: Commands) -> None:
    """`review` with its questions and filters, and `review verify`."""
    review = add_command(
        commands,
        "review",
        "the security review of the audit log",
        _REVIEW_TEXT,
        "agent-gateway review [filters] [what] [--json|--csv]\n       agent-gateway review verify [options]",
    )
    _add_review_filters(review)
    _add_review_questions(review)
    review.set_defaults(command_name="review")
    subjects = review.add_subparsers(metavar="SUBJECT", prog="agent-gateway review")
    _add_review_verify(subjects)


def _add_review_filters(review: Parser) -> None:
    """Each may be given several times: one of the values must fit."""
    for option, metavar, text in (
        ("--session", "ID", "of this session"),
        ("--host", "GLOB", "to hosts that fit: api.example.com, *.example.com"),
        ("--code", "CODE", "refused or failed with this code"),
        ("--rule", "GLOB", "decided by this rule: baseline.txt:12, deny.txt:*"),
        ("--text", "TEXT", "with this text in any value, in any letter case"),
    ):
        review.add_argument(option, metavar=metavar, action="append", default=[], help=text)
    review.add_argument("--verdict", choices=("allow", "deny", "ask"), action="append", default=[])
    review.add_argument("--event", choices=_EVENTS, action="append", default=[], help=", ".join(_EVENTS))
    moment = "2026-01-31, 2026-01-31T12:00:00Z, or so long ago: 30m, 2h, 3d"
    review.add_argument("--since", metavar="MOMENT", help=moment)
    review.add_argument("--until", metavar="MOMENT", help="before this moment, written alike")


def _add_review_questions(review: Parser) -> None:
    what = review.add_mutually_exclusive_group()
    what.add_argument("--summary", action="store_true", help="hosts, denials, pushes, tokens, ... in figures")
    what.add_argument("--new-since", metavar="SESSION|MOMENT", help="hosts that were never seen before it")
    what.add_argument("--follow", action="store_true", help="goes on with what is recorded from now on")
    what.add_argument(
        "--sql", metavar="SELECT", help="one SELECT over the views log, egress, push, token, ..."
    )
    what.add_argument(
        "--suggest", action="store_true", help="list lines that would have let through what was refused"
    )
    what.add_argument(
        "--report", metavar="FILE", help="all of it as one HTML page, charts included; - for stdout"
    )
    review.add_argument("--limit", metavar="N", type=_count, help="the first N only")
    review.add_argument("--tail", metavar="N", type=_count, help="the last N only")
    form = review.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="for programs; records as they stand in the log")
    form.add_argument("--csv", action="store_true", help="for spreadsheets")
    review.add_argument(
        "--log",
        metavar="DIRECTORY|FILE",
        action="append",
        default=[],
        help="the log to read (default: the audit directory of the config in use)",
    )
    review.add_argument("--config", metavar="F")


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number of records")
    return int(text)


def _add_review_verify(subjects: Commands) -> None:
    verify = add_command(
        subjects,
        "verify",
        "is the log what was written?",
        "Follows every chain through its files, checks every signature, and compares with the register of chains in "
        "the state directory. Names what was edited, removed, added, moved or cut, by file and line. Exit status: 0 "
        "intact, 1 broken.",
    )
    verify.add_argument(
        "places",
        metavar="DIRECTORY|FILE",
        nargs="*",
        help="default: the audit directory of the config in use",
    )
    verify.add_argument("--config", metavar="F")
    verify.add_argument(
        "--key",
        metavar="F",
        action="append",
        default=[],
        help="a further key to believe (PEM, public or private)",
    )
    verify.add_argument("--json", action="store_true")
    verify.set_defaults(command_name="review verify")
