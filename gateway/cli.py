"""The command line: argv, environment and exit status, and nothing else. Everything is imported when it is needed."""

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, NoReturn

from gateway import __version__
from gateway.errors import GatewayError, UsageError
from gateway.policy.wording import printable, printable_lines

USAGE: Final = 2
FAILED: Final = 125
_MODES: Final = ("chat", "review", "plan", "orchestrate")
_VERSION: Final = f"agent-gateway {__version__}"

_Command = Callable[[argparse.Namespace], int]
type _Commands = argparse._SubParsersAction[_Parser]


class _Parser(argparse.ArgumentParser):
    """What it complains about is the caller's text."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs one command and exits with its status."""
    _open_standard_streams()
    sys.excepthook = _tell_and_exit
    arguments, command_line = _divide(list(sys.argv[1:] if argv is None else argv))
    parser = _parser()
    options = parser.parse_args(arguments)
    options.command_line = command_line
    command: _Command | None = getattr(options, "run_command", None)
    if command is None:
        parser.print_help(sys.stderr)
        _exit(USAGE)
    try:
        status = command(options)
        sys.stdout.flush()
    except UsageError as error:
        _say(*error.lines)
        status = USAGE
    except GatewayError as error:
        _say(*error.lines)
        status = FAILED
    except BrokenPipeError:
        status = FAILED  # whoever reads has gone, and hears nothing more
    except OSError as error:
        _say(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        status = FAILED
    _exit(status)


def _open_standard_streams() -> None:
    """Gives a closed 0, 1 or 2 to the null device: else the next file or socket would get the number, and with it what
    others write there."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
            os.set_inheritable(null, True)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # names from argv may be no text in any encoding


def _tell_and_exit(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """What nobody expected is told in full, and its status is not mistaken for a command's own. Ctrl-C says nothing."""
    if not issubclass(kind, KeyboardInterrupt):
        from traceback import format_exception

        try:
            sys.stderr.write(printable_lines("".join(format_exception(kind, error, trace))))
            sys.stderr.flush()
        except OSError:
            pass
        os._exit(FAILED)


def _exit(status: int) -> NoReturn:
    """Exits with this status, now. The interpreter's own end would wait for threads that wait for name servers, and
    change the status where a reader has gone."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            pass
    os._exit(status)


def _say(*lines: str) -> None:
    try:
        for line in lines:
            print(f"agent-gateway: {printable(line)}", file=sys.stderr)
    except OSError:
        pass  # nobody listens; the exit status says it all the same


def _divide(arguments: list[str]) -> tuple[list[str], list[str] | None]:
    """Our own arguments, and CMD with its own after the first `--` (None without one). Only `run` takes a command."""
    if arguments[:1] != ["run"] or "--" not in arguments:
        return arguments, None
    cut = arguments.index("--")
    return arguments[:cut], arguments[cut + 1 :]


def _parser() -> _Parser:
    parser = _Parser(
        prog="agent-gateway",
        description="Wraps a coding agent: its network is an allowlist, and what goes out is on record.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=_VERSION)
    commands = parser.add_subparsers(metavar="COMMAND")
    _add_run(commands)
    _add_check(commands)
    _add_demo(commands)
    return parser


def _add(
    commands: _Commands, name: str, text: str, description: str | None = None, usage: str | None = None
) -> _Parser:
    """A command's or subject's parser with what every one has."""
    parser = commands.add_parser(name, help=text, description=description, usage=usage, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=_VERSION)
    return parser


def _add_run(commands: _Commands) -> None:
    run = _add(
        commands,
        "run",
        "wrap a command and run it",
        "Opens a session, wraps CMD, runs it in the foreground, tears everything down.",
        "agent-gateway run [options] -- CMD [ARG...]",
    )
    run.add_argument(
        "--config", metavar="F", help="config file (else AGENT_GATEWAY_CONFIG, then the user's own)"
    )
    run.add_argument("--sandbox", choices=("on", "off"), help="wrap where the host can (default: on)")
    run.add_argument(
        "--backend", metavar="NAME", help="native, none or microvm (default: native where it works)"
    )
    run.add_argument("--mode", choices=_MODES, default="chat")
    run.add_argument("--repo", metavar="PATH", help="the worktree (default: the git worktree around here)")
    run.add_argument(
        "--bind", metavar="PATH[:ro]", action="append", default=[], help="make a path visible inside"
    )
    run.add_argument("--protect", metavar="PATH", action="append", default=[], help="never writable inside")
    run.add_argument(
        "--state-dir", metavar="PATH", action="append", default=[], help="writable in every mode"
    )
    run.add_argument("--allow", metavar="DOMAIN", action="append", default=[], help="allow one more domain")
    run.add_argument("--no-network", action="store_true", help="refuse every connection")
    run.add_argument(
        "--workspace",
        metavar="NAME",
        default="default",
        help="one home for all its runs (else one per worktree)",
    )
    run.add_argument("--agent", metavar="ID", help="stands on every record")
    run.add_argument("--session", metavar="ID", help="the new session's id (default: a random one)")
    run.add_argument(
        "--env", metavar="NAME[=VALUE]", action="append", default=[], help="pass or set a variable"
    )
    run.add_argument("--quiet", action="store_true", help="no closing line")
    run.add_argument("stray", nargs="*", help=argparse.SUPPRESS)
    run.set_defaults(run_command=_run)


def _add_check(commands: _Commands) -> None:
    check = _add(commands, "check", "dry runs", "Dry runs: nothing is opened or recorded.")
    subjects = check.add_subparsers(metavar="SUBJECT", required=True)
    host = _add(subjects, "host", "would this host be allowed?", "Exit status: 0 allowed, 1 refused.")
    host.add_argument("target", metavar="NAME[:PORT]")
    host.add_argument("--config", metavar="F")
    host.add_argument("--allow", metavar="DOMAIN", action="append", default=[])
    host.add_argument("--no-network", action="store_true")
    host.add_argument("--json", action="store_true")
    host.set_defaults(run_command=_check_host)
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
    config.set_defaults(run_command=_check_config)


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
    push.set_defaults(run_command=_check_push)


def _add_demo(commands: _Commands) -> None:
    demo = _add(commands, "demo", "the main job against targets of its own on loopback")
    demo.set_defaults(run_command=_demo)


def _run(options: argparse.Namespace) -> int:
    from gateway.plan import RunOptions
    from gateway.run import run

    command = options.command_line
    if options.stray:
        raise UsageError(
            f"what is {options.stray[0]!r}?", "the command stands after --: run [options] -- CMD [ARG...]"
        )
    if not command:
        raise UsageError("there is no command to run", "write it after --: agent-gateway run -- CMD [ARG...]")
    return run(
        RunOptions(
            command=tuple(command),
            config=options.config,
            sandbox=options.sandbox,
            backend=options.backend,
            mode=options.mode,
            repo=options.repo,
            bind=tuple(options.bind),
            protect=tuple(options.protect),
            state_dirs=tuple(options.state_dir),
            allow=tuple(options.allow),
            network=not options.no_network,
            workspace=options.workspace,
            agent=options.agent,
            session=options.session,
            env=tuple(options.env),
            quiet=options.quiet,
        ),
        dict(os.environ),
    )


def _check_host(options: argparse.Namespace) -> int:
    from gateway.check import check_host

    answer = check_host(options.target, options.config, options.allow, not options.no_network, os.environ)
    print(json.dumps(answer.as_json()) if options.json else answer.as_text())
    return 0 if answer.allowed else 1


def _check_push(options: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from gateway.check import PushQuestion, check_push
    from gateway.policy.decision import Verdict
    from gateway.policy.modes import Mode

    question = PushQuestion(
        repository=options.repository,
        refs=tuple(options.refs),
        force=options.force,
        delete=options.delete,
        mode=Mode(options.mode),
        workspace=options.workspace,
        agent=options.agent,
        space=options.space,
    )
    answer = check_push(question, options.config, os.environ, datetime.now(UTC))
    print(json.dumps(answer.as_json()) if options.json else answer.as_text())
    if not options.json:
        _say(*answer.notes)
    return {Verdict.ALLOW: 0, Verdict.DENY: 1, Verdict.ASK: 3}[answer.verdict]


def _check_config(options: argparse.Namespace) -> int:
    from gateway.check import check_file
    from gateway.config import find_config

    problems = check_file(options.file, os.environ)
    if options.json:
        print(json.dumps([dataclasses.asdict(problem) for problem in problems]))
    elif problems:
        print("\n".join(printable(str(problem)) for problem in problems))
    else:
        place = options.file or find_config(None, os.environ)
        where = f" in {printable(str(place))}" if place else ": there is no config file, so the defaults hold"
        print(f"no problems{where}")
    return 1 if any(not problem.warning for problem in problems) else 0


def _demo(options: argparse.Namespace) -> int:
    from gateway.demo import demo

    return demo(dict(os.environ))
