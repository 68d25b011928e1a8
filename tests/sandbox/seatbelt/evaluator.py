"""Reads a Seatbelt profile and decides as the kernel does: of all rules that match, the last one wins.

Knows the part of the language that our profiles use. What it does not know, an operation, a filter, a construct in an
expression, is a `ProfileError`: a typing error in a profile would otherwise be a rule that never matches.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

# Operations that `sandbox-exec` knows, as far as profiles of ours speak of them. A name with "*" stands for all that
# begin with it.
OPERATIONS = frozenset({
    "appleevent-send", "authorization-right-obtain", "default", "file-clone", "file-ioctl", "file-link",
    "file-mount", "file-unmount", "hid-control", "sysctl-read",
    "file-read-data", "file-read-metadata", "file-read-xattr", "file-write-create", "file-write-data",
    "file-write-mode", "file-write-unlink", "file-write-xattr", "job-creation", "lsopen", "mach-lookup",
    "mach-priv-task-port", "network-bind", "network-inbound", "network-outbound", "process-exec",
    "process-exec-interpreter", "process-fork", "process-info-pidinfo", "signal", "user-preference-write",
})  # fmt: skip
FAMILIES = frozenset({"file-read*", "file-write*", "network*", "process-exec*", "process-info*"})
TOKEN = re.compile(r'\s+|;[^\n]*|(?P<mark>[()])|(?P<text>"(?:[^"\\]|\\.)*")|(?P<word>[^\s()";]+)', re.DOTALL)
# The reader that the language comes from has room for so many bytes.
LONGEST_STRING = 255
ESCAPE = re.compile(rb'\\(x[0-9a-f]{2}|["\\])')
# One element of an expression in the dialect that every engine shares.
ELEMENT = re.compile(
    rb"\[\^?(?:[^\[\]\\^]-[^\[\]\\^]|[^\[\]\\^])+\]"  # a class without anything special in it
    rb"|\\[\\^\[\]]|\.\*|\.|[^\\\[\](){}+*?^$|.]|[()|]"
)


class ProfileError(Exception):
    """The profile says something that this evaluator, or `sandbox-exec`, does not understand."""


@dataclass(frozen=True, slots=True)
class Text:
    """A string of the profile."""

    value: bytes


type Form = Text | str | list[Form]


@dataclass(frozen=True, slots=True)
class Request:
    """What a process wants: an operation on a path, an address, a service or a process."""

    operation: str
    path: bytes = b""
    is_folder: bool = False
    remote: str = ""  # "tcp HOST:PORT" or "unix"
    service: bytes = b""  # or the name of a system value
    target: str = "others"
    number: int = 0
    own_terminal: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: whether it allows, of which operations, under which filters (one has to match; none: always)."""

    allows: bool
    operations: tuple[str, ...]
    filters: tuple[Form, ...]
    message: bytes


class Profile:
    """A profile that was read. Every rule, filter and expression in it was understood."""

    def __init__(self, text: str) -> None:
        forms = parse(text)
        if forms[:1] != [["version", "1"]]:
            raise ProfileError("no version")
        self.rules = [_rule(form) for form in forms[1:]]
        for rule in self.rules:
            for filter in rule.filters:
                matches(filter, Request("default"))

    def allows(self, request: Request) -> bool:
        """The verdict of the last rule that matches."""
        rule = self.deciding(request)
        return rule is None or rule.allows

    def deciding(self, request: Request) -> Rule | None:
        """The rule that decides; None when none speaks of it."""
        if request.operation not in OPERATIONS:
            raise ProfileError(f"unknown operation {request.operation}")
        return next((rule for rule in reversed(self.rules) if _applies(rule, request)), None)


def parse(text: str) -> list[Form]:
    """The forms of a text. ProfileError where it is not balanced."""
    stack: list[list[Form]] = [[]]
    for token in _tokens(text):
        match token:
            case "(":
                stack.append([])
            case ")":
                done = stack.pop()
                if not stack:
                    raise ProfileError("a parenthesis too many")
                stack[-1].append(_joined(done))
            case _:
                stack[-1].append(token)
    if len(stack) != 1:
        raise ProfileError("a parenthesis is missing")
    return stack[0]


def _joined(form: list[Form]) -> Form:
    """A string that was put together from parts, as one; any other form as it is."""
    match form:
        case ["string-append", *parts] if all(isinstance(part, Text) for part in parts):
            return Text(b"".join(part.value for part in parts if isinstance(part, Text)))
    return form


