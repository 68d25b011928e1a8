"""What git asks for before it pushes: the refs as receive-pack would list them, made from what a fetch is told.

Built from protocol v2's `ls-refs` (gitprotocol-v2), which the read token is good for, line by line: a list of any
length takes the memory of one piece. Left out is what receive-pack never lists, and what GitHub hides from a push.
"""

import re
from typing import Final

from gateway.push.capabilities import ID_LENGTHS, OFFERED, OWN_AGENT, ObjectFormat
from gateway.push.pkt import DELIM, FLUSH, Flush, PktError, PktReader, pkt

RESULT_TYPE: Final = "application/x-git-receive-pack-advertisement"

_HEAD: Final = pkt(b"# service=git-receive-pack\n") + FLUSH
# GitHub keeps pull requests there and refuses to have them pushed; `git push --mirror` would try to delete them.
_HIDDEN: Final = b"refs/pull/"
_NAME: Final = re.compile(rb"refs/[^\x00-\x20\x7f]+")


class AdvertisementError(ValueError):
    """What came is no list of refs. The text is a sentence."""


def offered_capabilities(object_format: ObjectFormat) -> bytes:
    """The capability list of the advertisement."""
    values = {"object-format": object_format, "agent": OWN_AGENT}
    return " ".join(f"{name}={values[name]}" if name in values else name for name in OFFERED).encode()


def list_refs_request(object_format: ObjectFormat) -> bytes:
    """The body of the `ls-refs` request; no peeled tags, no symbolic refs."""
    return (
        pkt(b"command=ls-refs\n")
        + pkt(f"agent={OWN_AGENT}\n".encode())
        + pkt(f"object-format={object_format}\n".encode())
        + DELIM
        + pkt(b"ref-prefix refs/\n")
        + FLUSH
    )


class Advertisement:
    """Turns the answer to `list_refs_request` into the advertisement. Changes."""

    def __init__(self, object_format: ObjectFormat) -> None:
        self._capabilities = offered_capabilities(object_format)
        self._zero = b"0" * ID_LENGTHS[object_format]
        self._line = re.compile(rb"([0-9a-f]{%d}) ([^ \n]+)(?: .*)?\n?" % ID_LENGTHS[object_format])
        # What receive-pack would write as well, to the byte, as most lines are; group 1 of a hidden one is not empty.
        name = rb"refs/(pull/)?+[!-~\x80-\xff]++(?<!\^\{\})"
        self._plain = re.compile(rb"[0-9a-f]{4}[0-9a-f]{%d} %b\n" % (ID_LENGTHS[object_format], name))
        self._rest = b""
        self._begun = False
        self._ended = False

    def feed(self, data: bytes) -> bytes:
        """The next bytes of the advertisement; nothing before the first ref. AdvertisementError."""
        if self._ended:
            raise AdvertisementError("GitHub's list of refs goes on after its end")
        data, at = self._rest + data, 0
        made: list[bytes] = []
        while not self._ended:
            if self._begun:
                at = self._take_over(data, at, made)
            packet, end = _packet_at(data, at)
            if packet is None:
                break
            at = end
            if isinstance(packet, Flush):
                self._ended = True
            else:
                made.append(self._written(packet))
        self._rest = data[at:]
        return b"".join(made)

    def finish(self) -> bytes:
        """The end of the advertisement. AdvertisementError where the list was cut off."""
        if not self._ended:
            raise AdvertisementError("GitHub's list of refs is cut off")
        if self._begun:
            return FLUSH
        return _HEAD + pkt(b"%b capabilities^{}\0%b\n" % (self._zero, self._capabilities)) + FLUSH

    def _take_over(self, data: bytes, at: int, made: list[bytes]) -> int:
        """Takes the lines that may stay as they are, and leaves out hidden ones, up to the first that is neither; the
        place of that. A hundred thousand lines must not take a second."""
        start = at
        while match := self._plain.match(data, at):
            end = match.end()
            if int(data[at : at + 4], 16) != end - at:
                break
            if match[1]:
                made.append(data[start:at])
                start = end
            at = end
        made.append(data[start:at])
        return at

    def _written(self, packet: bytes) -> bytes:
        match = self._line.fullmatch(packet)
        if match is None:
            raise AdvertisementError("GitHub's list of refs has a line that is none")
        name = match[2]
        if name.startswith(_HIDDEN) or not _NAME.fullmatch(name) or name.endswith(b"^{}"):
            return b""
        if self._begun:
            return pkt(b"%b %b\n" % (match[1], name))
        self._begun = True
        return _HEAD + pkt(b"%b %b\0%b\n" % (match[1], name, self._capabilities))


def _packet_at(data: bytes, at: int) -> tuple[bytes | Flush | None, int]:
    """The packet that begins there, None if it is not all there, and where it ends. AdvertisementError."""
    reader = PktReader()
    reader.feed(data[at : at + 4])
    try:
        end = at + max(4, reader.length() or 0)
        reader.feed(data[at + 4 : end])
        return reader.next(), end
    except PktError as error:
        raise AdvertisementError(f"GitHub's list of refs cannot be read: {error}") from error
