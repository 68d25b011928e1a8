"""Reports: exact bytes, what real git makes of them, and what is believed of the upstream's."""

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.push.capabilities import OFFERED, Capabilities, Report
from gateway.push.commands import PushCommands
from gateway.push.pkt import FLUSH, pkt, sideband
from gateway.push.report import (
    ANSWER_LIMIT,
    ATOMIC,
    INNOCENT,
    KEEP_ALIVE,
    NO_STATUS,
    REASON_LIMIT,
    TEXT_LIMIT,
    ReportParser,
    Status,
    UpstreamReport,
    one_line,
    progress,
    refusal_report,
    refused,
    report,
)
from tests.fakes.push_receiver import Pusher, PushReceiver

LABEL = "Control Center"
BANDED = Capabilities(Report.V2, True, False, False, "sha1")
BARE = Capabilities(Report.V1, False, False, False, "sha1")
MAIN, OTHER = "refs/heads/main", "refs/heads/feature"
# Reasons that git takes for something else: send-pack and transport-helper in its source.
MAGIC = [
    "up to date", "no match", "non-fast forward", "already exists", "fetch first", "needs force", "stale info",
    "remote ref updated since checkout", "forced update", "expecting report",
]  # fmt: skip

# --- Bytes ------------------------------------------------------------------------------------------

# What, statuses, report, bytes of the report itself.
REPORTS = [
    (
        "a refusal",
        [refused(MAIN, "main is protected here", LABEL)],
        b"000eunpack ok\n"
        b"0045ng refs/heads/main Control Center policy: main is protected here\n"
        b"0000",
    ),
    (
        "Unicode",
        [refused("refs/heads/gr\u00fcn", "denied for gr\u00fcn \u2014 ask Zo\u00eb", LABEL)],
        b"000eunpack ok\n"
        b"004dng refs/heads/gr\xc3\xbcn Control Center policy: denied for gr\xc3\xbcn \xe2\x80\x94 ask Zo\xc3\xab\n"
        b"0000",
    ),
    (
        "several",
        [Status(OTHER, True), Status(MAIN, False, "pre-receive hook declined"), Status("refs/tags/v1", True)],
        b"000eunpack ok\n"
        b"001aok refs/heads/feature\n"
        b"0031ng refs/heads/main pre-receive hook declined\n"
        b"0014ok refs/tags/v1\n"
        b"0000",
    ),
    (
        "a name that is no UTF-8",
        [Status("refs/heads/m\udcffin", False, "no")],
        b"000eunpack ok\n001ang refs/heads/m\xffin no\n0000",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("statuses", "data"), [row[1:] for row in REPORTS], ids=[row[0] for row in REPORTS])
def test_bytes(statuses: list[Status], data: bytes) -> None:
    assert report(statuses, BARE) == data
    assert report(statuses, BANDED) == b"%04x\x01" % (len(data) + 5) + data + b"0000"


def test_long_report_is_divided() -> None:
    statuses = [Status(f"refs/heads/b{n}", False, "x" * REASON_LIMIT) for n in range(100)]
    data = report(statuses, BANDED)
    assert data == b"".join(sideband(1, report(statuses, BARE))) + FLUSH
    assert data.startswith(b"fff0\x01000eunpack ok\n")


def test_longest_line_fits_a_packet() -> None:
    assert report([Status("refs/heads/" + "\u00fc" * 500, False, "\u00fc" * 1000)], BARE)


def test_what_the_upstream_said_of_the_pack() -> None:
    assert report([Status(MAIN, False, "unpacker error")], BARE, "index-pack\nabnormal exit").startswith(
        b"0024unpack index-pack abnormal exit\n"
    )


def test_reports_that_would_lie() -> None:
    with pytest.raises(ValueError, match="without a report"):
        report([Status(MAIN, False, "no")], Capabilities(Report.NONE, True, False, False, "sha1"))
    with pytest.raises(ValueError, match="without refs"):
        report([], BANDED)
    with pytest.raises(ValueError, match="as updated"):
        refusal_report([Status(MAIN, False, "no"), Status(OTHER, True)], BANDED)
    for name in ("refs/heads/a b", "refs/heads/a\nng refs/heads/b no", "a\0b", "a\x7f"):
        with pytest.raises(ValueError, match="name"):
            refusal_report([Status(name, False, "no")], BANDED)


@pytest.mark.parametrize("label", ["Control Center", "ACME", "", "R\u00e9gie"])
def test_label(label: str) -> None:
    assert refused(MAIN, "no", label) == Status(MAIN, False, f"{label} policy: no".strip())


# --- Reasons ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("denied", "denied"),
        ("two\nlines\r\nand\ttabs", "two lines and tabs"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("c1 \x9b2J and \x7f", r"c1 \x9b2J and \x7f"),
        ("turned \u202e round", r"turned \u202e round"),
        ("no text \udcff", r"no text \udcff"),
        ("zero\0byte", r"zero\x00byte"),
        ("", "refused"),
        (" \n ", "refused"),
        ("gr\u00fcn \u2014 caf\u00e9", "gr\u00fcn \u2014 caf\u00e9"),
        ("token ghs_" + "a" * 36 + " seen", "token *** seen"),
        ("token ghs_123456_eyJhbGciOi.eyJpc3Mi-_x.sig-nature_ seen", "token *** seen"),
        ("Basic eC1hY2Nlc3MtdG9rZW46Z2hzX2FiYw== seen", "Basic *** seen"),
        ("https://x-access-token:ghp_12345678@github.com/", "https://x-access-token:***@github.com/"),
        ("a branch named ghs_x", "a branch named ghs_x"),
        ("x" * 900, "x" * 900),
        ("x" * 901, "x" * 897 + "..."),
        ("\u20ac" * 400, "\u20ac" * 299 + "..."),
        *((word, f"refused: {word}") for word in MAGIC),
        *((f" {word}\n", f"refused: {word}") for word in MAGIC),
        ("Up to date", "Up to date"),
        ("already exists here", "already exists here"),
    ],
)
def test_one_line(text: str, line: str) -> None:
    assert one_line(text) == line
    assert one_line(line) == line


