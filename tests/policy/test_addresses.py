"""The address table: every range by its edges and their neighbours, IPv4 inside IPv6, metadata addresses."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.addresses import (
    NEVER_DIALLED,
    REFUSED,
    carried,
    embedded_ipv4,
    is_metadata,
    refused_class,
)

PUBLIC = None
V6_LAST = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"

# First and last address of a range, its class, the classes of the addresses just before and just after it.
# An address that does not exist has the class "none".
EDGES: tuple[tuple[str, str, str, str | None, str | None], ...] = (
    ("169.254.169.254", "169.254.169.254", "metadata", "link-local", "link-local"),
    ("169.254.170.2", "169.254.170.2", "metadata", "link-local", "link-local"),
    ("169.254.170.23", "169.254.170.23", "metadata", "link-local", "link-local"),
    ("169.254.42.42", "169.254.42.42", "metadata", "link-local", "link-local"),
    ("169.254.0.23", "169.254.0.23", "metadata", "link-local", "link-local"),
    ("100.100.100.200", "100.100.100.200", "metadata", "carrier-grade NAT", "carrier-grade NAT"),
    ("168.63.129.16", "168.63.129.16", "metadata", PUBLIC, PUBLIC),
    ("192.0.0.192", "192.0.0.192", "metadata", "protocol assignments", "protocol assignments"),
    ("0.0.0.0", "0.255.255.255", "unspecified", "none", PUBLIC),
    ("10.0.0.0", "10.255.255.255", "private", PUBLIC, PUBLIC),
    ("100.64.0.0", "100.127.255.255", "carrier-grade NAT", PUBLIC, PUBLIC),
    ("127.0.0.0", "127.255.255.255", "loopback", PUBLIC, PUBLIC),
    ("169.254.0.0", "169.254.255.255", "link-local", PUBLIC, PUBLIC),
    ("172.16.0.0", "172.31.255.255", "private", PUBLIC, PUBLIC),
    ("192.0.0.0", "192.0.0.255", "protocol assignments", PUBLIC, PUBLIC),
    ("192.0.2.0", "192.0.2.255", "documentation", PUBLIC, PUBLIC),
    ("192.88.99.0", "192.88.99.255", "6to4 relay", PUBLIC, PUBLIC),
    ("192.168.0.0", "192.168.255.255", "private", PUBLIC, PUBLIC),
    ("198.18.0.0", "198.19.255.255", "benchmarking", PUBLIC, PUBLIC),
    ("198.51.100.0", "198.51.100.255", "documentation", PUBLIC, PUBLIC),
    ("203.0.113.0", "203.0.113.255", "documentation", PUBLIC, PUBLIC),
    ("224.0.0.0", "239.255.255.255", "multicast", PUBLIC, "reserved"),
    ("240.0.0.0", "255.255.255.254", "reserved", "multicast", "broadcast"),
    ("255.255.255.255", "255.255.255.255", "broadcast", "reserved", "none"),
    ("fd00:ec2::", "fd00:ec2:ffff:ffff:ffff:ffff:ffff:ffff", "metadata", "private", "private"),
    ("fd20:ce::254", "fd20:ce::254", "metadata", "private", "private"),
    ("fd00:c1::a9fe:a9fe", "fd00:c1::a9fe:a9fe", "metadata", "private", "private"),
    ("fd00:42::42", "fd00:42::42", "metadata", "private", "private"),
    ("fd00:a9fe:a9fe::1", "fd00:a9fe:a9fe::1", "metadata", "private", "private"),
    ("fd00:100::100:200", "fd00:100::100:200", "metadata", "private", "private"),
    ("fe80::a9fe:a9fe", "fe80::a9fe:a9fe", "metadata", "link-local", "link-local"),
    ("::", "::", "unspecified", "none", "loopback"),
    ("::1", "::1", "loopback", "unspecified", "IPv4-compatible"),
    ("::2", "::ffff:ffff", "IPv4-compatible", "loopback", "reserved"),
    ("100::", "100::ffff:ffff:ffff:ffff", "discard-only", "reserved", "reserved"),
    ("2001::", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff", "Teredo", PUBLIC, "protocol assignments"),
    ("2001:1::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "protocol assignments", "Teredo", PUBLIC),
    ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "documentation", PUBLIC, PUBLIC),
    ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "documentation", PUBLIC, PUBLIC),
    ("5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "segment routing", "reserved", "reserved"),
    ("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "private", "reserved", "reserved"),
    ("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "link-local", "reserved", "site-local"),
    ("fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "site-local", "link-local", "multicast"),
    ("ff00::", V6_LAST, "multicast", "site-local", "none"),
    # All that is assigned for unicast, seen from outside of it.
    ("1fff::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "reserved", "reserved", PUBLIC),
    ("4000::", "4000::", "reserved", PUBLIC, "reserved"),
)


@pytest.mark.parametrize(("first", "last", "name", "before", "after"), EDGES, ids=[row[0] for row in EDGES])
def test_edges(first: str, last: str, name: str, before: str | None, after: str | None) -> None:
    low, high = ip_address(first), ip_address(last)
    assert refused_class(low) == name
    # The last of 100::/64 and the like reads as an interface identifier; no edge here is an ISATAP one.
    assert refused_class(high) == name
    if before != "none":
        assert refused_class(low - 1) == before
    if after != "none":
        assert refused_class(high + 1) == after


def test_every_row_of_the_table_has_its_edges_tested() -> None:
    tested = {ip_address(row[0]) for row in EDGES} | {ip_address(row[1]) for row in EDGES}
    for text, _ in REFUSED:
        network = IPv6Network(text) if ":" in text else IPv4Network(text)
        assert {network[0], network[-1]} <= tested, text


def test_a_row_is_not_hidden_by_an_earlier_one() -> None:
    for text, name in REFUSED:
        network = IPv6Network(text) if ":" in text else IPv4Network(text)
        middle = network[network.num_addresses // 2]
        assert refused_class(middle) == name, text


PUBLIC_ADDRESSES = (
    "1.1.1.1",
    "8.8.8.8",
    "140.82.112.3",
    "100.63.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "223.255.255.255",
    "2606:4700::1",
    "2a00:1450:4001:81b::200e",
    "2620:4f:8000::1",
    "2001:200::1",
    "2001:4860:4860::8888",
    "::ffff:140.82.112.3",
    "::ffff:0:140.82.112.3",
    "64:ff9b::8c52:7003",
    "64:ff9b:1::8c52:7003",
    "2002:8c52:7003::1",
    "2606:4700::5efe:8c52:7003",
)


@pytest.mark.parametrize("text", PUBLIC_ADDRESSES)
def test_public(text: str) -> None:
    address = ip_address(text)
    assert refused_class(address) is None
    assert not is_metadata(address)


# IPv6 text, the IPv4 address inside, the class.
INSIDE = (
    ("::ffff:127.0.0.1", "127.0.0.1", "loopback"),
    ("::ffff:7f00:1", "127.0.0.1", "loopback"),
    ("::ffff:0.0.0.0", "0.0.0.0", "unspecified"),
    ("0:0:0:0:0:ffff:a9fe:a9fe", "169.254.169.254", "metadata"),
    ("::ffff:168.63.129.16", "168.63.129.16", "metadata"),
    ("::127.0.0.1", "127.0.0.1", "IPv4-compatible"),
    ("::169.254.169.254", "169.254.169.254", "metadata"),
    ("::8.8.8.8", "8.8.8.8", "IPv4-compatible"),
    ("::2", "0.0.0.2", "IPv4-compatible"),
    ("::ffff:0:10.1.2.3", "10.1.2.3", "private"),
    ("64:ff9b::a9fe:a9fe", "169.254.169.254", "metadata"),
    ("64:ff9b::7f00:1", "127.0.0.1", "loopback"),
    ("64:ff9b:1::7f00:1", "127.0.0.1", "loopback"),
    ("64:ff9b:1::6464:64c8", "100.100.100.200", "metadata"),
    # A layout with a prefix of 48 bits: the address stands elsewhere, so the whole is refused.
    ("64:ff9b:1:a9fe:a9:fe00:808:808", "8.8.8.8", "reserved"),
    ("64:ff9b:1:1::8.8.8.8", "8.8.8.8", "reserved"),
    ("64:ff9b:2::8.8.8.8", None, "reserved"),
    ("64:ff9b:0:1::8.8.8.8", None, "reserved"),
    ("2002:7f00:1::", "127.0.0.1", "loopback"),
    ("2002:a9fe:a9fe::1", "169.254.169.254", "metadata"),
    ("2002:c0a8:101:ffff:ffff:ffff:ffff:ffff", "192.168.1.1", "private"),
    ("2001:0:808:808:0:0:f5fe:fdfc", "10.1.2.3", "Teredo"),
    ("2001:0:808:808:0:0:5601:5601", "169.254.169.254", "metadata"),
    ("2001:0:a9fe:a9fe::f7f7:f7f7", "8.8.8.8", "metadata"),
    ("::5efe:7f00:1", "127.0.0.1", "reserved"),
    ("2606:4700::5efe:7f00:1", "127.0.0.1", "loopback"),
    ("2606:4700::200:5efe:10.0.0.1", "10.0.0.1", "private"),
    ("2606:4700::300:5efe:169.254.169.254", "169.254.169.254", "metadata"),
    ("fe80::5efe:8.8.8.8", "8.8.8.8", "link-local"),
    ("fd00:ec2::5efe:10.0.0.1", "10.0.0.1", "metadata"),
    ("2002:808:808::5efe:10.0.0.1", "8.8.8.8", "private"),
    ("2606:4700::1", None, None),
    ("::", None, "unspecified"),
    ("::1", None, "loopback"),
)


@pytest.mark.parametrize(("text", "inner", "name"), INSIDE, ids=[row[0] for row in INSIDE])
def test_ipv4_inside(text: str, inner: str | None, name: str | None) -> None:
    address = IPv6Address(text)
    assert embedded_ipv4(address) == (None if inner is None else IPv4Address(inner))
    assert refused_class(address) == name


METADATA = (
    "169.254.169.254",  # AWS, GCP, Azure, OCI and most others
    "169.254.170.2",  # AWS ECS
    "169.254.170.23",  # AWS EKS
    "169.254.169.253",  # AWS DNS
    "169.254.169.123",  # AWS time
    "169.254.42.42",  # Scaleway
    "169.254.0.23",  # Tencent
    "169.254.129.1",  # Azure App Service
    "169.254.0.0",
    "169.254.255.255",
    "168.63.129.16",  # Azure
    "100.100.100.200",  # Alibaba
    "192.0.0.192",  # Oracle
    "fd00:ec2::254",  # AWS
    "fd00:ec2::23",
    "fd00:ec2::253",
    "fd00:ec2::123",
    "fd20:ce::254",  # GCP
    "fd00:c1::a9fe:a9fe",  # OCI
    "fd00:42::42",  # Scaleway
    "fd00:a9fe:a9fe::1",  # Akamai
    "fd00:100::100:200",  # Alibaba
    "fe80::a9fe:a9fe",  # OpenStack
    "fe80::1",
)


@pytest.mark.parametrize("text", METADATA)
def test_metadata(text: str) -> None:
    assert is_metadata(ip_address(text))
    assert refused_class(ip_address(text)) in NEVER_DIALLED


@pytest.mark.parametrize("text", [text for text in METADATA if ":" not in text])
def test_metadata_inside_ipv6(text: str) -> None:
    value = int(IPv4Address(text))
    forms = (
        value,
        0xFFFF << 32 | value,
        0xFFFF << 48 | value,
        0x0064_FF9B << 96 | value,
        0x0064_FF9B_0001 << 80 | value,
        0x2002 << 112 | value << 80,
        0x2001_0000 << 96 | value << 64,
        0x2001_0000 << 96 | value ^ 0xFFFF_FFFF,
        0x2606_4700 << 96 | 0x5EFE << 32 | value,
        0x2606_4700 << 96 | 0x0200_5EFE << 32 | value,
    )
    for form in forms:
        assert is_metadata(IPv6Address(form)), IPv6Address(form)


@pytest.mark.parametrize("text", ["127.0.0.1", "10.0.0.1", "::1", "8.8.8.8", "fd00::5", "168.63.129.15"])
def test_not_metadata(text: str) -> None:
    assert not is_metadata(ip_address(text))


def test_carried_gives_the_address_and_all_inside() -> None:
    assert list(carried(IPv4Address("10.0.0.1"))) == [IPv4Address("10.0.0.1")]
    assert list(carried(IPv6Address("2606:4700::1"))) == [IPv6Address("2606:4700::1")]
    teredo = IPv6Address("2001:0:808:808:0:0:f5fe:fdfc")
    assert list(carried(teredo)) == [teredo, IPv4Address("10.1.2.3"), IPv4Address("8.8.8.8")]


@given(st.integers(0, 2**32 - 1))
def test_mapping_never_makes_an_address_more_public(value: int) -> None:
    plain = refused_class(IPv4Address(value))
    assert refused_class(IPv6Address(0xFFFF << 32 | value)) == plain
    assert refused_class(IPv6Address(0x0064_FF9B << 96 | value)) == plain
    assert refused_class(IPv6Address(0x2002 << 112 | value << 80)) == plain


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6))
def test_what_the_interpreter_calls_inside_is_never_public(address: IPv4Address | IPv6Address) -> None:
    inside = (
        address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or address.is_unspecified
        or address.is_reserved
    )
    translated = embedded_ipv4(address) if isinstance(address, IPv6Address) else None
    if inside and translated is None:
        assert refused_class(address) is not None


@given(st.integers(0, 2**128 - 1))
def test_public_ipv6_is_unicast_or_translated(value: int) -> None:
    address = IPv6Address(value)
    if refused_class(address) is None and embedded_ipv4(address) is None:
        assert value >> 125 == 1
