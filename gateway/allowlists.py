"""Finds and reads the shipped lists (the package `allowlists`): the one place where they meet the disk.

Nothing is ever more open because a file is missing, empty or cut short: any fault is an error, and the head
of each file claims how many entries every group has. What a line means stands in `gateway.policy.lists`.
"""

from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from gateway.errors import GatewayError
from gateway.policy.cautions import Cautions
from gateway.policy.lists import MAX_FILE, ParsedList, parse_list
from gateway.policy.problem import Problem

BASELINE = "baseline.txt"
GITHUB = "github.txt"
DENY = "deny.txt"
CAUTIONS = "cautions.txt"
REDIRECTS = "redirects.txt"

_PACKAGE = "allowlists"
_SHOWN = 20  # problems in one message; a wrong file would otherwise fill the terminal


@dataclass(frozen=True, slots=True)
class ShippedLists:
    """The three lists, each free of errors."""

    baseline: ParsedList
    github: ParsedList
    deny: ParsedList


class ListsError(GatewayError):
    """Faults in the shipped lists, each on a line of its own."""

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(str(self).split("\n"))


def load_shipped(root: Traversable | None = None) -> ShippedLists:
    """Reads the lists from `root` (a folder), by default from the installed package.

    GatewayError names every fault as FILE:LINE: a file that is missing, no regular file, unreadable, empty or
    too long, a line that is no entry, a group with more or fewer entries than the head claims.
    """
    try:
        folder = files(_PACKAGE) if root is None else root
    except ModuleNotFoundError as error:
        raise GatewayError("the shipped lists are not installed", "install agent-gateway again") from error
    lists = {name: _read(folder, name) for name in (BASELINE, GITHUB, DENY)}
    faults = [problem for parsed in lists.values() for problem in (*parsed.errors, *_miscounted(parsed))]
    if faults:
        shown = "\n".join(map(str, faults[:_SHOWN]))
        rest = f"\nand {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise ListsError(f"the shipped lists cannot be used:\n{shown}{rest}", f"they stand in {folder}")
    return ShippedLists(lists[BASELINE], lists[GITHUB], lists[DENY])


def load_cautions(root: Traversable | None = None) -> Cautions:
    """What is known of hosts besides what the lists say; from `root` or the package, as above. ListsError."""
    folder = files(_PACKAGE) if root is None else root
    parsed = [_read(folder, name) for name in (CAUTIONS, REDIRECTS)]
    faults = [problem for one in parsed for problem in (*one.errors, *_miscounted(one))]
    if faults:
        raise ListsError("what is known of hosts cannot be read:\n" + "\n".join(map(str, faults[:_SHOWN])))
    return Cautions(*parsed)


def _read(folder: Traversable, name: str) -> ParsedList:
    """The parsed file; one that cannot be read is a list of one problem."""
    path = folder.joinpath(name)
    try:
        if path.is_file():
            with path.open("rb") as file:
                # One byte more than allowed, so that the parser sees a file that is too long.
                return parse_list(file.read(MAX_FILE + 1), name)
        fault = "the list is missing, or no regular file"
    except OSError as error:
        fault = f"the list cannot be read: {error.strerror}"
    return ParsedList(name, problems=(Problem(name, 0, fault),))


def _miscounted(parsed: ParsedList) -> tuple[Problem, ...]:
    """A problem for every group whose number of entries is not the one its head claims."""
    if parsed.errors:
        return ()  # entries are missing already, and the message names the lines
    found = Counter(entry.group for entry in parsed.entries)
    return tuple(
        Problem(
            parsed.name,
            0,
            f"{found[group]} entries of group {group or 'none'}, where the head claims "
            f"{parsed.counts.get(group, 0)}: restore the lost lines, or correct the group or the count",
        )
        for group in sorted(found.keys() | parsed.counts.keys())
        if found[group] != parsed.counts.get(group, 0)
    )
