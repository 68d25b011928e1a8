"""The lines of every kind of record, word for word, and that no text can be more than the text of its field."""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.audit import AuditEvent, AuditLog, EventKind
from gateway.audit.event import LineWriter, body_of
from gateway.review.verify import verify
from gateway.session import SandboxStamp, Session
from tests.audit.golden import HOSTILE, MOMENT, SEED, make_lines
from tests.fakes.rules import rules_for
from tests.source_tree import ROOT

GOLDEN = ROOT / "tests/data/audit/lines.jsonl"
LINES = GOLDEN.read_bytes().splitlines()
COMMON = ["v", "ts", "seq", "prev", "session", "workspace", "space", "agent", "sandbox", "event"]
SECRETS = ("hunter2", "geheim")
TOKENS = ("ghp_" + "x" * 36, "ghs_" + "y" * 36, "github_pat_" + "z" * 40)


# --- Golden lines ---------------------------------------------------------------------------------


def test_lines_word_for_word(tmp_path: Path) -> None:
    """`golden.py` says how to write them anew."""
    assert make_lines(tmp_path).splitlines() == LINES
    assert verify([tmp_path / "audit"], tmp_path).is_intact


def test_every_kind_has_a_line() -> None:
    assert {json.loads(line)["event"] for line in LINES} == {kind.value for kind in EventKind}


def test_a_reader_needs_nothing_of_ours() -> None:
    """Chain and signatures, as README tells it to anybody."""
    key, before = Ed25519PrivateKey.from_private_bytes(SEED).public_key(), b""
    for number, line in enumerate(LINES):
        record = json.loads(line)
        assert list(record)[: len(COMMON)] == COMMON
        assert record["v"] == 1
        assert record["seq"] == number
        assert record["prev"] == (hashlib.sha256(before).hexdigest() if number else "0" * 64)
        if record["event"] == "checkpoint":
            signed, _, rest = line.partition(b',"signature":"')
            key.verify(bytes.fromhex(rest.removesuffix(b'"}').decode()), signed)
            assert list(record)[-2:] == ["key", "signature"]
            assert record["key"] == hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]
            assert (record["head"], record["count"]) == (record["prev"], record["seq"])
        before = line


@pytest.mark.parametrize(
    "line", LINES, ids=lambda line: f"{json.loads(line)['event']}-{json.loads(line)['seq']}"
)
def test_lines_are_harmless_text(line: bytes) -> None:
    assert re.fullmatch(rb"[\x20-\x7e]+", line)
    assert not any(secret.encode() in line for secret in SECRETS)
    assert list(json.loads(line)) == list(json.loads(line, object_pairs_hook=_once))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len({name for name, _ in pairs}) == len(pairs), "a name stands there twice"
    return dict(pairs)


# --- Injection ------------------------------------------------------------------------------------

ATTACKS = {
    "hostile": HOSTILE,
    "newlines": 'a\r\n{"v":1,"seq":0}\n\n\x85\x0b\x0c',
    "terminal": "\x1b[2J\x1b]8;;http://x.test\x07\x9b31m\x00",
    "bidi": "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c",
    "quotes": '","verdict":"allow","x":"\\',
    "surrogates": "\ud800\udfff\udc00",
    "64 KiB": "x\n" * 32_768,
    "64 KiB beyond ASCII": "\U0001f600" * 16_384,
    "credentials": "Authorization: Bearer hunter2hunter2hunter2 https://u:hunter2@a.test/?k=hunter2 "
    + " ".join(TOKENS),
}  # fmt: skip


def replaced(value: Any, text: str) -> Any:
    """A JSON value with every text in it replaced, and those of names as well."""
    if isinstance(value, str):
        return text
    if isinstance(value, list):
        return [replaced(item, text) for item in value]
    if isinstance(value, dict):
        return {name + text: replaced(item, text) for name, item in value.items()}
    return value


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("kind", EventKind)
def test_no_field_can_be_more_than_a_field(tmp_path: Path, kind: EventKind, attack: str) -> None:
    """Every field of every kind of record, one after the other and all at once, and those of the session."""
    log, text = AuditLog(tmp_path), ATTACKS[attack]
    stamp = SandboxStamp(text, text)
    session = Session(text, stamp, rules_for(), "geheim", workspace=text, space=text, agent=text)
    written = 0
    for line in LINES:
        record = json.loads(line)
        fields = {name: value for name, value in record.items() if name not in COMMON}
        if record["event"] != kind:
            continue
        for name in fields:
            log.append(AuditEvent(kind, {**fields, name: replaced(fields[name], text)}, session))
            written += 1
        log.append(AuditEvent(kind, {name: replaced(value, text) for name, value in fields.items()}))
        written += 1
    log.close()
    data = log.path.read_bytes()
    assert re.fullmatch(rb"(?:[\x20-\x7e]+\n)+", data)
    assert data.count(b"\n") == written
    assert not any(secret.encode() in data for secret in (*SECRETS, *TOKENS))
    for line in data.splitlines():
        record = json.loads(line, object_pairs_hook=_once)
        assert record["event"] == kind
        assert len(line) < 1 << 20
        if attack.startswith("64"):
            assert record["truncated"] is True


# --- Lines and bodies -----------------------------------------------------------------------------


def test_a_body(tmp_path: Path) -> None:
    assert body_of(AuditEvent(EventKind.EGRESS, {})) == ("", False)
    assert body_of(AuditEvent(EventKind.EGRESS, {}, text=',"a":1', truncated=True)) == (',"a":1', True)
    assert body_of(AuditEvent(EventKind.EGRESS, {"b": "x" * 2_000}, text=',"a":1'))[1]


@pytest.mark.parametrize(
    ("clock", "text"),
    [(lambda: MOMENT, "2026-01-02T03:04:05.000006Z"), (lambda: 0, "1970-01-01T00:00:00.000000Z")],
)
def test_a_line(clock: Callable[[], int], text: str) -> None:
    line = LineWriter(clock).line(EventKind.CONFIG, None, ',"a":1', False, 7, "f" * 64)
    assert line.startswith(f'{{"v":1,"ts":"{text}","seq":7,"prev":"{"f" * 64}","session":null,'.encode())
    assert line.endswith(b'"event":"config","a":1}')
