"""What rules are found by: marks that a request must bear for a rule to fit it. So that a decision looks at few rules.

Knows no rules. A mark never says that a rule fits, only that no other one can.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gateway.policy.actions import Action


@dataclass(frozen=True, slots=True)
class Mark:
    """A request bears it if `anchor` is among its anchors and `fragment` stands somewhere in its text. Empty: any."""

    anchor: str = ""
    fragment: str = ""


ANYTHING: Final = (Mark(),)


class MarkIndex[Thing]:
    """Things by action and mark. Made once, never changed."""

    __slots__ = ("_anchored", "_loose")

    def __init__(self, entries: Iterable[tuple[Action, Iterable[Mark], Thing]]) -> None:
        self._anchored: dict[tuple[Action, str], list[tuple[str, Thing]]] = {}
        self._loose: dict[Action, list[tuple[str, Thing]]] = {}
        for action, marks, thing in entries:
            for mark in marks:
                if mark.anchor:
                    self._anchored.setdefault((action, mark.anchor), []).append((mark.fragment, thing))
                else:
                    self._loose.setdefault(action, []).append((mark.fragment, thing))

    def find(self, action: Action, anchors: Iterable[str], text: str) -> list[Thing]:
        """Everything with a mark that is borne, some of it more than once."""
        found = [thing for fragment, thing in self._loose.get(action, ()) if fragment in text]
        for anchor in anchors:
            found += [
                thing for fragment, thing in self._anchored.get((action, anchor), ()) if fragment in text
            ]
        return found


def longest(pieces: Iterable[str]) -> str:
    """The piece that says most: of what stands between the stars of a glob."""
    return max(pieces, key=len, default="")
