"""The parsers of the command line: which commands and options there are. It runs nothing; `cli.py` does."""

import argparse
from typing import Final, NoReturn

from gateway import __version__
from gateway.policy.wording import printable

_MODES: Final = ("chat", "review", "plan", "orchestrate")
_VERSION: Final = f"agent-gateway {__version__}"
# Commands that take CMD after "--".
_WITH_COMMAND: Final = frozenset({"run", "profile"})

_RUN_TEXT: Final = (
    "Opens a session, wraps CMD, runs it in the foreground, tears everything down. With --profile terminal it opens a "
    "person's own shell instead ($SHELL where no CMD is given): no proxies, tokens or push gateway, and no wrap "
    "unless --backend native asks for one. It takes none of --mode, --repo, --allow, --no-network, --space."
)
_PROFILE_TEXT: Final = (
    "Prints the bubblewrap command line or the Seatbelt profile that `run` would use with the same options. It runs "
    "and makes nothing, and works for both platforms on either."
)

_REVIEW_TEXT: Final = (
    "Shows what is recorded, the newest last, as lines for people; or answers one question about it. Nothing is "
    "changed. What cannot be read of the log is named on stderr. Times are UTC."
)
_EVENTS: Final = (
    "session", "egress", "push", "token", "action", "approval", "violation", "config", "checkpoint",
)  # fmt: skip

type _Commands = argparse._SubParsersAction[Parser]