@given(st.text())
def test_any_reason_is_one_short_printable_line(text: str) -> None:
    for line in (one_line(text), one_line(text * 300), refused(MAIN, text, text).reason):
        assert line.isprintable()
        assert 0 < len(line.encode("utf-8")) <= REASON_LIMIT
        assert line not in MAGIC
    answer = report([Status(MAIN, False, text)], BARE)
    assert answer.count(b"\n") == 2
    assert answer.endswith(b"\n0000")


# --- Text -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("", b""),
        ("hello", b"000b\x02hello\n"),
        ("hello\n", b"000b\x02hello\n"),
        ("50%\r", b"0009\x0250%\r"),
        ("a\nb", b"0009\x02a\nb\n"),
        ("\x1b[2J\0", b"0011\x02\\x1b[2J\\x00\n"),
        ("caf\u00e9", b"000b\x02caf\xc3\xa9\n"),
    ],
)
def test_progress(text: str, data: bytes) -> None:
    assert progress(text) == data


def test_long_progress_is_divided() -> None:
    assert progress("x" * 70_000) == b"".join(sideband(2, b"x" * 70_000 + b"\n"))


# --- What real git makes of it ----------------------------------------------------------------------

Reply = Callable[[PushCommands], bytes | Iterable[bytes]]
V1_BARE = ("report-status", "delete-refs", "ofs-delta", "object-format", "agent")
OFFERS = [
    ("all", OFFERED),
    ("version 1", tuple(one for one in OFFERED if one != "report-status-v2")),
    ("no side-band", tuple(one for one in OFFERED if one != "side-band-64k")),
    ("neither", V1_BARE),
]
REASON = "Push to remote is denied for main \u2014 ask Zo\u00eb (rule config.yaml:12)"


