"""Follows the chain through one file: every line's number and hash, and every checkpoint's signature.

The loop over lines is what a verification takes its time for; it looks at bytes and parses checkpoints alone.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from gateway.audit.event import EventKind
from gateway.audit.names import LogFile
from gateway.audit.register import Mark
from gateway.audit.sealing import Reason
from gateway.audit.signing import Keys, Signed
from gateway.review.diagnosis import START, diagnose
from gateway.review.files import UnreadableFile, iter_blocks
from gateway.review.findings import Problem, ProblemKind

# `{"v":1,"ts":"2026-01-02T03:04:05.000006Z` comes before the number and the hash of every line.
_BEFORE_SEQ: Final = 40
_CHECKPOINT: Final = b'"event":"checkpoint"'
# Problems of one file that are told: the first is what matters, thousands would hide it.
_MAX_PROBLEMS: Final = 20


@dataclass(slots=True)
class Scan:
    """What one file holds. `start` is where its first line says that it goes on, `tip` where it ends; None without
    records. Records before `signed` are covered by a good checkpoint of this file. `half` are bytes behind the last
    newline. `heads` are the hashes that were asked for. `claims` is the chain that its checkpoints name."""

    file: LogFile
    lines: int = 0
    start: Mark | None = None
    tip: Mark | None = None
    signed: int = 0
    claims: str = ""
    is_closed: bool = False
    half: int = 0
    heads: dict[int, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def scan_file(file: LogFile, wanted: frozenset[int], raw_keys: tuple[bytes, ...]) -> Scan:
    """Scans a file. `wanted` are numbers of records behind which the hash is asked for."""
    scan = Scan(file)
    try:
        _Scanner(scan, wanted, Keys(raw_keys)).run()
    except UnreadableFile as error:
        _problem(scan, ProblemKind.UNREADABLE, 0, error.message)
    return scan


class _Scanner:
    """The scan of one file. Changes."""

    def __init__(self, scan: Scan, wanted: frozenset[int], keys: Keys) -> None:
        self._scan = scan
        self._wanted = wanted
        self._keys = keys
        self._foreign: set[str] = set()

    def run(self) -> None:
        scan = self._scan
        for lines, rest in iter_blocks(scan.file):
            scan.half = len(rest)
            if lines and not self._block(lines):
                # Something is wrong with this file: it is read anew, slowly, to say what.
                self._diagnose()
                self._read_to_end()
                return

    def _diagnose(self) -> None:
        known = len(self._scan.problems)
        diagnose(self._scan.file, self._scan.problems, _MAX_PROBLEMS)
        if len(self._scan.problems) == known:
            _problem(
                self._scan, ProblemKind.EDITED, 0, "this file changed while it was read, or is no audit file"
            )

    def _block(self, lines: list[bytes]) -> bool:
        """Whether every line follows from the one before."""
        scan = self._scan
        if scan.start is None:
            found = START.match(lines[0])
            if found is None:
                return False
            scan.start = scan.tip = Mark(int(found[1]), found[2].decode())
        assert scan.tip is not None
        seq, head = scan.tip.count, scan.tip.head
        sha256, checkpoint, wanted = hashlib.sha256, _CHECKPOINT, self._wanted
        for line in lines:
            if not line.startswith(f'","seq":{seq},"prev":"{head}"'.encode(), _BEFORE_SEQ):
                return False
            if checkpoint in line:
                self._checkpoint(line, seq, head)
            elif scan.is_closed:
                scan.is_closed = False
                self._tell(ProblemKind.ADDED, seq, "a record stands behind the end of the log")
            head = sha256(line).hexdigest()
            seq += 1
            if seq in wanted:
                scan.heads[seq] = head
        # A last line that is no JSON would be found by nobody else.
        if lines[-1][-1:] != b"}":
            return False
        scan.lines += len(lines)
        scan.tip = Mark(seq, head)
        return True

    def _checkpoint(self, line: bytes, seq: int, head: str) -> None:
        try:
            record = json.loads(line)
            if record["event"] != EventKind.CHECKPOINT:
                return  # something in it is called so
            chain, reason = str(record["chain"]), Reason(record["reason"])
            claims = (record["head"], record["count"])
        except (ValueError, KeyError, TypeError, RecursionError):
            self._tell(ProblemKind.BAD_SIGNATURE, seq, "a checkpoint without what belongs into one")
            return
        signed = self._keys.check(line)
        if signed is Signed.FOREIGN:
            key = str(record["key"])
            if key not in self._foreign:
                self._foreign.add(key)
                self._tell(ProblemKind.FOREIGN_KEY, seq, f"signed with key {key}, which is not among ours")
        elif signed is not Signed.GOOD or claims != (head, seq):
            since = f"record {self._scan.signed}" if self._scan.signed else "the start of the file"
            text = f"the signature does not fit: this line, or some line since {since}, was written anew"
            self._tell(ProblemKind.BAD_SIGNATURE, seq, text)
        else:
            self._scan.signed = seq + 1
            self._belongs(chain, seq)
        self._scan.is_closed = reason is Reason.CLOSE

    def _belongs(self, chain: str, seq: int) -> None:
        """A signed checkpoint says to which chain the file belongs, whatever it is called now."""
        scan = self._scan
        if scan.claims == chain:
            return
        if scan.claims or (scan.file.is_ours and scan.file.chain != chain):
            text = f"this line belongs to chain {chain}, and the file to another"
            self._tell(ProblemKind.FOREIGN_FILE, seq, text)
        scan.claims = scan.claims or chain

    def _tell(self, kind: ProblemKind, seq: int, text: str) -> None:
        assert self._scan.start is not None
        _problem(self._scan, kind, seq - self._scan.start.count + 1, text)

    def _read_to_end(self) -> None:
        """Where a broken file starts and ends, so that the files around it can be judged. A hash that cannot be known,
        since the line beside it is no record, is empty."""
        scan = self._scan
        scan.start = scan.tip = None
        scan.lines = 0
        for lines, rest in iter_blocks(scan.file):
            scan.half = len(rest)
            self._signed_lines(lines)
            for line in lines:
                scan.lines += 1
                found = START.match(line)
                if found is not None:
                    seq = int(found[1])
                    if scan.start is None:
                        is_first = scan.lines == 1
                        scan.start = Mark(max(0, seq - scan.lines + 1), found[2].decode() if is_first else "")
                    scan.tip = Mark(seq + 1, hashlib.sha256(line).hexdigest())
                elif scan.tip is not None:
                    scan.tip = Mark(scan.tip.count + 1, "")

    def _signed_lines(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self._scan.is_closed = False
            if _CHECKPOINT in line and self._keys.check(line) is Signed.GOOD and (found := START.match(line)):
                self._scan.signed = max(self._scan.signed, int(found[1]) + 1)
                self._scan.is_closed = b'"reason":"close"' in line


def _problem(scan: Scan, kind: ProblemKind, line: int, text: str) -> None:
    if len(scan.problems) < _MAX_PROBLEMS:
        scan.problems.append(Problem(kind, str(scan.file.path), line, scan.file.chain, text))
