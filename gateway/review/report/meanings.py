"""What the code of a refused connection says, for somebody who reads a report and not the source."""

from collections.abc import Mapping
from typing import Final

from gateway.policy.egress import Code

_MEANINGS: Final[Mapping[str, str]] = {
    Code.NOT_LISTED: "The host is on no list of what this session may reach.",
    Code.DENIED: "The host or its address is on a deny list, which beats every allow entry.",
    Code.NETWORK_OFF: "The session had no network.",
    Code.PORT: "The host is allowed, this port of it is not.",
    Code.IP_LITERAL: "The client asked for an address instead of a name.",
    Code.RESOLVED_ADDRESS: "The name led to an address that sessions do not reach, such as one of the host's network.",
    Code.SELF_CONNECTION: "The client asked the gateway for the gateway itself.",
    Code.SNI_MISMATCH: "Inside TLS the client named another host than the one it asked for.",
    Code.SNI_MISSING: "Inside TLS the client named no host, so nobody can tell which one it meant.",
    Code.NOT_TLS: "What the client spoke was not TLS, so nobody can tell which host it meant.",
    Code.AUTHORITY_MISMATCH: "The request named another host than the connection it came on.",
    Code.PUSH_BYPASS: "A push went another way than through the push gateway.",
    Code.POLICY_CHANGED: "The lists changed while the connection was open, and no longer allow it.",
    Code.MALFORMED_HOST: "What was asked for is no host.",
    Code.MALFORMED_REQUEST: "The request could not be read.",
    Code.TIMEOUT: "The client was too slow with its request.",
    Code.LIMIT: "The session's limits of connections were reached.",
    Code.INTERNAL: "The gateway could not decide or record it, and what it cannot record it refuses.",
}


def meaning_of(code: str) -> str:
    """A sentence. Of a code of another version it says that."""
    return _MEANINGS.get(code, "This version does not know the code.")
