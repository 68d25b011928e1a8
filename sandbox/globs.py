"""Many shell globs at once, over names or whole paths (`*` reaches over "/" too). Pure.

Nearly all of them are whole names, beginnings and endings, which need no expression: a supervisor asks for every file
that is created, and the others are compiled once (`re` is imported only where one is). As in fnmatch(3), without
escapes: `*`, `?`, `[ab]`, `[!ab]`.
"""

from _collections_abc import (
    Callable,
    Iterable,
)  # what `collections.abc` is, without the rest of `collections`

from sandbox.folding import fold

_WILD = "*?["


class Globs:
    """Globs in one form of their texts, `form` (folded, or as written). Immutable after construction.

    `plain`, `ends`, `begins` and `rest` are the kinds, for a caller that cannot afford a call.
    """

    __slots__ = ("_entries", "begins", "empty", "ends", "plain", "rest")

    def __init__(self, globs: tuple[str, ...], form: Callable[[str], str] = fold) -> None:
        self._entries = tuple((glob, form(glob)) for glob in globs if form(glob))
        texts = [text for _, text in self._entries]
        self.empty = not texts
        self.plain = frozenset(text for text in texts if _is_plain(text))
        self.ends = tuple(text[1:] for text in texts if text[0] == "*" and _is_plain(text[1:]))
        self.begins = tuple(text[:-1] for text in texts if text[-1] == "*" and _is_plain(text[:-1]))
        simple = {*self.plain, *(f"*{end}" for end in self.ends), *(f"{begin}*" for begin in self.begins)}
        self.rest = tuple(_compiled(text) for text in texts if text not in simple)

    def hit(self, text: str) -> bool:
        """Whether one of them matches; `text` in the same form."""
        if text in self.plain or text.endswith(self.ends) or text.startswith(self.begins):
            return True
        return any(matches(text) for matches in self.rest)

    def hit_any(self, texts: Iterable[str]) -> bool:
        """Whether one of them matches one of the texts."""
        return any(map(self.hit, texts))

    def find(self, texts: Iterable[str]) -> str:
        """The first glob, as it was given, that matches one of the texts; empty for none."""
        for text in texts:
            if self.hit(text):
                return next(glob for glob, one in self._entries if _fits(one, text))
        return ""


def _is_plain(text: str) -> bool:
    return not any(wild in text for wild in _WILD)


def _fits(glob: str, text: str) -> bool:
    """One glob against one text that some glob fits."""
    if _is_plain(glob):
        return glob == text
    if glob[0] == "*" and _is_plain(glob[1:]):
        return text.endswith(glob[1:])
    if glob[-1] == "*" and _is_plain(glob[:-1]):
        return text.startswith(glob[:-1])
    return _compiled(glob)(text) is not None


def _compiled(glob: str) -> Callable[[str], object]:
    import fnmatch
    import re

    return re.compile(fnmatch.translate(glob)).match
