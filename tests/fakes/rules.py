"""The egress rules of the tests: the policy that the hostile inputs are written against."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from ipaddress import ip_address, ip_network

from gateway.policy.addresses import Address
from gateway.policy.egress import EgressRules
from gateway.policy.hosts import HostMatcher, HostPattern

GOOD = "api.allowed.test"
ALLOWED = (
    GOOD,
    "*.wild.test",
    "svc.*.multi.test",
    "github.com",
    "bedrock.*.amazonaws.com",
    "*.nip.io",
    "*.githubusercontent.com",
    "*.github.com",
    "*.githubcopilot.com",
)
DENIED = (
    "metadata.google.internal",
    "bad.wild.test",
    "copilot-telemetry.githubusercontent.com",
    "collector.github.com",
    "telemetry.enterprise.githubcopilot.com",
)
METADATA = ("169.254.169.254/32", "168.63.129.16/32", "fd00:ec2::254/128")


def matcher(place: str, texts: Iterable[str], *, deny: bool = False) -> HostMatcher:
    """Patterns with rules like `allow.txt:1`."""
    entries = (HostPattern(text, f"{place}:{line}") for line, text in enumerate(texts, start=1))
    return HostMatcher(entries, storage_labels=deny)


def listed(*ports: int, hosts: Iterable[str] = ("127.0.0.1",)) -> dict[tuple[Address, int], str]:
    """Entries of `egress.addresses` for loopback ports."""
    return {(ip_address(host), port): "config.yaml:9" for host in hosts for port in ports}


def rules_for(
    *ports: int, hosts: Iterable[str] = ("127.0.0.1",), raw: Iterable[tuple[str, int]] = ()
) -> EgressRules:
    """The policy, with 80, 443 and these ports open, and an allowed name may lead to loopback at these ports."""
    return EgressRules(
        network=True,
        ports=frozenset({80, 443, *ports}),
        fixed_deny=matcher("deny.txt", DENIED, deny=True),
        operator_deny=matcher("config.yaml", ("*.worse.wild.test",), deny=True),
        allow=matcher("allow.txt", ALLOWED),
        raw=dict.fromkeys(raw, "config.yaml:7"),
        addresses=listed(*ports, hosts=hosts),
        denied_networks=tuple(
            (ip_network(text), f"deny.txt:{line}") for line, text in enumerate(METADATA, 20)
        ),
    )


def offline(rules: EgressRules) -> EgressRules:
    """The same with the network off."""
    return replace(rules, network=False)


def naming(rules: EgressRules, names: Mapping[str, str]) -> EgressRules:
    """The same, with these names answered by the rules themselves."""
    return replace(rules, names=names)
