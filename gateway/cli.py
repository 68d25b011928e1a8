"""The command line: argv, environment and exit status, and nothing else. Everything is imported when it is needed."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from gateway import __version__
from gateway.errors import GatewayError, UsageError

USAGE: Final = 2
FAILED: Final = 125

_Command = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs one command and exits with its status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = _parser()
    options = parser.parse_args(_before_command(arguments))
    options.command_line = _command_line(arguments)
    command: _Command | None = getattr(options, "run_command", None)
    if command is None:
        parser.print_help(sys.stderr)
        sys.exit(USAGE)
    try:
        sys.exit(command(options))
    except UsageError as error:
        _say(str(error))
        sys.exit(USAGE)
    except GatewayError as error:
        _say(str(error))
        sys.exit(FAILED)
    except BrokenPipeError:
        # The reader has gone; say nothing to it, and nothing when the interpreter flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)


def _say(text: str) -> None:
    for line in text.splitlines():
        print(f"agent-gateway: {line}", file=sys.stderr)


def _before_command(arguments: Sequence[str]) -> list[str]:
    """Our own arguments: those before the first `--`."""
    return list(arguments[: arguments.index("--")] if "--" in arguments else arguments)


def _command_line(arguments: Sequence[str]) -> list[str] | None:
    """CMD and its arguments, after the first `--`; None without one."""
    return list(arguments[arguments.index("--") + 1 :]) if "--" in arguments else None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agent-gateway",
        description="Wraps a coding agent: its network is an allowlist, and what goes out is on record.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"agent-gateway {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND")
    _add_run(commands)
    _add_check(commands)
    _add_demo(commands)
    return parser


def _add_run(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    run = commands.add_parser(
        "run",
        help="wrap a command and run it",
        description="Opens a session, wraps CMD, runs it in the foreground, tears everything down.",
        usage="agent-gateway run [options] -- CMD [ARG...]",
        allow_abbrev=False,
    )
    run.add_argument("--config", metavar="F", help="config file (else AGENT_GATEWAY_CONFIG, then the user's own)")
    run.add_argument("--sandbox", choices=("on", "off"), help="wrap where the host can (default: on)")
    run.add_argument("--backend", metavar="NAME", help="native, none or microvm (default: native where it works)")
    run.add_argument("--mode", choices=("chat", "review", "plan", "orchestrate"), default="chat")
    run.add_argument("--repo", metavar="PATH", help="the worktree (default: the git worktree around here)")
    run.add_argument("--bind", metavar="PATH[:ro]", action="append", default=[], help="make a path visible inside")
    run.add_argument("--protect", metavar="PATH", action="append", default=[], help="never writable inside")
    run.add_argument("--state-dir", metavar="PATH", action="append", default=[], help="writable in every mode")
    run.add_argument("--allow", metavar="DOMAIN", action="append", default=[], help="allow one more domain")
    run.add_argument("--no-network", action="store_true", help="refuse every connection")
    run.add_argument("--workspace", metavar="NAME", default="default")
    run.add_argument("--agent", metavar="ID", default="")
    run.add_argument("--session", metavar="ID", default="", help="the new session's id (default: a random one)")
    run.add_argument("--env", metavar="NAME[=VALUE]", action="append", default=[], help="pass or set a variable")
    run.add_argument("--quiet", action="store_true", help="no closing line")
    run.set_defaults(run_command=_run)


def _add_check(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    check = commands.add_parser("check", help="dry runs", description="Dry runs: nothing is opened or recorded.")
    subjects = check.add_subparsers(metavar="SUBJECT", required=True)
    host = subjects.add_parser("host", help="would this host be allowed?", allow_abbrev=False)
    host.add_argument("target", metavar="NAME[:PORT]")
    host.add_argument("--config", metavar="F")
    host.add_argument("--allow", metavar="DOMAIN", action="append", default=[])
    host.add_argument("--no-network", action="store_true")
    host.add_argument("--json", action="store_true")
    host.set_defaults(run_command=_check_host)
    config = subjects.add_parser("config", help="every problem in a config file", allow_abbrev=False)
    config.add_argument("file", metavar="FILE", nargs="?")
    config.add_argument("--json", action="store_true")
    config.set_defaults(run_command=_check_config)


def _add_demo(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    demo = commands.add_parser("demo", help="the main job against targets of its own on loopback")
    demo.set_defaults(run_command=_demo)


def _run(options: argparse.Namespace) -> int:
    from gateway.plan import RunOptions
    from gateway.run import run

    command = options.command_line
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
    if options.json:
        print(json.dumps(answer.as_json()))
    else:
        print(answer.as_text())
    return 0 if answer.allowed else 1


def _check_config(options: argparse.Namespace) -> int:
    from gateway.check import check_config_file

    problems = check_config_file(options.file, os.environ)
    if options.json:
        print(json.dumps([{"file": p.file, "line": p.line, "message": p.message, "warning": p.warning} for p in problems]))
    else:
        for problem in problems:
            print(problem)
        if not problems:
            print("no problems")
    return 1 if any(not problem.warning for problem in problems) else 0


def _demo(options: argparse.Namespace) -> int:
    from gateway.demo import demo

    return demo(dict(os.environ))
