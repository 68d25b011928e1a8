"""The environment of the wrapped process: built from an allow-list, then set. Pure; values never leave this module
but in the result.

Order: what the host passes, what the session gives, what the user names, what the wrap sets. A later one wins, with two
exceptions that the user cannot override: loader and git injection, and the proxies.
"""

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate

from gateway.errors import UsageError
from sandbox import variables as lists
from sandbox.backends.base import Endpoints
from sandbox.git.session import LOOPBACK, SessionGit, gateway_url, last_settings

# Loopback literals and nothing else: whatever else is exempted from the proxies simply does not work inside.
NO_PROXY = "localhost,127.0.0.1,::1"
# A program that others run: a name or a system path, perhaps with flags, and nothing a shell would take for more.
PLAIN_PROGRAM = re.compile(
    r"(/(usr|bin)(/[A-Za-z0-9_+-][A-Za-z0-9_.+-]*)+|[A-Za-z0-9_.+-]+)( -[A-Za-z0-9=-]+)*"
).fullmatch
# When the host says nothing: file names and texts are UTF-8 all the same.
LOCALE = "C.UTF-8"
SHELL = "/bin/sh"
# ssh with nothing of its user's: neither keys nor an agent that has some, nor a configuration that names either. In a
# wrap there are none to be found; without one they are all that this product can take away (ssh_config(5)).
KEYLESS = (
    "-F", "/dev/null", "-o", "IdentityFile=none", "-o", "IdentityAgent=none", "-o", "IdentitiesOnly=yes",
)  # fmt: skip
# An empty helper resets those of a repository's own configuration.
NO_HELPER = (("credential.helper", ""),)
# A gh that is told a host of this domain takes the token of github.com's variables (gh help environment).
GITHUB_CLOUD = ".ghe.com"


@dataclass(frozen=True, slots=True)
class Environment:
    """What CMD gets, and names for the record, never values: the host's variables that were kept and dropped, and what
    the user chose to set."""

    values: Mapping[str, str] = field(repr=False)
    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()


class Names:
    """A list of names and patterns, ready for matching; case does not count."""

    def __init__(self, *patterns: Sequence[str]) -> None:
        self._match = re.compile(
            "|".join(translate(name.upper()) for part in patterns for name in part)
        ).match

    def __contains__(self, name: str) -> bool:
        return self._match(name.upper()) is not None


_PASSED = Names(lists.PASSED)
_PROGRAMS = Names(lists.PROGRAMS)
_LOCATIONS = Names(lists.LOCATIONS)
_PROVIDERS = Names(lists.MODEL_PROVIDERS)
_NOT_PROVIDERS = Names(lists.NOT_MODEL_PROVIDERS)
_NEVER_SET = Names(lists.LOADER_INJECTION, lists.GIT_INJECTION)
_NEVER_PASSED = Names(lists.INTERPRETER_INJECTION, lists.PLACES, lists.SOCKETS)
_PROXIES = Names(lists.PROXIES)
_OWN = Names(lists.OWN)
_CREDENTIALS = Names(lists.CREDENTIALS)
_NOT_CREDENTIALS = Names(lists.CREDENTIAL_EXCEPTIONS)
_CREDENTIAL_VALUE = re.compile("|".join(lists.CREDENTIAL_VALUES)).search


def build_environment(
    host: Mapping[str, str],
    *,
    endpoints: Endpoints,
    session_id: str,
    backend: str,
    secret: str,
    home: str,
    path: str,
    tmpdir: str,
    git_config: str = "",
    connect: Sequence[str] = (),
    roots: Collection[str] = (),
    tools: Mapping[str, str] | None = None,
    pass_names: Collection[str] = (),
    set_values: Mapping[str, str] | None = None,
    git: SessionGit | None = None,
    credential: Sequence[str] = (),
    gh_config: str = "",
    github_token: str = "",
) -> Environment:
    """The environment of contract section 3.

    `host` is the launcher's own environment; `home`, `path`, `tmpdir`, `git_config`, `connect`, `roots`, `tools`,
    `credential` and `gh_config` are what the running wrap says of its inside; `pass_names` and `set_values` are
    `--env` and the configuration. `git` is the forge whose pushes go to the gateway (None: git is left to itself),
    `github_token` the read-only token of the session's own repository (empty: none).
    UsageError for a name among these that nobody may set.
    """
    chosen = dict(set_values or {})
    for name in (*pass_names, *chosen):
        refuse_name(name)
    named = {name: host[name] for name in pass_names if name in host}
    passed = {name: value for name, value in host.items() if _is_passed(name, value, roots)}
    values = {
        **({} if "LANG" in passed or "LC_ALL" in passed else {"LC_ALL": LOCALE}),
        "SHELL": SHELL,
        **lists.TELEMETRY_OFF,
        **_github_values(git, gh_config, github_token),
        **(tools or {}),
        **passed,
        "HOME": home,
        "PATH": path,
        "TMPDIR": tmpdir,
        "TMPPREFIX": f"{tmpdir.rstrip('/')}/zsh",
        **named,
        **chosen,
    }
    values |= _proxy_values(endpoints, values.get("JAVA_TOOL_OPTIONS", ""))
    gateway = gateway_url(endpoints.gateway_port)
    settings = last_settings(git, gateway, secret, credential) if git else NO_HELPER
    values |= _git_values(git_config, settings)
    if connect:
        options = KEYLESS if git and backend == "none" else ()
        values["GIT_SSH_COMMAND"] = ssh_command(connect, endpoints, options)
    values |= {
        "AGENT_GATEWAY_SESSION": session_id,
        "AGENT_GATEWAY_SANDBOX": backend,
        "AGENT_GATEWAY_URL": gateway,
        "AGENT_GATEWAY_SECRET": secret,
    }
    kept = sorted({*passed, *named} - set(lists.PLACES))
    dropped = sorted(set(host) - set(kept) - set(lists.PLACES))
    return Environment(values, tuple(kept), tuple(dropped), tuple(sorted(chosen)))