def deny(push: PushCommands) -> bytes:
    return refusal_report([refused(one.wire_name, REASON, LABEL) for one in push.commands], push.capabilities)


def deny_main(push: PushCommands) -> bytes:
    """One ref is refused, the others are somebody's victims or fine."""
    other = Status(OTHER, False, ATOMIC) if push.capabilities.atomic else refused(OTHER, INNOCENT, LABEL)
    verdicts = {MAIN: refused(MAIN, REASON, LABEL), OTHER: other}
    return refusal_report([verdicts[one.wire_name] for one in push.commands], push.capabilities)


def assert_honest(stderr: str) -> None:
    for lie in ("Everything up-to-date", "RPC failed", "curl", "hung up", "remote failure", "fatal"):
        assert lie not in stderr, stderr


@pytest.mark.parametrize("offered", [row[1] for row in OFFERS], ids=[row[0] for row in OFFERS])
@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_denied_push(tmp_path: Path, offered: tuple[str, ...], large: bool) -> None:
    pusher = Pusher(tmp_path / "work")
    if large:
        pusher.commit("large", os.urandom(2 << 20))
    with PushReceiver(deny, offered=offered) as receiver:
        done = pusher.git("push", receiver.url, "main", status=1)
    assert f" ! [remote rejected] main -> main (Control Center policy: {REASON})\n" in done.stderr
    assert_honest(done.stderr)
    assert receiver.probes == large
    (push,) = receiver.pushes
    assert push.capabilities.sideband is ("side-band-64k" in offered)
    assert push.capabilities.report is (Report.V2 if "report-status-v2" in offered else Report.V1)


@pytest.mark.parametrize("offered", [row[1] for row in OFFERS], ids=[row[0] for row in OFFERS])
def test_denied_push_porcelain(tmp_path: Path, offered: tuple[str, ...]) -> None:
    pusher = Pusher(tmp_path / "work")
    with PushReceiver(deny, offered=offered) as receiver:
        done = pusher.git("push", "--porcelain", receiver.url, "main", status=1)
    assert f"!\t{MAIN}:{MAIN}\t[remote rejected] (Control Center policy: {REASON})\n" in done.stdout
    assert_honest(done.stderr)


@pytest.mark.parametrize("offered", [OFFERED, (*V1_BARE, "atomic")], ids=["all", "no side-band"])
@pytest.mark.parametrize("atomic", [False, True])
def test_several_refs(tmp_path: Path, offered: tuple[str, ...], atomic: bool) -> None:
    pusher = Pusher(tmp_path / "work")
    flags = ["--atomic"] if atomic else []
    with PushReceiver(deny_main, offered=offered) as receiver:
        done = pusher.git("push", *flags, receiver.url, "main", "main:feature", status=1)
    why = ATOMIC if atomic else f"Control Center policy: {INNOCENT}"
    assert f" ! [remote rejected] main -> main (Control Center policy: {REASON})\n" in done.stderr
    assert f" ! [remote rejected] main -> feature ({why})\n" in done.stderr
    assert_honest(done.stderr)


@pytest.mark.parametrize("offered", [OFFERED, V1_BARE], ids=["all", "no side-band"])
def test_refusals_beside_updates(tmp_path: Path, offered: tuple[str, ...]) -> None:
    """A push of deletes goes through in part; GitHub's own words stand beside ours."""

    def reply(push: PushCommands) -> bytes:
        verdicts = {
            MAIN: refused(MAIN, "deleting is denied", LABEL),
            OTHER: Status(OTHER, True),
            "refs/heads/hook": Status("refs/heads/hook", False, "pre-receive hook declined"),
        }
        return report([verdicts[one.wire_name] for one in push.commands], push.capabilities)

    pusher = Pusher(tmp_path / "work")
    refs = dict.fromkeys([MAIN, OTHER, "refs/heads/hook"], pusher.tip())
    with PushReceiver(reply, refs=refs, offered=offered) as receiver:
        done = pusher.git("push", receiver.url, ":main", ":feature", ":hook", status=1)
    assert not receiver.pushes[0].has_pack
    assert receiver.packs == [b""]
    assert " ! [remote rejected] main (Control Center policy: deleting is denied)\n" in done.stderr
    assert " - [deleted]         feature\n" in done.stderr
    assert " ! [remote rejected] hook (pre-receive hook declined)\n" in done.stderr
    assert_honest(done.stderr)


