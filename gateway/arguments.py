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
    host.add_argument("--json", action="store_true")
    host.set_defaults(command_name="check host")
    _add_check_push(subjects)
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
