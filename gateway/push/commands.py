"""The command section of a push (gitprotocol-pack, "Reference Update Request"): read strictly, and written anew.

Pure. The client's bytes are never passed on: git's own readers disagree about most of what is refused here. A line
that cannot be understood exactly refuses the push; one that is understood, but names its ref in a way that no rule can
judge, is kept as a `BadRef`, so that it gets a line of its own in the report.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from dulwich.refs import Ref, check_ref_format

from gateway.policy.wording import printable
from gateway.push.capabilities import (
    ID_LENGTHS,
    Capabilities,
    CapabilityError,
    ObjectFormat,
    parse_capabilities,
    write_capabilities,
)
from gateway.push.pkt import FLUSH, Flush, PktError, PktReader, pkt

# Bytes of the section, and commands in it: far above what `git push` sends, what one push may make us hold, and no
# more than one record holds (`policy.record.MAX_ITEMS`).
SECTION_LIMIT: Final = 1 << 20
COMMAND_LIMIT: Final = 2000
# Bytes of a ref's name; GitHub takes about 250. Bounds a record and the line that reports it.
REF_LIMIT: Final = 1024
_SHOWN: Final = 200  # characters of a refused name in a line for people

FUNNY: Final = "funny refname"  # as git's receive-pack says it
_NOT_TEXT: Final = f"{FUNNY} (not UTF-8)"
_TOO_LONG: Final = f"{FUNNY} (longer than {REF_LIMIT} bytes)"
_NOTHING: Final = "neither an old nor a new object"
_TWICE: Final = "the same ref stands twice in this push"
_TWINS: Final = "another ref in this push differs only in upper and lower case"

_LINE: Final = re.compile(rb"([0-9a-f]+) ([0-9a-f]+) (.+)", re.DOTALL)
_SHALLOW: Final = re.compile(rb"shallow ([0-9a-f]+)")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class CommandError(ValueError):
    """A request that is refused as a whole. `status` is the HTTP status, `sentence` a line the client may read."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


@dataclass(frozen=True, slots=True)
class Command:
    """One ref update as the client claims it: ids in lower case of the repository's length, a ref below `refs/` that
    `git check-ref-format` accepts, UTF-8, without control characters. `ref` may hold anything else that prints badly.
    """

    old: str
    new: str
    ref: str

    @property
    def wire_name(self) -> str:
        """The name for its line in the report."""
        return self.ref

    @property
    def shown(self) -> str:
        """The name for a line that people read."""
        return printable(self.ref)


@dataclass(frozen=True, slots=True)
class BadRef:
    """A command that is refused whatever the rules say: its name as bytes, and escaped for people; `reason`."""

    old: str
    new: str
    ref_bytes: bytes
    shown: str
    reason: str

    @property
    def wire_name(self) -> str:
        """The name for its line in the report (surrogateescape): as it came where git knows it again and nothing in it
        could be mistaken for something else, escaped otherwise."""
        if len(self.ref_bytes) <= REF_LIMIT and check_ref_format(Ref(self.ref_bytes)):
            return self.ref_bytes.decode("utf-8", "surrogateescape")
        return self.shown.replace(" ", r"\x20")  # a space would end the name


@dataclass(frozen=True, slots=True)
class PushCommands:
    """A push as it was asked for. `shallow` are the ids where the client's history is cut off; `size` is the bytes of
    the section, its flush included."""

    shallow: tuple[str, ...]
    commands: tuple[Command | BadRef, ...]
    capabilities: Capabilities
    size: int

    @property
    def has_pack(self) -> bool:
        """True if a pack follows the section."""
        return needs_pack(self.commands)

    @property
    def good(self) -> tuple[Command, ...]:
        """The commands that rules can judge, in order."""
        return tuple(one for one in self.commands if isinstance(one, Command))


@dataclass(frozen=True, slots=True)
class Probe:
    """`0000` and nothing else: git asks whether it may push before it sends a large body. The answer: an empty 200."""


