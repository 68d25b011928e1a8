"""The tree of the config file as a `Config`, and the table of what this version does not offer yet."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

from gateway.config.egress import read_egress
from gateway.config.github import read_github
from gateway.config.rules import EXAMPLE as RULE_EXAMPLE
from gateway.config.rules import read_rules
from gateway.config.section import Section
from gateway.config.tree import Kind, Node, Reading, ScalarNode, SequenceNode, shown
from gateway.config.values import (
    DEFAULT_WORKSPACE,
    ApprovalsConfig,
    AuditConfig,
    Config,
    EgressConfig,
    EnvironmentConfig,
    FilesConfig,
    GitHubConfig,
    OperatorConfig,
    PushConfig,
    Workspace,
)
from gateway.policy.hosts import HostError, parse_literal, split_authority
from gateway.policy.repositories import RepositoryError, RepositoryName, parse_repository

# Keys whose feature does not exist yet, with what to write instead. A value that is not the default is an
# error, so that nobody relies on what is not there. The change that brings a feature deletes its row. A star stands
# for every name of a mapping.
UNAVAILABLE: tuple[tuple[str, str], ...] = (
    ("worktree", "this version offers in-place: write worktree: in-place"),
    ("operator.listen", "write null"),
)

MAX_TIMEOUT = 86_400  # seconds a question may wait; nobody answers after a day
MAX_FILE_MB = 100_000
MAX_KEEP_DAYS = 36_500
MAX_LABEL = 60  # characters; it stands in one line of git's output, before the reason

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORKSPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_GLOB = '"*.secret"'


def read_config(
    root: Node, reading: Reading, now: datetime, unavailable: tuple[tuple[str, str], ...] = UNAVAILABLE
) -> Config:
    """The values of a file. Problems go to `reading`; with an error among them the values are void.

    `now` (aware) tells which rules have expired.
    """
    top = Section(root, "", Config, reading)
    default = Config()
    workspaces = _read_workspaces(top)
    egress = read_egress(_section(top, "egress", EgressConfig))
    config = Config(
        sandbox=top.switch("sandbox", default.sandbox),
        worktree=top.choice("worktree", default.worktree),
        file_rules=top.choice("file_rules", default.file_rules),
        bridge=top.choice("bridge", default.bridge),
        files=_read_files(_section(top, "files", FilesConfig)),
        environment=_read_environment(_section(top, "environment", EnvironmentConfig)),
        egress=egress,
        github=read_github(_section(top, "github", GitHubConfig), egress),
        push=_read_push(_section(top, "push", PushConfig)),
        workspaces=workspaces,
        rules=read_rules(top.items("rules", f"[{RULE_EXAMPLE}]"), reading, now, workspaces),
        managed_rules_file=top.path("managed_rules_file"),
        approvals=_read_approvals(_section(top, "approvals", ApprovalsConfig)),
        audit=_read_audit(_section(top, "audit", AuditConfig)),
        operator=_read_operator(_section(top, "operator", OperatorConfig)),
    )
    _refuse_unavailable(config, reading, unavailable)
    return config


def _section(top: Section, key: str, of: type) -> Section:
    return Section(top.node(key), key, of, top.reading)


def _refuse_unavailable(config: Config, reading: Reading, unavailable: tuple[tuple[str, str], ...]) -> None:
    for key, instead in unavailable:
        ((_, default), *_) = _values(Config(), key)
        for name, value in _values(config, key):
            if value != default:
                reading.error(reading.lines.get(name, 0), f"{name}: not available in this version: {instead}")


def _values(config: Config, key: str) -> Iterator[tuple[str, object]]:
    """Every value of a key, with the name that it has in the file."""
    found: list[tuple[str, object]] = [("", config)]
    for part in key.split("."):
        found = [
            (f"{name}.{step}" if name else step, value)
            for name, above in found
            for step, value in (
                above.items() if isinstance(above, Mapping) else ((part, getattr(above, part)),)
            )
        ]
    yield from found


def _read_files(section: Section) -> FilesConfig:
    return FilesConfig(
        deny_write=_read_globs(section, "deny_write"),
        allow_write=_read_globs(section, "allow_write"),
        deny_read=_read_globs(section, "deny_read"),
    )


def _read_globs(section: Section, key: str) -> tuple[str, ...]:
    """Names, and paths from the root, the home directory or anywhere: any other path would match nothing."""
    found = []
    for item in section.texts(key, _GLOB):
        if "/" in item.text and not item.text.startswith(("/", "~/", "*")):
            section.reading.error(
                item.line,
                f"{section.name(key)}: {shown(item.text)} can never match, paths are whole ones: "
                f"write {shown(f'*/{item.text}')} for that path anywhere, or begin with / or ~/",
            )
            continue
        found.append(item.text)
    return tuple(found)


def _read_environment(section: Section) -> EnvironmentConfig:
    passed: list[str] = []
    for item in section.texts("pass", "EDITOR"):
        if _is_variable(section, "pass", item):
            passed.append(item.text)
    values: dict[str, str] = {}
    for key, value in section.pairs("set", "{NAME: value}"):
        if not _is_variable(section, "set", key):
            continue
        if key.text in passed:
            section.reading.warn(
                key.line, f"environment.set: {key.text} is passed as well, and set wins: write one of them"
            )
        if isinstance(value, ScalarNode) and value.kind in {Kind.TEXT, Kind.INTEGER, Kind.NUMBER}:
            values[key.text] = value.text
        else:
            section.wrong(
                value, "set", "a mapping of names to text", f'{key.text}: "..." with the value in quotes'
            )
    return EnvironmentConfig(tuple(passed), MappingProxyType(values))


def _is_variable(section: Section, key: str, item: ScalarNode) -> bool:
    if _VARIABLE.fullmatch(item.text):
        return True
    section.reading.error(
        item.line,
        f"{section.name(key)}: {shown(item.text)} is no name of a variable: write letters, digits and _, "
        "no digit first",
    )
    return False


def _read_push(section: Section) -> PushConfig:
    default = PushConfig()
    item = section.text("label", default.label)
    if item is None:
        return default
    if len(item.text) > MAX_LABEL:
        section.reading.error(
            item.line, f"push.label has more than {MAX_LABEL} characters: write a short name"
        )
        return default
    return PushConfig(item.text)


def _read_workspaces(top: Section) -> MappingProxyType[str, Workspace]:
    found = {DEFAULT_WORKSPACE: Workspace()}
    for key, node in top.pairs("workspaces", "{default: {repositories: [], checkouts: []}}"):
        if _WORKSPACE.fullmatch(key.text):
            found[key.text] = _read_workspace(Section(node, f"workspaces.{key.text}", Workspace, top.reading))
        else:
            top.reading.error(
                key.line,
                f"workspaces: {shown(key.text)} is no name of a workspace: "
                "write up to 64 letters, digits, dots, _ and -",
            )
    return MappingProxyType(found)


def _read_workspace(section: Section) -> Workspace:
    repositories: list[RepositoryName] = []
    name = section.name("repositories")
    for item in section.texts("repositories", "owner/name"):
        try:
            repository = parse_repository(item.text)
        except RepositoryError as error:
            section.reading.error(
                item.line, f"{name}: {shown(item.text)} is no repository: write owner/name ({error})"
            )
            continue
        if repository in repositories:
            section.reading.warn(item.line, f"{name}: {repository} stands there twice: delete one")
        else:
            repositories.append(repository)
    checkouts: list[Path] = []
    for item in section.texts("checkouts", "an absolute path"):
        path = section.absolute(item, "checkouts")
        checkouts += [] if path is None else [path]
    return Workspace(tuple(repositories), tuple(checkouts))


def _read_approvals(section: Section) -> ApprovalsConfig:
    default = ApprovalsConfig()
    return ApprovalsConfig(
        timeout=section.number("timeout", default.timeout, 1, MAX_TIMEOUT), command=_read_command(section)
    )


def _read_command(section: Section) -> tuple[str, ...] | None:
    """A program alone, or a list of it and its arguments; null for none. A relative path would lead into the directory
    that the agent works in."""
    if not isinstance(section.node("command"), SequenceNode):
        path = section.path("command")
        return None if path is None else (str(path),)
    items = section.texts("command", "/path/to/PROGRAM")
    if not items:
        node = section.node("command")
        section.reading.error(
            node.line if node else 0, "approvals.command is an empty list: write null for none"
        )
        return None
    path = section.absolute(items[0], "command")
    return None if path is None else (str(path), *(item.text for item in items[1:]))


def _read_audit(section: Section) -> AuditConfig:
    default = AuditConfig()
    return AuditConfig(
        directory=section.path("directory"),
        max_file_mb=section.number("max_file_mb", default.max_file_mb, 1, MAX_FILE_MB),
        keep_days=section.number("keep_days", default.keep_days, 1, MAX_KEEP_DAYS),
    )


def _read_operator(section: Section) -> OperatorConfig:
    listen, token_file = _read_listen(section), section.path("token_file")
    lines = section.reading.lines
    if listen is not None and token_file is None:
        section.reading.error(
            lines["operator.listen"], "operator.listen needs operator.token_file: write its path as well"
        )
    if listen is None and token_file is not None:
        section.reading.warn(
            lines["operator.token_file"], "operator.token_file has no effect without operator.listen"
        )
    return OperatorConfig(listen, token_file)


def _read_listen(section: Section) -> str | None:
    item = section.text("listen", '"127.0.0.1:8750"', nullable=True)
    if item is None:
        return None
    try:
        host, port = split_authority(item.text)
    except HostError:
        host, port = "", 0
    address = parse_literal(host)
    if address is None or not address.is_loopback or not port:
        section.reading.error(
            item.line,
            f'operator.listen: {shown(item.text)} is no loopback address with a port: write "127.0.0.1:8750"',
        )
        return None
    return item.text
