"""The text of a shell line before the grammar sees it: what is refused unread, and what bash reads otherwise."""

import re
from dataclasses import dataclass
from typing import Final

from gateway.policy.shell_line import MAX_BYTES, MAX_HERE_DOCUMENTS, Problem
from gateway.policy.shell_words import Word

# What the grammar takes for blanks and bash does not: for bash each is a letter of a word.
_ODD_BLANKS: Final = re.compile(r"[\r\v\f]")
# A line that goes on in the middle of a word: bash drops both characters, the grammar divides the word.
_GLUED: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\\n")
# The same where it cannot simply be dropped, since quoted text may be meant; and a line of nothing else, which the
# grammar takes for the end of none.
_GLUED_WORD: Final = re.compile(r"[^ \t\n\\](?:\\\\)*\\\n[^ \t\n]|(?:\A|\n)[ \t]*\\\n")
_LITERAL_CONTEXT: Final = re.compile(r"['#]|<<")

# The grammar's scanner asks C about letters, which reads past the end of a table for those beyond ASCII and can end the
# process. For bash each of them is part of a word, and so is what stands for it: no word of the shell's own has an x.
_BEYOND_ASCII: Final = re.compile(r"[^\0-\x7f]")


@dataclass(frozen=True, slots=True)
class Prepared:
    """The text, as far as it may be read, and what is wrong with it. `shadow` is what the grammar gets: a byte for each
    letter of the text."""

    text: str = ""
    shadow: bytes = b""
    problems: frozenset[Problem] = frozenset()


def prepare(text: str) -> Prepared:
    """The text as the grammar may read it: lines that go on are joined where nothing in it is quoted."""
    if "\0" in text:
        return Prepared(problems=frozenset({Problem.UNSENDABLE}))
    if len(text) > MAX_BYTES:
        return Prepared(problems=frozenset({Problem.TOO_LONG}))
    problems: set[Problem] = set()
    if "\\\n" in text:
        if _LITERAL_CONTEXT.search(text) is None:
            text = _GLUED.sub(r"\1", text)
        elif _GLUED_WORD.search(text):
            problems.add(Problem.UNPARSABLE)
    if _ODD_BLANKS.search(text):
        problems.add(Problem.ODD_BLANK)
    try:
        length = len(text.encode())
    except UnicodeEncodeError:
        return Prepared(problems=frozenset({Problem.UNSENDABLE}))
    if length > MAX_BYTES:
        problems.add(Problem.TOO_LONG)
    elif text.count("<<") > MAX_HERE_DOCUMENTS:
        problems.add(Problem.TOO_MANY)
    return Prepared(text, _BEYOND_ASCII.sub("x", text).encode(), frozenset(problems))


def ends_document(source: str, place: int, delimiter: Word, ending: str, text: str, dedent: bool) -> bool:
    """Whether a here-document ends where bash ends it: at the first line that is its delimiter and nothing else.

    `place` is where the grammar found `ending` in the source, behind `text`; it does not mind blanks around it. With
    `dedent` (`<<-`) tabs may stand before it.
    """
    before = source[source.rfind("\n", 0, max(place, 0)) + 1 : place]
    lines = (line.lstrip("\t") if dedent else line for line in text.split("\n"))
    return (
        place > 0
        and ending == delimiter
        and not (before.lstrip("\t") if dedent else before)
        and source[place + len(ending) : place + len(ending) + 1] in ("", "\n")
        and delimiter not in lines
    )
