"""What happened to each ref of a push: our report for the client written, the upstream's read (gitprotocol-pack,
"Report Status"; git's send-pack.c says what the client makes of it).

Pure. Nobody's text reaches a client unfiltered: a reason is one printable line that git shows as what it is.
"""

import re
from codecs import getincrementaldecoder
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gateway.policy.wording import printable
from gateway.push.capabilities import Capabilities, Report
from gateway.push.pkt import FLUSH, Flush, PktError, PktReader, pkt, sideband

REASON_LIMIT: Final = 900  # bytes; git prints more, but nobody reads it
UPSTREAM: Final = "GitHub"  # whose reasons and texts the parser reads, as a client reads it
NO_STATUS: Final = f"no status from {UPSTREAM}"
ATOMIC: Final = "atomic push failure"  # as git's receive-pack says of the innocent refs
INNOCENT: Final = "not pushed because another ref in this push was refused"
# An empty packet of the report's band: git shows nothing. A flush would end the answer.
KEEP_ALIVE: Final = b"0005\x01"

# Reasons that git's transport-helper takes for something else than a refusal: it says "Everything up-to-date", gives
# hints that are wrong, or forgets them.
_MAGIC: Final = frozenset({
    "up to date", "no match", "non-fast forward", "already exists", "fetch first", "needs force", "stale info",
    "remote ref updated since checkout", "forced update", "expecting report",
})  # fmt: skip

# An answer is a line for each ref, which are 2,000 of 1 KiB at most, and some text.
ANSWER_LIMIT: Final = 8 << 20
TEXT_LIMIT: Final = 64 << 10  # characters of the upstream's text that a client gets to see
_LINE_LIMIT: Final = 4 << 10  # characters of a line of it
_HELD_LIMIT: Final = (
    2 * _LINE_LIMIT
)  # characters held of a line that does not end: a credential is longer than its mask
_CUT: Final = f"(more text from {UPSTREAM} is not shown)\n"

# What would end a ref's name within a line of the report. `wire_name` holds none of it.
_NOT_IN_A_NAME: Final = re.compile(r"[\x00-\x20\x7f]")

# The upstream has just seen our credential. Were it to quote it, nobody but us may read it.
_CREDENTIAL: Final = re.compile(r"gh[a-z]_[A-Za-z0-9._-]{8,}|eC1hY2Nlc3MtdG9rZW46[A-Za-z0-9+/=_-]*")
_HIDDEN: Final = "***"


@dataclass(frozen=True, slots=True)
class Status:
    """One ref's outcome. `ref` is a command's `wire_name`; `reason` is "" where `ok`."""

    ref: str
    ok: bool
    reason: str = ""


def refused(ref: str, reason: str, label: str) -> Status:
    """A refusal of ours: `label` are the words before "policy:" (`push.label`)."""
    return Status(ref, False, one_line(f"{label} policy: {reason}"))


def one_line(text: str) -> str:
    """Text made fit for a report: one printable line without credentials, at most 900 bytes of UTF-8, never empty and
    never a word that git understands in its own way."""
    line = _CREDENTIAL.sub(_HIDDEN, printable(" ".join(text.split())))
    if len(line.encode("utf-8")) > REASON_LIMIT:
        line = line.encode("utf-8")[: REASON_LIMIT - 3].decode("utf-8", "ignore") + "..."
    if not line or line in _MAGIC:
        return f"refused: {line}" if line else "refused"
    return line


