"""The options of `run` as one value, and what they may not say together. It looks at nothing but the options."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gateway.config import Config
from gateway.config.values import DEFAULT_WORKSPACE, Worktree
from gateway.errors import GatewayError, UsageError
from gateway.session import Mode, Profile
from sandbox.env import refuse_name
from sandbox.terminal.environment import refuse_terminal_name

# Names that stand in records, paths and the environment.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `run` as given; None or empty where one was left out. `env` may hold secrets."""

    command: tuple[str, ...]
    config: str | None = None
    sandbox: str | None = None
    backend: str | None = None
    mode: str = "chat"
    repo: str | None = None
    bind: tuple[str, ...] = ()
    protect: tuple[str, ...] = ()
    state_dirs: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    network: bool = True
    workspace: str = DEFAULT_WORKSPACE
    agent: str | None = None
    session: str | None = None
    env: tuple[str, ...] = field(default=(), repr=False)
    quiet: bool = False
    profile: str = "agent"
    worktree: str | None = None
    exec_grants: tuple[str, ...] = ()
    space: str | None = None

    @property
    def opens_shell(self) -> bool:
        """Whether no CMD is asked for because a shell is opened instead."""
        return self.profile == Profile.TERMINAL


def check_options(options: RunOptions) -> None:
    """UsageError for a name that is none and for what contradicts itself, GatewayError for what is not offered."""
    for option, name in (
        ("session", options.session),
        ("workspace", options.workspace),
        ("agent", options.agent),
        ("space", options.space),
    ):
        _check_name(f"--{option}", name)
    for contradiction in (*_of_terminal(options), *_of_space(options)):
        raise UsageError(*contradiction)
    if options.worktree not in (None, Worktree.IN_PLACE):
        raise GatewayError(
            f"--worktree {options.worktree}: not available in this version", "leave it out, or write in-place"
        )


def _check_name(option: str, value: str | None) -> None:
    if value is not None and not _NAME.fullmatch(value):
        raise UsageError(
            f"{option} takes a name of up to 64 letters, digits, dots, dashes and underscores",
            f"not {value[:80]!r}",
        )


def _of_terminal(options: RunOptions) -> list[tuple[str, str]]:
    """What a person's own shell has no use for: it is no agent's work, and its network is nobody's business."""
    if options.profile != Profile.TERMINAL:
        return []
    given = (
        (f"--mode {options.mode}", options.mode != Mode.CHAT, "its home and working directory are writable"),
        ("--repo", options.repo is not None, "change to the directory instead: that one is writable"),
        ("--allow", bool(options.allow), "its network is open"),
        ("--no-network", not options.network, "its network is open"),
        ("--space", options.space is not None, "a space belongs to agents"),
    )
    return [(f"{option} contradicts --profile terminal", why) for option, is_given, why in given if is_given]


def _of_space(options: RunOptions) -> list[tuple[str, str]]:
    """A space has folders of its own in the place of a worktree."""
    if options.space is None or options.repo is None:
        return []
    return [("--repo contradicts --space", "the space's repos folder takes the place of a worktree")]


def read_variables(options: RunOptions) -> tuple[tuple[str, ...], dict[str, str]]:
    """The names that --env passes and the values that it sets; of two for one name the later counts. UsageError for a
    name that nobody may set."""
    refuse = _refuse(options)
    passed: dict[str, str | None] = {}
    for text in options.env:
        name, equals, value = text.partition("=")
        try:
            refuse(name)
        except UsageError as error:
            raise UsageError(f"--env: {error}") from None
        passed[name] = value if equals else None
    values = {name: value for name, value in passed.items() if value is not None}
    return tuple(name for name in passed if name not in values), values


def check_variables(options: RunOptions, config: Config) -> None:
    """GatewayError for a variable of the configuration that nobody may set; the command line is in order then."""
    refuse = _refuse(options)
    for name in (*config.environment.pass_, *config.environment.set_):
        try:
            refuse(name)
        except UsageError as error:
            raise GatewayError(f"{config.source}: environment: {error}", "take it out") from None


def _refuse(options: RunOptions) -> Callable[[str], None]:
    return refuse_terminal_name if options.profile == Profile.TERMINAL else refuse_name
