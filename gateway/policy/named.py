"""What the words of a command name: hosts, a repository, the value of an option."""

import re
from typing import Final
from urllib.parse import urlsplit

from gateway.policy.commands.effects import NETWORK_ADDRESSES, NETWORK_DETOURS, NETWORK_HOSTS, NETWORK_VALUES
from gateway.policy.hosts import HostError, split_authority
from gateway.policy.repositories import RepositoryError, RepositoryName, parse_repository
from gateway.policy.shell_words import Vague, Word, is_option
from gateway.policy.started import Words

# Hosts of one command that are told apart; with more of them, one that is not known stands for the rest.
_MAX_THINGS: Final = 32
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>`]*")
_REMOTE: Final = re.compile(r"(?:[^@/:\s]+@)?([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):(?!//)\S*")
_NAMED: Final = re.compile(
    r"(?:[^@/\s]+@)?([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+|localhost|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?(?:[/?#].*)?"
)
_REPOSITORY_OPTIONS: Final = frozenset({"-R", "--repo"})
# What follows the host is run there.
_FIRST_ONLY: Final = frozenset({"ssh", "mosh", "ssh-copy-id"})
_DEFAULT_PORT: Final = 443


def value_of(words: Words, options: tuple[str, ...]) -> Word | None:
    """The value of the first of these options that is there."""
    for index, word in enumerate(words[:-1]):
        if word in options:
            return words[index + 1]
    for word in words[1:]:
        if isinstance(word, str):
            for option in options:
                if option.startswith("--") and word.startswith(f"{option}="):
                    return word[len(option) + 1 :]
                if len(option) == 2 and word.startswith(option) and len(word) > 2:
                    return word[2:].removeprefix("=")
    return None


def hosts_of(name: str, words: Words) -> tuple[str, ...]:
    """The hosts that a network command names, in normal form; an empty one where there may be another."""
    if name in NETWORK_HOSTS:
        named = value_of(words, ("--hostname",))
        return (
            (NETWORK_HOSTS[name],)
            if named is None
            else (_authority(named) if isinstance(named, str) else "",)
        )
    found: dict[str, None] = {}
    values, detours = NETWORK_VALUES.get(name, frozenset()), NETWORK_DETOURS.get(name, frozenset())
    skip = False
    for word in words[1:]:
        if skip:
            skip = False
            continue
        if isinstance(word, Vague):
            # A known beginning is enough: "https://host.test/$path".
            match = _URL.match(word.source.lstrip("\"'"))
            host = _host(match.group(0).partition("$")[0]) if match and _is_whole(match.group(0)) else ""
            found[host] = None
            continue
        option = word.partition("=")[0]
        if is_option(word):
            skip = word in values or (name == "wget" and word in detours)
            if option in detours:
                found[""] = None
            if "://" in word and option not in values:
                found.update((_host(url), None) for url in _URL.findall(word))
            continue
        found.update(_hosts_in(name, word))
        if name in _FIRST_ONLY:
            break
        if len(found) > _MAX_THINGS:
            return (*tuple(found)[:_MAX_THINGS], "")
    return tuple(found) or ("",)


def _is_whole(url: str) -> bool:
    """Whether the host stands there whole: something known follows it."""
    authority = url.partition("://")[2]
    place = min((authority.find(mark) for mark in "/?#" if mark in authority), default=-1)
    return place > 0 and "$" not in authority[:place]


def _hosts_in(name: str, word: str) -> dict[str, None]:
    """The hosts in one known word."""
    urls = _URL.findall(word)
    if urls:
        return {_host(url): None for url in urls}
    remote = _REMOTE.fullmatch(word)
    if (
        remote
        and name not in {"nc", "ncat", "netcat"}
        and not (name in NETWORK_ADDRESSES and _NAMED.fullmatch(word))
    ):
        return {_authority(remote.group(1)): None}
    if name in NETWORK_ADDRESSES:
        named = _NAMED.fullmatch(word)
        if named:
            return {_authority(named.group(1)): None}
        if name in {"ssh", "mosh", "curl", "wget", "sftp"}:
            return {_authority(word.rpartition("@")[2].partition("/")[0]): None}
    return {}


def _host(url: str) -> str:
    """The host of an address; empty where there is none, or none that is known."""
    try:
        return _authority(urlsplit(url).netloc.rpartition("@")[2])
    except ValueError:
        return ""


def _authority(text: str) -> str:
    try:
        return split_authority(text, _DEFAULT_PORT)[0]
    except HostError:
        return ""


def repository_of(words: Words) -> RepositoryName | None:
    """That of `-R owner/name`, also with the host in front."""
    value = value_of(words, tuple(_REPOSITORY_OPTIONS))
    if not isinstance(value, str):
        return None
    try:
        return parse_repository("/".join(value.rstrip("/").split("/")[-2:]))
    except RepositoryError:
        return None
