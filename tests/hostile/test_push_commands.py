"""Commands that git's readers read in different ways, at the socket: refused, on record, and the next push works.

The rows of each table carry the number they have in the list of hostile pushes.
"""

from collections.abc import Iterator

import pytest

from gateway.push.pkt import FLUSH, pkt
from tests.fakes.push_gateway import LABEL, PushWorld, push_world
from tests.fakes.raw_push import (
    CAPABILITIES,
    SOME,
    ZERO,
    Untouched,
    command,
    good_pack,
    post,
    push_well,
    section,
    statuses,
)

REF = "refs/heads/agent/x"
NEW, PACK = good_pack("hostile")
FIRST = pkt(command(ZERO, NEW, REF, CAPABILITIES))
CERTIFICATE = (
    pkt(b"push-cert\0" + CAPABILITIES.encode() + b"\n")
    + pkt(b"certificate version 0.1\n")
    + pkt(command(ZERO, NEW, "refs/heads/main") + b"\n")
    + pkt(b"push-cert-end\n")
)
LONG = CAPABILITIES.replace("sha1", "sha256")


def first(line: bytes) -> bytes:
    return pkt(line + b"\0 " + CAPABILITIES.encode())


# Refused as a whole: status, and a word of what is said.
MALFORMED: dict[str, tuple[bytes, int, str]] = {
    "1 length 1": (b"0001", 400, "no place here"),
    "1 length 2": (b"0002", 400, "no place here"),
    "1 length 3": (b"0003", 400, "no place here"),
    "2 a sign": (b"+04a" + FIRST, 400, "hexadecimal"),
    "2 a space": (b" 04a" + FIRST, 400, "hexadecimal"),
    "2 a prefix": (b"0x4a" + FIRST, 400, "hexadecimal"),
    "2 no digits": (b"wxyz", 400, "hexadecimal"),
    "3 too long": (b"fff5" + bytes(70_000), 400, "longer than 65520"),
    "3 the longest": (b"ffff" + bytes(70_000), 400, "longer than 65520"),
    "4 an empty packet": (b"0004" + FIRST + FLUSH, 400, "empty packet"),
    "5 no flush": (FIRST, 400, "in the middle of its commands"),
    "5 nothing": (b"", 400, "in the middle of its commands"),
    "5 half a packet": (FIRST[:20], 400, "in the middle of its commands"),
    "6 too many commands": (
        FIRST + b"".join(pkt(command(ZERO, NEW, f"{REF}{number}")) for number in range(3000)) + FLUSH,
        413, "2000 commands",
    ),
    "6 too many bytes": (
        FIRST + b"".join(pkt(command(ZERO, NEW, REF + f"{number:01000}")) for number in range(1200)),
        413, "1048576 bytes",
    ),
    "7 two zero bytes": (pkt(command(ZERO, NEW, REF) + b"\0main\0 " + CAPABILITIES.encode()) + FLUSH, 400, "zero byte"),
    "8 capabilities in a second line": (
        FIRST + pkt(command(ZERO, NEW, REF + "2") + b"\0 atomic push-options") + FLUSH, 400, "zero byte",
    ),
    "11 a signed push": (CERTIFICATE + FLUSH, 400, "signed pushes are not supported"),
    "12 shallow after a command": (FIRST + pkt(b"shallow " + SOME.encode()) + FLUSH, 400, "shallow"),
    "12 shallow with a suffix": (pkt(b"shallowX " + SOME.encode()) + FIRST + FLUSH, 400, "shallow"),
    "12 shallow of no id": (pkt(b"shallow " + b"g" * 40) + FIRST + FLUSH, 400, "shallow"),
    "12 shallow alone": (pkt(b"shallow " + SOME.encode()) + FLUSH, 400, "no commands"),
    "22 upper case": (first(f"{'A' * 40} {NEW} {REF}".encode()) + FLUSH, 400, "lower case"),
    "22 fifty digits": (first(f"{'a' * 50} {'b' * 50} {REF}".encode()) + FLUSH, 400, "format"),
    "22 ids of sha256": (first(f"{'0' * 64} {'b' * 64} {REF}".encode()) + FLUSH, 400, "format"),
    "22 ids of both": (first(f"{ZERO} {'b' * 64} {REF}".encode()) + FLUSH, 400, "format"),
    "23 the other format": (pkt(command(ZERO, NEW, REF, LONG)) + FLUSH, 400, "object format is sha1"),
    "25 push options": (pkt(command(ZERO, NEW, REF, CAPABILITIES + " push-options")) + FLUSH, 400, "not offered"),
    "25 what never existed": (pkt(command(ZERO, NEW, REF, CAPABILITIES + " frobnicate=1")) + FLUSH, 400, "not offered"),
    "25 a value where none is": (pkt(command(ZERO, NEW, REF, CAPABILITIES + " atomic=no")) + FLUSH, 400, "not offered"),
    "a command of two words": (first(f"{ZERO} {NEW}".encode()) + FLUSH, 400, "two ids"),
    "tabs": (first(f"{ZERO}\t{NEW}\t{REF}".encode()) + FLUSH, 400, "two ids"),
    "a probe that goes on": (b"0000" + FIRST + FLUSH, 400, "no commands"),
    "two flushes and a pack": (b"00000000" + PACK, 400, "no commands"),
    "an HTTP request": (b"POST /git/github.com/acme/widget.git/git-receive-pack HTTP/1.1\r\n\r\n", 400, "hexadecimal"),
    "only a pack": (PACK, 400, "hexadecimal"),
}  # fmt: skip

