"""The configured forge (`github.url`) and the ways in which git addresses it. Pure.

One table of doors serves both sides: `remotes.py` recognises an address by it, `session.py` lists its spellings.
What stands in front of an address is read as git and curl read it (git-fetch(1), GIT URLS): an address that they could
take for another host is none.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gateway.errors import GatewayError
from gateway.policy.repositories import RepositoryError, RepositoryName, parse_repository

GITHUB = "github.com"
DEFAULT_PORTS = {"https": 443, "http": 80, "ssh": 22, "git": 9418}
# Other words for ssh that git takes (connect.c, get_protocol).
SSH_SCHEMES = ("ssh", "git+ssh", "ssh+git")
# GitHub's only account for ssh, and none: then git leaves it to ssh. Others cannot be listed.
SSH_USERS = ("git@", "")

# A bracketed literal, or a name; what a URL parser would read in two ways (`\`, `%`, white space) is in neither.
_HOST = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)"
_FORGE = re.compile(rf"(https?)://{_HOST}(?::([0-9]{{1,5}}))?/?")
# Before the host: curl ends it at `/`, `?` and `#`, and takes the last `@`.
_URL = re.compile(rf"([A-Za-z][A-Za-z0-9+.-]*)://(?:[^/?#\\\s]*@)?{_HOST}(?::([0-9]{{1,5}}))?/")
# host:path without `//`; `name::address` would be a remote helper's (gitremote-helpers(7)).
_SCP = re.compile(rf"(?:[^/:@\\\s]+@)?{_HOST}:(?![:]|//)/?")


@dataclass(frozen=True, slots=True)
class Door:
    """One listener of the forge: `ssh` stands for all its schemes."""

    scheme: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Address:
    """An address at the forge, `prefix` + `path`; the path is "owner/name.git" or the like."""

    prefix: str
    path: str


@dataclass(frozen=True, slots=True)
class GitHubHost:
    """The forge. `scheme` is https or http, `host` in lower case (IPv6 in brackets), `port` as connected to."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """HOST, or HOST:PORT where the port is not the scheme's own: as git names it to credential helpers."""
        return self.host if self.port == DEFAULT_PORTS[self.scheme] else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """As in the configuration: "https://github.com"."""
        return f"{self.scheme}://{self.authority}"

    @property
    def is_github(self) -> bool:
        """Whether it is github.com itself."""
        return (self.scheme, self.host, self.port) == ("https", GITHUB, DEFAULT_PORTS["https"])

    def doors(self) -> Iterator[Door]:
        """Where it may be spoken to, its own door first. A forge without TLS stands in for GitHub, whose doors then
        lead to it as well."""
        yield Door(self.scheme, self.host, self.port)
        if self.scheme == "https" and self.authority == self.host:
            yield Door("http", self.host, DEFAULT_PORTS["http"])
        if self.is_github:
            for scheme in ("https", "http"):
                yield Door(scheme, f"www.{GITHUB}", DEFAULT_PORTS[scheme])
        yield Door("git", self.host, DEFAULT_PORTS["git"])
        yield Door("ssh", self.host, DEFAULT_PORTS["ssh"])
        if self.is_github:
            yield Door("ssh", f"ssh.{GITHUB}", 443)  # GitHub's ssh where port 22 is closed
        if self.scheme == "http":
            yield from GITHUB_HOST.doors()

    def spellings(self) -> tuple[str, ...]:
        """The beginnings of its addresses that can be listed, up to the owner; its own URL first."""
        return tuple(dict.fromkeys(text for door in self.doors() for text in _spellings(door)))

    def locate(self, url: str) -> Address | None:
        """The address at this forge that `url` is, in whatever letter case and with whatever user; None for others."""
        if not url.isprintable():
            return None
        found, scheme = _URL.match(url), ""
        if found is not None:
            scheme = found[1].lower()
            scheme = "ssh" if scheme in SSH_SCHEMES else scheme
            host, port = found[2], int(found[3] or DEFAULT_PORTS.get(scheme, 0))
        else:
            found = _SCP.match(url) if "://" not in url else None
            if found is None:
                return None
            scheme, host, port = "ssh", found[1], DEFAULT_PORTS["ssh"]
        if Door(scheme, host.lower(), port) not in self.doors():
            return None
        return Address(found[0], url[found.end() :])


GITHUB_HOST = GitHubHost("https", GITHUB, DEFAULT_PORTS["https"])


def parse_github_url(url: str) -> GitHubHost:
    """The forge of `github.url`: https://HOST[:PORT] or http://HOST[:PORT]. GatewayError for anything else."""
    found = _FORGE.fullmatch(url)
    if found is None:
        raise GatewayError("github.url is no URL of a forge", f"write {GITHUB_HOST.url}")
    return GitHubHost(found[1], found[2].lower(), int(found[3] or DEFAULT_PORTS[found[1]]))


def parse_remote(url: str, github_host: GitHubHost) -> RepositoryName | None:
    """The repository of the forge that an address names; None when it is somewhere else or names none."""
    address = github_host.locate(url)
    return None if address is None else parse_path(address.path)


def parse_path(path: str) -> RepositoryName | None:
    """The repository of "owner/name", "owner/name.git", "owner/name/"; None for another path."""
    try:
        return parse_repository(path.removesuffix("/"))
    except RepositoryError:
        return None


def _spellings(door: Door) -> Iterator[str]:
    """Of one door: without its port where that goes without saying, and with it."""
    ports = ("", f":{door.port}") if DEFAULT_PORTS[door.scheme] == door.port else (f":{door.port}",)
    if door.scheme != "ssh":
        yield from (f"{door.scheme}://{door.host}{port}/" for port in ports)
        return
    if "" in ports:
        # The longer prefix counts, so `git@HOST:/owner/name` gets no second slash.
        yield from (f"{user}{door.host}:{slash}" for user in SSH_USERS for slash in ("", "/"))
    for scheme in SSH_SCHEMES:
        yield from (f"{scheme}://{user}{door.host}{port}/" for user in SSH_USERS for port in ports)
