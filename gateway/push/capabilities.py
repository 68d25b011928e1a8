"""The capability list of a push (gitprotocol-capabilities): the client's read strictly, ours written.

Pure. Nothing of the client's list is passed on; what it asks for that was not offered is refused, since git's own
readers differ in what they then expect of the bytes that follow.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

import gateway

type ObjectFormat = Literal["sha1", "sha256"]

# Hexadecimal digits of an object id.
ID_LENGTHS: Final[Mapping[ObjectFormat, int]] = {"sha1": 40, "sha256": 64}

# What the advertisement may offer: no push certificates and no push options, for their blocks of their own.
OFFERED: Final = (
    "report-status",
    "report-status-v2",
    "delete-refs",
    "side-band-64k",
    "quiet",
    "atomic",
    "ofs-delta",
    "object-format",
    "agent",
)
# Of these, what comes with a value. git reads `atomic=no` as a request for `atomic`.
_VALUED: Final = frozenset({"object-format", "agent"})

OWN_AGENT: Final = f"agent-gateway/{gateway.__version__}"
_AGENT_SHOWN: Final = 100  # characters: a record names the client's program, it need not tell its life
_TOKEN: Final = re.compile(rb"[!-~]+")


class CapabilityError(ValueError):
    """A capability list that is not understood exactly; the text is a sentence."""


class Report(StrEnum):
    """Which report the client asked for."""

    NONE = ""
    V1 = "report-status"
    V2 = "report-status-v2"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the client asked for. `agent` is its program as it says, printable ASCII, for the record only."""

    report: Report
    sideband: bool
    quiet: bool
    atomic: bool
    object_format: ObjectFormat
    agent: str = ""


def parse_capabilities(text: bytes, object_format: ObjectFormat, offered: frozenset[str]) -> Capabilities:
    """Reads what stands behind the NUL of the first command. `offered` are names, as in `OFFERED`.

    CapabilityError for what was not offered, a value where none belongs or none where one does, and for another
    object format than the repository's.
    """
    asked: set[str] = set()
    agent = ""
    for token in text.split(b" "):
        if not token:
            continue
        name, equals, value = token.partition(b"=")
        spelt = _spelt(name, offered)
        if bool(equals) != (spelt in _VALUED):
            raise CapabilityError(f"the capability {spelt} is written in a form that was not offered")
        if spelt == "agent":
            agent = agent or _sanitised(value)
        elif spelt == "object-format" and value != object_format.encode():
            raise CapabilityError(f"the repository's object format is {object_format}")
        asked.add(spelt)
    report = Report.V1 if Report.V1 in asked else Report.NONE
    return Capabilities(
        report=Report.V2 if Report.V2 in asked else report,
        sideband="side-band-64k" in asked,
        quiet="quiet" in asked,
        atomic="atomic" in asked,
        object_format=object_format,
        agent=agent,
    )


def write_capabilities(asked: Capabilities) -> bytes:
    """Our own list for the upstream: a report in both versions, since an older server knows only the first, and the
    side-band always, whatever the client asked for: the truth about the push is wanted here."""
    names = [Report.V1.value, Report.V2.value, "side-band-64k"]
    names += ["quiet"] if asked.quiet else []
    names += ["atomic"] if asked.atomic else []
    return " ".join([*names, f"object-format={asked.object_format}", f"agent={OWN_AGENT}"]).encode()


def _spelt(name: bytes, offered: frozenset[str]) -> str:
    known = {one.encode(): one for one in offered}
    if name not in known:
        shown = name.decode("ascii") if _TOKEN.fullmatch(name) else "with unprintable characters"
        raise CapabilityError(f"the capability {shown[:_AGENT_SHOWN]} was not offered")
    return known[name]


def _sanitised(value: bytes) -> str:
    """As git does with its own: everything but printable ASCII becomes a dot."""
    return "".join(chr(one) if 0x21 <= one <= 0x7E else "." for one in value[:_AGENT_SHOWN])
