"""A tool call, read from what an agent sends: Claude Code's PreToolUse input, or the product's own few fields.

Reads values that somebody parsed from JSON, and says what is wrong with them. What a call may do is not said here.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gateway.policy.actions import Action
from gateway.policy.patches import PatchError, patched_paths
from gateway.policy.repositories import RepositoryError, RepositoryName, parse_repository
from gateway.policy.tools import Kind, Tool, find_tool

EVENT: Final = "PreToolUse"
# Characters of a tool's name, of a path or an address, and of an id. Real ones have some dozen.
NAME_LIMIT: Final = 200
TARGET_LIMIT: Final = 8192
# Files that one call names, and effects that it declares; there are not more actions than that.
TARGETS_LIMIT: Final = 512
EFFECTS_LIMIT: Final = 32
_TEXTS: Final = ("session_id", "transcript_path", "permission_mode")
_ACTIONS: Final = {action.value: action for action in Action}


class CallError(ValueError):
    """What was sent is no tool call; `str(error)` is one sentence for whoever sent it."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What an agent is about to do. What is empty was not said.

    `effects` are those it declares itself and `unclear` the names among them that mean nothing here; `targets` are
    paths, addresses or names, `deleted` those that a patch takes away; `command` is a shell line, `cwd` where the agent
    stands, `id` the agent's own name for this call.
    """

    tool: str
    effects: tuple[Action, ...] = ()
    unclear: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    command: str = ""
    cwd: str = ""
    repository: RepositoryName | None = None
    branch: str = ""
    id: str = ""

    @property
    def target(self) -> str:
        """For people: what it is about, in a word."""
        if len(self.targets) > 1:
            return f"{self.targets[0]} and {len(self.targets) - 1} more"
        return self.targets[0] if self.targets else ""


def read_claude_call(sent: object) -> ToolCall:
    """The call in a PreToolUse hook's input (Claude Code, hooks reference). Fields that are not known are left alone:
    there are more with every version."""
    fields = _object(sent, "the hook's input")
    if fields.get("hook_event_name") != EVENT:
        raise CallError(f"hook_event_name is not {EVENT}")
    for name in _TEXTS:
        _optional(fields, name, TARGET_LIMIT)
    name = _name(fields.get("tool_name"), "tool_name")
    given = _object(fields.get("tool_input"), "tool_input")
    call = ToolCall(
        name,
        cwd=_optional(fields, "cwd", TARGET_LIMIT),
        id=_optional(fields, "tool_use_id", NAME_LIMIT),
    )
    return _with_input(call, given)


def read_plain_call(sent: object) -> ToolCall:
    """The call in `{"tool", "effects", "target", "command"}`, of which `tool` alone has to be there. `cwd` and `id`
    may be there too. What is declared is added to what the table knows."""
    fields = _object(sent, "the call")
    name = _name(fields.get("tool"), "tool")
    effects, unclear = _effects(fields.get("effects"))
    call = ToolCall(
        name,
        effects=effects,
        unclear=unclear,
        cwd=_optional(fields, "cwd", TARGET_LIMIT),
        id=_optional(fields, "id", NAME_LIMIT),
        command=_line(fields.get("command"), "command"),
        targets=_texts(fields.get("target"), "target"),
    )
    tool = find_tool(name)
    if tool is None:
        return call
    if tool.kind is Kind.PATCH and call.command:
        return _patched(replace(call, command=""), call.command)
    said = call.command if tool.kind is Kind.SHELL else call.targets
    if tool.fields and tool.needed and not said:
        raise CallError(f"{name} needs a {'command' if tool.kind is Kind.SHELL else 'target'}")
    return call


def _with_input(call: ToolCall, given: Mapping[str, object]) -> ToolCall:
    """The call with what its input says, as far as its tool is known."""
    tool = find_tool(call.tool)
    if tool is None:
        return replace(call, command=_any_command(given))
    if tool.kind is Kind.SHELL:
        command = _line(_first(tool, given), f"{call.tool}'s command")
        if not command:
            raise CallError(f"{call.tool} needs a command")
        return replace(call, command=command)
    if tool.kind is Kind.PATCH:
        return _patched(call, _text(_first(tool, given), f"{call.tool}'s patch", None))
    said = [given.get(name) for name in tool.fields] if tool.every else [_first(tool, given)]
    found = [text for value in said for text in _texts(value, f"what {call.tool} is about")]
    if tool.fields and tool.needed and not found:
        raise CallError(f"{call.tool} needs {' or '.join(tool.fields)}")
    for name in tool.below:
        found += [f"{found[0] if found else '.'}/{pattern}" for pattern in _texts(given.get(name), name)]
    return replace(
        call,
        targets=tuple(found),
        repository=_repository(given),
        branch=_optional(given, "branch", NAME_LIMIT),
    )


def _patched(call: ToolCall, patch: str) -> ToolCall:
    try:
        written, deleted = patched_paths(patch)
    except PatchError as error:
        raise CallError(f"{call.tool}: {error}") from None
    if len(written) + len(deleted) > TARGETS_LIMIT:
        raise CallError(f"{call.tool} names more than {TARGETS_LIMIT} files")
    return replace(call, targets=written, deleted=deleted)


def _any_command(given: Mapping[str, object]) -> str:
    """What an unknown tool would run, for whoever is asked about it; it may be anything else as well."""
    command = given.get("command")
    return command if isinstance(command, str) and _is_sound(command) else ""


def _first(tool: Tool, given: Mapping[str, object]) -> object:
    return next((given[name] for name in tool.fields if given.get(name) is not None), None)


def _repository(given: Mapping[str, object]) -> RepositoryName | None:
    """OWNER/NAME of what a forge's tool is about; None where it does not say so."""
    owner, name = given.get("owner"), given.get("repo")
    text = f"{owner}/{name}" if isinstance(owner, str) and isinstance(name, str) else given.get("project_id")
    try:
        return parse_repository(text) if isinstance(text, str) else None
    except RepositoryError:
        return None