def refuse_name(name: str) -> None:
    """UsageError for a variable that neither `--env` nor the configuration may set."""
    if not name or "=" in name or "\0" in name:
        raise UsageError(f"{name!r} is not the name of a variable")
    if name in _PROXIES:
        raise UsageError(f"{name} is set by the wrap: connections go through the session's proxies")
    if name in _NEVER_SET:
        raise UsageError(f"{name} would redirect the programs inside and is never set")
    if name in _OWN:
        raise UsageError(f"{name} is this program's own word to the wrapped process")


def _is_passed(name: str, value: str, roots: Collection[str]) -> bool:
    """Whether a variable of the host reaches the wrapped process without being named."""
    if name in _NEVER_SET or name in _PROXIES or name in _OWN or name in _NEVER_PASSED:
        return False
    if name in _LOCATIONS:
        return any(value == root or value.startswith(root.rstrip("/") + "/") for root in roots)
    if is_model_provider(name):
        return True
    if name in _PROGRAMS:
        return PLAIN_PROGRAM(value) is not None
    return name in _PASSED and not is_credential(name, value)


def is_model_provider(name: str) -> bool:
    """Whether a variable is for the agent's own model, which it cannot work without."""
    return name in _PROVIDERS and name not in _NOT_PROVIDERS


def is_credential(name: str, value: str) -> bool:
    """Whether a variable says by its name, or shows by its value, that it holds a login."""
    if name in _CREDENTIALS and name not in _NOT_CREDENTIALS:
        return True
    return _CREDENTIAL_VALUE(value) is not None


def _proxy_values(endpoints: Endpoints, java_options: str) -> dict[str, str]:
    """The proxies in every spelling that common clients read. `java_options` are the user's own, and come first."""
    http = f"http://{LOOPBACK}:{endpoints.http_port}"
    socks = f"socks5h://{LOOPBACK}:{endpoints.socks_port}"
    spellings = {"HTTP_PROXY": http, "HTTPS_PROXY": http, "ALL_PROXY": socks, "NO_PROXY": NO_PROXY}
    java = " ".join(
        f"-D{scheme}.proxyHost={LOOPBACK} -D{scheme}.proxyPort={endpoints.http_port}"
        for scheme in ("http", "https")
    )
    return {
        **spellings,
        **{name.lower(): value for name, value in spellings.items()},
        "NODE_USE_ENV_PROXY": "1",
        "JAVA_TOOL_OPTIONS": f"{java_options} {java}".strip(),  # loopback is exempt by Java's own default
    }


def _github_values(git: SessionGit | None, gh_config: str, token: str) -> dict[str, str]:
    """For gh and its like: the read-only token, the host that it is for, and no configuration of the user's."""
    values: dict[str, str] = {}
    if token:
        values |= {"GH_TOKEN": token, "GITHUB_TOKEN": token}
    if gh_config:
        values["GH_CONFIG_DIR"] = gh_config
    if git is None:
        return values
    values["GH_PROMPT_DISABLED"] = "1"
    if not git.host.is_github:
        values["GH_HOST"] = git.host.authority
        if token and not git.host.host.endswith(GITHUB_CLOUD):
            values["GH_ENTERPRISE_TOKEN"] = token  # gh takes no other for a server of one's own
    return values


def _git_values(git_config: str, settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Git: our configuration only, and no question on a terminal."""
    values = {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_COUNT": str(len(settings))}
    for number, (name, value) in enumerate(settings):
        values[f"GIT_CONFIG_KEY_{number}"] = name
        values[f"GIT_CONFIG_VALUE_{number}"] = value
    values["GIT_CONFIG_GLOBAL"] = git_config or "/dev/null"
    return values


def ssh_command(connect: Sequence[str], endpoints: Endpoints, options: Sequence[str] = ()) -> str:
    """ssh with the connect helper, and more options. Quoted twice: git gives it to a shell, and ssh its ProxyCommand
    to another."""
    words = [*connect, f"{LOOPBACK}:{endpoints.socks_port}", f"{LOOPBACK}:{endpoints.http_port}"]
    proxy = " ".join(shlex.quote(word.replace("%", "%%")) for word in words)
    return shlex.join(["ssh", *options, "-o", f"ProxyCommand={proxy} '%h' %p"])
