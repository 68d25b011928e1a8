"""What `run` is going to do, worked out before anything is started: options, environment and config into one value.

Reads the config, the lists and the file system; changes nothing.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from gateway.allowlists import load_shipped
from gateway.as_written import named_as_written
from gateway.config import Config, compile_egress, find_config, load_config
from gateway.config.values import Workspace
from gateway.hooking import hooked_command, with_hook, with_hooked_settings
from gateway.operator_socket import socket_folder
from gateway.options import RunOptions, check_options, check_variables, read_variables
from gateway.places import state_directory, user_shell
from gateway.policy.egress import EgressRules
from gateway.policy.network import network_denial
from gateway.policy.repositories import SessionRepositories
from gateway.policy.rules import Subject
from gateway.session import Mode, Profile
from gateway.wrap_spec import (
    DEFAULT_AGENT,
    check_key,
    check_shown,
    find_forge,
    find_ground,
    make_spec,
    with_managed_state,
    with_own_files,
)
from sandbox.agents.sharing import SpaceFolders
from sandbox.agents.state import ManagedState, managed_state
from sandbox.backends import BACKENDS
from sandbox.backends.base import Backend
from sandbox.launch import NATIVE, Choice, WrapOptions, choose_backend
from sandbox.spec import SandboxSpec

EXEC_GRANT_NOTE = "--exec-grant is for macOS: here programs in writable directories run anyway"


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything `run` needs. `workdir` is where CMD starts, `passed` and `set_values` are --env's and the config's,
    `repositories` where the session may push to, `authority` the forge's HOST[:PORT]. `notes` are for the user, a line
    each. `space` are the folders that have to be made first (None: no space), and `managed` is the state directory that
    has to be seeded (None: CMD is no agent that needs one)."""

    options: RunOptions
    config: Config
    rules: EgressRules
    choice: Choice
    spec: SandboxSpec
    session_id: str
    workdir: str
    worktree: str
    audit_directory: Path
    passed: tuple[str, ...]
    set_values: Mapping[str, str] = field(repr=False)
    repositories: SessionRepositories
    authority: str
    notes: tuple[str, ...]
    socket_folder: Path
    space: SpaceFolders | None = None
    managed: ManagedState | None = None


def make_plan(
    options: RunOptions,
    environ: Mapping[str, str],
    platform: str = sys.platform,
    backends: Sequence[Backend] = BACKENDS,
) -> Plan:
    """The plan. UsageError for what contradicts itself or cannot be meant, GatewayError for what cannot be used.

    `platform` is where it is for (`sys.platform`'s word), `backends` are those to choose from.
    """
    check_options(options)
    passed, set_values = read_variables(options)
    config_file = find_config(options.config, environ)
    lists = load_shipped()
    config = load_config(config_file, lists)
    check_variables(options, config)
    check_key(config)
    denial = None if options.opens_shell else network_denial(config.rule_set, _subject(options))
    if denial is not None:
        options = replace(options, network=False)
    rules = compile_egress(config, lists, options.allow, options.network)
    choice = choose_backend(
        options.sandbox,
        options.backend,
        environ,
        config.sandbox,
        options.profile,
        backends,
        WrapOptions(config.file_rules, config.bridge, platform),
    )
    notes = tuple(note for note in (choice.log, denial.reason if denial else "") if note)
    if options.opens_shell and not options.command:
        options = replace(options, command=(user_shell(environ),))
        notes = (*notes, *_of_shell(options.command[0], environ))
    audit_directory = config.audit.directory or state_directory(environ) / "audit"
    ground = find_ground(options, environ)
    forge = find_forge(config, environ, ground)
    spec = with_hook(make_spec(options, environ, config, ground, forge), config)
    managed = None
    if choice.backend.name == NATIVE and spec.profile is Profile.AGENT:
        folder, shown = str(ground.folder), spec.runner_state_dirs
        managed = managed_state(options.command, environ, folder, spec.workdir, shown, ground.root)
        managed = with_hooked_settings(managed, spec, platform)
        spec = with_managed_state(spec, managed)
        with named_as_written(options, spec):
            check_shown(spec, audit_directory)
    is_wrapped = choice.backend.name == NATIVE
    command = hooked_command(options.command, spec, environ, is_wrapped=is_wrapped)
    options = replace(options, command=command)
    return Plan(
        options=options,
        config=config,
        rules=rules,
        choice=choice,
        spec=with_own_files(spec, config, (config_file, audit_directory, config.managed_rules_file)),
        session_id=spec.session_id,
        workdir=spec.workdir,
        worktree=ground.worktree,
        audit_directory=audit_directory,
        socket_folder=socket_folder(environ),
        passed=(*config.environment.pass_, *passed),
        set_values={**config.environment.set_, **set_values},
        repositories=SessionRepositories(
            forge.remotes.repositories,
            config.workspaces.get(options.workspace, Workspace()).repositories,
        ),
        authority=forge.host.authority,
        space=ground.space,
        managed=managed,
        notes=(
            *notes,
            *forge.remotes.notes,
            *((EXEC_GRANT_NOTE,) if options.exec_grants and platform != "darwin" else ()),
        ),
    )


def _subject(options: RunOptions) -> Subject:
    """On whose behalf the session will ask, at this moment."""
    agent = options.agent or (DEFAULT_AGENT if options.space else "")
    return Subject(options.workspace, agent, options.space or "", Mode(options.mode), datetime.now(UTC))


def _of_shell(shell: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """A note where it is another shell than the one that was asked for."""
    wanted = environ.get("SHELL", "")
    if wanted in ("", shell):
        return ()
    return (f"SHELL is {wanted!r}, which is no program that can be started: {shell} is started instead",)
