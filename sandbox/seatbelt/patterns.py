"""Globs and paths as expressions for the profile's `regex` filter. Pure.

The dialect is that of POSIX extended expressions over the bytes of a path, and only what it shares with all others:
groups, alternatives, classes of ASCII characters, `*`, `?`, `^` and `$`. Special characters stand in classes of their
own (`[.]`), so hardly anything depends on how a backslash is read. Every expression is anchored at both ends.

Letters stand in both cases, since the disk does not tell them apart; names of a denial also in the other spellings that
it folds (`spelling.py`). A wildcard of a denial errs towards more, one of an exception towards less.
"""

import string
import unicodedata
from collections.abc import Callable, Iterable, Sequence

from sandbox.seatbelt.spelling import FOLDED, IGNORED, fold

# Everything below a path that the expression before it describes, or the path itself.
AND_BELOW = "(/.*)?"
# The bytes of one character that is not ASCII. "." alone would be one byte.
OTHER = "[^ -~][^ -~][^ -~]?[^ -~]?"
# Characters that mean something in an expression; those that cannot stand alone in a class follow a backslash.
SPECIAL = frozenset(".*+?()|{}$")
SLASHED = frozenset("\\^[]")
# Some file systems cut a name at a colon, and drop dots and spaces at its end.
CUT = "[. ]*(:[^/]*)?"
ALPHANUMERIC = string.digits + string.ascii_letters
# Characters that a range of a class is written out to.
LONGEST_RANGE = 0x80
LONGEST_FOLD = max(map(len, FOLDED))


def literal(text: str) -> str:
    """Exactly this text."""
    return "".join(_escape(one) for one in text)


def folded(text: str) -> str:
    """This text and everything that the disk takes for it."""
    # Characters that are other spellings themselves, as what they stand for.
    text = "".join(fold(one) if not one.isascii() and fold(one).isascii() else one for one in text)
    out, at = "", 0
    while at < len(text):
        length = _cluster(text, at)
        tilings = list(dict.fromkeys(_tilings(text[at : at + length])))
        out += tilings[0] if len(tilings) == 1 else f"({'|'.join(tilings)})"
        at += length
    return out


def plain(text: str) -> str:
    """This text in any letter case; for exceptions."""
    return "".join(_cases(one) for one in text)


def name_pattern(glob: str) -> str:
    """What a glob of a denied name matches: it, and names that some disk cuts down to it."""
    whole = _translate(glob, folded, "[^/]*", wide=True)
    if "*" not in glob and "[" not in glob and "?" not in glob:
        return whole + CUT
    return f"({whole}|{_translate(glob, folded, '[^/:]*', wide=True)}{CUT})"


def exception_pattern(glob: str) -> str:
    """What a glob of an allowed name matches."""
    return _translate(glob, plain, "[^/]*", wide=False)


def path_pattern(glob: str) -> str:
    """What a glob of denied paths matches; `*` reaches over "/"."""
    return _translate(glob, folded, ".*", wide=True)


def path_exception_pattern(glob: str) -> str:
    """What a glob of allowed paths matches; `*` reaches over "/"."""
    return _translate(glob, plain, ".*", wide=False)


def any_of(patterns: Iterable[str]) -> str:
    """One of them."""
    found = tuple(dict.fromkeys(patterns))
    return found[0] if len(found) == 1 else f"({'|'.join(found)})"


