"""The parsers of the command line: which commands and options there are. It runs nothing; `cli.py` does."""

import argparse
from typing import Final

from gateway.parser import VERSION, Commands, Parser, add_command
from gateway.review_arguments import add_review

_MODES: Final = ("chat", "review", "plan", "orchestrate")
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
    parser.add_argument("--version", action="version", version=VERSION)
    parser.set_defaults(command_name="")
    commands = parser.add_subparsers(metavar="COMMAND")
    _add_run(commands)
    _add_profile(commands)
    _add_check(commands)
    add_review(commands)
    _add_approvals(commands)
    _add_hook(commands)
    _add_doctor(commands)
    add_command(commands, "demo", "the main job against targets of its own on loopback").set_defaults(
        command_name="demo"
    )
    return parser


def _add_run(commands: Commands) -> None:
    run = add_command(
        commands, "run", "wrap a command and run it", _RUN_TEXT, "agent-gateway run [options] -- CMD [ARG...]"
    )
    _add_wrap_options(run)
    _add_session_options(run)
    run.set_defaults(command_name="run")


def _add_profile(commands: Commands) -> None:
    profile = add_command(
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


def _add_check(commands: Commands) -> None:
    check = add_command(commands, "check", "dry runs", "Dry runs: nothing is opened or recorded.")
    subjects = check.add_subparsers(metavar="SUBJECT", required=True)
    host = add_command(subjects, "host", "would this host be allowed?", "Exit status: 0 allowed, 1 refused.")
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
    config = add_command(
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


def _add_check_push(subjects: Commands) -> None:
    push = add_command(
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


def _add_check_command(subjects: Commands) -> None:
    command = add_command(
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


def _add_approvals(commands: Commands) -> None:
    approvals = add_command(
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
        one = add_command(words, word, text)
        one.add_argument("--json", action="store_true", default=argparse.SUPPRESS)
        one.set_defaults(word=word)
    approve = add_command(words, "approve", "say yes")
    approve.add_argument("question", metavar="ID", help="its number, or SESSION:NUMBER")
    approve.add_argument(
        "--remember", action="store_true", help="and to the same for the rest of the session"
    )
    approve.add_argument("--reason", metavar="R", dest="text", default="", help="for the record")
    approve.set_defaults(word="approve")
    deny = add_command(words, "deny", "say no")
    deny.add_argument("question", metavar="ID", help="its number, or SESSION:NUMBER")
    deny.add_argument("--message", metavar="M", dest="text", default="", help="for whoever asked")
    deny.set_defaults(word="deny")


def _add_doctor(commands: Commands) -> None:
    doctor = add_command(
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


def _add_hook(commands: Commands) -> None:
    hook = add_command(
        commands, "hook", "hooks of agents", "What an agent's settings have run before its tools."
    )
    events = hook.add_subparsers(metavar="EVENT", required=True)
    before = add_command(
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