# Understood, and refused with a line of its own: the name as git sees it, and the reason.
FUNNY: dict[str, tuple[str | bytes, str]] = {
    "9 a second name behind a line end": (b"refs/heads/main\nrefs/heads/ok", "funny refname"),
    "9 a carriage return": (b"refs/heads/ok\r", "funny refname"),
    "10 a line end": (b"refs/heads/main\n", "funny refname"),
    "13 two dots": ("refs/heads/../evil", "funny refname"),
    "13 out of refs": ("refs/../../x", "funny refname"),
    "13 two slashes": ("refs/heads//x", "funny refname"),
    "13 a lock": ("refs/heads/x.lock", "funny refname"),
    "13 a reflog": ("refs/heads/x@{1}", "funny refname"),
    "13 a dot at the end": ("refs/heads/x.", "funny refname"),
    "13 a space": ("refs/heads/a b", "funny refname"),
    "13 an escape": (b"refs/heads/\x1b[2Jx", "funny refname"),
    "13 a delete": (b"refs/heads/x\x7f", "funny refname"),
    "13 a control character of Unicode": ("refs/heads/x\u0085y", "funny refname"),
    "14 HEAD": ("HEAD", "funny refname"),
    "14 a short name": ("main", "funny refname"),
    "14 one level": ("refs/x", "funny refname"),
    "19 no UTF-8": (b"refs/heads/\xff\xfe", "funny refname"),
    "too long": ("refs/heads/" + "x" * 2000, "funny refname"),
}

# Refused by the rules whatever they say, or asked.
SPECIAL: dict[str, tuple[str, str]] = {
    "15 replace": ("refs/replace/" + SOME, "is denied"),
    "15 pull": ("refs/pull/9/head", "is denied"),
    "15 HEAD as a branch": ("refs/heads/HEAD", "is denied"),
    "15 for": ("refs/for/main", "no approver is attached"),
    "15 notes": ("refs/notes/commits", "no approver is attached"),
    "17 another case": ("refs/heads/Main", "is denied"),
    "17 upper case": ("refs/heads/MAIN", "is denied"),
    "18 a Cyrillic letter": ("refs/heads/agent/\u0430", "no approver is attached"),
    "18 a zero-width space": ("refs/heads/ma\u200bin", "no approver is attached"),
}  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PushWorld]:
    with push_world(tmp_path_factory.mktemp("world")) as opened:
        yield opened


@pytest.mark.parametrize(("body", "status", "said"), MALFORMED.values(), ids=MALFORMED.keys())
def test_what_cannot_be_read_exactly(world: PushWorld, body: bytes, status: int, said: str) -> None:
    with Untouched(world) as untouched:
        answer = post(world, body + (b"" if body in (b"", FIRST, FIRST[:20]) else PACK))
        assert answer.status == status
        assert answer.body.decode().startswith(f"{LABEL} gateway: ")
        assert said in answer.body.decode()
    assert untouched.record["code"] == "malformed_request"
    assert untouched.record["refs"] == []
    assert said in untouched.record["reason"]
    push_well(world)