def test_text_and_keep_alives_before_the_verdict(tmp_path: Path) -> None:
    def reply(push: PushCommands) -> Iterator[bytes]:
        yield progress("waiting for approval 17 (4 min left)")
        yield KEEP_ALIVE * 500
        yield progress("still waiting\rdenied\x1b[2J")
        yield deny(push)

    pusher = Pusher(tmp_path / "work")
    with PushReceiver(reply) as receiver:
        done = pusher.git("push", receiver.url, "main", status=1)
    assert "remote: waiting for approval 17 (4 min left)" in done.stderr
    assert "\x1b[2J" not in done.stderr
    assert f"[remote rejected] main -> main (Control Center policy: {REASON})" in done.stderr
    assert_honest(done.stderr)


@pytest.mark.parametrize("word", MAGIC)
def test_no_reason_is_mistaken_for_another_outcome(tmp_path: Path, word: str) -> None:
    """Not even where the upstream uses the word."""
    parser = ReportParser([MAIN])
    parser.feed(pkt(b"unpack ok\n") + pkt(f"ng {MAIN} {word}\n".encode()) + FLUSH)
    statuses = parser.finish()[0].statuses
    pusher = Pusher(tmp_path / "work")
    with PushReceiver(lambda push: report(statuses, push.capabilities)) as receiver:
        done = pusher.git("push", receiver.url, "main", status=1)
    assert f" ! [remote rejected] main -> main (GitHub: {word})\n" in done.stderr
    assert_honest(done.stderr)


def test_longest_reason_is_shown_whole(tmp_path: Path) -> None:
    pusher = Pusher(tmp_path / "work")
    reason = refused(MAIN, "\u00fc" * 1000, LABEL).reason
    with PushReceiver(
        lambda push: refusal_report([Status(MAIN, False, reason)], push.capabilities)
    ) as receiver:
        done = pusher.git("push", receiver.url, "main", status=1)
    assert f"[remote rejected] main -> main ({reason})\n" in done.stderr


# --- The upstream's answer --------------------------------------------------------------------------


def lines(*rows: str) -> bytes:
    return b"".join(pkt(f"{one}\n".encode("utf-8", "surrogateescape")) for one in rows) + FLUSH


def banded(data: bytes, size: int = 65515) -> bytes:
    """The report on band 1, in packets of this size, with the flush that ends the answer."""
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    return b"".join(pkt(b"\1" + piece) for piece in pieces) + FLUSH


def parse(answer: bytes, *refs: str) -> tuple[UpstreamReport, str]:
    parser = ReportParser(refs or (MAIN, OTHER))
    text = parser.feed(answer)
    told, last = parser.finish()
    return told, text + last


def missing(*refs: str) -> tuple[Status, ...]:
    return tuple(Status(one, False, NO_STATUS) for one in refs)


UNPACKED, MAIN_OK, DECLINED = "unpack ok", f"ok {MAIN}", f"ng {OTHER} protected branch hook declined"
GOOD = lines(UNPACKED, MAIN_OK, DECLINED)
JUDGED = (Status(MAIN, True), Status(OTHER, False, "protected branch hook declined"))
OPTIONS = ("option refname refs/heads/x", f"option old-oid {'a' * 40}", "option forced-update", "option")