class Parser(argparse.ArgumentParser):
    """What it complains about is the caller's text."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def divide(arguments: list[str]) -> tuple[list[str], list[str] | None]:
    """Our own arguments, and CMD with its own after the first `--` (None without one)."""
    if not arguments or arguments[0] not in _WITH_COMMAND or "--" not in arguments:
        return arguments, None
    cut = arguments.index("--")
    return arguments[:cut], arguments[cut + 1 :]


def build_parser() -> Parser:
    """The parser of everything before CMD. `command_name` of its result says which command was given, if any."""
    parser = Parser(
        prog="agent-gateway",
        description="Wraps a coding agent: its network is an allowlist, and what goes out is on record.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=_VERSION)
    parser.set_defaults(command_name="")
    commands = parser.add_subparsers(metavar="COMMAND")
    _add_run(commands)
    _add_profile(commands)
    _add_check(commands)
    _add_review(commands)
    _add_approvals(commands)
    _add_hook(commands)
    _add_doctor(commands)
    _add(commands, "demo", "the main job against targets of its own on loopback").set_defaults(
        command_name="demo"
    )
    return parser


def _add(
    commands: _Commands, name: str, text: str, description: str | None = None, usage: str | None = None
) -> Parser:
    """A command's or subject's parser with what every one has."""
    parser = commands.add_parser(name, help=text, description=description, usage=usage, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=_VERSION)
    return parser


def _add_run(commands: _Commands) -> None:
    run = _add(
        commands, "run", "wrap a command and run it", _RUN_TEXT, "agent-gateway run [options] -- CMD [ARG...]"
    )
    _add_wrap_options(run)
    _add_session_options(run)
    run.set_defaults(command_name="run")


def _add_profile(commands: _Commands) -> None:
    profile = _add(
        commands,
        "profile",
        "what run would use as its wrap",
        _PROFILE_TEXT,
        "agent-gateway profile [options of run] [--platform linux|macos] [--json] [-- CMD [ARG...]]",
    )
    _add_wrap_options(profile)
    _add_session_options(profile)
    profile.add_argument("--platform", choices=("linux", "macos"), help="default: the one this runs on")
    profile.add_argument("--json", action="store_true")
    profile.set_defaults(command_name="profile")


def _add_wrap_options(run: Parser) -> None:
    """What is wrapped, and how."""
    run.add_argument(
        "--config", metavar="F", help="config file (else AGENT_GATEWAY_CONFIG, then the user's own)"
    )
    run.add_argument("--sandbox", choices=("on", "off"), help="wrap where the host can (default: on)")
    run.add_argument(
        "--backend", metavar="NAME", help="native, none or microvm (default: native where it works)"
    )
    run.add_argument("--mode", choices=_MODES, default="chat")
    run.add_argument(
        "--profile",
        choices=("agent", "terminal"),
        default="agent",
        help="terminal: a person's own shell (default: agent)",
    )
    run.add_argument("--repo", metavar="PATH", help="the worktree (default: the git worktree around here)")
    run.add_argument(
        "--worktree", choices=("in-place", "cow", "git"), help="this version offers in-place, the default"
    )
    run.add_argument(
        "--bind", metavar="PATH[:ro]", action="append", default=[], help="make a path visible inside"
    )
    run.add_argument("--protect", metavar="PATH", action="append", default=[], help="never writable inside")
    run.add_argument(
        "--state-dir", metavar="PATH", action="append", default=[], help="writable in every mode"
    )
    run.add_argument(
        "--exec-grant",
        metavar="PATH",
        action="append",
        default=[],
        help="programs in this writable directory may run (macOS; elsewhere they may anyway)",
    )


def _add_session_options(run: Parser) -> None:
    """Whose session it is, what it may reach, what it is given."""
    run.add_argument("--allow", metavar="DOMAIN", action="append", default=[], help="allow one more domain")
    run.add_argument("--no-network", action="store_true", help="refuse every connection")
    run.add_argument(
        "--workspace",
        metavar="NAME",
        default="default",
        help="one home for all its runs (else one per worktree)",
    )
    run.add_argument(
        "--space", metavar="ID", help="show the folders of this space for --agent instead of a worktree"
    )
    run.add_argument("--agent", metavar="ID", help="stands on every record")
    run.add_argument("--session", metavar="ID", help="the new session's id (default: a random one)")
    run.add_argument(
        "--env", metavar="NAME[=VALUE]", action="append", default=[], help="pass or set a variable"
    )
    run.add_argument("--quiet", action="store_true", help="no closing line")
    run.add_argument("stray", nargs="*", help=argparse.SUPPRESS)


def _add_check(commands: _Commands) -> None:
    check = _add(commands, "check", "dry runs", "Dry runs: nothing is opened or recorded.")
    subjects = check.add_subparsers(metavar="SUBJECT", required=True)
    host = _add(subjects, "host", "would this host be allowed?", "Exit status: 0 allowed, 1 refused.")
    host.add_argument("target", metavar="NAME[:PORT]")
    host.add_argument("--config", metavar="F")
    host.add_argument("--allow", metavar="DOMAIN", action="append", default=[])
    host.add_argument("--no-network", action="store_true")
    host.add_argument("--mode", choices=_MODES, default="chat")
    host.add_argument("--workspace", metavar="NAME", default="default")
    host.add_argument("--agent", metavar="ID", default="")
    host.add_argument("--space", metavar="ID", default="")
    host.add_argument("--json", action="store_true")
    host.set_defaults(command_name="check host")
    _add_check_push(subjects)
    _add_check_command(subjects)
    config = _add(
        subjects,
        "config",
        "every problem in a config or list file",
        "Exit status: 0 none, or warnings alone; 1 errors.",
    )
    config.add_argument(
        "file", metavar="FILE", nargs="?", help="a list ends in .txt (default: the config in use)"
    )
    config.add_argument("--json", action="store_true")
    config.set_defaults(command_name="check config")


def _add_check_push(subjects: _Commands) -> None:
    push = _add(
        subjects,
        "push",
        "would this push be allowed?",
        "What the rules say to a push of these refs: a branch by its short name (main) or in full, everything else in "
        "full (refs/tags/v1). Without --force and --delete a branch is asked about twice, as new (create) and as moved "
        "forward (fast-forward). Exit status, the most restrictive of all: 0 allowed, 1 refused, 3 asked first.",
    )
    push.add_argument("repository", metavar="OWNER/REPO")
    push.add_argument("refs", metavar="REF", nargs="+")
    kinds = push.add_mutually_exclusive_group()
    kinds.add_argument(
        "--force", action="store_true", help="an update that is no fast-forward, or a moved tag"
    )
    kinds.add_argument("--delete", action="store_true", help="the deletion of the refs")
    push.add_argument("--mode", choices=_MODES, default="chat")
    push.add_argument("--workspace", metavar="NAME", default="default")
    push.add_argument("--agent", metavar="ID", default="")
    push.add_argument("--space", metavar="ID", default="")
    push.add_argument("--config", metavar="F")
    push.add_argument("--json", action="store_true")
    push.set_defaults(command_name="check push")


def _add_check_command(subjects: _Commands) -> None:
    command = _add(
        subjects,
        "command",
        "would this shell line be allowed?",
        "Takes a shell line apart and says what would become of each part in a session that `run` would open from here "
        "with the same options: its effects, the verdict, the rule. Exit status, the most restrictive of all: 0 "
        "allowed, 1 refused, 3 asked first.",
    )
    command.add_argument("line", metavar="'SHELL LINE'")
    command.add_argument("--mode", choices=_MODES, default="chat")
    command.add_argument("--workspace", metavar="NAME", default="default")
    command.add_argument("--agent", metavar="ID", default="")
    command.add_argument("--space", metavar="ID", default="")
    command.add_argument("--config", metavar="F")
    command.add_argument("--json", action="store_true")
    command.set_defaults(command_name="check command")


def _add_review(commands: _Commands) -> None:
    review = _add(
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


def _add_review_verify(subjects: _Commands) -> None:
    verify = _add(
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


def _add_approvals(commands: _Commands) -> None:
    approvals = _add(
        commands,
        "approvals",
        "answer what is asked first",
        "Questions of every run of this user. Without a word: list. Somebody must watch, or nobody is there to ask. "
        "Exit status: 0 done; 1 not possible, the message says why.",
    )
    approvals.add_argument("--json", action="store_true")
    approvals.set_defaults(command_name="approvals", word="list", question="", remember=False, text="")
    words = approvals.add_subparsers(metavar="WORD")
    for word, text in (
        ("list", "what waits now"),
        ("watch", "questions as they come; being there to be asked"),
    ):
        one = _add(words, word, text)
        one.add_argument("--json", action="store_true", default=argparse.SUPPRESS)
        one.set_defaults(word=word)
    approve = _add(words, "approve", "say yes")
    approve.add_argument("question", metavar="ID", help="its number, or SESSION:NUMBER")
    approve.add_argument(
        "--remember", action="store_true", help="and to the same for the rest of the session"
    )
    approve.add_argument("--reason", metavar="R", dest="text", default="", help="for the record")
    approve.set_defaults(word="approve")
    deny = _add(words, "deny", "say no")
    deny.add_argument("question", metavar="ID", help="its number, or SESSION:NUMBER")
    deny.add_argument("--message", metavar="M", dest="text", default="", help="for whoever asked")
    deny.set_defaults(word="deny")


def _add_doctor(commands: _Commands) -> None:
    doctor = _add(
        commands,
        "doctor",
        "what works on this host, and what mends the rest",
        "Looks at this host, the configuration in use and what the product keeps, changes nothing, and works offline. "
        "Exit status: 0 nothing failed (there may be warnings), 1 something did.",
    )
    doctor.add_argument("--config", metavar="F")
    doctor.add_argument(
        "--boundaries", action="store_true", help="which boundary holds for whom, and nothing else"
    )
    doctor.add_argument("--markdown", action="store_true", help=argparse.SUPPRESS)
    doctor.add_argument("--json", action="store_true")
    doctor.set_defaults(command_name="doctor")


def _add_hook(commands: _Commands) -> None:
    hook = _add(commands, "hook", "hooks of agents", "What an agent's settings have run before its tools.")
    events = hook.add_subparsers(metavar="EVENT", required=True)
    before = _add(
        events,
        "pre-tool-use",
        "Claude Code's PreToolUse hook",
        "Reads the hook's JSON from stdin, asks the session's gateway, and writes the decision to stdout: JSON for a "
        "denial, nothing for an allow. Exit status: 0 decided; 2 whatever went wrong, which blocks the call. `run -- "
        "claude` has it without any settings of yours.",
    )
    before.add_argument(
        "--limit",
        metavar="SECONDS",
        type=float,
        help="block the call after this time; shorter than the hook's timeout in the settings (default: 55)",
    )
    before.set_defaults(command_name="hook pre-tool-use")
