"""The configuration as frozen values with their defaults. Reads nothing, decides nothing.

The fields are the keys of the file: a key that is a word of the language carries an underscore (`pass_`), and
a field marked `derived` is computed and no key.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final

from gateway.policy.addresses import Address, Network
from gateway.policy.hosts import HostPattern
from gateway.policy.limits import Limits
from gateway.policy.repositories import RepositoryName
from gateway.policy.rules import Rule, RuleSet
from gateway.session import Bridge as Bridge
from gateway.session import FileRules

DERIVED: Final = "derived"
GITHUB_URL: Final = "https://github.com"
GITHUB_API_URL: Final = "https://api.github.com"
DEFAULT_WORKSPACE: Final = "default"


class Worktree(StrEnum):
    """Where the agent works: the worktree around it, a copy-on-write clone, a linked git worktree."""

    IN_PLACE = "in-place"
    COW = "cow"
    GIT = "git"


@dataclass(frozen=True, slots=True)
class FilesConfig:
    """What joins the shipped file rules; globs and paths as the file has them."""

    deny_write: tuple[str, ...] = ()
    allow_write: tuple[str, ...] = ()
    deny_read: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EnvironmentConfig:
    """Names that pass from the caller's environment, and variables to set; maybe secrets, so not in repr."""

    pass_: tuple[str, ...] = ()
    set_: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)


@dataclass(frozen=True, slots=True)
class EgressConfig:
    """What the operator adds to the shipped lists; every entry carries its rule ("config.yaml:7").

    `raw` is by (host, port), `addresses` by (literal, port), `hosts` maps a name to the text of an address.
    `upstream_proxy` is "http://[USER[:PASSWORD]@]HOST:PORT", validated; maybe with a password, so not in
    repr.
    `denied_networks` are the entries of `deny` that are addresses or networks.
    """

    allow: tuple[HostPattern, ...] = ()
    deny: tuple[HostPattern, ...] = ()
    ports: frozenset[int] = frozenset({80, 443})
    raw: Mapping[tuple[str, int], str] = field(default_factory=lambda: MappingProxyType({}))
    addresses: Mapping[tuple[Address, int], str] = field(default_factory=lambda: MappingProxyType({}))
    hosts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    upstream_proxy: str | None = field(default=None, repr=False)
    limits: Limits = field(default_factory=Limits)
    denied_networks: tuple[tuple[Network, str], ...] = field(default=(), metadata={DERIVED: True})


@dataclass(frozen=True, slots=True)
class GitHubConfig:
    """The forge and its App. URLs are scheme, host, port and (API only) path, without a slash at the end.

    `hosts` are the hosts of URLs that are not the defaults; they are allowed like the GitHub list.
    """

    url: str = GITHUB_URL
    api_url: str = GITHUB_API_URL
    app_id: int | str | None = None
    private_key_file: Path | None = None
    hosts: tuple[HostPattern, ...] = field(default=(), metadata={DERIVED: True})


@dataclass(frozen=True, slots=True)
class PushConfig:
    """`label`: the words before "policy:" in the refusal of a push."""

    label: str = "Control Center"


@dataclass(frozen=True, slots=True)
class Workspace:
    """`repositories`: pushed to besides a session's own; `checkouts`: never written by any."""

    repositories: tuple[RepositoryName, ...] = ()
    checkouts: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class ApprovalsConfig:
    """`timeout` in seconds, after which a question is a no; `command`: program and arguments that answer."""

    timeout: int = 300
    command: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class AuditConfig:
    """`directory` None: below the state directory. A file ends at `max_file_mb`, goes after `keep_days`."""

    directory: Path | None = None
    max_file_mb: int = 256
    keep_days: int = 90


@dataclass(frozen=True, slots=True)
class OperatorConfig:
    """`listen`: "127.0.0.1:PORT" besides the Unix socket, with the bearer token of `token_file`."""

    listen: str | None = None
    token_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """One configuration. `source`: its path or "built-in defaults"; `digest`: SHA-256 of its bytes, or "".

    `managed_rules` are those of `managed_rules_file`.
    """

    sandbox: bool = True
    worktree: Worktree = Worktree.IN_PLACE
    file_rules: FileRules = FileRules.CREATE_TIME
    bridge: Bridge = Bridge.HANDOVER
    files: FilesConfig = FilesConfig()
    environment: EnvironmentConfig = EnvironmentConfig()
    egress: EgressConfig = EgressConfig()
    github: GitHubConfig = GitHubConfig()
    push: PushConfig = PushConfig()
    workspaces: Mapping[str, Workspace] = field(
        default_factory=lambda: MappingProxyType({DEFAULT_WORKSPACE: Workspace()})
    )
    rules: tuple[Rule, ...] = ()
    managed_rules_file: Path | None = None
    approvals: ApprovalsConfig = ApprovalsConfig()
    audit: AuditConfig = AuditConfig()
    operator: OperatorConfig = OperatorConfig()
    managed_rules: tuple[Rule, ...] = field(default=(), metadata={DERIVED: True})
    source: str = field(default="built-in defaults", metadata={DERIVED: True})
    digest: str = field(default="", metadata={DERIVED: True})

    @property
    def rule_set(self) -> RuleSet:
        """The rules of every session."""
        return RuleSet(managed=self.managed_rules, rules=self.rules)
