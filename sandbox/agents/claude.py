"""Claude Code's settings with this product's hook: managed settings for a wrap, the user settings of the managed
directory, and the arguments of a `claude` that is started directly.

Managed settings (`/etc/claude-code`, Claude Code's settings reference) beat every other level, and their hooks are not
switched off from another one since version 2.1.49. An organisation's own files of that directory stay in force: what
is added can only deny. A hook that stands in two places with the same command is run once.
"""

import json
import math
import os
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gateway.errors import GatewayError
from sandbox.reading import read_whole

MANAGED_FOLDER = "/etc/claude-code"
MANAGED_SETTINGS = "managed-settings.json"
DROP_INS = "managed-settings.d"
# What stands there besides and holds for everybody: servers that alone may be used, instructions.
OTHERS = ("managed-mcp.json", "CLAUDE.md")
EVENT = "PreToolUse"
# Interpreter flags of the hook: isolated, no site, no environment, no bytecode.
PYTHON_FLAGS = ("-I", "-S", "-E", "-B")
# Seconds between the hook's own limit and the one Claude Code has for it: behind that one the call would go through.
GRACE = 15
# Bytes of one settings file, and files of the drop-in directory: each travels into the wrap as a descriptor.
FILE_LIMIT = 1 << 20
DROP_INS_LIMIT = 32


@dataclass(frozen=True, slots=True)
class ClaudeHook:
    """What a session's hook is told. `limit` is in seconds, longer than a person has for an answer; `disallowed` are
    the tools that its mode does not offer."""

    limit: float
    disallowed: tuple[str, ...] = ()


def hook_command(python: str, program: str, hook: ClaudeHook, gateway: str = "") -> str:
    """The shell line that Claude Code runs. Whatever keeps the program from an answer, a signal or a missing file, is
    status 2 as well. `gateway` is its address where it is the same for every session; else the environment has it."""
    words = [python, *PYTHON_FLAGS, program, "--limit", f"{hook.limit:g}"]
    if gateway:
        words += ["--gateway", gateway]
    return f"{shlex.join(words)} || exit 2"


def hooks(command: str, hook: ClaudeHook) -> dict[str, object]:
    """The value of `hooks` with this hook for every tool. Versions from 2.1.295 on also block a call whose hook they
    could not start (`onFailure`)."""
    timeout = math.ceil(hook.limit) + GRACE
    run = {"type": "command", "command": command, "timeout": timeout, "onFailure": "block"}
    return {EVENT: [{"matcher": "*", "hooks": [run]}]}


def managed_settings(
    own: Mapping[str, object], added: Mapping[str, object], disallowed: Sequence[str]
) -> dict[str, object]:
    """An organisation's settings with the `added` hooks before its own, and these tools denied. Where it has switched
    all hooks off, ours alone are run: nobody else's either. GatewayError for what is no settings file."""
    settings = _with_hooks_on(own)
    theirs = _mapping(settings, "hooks")
    settings["hooks"] = {
        **theirs,
        **{event: [*_list(entries), *_list(theirs.get(event))] for event, entries in added.items()},
    }
    settings["disableAllHooks"] = False
    if disallowed:
        permissions = _mapping(settings, "permissions")
        denied = dict.fromkeys([*_list(permissions.get("deny")), *disallowed])
        settings["permissions"] = {**permissions, "deny": list(denied)}
    return settings


def managed_files(
    command: str, hook: ClaudeHook, folder: str = MANAGED_FOLDER
) -> Iterator[tuple[str, bytes]]:
    """Every file of the managed directory as a wrap has it, by its path there. GatewayError names one of the host's
    that cannot be understood."""
    own = _settings_file(os.path.join(folder, MANAGED_SETTINGS)) or {}
    settings = managed_settings(own, hooks(command, hook), hook.disallowed)
    yield f"{MANAGED_FOLDER}/{MANAGED_SETTINGS}", _text(settings)
    for name in _drop_ins(os.path.join(folder, DROP_INS)):
        dropped = _settings_file(os.path.join(folder, DROP_INS, name))
        if dropped is not None:
            yield f"{MANAGED_FOLDER}/{DROP_INS}/{name}", _text(_with_hooks_on(dropped))
    for name in OTHERS:
        text = _read(os.path.join(folder, name))
        if text is not None:
            yield f"{MANAGED_FOLDER}/{name}", text.encode("utf-8", "surrogateescape")


def note_hooks(folder: str, added: Mapping[str, object]) -> None:
    """Writes the hooks into the user settings of the managed directory, which are not writable from inside.

    In place: a file in another's place would lose the mounts that protect it in wraps that run. What is the same
    already is left alone.
    """
    path = os.path.join(folder, "settings.json")
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "r+b", buffering=0) as file:
        before = file.read(FILE_LIMIT) or b""
        after = _text({**_kept(before), "hooks": dict(added)})
        if before != after:
            os.pwrite(descriptor, after, 0)
            os.truncate(descriptor, len(after))


def with_arguments(command: Sequence[str], disallowed: Sequence[str], settings: str = "") -> tuple[str, ...]:
    """The command line of a `claude` with the tools it does not get, and perhaps a settings file. Directly behind the
    program, and with `=`: the option takes every word that follows it otherwise, a prompt too."""
    added = [f"--disallowedTools={','.join(disallowed)}"] if disallowed else []
    if settings:
        added += ["--settings", settings]
    return (command[0], *added, *command[1:])


def _with_hooks_on(own: Mapping[str, object]) -> dict[str, object]:
    """Settings in which hooks are not switched off: where they were, there is none, and none of another level."""
    settings = dict(own)
    if settings.pop("disableAllHooks", False):
        settings.pop("hooks", None)
        settings["allowManagedHooksOnly"] = True
    return settings


def _kept(text: bytes) -> Mapping[str, object]:
    """The settings that stay. The file was made by this product and never written by another."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return (
        {name: value for name, value in found.items() if name != "disableAllHooks"}
        if isinstance(found, dict)
        else {}
    )


def _mapping(settings: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = settings.get(name, {})
    if not isinstance(found, dict):
        raise GatewayError(f"{name} of Claude Code's managed settings is no object", f"mend {MANAGED_FOLDER}")
    return found


def _list(found: object) -> list[object]:
    if found is not None and not isinstance(found, list):
        raise GatewayError(
            "hooks or permissions of Claude Code's managed settings are no lists", f"mend {MANAGED_FOLDER}"
        )
    return list(found or ())


def _drop_ins(folder: str) -> list[str]:
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json") and name[0] != ".")
    except OSError:
        return []
    if len(names) > DROP_INS_LIMIT:
        raise GatewayError(f"{folder} holds more than {DROP_INS_LIMIT} files", "join some of them")
    return names


def _settings_file(path: str) -> dict[str, object] | None:
    """A settings file of the host; None where there is none that this user may read."""
    text = _read(path)
    if text is None or not text.strip():
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise GatewayError(f"{path} is no JSON object, so its policies cannot be kept", "mend it")
    return found


def _read(path: str) -> str | None:
    """A regular file's text; None for one that this user may not read, whose policies do not hold for them either."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode) or not os.access(path, os.R_OK):
        return None
    if found.st_size > FILE_LIMIT:
        raise GatewayError(f"{path} is larger than {FILE_LIMIT >> 20} MiB", "shorten it")
    return read_whole(path, FILE_LIMIT)


def settings_text(added: Mapping[str, object]) -> bytes:
    """A settings file that holds these hooks and nothing else."""
    return _text({"hooks": dict(added)})


def _text(settings: Mapping[str, object]) -> bytes:
    return (json.dumps(settings, indent=2) + "\n").encode()
