"""Words of a shell line as bash makes them from what is written: quotes, escapes, tilde, braces. Knows no grammar.

What cannot be told from the text alone (variables, substitutions, patterns) is a `Vague` word and never a guess.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

# Words that one word with braces may become; more of them are not told apart.
_MAX_ALTERNATIVES: Final = 64
_MAX_BRACES: Final = 16
# A word that means itself: no quote, escape, expansion, pattern, brace or tilde in it.
PLAIN: Final = re.compile(r"[A-Za-z0-9_./:=@%+,^-]+")
_PATTERN: Final = frozenset("*?[")
# What ends a word where it is not quoted: inside of one it means that the grammar and bash do not agree.
_ENDS: Final = frozenset(" \t\n;|&<>()")
_IN_DOUBLE_QUOTES: Final = frozenset('$`"\\')
_STARTS_EXPANSION: Final = re.compile(r"[A-Za-z0-9_({\[@*#?$!-]")
_RANGE: Final = re.compile(r"[^,{}]*\.\.[^,{}]*")
_ESCAPE: Final = re.compile(
    r"\\(?:(?P<plain>[abeEfnrtv\\'\"?])|(?P<octal>[0-7]{1,3})|x(?P<hex>[0-9A-Fa-f]{1,2})"
    r"|u(?P<short>[0-9A-Fa-f]{1,4})|U(?P<long>[0-9A-Fa-f]{1,8}))"
)
_ANSI_C: Final = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_PLAIN_ESCAPES: Final = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_LAST_ASCII: Final = 0x7F


@dataclass(frozen=True, slots=True)
class Vague:
    """A word that is not known to the letter. `source` is what is written.

    `text` is what is known all the same, "" for nothing: with `pattern` a pattern for names of files, with `home` a
    path whose leading `~` is the home directory.
    """

    source: str
    text: str = ""
    home: bool = False
    pattern: bool = False


# A known word is its text.
type Word = str | Vague


@dataclass(frozen=True, slots=True)
class Opaque:
    """A piece of a word that only the shell can fill in. `name` is the variable's, where it is no more than that."""

    source: str
    name: str = ""


class DoubtError(ValueError):
    """The text is no word in bash's reading, whatever the grammar says."""


def is_option(word: Word) -> bool:
    """Whether it is known to begin with a dash, and is more than one."""
    return isinstance(word, str) and len(word) > 1 and word[0] == "-"


def shown(word: Word) -> str:
    """For people: the text, or what is written where that is not known."""
    return word if isinstance(word, str) else word.source


def decode_words(pieces: Sequence[str | Opaque]) -> tuple[Word, ...]:
    """The words that one written word becomes; several only by braces. DoubtError."""
    if len(pieces) == 1 and isinstance(pieces[0], str):
        source = pieces[0]
        if "{" not in source or source == "{}":
            return (_decode(pieces),)
        alternatives = _alternatives(source)
        if alternatives is None:
            return (Vague(source),)
        return tuple(_decode((text,)) for text in alternatives if text)
    if any(isinstance(piece, str) and "{" in piece for piece in pieces):
        return (Vague(_source(pieces)),)
    return (_decode(pieces),)


def _source(pieces: Sequence[str | Opaque]) -> str:
    return "".join(piece if isinstance(piece, str) else piece.source for piece in pieces)


def _decode(pieces: Sequence[str | Opaque]) -> Word:
    reader = _Reader()
    for piece in pieces:
        if isinstance(piece, Opaque):
            reader.read_opaque(piece)
        else:
            reader.read(piece)
    return reader.finish(_source(pieces))


