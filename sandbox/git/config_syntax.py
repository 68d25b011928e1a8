"""Reads the text of a git configuration file exactly as git does, or not at all. Pure.

After git-config(1), "SYNTAX", and git's config.c. What versions of git read in two ways is refused along with what none
of them takes: tabs within an unquoted value, lone carriage returns, NUL, a byte order mark, settings without a section.

Imported by a process that has to start fast: no `re` or `dataclasses`.
"""

# A repository with a thousand branches has a fifth of this.
SIZE_LIMIT = 512 << 10

# A setting as git lists it: section and key in lower case with the subsection as written between them, all joined by
# dots; and its value, None where there is not even an equals sign (git takes that for true).
Entry = tuple[bytes, bytes | None]

_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_KEY = _LETTERS | frozenset(b"0123456789-")
_SECTION = _KEY | frozenset(b".")
_BLANK = frozenset(b" \t")
_SPACE = frozenset(b" \t\n")
_COMMENT = frozenset(b"#;")
_ESCAPED = {
    ord("t"): ord("\t"),
    ord("b"): ord("\b"),
    ord("n"): ord("\n"),
    ord("\\"): ord("\\"),
    ord('"'): ord('"'),
}
_LINE_END, _QUOTE, _BACKSLASH, _TAB = b'\n"\\\t'


class SyntaxRefused(ValueError):
    """It is not certain what git would read. The text is the end of a sentence."""


def parse(data: bytes) -> tuple[Entry, ...]:
    """All settings of the file, in its order. Includes are settings like others: nothing is followed."""
    if len(data) > SIZE_LIMIT:
        raise SyntaxRefused(f"it is longer than {SIZE_LIMIT >> 10} KiB")
    if data.startswith(b"\xef\xbb\xbf") or b"\0" in data:
        raise SyntaxRefused("it holds bytes that are no text")
    text = data.replace(b"\r\n", b"\n")
    if b"\r" in text:
        raise SyntaxRefused("it holds a lone carriage return")
    return _Reader(text + b"\n").entries()


class _Reader:
    """A position in a text that ends with a line end. Used once."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._at = 0

    def entries(self) -> tuple[Entry, ...]:
        found = []
        section = b""
        while self._at < len(self._text):
            one = self._text[self._at]
            if one in _SPACE:
                self._at += 1
            elif one in _COMMENT:
                self._at = self._text.index(b"\n", self._at)
            elif one == ord("["):
                self._at += 1
                section = self._section()
            elif one in _LETTERS and section:
                name = section + b"." + self._word(_KEY).lower()
                found.append((name, self._value()))
            else:
                self._at += 1
                self._refuse()
        return tuple(found)

    def _word(self, letters: frozenset[int]) -> bytes:
        start = self._at
        while self._text[self._at] in letters:
            self._at += 1
        return self._text[start : self._at]

    def _section(self) -> bytes:
        """What stands in brackets, behind the first of them: `core`, `branch "Main"`, or the old `branch.main`."""
        name = self._word(_SECTION).lower()
        if not name:
            self._next()
            self._refuse()
        blank = self._word(_BLANK)
        if not blank:
            self._expect(b"]")
            return name
        self._expect(b'"')
        name += b"." + self._subsection()
        self._expect(b"]")
        return name

    def _subsection(self) -> bytes:
        found = bytearray()
        while True:
            one = self._next()
            if one == _QUOTE:
                return bytes(found)
            if one == _BACKSLASH:
                one = self._next()
            if one == _LINE_END:
                self._refuse()
            found.append(one)

    def _value(self) -> bytes | None:
        """What follows a key, up to the end of its last line."""
        self._word(_BLANK)
        one = self._next()
        if one == _LINE_END:
            return None
        if one != ord("="):
            self._refuse()
        found = bytearray()
        blanks = bytearray()
        quoted = False
        while True:
            one = self._next()
            if one == _LINE_END:
                if quoted:
                    self._refuse()
                return bytes(found)
            if not quoted and one in _BLANK:
                blanks += bytes((one,)) if found else b""
                continue
            if not quoted and one in _COMMENT:
                self._at = self._text.index(b"\n", self._at)
                continue
            self._keep(found, blanks)
            if one == _QUOTE:
                quoted = not quoted
            elif one != _BACKSLASH:
                found.append(one)
            elif (escaped := self._next()) != _LINE_END:
                found.append(_ESCAPED.get(escaped) or self._refuse())

    def _keep(self, found: bytearray, blanks: bytearray) -> None:
        """Blanks were within the value after all."""
        if _TAB in blanks:
            raise SyntaxRefused("a tab within a value is read differently by different versions of git")
        found += blanks
        blanks.clear()

    def _next(self) -> int:
        if self._at >= len(self._text):
            self._refuse()
        self._at += 1
        return self._text[self._at - 1]

    def _expect(self, one: bytes) -> None:
        if self._next() != one[0]:
            self._refuse()

    def _refuse(self) -> int:
        line = self._text.count(b"\n", 0, self._at - 1) + 1
        raise SyntaxRefused(f"line {line} cannot be read")
