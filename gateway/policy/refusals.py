"""What a wrapped process reads when it is refused: plain words that say whose decision it is and how to go on."""

from collections.abc import Mapping

from gateway.policy.decision import Decision
from gateway.policy.egress import Code
from gateway.policy.hosts import is_normal

_SHOWN_HOST = 300  # enough for every valid host; a longer one is hostile or broken

_ASK_ADDRESS = 'an operator can list the address under egress.addresses ("10.1.2.3:8443") in the config'
_ASK_RAW = "an operator can list the host with its port under egress.raw in the config"
_ASK_DENIED = "neither --allow nor egress.allow lifts it; if the entry is wrong, tell the operator"
_SPELL = "write the host as a plain name or address, in ASCII, and the port as a number"

# How to go on, by code; what is not here gets the general answer, which is to ask for the host.
_HOW: Mapping[str, str] = {
    Code.MALFORMED_HOST: _SPELL,
    Code.MALFORMED_REQUEST: "send a well-formed request",
    Code.NETWORK_OFF: "an operator can start the session without --no-network",
    Code.PORT: "an operator can open it with egress.ports, or for one host with egress.raw, in the config",
    Code.DENIED: _ASK_DENIED,
    Code.IP_LITERAL: f"use the host's name, which an operator can add with `--allow NAME`, or {_ASK_ADDRESS}",
    Code.RESOLVED_ADDRESS: _ASK_ADDRESS + "; metadata addresses never",
    Code.SELF_CONNECTION: "there is nothing to be had here",
    Code.SNI_MISMATCH: "connect to the host by the name that the TLS greeting carries",
    Code.SNI_MISSING: f"use a client that names the host (SNI); {_ASK_RAW}",
    Code.NOT_TLS: _ASK_RAW,
    Code.AUTHORITY_MISMATCH: "ask the proxy for the host that the request names",
    Code.PUSH_BYPASS: "push with plain `git push`, which this sandbox leads through the push gateway",
    Code.POLICY_CHANGED: "the policy changed meanwhile; what it allows now can be asked for again",
    Code.TIMEOUT: "send the request without such a pause",
    Code.LIMIT: "open fewer connections at once, and try again later",
    Code.INTERNAL: "the gateway could not judge or record this; tell the operator",
}


def refusal_message(decision: Decision, host: str, port: int) -> str:
    """What the wrapped process reads when it is refused: plain words, ASCII, one line.

    Says that this is the sandbox's policy, that nothing the process can try gets around it, and how to ask.
    `host` may be anything a client sent; it is escaped and cut.
    """
    target = (shown_host(host) or "this request") + (f" port {port}" if port >= 0 else "")
    ask = f"ask the operator to add it with `--allow {_askable(host)}` or under egress.allow in the config"
    how = _HOW.get(decision.code, ask)
    return (
        f"This sandbox's network policy refused {target}: {_ascii(decision.reason).rstrip('.')}. "
        "This is a decision of the sandbox, not a fault of the network or of the site: another DNS server, "
        f"another proxy or other flags will not help. To go on: {how}. "
        f"(code {decision.code}, rule {_ascii(decision.rule)})"
    )


def _askable(host: str) -> str:
    return host if is_normal(host) else "HOST"


def shown_host(text: str) -> str:
    """A host as a message may show it: printable ASCII, everything else escaped, at most 300 characters."""
    shown = _ascii(text[: _SHOWN_HOST + 1])
    return shown if len(shown) <= _SHOWN_HOST else shown[: _SHOWN_HOST - 3] + "..."


def _ascii(text: str) -> str:
    return "".join(one if " " <= one <= "~" else one.encode("unicode_escape").decode("ascii") for one in text)
