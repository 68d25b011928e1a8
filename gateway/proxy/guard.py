"""What an attempt has passed on its way out. Each hook of the policy addon moves it one stage on; whoever acts checks
the stage first, so a hook that did not run, or an addon that is not there, is a refusal."""

from dataclasses import dataclass, field
from enum import IntEnum

from mitmproxy import connection

from gateway.authorizer import INTERNAL, Attempt, Figures
from gateway.policy.addresses import Address
from gateway.policy.decision import Decision
from gateway.proxy.client_hello import Hello


class Stage(IntEnum):
    """How far an attempt has come."""

    NEW = 0
    ALLOWED = 1  # the host may be reached
    VETTED = 2  # these addresses may be dialled
    RECORDED = 3  # the connection stands in the log
    NAMED = 4  # the client's first bytes fit the host


@dataclass(slots=True)
class Guard:
    """One attempt with its stage. `refusal` is set by the hook that said no, `failure` when the target could not be
    reached; `raw` means any protocol may be spoken, `authority` is the Host field of a plain request."""

    attempt: Attempt
    stage: Stage = Stage.NEW
    refusal: Decision | None = None
    failure: Decision | None = None
    addresses: tuple[Address, ...] = ()
    raw: bool = False
    authority: str = ""
    figures: Figures = field(default_factory=Figures)

    def reached(self, stage: Stage) -> bool:
        """True when the attempt has come this far and nothing has refused it."""
        return self.refusal is None and self.stage >= stage

    def why_not(self) -> Decision:
        """The refusal; a generic one when no hook gave any."""
        return self.refusal or INTERNAL


class GuardedServer(connection.Server):
    """mitmproxy's server connection, with the guard of the attempt it belongs to."""

    guard: Guard


@dataclass(slots=True)
class SocksConnect:
    """Data of the hook `socks_connect`: a SOCKS5 CONNECT request before anything was done for it."""

    client: connection.Client
    server: GuardedServer


@dataclass(slots=True)
class FirstBytes:
    """Data of the hook `first_bytes`: what a client sent first through a tunnel, before the server got any of it."""

    client: connection.Client
    server: GuardedServer
    hello: Hello
