"""What the launcher tells `confine.py`, and what it makes of the verdict. The other end is in `test_confine.py`."""

import errno
import marshal
import socket
from pathlib import Path
from types import CodeType

import pytest

from gateway.errors import GatewayError
from sandbox import confine, confinement
from sandbox.confinement import (
    DOOR_REQUESTS,
    REASONS,
    WALL_REQUESTS,
    encode_orders,
    explain,
    explain_missing,
    explain_unseen,
    take_verdict,
)

DEADLINE = 30.0


def fields_of(orders: bytes) -> list[bytes]:
    fields = []
    while orders:
        size = int.from_bytes(orders[:4], "big")
        fields.append(orders[4 : 4 + size])
        orders = orders[4 + size :]
    return fields


def test_orders_hold_the_program_and_what_it_is_told() -> None:
    orders = encode_orders(b"12345678", ("/tmp", "/dev"), ("/a b", "/\udcff"), "0123456789abcdef")
    program, *told = fields_of(orders)
    assert told == [b"12345678", b"0123456789abcdef", b"/a b\0/\xff", b"/tmp", b"/dev"]
    code = marshal.loads(program)
    assert isinstance(code, CodeType)
    names: dict[str, object] = {"__name__": "confine"}
    exec(code, names)
    assert callable(names["confine"])


def test_what_was_told_is_what_is_read() -> None:
    program, *told = fields_of(encode_orders(b"12345678", ("/tmp",), (), "0123456789abcdef"))
    rest = encode_orders(b"12345678", ("/tmp",), (), "0123456789abcdef")[4 + len(program) :]
    assert confine.read_orders(rest) == told == [b"12345678", b"0123456789abcdef", b"", b"/tmp"]


def verdict_of(said: bytes, closed: bool = True) -> int:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(said)
        if closed:
            theirs.close()
        return take_verdict(ours, DEADLINE)


@pytest.mark.parametrize("requests", [0, WALL_REQUESTS])
def test_wall_and_door_stand(requests: int) -> None:
    assert verdict_of(bytes((ord("C"), confine.STANDS, requests))) == requests


@pytest.mark.parametrize("said", [b"", b"C", b"C\0"])
def test_other_end_is_gone(said: bytes) -> None:
    with pytest.raises(EOFError):
        verdict_of(said)


def test_other_end_says_nothing() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(TimeoutError):
        take_verdict(ours, 0.01)


def test_nothing_after_the_verdict_is_taken() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(bytes((ord("C"), confine.STANDS, 4)) + b"more")
        assert take_verdict(ours, DEADLINE) == WALL_REQUESTS
        assert ours.recv(10) == b"more"


def test_another_word_is_no_verdict() -> None:
    with pytest.raises(GatewayError, match="out of turn"):
        verdict_of(b"L\0\0")


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("number", [0, errno.EPERM])
def test_every_reason_names_what_is_missing_and_the_ways_out(reason: int, number: int) -> None:
    with pytest.raises(GatewayError) as caught:
        verdict_of(bytes((ord("C"), reason, number)))
    text = str(caught.value)
    assert REASONS[reason][0] in text and REASONS[reason][1] in text
    assert "`file_rules: existing-only`" in text and "`--sandbox off`" in text
    assert ("EPERM" in text) is bool(number)
    assert "; or decide" in text or "(decide" in text


def test_reasons_are_those_of_confine() -> None:
    assert sorted(REASONS) == list(range(confine.STANDS + 1, confine.NOT_TAKEN + 1))


@pytest.mark.parametrize("reason", [200, 255])
def test_unknown_reason_is_a_refusal(reason: int) -> None:
    assert str(reason) in explain(reason, 0)[0]


@pytest.fixture
def scope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What Yama says, on a kernel that has it."""
    file = tmp_path / "ptrace_scope"
    monkeypatch.setattr(confinement, "PTRACE_SCOPE", str(file))
    return file


@pytest.mark.parametrize("setting", ["", "0", "1", "2", "3"])
def test_yama_is_named_where_it_is_in_the_way(scope: Path, setting: str) -> None:
    if setting:
        scope.write_text(f"{setting}\n")
    told = [
        *(
            explain(reason, errno.EACCES)
            for reason in (confine.NOT_PERFORMED, confine.DOOR_OPEN, confine.NOT_TAKEN)
        ),
        explain_unseen({}, {"door": DOOR_REQUESTS}),
    ]
    for missing, remedy in told:
        assert (f"kernel.yama.ptrace_scope is {setting}" in missing) is (setting in ("2", "3"))
        assert ("sysctl kernel.yama.ptrace_scope=1" in remedy) is (setting in ("2", "3"))
        assert ("restart" in remedy) is (setting == "3")
        assert "`file_rules: existing-only`" in remedy and "`--sandbox off`" in remedy
    assert "yama" not in "".join(explain(confine.WALL_OPEN, 0))


def test_what_was_not_seen_is_said(scope: Path) -> None:
    missing, remedy = explain_unseen({"door": 1}, {"door": DOOR_REQUESTS})
    assert "{'door': 1} instead of {'door': 6}" in missing and remedy.startswith("decide for less")
    assert not scope.exists()


def test_missing_calls_are_named() -> None:
    missing, remedy = explain_missing("openat2", errno.ENOSYS)
    assert "openat2(2)" in missing and "ENOSYS" in missing
    assert "5.19" in remedy and "seccomp profile" in remedy and "`file_rules: existing-only`" in remedy


def test_the_canary_has_a_request_for_every_way_to_a_name() -> None:
    assert (WALL_REQUESTS, DOOR_REQUESTS) == (4, 6)
