"""The section `egress`: what is taken, and each value that is refused, with its line."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path

import pytest

from gateway.config import ConfigError
from gateway.config.egress import bracketed
from gateway.policy.hosts import HostPattern
from gateway.policy.limits import Limits
from tests.fakes.config_files import assert_refused, assert_warned, load

SECRET = "hunter2"

REFUSED = (
    ("allow is no list", "egress:\n  allow: x.test\n", 2, "must be a list, not text"),
    ("allow is empty", "egress:\n  allow:\n  ports: [80]\n", 2, "must be a list, not empty"),
    ("allow is a mapping", "egress:\n  allow: {x.test: 1}\n", 2, "must be a list, not a mapping"),
    ("number", "egress:\n  allow:\n    - a.test\n    - 12\n", 4, "must be text, not a whole number"),
    ("truth", "egress:\n  allow:\n    - true\n", 3, "must be text, not true or false"),
    ("nested list", "egress:\n  allow:\n    - [a.test]\n", 3, "must be text, not a list"),
    ("empty item", "egress:\n  allow:\n    - ''\n", 3, "empty text"),
    ("missing item", "egress:\n  allow:\n    - a.test\n    -\n", 4, "not empty"),
    ("star alone", "egress:\n  allow:\n    - '*'\n", 3, "matches every host"),
    ("top-level domain", "egress:\n  allow: ['*.test']\n", 2, "whole top-level domain"),
    ("two stars", "egress:\n  allow: ['*.*.x.test']\n", 2, "more than one star"),
    ("star in a label", "egress:\n  allow: ['a*b.x.test']\n", 2, "inside a label"),
    ("URL", "egress:\n  allow: ['https://x.test']\n", 2, "is a URL"),
    ("path", "egress:\n  allow: [x.test/y]\n", 2, "holds a"),
    ("port", "egress:\n  allow: ['x.test:443']\n", 2, "holds a port"),
    ("IPv4 address", "egress:\n  allow: [10.1.2.3]\n", 2, "under egress.addresses"),
    ("IPv6 address", "egress:\n  allow: ['fd00::5']\n", 2, "under egress.addresses"),
    ("odd address", "egress:\n  allow: ['0x7f.1']\n", 2, "is not a host"),
    ("space inside", "egress:\n  allow: ['x .test']\n", 2, "is not a host"),
    ("space around", "egress:\n  allow: [' x.test']\n", 2, "is not a host"),
    ("line break", 'egress:\n  allow: ["x.test\\n"]\n', 2, "line break or an invisible character"),
    ("full-width letters", "egress:\n  allow: ['ｘ.test']\n", 2, 'no unique "xn--" form'),
    ("a bad deny entry", "egress:\n  deny: ['*']\n", 2, "matches every host"),
    ("a network with bits too many", "egress:\n  deny: [10.0.0.1/8]\n", 2, "without bits beyond the prefix"),
    ("an odd deny address", "egress:\n  deny: ['127.1']\n", 2, "is no address or network"),
    ("a network of IPv6 too long", "egress:\n  deny: ['fd00::/129']\n", 2, "is no address or network"),
    ("a zone", "egress:\n  deny: ['fe80::1%eth0']\n", 2, "egress.deny"),
    ("ports is no list", "egress:\n  ports: 443\n", 2, "must be a list, not a whole number"),
    ("port as text", "egress:\n  ports: ['443']\n", 2, "not text: write ports: [80, 443], without quotes"),
    ("port 0", "egress:\n  ports: [0]\n", 2, "0 is no port"),
    ("port too large", "egress:\n  ports: [80, 65536]\n", 2, "65536 is no port"),
    ("port negative", "egress:\n  ports: [-1]\n", 2, "-1 is no port"),
    ("port with a leading zero", "egress:\n  ports: [0443]\n", 2, "not whole and decimal"),
    ("port in hexadecimal", "egress:\n  ports: [0x1bb]\n", 2, "not whole and decimal"),
    ("port not whole", "egress:\n  ports: [443.0]\n", 2, "not whole and decimal"),
    ("port of too many digits", f"egress:\n  ports: [{'9' * 40}]\n", 2, "not whole and decimal"),
    ("port twice", "egress:\n  ports:\n    - 443\n    - 443\n", 4, "443 stands there twice"),
    ("port in Arabic digits", "egress:\n  ports: [٤٤٣]\n", 2, "not text"),
    ("raw without a port", "egress:\n  raw: [api.base.test]\n", 2, "the port is missing"),
    ("raw with a star", "egress:\n  raw: ['*.wide.test:22']\n", 2, "has a star"),
    ("raw with port 0", "egress:\n  raw: ['api.base.test:0']\n", 2, "has port 0"),
    ("raw with a bad port", "egress:\n  raw: ['api.base.test:022']\n", 2, "without a leading zero"),
    ("raw with too large a port", "egress:\n  raw: ['api.base.test:70000']\n", 2, "from 0 to 65535"),
    ("raw with a URL", "egress:\n  raw: ['ssh://api.base.test:22']\n", 2, "is no host with a port"),
    ("raw twice", "egress:\n  raw:\n  - api.base.test:22\n  - API.base.test.:22\n", 4, "twice"),
    ("an address without a port", "egress:\n  addresses: [10.1.2.3]\n", 2, "the port is missing"),
    ("an address that is a name", "egress:\n  addresses: ['x.test:443']\n", 2, "is a name"),
    ("an address with port 0", "egress:\n  addresses: ['10.1.2.3:0']\n", 2, "has port 0"),
    ("an odd address", "egress:\n  addresses: ['10.1.515:80']\n", 2, "four decimal numbers"),
    ("IPv6 without brackets", "egress:\n  addresses: ['fd00::5:443']\n", 2, "in brackets"),
    ("an address twice", "egress:\n  addresses:\n  - '[fd00::5]:1'\n  - '[fd00:0::5]:1'\n", 4, "twice"),
    ("metadata", "egress:\n  addresses: ['169.254.169.254:80']\n", 2, "never reachable"),
    ("metadata of another cloud", "egress:\n  addresses: ['100.100.100.200:80']\n", 2, "never reachable"),
    ("metadata in IPv6", "egress:\n  addresses: ['[fd00:ec2::254]:80']\n", 2, "never reachable"),
    ("metadata, mapped", "egress:\n  addresses: ['[::ffff:169.254.169.254]:80']\n", 2, "never reachable"),
    ("metadata, NAT64", "egress:\n  addresses: ['[64:ff9b::a9fe:a9fe]:80']\n", 2, "never reachable"),
    ("unspecified", "egress:\n  addresses: ['0.0.0.0:80']\n", 2, "no single machine"),
    ("multicast", "egress:\n  addresses: ['[ff02::1]:80']\n", 2, "no single machine"),
    ("hosts is a list", "egress:\n  hosts: [x.test]\n", 2, "must be a mapping, not a list"),
    ("a mapped name that is an address", "egress:\n  hosts: {10.0.0.1: 10.0.0.2}\n", 2, "not a name"),
    ("a mapped name that is none", "egress:\n  hosts: {'x y': 127.0.0.1}\n", 2, "is no host name"),
    ("a pattern as mapped name", "egress:\n  hosts: {'*.x.test': 127.0.0.1}\n", 2, "is no host name"),
    ("a name to a name", "egress:\n  hosts: {x.test: y.test}\n", 2, "is no address"),
    ("a name to an address with port", "egress:\n  hosts: {x.test: '127.0.0.1:80'}\n", 2, "is no address"),
    ("a name to metadata", "egress:\n  hosts: {x.test: 169.254.169.254}\n", 2, "never reachable"),
    ("a name to a number", "egress:\n  hosts: {x.test: 127}\n", 2, "must be text"),
    ("limits is a number", "egress:\n  limits: 5\n", 2, "must be a mapping of keys"),
    ("no tunnels", "egress:\n  limits: {tunnels: 0}\n", 2, "from 1 to 100000, not 0"),
    ("idle not whole", "egress:\n  limits: {idle: 1.5}\n", 2, "a whole number from 1 to 86400"),
    ("idle too long", "egress:\n  limits:\n    idle: 86401\n", 3, "from 1 to 86400"),
    (
        "unknown limit",
        "egress:\n  limits: {tunnel: 5}\n",
        2,
        "unknown key 'tunnel' in egress.limits: write tunnels",
    ),
)

PROXIES_REFUSED = (
    f"https://user:{SECRET}@proxy.test:3128",
    f"http://user:{SECRET}@proxy.test",
    f"http://user:{SECRET}@proxy.test:0",
    f"http://user:{SECRET}@proxy.test:70000",
    f"http://user:{SECRET}@proxy.test:3128/path",
    f"http://user:{SECRET}@proxy.test:3128?{SECRET}",
    f"http://us er:{SECRET}@proxy.test:3128",
    f"http://user:{SECRET}%zz@proxy.test:3128",
    f"http://user@x:{SECRET}@proxy.test:3128",
    f"http://user:{SECRET}@169.254.169.254:80",
    f"http://user:{SECRET}@[::]:80",
    f"user:{SECRET}@proxy.test:3128",
    f"socks5://{SECRET}",
    f"http://{SECRET}",
    SECRET,
)

PROXIES_TAKEN = (
    ("http://proxy.test:3128", "http://proxy.test:3128"),
    ("http://Proxy.test.:3128/", "http://proxy.test:3128"),
    (f"http://user:{SECRET}%40@10.1.2.3:3128", f"http://user:{SECRET}%40@10.1.2.3:3128"),
    ("http://user@[fd00:0::5]:80", "http://user@[fd00::5]:80"),
    ("http://user:@proxy.test:3128", "http://user:@proxy.test:3128"),
)

TAKEN = """\
egress:
  allow: ["*.X.test", a.*.y.test,
    one.test.]
  deny: [ no.test, 10.0.0.0/8, 192.0.2.1, "fd77::/16" ]
  ports: [8443]
  raw:
    - one.test:22
  addresses: ["127.0.0.1:8443", "[FD11::5]:443"]
  hosts: {One.test: 127.0.0.1, six.x.test: "[fd11::5]", v6.x.test: "fd11::0005"}
  limits: {tunnels: 1}
