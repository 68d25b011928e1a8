"""What the supervisor is told: the rules of one wrap, as bytes on its channel. Values only; nothing is looked at.

The launcher packs, the supervisor unpacks, checks every bound, and refuses to start on anything it does not
understand. Imported by a process that has to start fast: no `dataclasses`, `json`, `re` or `typing` here.
"""

# Of a packed message; ten thousand paths of a hundred bytes fit several times.
RULES_LIMIT = 8 << 20
ENTRIES_LIMIT = 100_000
PATH_LIMIT = 4096
CANARY_DIGITS = 16

# Lists of absolute paths, and of globs.
PATHS = ("writable", "read_only", "private", "own", "sealed", "git_configs", "sockets", "closed")
GLOBS = ("deny_write", "allow_write")


class RulesError(ValueError):
    """The message is not a set of rules."""


class DoorRules:
    """The rules of one wrap. Frozen. Paths are absolute, resolved, and the same outside and inside.

    `writable` are the binds that can be written; everything below is governed. `read_only` are those that cannot,
    below a writable one or in a mount of the wrap's own. `private` are mounts of the wrap's own without a governed
    bind in them, `own` those that hold one: no name is denied there either. `deny_write` and `allow_write` join the
    shipped rules (`sandbox.filerules.FileRules`). `sealed` is never written, made, renamed or replaced, nor what is
    below; `git_configs` are repositories' configurations, whose replacement is judged by its content. `sockets` may
    be connected to. `closed` are binds that cannot be written: what the kernel refuses there is told. `canary`
    begins the names with which the door is tried.
    """

    __slots__ = (*PATHS, *GLOBS, "canary")

    writable: tuple[str, ...]
    read_only: tuple[str, ...]
    private: tuple[str, ...]
    own: tuple[str, ...]
    sealed: tuple[str, ...]
    git_configs: tuple[str, ...]
    sockets: tuple[str, ...]
    closed: tuple[str, ...]
    deny_write: tuple[str, ...]
    allow_write: tuple[str, ...]
    canary: str

    def __init__(self, *, canary: str, **lists: tuple[str, ...]) -> None:
        unknown = set(lists) - {*PATHS, *GLOBS}
        if unknown:
            raise RulesError(f"unknown rules: {', '.join(sorted(unknown))}")
        for name in (*PATHS, *GLOBS):
            object.__setattr__(self, name, tuple(lists.get(name, ())))
        object.__setattr__(self, "canary", canary)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} cannot be set: rules are frozen")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DoorRules) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(tuple(self._fields().items()))

    def _fields(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}

    def pack(self) -> bytes:
        """The message: the canary, then each list's length and entries, all ended by NUL. RulesError for rules that
        are out of bounds."""
        fields = [self.canary]
        for name in (*PATHS, *GLOBS):
            entries = getattr(self, name)
            if any("\0" in entry for entry in entries):
                raise RulesError(f"{name}: an entry holds a NUL byte")
            fields += [str(len(entries)), *entries]
        message = "".join(f"{field}\0" for field in fields).encode("utf-8", "surrogateescape")
        unpack(message)
        return message


def unpack(message: bytes) -> DoorRules:
    """The rules in a message. RulesError says what is wrong with it."""
    if len(message) > RULES_LIMIT:
        raise RulesError(f"the rules are longer than {RULES_LIMIT >> 20} MiB")
    canary, *fields = message.decode("utf-8", "surrogateescape").split("\0")
    if len(canary) != CANARY_DIGITS or set(canary) - set("0123456789abcdef"):
        raise RulesError(f"canary: not {CANARY_DIGITS} hexadecimal digits")
    lists = {}
    at = 0
    for name in (*PATHS, *GLOBS):
        length = fields[at] if at < len(fields) else ""
        if not (length.isascii() and length.isdigit()) or int(length) > ENTRIES_LIMIT:
            raise RulesError(f"{name}: not a list of at most {ENTRIES_LIMIT} entries")
        lists[name] = tuple(fields[at + 1 : at + 1 + int(length)])
        at += 1 + int(length)
        _check(name, lists[name])
    if fields[at:] != [""]:
        raise RulesError("the rules are cut, or longer than they say")
    return DoorRules(canary=canary, **lists)


def _check(name: str, entries: tuple[str, ...]) -> None:
    for entry in entries:
        if not entry or len(entry) > PATH_LIMIT:
            raise RulesError(f"{name}: {entry[:PATH_LIMIT]!r} is no text of at most {PATH_LIMIT} characters")
        if name in PATHS and not is_resolved(entry):
            raise RulesError(f"{name}: {entry!r} is not an absolute path without detours")


def is_resolved(path: str) -> bool:
    """Whether a path is absolute and has neither empty parts, "." nor ".."."""
    return path[:1] == "/" and (path == "/" or not {"", ".", ".."} & set(path.split("/")[1:]))
