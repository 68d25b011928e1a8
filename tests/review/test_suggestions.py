"""Lines that would have let through what was refused, each with why one might not want it."""

from pathlib import Path

import pytest

from gateway.allowlists import load_cautions, load_shipped
from gateway.policy.decision import Decision, Verdict
from gateway.policy.egress import Code
from gateway.review.reading import Damages
from gateway.review.selection import Selection
from gateway.review.suggestions import Knowledge, Suggestion, find_refused, suggest, suggestions_text
from tests.fakes.review_log import Writer, files


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(tmp_path)


def denial(code: Code, rule: str = "built-in") -> Decision:
    return Decision(Verdict.DENY, rule, "no", code)


def suggested(writer: Writer, selection: Selection | None = None) -> tuple[Suggestion, ...]:
    writer.log.close()
    cautions, deny = load_cautions(), load_shipped().deny
    refused, sent_on = find_refused(files(writer.directory), selection or Selection(), cautions, Damages())
    denied = {f"{deny.name}:{entry.line}": entry for entry in deny.entries}
    return suggest(refused, Knowledge(cautions, denied, sent_on))


def test_an_exact_host_with_what_speaks_against_it(writer: Writer) -> None:
    session = writer.open()
    for host in (
        "plain.test",
        "plain.test",
        "acme.blob.core.windows.net",
        "pastebin.com",
        "me.github.io",
        "sentry.io",
    ):
        writer.refuse(session, host)
    found = {one.line: one for one in suggested(writer)}
    assert {line: bool(one.cautions) for line, one in found.items()} == {
        "plain.test": False,
        "acme.blob.core.windows.net": True,
        "pastebin.com": True,
        "me.github.io": True,
        "sentry.io": True,
    }
    assert {one.key for one in found.values()} == {"egress.allow"}
    assert found["plain.test"].refusals == 2
    assert "shared storage" in found["acme.blob.core.windows.net"].cautions[0]
    assert "anybody can leave data there" in found["pastebin.com"].cautions[0]
    assert "telemetry" in found["sentry.io"].cautions[0]


def test_what_the_deny_list_refuses_is_never_suggested(writer: Writer) -> None:
    session = writer.open()
    deny = load_shipped().deny
    (telemetry,) = (one for one in deny.entries if one.pattern == "telemetry.nextjs.org")
    writer.refuse(session, "telemetry.nextjs.org", denial(Code.DENIED, f"deny.txt:{telemetry.line}"))
    writer.refuse(session, "own.test", denial(Code.DENIED, "config.yaml:7"))
    fixed, own = suggested(writer)
    assert (fixed.line, own.line) == ("", "")
    assert "deleting that entry" in own.never or "deleting that entry" in fixed.never
    told = {one.hosts[0]: one.never for one in (fixed, own)}
    assert told["telemetry.nextjs.org"].startswith(
        f"never: the fixed deny list refuses it by deny.txt:{telemetry.line}"
    )
    assert "telemetry-build" in told["telemetry.nextjs.org"]


@pytest.mark.parametrize(
    ("host", "code", "port", "address", "key", "line"),
    [
        ("192.0.2.7", Code.IP_LITERAL, 443, "", "egress.addresses", '"192.0.2.7:443"'),
        ("2001:db8::1", Code.IP_LITERAL, 443, "", "egress.addresses", '"[2001:db8::1]:443"'),
        ("intra.test", Code.RESOLVED_ADDRESS, 8443, "10.1.2.3", "egress.addresses", '"10.1.2.3:8443"'),
        ("meta.test", Code.RESOLVED_ADDRESS, 80, "169.254.169.254", "", ""),
        ("169.254.169.254", Code.IP_LITERAL, 80, "", "", ""),
        ("nowhere.test", Code.RESOLVED_ADDRESS, 80, "", "", ""),
        ("a.test", Code.PORT, 22, "", "egress.ports", "22"),
        ("a.test", Code.NOT_TLS, 443, "", "egress.raw", '"a.test:443"'),
        ("a.test", Code.SNI_MISMATCH, 443, "", "", ""),
        ("a.test", Code.NETWORK_OFF, 443, "", "", ""),
        ("a.test", Code.SELF_CONNECTION, 443, "", "", ""),
        ("x y", Code.MALFORMED_HOST, 443, "", "", ""),
    ],
)
def test_other_refusals(
    writer: Writer, host: str, code: Code, port: int, address: str, key: str, line: str
) -> None:
    writer.refuse(writer.open(), host, denial(code), port, address)
    (one,) = suggested(writer)
    assert (one.key, one.line) == (key, line)
    assert bool(one.never) is not bool(line)
    assert bool(one.cautions) is bool(line)


