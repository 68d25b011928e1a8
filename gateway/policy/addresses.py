"""Addresses: which of them are not the public internet, by a table of our own.

The properties of `ipaddress` (`is_private`, `is_global`, ...) are no policy: their answers change with the
patch level of the interpreter and miss cloud metadata addresses, NAT64 and more. Only the parsing of that
module is used.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

METADATA = "metadata"
LINK_LOCAL = "link-local"

# Network and class; the first row that holds an address names it. Sources: IANA's special-purpose address
# registries (RFC 6890 and its updates), the clouds' own documentation of their metadata services.
REFUSED: tuple[tuple[str, str], ...] = (
    # What answers with an instance's credentials.
    (
        "169.254.169.254/32",
        METADATA,
    ),  # AWS, GCP, Azure, OCI, OpenStack, DigitalOcean, Hetzner, IBM, Vultr, Akamai
    ("169.254.170.2/32", METADATA),  # AWS ECS task credentials
    ("169.254.170.23/32", METADATA),  # AWS EKS pod identity
    ("169.254.42.42/32", METADATA),  # Scaleway
    ("169.254.0.23/32", METADATA),  # Tencent
    ("100.100.100.200/32", METADATA),  # Alibaba, inside carrier-grade NAT
    ("168.63.129.16/32", METADATA),  # Azure WireServer, inside a public range
    ("192.0.0.192/32", METADATA),  # Oracle Cloud Classic
    ("fd00:ec2::/32", METADATA),  # AWS: ::254 metadata, ::23 pod identity, ::253 DNS, ::123 time
    ("fd20:ce::254/128", METADATA),  # GCP
    ("fd00:c1::a9fe:a9fe/128", METADATA),  # OCI
    ("fd00:42::42/128", METADATA),  # Scaleway
    ("fd00:a9fe:a9fe::1/128", METADATA),  # Akamai
    ("fd00:100::100:200/128", METADATA),  # Alibaba
    ("fe80::a9fe:a9fe/128", METADATA),  # OpenStack
    # IPv4
    ("0.0.0.0/8", "unspecified"),  # Linux connects 0.0.0.0 to itself
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "carrier-grade NAT"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", LINK_LOCAL),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "protocol assignments"),
    ("192.0.2.0/24", "documentation"),
    ("192.88.99.0/24", "6to4 relay"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "benchmarking"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("255.255.255.255/32", "broadcast"),
    ("240.0.0.0/4", "reserved"),
    # IPv6; mapped, translated, NAT64 and 6to4 addresses have no row: the IPv4 address inside is judged.
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::/96", "IPv4-compatible"),
    ("100::/64", "discard-only"),
    ("2001::/32", "Teredo"),
    ("2001::/23", "protocol assignments"),
    ("2001:db8::/32", "documentation"),
    ("3fff::/20", "documentation"),
    ("5f00::/16", "segment routing"),
    ("fc00::/7", "private"),
    ("fe80::/10", LINK_LOCAL),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
)

# Where a metadata service may answer: never dialled, whatever a config lists. All of link-local is among
# them, since clouds and sidecars put further services there.
NEVER_DIALLED = frozenset({METADATA, LINK_LOCAL})

_Range = tuple[int, int, str]


def _ranges(network: type[IPv4Network] | type[IPv6Network], colon: bool) -> tuple[_Range, ...]:
    rows = [(network(text), name) for text, name in REFUSED if (":" in text) is colon]
    return tuple((int(row[0]), int(row[-1]), name) for row, name in rows)


_IPV4 = _ranges(IPv4Network, colon=False)
_IPV6 = _ranges(IPv6Network, colon=True)

_LOW_32 = 0xFFFF_FFFF
_NAT64_LOCAL = 0x0064_FF9B_0001  # upper 48 bits of 64:ff9b:1::/48 (RFC 8215)
# Upper 96 bits of what stands for the IPv4 address in its last 32 bits and for nothing else.
_STANDS_FOR_IPV4 = frozenset(
    {
        0xFFFF,  # mapped, ::ffff:0:0/96 (RFC 4291)
        0xFFFF << 16,  # translated, ::ffff:0:0:0/96 (RFC 2765)
        0x0064_FF9B << 64,  # NAT64, 64:ff9b::/96 (RFC 6052)
        _NAT64_LOCAL << 48,  # NAT64 with a local prefix of 96 bits; its other layouts are refused
    }
)
_6TO4 = 0x2002  # upper 16 bits (RFC 3056)
_TEREDO = 0x2001_0000  # upper 32 bits (RFC 4380)
_ISATAP = 0x0000_5EFE  # upper half of the interface identifier (RFC 5214), without its u and g bits
_ISATAP_MASK = 0xFCFF_FFFF
_UNICAST = 1  # upper 3 bits of 2000::/3, which is all that is assigned for global unicast


def refused_class(address: Address) -> str | None:
    """Why the address is not the public internet, as a short class name ("loopback", ...); None if it is.

    An IPv6 address is judged by its own rows and by every IPv4 address inside it. A class that is never
    dialled comes before any other. IPv6 outside of 2000::/3 that has no row is "reserved".
    """
    value = int(address)
    if isinstance(address, IPv4Address):
        return _class(_IPV4, value)
    found = _class(_IPV6, value)
    if found is None and value >> 125 != _UNICAST and value >> 32 not in _STANDS_FOR_IPV4:
        found = "reserved"
    for inner in _embedded(value):
        name = _class(_IPV4, inner)
        if name in NEVER_DIALLED:
            return name
        found = found or name
    return found


def embedded_ipv4(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address carries, or None.

    Mapped, compatible and translated addresses, NAT64 (64:ff9b::/96, and the last 32 bits of 64:ff9b:1::/48),
    6to4, Teredo (the client's) and ISATAP.
    """
    inner = next(_embedded(int(address)), None)
    return None if inner is None else IPv4Address(inner)


def is_metadata(address: Address) -> bool:
    """Whether a cloud's metadata service may answer there: the classes of `NEVER_DIALLED`."""
    return refused_class(address) in NEVER_DIALLED


def carried(address: Address) -> Iterator[Address]:
    """The address itself and every IPv4 address inside it: what a rule about networks has to look at."""
    yield address
    if isinstance(address, IPv6Address):
        yield from map(IPv4Address, _embedded(int(address)))


def _class(table: tuple[_Range, ...], value: int) -> str | None:
    for first, last, name in table:
        if first <= value <= last:
            return name
    return None


def _embedded(value: int) -> Iterator[int]:
    """Every IPv4 address inside an IPv6 one. `::` and `::1` are addresses of their own, not IPv4 ones."""
    upper = value >> 32
    if upper in _STANDS_FOR_IPV4 or value >> 80 == _NAT64_LOCAL or (upper == 0 and value > 1):
        yield value & _LOW_32
    if value >> 112 == _6TO4:
        yield value >> 80 & _LOW_32
    if value >> 96 == _TEREDO:
        yield value & _LOW_32 ^ _LOW_32  # the client's address is stored inverted
        yield value >> 64 & _LOW_32  # its server's is not
    if upper & _ISATAP_MASK == _ISATAP:
        yield value & _LOW_32