# Answers that come to the same.
CLEAR = [
    ("side-band", banded(GOOD)),
    ("bare", GOOD),
    ("in small packets", banded(GOOD, 3)),
    ("GitHub's lone zero byte first", b"0006\x02\0" + banded(GOOD)),
    ("empty packets between", KEEP_ALIVE + b"0005\x02" + banded(GOOD)),
    ("in another order", banded(lines(UNPACKED, DECLINED, MAIN_OK))),
    ("option lines", banded(lines(UNPACKED, MAIN_OK, *OPTIONS, DECLINED, *OPTIONS))),
    ("refs nobody asked for", banded(lines(UNPACKED, "ok refs/heads/x", MAIN_OK, "ng x y", DECLINED, "ok"))),
    ("more behind the report", banded(GOOD + lines(f"ok {OTHER}"))),
    ("garbage behind the report", banded(GOOD + b"zzzz")),
    ("more behind the end", banded(GOOD) + banded(lines(UNPACKED, f"ok {OTHER}"))),
    ("garbage behind the end", banded(GOOD) + b"<html>"),
    ("garbage behind the bare report", GOOD + b"<html>"),
    ("ok and ng for one ref", banded(lines(UNPACKED, MAIN_OK, f"ok {OTHER}", DECLINED, f"ok {OTHER}"))),
    ("the same twice", banded(lines(UNPACKED, MAIN_OK, MAIN_OK, DECLINED, f"ng {OTHER} again"))),
]


@pytest.mark.parametrize("answer", [row[1] for row in CLEAR], ids=[row[0] for row in CLEAR])
def test_clear_answers(answer: bytes) -> None:
    assert parse(answer) == (UpstreamReport(JUDGED, "ok", True), "")


# Row 45. What, answer, statuses, what was said of the pack, the fault.
UNCLEAR = [
    ("nothing", b"", missing(MAIN, OTHER), "", ""),
    ("no report", FLUSH, missing(MAIN, OTHER), "", ""),
    ("a report behind the end", FLUSH + banded(GOOD), missing(MAIN, OTHER), "", ""),
    ("a zero byte and the end", b"0006\x02\0" + FLUSH, missing(MAIN, OTHER), "", ""),
    ("an empty report", banded(FLUSH), missing(MAIN, OTHER), "", ""),
    ("one ref of two", banded(lines(UNPACKED, MAIN_OK)), (JUDGED[0], *missing(OTHER)), "ok", ""),
    ("no end of the report", banded(lines(UNPACKED, MAIN_OK, DECLINED)[:-4]), JUDGED, "ok", ""),
    ("no end at all", pkt(b"\1" + lines(UNPACKED, DECLINED)[:-4]), (*missing(MAIN), JUDGED[1]), "ok", ""),
    ("cut in a line", banded(GOOD[:-20]), (JUDGED[0], *missing(OTHER)), "ok", "is cut off"),
    ("cut in a packet", banded(GOOD)[:-20], missing(MAIN, OTHER), "", "is cut off"),
    ("no word of the pack", banded(lines(MAIN_OK, DECLINED)), missing(MAIN, OTHER), "", "cannot be read"),
    ("an unknown line", banded(lines(UNPACKED, "maybe x", MAIN_OK)), missing(MAIN, OTHER), "ok", "cannot be read"),
    ("a web page", b"<html><body>502 Bad Gateway", missing(MAIN, OTHER), "", "cannot be read"),
    ("a length that is none", b"0003" + banded(GOOD), missing(MAIN, OTHER), "", "cannot be read"),
    ("garbage on the band", banded(b"zzzz" + GOOD), missing(MAIN, OTHER), "", "cannot be read"),
    ("an advertisement", lines("# service=git-receive-pack"), missing(MAIN, OTHER), "", "cannot be read"),
    ("band 4", pkt(b"\1") + pkt(b"\4x") + banded(GOOD), missing(MAIN, OTHER), "", "cannot be read"),
    ("a packet without a band", pkt(b"\1") + b"0004" + banded(GOOD), missing(MAIN, OTHER), "", "cannot be read"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "statuses", "unpack", "fault"), [row[1:] for row in UNCLEAR], ids=[row[0] for row in UNCLEAR]
)
def test_unclear_answers(answer: bytes, statuses: tuple[Status, ...], unpack: str, fault: str) -> None:
    told, text = parse(answer)
    assert told == UpstreamReport(statuses, unpack, False, fault and f"GitHub's answer {fault}")
    assert text == ""


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ((UNPACKED, f"ng {MAIN} non-fast-forward"), "non-fast-forward"),
        ((UNPACKED, f"ng {MAIN}"), "refused by GitHub"),
        ((UNPACKED, f"ng {MAIN}  "), "refused by GitHub"),
        ((UNPACKED, f"ng {MAIN} \x1b[2J\udcff"), "\\x1b[2J\ufffd"),
        ((UNPACKED, f"ng {MAIN} {'x' * 5000}"), "x" * 897 + "..."),
        ((UNPACKED, f"ng {MAIN} ghs_{'a' * 36}"), "***"),
        (("unpack index-pack abnormal exit", f"ng {MAIN} unpacker error"), "unpacker error"),
        (("unpack index-pack abnormal exit", f"ok {MAIN}"), "GitHub could not unpack the push"),
        (("unpack", f"ok {MAIN}"), "GitHub could not unpack the push"),
        (
            (UNPACKED, f"ng {MAIN} refusing to allow a GitHub App to create or update workflow "
             "`.github/workflows/x.yml` without `workflows` permission"),
            "refusing to allow a GitHub App to create or update workflow "
            "`.github/workflows/x.yml` without `workflows` permission",
        ),
    ],
)  # fmt: skip
def test_reasons(rows: tuple[str, ...], reason: str) -> None:
    told, _ = parse(banded(lines(*rows)), MAIN)
    assert told.statuses == (Status(MAIN, False, reason),)
    assert told.complete