def _object(sent: object, what: str) -> Mapping[str, object]:
    if not isinstance(sent, dict):
        raise CallError(f"{what} is no JSON object")
    return sent


def _is_sound(text: str) -> bool:
    """Whether it is text: JSON can spell halves of characters, which nothing else takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(value: object, what: str, limit: int | None) -> str:
    if not isinstance(value, str) or not value:
        raise CallError(f"{what} is no text, or an empty one")
    if limit is not None and len(value) > limit:
        raise CallError(f"{what} is longer than {limit} characters")
    if not _is_sound(value):
        raise CallError(f"{what} is no Unicode text")
    return value


def _name(value: object, what: str) -> str:
    name = _text(value, what, NAME_LIMIT)
    if not name.isprintable():
        raise CallError(f"{what} is not printable")
    return name


def _optional(fields: Mapping[str, object], name: str, limit: int) -> str:
    """A text that need not be there; an empty one is none."""
    value = fields.get(name)
    return "" if value is None or value == "" else _text(value, name, limit)


def _texts(value: object, what: str) -> tuple[str, ...]:
    """One text or a list of them; nothing for one that is not there."""
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        return (_text(value, what, TARGET_LIMIT),)
    if not isinstance(value, list) or len(value) > TARGETS_LIMIT:
        raise CallError(f"{what} is neither a text nor a list of up to {TARGETS_LIMIT}")
    return tuple(_text(one, what, TARGET_LIMIT) for one in value)


def _line(value: object, what: str) -> str:
    """A shell line, or the words of one command."""
    if value is None or value == "":
        return ""
    if isinstance(value, list):
        words: Sequence[str] = [one if one == "" else _text(one, what, None) for one in value]
        return shlex.join(words)
    return _text(value, what, None)


def _effects(value: object) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    """Actions, and names that are none."""
    if value is None:
        return (), ()
    if not isinstance(value, list) or len(value) > EFFECTS_LIMIT:
        raise CallError(f"effects is no list of up to {EFFECTS_LIMIT} names")
    names = dict.fromkeys(_name(one, "an effect") for one in value)
    known = tuple(_ACTIONS[name] for name in names if name in _ACTIONS)
    return known, tuple(name for name in names if name not in _ACTIONS)
