"""Addresses: written in place of a name, or behind one. Only public ones and listed ones are ever dialled."""

from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest

from gateway.policy.egress import Transport
from tests.fakes.asking import (
    HTTP,
    SOCKS,
    TRANSPORTS,
    answer,
    ask,
    assert_refused,
    assert_serves,
    assert_untouched,
    assert_upstream_trouble,
    get_head,
    packed,
    socks,
    start,
)
from tests.fakes.gateway import Gateway
from tests.fakes.origin import answering, closed_port, full_backlog, http_origin
from tests.fakes.rules import GOOD, listed, naming, rules_for

every_transport = pytest.mark.parametrize("transport", TRANSPORTS, ids=str)

# Row, host as asked, code, host as recorded.
LITERALS = [
    ("B-22", "127.0.0.1", "ip_literal", "127.0.0.1"),
    ("B-22", "0.0.0.0", "ip_literal", "0.0.0.0"),
    ("B-24", "[::1]", "ip_literal", "::1"),
    ("B-24", "[::]", "ip_literal", "::"),
    ("B-24", "[::ffff:127.0.0.1]", "ip_literal", "::ffff:127.0.0.1"),
    ("B-24", "[::ffff:7f00:1]", "ip_literal", "::ffff:127.0.0.1"),
    ("B-24", "[::127.0.0.1]", "ip_literal", "::7f00:1"),
    ("B-24", "[0:0:0:0:0:ffff:a9fe:a9fe]", "denied", "::ffff:169.254.169.254"),
    ("B-25", "[64:ff9b::a9fe:a9fe]", "denied", "64:ff9b::a9fe:a9fe"),
    ("B-25", "[64:ff9b:1::7f00:1]", "ip_literal", "64:ff9b:1::7f00:1"),
    ("B-25", "[2002:7f00:1::]", "ip_literal", "2002:7f00:1::"),
    ("B-25", "[2001:0:5ef5:79fd:0:0:5601:5601]", "denied", "2001:0:5ef5:79fd::5601:5601"),
    ("B-25", "[2001:db8::5efe:7f00:1]", "ip_literal", "2001:db8::5efe:7f00:1"),
    ("B-27", "169.254.169.254", "denied", "169.254.169.254"),
    ("B-27", "168.63.129.16", "denied", "168.63.129.16"),
    ("B-27", "192.0.0.192", "denied", "192.0.0.192"),
    ("B-27", "100.100.100.200", "denied", "100.100.100.200"),
    ("B-27", "[fd00:ec2::254]", "denied", "fd00:ec2::254"),
    ("B-27", "[fd20:ce::254]", "denied", "fd20:ce::254"),
    ("B-27", "[fd00:c1::a9fe:a9fe]", "denied", "fd00:c1::a9fe:a9fe"),
    ("B-27", "[fd00:42::42]", "denied", "fd00:42::42"),
    ("B-29", "140.82.112.3", "ip_literal", "140.82.112.3"),
    ("B-29", "[2606:50c0:8000::154]", "ip_literal", "2606:50c0:8000::154"),
    ("B-36", "255.255.255.255", "ip_literal", "255.255.255.255"),
    ("B-36", "224.0.0.1", "ip_literal", "224.0.0.1"),
    ("B-36", "[ff02::1]", "ip_literal", "ff02::1"),
]

# Row, host as asked: spellings that some resolver would read as an address.
ODD_SPELLINGS = [
    ("B-22", "127.1"),
    ("B-22", "0x7f.1"),
    ("B-22", "0x7f000001"),
    ("B-22", "0177.0.0.1"),
    ("B-22", "2130706433"),
    ("B-22", "017700000001"),
    ("B-22", "0"),
    ("B-22", "127.0.0.1.1"),
    ("B-22", "127.0.0.256"),
    ("B-22", "1.2.3.4.wild.test.0x7f"),
    ("B-26", "[fe80::1%eth0]"),
    ("B-26", "[fe80::1%25eth0]"),
    ("B-26", "[::ffff:1.2.3.4%x.wild.test]"),
    ("B-26", "[::1].wild.test"),
    ("B-26", "[::1"),
    ("B-26", "::1"),
]

