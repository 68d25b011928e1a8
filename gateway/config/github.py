"""The section `github` of the config file: where the forge and its API are, and whose App it is."""

import re
import stat
from pathlib import Path

from gateway.config.egress import bracketed
from gateway.config.file import fault_of
from gateway.config.section import Section
from gateway.config.tree import Kind, ScalarNode, shown
from gateway.config.values import GITHUB_API_URL, GITHUB_URL, EgressConfig, GitHubConfig
from gateway.policy.addresses import refused_class
from gateway.policy.hosts import MAX_PORT, HostError, HostPattern, parse_literal, split_authority

SCHEME_PORTS = {"https": 443, "http": 80}

_URL = re.compile(r"(https?)://([^/?#@\s]+)((?:/[A-Za-z0-9._~-]+)*)/?")
_CLIENT_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")


def read_github(section: Section, egress: EgressConfig) -> GitHubConfig:
    """Every value of `github`; `egress.hosts` decides which hosts may be spoken to without TLS."""
    default = GitHubConfig()
    url, host = _read_url(section, "url", GITHUB_URL, egress)
    api_url, api_host = _read_url(section, "api_url", GITHUB_API_URL, egress)
    app_id = _read_app_id(section, default.app_id)
    return GitHubConfig(
        url=url,
        api_url=api_url,
        app_id=app_id,
        private_key_file=_read_key_file(section, app_id),
        hosts=tuple(pattern for pattern in (host, api_host) if pattern is not None),
    )


def _read_url(
    section: Section, key: str, default: str, egress: EgressConfig
) -> tuple[str, HostPattern | None]:
    """The URL in one spelling, and its host as an allow entry where it is a name and not the default's."""
    item = section.text(key, default)
    if item is None:
        return default, None
    name, reading = section.name(key), section.reading
    found = _URL.fullmatch(item.text)
    if found is None or (found[3] and key == "url"):
        reading.error(
            item.line,
            f"{name}: {shown(item.text)} is no URL of a forge: write {default}, without user or query",
        )
        return default, None
    scheme, authority, path = found.groups()
    try:
        host, port = split_authority(authority, SCHEME_PORTS[scheme])
    except HostError as error:
        reading.error(item.line, f"{name}: {shown(item.text)} has no valid host, {error}: write {default}")
        return default, None
    if port == 0:
        reading.error(
            item.line, f"{name}: {shown(item.text)} has port 0: write a port from 1 to {MAX_PORT}, or none"
        )
        return default, None
    if scheme == "http" and not _is_loopback(egress.hosts.get(host, host)):
        reading.error(
            item.line,
            f"{name}: http:// is for a loopback address, or a name that egress.hosts maps to one: "
            "write https://",
        )
        return default, None
    shown_port = "" if port == SCHEME_PORTS[scheme] else f":{port}"
    url = f"{scheme}://{bracketed(host)}{shown_port}{path}"
    if url == default or parse_literal(host) is not None:
        return url, None
    return url, HostPattern(host, reading.rule(item.line))


def _is_loopback(text: str) -> bool:
    address = parse_literal(text)
    return address is not None and refused_class(address) == "loopback"


def _read_app_id(section: Section, default: int | str | None) -> int | str | None:
    node = section.node("app_id")
    if node is None or (isinstance(node, ScalarNode) and node.kind is Kind.EMPTY):
        return default
    if isinstance(node, ScalarNode) and node.kind is Kind.INTEGER and int(node.text) > 0:
        return int(node.text)
    if isinstance(node, ScalarNode) and node.kind is Kind.TEXT and _CLIENT_ID.fullmatch(node.text):
        return node.text
    section.wrong(
        node, "app_id", "the App's number or client id", "app_id: 12345 or app_id: Iv1.0123456789abcdef"
    )
    return default


def _read_key_file(section: Section, app_id: int | str | None) -> Path | None:
    """The path of the App's key, which can be read. Whether it is a key shows when it is used."""
    path, reading = section.path("private_key_file"), section.reading
    line = reading.lines.get(section.name("private_key_file"), 0)
    if path is None:
        if app_id is not None:
            reading.error(
                reading.lines[section.name("app_id")],
                "github.app_id needs github.private_key_file: write the path of the App's private key as well",
            )
        return None
    if app_id is None:
        reading.warn(line, "github.private_key_file has no effect without github.app_id: write the App's id")
    fault = fault_of(path)
    if fault is not None:
        reading.error(line, f"github.private_key_file cannot be read, {fault}")
    elif path.stat().st_mode & stat.S_IROTH:
        reading.warn(line, "github.private_key_file can be read by everybody on this machine: chmod 600 it")
    return path