def _tokens(text: str) -> Iterator[str | Text]:
    at = 0
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            raise ProfileError(f"cannot read {text[at : at + 40]!r}")
        at = found.end()
        if found["text"]:
            if len(found["text"].encode("utf-8", "surrogateescape")) > LONGEST_STRING:
                raise ProfileError(f"a string that is too long: {found['text']}")
            yield Text(_unescape(found["text"][1:-1].encode("utf-8", "surrogateescape")))
        elif found["mark"] or found["word"]:
            yield found["mark"] or found["word"]


def _unescape(text: bytes) -> bytes:
    if b"\\" in ESCAPE.sub(b"", text):
        raise ProfileError(f"unknown escape in {text!r}")
    return ESCAPE.sub(
        lambda found: bytes([int(found[1][1:], 16)]) if found[1][:1] == b"x" else found[1], text
    )


def _rule(form: Form) -> Rule:
    match form:
        case [("allow" | "deny") as action, str(first), *rest]:
            operations = [first]
            while rest and isinstance(rest[0], str):
                operations.append(rest.pop(0))  # type: ignore[arg-type]  # just looked at
            for operation in operations:
                if operation not in OPERATIONS | FAMILIES:
                    raise ProfileError(f"unknown operation {operation}")
            message = b""
            filters = []
            for one in rest:
                match one:
                    case ["with", "message", Text(message)]:
                        pass
                    case _:
                        filters.append(one)
            return Rule(action == "allow", tuple(operations), tuple(filters), message)
    raise ProfileError(f"no rule: {form}")


def _applies(rule: Rule, request: Request) -> bool:
    for operation in rule.operations:
        if operation in ("default", request.operation) or (
            operation.endswith("*") and request.operation.startswith(operation[:-1])
        ):
            return not rule.filters or any(matches(filter, request) for filter in rule.filters)
    return False


def matches(filter: Form, request: Request) -> bool:
    """Whether a filter matches. All parts of one are looked at, so that each is understood."""
    match filter:
        case ["require-all", *parts]:
            return [matches(part, request) for part in parts].count(False) == 0
        case ["require-any", *parts]:
            return [matches(part, request) for part in parts].count(True) > 0
        case ["require-not", part]:
            return not matches(part, request)
        case [("literal" | "subpath" | "regex") as kind, Text(text)]:
            return _matches_path(kind, text, request.path)
        case ["vnode-type", "DIRECTORY"]:
            return request.is_folder
        case ["remote", *address]:
            return _matches_address(address, request)
        case ["global-name", Text(name)]:
            return request.service == name
        case ["sysctl-name", Text(name)]:
            return request.service == name
        case ["sysctl-name-prefix", Text(name)]:
            return request.service.startswith(name)
        case ["extension", Text(b"com.apple.sandbox.pty")]:
            return request.own_terminal
        case ["target", ("self" | "same-sandbox") as target]:
            return request.target == target
        case ["ioctl-command", str(number)]:
            return request.number == int(number)
    raise ProfileError(f"unknown filter: {filter}")


def _matches_path(kind: str, text: bytes, path: bytes) -> bool:
    if kind == "regex":
        return compile_pattern(text).match(path) is not None and path != b""
    if not text.startswith(b"/") or text.endswith(b"/"):
        raise ProfileError(f"not an absolute path, or one that ends in a slash: {text!r}")
    return path == text or (kind == "subpath" and path.startswith(text + b"/"))


def _matches_address(address: list[Form], request: Request) -> bool:
    match address:
        case ["tcp", Text(text)] if re.fullmatch(
            rb"localhost:\d{1,5}", text
        ):  # only "localhost" and "*" are hosts
            return request.remote == f"tcp {text.decode()}"
        case ["unix-socket"]:
            return request.remote == "unix"
        case ["unix-socket", ["path-literal", Text(path)]]:
            return request.remote == "unix" and request.path == path
    raise ProfileError(f"unknown address: {address}")


@cache
def compile_pattern(pattern: bytes) -> re.Pattern[bytes]:
    """An expression over bytes. ProfileError for what the dialects read in different ways."""
    if not pattern.startswith(b"^/") and not pattern.startswith((b"^.*", b"^(")):
        raise ProfileError(f"not anchored at its beginning: {pattern!r}")
    if not pattern.endswith(b"$"):
        raise ProfileError(f"not anchored at its end: {pattern!r}")
    inner = re.sub(rb"(?<=[)\]])[*?]|(?<=[0-9])\+", b"", pattern[1:-1].replace(b"[0-9]+", b"0"))
    if ELEMENT.sub(b"", inner):
        raise ProfileError(f"{ELEMENT.sub(b'', inner)!r} in {pattern!r}")
    return re.compile(pattern[:-1] + rb"\Z", re.DOTALL)