"""


@pytest.mark.parametrize(
    ("content", "line", "fragment"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_value_is_refused_with_its_line(tmp_path: Path, content: str, line: int, fragment: str) -> None:
    assert_refused(tmp_path, content, line, fragment)


def test_values_are_taken_in_normal_form_with_their_rule(tmp_path: Path) -> None:
    egress = load(tmp_path, TAKEN).egress
    assert egress.allow == (
        HostPattern("*.x.test", "config.yaml:2"),
        HostPattern("a.*.y.test", "config.yaml:2"),
        HostPattern("one.test", "config.yaml:3"),
    )
    assert egress.deny == (HostPattern("no.test", "config.yaml:4"),)
    assert egress.denied_networks == (
        (IPv4Network("10.0.0.0/8"), "config.yaml:4"),
        (IPv4Network("192.0.2.1/32"), "config.yaml:4"),
        (IPv6Network("fd77::/16"), "config.yaml:4"),
    )
    assert egress.ports == {8443}
    assert egress.raw == {("one.test", 22): "config.yaml:7"}
    assert egress.addresses == {
        (IPv4Address("127.0.0.1"), 8443): "config.yaml:8",
        (IPv6Address("fd11::5"), 443): "config.yaml:8",
    }
    assert egress.hosts == {"one.test": "127.0.0.1", "six.x.test": "fd11::5", "v6.x.test": "fd11::5"}
    assert egress.limits == Limits(tunnels=1)


def test_names_that_are_not_ascii_are_converted_with_a_warning(tmp_path: Path) -> None:
    assert_warned(tmp_path, "egress:\n  allow: [bücher.test]\n", 2, "is read as xn--bcher-kva.test")
    assert load(tmp_path, "egress: {allow: [bücher.test]}").egress.allow[0].text == "xn--bcher-kva.test"


@pytest.mark.parametrize("url", PROXIES_REFUSED)
def test_upstream_proxy_is_refused_without_showing_its_password(tmp_path: Path, url: str) -> None:
    assert_refused(tmp_path, f"egress:\n  upstream_proxy: {url!r}\n", 2, "egress.upstream_proxy")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, f"egress:\n  upstream_proxy: {url!r}\n")
    assert SECRET not in f"{caught.value} {caught.value!r}"


@pytest.mark.parametrize(("url", "canonical"), PROXIES_TAKEN)
def test_upstream_proxy_is_taken_and_its_password_not_shown(tmp_path: Path, url: str, canonical: str) -> None:
    config = load(tmp_path, f"egress: {{upstream_proxy: {url!r}}}")
    assert config.egress.upstream_proxy == canonical
    assert SECRET not in repr(config)
    assert canonical not in repr(config)


@pytest.mark.parametrize(
    "content",
    [
        f"egress: {{allow: ['http://user:{SECRET}@x.test']}}",
        f"egress: {{allow: ['user:{SECRET}@x.test']}}",
        f"egress: {{raw: ['user:{SECRET}@x.test:22']}}",
        f"'http://user:{SECRET}@x.test': 1",
        f"egress: {{'user:{SECRET}@x.test': 1}}",
        f"egress: {{hosts: {{'user:{SECRET}@x.test': 127.0.0.1}}}}",
        f"github: {{url: 'https://user:{SECRET}@x.test'}}",
        f"egress: {{upstream_proxy: ['http://user:{SECRET}@x.test:1']}}",
        f"egress: {{upstream_proxy: http://user:{SECRET}@x.test:1: 2}}",
        f"egress:\n  upstream_proxy: 'http://user:{SECRET}@x.test:1\n",
        f"'user:{SECRET}@x': 1\n'user:{SECRET}@x': 2\n",
    ],
)
def test_no_message_shows_a_password(tmp_path: Path, content: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, content)
    assert SECRET not in f"{caught.value} {caught.value!r}"


def test_brackets_are_for_ipv6_alone() -> None:
    assert (bracketed("fd00::5"), bracketed("10.1.2.3"), bracketed("x.test")) == (
        "[fd00::5]",
        "10.1.2.3",
        "x.test",
    )