def test_a_private_address_is_marked(writer: Writer) -> None:
    writer.refuse(writer.open(), "intra.test", denial(Code.RESOLVED_ADDRESS), 8443, "10.1.2.3")
    assert "private" in suggested(writer)[0].cautions[0]


@pytest.mark.parametrize(
    ("hosts", "wildcard"),
    [
        (("a.zone.test", "b.zone.test", "c.zone.test"), '"*.zone.test"'),
        (("a.zone.test", "b.zone.test"), ""),
        (("a.zone.test", "b.zone.test", "x.a.zone.test"), ""),
        (("a.github.io", "b.github.io", "c.github.io"), ""),
        (("a.windows.net", "b.windows.net", "c.windows.net"), ""),
        (("a.co.uk", "b.co.uk", "c.co.uk"), ""),
        (("a.test", "b.test", "c.test"), ""),
    ],
)
def test_a_wildcard_for_several_of_one_owner(writer: Writer, hosts: tuple[str, ...], wildcard: str) -> None:
    session = writer.open()
    for host in hosts:
        writer.refuse(session, host)
    found = suggested(writer)
    assert [one.line for one in found if "*" in one.line] == ([wildcard] if wildcard else [])
    assert {one.line for one in found if "*" not in one.line} == set(hosts)
    assert all("every other name" in one.cautions[0] for one in found if "*" in one.line)


def test_a_redirect_that_was_seen(writer: Writer) -> None:
    session, other = writer.open("s1"), writer.open("s2")
    writer.request(session, "sends.test", 302)
    writer.request(session, "serves.test", 200)
    writer.at += 3
    writer.refuse(session, "target.test")
    writer.refuse(other, "elsewhere.test")
    writer.at += 60
    writer.refuse(session, "late.test")
    found = {one.line: one.from_hosts for one in suggested(writer)}
    assert found == {"target.test": ("sends.test",), "elsewhere.test": (), "late.test": ()}


def test_a_redirect_that_is_known_to_be(writer: Writer) -> None:
    session = writer.open()
    writer.tunnel(session, "github.com")
    writer.at += 2
    writer.refuse(session, "release-assets.githubusercontent.com")
    writer.refuse(session, "other.test")
    found = {one.line: one for one in suggested(writer)}
    assert found["release-assets.githubusercontent.com"].from_hosts == ("github.com (probably)",)
    assert found["other.test"].from_hosts == ()
    text = suggestions_text(tuple(found.values()))
    assert "      # redirected there from github.com (probably), which is allowed" in text.split("\n")


def test_of_a_selection(writer: Writer) -> None:
    writer.refuse(writer.open("s1"), "a.test")
    writer.refuse(writer.open("s2"), "b.test")
    assert [one.line for one in suggested(writer, Selection(sessions=frozenset({"s2"})))] == ["b.test"]


def test_nothing_was_refused(writer: Writer) -> None:
    writer.tunnel(writer.open(), "a.test")
    assert suggestions_text(suggested(writer)) == "nothing was refused"


def test_the_text_is_yaml_and_harmless(writer: Writer) -> None:
    session = writer.open()
    writer.refuse(session, "a.test")
    writer.refuse(session, "x\n- *evil\x1b[2J", denial(Code.MALFORMED_HOST))
    lines = suggestions_text(suggested(writer)).split("\n")
    assert lines == [
        "egress.allow:",
        "  - a.test  # refused 1 time (not_listed)",
        "",
        "no line for these:",
        "  x\\n- *evil\\x1b[2J  (malformed_host, 1 time): what was asked for is no host",
    ]