class _Reader:
    """Reads the pieces of one word, in order. Changes as it reads; lives for one word."""

    __slots__ = ("_double", "_empty", "_home", "_known", "_out", "_pattern", "_tilde")

    def __init__(self) -> None:
        self._out: list[str] = []
        self._double = False  # inside double quotes
        self._empty = True  # nothing was read yet, not even a quote
        self._known = True
        self._home = False
        self._pattern = False
        self._tilde = False  # an unquoted tilde began the word: the name up to the slash decides

    def read_opaque(self, piece: Opaque) -> None:
        """A part that the shell fills in. HOME and PWD are what they say, at the beginning."""
        first = not self._out and not self._tilde
        if piece.name == "HOME" and first:
            self._out.append("~")
            self._home = True
        elif piece.name == "PWD" and first:
            self._out.append(".")
        else:
            self._known = False
        self._empty = False

    def read(self, text: str) -> None:
        """A part as written. DoubtError."""
        place = 0
        while place < len(text):
            place = self._double_quoted(text, place) if self._double else self._unquoted(text, place)
            self._empty = False

    def _double_quoted(self, text: str, place: int) -> int:
        """One step inside double quotes; gives the next place."""
        letter, following = text[place], text[place + 1 : place + 2]
        if letter == '"':
            self._double = False
        elif letter == "\\" and following == "\n":
            return place + 2
        elif letter == "\\" and following in _IN_DOUBLE_QUOTES and following:
            self._out.append(following)
            return place + 2
        elif letter == "`" or (letter == "$" and _STARTS_EXPANSION.match(following)):
            raise DoubtError("a substitution that the grammar did not see")
        else:
            self._out.append(letter)
        return place + 1

    def _unquoted(self, text: str, place: int) -> int:
        """One step outside of quotes; gives the next place."""
        letter, following = text[place], text[place + 1 : place + 2]
        match letter:
            case "'":
                end = text.find("'", place + 1)
                if end < 0:
                    raise DoubtError("a quote without its end")
                self._settle_tilde(quoted=True)
                self._out.append(text[place + 1 : end])
                return end + 1
            case '"':
                self._settle_tilde(quoted=True)
                self._double = True
            case "\\":
                if not following:
                    raise DoubtError("a backslash at the end")
                if following != "\n":
                    self._settle_tilde(quoted=True)
                    self._out.append(following)
                return place + 2
            case "$":
                return self._dollar(text, place, following)
            case "`":
                raise DoubtError("a substitution that the grammar did not see")
            case "~" if self._empty:
                self._tilde = True
            case "~" if text[place - 1 : place] in ("=", ":"):
                self._known = False  # a home directory where the word looks like a variable that is set
            case _ if letter in _ENDS:
                raise DoubtError("an operator inside a word")
            case _:
                self._settle_tilde(quoted=letter != "/")
                self._pattern = self._pattern or letter in _PATTERN
                self._out.append(letter)
        return place + 1

    def _dollar(self, text: str, place: int, following: str) -> int:
        if following == "'":
            found = _ANSI_C.match(text, place)
            if found is None:
                raise DoubtError("a quote without its end")
            self._settle_tilde(quoted=True)
            self._ansi_c(found.group(1))
            return found.end()
        if following == '"':
            return place + 1  # a text to translate: itself, without a catalogue
        if _STARTS_EXPANSION.match(following):
            raise DoubtError("an expansion that the grammar did not see")
        self._settle_tilde(quoted=True)
        self._out.append("$")
        return place + 1

    def _ansi_c(self, text: str) -> None:
        """Between `$'` and `'`. A byte that is no character by itself, and NUL, which cuts the text, are not known."""

        def character(found: re.Match[str]) -> str:
            if found["plain"]:
                return _PLAIN_ESCAPES.get(found["plain"], found["plain"])
            number = (
                int(found["octal"], 8)
                if found["octal"]
                else int(found["hex"] or found["short"] or found["long"], 16)
            )
            if not 0 < number <= _LAST_ASCII:
                self._known = False
                return ""
            return chr(number)

        made = _ESCAPE.sub(character, text)
        if "\\" in _ESCAPE.sub("", text):
            self._known = False  # a control character, or an escape that stays as it is
        self._out.append(made)

    def _settle_tilde(self, *, quoted: bool) -> None:
        """After a tilde: a slash makes it the home directory; a name or a quote somebody else's, or a mere tilde."""
        if self._tilde:
            self._tilde = False
            self._home = not quoted
            self._known = self._known and not quoted
            self._out.append("~")

    def finish(self, source: str) -> Word:
        """The word. DoubtError."""
        if self._double:
            raise DoubtError("a quote without its end")
        self._settle_tilde(quoted=False)
        text = "".join(self._out)
        if not self._known:
            return Vague(source)
        if self._home or self._pattern:
            return Vague(source, text, self._home, self._pattern)
        return text


def _alternatives(source: str) -> list[str] | None:
    """What bash's braces make of a word without expansions; None where that is not told."""
    if source.count("{") > _MAX_BRACES:
        return None
    found = list(_spread(source, 0))
    return (
        None
        if None in found or len(found) > _MAX_ALTERNATIVES
        else [text for text in found if text is not None]
    )


def _spread(source: str, start: int) -> Iterator[str | None]:
    """The texts that the first braces of `source` from `start` on give, and those of the rest; None: cannot be told."""
    begin = _find(source, start, "{")
    if begin < 0:
        yield source
        return
    end = _closing(source, begin)
    if end < 0:
        yield None if "," in source[begin:] or ".." in source[begin:] else source
        return
    commas = _commas(source, begin, end)
    if not commas:
        # Not braces at all, unless a range or braces inside.
        inner = source[begin + 1 : end]
        if _RANGE.fullmatch(inner) or "{" in inner:
            yield None
        else:
            yield from _spread(source, end + 1)
        return
    count = 0
    for left, right in pairwise((begin, *commas, end)):
        for text in _spread(source[:begin] + source[left + 1 : right] + source[end + 1 :], begin):
            count += 1
            if count > _MAX_ALTERNATIVES:
                yield None
                return
            yield text


def _steps(source: str, start: int) -> Iterator[tuple[int, str]]:
    """Places and letters outside of quotes and escapes."""
    place = start
    while place < len(source):
        letter = source[place]
        if letter == "\\":
            place += 2
            continue
        if letter in "'\"":
            place = _end_of_quote(source, place)
            continue
        yield place, letter
        place += 1


def _end_of_quote(source: str, place: int) -> int:
    """The place after the quoted text that begins here."""
    quote, escapes = source[place], source[place] == '"' or source[place - 1 : place] == "$"
    place += 1
    while place < len(source) and source[place] != quote:
        place += 2 if escapes and source[place] == "\\" else 1
    return place + 1


def _find(source: str, start: int, wanted: str) -> int:
    return next((place for place, letter in _steps(source, start) if letter == wanted), -1)


def _closing(source: str, begin: int) -> int:
    """The brace that closes the one at `begin`; -1 for none."""
    depth = 0
    for place, letter in _steps(source, begin):
        depth += (letter == "{") - (letter == "}")
        if not depth:
            return place
    return -1


def _commas(source: str, begin: int, end: int) -> list[int]:
    """The commas between these braces that are in no braces inside."""
    depth, found = 0, []
    for place, letter in _steps(source, begin):
        if place >= end:
            break
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 1:
            found.append(place)
    return found