# Row, what an allowed name leads to.
BEHIND_A_NAME = [
    ("B-30", "127.0.0.1"),
    ("B-30", "10.0.0.5"),
    ("B-30", "172.16.0.1"),
    ("B-30", "192.168.1.1"),
    ("B-30", "169.254.169.254"),
    ("B-30", "::1"),
    ("B-30", "64:ff9b::a00:5"),
    ("B-30", "::ffff:10.0.0.5"),
    ("B-30", "2002:a00:5::"),
    ("B-30", "2001:0:a00:5::1"),
    ("B-30", "fe80::5efe:a00:5"),
    ("B-30", "100.64.0.1"),
    ("B-27", "168.63.129.16"),
    ("B-27", "192.0.0.192"),
    ("B-27", "100.100.100.200"),
    ("B-27", "fd00:ec2::254"),
    ("B-27", "fd20:ce::254"),
    ("B-27", "fd00:c1::a9fe:a9fe"),
    ("B-27", "fd00:42::42"),
    ("B-36", "0.0.0.0"),
    ("B-36", "255.255.255.255"),
    ("B-36", "224.0.0.1"),
    ("B-36", "240.0.0.1"),
    ("B-36", "ff02::1"),
    ("B-36", "fec0::1"),
    ("B-36", "198.18.0.1"),
    ("B-36", "192.0.2.1"),
    ("B-36", "3fff::1"),
    ("B-36", "5f00::1"),
]


@every_transport
@pytest.mark.parametrize(
    ("row", "host", "code", "recorded"), LITERALS, ids=[f"{row} {host}" for row, host, _, _ in LITERALS]
)
def test_address_in_place_of_a_name(
    row: str, host: str, code: str, recorded: str, transport: Transport, tmp_path: Path
) -> None:
    """On SOCKS these come as addresses (B-28), which are no better for being no names."""
    with Gateway(tmp_path, rules_for()) as gateway:
        if transport is SOCKS:
            told = socks(gateway, packed(ip_address(host.strip("[]"))), 443)
        else:
            told = ask(gateway, transport, host, 443)
        if code == "ip_literal" and told.message is not None:
            assert "use the host's name" in str(told.message.json()["message"])
        assert_refused(gateway, told, code, host=recorded, port=443)
        assert_untouched(gateway)


@pytest.mark.parametrize(("host", "code"), [("127.0.0.1", "ip_literal"), ("169.254.169.254", "denied")])
def test_address_written_as_a_socks_name(host: str, code: str, tmp_path: Path) -> None:
    """B-22, B-28: a dotted quad sent as a name is an address all the same."""
    with Gateway(tmp_path, rules_for()) as gateway:
        assert_refused(gateway, ask(gateway, SOCKS, host, 443), code, host=host, port=443)


@every_transport
@pytest.mark.parametrize(("row", "host"), ODD_SPELLINGS, ids=[f"{row} {host}" for row, host in ODD_SPELLINGS])
def test_odd_spelling_of_an_address(row: str, host: str, transport: Transport, tmp_path: Path) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        assert_refused(gateway, ask(gateway, transport, host, origin.port), "malformed_host")
        assert_untouched(gateway, origin)
        assert_serves(gateway, origin)


@every_transport
@pytest.mark.parametrize(
    ("row", "address"), BEHIND_A_NAME, ids=[f"{row} {address}" for row, address in BEHIND_A_NAME]
)
def test_allowed_name_that_leads_inside(row: str, address: str, transport: Transport, tmp_path: Path) -> None:
    """Also B-33: an alias of another name is seen by the address it ends at."""
    with Gateway(tmp_path, rules_for()) as gateway:
        gateway.resolver.answer(GOOD, (address,))
        told = ask(gateway, transport, GOOD, 443)
        assert_refused(
            gateway, told, "resolved_address", host=GOOD, port=443, address=str(ip_address(address))
        )
        assert gateway.resolver.asked == [GOOD]


@every_transport
def test_name_that_spells_the_metadata_address(transport: Transport, tmp_path: Path) -> None:
    """B-34: somebody allowed *.nip.io."""
    with Gateway(tmp_path, rules_for()) as gateway:
        gateway.resolver.answer("169-254-169-254.nip.io", ("169.254.169.254",))
        told = ask(gateway, transport, "169-254-169-254.nip.io", 80)
        assert_refused(gateway, told, "resolved_address", address="169.254.169.254")


@every_transport
@pytest.mark.parametrize("address", ["10.0.0.5", "127.0.0.1", "169.254.169.254", "fd00:ec2::254"])
def test_name_that_the_rules_lead_inside(address: str, transport: Transport, tmp_path: Path) -> None:
    """Names answered by `egress.hosts` meet the same address rules."""
    rules = naming(rules_for(), {GOOD: address})
    with Gateway(tmp_path, rules) as gateway:
        told = ask(gateway, transport, GOOD, 443)
        assert_refused(gateway, told, "resolved_address", host=GOOD, address=address)
        assert_untouched(gateway)


