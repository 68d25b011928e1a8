"""Names of refs, patterns over them, and the refs that no rule opens. Pure functions over text.

A branch goes by its short name ("main"), everything else by its full one ("refs/tags/v1"). A pattern reads a name
in two ways: exactly, which is what an allow needs, and folded, as a denial or a question reads it.
"""

import re
import unicodedata
from dataclasses import dataclass, field
from typing import Final

from gateway.policy.marks import Mark, longest
from gateway.policy.masking import mask

HEADS: Final = "refs/heads/"
TAGS: Final = "refs/tags/"
# Bytes of a name. Git keeps a ref in a file, and few paths are longer; GitHub allows less. Bounds what a pattern costs.
MAX_REF: Final = 1024
ANY: Final = "**"

# git-check-ref-format(1), rules 1 to 10, for a full name; and what cannot be encoded.
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\\ud800-\udfff]|\.\.|@\{|//|/\.|\.lock(?:/|$)|[./]$")
_OBJECT_ID = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})")
# Namespaces that git or GitHub gives a meaning of its own, by the start of the folded name, with why.
_SPECIAL: tuple[tuple[str, str], ...] = (
    ("refs/pull/", "GitHub keeps the heads of pull requests there"),
    ("refs/replace/", "git shows what stands there in the place of other objects"),
    ("refs/__gh__/", "GitHub keeps it to itself"),
    ("refs/heads/gh-readonly-queue/", "GitHub's merge queue keeps its branches there"),
    ("refs/stash/", "git keeps it for one checkout"),
    ("refs/bisect/", "git keeps it for one checkout"),
    ("refs/rewritten/", "git keeps it for one checkout"),
    ("refs/worktree/", "git keeps it for one checkout"),
    ("refs/heads/refs/", "its short name reads like the full name of another ref"),
    ("refs/tags/refs/", "its short name reads like the full name of another ref"),
    ("refs/heads/-", "its short name reads like an option of a command"),
    ("refs/tags/-", "its short name reads like an option of a command"),
)

_SAMPLE = "any-name"
type _Segment = tuple[str, ...]  # what stands between the stars


class RefPatternError(ValueError):
    """A text that is no pattern, or one that matches no ref at all. The message says what to write instead."""


def is_ref_name(ref: str) -> bool:
    """Whether this is the full, valid name of a ref (git-check-ref-format(1)), text, and not too long."""
    return (
        ref.startswith("refs/")
        and len(ref) > len("refs/")
        and _FORBIDDEN.search(ref) is None
        and len(ref.encode()) <= MAX_REF
    )


def short_name(ref: str) -> str:
    """What rules and people call a ref: "refs/heads/x" is "x"; everything else keeps its full name."""
    return ref.removeprefix(HEADS)


def full_name(text: str) -> str:
    """The ref that a word means: one that starts with refs/ itself, otherwise the branch of this name."""
    return text if text.startswith("refs/") else HEADS + text


def special_ref(ref: str) -> str | None:
    """Why nobody pushes to this ref through the gateway, whatever the rules say; None for an ordinary one."""
    folded = caseless(ref)
    name = ref.removeprefix(HEADS) if ref.startswith(HEADS) else ref.removeprefix(TAGS)
    if name in ("HEAD", "@"):
        return "git gives this name to what is checked out"
    if _OBJECT_ID.fullmatch(name.lower()):
        return "its short name reads like the id of an object"
    if mask(ref) != ref:
        return "its name reads like a secret, which no record may show"
    if folded.startswith((HEADS, TAGS)) and not ref.startswith((HEADS, TAGS)):
        return "on some disks it is a branch or a tag, written differently"
    return next((why for start, why in _SPECIAL if f"{folded}/".startswith(start)), None)


def name_anchor(name: str) -> str:
    """How a name begins, as people and rules call it: its first segment, in full names the first two; caseless."""
    steps = caseless(name).split("/", 2)
    return "/".join(steps[:2]) if steps[0] == "refs" else steps[0]


def name_text(name: str) -> str:
    """Where the parts of patterns are looked for in a name: what is ASCII in it, and in its caseless form."""
    return name.lower() if name.isascii() else f"{caseless(name)}\0{name.lower()}"


