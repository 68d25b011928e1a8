"""The command line: argv, environment and exit status, and nothing else. Everything is imported when it is needed."""

# ruff: noqa: E402  (the hook stands in front of what takes a moment to import)

import sys
from types import TracebackType


def _keep_silent(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Ctrl-C before `main` has begun: it ends this process with its own status and without a word."""
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _keep_silent

import argparse
import dataclasses
import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from gateway.arguments import build_parser, divide
from gateway.children import mind_children
from gateway.errors import GatewayError, UsageError
from gateway.policy.wording import printable, printable_lines

if TYPE_CHECKING:
    from gateway.options import RunOptions
    from gateway.review_command import Console

USAGE: Final = 2
FAILED: Final = 125

_Command = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs one command and exits with its status."""
    _open_standard_streams()
    sys.excepthook = _tell_and_exit
    mind_children()
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
    """What nobody expected is told in full, and its status is not mistaken for a command's own. Ctrl-C says nothing,
    and what the system does not give is no fault of ours: that is a sentence."""
    if issubclass(kind, KeyboardInterrupt):
        return
    from gateway.scarcity import what_is_wanting

    wanting = what_is_wanting(error)
    if wanting:
        _say(wanting)
        os._exit(FAILED)
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


def _subject(options: argparse.Namespace) -> dict[str, Any]:
    """On whose behalf a dry run asks."""
    from gateway.policy.modes import Mode

    who = {name: getattr(options, name) for name in ("workspace", "agent", "space")}
    return {"mode": Mode(options.mode), **who}


def _check_host(options: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from gateway.check import check_host
    from gateway.policy.modes import Mode
    from gateway.policy.rules import Subject

    mode, now, network = Mode(options.mode), datetime.now(UTC), not options.no_network
    subject = Subject(options.workspace, options.agent, options.space, mode, now)
    answer = check_host(options.target, options.config, options.allow, network, os.environ, subject)
    print(json.dumps(answer.as_json()) if options.json else answer.as_text())
    return 0 if answer.allowed else 1


def _check_push(options: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from gateway.check import PushQuestion, check_push
    from gateway.policy.decision import Verdict

    question = PushQuestion(
        repository=options.repository,
        refs=tuple(options.refs),
        force=options.force,
        delete=options.delete,
        **_subject(options),
    )
    answer = check_push(question, options.config, os.environ, datetime.now(UTC))
    print(json.dumps(answer.as_json()) if options.json else answer.as_text())
    if not options.json:
        _say(*answer.notes)
    return {Verdict.ALLOW: 0, Verdict.DENY: 1, Verdict.ASK: 3}[answer.verdict]


def _check_command(options: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from gateway.check_command import CommandQuestion, check_command
    from gateway.policy.decision import Verdict

    question = CommandQuestion(line=options.line, **_subject(options))
    answer = check_command(question, options.config, os.environ, datetime.now(UTC))
    print(json.dumps(answer.as_json()) if options.json else answer.as_text())
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


def _review(options: argparse.Namespace) -> int:
    from gateway.review_command import answer_review

    return answer_review(options, _console())


def _review_verify(options: argparse.Namespace) -> int:
    from gateway.review_command import answer_verify

    return answer_verify(options, _console())


def _console() -> "Console":
    from gateway.review_command import Console

    return Console(os.environ, print, _say, sys.stdout, sys.stderr)


def _approvals(options: argparse.Namespace) -> int:
    from gateway.approvals_command import approvals

    chosen = vars(options)
    words = {key: chosen[key] for key in ("word", "question", "remember", "text", "json")}
    read = None
    if sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty():
        # A job in the background must not be stopped for reading: it is told that it cannot.
        signal.signal(signal.SIGTTIN, signal.SIG_IGN)
        read = sys.stdin.readline
    return approvals(os.environ, lambda line: print(line, flush=True), _say, read=read, **words)


def _hook_pre_tool_use(options: argparse.Namespace) -> int:
    from gateway.hook import pre_tool_use

    return pre_tool_use(options.limit, os.environ)


def _doctor(options: argparse.Namespace) -> int:
    from gateway.doctor.answer import Form, ask, boundaries_told

    form = Form.JSON if options.json else Form.MARKDOWN if options.markdown else Form.TEXT
    if options.boundaries:
        print(boundaries_told(form))
        return 0
    answer = ask(options.config, os.environ)
    is_coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    print(answer.told(form, is_coloured=is_coloured))
    return answer.status


def _demo(options: argparse.Namespace) -> int:
    from gateway.demo import demo

    return demo(dict(os.environ))


_COMMANDS: Final[Mapping[str, _Command]] = {
    "run": _run,
    "profile": _profile,
    "check host": _check_host,
    "check push": _check_push,
    "check command": _check_command,
    "check config": _check_config,
    "review": _review,
    "review verify": _review_verify,
    "approvals": _approvals,
    "hook pre-tool-use": _hook_pre_tool_use,
    "doctor": _doctor,
    "demo": _demo,
}
