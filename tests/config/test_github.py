"""The section `github`: URLs of a forge, and whose hosts become allowed."""

import os
from pathlib import Path

import pytest

from gateway.config.values import GitHubConfig
from gateway.policy.hosts import HostPattern
from tests.fakes.config_files import assert_refused, assert_warned, load, problems

REFUSED = (
    ("no URL", "github:\n  url: github\n", 2, "is no URL of a forge"),
    ("ssh", "github:\n  url: ssh://ghe.test\n", 2, "is no URL of a forge"),
    ("user", "github:\n  url: https://user@ghe.test\n", 2, "is no URL of a forge"),
    ("query", "github:\n  api_url: https://ghe.test/?x\n", 2, "is no URL of a forge"),
    ("a path where none belongs", "github:\n  url: https://ghe.test/git\n", 2, "is no URL of a forge"),
    ("bad host", "github:\n  url: https://ghe..test\n", 2, "no empty label"),
    ("port 0", "github:\n  url: https://ghe.test:0\n", 2, "has port 0"),
    ("port too large", "github:\n  url: https://ghe.test:70000\n", 2, "from 0 to 65535"),
    ("null", "github:\n  url: null\n", 2, "must be text, not empty"),
    ("number", "github:\n  url: 12\n", 2, "must be text, not a whole number"),
    ("http to a name", "github:\n  url: http://ghe.test\n", 2, "http:// is for a loopback address"),
    ("http to an address", "github:\n  url: http://10.1.2.3\n", 2, "http:// is for a loopback address"),
    (
        "http to a name mapped elsewhere",
        "egress: {hosts: {ghe.test: 10.1.2.3}}\ngithub:\n  url: http://ghe.test\n",
        3,
        "http:// is for a loopback address",
    ),
    ("App number 0", "github:\n  app_id: 0\n", 2, "the App's number or client id"),
    ("App in a list", "github:\n  app_id: [1]\n", 2, "the App's number or client id"),
    ("App with a space", "github:\n  app_id: 'a b'\n", 2, "the App's number or client id"),
    ("relative key file", "github:\n  private_key_file: key.pem\n", 2, "relative path"),
)


@pytest.mark.parametrize(
    ("content", "line", "fragment"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_value_is_refused_with_its_line(tmp_path: Path, content: str, line: int, fragment: str) -> None:
    assert_refused(tmp_path, content, line, fragment)


@pytest.mark.parametrize(
    "content",
    ["{}", "github: {url: 'https://GitHub.com.:443/', api_url: https://api.github.com/}"],
)
def test_default_forge_adds_no_host(tmp_path: Path, content: str) -> None:
    assert load(tmp_path, content).github == GitHubConfig()


def test_enterprise_hosts_are_allowed_by_their_lines(tmp_path: Path) -> None:
    github = load(
        tmp_path, "github:\n  url: https://GHE.test/\n  api_url: https://api.ghe.test/api/v3/\n"
    ).github
    assert (github.url, github.api_url) == ("https://ghe.test", "https://api.ghe.test/api/v3")
    assert github.hosts == (
        HostPattern("ghe.test", "config.yaml:2"),
        HostPattern("api.ghe.test", "config.yaml:3"),
    )


def test_plain_http_is_for_loopback(tmp_path: Path) -> None:
    content = """\
egress: {hosts: {forge.test: 127.0.0.1}, addresses: ["127.0.0.1:3000"]}
github: {url: "http://forge.test:3000", api_url: "http://127.0.0.1:3000/api/v3"}
"""
    assert problems(tmp_path, content) == ()
    github = load(tmp_path, content).github
    assert (github.url, github.api_url) == ("http://forge.test:3000", "http://127.0.0.1:3000/api/v3")
    assert github.hosts == (HostPattern("forge.test", "config.yaml:2"),)
    assert (
        load(tmp_path, "github: {url: 'http://[::1]', api_url: 'http://[::1]'}").github.url == "http://[::1]"
    )


def test_one_url_without_the_other_is_a_warning(tmp_path: Path) -> None:
    assert_warned(
        tmp_path, "github:\n  url: https://ghe.test\n", 2, "github.api_url is still that of github.com"
    )
    assert_warned(
        tmp_path, "github:\n  api_url: https://ghe.test\n", 2, "github.url is still that of github.com"
    )


@pytest.mark.parametrize(("text", "value"), [("12345", 12345), ("Iv1.0a1b2c", "Iv1.0a1b2c"), ("'12'", "12")])
def test_app_arrives_with_its_key(tmp_path: Path, text: str, value: int | str) -> None:
    key = key_file(tmp_path)
    content = f"github: {{app_id: {text}, private_key_file: {key}}}"
    assert problems(tmp_path, content) == ()
    github = load(tmp_path, content).github
    assert (github.app_id, github.private_key_file) == (value, key)


def key_file(folder: Path, mode: int = 0o600) -> Path:
    path = folder / "key.pem"
    path.write_text("a key, as far as the config knows")
    path.chmod(mode)
    return path


def test_app_needs_a_key_and_a_key_an_app(tmp_path: Path) -> None:
    assert_refused(tmp_path, "github:\n  app_id: 1\n", 2, "github.app_id needs github.private_key_file")
    content = f"github:\n  private_key_file: {key_file(tmp_path)}\n"
    assert_warned(tmp_path, content, 2, "has no effect without github.app_id")


@pytest.mark.parametrize(
    ("name", "fragment"),
    [
        ("gone.pem", "there is no such file"),
        (".", "a directory, not a file"),
        ("config.yaml/key.pem", "is not a directory"),
        ("pipe", "a socket or a device"),
        ("broken", "a symbolic link to a file that does not exist"),
    ],
)
def test_a_key_that_cannot_be_read(tmp_path: Path, name: str, fragment: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "broken").symlink_to(tmp_path / "gone")
    content = f"github:\n  app_id: 1\n  private_key_file: {tmp_path / name}\n"
    assert_refused(tmp_path, content, 3, "github.private_key_file cannot be read, ")
    assert_refused(tmp_path, content, 3, fragment)


def test_a_key_for_everybody_is_doubted(tmp_path: Path) -> None:
    content = f"github:\n  app_id: 1\n  private_key_file: {key_file(tmp_path, 0o644)}\n"
    assert_warned(tmp_path, content, 3, "can be read by everybody")
    key_file(tmp_path, 0o640)
    assert problems(tmp_path, content) == ()
