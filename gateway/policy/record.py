"""The fields of a record as JSON text: masked, cut and escaped, so that it stays one line that anybody can read.

ASCII alone: control characters, line and paragraph separators and direction marks are escaped, as is DEL.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from gateway.policy.masking import SHORTEST_TOKEN as _SHORTEST_TOKEN
from gateway.policy.masking import mask

# A text longer than this is cut: a reviewer must be able to read the record, whatever an agent sends.
MAX_TEXT: Final = 1024
# The same for lists and objects: more than any environment has variables, or a push refs.
MAX_ITEMS: Final = 2048
# Text up to this length is remembered as written: hosts, rules and closing words come again and again.
_SHORT: Final = 128
_REMEMBERED: Final = 4096

_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode


def write_fields(fields: Mapping[str, object]) -> tuple[str, bool]:
    """`"name":value` for every field with a comma before each, and whether anything was cut.

    Raises TypeError, ValueError or RecursionError for what is not JSON.
    """
    parts = []
    truncated = False
    for name, value in fields.items():
        if type(value) is str and len(value) <= _SHORT:
            if len(value) < _SHORTEST_TOKEN and value.isalnum() and value.isascii():
                # Connection ids above all, each of which comes twice only: nothing in them to mask or escape.
                parts.append(f'{_named(name)}"{value}"')
            else:
                parts.append(_pair(name, value))
        elif type(value) is int:
            parts.append(f"{_named(name)}{value}")
        else:
            cleaned, cut = _clean(value)
            truncated = truncated or cut
            parts.append(_named(name) + _json(cleaned))
    return "".join(parts), truncated


def write_text(name: str, text: str) -> str:
    """The same for one text of at most `MAX_TEXT` characters; what is longer is cut without a word."""
    return _pair(name, text) if len(text) <= _SHORT else _named(name) + _json(_clean(text)[0])


def write_once(name: str, text: str) -> tuple[str, bool]:
    """The same for a text that hardly comes again, such as a path; and whether it was cut."""
    cleaned, cut = _clean(text)
    return _named(name) + _json(cleaned), cut


@lru_cache(_REMEMBERED)
def _named(name: str) -> str:
    return f",{_json(name)}:"


@lru_cache(_REMEMBERED)
def _pair(name: str, text: str) -> str:
    return _named(name) + _json(_clean(text)[0])


def _json(value: object) -> str:
    # JSON leaves DEL as it is; a terminal does not.
    return _encode(value).replace("\x7f", "\\u007f")


def _clean(value: object) -> tuple[object, bool]:
    """A JSON value with its texts masked and cut, and whether anything was cut."""
    if isinstance(value, str):
        text = mask(value if value.isascii() else _without_surrogates(value))
        return text[:MAX_TEXT], len(text) > MAX_TEXT
    if isinstance(value, Mapping):
        pairs = [(_clean(name), _clean(item)) for name, item in list(value.items())[:MAX_ITEMS]]
        cut = len(value) > MAX_ITEMS or any(name[1] or item[1] for name, item in pairs)
        return {name[0]: item[0] for name, item in pairs}, cut
    if isinstance(value, list | tuple):
        items = [_clean(item) for item in value[:MAX_ITEMS]]
        return [item for item, _ in items], len(value) > MAX_ITEMS or any(cut for _, cut in items)
    return value, False


def _without_surrogates(text: str) -> str:
    """Half a surrogate pair is no text: strict readers refuse it, even escaped. It is shown as an escape."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