@every_transport
def test_rebinding(transport: Transport, tmp_path: Path) -> None:
    """B-31: each connection looks the name up once, and dials what it found then."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        gateway.resolver.answer(GOOD, ("127.0.0.1",), ("10.0.0.5",))
        told = ask(gateway, transport, GOOD, origin.port)
        assert told.granted
        told.wire.close()
        gateway.await_record(state="closed")
        assert gateway.resolver.asked == [GOOD]
        told = ask(gateway, transport, GOOD, origin.port)
        assert not told.granted
        told.wire.close()
        refused = gateway.records()[-1]
        assert (refused["state"], refused["code"], refused["address"]) == (
            "refused",
            "resolved_address",
            "10.0.0.5",
        )
        assert gateway.resolver.asked == [GOOD, GOOD]
        assert origin.accepted == 1


@every_transport
@pytest.mark.parametrize(
    "addresses",
    [
        ("10.0.0.5", "127.0.0.1"),
        ("127.0.0.1", "10.0.0.5"),
        ("169.254.169.254", "::1", "fe80::1", "127.0.0.1", "100.64.0.1"),
    ],
)
def test_mixed_answers(addresses: tuple[str, ...], transport: Transport, tmp_path: Path) -> None:
    """B-31: what may not be dialled is dropped; the listed one alone is connected to."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        gateway.resolver.answer(GOOD, addresses)
        told = ask(gateway, transport, GOOD, origin.port)
        assert told.granted
        told.wire.close()
        first = gateway.records()[0]
        assert (first["verdict"], first["address"]) == ("allow", "127.0.0.1")
        assert origin.accepted == 1


def test_kept_connection_stays_with_its_address(tmp_path: Path) -> None:
    """B-32: further requests of a client go over the connection that was vetted, without another look-up."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        gateway.resolver.answer(GOOD, ("127.0.0.1",), ("10.0.0.5",))
        wire = gateway.ask_http(get_head(GOOD, origin.port))
        assert wire.message().status == 200
        for _ in range(3):
            wire.send(get_head(GOOD, origin.port))
            assert wire.message().status == 200
        wire.close()
        assert gateway.resolver.asked == [GOOD]
        assert origin.accepted == 1
        # Another client's request is vetted anew: no connection is shared.
        assert ask(gateway, HTTP, GOOD, origin.port).status == 403
        assert origin.accepted == 1


@every_transport
@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "::1"])
@pytest.mark.parametrize("which", ["http", "socks"])
def test_own_listeners(which: str, address: str, transport: Transport, tmp_path: Path) -> None:
    """B-35: not even where the operator listed the address."""
    with Gateway(tmp_path, rules_for()) as gateway:
        port = gateway.http if which == "http" else gateway.socks
        rules = rules_for(port, hosts=("127.0.0.1", "127.0.0.2", "::1"))
        _, gateway.http, gateway.socks = gateway.open("s2", rules)
        gateway.resolver.answer(GOOD, (address,))
        told = ask(gateway, transport, GOOD, port)
        assert_refused(gateway, told, "self_connection", host=GOOD, port=port, address=address, session="s2")


@every_transport
def test_own_listener_by_its_address(transport: Transport, tmp_path: Path) -> None:
    """B-35."""
    with Gateway(tmp_path, rules_for()) as gateway:
        port = gateway.http
        _, gateway.http, gateway.socks = gateway.open("s2", rules_for(port))
        told = ask(gateway, transport, "127.0.0.1", port)
        assert_refused(gateway, told, "self_connection", host="127.0.0.1", port=port)


@every_transport
def test_address_of_this_machine(transport: Transport, tmp_path: Path) -> None:
    """An allowed name that leads to this machine, at a port nobody listed."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(80)) as gateway:
        gateway.resolver.answer(GOOD, ("127.0.0.1",))
        told = ask(gateway, transport, GOOD, 443)
        assert_refused(gateway, told, "resolved_address", address="127.0.0.1")
        assert origin.accepted == 0


@every_transport
def test_port_that_is_open_for_listed_addresses_only(transport: Transport, tmp_path: Path) -> None:
    with http_origin(answering()) as origin:
        rules = replace(rules_for(), addresses=listed(origin.port, hosts=("127.0.0.2",)))
        with Gateway(tmp_path, rules) as gateway:
            told = ask(gateway, transport, GOOD, origin.port)
            assert_refused(gateway, told, "resolved_address", port=origin.port, address="127.0.0.1")
            assert origin.accepted == 0


