"""The command line: argv, environment and exit status, and nothing else. Everything is imported when it is needed."""

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, NoReturn

from gateway.arguments import build_parser, divide
from gateway.errors import GatewayError, UsageError
from gateway.policy.wording import printable, printable_lines

if TYPE_CHECKING:
    from gateway.options import RunOptions

USAGE: Final = 2
FAILED: Final = 125

_Command = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs one command and exits with its status."""
    _open_standard_streams()
    sys.excepthook = _tell_and_exit
    arguments, command_line = divide(list(sys.argv[1:] if argv is None else argv))
    parser = build_parser()
    options = parser.parse_args(arguments)
    options.command_line = command_line
    command = _COMMANDS.get(options.command_name)
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


def _run(options: argparse.Namespace) -> int:
    from gateway.run import run

    chosen = _run_options(options)
    if not chosen.command and not chosen.opens_shell:
        raise UsageError("there is no command to run", "write it after --: agent-gateway run -- CMD [ARG...]")
    return run(chosen, dict(os.environ))


def _run_options(options: argparse.Namespace) -> "RunOptions":
    """The options of `run`; UsageError for words that stand before the `--`."""
    from gateway.options import RunOptions

    if options.stray:
        raise UsageError(
            f"what is {options.stray[0]!r}?",
            f"the command stands after --: {options.command_name} [options] -- CMD [ARG...]",
        )
    return RunOptions(
        command=tuple(options.command_line or ()),
        config=options.config,
        sandbox=options.sandbox,
        backend=options.backend,
        mode=options.mode,
        profile=options.profile,
        repo=options.repo,
        worktree=options.worktree,
        bind=tuple(options.bind),
        protect=tuple(options.protect),
        state_dirs=tuple(options.state_dir),
        exec_grants=tuple(options.exec_grant),
        allow=tuple(options.allow),
        network=not options.no_network,
        workspace=options.workspace,
        space=options.space,
        agent=options.agent,
        session=options.session,
        env=tuple(options.env),
        quiet=options.quiet,
    )


def _profile(options: argparse.Namespace) -> int:
    from gateway.profile import Platform, describe

    chosen = _run_options(options)
    if options.platform:
        platform = Platform(options.platform)
    else:
        platform = Platform.MACOS if sys.platform == "darwin" else Platform.LINUX
    answer = describe(chosen, dict(os.environ), platform)
    _say(*answer.notes)
    if options.json:
        print(json.dumps(answer.as_json()))
    elif answer.is_wrapped:
        print(answer.as_text())
    return 0


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


_COMMANDS: Final[Mapping[str, _Command]] = {
    "run": _run,
    "profile": _profile,
    "check host": _check_host,
    "check push": _check_push,
    "check config": _check_config,
    "demo": _demo,
}