def report(statuses: Sequence[Status], capabilities: Capabilities, unpack: str = "ok") -> bytes:
    """The end of the answer to a push: all of it, unless texts and keep-alives went before.

    `unpack` is "ok", or what the upstream said of the pack; git shows anything else as an error of its own.
    ValueError if the client asked for no report (it would take any answer for success), there is nothing to report, or
    a name is no `wire_name`.
    """
    if any(_NOT_IN_A_NAME.search(status.ref) for status in statuses):
        raise ValueError("a ref's name cannot be written in a line of a report")
    if capabilities.report is Report.NONE or not statuses:
        raise ValueError("a push without refs or without a report cannot be reported")
    lines = [f"unpack {unpack if unpack == 'ok' else one_line(unpack)}\n".encode()]
    for status in statuses:
        line = f"ok {status.ref}\n" if status.ok else f"ng {status.ref} {one_line(status.reason)}\n"
        lines.append(line.encode("utf-8", "surrogateescape"))
    data = b"".join(map(pkt, lines)) + FLUSH
    return b"".join(sideband(1, data)) + FLUSH if capabilities.sideband else data


def refusal_report(statuses: Sequence[Status], capabilities: Capabilities) -> bytes:
    """The answer to a push of which nothing was forwarded. ValueError if a status says otherwise; else as `report`."""
    if any(status.ok for status in statuses):
        raise ValueError("a ref of a refused push is reported as updated")
    return report(statuses, capabilities)


def progress(text: str) -> bytes:
    """Text for the client's eyes on band 2, which git shows behind `remote: `. Only for clients with a side-band.

    Lines may end in LF, or in CR for one that the next one overwrites; everything else that is not printable is
    escaped. A missing line end is added.
    """
    clean = _visible(text)
    if not clean:
        return b""
    ended = clean if clean.endswith(("\n", "\r")) else clean + "\n"
    return b"".join(sideband(2, ended.encode("utf-8")))


def _visible(text: str) -> str:
    return "".join(one if one in "\n\r\t" else printable(one) for one in text)


class RelayedText:
    """The upstream's text, from bytes in any pieces to lines fit to be shown. Changes.

    Held back until a line ends, so that a credential is recognised whole; all in all at most 64 Ki characters.
    """

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._left = TEXT_LIMIT

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """The lines that are complete now, with their ends; with `final` also the last one without."""
        if self._left <= 0:
            return ""
        # GitHub sends a lone NUL before its report: it is no text.
        text = self._decoder.decode(data, final).replace("\0", "")
        if not final and "\n" not in text and "\r" not in text:
            self._held = (self._held + text)[:_HELD_LIMIT]
            return ""
        lines = re.split(r"(?<=[\n\r])", self._held + text)
        self._held = "" if final else lines.pop()[:_HELD_LIMIT]
        shown = "".join(map(_shown_line, lines))
        self._left -= len(shown)
        return shown if self._left > 0 else shown[: self._left or None] + "\n" + _CUT


def _shown_line(line: str) -> str:
    body = line.rstrip("\n\r")
    end = line[len(body) :]
    clean = _visible(_CREDENTIAL.sub(_HIDDEN, body[:_HELD_LIMIT]))
    return (clean if len(clean) <= _LINE_LIMIT else clean[:_LINE_LIMIT] + "...") + end


@dataclass(frozen=True, slots=True)
class UpstreamReport:
    """What the upstream said. `statuses` has one for each ref that was forwarded, in that order.

    `complete`: the report came to its end and named each of them. `fault` is a sentence where the answer could not be
    read; `unpack` is "ok", "" where nothing was said, or the upstream's word for what was wrong with the pack.
    """

    statuses: tuple[Status, ...]
    unpack: str
    complete: bool
    fault: str = ""