class CommandReader:
    """Reads the section from bytes that come in any pieces. Changes. `result` is None until the flush was read."""

    def __init__(self, object_format: ObjectFormat, offered: frozenset[str]) -> None:
        self.result: PushCommands | Probe | None = None
        self._format = object_format
        self._offered = offered
        self._packets = PktReader()
        self._size = 0
        self._shallow: list[str] = []
        self._commands: list[Command | BadRef] = []
        self._capabilities: Capabilities | None = None
        self._error: CommandError | None = None

    def feed(self, data: bytes) -> bytes | None:
        """None while the section goes on, afterwards what follows it: the pack, if there is one.

        CommandError 400 for what is not understood, 413 for too much of it; again at every further call.
        """
        if self._error:
            raise self._error
        try:
            return self._feed(data)
        except (PktError, CapabilityError) as error:
            self._error = CommandError(400, f"{error}")
        except CommandError as error:
            self._error = error
        raise self._error

    def finish(self) -> PushCommands | Probe:
        """To be called at the body's end: the result, or CommandError 400 if the body ended before its flush."""
        if self._error:
            raise self._error
        if self.result is None:
            raise CommandError(400, "the push ends in the middle of its commands")
        return self.result

    def _feed(self, data: bytes) -> bytes | None:
        if self.result is not None:
            return self._rest(data)
        self._packets.feed(data)
        while (length := self._packets.length()) is not None:
            if self._size + length > SECTION_LIMIT:
                raise CommandError(413, f"the commands of a push may take {SECTION_LIMIT} bytes, not more")
            packet = self._packets.next()
            if packet is None:
                return None
            self._size += max(length, len(FLUSH))
            if isinstance(packet, Flush):
                self.result = self._finished()
                return self._rest(self._packets.rest())
            self._take(packet)
        return None

    def _rest(self, data: bytes) -> bytes:
        if data and isinstance(self.result, Probe):
            raise CommandError(400, "the push has no commands, but goes on after them")
        return data

    def _take(self, packet: bytes) -> None:
        if not packet:
            raise CommandError(400, "an empty packet stands among the commands")
        if packet.startswith(b"push-cert"):
            raise CommandError(400, "signed pushes are not supported")
        line = packet.removesuffix(b"\n")
        if line.startswith(b"shallow"):
            self._take_shallow(line)
            return
        if self._capabilities is None:
            line, _, capabilities = line.partition(b"\0")
            if b"\0" in capabilities:
                raise CommandError(400, "a zero byte stands among the capabilities")
            self._capabilities = parse_capabilities(capabilities, self._format, self._offered)
        elif b"\0" in line:
            raise CommandError(400, "a zero byte stands in a command that is not the first")
        if len(self._commands) == COMMAND_LIMIT:
            raise CommandError(413, f"a push may have {COMMAND_LIMIT} commands, not more")
        self._commands.append(self._command(line))

    def _take_shallow(self, line: bytes) -> None:
        match = _SHALLOW.fullmatch(line)
        if self._commands or match is None or len(match[1]) != ID_LENGTHS[self._format]:
            raise CommandError(400, "a line about shallow history is malformed or not before the commands")
        self._shallow.append(match[1].decode())

    def _command(self, line: bytes) -> Command | BadRef:
        match = _LINE.fullmatch(line)
        if match is None:
            raise CommandError(400, "a command is not made of two ids in lower case and a ref")
        if {len(match[1]), len(match[2])} != {ID_LENGTHS[self._format]}:
            raise CommandError(
                400, f"the ids of a command are not of the repository's format, {self._format}"
            )
        old, new, name = match[1].decode(), match[2].decode(), match[3]
        reason = fault_of_name(name)
        if not reason and is_zero(old) and is_zero(new):
            reason = _NOTHING
        return _bad(old, new, name, reason) if reason else Command(old, new, name.decode())

    def _finished(self) -> PushCommands | Probe:
        if self._capabilities is None:
            if self._shallow:
                raise CommandError(400, "the push has no commands")
            return Probe()
        commands = _without_twins(self._commands)
        return PushCommands(tuple(self._shallow), commands, self._capabilities, self._size)


def fault_of_name(name: bytes) -> str:
    """Why a ref's name is refused; "" for one that is fine.

    As git's receive-pack: what stands behind `refs/` has two parts or more and passes `git check-ref-format`. Stricter
    in two points, for names that rules and records cannot hold: UTF-8, and no control characters of Unicode either.
    """
    if len(name) > REF_LIMIT:
        return _TOO_LONG
    if not name.startswith(b"refs/") or not check_ref_format(Ref(name.removeprefix(b"refs/"))):
        return FUNNY
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return _NOT_TEXT
    return FUNNY if _CONTROL.search(text) else ""


def is_zero(object_id: str) -> bool:
    """True for the id that means "no object"."""
    return not object_id.strip("0")


def needs_pack(commands: Iterable[Command | BadRef]) -> bool:
    """True unless all of them delete: git sends a pack, perhaps an empty one, for every other push."""
    return any(not is_zero(one.new) for one in commands)


def emit(push: PushCommands, subset: Sequence[Command]) -> bytes:
    """The section for the upstream: `subset` (commands of `push`) and nothing else, with our own capability list.

    ValueError for an empty subset and for a command that the push does not hold.
    """
    if not subset or len(set(subset)) < len(subset) or not set(subset) <= set(push.good):
        raise ValueError("only commands of this push can be written, each once, and one at least")
    lines = [f"shallow {one}".encode() for one in push.shallow]
    capabilities = b"\0 " + write_capabilities(push.capabilities)
    for one in subset:
        lines.append(f"{one.old} {one.new} {one.ref}".encode() + capabilities)
        capabilities = b""
    return b"".join(map(pkt, lines)) + FLUSH


def _bad(old: str, new: str, name: bytes, reason: str) -> BadRef:
    shown = printable(name.decode("utf-8", "backslashreplace"))
    return BadRef(old, new, name, shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}...", reason)


def _without_twins(commands: Sequence[Command | BadRef]) -> tuple[Command | BadRef, ...]:
    """Refuses refs that a push names twice, also in another case: git runs the first of them and reports both, and a
    rule for one would be applied to the other."""
    names = Counter(_name(one) for one in commands)
    folded = Counter(one.ref.casefold() for one in commands if isinstance(one, Command))
    judged: list[Command | BadRef] = []
    for one in commands:
        if isinstance(one, BadRef):
            judged.append(one)
        elif names[_name(one)] > 1:
            judged.append(_bad(one.old, one.new, _name(one), _TWICE))
        elif folded[one.ref.casefold()] > 1:
            judged.append(_bad(one.old, one.new, _name(one), _TWINS))
        else:
            judged.append(one)
    return tuple(judged)


def _name(command: Command | BadRef) -> bytes:
    return command.ref.encode() if isinstance(command, Command) else command.ref_bytes
