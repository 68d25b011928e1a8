"""What is known of chains outside the log: written whole, believed only when we signed it."""

import json
import os
import stat
from pathlib import Path

import pytest

from gateway.audit.register import Entry, Mark, Register, State
from gateway.audit.signing import Keys, Signed, Signer
from gateway.errors import AuditError

A, B = "a" * 64, "b" * 64
CHAIN = "12-0123abcd"
ENTRY = Entry(CHAIN, "/var/log/audit", Mark(7, A))


@pytest.fixture
def register(tmp_path: Path) -> Register:
    return Register(tmp_path, Signer(tmp_path))


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Signer(tmp_path).keys


@pytest.mark.parametrize(
    "entry",
    [
        ENTRY,
        Entry(CHAIN, "", Mark(0, A), State.CLOSED),
        Entry(CHAIN, '/a "b"\n\u2028ü', Mark(7, A), State.OPEN, Mark(3, B)),
    ],
)
def test_an_entry_is_read_as_it_was_written(register: Register, keys: Keys, entry: Entry) -> None:
    register.write(ENTRY)
    register.write(entry)
    found = register.read(CHAIN, keys)
    assert found is not None
    assert (found.entry, found.signed) == (entry, Signed.GOOD)
    assert list(register.chains()) == [CHAIN]
    assert os.listdir(register.folder) == [f"{CHAIN}.json"]
    assert stat.S_IMODE(found.path.stat().st_mode) == 0o600
    assert found.path.read_bytes().isascii()


def test_where_there_is_none(register: Register, keys: Keys, tmp_path: Path) -> None:
    assert list(register.chains()) == []
    for chain in (CHAIN, "../x", "", "12-0123ABCD"):
        assert register.read(chain, keys) is None
    register.write(ENTRY)
    (register.folder / f"{CHAIN}.json").write_bytes(b"")
    assert register.read(CHAIN, keys) is None
    (register.folder / "notes.json").write_bytes(b"")
    assert list(register.chains()) == [CHAIN]


@pytest.mark.parametrize(
    "text",
    [
        "rubbish",
        "[]",
        "{}",
        "null",
        '{"register":2}',
        '{"register":1}',
        '{"register":1,"tip":{"count":-1}}',
        "\xff",
        "[" * 50_000,
    ],
)
def test_what_is_no_entry(register: Register, keys: Keys, text: str) -> None:
    register.write(ENTRY)
    (register.folder / f"{CHAIN}.json").write_text(text)
    found = register.read(CHAIN, keys)
    assert found is not None
    assert (found.entry, found.signed) == (None, Signed.NONE)


def test_an_entry_of_another_chain_is_none(register: Register, keys: Keys) -> None:
    register.write(ENTRY)
    (register.folder / f"{CHAIN}.json").rename(register.folder / "13-0123abcd.json")
    found = register.read("13-0123abcd", keys)
    assert found is not None
    assert found.entry is None


def test_a_change_is_seen(register: Register, keys: Keys) -> None:
    register.write(ENTRY)
    path = register.folder / f"{CHAIN}.json"
    path.write_text(path.read_text().replace('"count":7', '"count":6'))
    found = register.read(CHAIN, keys)
    assert found is not None
    assert found.signed is Signed.BAD


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    register = Register(tmp_path, Signer(tmp_path))
    register.folder.write_text("")
    with pytest.raises(AuditError, match="register of audit chains"):
        register.write(ENTRY)


def test_removals_are_noted(register: Register, keys: Keys) -> None:
    register.write(Entry(CHAIN, "/x", Mark(7, A), State.CLOSED))
    register.note_removed(CHAIN, "/y", Mark(3, B))
    found = register.read(CHAIN, keys)
    assert found is not None
    assert found.entry == Entry(CHAIN, "/x", Mark(7, A), State.CLOSED, Mark(3, B))
    assert not found.entry.is_removed
    register.note_removed("13-0123abcd", "/y", Mark(3, B))
    found = register.read("13-0123abcd", keys)
    assert found is not None
    assert found.entry == Entry("13-0123abcd", "/y", Mark(3, B), State.CLOSED, Mark(3, B))
    assert found.entry.is_removed


def test_what_is_not_ours_is_not_signed_anew(register: Register) -> None:
    register.write(ENTRY)
    path = register.folder / f"{CHAIN}.json"
    fields = json.loads(path.read_text())
    fields["tip"]["count"] = 3
    path.write_text(json.dumps(fields))
    before = path.read_bytes()
    with pytest.raises(AuditError, match="not ours"):
        register.note_removed(CHAIN, "/x", Mark(3, B))
    assert path.read_bytes() == before


def test_only_removed_chains_are_dropped_in_the_end(register: Register) -> None:
    register.write(Entry(CHAIN, "/x", Mark(7, A), State.CLOSED, Mark(7, A)))
    register.write(Entry("13-0123abcd", "/x", Mark(7, A), State.CLOSED, Mark(3, A)))
    register.write(Entry("14-0123abcd", "/x", Mark(7, A), State.CLOSED))
    register.drop_removed(0)
    assert len(list(register.chains())) == 3
    register.drop_removed(2**62)
    assert list(register.chains()) == ["13-0123abcd", "14-0123abcd"]