class ReportParser:
    """Reads the upstream's answer to a forwarded push, in any pieces, with or without side-band. Changes.

    Believes nothing that was not said plainly: a ref counts as updated only where the pack was unpacked and one line,
    for a ref that was forwarded, says so and none says otherwise.
    """

    def __init__(self, refs: Iterable[str]) -> None:
        self.broken = False  # the answer makes no sense or is too long: there is no use in reading on
        self._refs = tuple(refs)
        self._known = frozenset(self._refs)
        self._outer = PktReader()
        self._inner = PktReader()
        self._banded: bool | None = None
        self._text = RelayedText()
        self._size = 0
        self._unpack = ""
        self._statuses: dict[str, Status] = {}
        self._ended = False  # the report's own flush was read
        self._closed = False  # the answer's
        self._error = ""
        self._fault = ""

    def feed(self, data: bytes) -> str:
        """Takes the next bytes; returns what the client should be shown of them (`progress`), "" for nothing."""
        if self.broken or self._closed:
            return ""
        self._size += len(data)
        if self._size > ANSWER_LIMIT:
            return self._break("is too long")
        shown = []
        try:
            self._outer.feed(data)
            while (packet := self._outer.next()) is not None:
                if isinstance(packet, Flush):
                    self._close()
                else:
                    shown.append(self._take(packet))
        except PktError:
            shown.append(self._break("cannot be read"))
        return "".join(shown)

    def finish(self, missing: str = NO_STATUS) -> tuple[UpstreamReport, str]:
        """To be called at the answer's end, however it came about: the report, and the last text to be shown.

        `missing` is the reason of refs of which nothing was heard, unless the upstream said what was wrong instead.
        """
        if self._outer.pending or self._inner.pending:
            self._fault = self._fault or f"{UPSTREAM}'s answer is cut off"
        statuses = tuple(self._judged(ref, missing) for ref in self._refs)
        complete = self._ended and all(ref in self._statuses for ref in self._refs)
        report_read = UpstreamReport(statuses, self._unpack, complete, self._fault)
        return report_read, self._text.feed(b"", final=True)

    def _close(self) -> None:
        """The answer's end; git reads nothing behind it either."""
        self._closed = True
        self._ended = self._ended or not self._banded
        self._outer.rest()

    def _take(self, packet: bytes) -> str:
        """Text to be shown, "" for a packet without."""
        if self._banded is None:
            self._banded = packet[:1] in (b"\1", b"\2", b"\3")
        if not self._banded:
            self._take_line(packet)
            return ""
        band, data = packet[:1], packet[1:]
        if band == b"\1":
            self._take_report(data)
            return ""
        if band in (b"\2", b"\3"):
            return self._text.feed(data)
        raise PktError("no such band")

    def _take_report(self, data: bytes) -> None:
        if self._ended:
            return
        self._inner.feed(data)
        while (line := self._inner.next()) is not None:
            if isinstance(line, Flush):
                self._ended = True
                self._inner.rest()
            else:
                self._take_line(line)

    def _take_line(self, line: bytes) -> None:
        word, _, rest = line.removesuffix(b"\n").partition(b" ")
        if word == b"ERR":
            self._fault = self._error = one_line(f"{UPSTREAM} says: {rest.decode('utf-8', 'replace')}")
        elif not self._unpack:
            if word != b"unpack":
                raise PktError("a report begins with unpack")
            self._unpack = "ok" if rest == b"ok" else one_line(rest.decode("utf-8", "replace"))
        elif word in (b"ok", b"ng"):
            self._take_status(word == b"ok", rest)
        elif word != b"option":  # of version 2: what a hook of the upstream made of the update
            raise PktError("no such line in a report")

    def _take_status(self, ok: bool, rest: bytes) -> None:
        name, _, reason = rest.decode("utf-8", "surrogateescape").partition(" ")
        if name not in self._known:
            return
        before = self._statuses.get(name)
        if before is None or before.ok:
            said = reason.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            self._statuses[name] = Status(name, ok, "" if ok else _said(said))

    def _judged(self, ref: str, missing: str) -> Status:
        status = self._statuses.get(ref)
        if status is None:
            return Status(ref, False, self._error or one_line(missing))
        if status.ok and self._unpack != "ok":
            return replace(status, ok=False, reason=one_line(f"{UPSTREAM} could not unpack the push"))
        return status

    def _break(self, how: str) -> str:
        self.broken = True
        self._fault = f"{UPSTREAM}'s answer {how}"
        return ""


def _said(reason: str) -> str:
    """The upstream's reason as it said it, unless git would take it for something else."""
    plain = " ".join(reason.split())
    return f"{UPSTREAM}: {plain}" if plain in _MAGIC else one_line(plain or f"refused by {UPSTREAM}")