@pytest.mark.parametrize(("name", "reason"), FUNNY.values(), ids=FUNNY.keys())
def test_names_that_no_rule_can_judge(world: PushWorld, name: str | bytes, reason: str) -> None:
    """Each has its own line, also beside an innocent one, which is kept back."""
    with Untouched(world) as untouched:
        answer = post(world, section((ZERO, NEW, name), (ZERO, NEW, REF)) + PACK)
        assert answer.status == 200
        lines = statuses(answer.body)
        assert lines.pop(REF).endswith("not pushed because another ref in this push was refused")
        [(shown, said)] = lines.items()
        assert said.startswith(f"{LABEL} policy: {reason}")
        assert all(one.isprintable() for one in said)
        assert "\n" not in shown and "\x1b" not in shown
    assert [ref["verdict"] for ref in untouched.record["refs"]] == ["deny", "allow"]
    assert REF not in world.refs() and "refs/heads/main" not in world.refs()
    push_well(world)


@pytest.mark.parametrize(("name", "said"), SPECIAL.values(), ids=SPECIAL.keys())
def test_names_that_stand_for_something(world: PushWorld, name: str, said: str) -> None:
    with Untouched(world) as untouched:
        answer = post(world, section((ZERO, NEW, name)) + PACK)
        assert said in statuses(answer.body)[name]
    assert untouched.record["refs"][0]["verdict"] == "deny"
    push_well(world)


@pytest.mark.parametrize(
    "names",
    [
        (REF, REF),
        (REF, "refs/heads/main", REF),
        (REF, REF.upper().replace("REFS/HEADS", "refs/heads")),
        ("refs/heads/agent/stra\u00dfe", "refs/heads/agent/STRASSE"),
    ],
    ids=["16 twice", "16 twice around another", "17 in two cases", "17 in two forms of one letter"],
)
def test_names_that_are_one(world: PushWorld, names: tuple[str, ...]) -> None:
    with Untouched(world):
        answer = post(world, section(*((ZERO, NEW, name) for name in names)) + PACK)
        assert "ok" not in statuses(answer.body).values()
    push_well(world)


@pytest.mark.parametrize("new", [NEW, ZERO], ids=["update", "delete"])
def test_20_an_old_id_that_is_not_there(world: PushWorld, new: str) -> None:
    """Judged as it is claimed; GitHub compares with what stands there, and says no."""
    elsewhere = push_well(world)
    there, pack = good_pack("there")
    ref = f"{REF}-old-{new[:4]}"
    assert statuses(post(world, section((ZERO, there, ref)) + pack).body) == {ref: "ok"}
    answer = post(world, section((elsewhere, new, ref)) + (b"" if new == ZERO else PACK))
    assert statuses(answer.body)[ref] != "ok"
    assert world.refs()[ref] == there


def test_20_a_new_branch_that_is_there(world: PushWorld) -> None:
    ref = f"{REF}-there"
    assert statuses(post(world, section((ZERO, NEW, ref)) + PACK).body) == {ref: "ok"}
    other, pack = good_pack("other")
    answer = post(world, section((ZERO, other, ref)) + pack)
    assert statuses(answer.body)[ref] != "ok"
    assert world.refs()[ref] == NEW


def test_21_nothing_to_nothing(world: PushWorld) -> None:
    with Untouched(world):
        answer = post(world, section((ZERO, ZERO, REF)))
        assert "neither an old nor a new object" in statuses(answer.body)[REF]
    push_well(world)


def test_24_no_report_is_no_way_around(world: PushWorld) -> None:
    with Untouched(world):
        answer = post(world, section((ZERO, NEW, "refs/heads/main"), capabilities="side-band-64k") + PACK)
        assert answer.status == 403
    push_well(world)


@pytest.mark.parametrize(
    "agent", ["agent=a=b", "agent=a agent=b", "agent=\x07\x1b[2J", "agent=" + "x" * 5000]
)
def test_26_the_name_of_the_client_goes_no_further(world: PushWorld, agent: str) -> None:
    ref = f"{REF}-agent-{len(world.refs())}"
    capabilities = CAPABILITIES.replace("agent=by-hand", agent)
    answer = post(world, section((ZERO, NEW, ref), capabilities=capabilities) + PACK)
    assert statuses(answer.body) == {ref: "ok"}
    client = world.pushes()[-1]["client"]
    assert client.isprintable() and len(client) <= 100


def test_one_line_of_the_log_per_push(world: PushWorld) -> None:
    """Whatever a name holds: `records` checks that every line is printable ASCII and chained."""
    before = len(world.records())
    post(world, section((ZERO, NEW, b'refs/heads/\x1b]0;x\x07\n{"event":"push"}')) + PACK)
    assert len(world.records()) == before + 1