@pytest.mark.parametrize(
    ("behind", "fault"),
    [(b"zzzz", "GitHub's answer cannot be read"), (b"", ""), (b"00", "GitHub's answer is cut off")],
)
def test_report_is_whole_whatever_comes_behind_it(behind: bytes, fault: str) -> None:
    told, _ = parse(banded(GOOD)[:-4] + behind)
    assert told == UpstreamReport(JUDGED, "ok", True, fault)


def test_error_instead_of_a_report() -> None:
    told, _ = parse(pkt(b"ERR upload\x1b refused"), MAIN)
    assert told == UpstreamReport(
        (Status(MAIN, False, r"GitHub says: upload\x1b refused"),),
        "",
        False,
        r"GitHub says: upload\x1b refused",
    )


def test_reason_of_what_was_not_heard() -> None:
    parser = ReportParser([MAIN, OTHER])
    parser.feed(pkt(b"\1" + lines(UNPACKED, MAIN_OK)[:-4]))
    told, _ = parser.finish("GitHub connection lost before it reported; check with git ls-remote")
    assert [one.reason for one in told.statuses] == [
        "", "GitHub connection lost before it reported; check with git ls-remote",
    ]  # fmt: skip


def test_names_come_back_as_they_were_sent() -> None:
    names = ("refs/heads/gr\u00fcn", "refs/heads/\u200bx")
    told, _ = parse(banded(lines(UNPACKED, *(f"ok {one}" for one in names))), *names)
    assert told.statuses == tuple(Status(one, True) for one in names)


# --- The upstream's text ----------------------------------------------------------------------------