def among(paths: Sequence[str], end: str = AND_BELOW) -> list[str]:
    """Expressions for these paths and everything below them (or another end), in every spelling of their last names:
    one for each directory that they lie in."""
    names: dict[str, list[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        names.setdefault(folder, []).append(name)
    return [f"^{literal(folder)}/{any_of(map(folded, found))}{end}$" for folder, found in names.items()]


def disguised(root: str) -> str:
    """Names below `root` in which an invisible character stands beside a plain one."""
    hidden, visible = any_of(IGNORED), "[ -.0-~]"
    return f"^{literal(root)}/.*({visible}{hidden}|{hidden}{visible}).*$"


def _escape(one: str) -> str:
    if one in SPECIAL:
        return f"[{one}]"
    return f"\\{one}" if one in SLASHED else one


def _cases(one: str) -> str:
    """One character in every letter case and normal form."""
    if one.isascii():
        return f"[{one.lower()}{one.upper()}]" if one.isalpha() else _escape(one)
    forms = (one, one.lower(), one.upper())
    spelled = [unicodedata.normalize(form, text) for text in forms for form in ("NFC", "NFD")]
    return any_of(map(literal, (one, *spelled)))


def _cluster(text: str, start: int) -> int:
    """How many characters from `start` hang together because spellings of several of them overlap."""
    end = start + 1
    at = start
    while at < end:
        for length in range(2, LONGEST_FOLD + 1):
            if text[at : at + length].lower() in FOLDED:
                end = max(end, at + length)
        at += 1
    return end - start


def _tilings(text: str) -> list[str]:
    """Every way to spell a text by its characters and by those that stand for several of them."""
    if not text:
        return [""]
    found = [_cases(text[0]) + rest for rest in _tilings(text[1:])]
    for length in range(1, LONGEST_FOLD + 1):
        for other in FOLDED.get(text[:length].lower(), "") if len(text) >= length else "":
            found += [other + rest for rest in _tilings(text[length:])]
    return found


def _translate(glob: str, spell: Callable[[str], str], star: str, wide: bool) -> str:
    """A glob of fnmatch(3) without escapes: `*`, `?`, `[ab]`, `[!ab]`; an unclosed `[` is itself."""
    one = f"([^/]|{OTHER})" if wide else "[^/]"
    if star == ".*":  # a path's
        one = one.replace("[^/]", ".")
    out, text, at = "", "", 0
    while at < len(glob):
        end = _class_end(glob, at) if glob[at] == "[" else 0
        if glob[at] not in "*?" and not end:
            text += glob[at]
            at += 1
            continue
        out, text = out + spell(text), ""
        if end:
            out += _class(glob[at + 1 : end], wide)
            at = end + 1
            continue
        out += star if glob[at] == "*" else one
        at += 1
        while glob[at - 1] == "*" and glob[at : at + 1] == "*":
            at += 1
    return out + spell(text)


def _class_end(glob: str, start: int) -> int:
    """Where the class that begins at `start` ends; 0 when it does not. A `]` that comes first is a member."""
    first = start + 1 + (glob[start + 1 : start + 2] == "!")
    return max(0, glob.find("]", first + 1))


def _class(text: str, wide: bool) -> str:
    """A class, in both cases. Members that are not ASCII, or mean something in a class, stand beside it."""
    negated, members = text.startswith("!"), _members(text.removeprefix("!"))
    simple = "".join(one for one in members if one.isascii() and one not in SLASHED and one not in "-/")
    dash = "-" if "-" in members else ""
    if not negated:
        beside = [_cases(one) for one in members if not one.isascii() or one in SLASHED]
        return any_of([*([f"[{simple}{dash}]"] if simple or dash else []), *beside] or ["[^ -~]"])
    if wide:
        return f"([^/{simple}{dash}]|{OTHER})"
    # An exception: nothing but what is certainly outside of the class.
    return "[" + "".join(one for one in ALPHANUMERIC if one not in members) + "_]"


def _members(text: str) -> dict[str, None]:
    """The characters of a class in both cases, ranges written out as far as anybody means them."""
    found: dict[str, None] = {}
    at = 0
    while at < len(text):
        first = last = text[at]
        if text[at + 1 : at + 2] == "-" and at + 2 < len(text):
            last = text[at + 2]
            at += 2
        at += 1
        for code in range(ord(first), min(ord(last), ord(first) + LONGEST_RANGE) + 1):
            found |= dict.fromkeys((chr(code).lower(), chr(code).upper()))
    return found
