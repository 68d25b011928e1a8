"""A line of the log as a record, and what may be wrong with one. Reads no files."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

# JSON values, as parsed: what stands in a line is checked where it is used, since anybody may have written it.
type Record = Mapping[str, Any]

# Where the time of a record stands in its line: behind `{"v":1,"ts":"`.
_MOMENT: Final = slice(13, 40)
_LEAD: Final = b'{"v":1,"ts":"'


class DamagedLine(ValueError):
    """A line that is no record; the text says why."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A place in the log that cannot be read. `line` counts from 1; 0 speaks of the file."""

    file: str
    line: int
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.why}" if self.line else f"{self.file}: {self.why}"


def parse_line(line: bytes) -> Record:
    """The record of a line without its newline. DamagedLine for what is no JSON, or has no time or kind."""
    try:
        record = json.loads(line)
    except UnicodeDecodeError:
        raise DamagedLine("bytes that are no text") from None
    except (ValueError, RecursionError):
        raise DamagedLine("no JSON" if line else "an empty line") from None
    if not isinstance(record, dict):
        raise DamagedLine("JSON, but no object")
    for name in ("ts", "event"):
        if not isinstance(record.get(name), str):
            raise DamagedLine(f"a record without its {name!r}")
    if b"\\ud" in line.lower():
        # Half a surrogate pair, even escaped: the log never writes one, and who prints it fails.
        try:
            json.dumps(record, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise DamagedLine("half a surrogate pair, which is no text") from None
    return record


def moment_of(line: bytes) -> str:
    """The time of a record for putting lines in order, without parsing the line where it is as the log writes it; empty
    where there is none."""
    if line.startswith(_LEAD):
        return line[_MOMENT].decode("ascii", "replace")
    try:
        return str(parse_line(line)["ts"])
    except DamagedLine:
        return ""


def text_of(record: Record, name: str) -> str:
    """A field as text; empty where it is absent, null or no plain value."""
    value = record.get(name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else ""


def number_of(record: Record, name: str, default: int = 0) -> int:
    """A field as a number that is not negative; `default` where it is anything else."""
    value = record.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


def parts_of(record: Record, name: str) -> tuple[Record, ...]:
    """The objects of a list (`refs`); empty where it is none."""
    value = record.get(name)
    return tuple(one for one in value if isinstance(one, dict)) if isinstance(value, list) else ()


def texts_of(record: Record, name: str) -> tuple[str, ...]:
    """The texts of a list; empty where it is none."""
    value = record.get(name)
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def all_texts(value: object) -> Iterator[str]:
    """Every value in a record as text, however deep it stands; names of fields are not among them."""
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, Mapping):
            pending.extend(one.values())
        elif isinstance(one, list):
            pending.extend(one)
        elif isinstance(one, str):
            yield one
        elif one is not None and not isinstance(one, bool):
            yield str(one)
