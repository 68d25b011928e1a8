"""The capability list: what is understood, what is refused, and what is said upstream."""

import pytest

from gateway.push.capabilities import (
    OFFERED,
    OWN_AGENT,
    Capabilities,
    CapabilityError,
    ObjectFormat,
    Report,
    parse_capabilities,
    write_capabilities,
)

ALL = frozenset(OFFERED)
NONE = Capabilities(Report.NONE, False, False, False, "sha1")


def parse(text: bytes, object_format: ObjectFormat = "sha1", offered: frozenset[str] = ALL) -> Capabilities:
    return parse_capabilities(text, object_format, offered)


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (b"", NONE),
        (b"   ", NONE),
        (
            b" report-status-v2 side-band-64k quiet object-format=sha1 agent=git/2.39.5",
            Capabilities(Report.V2, True, True, False, "sha1", "git/2.39.5"),
        ),
        (b"report-status side-band-64k delete-refs ofs-delta", Capabilities(Report.V1, True, False, False, "sha1")),
        (b"report-status report-status-v2", Capabilities(Report.V2, False, False, False, "sha1")),
        (b"report-status-v2 report-status atomic", Capabilities(Report.V2, False, False, True, "sha1")),
        (b"atomic atomic", Capabilities(Report.NONE, False, False, True, "sha1")),
        # Row 26: sanitised, and never passed on.
        (b"agent=git/2=3=4", Capabilities(Report.NONE, False, False, False, "sha1", "git/2=3=4")),
        (b"agent=a\x1b[2J\xc3\xa9\n", Capabilities(Report.NONE, False, False, False, "sha1", "a.[2J...")),
        (b"agent=one agent=two", Capabilities(Report.NONE, False, False, False, "sha1", "one")),
        (b"agent=" + b"x" * 5000, Capabilities(Report.NONE, False, False, False, "sha1", "x" * 100)),
        (b"agent=", NONE),
    ],
)  # fmt: skip
def test_understood(text: bytes, asked: Capabilities) -> None:
    assert parse(text) == asked


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        # Row 25: never offered.
        (b"report-status push-options", "push-options was not offered"),
        (b"push-cert=nonce", "push-cert was not offered"),
        (b"side-band", "side-band was not offered"),
        (b"no-thin", "no-thin was not offered"),
        (b"session-id=1", "session-id was not offered"),
        (b"Atomic", "Atomic was not offered"),
        (b"ATOMIC", "ATOMIC was not offered"),
        (b"atomic\n", "unprintable characters was not offered"),
        (b"quiet\tatomic", "unprintable characters was not offered"),
        (b"\xff", "unprintable characters was not offered"),
        (b"=sha1", "unprintable characters was not offered"),
        (b"x" * 5000, "x was not offered"),
        # git takes these for `atomic` and `report-status`.
        (b"atomic=no", "atomic is written"),
        (b"report-status=", "report-status is written"),
        (b"agent", "agent is written"),
        (b"object-format", "object-format is written"),
        # Row 23.
        (b"object-format=sha256", "object format is sha1"),
        (b"object-format=sha1 object-format=sha256", "object format is sha1"),
        (b"object-format=SHA1", "object format is sha1"),
        (b"object-format=", "object format is sha1"),
    ],
)
def test_refused(text: bytes, sentence: str) -> None:
    with pytest.raises(CapabilityError, match=sentence) as caught:
        parse(text)
    assert len(str(caught.value)) < 200
    assert str(caught.value).isprintable()


def test_only_what_was_offered() -> None:
    with pytest.raises(CapabilityError, match="atomic was not offered"):
        parse(b"atomic", offered=frozenset({"report-status"}))
    assert parse(b"atomic", offered=frozenset({"atomic"})).atomic


def test_object_format_of_the_repository() -> None:
    assert parse(b"object-format=sha256", "sha256").object_format == "sha256"
    assert parse(b"", "sha256").object_format == "sha256"
    with pytest.raises(CapabilityError):
        parse(b"object-format=sha1", "sha256")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (NONE, "object-format=sha1"),
        (Capabilities(Report.V1, False, True, False, "sha1", "evil/1"), "quiet object-format=sha1"),
        (Capabilities(Report.V2, True, False, True, "sha256", "git/2"), "atomic object-format=sha256"),
        (Capabilities(Report.V2, True, True, True, "sha1"), "quiet atomic object-format=sha1"),
    ],
)
def test_written(asked: Capabilities, words: str) -> None:
    """A report and the side-band are wanted whatever the client wants; its own agent is nobody's business."""
    assert (
        write_capabilities(asked)
        == f"report-status report-status-v2 side-band-64k {words} agent={OWN_AGENT}".encode()
    )