@every_transport
def test_listed_literal(transport: Transport, tmp_path: Path) -> None:
    """B-29: the literal itself may be asked for where it is listed."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        told = ask(gateway, transport, "127.0.0.1", origin.port)
        assert told.granted
        told.wire.close()
        first = gateway.records()[0]
        wanted = {"verdict": "allow", "host": "127.0.0.1", "rule": "config.yaml:9", "address": "127.0.0.1"}
        assert {name: first[name] for name in wanted} == wanted
        assert gateway.resolver.asked == []


@every_transport
def test_origin_on_ipv6(transport: Transport, tmp_path: Path) -> None:
    with (
        http_origin(answering(), host="::1") as origin,
        Gateway(tmp_path, rules_for(origin.port, hosts=("::1",))) as gateway,
    ):
        gateway.resolver.answer(GOOD, ("::1",))
        for host in (GOOD, "[::1]"):
            if transport is SOCKS and host != GOOD:
                told = socks(gateway, packed(ip_address("::1")), origin.port)
            else:
                told = ask(gateway, transport, host, origin.port)
            assert told.granted
            told.wire.close()
        gateway.settle()
        closed = [record for record in gateway.records() if record["state"] == "closed"]
        assert [(record["host"], record["address"]) for record in closed] == [
            (GOOD, "::1"),
            ("::1", "::1"),
        ]


@every_transport
@pytest.mark.parametrize("dead", ["::1", "127.0.0.2"])
def test_one_dead_address(dead: str, transport: Transport, tmp_path: Path) -> None:
    """Happy eyeballs: the first address refuses, the next one answers."""
    with (
        http_origin(answering()) as origin,
        Gateway(tmp_path, rules_for(origin.port, hosts=("127.0.0.1", dead))) as gateway,
    ):
        gateway.resolver.answer(GOOD, (dead, "127.0.0.1"))
        told = ask(gateway, transport, GOOD, origin.port)
        assert told.granted
        told.wire.close()
        assert gateway.records()[0]["address"] == "127.0.0.1"


@every_transport
def test_target_that_refuses(transport: Transport, tmp_path: Path) -> None:
    with closed_port() as port, Gateway(tmp_path, rules_for(port)) as gateway:
        told = ask(gateway, transport, GOOD, port)
        assert_upstream_trouble(gateway, told, "connect_refused", host=GOOD, port=port, address="127.0.0.1")


@every_transport
def test_every_address_dead(transport: Transport, tmp_path: Path) -> None:
    both = ("127.0.0.1", "::1")
    with closed_port() as port, Gateway(tmp_path, rules_for(port, hosts=both)) as gateway:
        gateway.resolver.answer(GOOD, ("::1", "127.0.0.1"))
        assert_upstream_trouble(gateway, ask(gateway, transport, GOOD, port), "connect_refused")


@every_transport
def test_name_without_an_address(transport: Transport, tmp_path: Path) -> None:
    with Gateway(tmp_path, rules_for()) as gateway:
        gateway.resolver.answer(GOOD, ())
        record = assert_upstream_trouble(gateway, ask(gateway, transport, GOOD, 443), "dns_failed", host=GOOD)
        assert "address" not in record


@every_transport
def test_target_that_cannot_be_reached(transport: Transport, tmp_path: Path) -> None:
    """Nobody connects to a broadcast address."""
    with Gateway(tmp_path, rules_for(8080, hosts=("127.255.255.255",))) as gateway:
        gateway.resolver.answer(GOOD, ("127.255.255.255",))
        assert_upstream_trouble(gateway, ask(gateway, transport, GOOD, 8080), "unreachable")


@every_transport
@pytest.mark.parametrize("addresses", [("127.0.0.1",), ("127.0.0.1", "127.0.0.2")], ids=["one", "two"])
def test_target_that_does_not_answer(
    addresses: tuple[str, ...], transport: Transport, tmp_path: Path
) -> None:
    """A full backlog takes no connection and refuses none."""
    with full_backlog("0.0.0.0") as port, Gateway(tmp_path, rules_for(port, hosts=addresses)) as gateway:
        gateway.resolver.answer(GOOD, addresses)
        wire = start(gateway, transport, GOOD, port)
        gateway.until(lambda: gateway.resolver.asked == [GOOD])
        gateway.advance(31)
        assert_upstream_trouble(gateway, answer(wire, transport), "connect_timeout")


@every_transport
def test_one_address_that_does_not_answer(transport: Transport, tmp_path: Path) -> None:
    """Happy eyeballs: the next address is tried beside the first, which is never heard of."""
    with (
        http_origin(answering()) as origin,
        full_backlog("127.0.0.2", origin.port),
        Gateway(tmp_path, rules_for(origin.port, hosts=("127.0.0.1", "127.0.0.2"))) as gateway,
    ):
        gateway.resolver.answer(GOOD, ("127.0.0.2", "127.0.0.1"))
        wire = start(gateway, transport, GOOD, origin.port)
        gateway.until(lambda: gateway.resolver.asked == [GOOD])
        gateway.advance(0.3)
        granted = answer(wire, transport)
        assert granted.granted
        wire.close()
        assert gateway.records()[0]["address"] == "127.0.0.1"