def caseless(text: str) -> str:
    """The text without differences of case and of form (as in compatibility caseless matching, Unicode 3.13)."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


@dataclass(frozen=True, slots=True)
class RefPattern:
    """A glob over short names of branches and full names of other refs. Made by `parse_ref_pattern`.

    `*` stands for any part of one segment; `**` is a segment of its own and stands for any number of segments, at the
    end for at least one: "agent/**" is all below agent/ and not the branch "agent".
    """

    text: str
    _exact: tuple[_Segment, ...] = field(init=False, repr=False, compare=False)
    _folded: tuple[_Segment, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        exact = tuple(tuple(part.split("*")) for part in self.text.split("/"))
        folded = tuple(tuple(map(caseless, segment)) for segment in exact)
        object.__setattr__(self, "_exact", exact)
        object.__setattr__(self, "_folded", folded)

    def matches(self, ref: str, *, fold: bool) -> bool:
        """Whether this ref (full, valid name) is one of them.

        `fold` False: letter by letter, and a name that is not ASCII needs a pattern that is not ASCII either, since
        many letters look like others. True: also in any case and form of its letters.
        """
        name = short_name(ref)
        if fold:
            # In ASCII a lower case hides nothing: what matches exactly matches then, too.
            plain = ref.isascii() and self.text.isascii()
            return _match(self._folded, caseless(name)) or (not plain and _match(self._exact, name))
        if name.startswith("refs/") and ref.startswith(HEADS):
            return False  # a branch that is called like another ref
        return (ref.isascii() or not self.text.isascii()) and _match(self._exact, name)

    @property
    def mark(self) -> Mark:
        """How every name begins that it matches, in every reading (`name_anchor`), where stars do not leave it open;
        and the longest part of it."""
        steps = self.text.split("/")
        begins = steps[: 2 if steps[0] == "refs" else 1]
        anchor = "" if any("*" in step for step in begins) else name_anchor(self.text)
        pieces = (piece for step in steps for piece in step.split("*"))
        return Mark(anchor, caseless(longest(pieces)) if self.text.isascii() else "")

    @property
    def sample(self) -> str:
        """The full name of one ref that it matches, an unlikely one where stars leave the choice."""
        return full_name(self.text.replace(ANY, _SAMPLE).replace("*", _SAMPLE))

    def reaches(self, start: str) -> bool:
        """Whether it can match a name that starts with `start` ("refs/tags/"), letter by letter."""
        return _reaches(self._exact, tuple(start.rstrip("/").split("/")))


_DOUBLE: Final[_Segment] = ("", "", "")


def _match(pattern: tuple[_Segment, ...], name: str) -> bool:
    """Greedy, with one step back to the last `**`: at most segments × pattern comparisons, whoever chose the name."""
    if not name.startswith(pattern[0][0]):
        return False  # most names; and what the pattern starts with is in one segment
    segments = name.split("/")
    at = position = 0
    resume: tuple[int, int] | None = (
        None  # after the last `**`, and the segment that it has not swallowed yet
    )
    while position < len(segments):
        if at < len(pattern) and pattern[at] == _DOUBLE:
            at += 1
            resume = at, position
        elif at < len(pattern) and _match_segment(pattern[at], segments[position]):
            at, position = at + 1, position + 1
        elif resume is not None:
            at, position = resume[0], resume[1] + 1
            resume = at, position
        else:
            return False
    return at == len(pattern)  # a `**` at the end that met no segment is not used up


def _match_segment(pieces: _Segment, segment: str) -> bool:
    """The pieces in this order, the first at the start, the last at the end."""
    if len(pieces) == 1:
        return segment == pieces[0]
    first, last = pieces[0], pieces[-1]
    end = len(segment) - len(last)
    if not segment.startswith(first) or not segment.endswith(last) or end < len(first):
        return False
    start = len(first)
    for piece in pieces[1:-1]:
        found = segment.find(piece, start, end)
        if found < 0:
            return False
        start = found + len(piece)
    return True


def _reaches(pattern: tuple[_Segment, ...], start: tuple[str, ...]) -> bool:
    if not pattern or not start:
        return bool(pattern)  # what is left of the pattern must have a segment to match
    if pattern[0] == _DOUBLE:
        return _reaches(pattern[1:], start) or _reaches(pattern, start[1:])
    return _match_segment(pattern[0], start[0]) and _reaches(pattern[1:], start[1:])


def parse_ref_pattern(text: str) -> RefPattern:
    """The pattern that a text is. RefPatternError where no ref could match, or another than was meant."""
    if caseless(text).startswith(HEADS):
        raise RefPatternError("branches go by their short names: write it without refs/heads/")
    if caseless(text).startswith("refs/") and not text.startswith("refs/"):
        raise RefPatternError("full names start with refs/ in lower case: write it so")
    if text.startswith("!"):
        raise RefPatternError("nothing is left out by a !: write a rule of its own, with the other decision")
    if "{" in text and "," in text:
        raise RefPatternError("braces stand for themselves: write one entry for each name")
    for part in text.split("/"):
        if ANY in part and part != ANY:
            raise RefPatternError(
                "** is a segment of its own: write agent/**, or one star for a part of a segment"
            )
    if any(sign in text for sign in "?[\\"):
        raise RefPatternError("of all signs only * and ** stand for others: write one entry for each name")
    # Whatever the stars stand for: the rest of the name must be one that git takes.
    sample = text.replace(ANY, "x").replace("*", "x")
    if not is_ref_name(full_name(sample)):
        raise RefPatternError(
            "no ref has such a name: write a branch's short name, or a full name under refs/"
        )
    return RefPattern(text)