def text_of(*bands: tuple[int, bytes]) -> str:
    return parse(b"".join(pkt(bytes([band]) + data) for band, data in bands) + banded(GOOD))[1]


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ((b"Resolving deltas: 10%\r", b"Resolving deltas: 20%\r"), "Resolving deltas: 10%\rResolving deltas: 20%\r"),
        ((b"error: GH0", b"13: see\n"), "error: GH013: see\n"),
        ((b"no end",), "no end"),
        ((b"one\r\ntwo\n\n",), "one\r\ntwo\n\n"),
        ((b"\0", b"\0\n"), "\n"),
        ((b"caf\xc3", b"\xa9\n"), "caf\u00e9\n"),
        ((b"bad \xff end\n",), "bad \ufffd end\n"),
        ((b"\x1b]0;title\x07\x9b\n",), "\\x1b]0;title\\x07\ufffd\n"),
        (("\x9b2J \u202e\n".encode(),), "\\x9b2J \\u202e\n"),
        ((b"see https://github.com/acme/widget/rules?ref=refs%2Fheads%2Fmain\n",),
         "see https://github.com/acme/widget/rules?ref=refs%2Fheads%2Fmain\n"),
        ((b"got ghs_12345_eyJh", b"bGci.eyJpc3M-x.sig_ here\n"), "got *** here\n"),
        ((b"Authorization: Basic eC1hY2Nlc3MtdG9r", b"ZW46Z2hzX2FiYw==\n"), "Authorization: Basic ***\n"),
        ((b"x" * 5000 + b"\n",), "x" * 4096 + "...\n"),
    ],
)  # fmt: skip
def test_text(pieces: tuple[bytes, ...], text: str) -> None:
    assert text_of(*((2, one) for one in pieces)) == text


def test_fatal_text_is_text() -> None:
    told, text = parse(pkt(b"\3fatal: no space") + FLUSH, MAIN)
    assert (told.statuses, text) == (missing(MAIN), "fatal: no space")


def test_text_is_shown_as_it_comes() -> None:
    parser = ReportParser([MAIN])
    assert parser.feed(pkt(b"\2one\ntw")) == "one\n"
    assert parser.feed(pkt(b"\2o\nthr")) == "two\n"
    assert parser.feed(FLUSH) == ""
    assert parser.finish()[1] == "thr"


def test_much_text() -> None:
    """Shown up to a limit; the report behind it is read all the same."""
    line = pkt(b"\2" + b"x" * 79 + b"\n")
    parser = ReportParser((MAIN, OTHER))
    shown = parser.feed(line * 2000) + parser.feed(line * 2000 + banded(GOOD))
    told, last = parser.finish()
    assert shown.endswith("\n(more text from GitHub is not shown)\n")
    assert TEXT_LIMIT <= len(shown) <= TEXT_LIMIT + 50
    assert (told, last) == (UpstreamReport(JUDGED, "ok", True), "")


@pytest.mark.parametrize(
    "packet",
    [
        pkt(b"\2" + b"x" * 65000),
        pkt(b"\2line\n" * 9000),
        KEEP_ALIVE * 1000 + pkt(b"\1") * 1000 + pkt(b"\2" + b"x" * 60000),
    ],
)
def test_answer_without_end(packet: bytes) -> None:
    """5 GB of it would be the same: beyond 8 MiB nothing is read, and little is held."""
    parser = ReportParser([MAIN])
    fed = shown = 0
    while not parser.broken:
        shown += len(parser.feed(packet))
        fed += len(packet)
    assert fed <= ANSWER_LIMIT + len(packet)
    assert parser.feed(banded(lines(UNPACKED, MAIN_OK))) == ""
    told, last = parser.finish()
    assert shown + len(last) <= TEXT_LIMIT + 50
    assert told == UpstreamReport(missing(MAIN), "", False, "GitHub's answer is too long")


@given(
    st.sampled_from([row[1] for row in (*CLEAR, *UNCLEAR)]),
    st.lists(st.integers(0, 300)),
    st.sampled_from([b"", b"0006\x02\0", pkt(b"\2caf\xc3"), pkt(b"\2ghs_0123456789\n")]),
)
def test_pieces_do_not_matter(answer: bytes, cuts: list[int], before: bytes) -> None:
    data = before + answer
    ends = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    parser = ReportParser((MAIN, OTHER))
    text = "".join(parser.feed(data[start:end]) for start, end in pairwise(ends))
    told, last = parser.finish()
    assert (told, text + last) == parse(data)
