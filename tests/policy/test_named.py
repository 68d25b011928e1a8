"""Hosts and repositories in the words of a command."""

import pytest

from gateway.policy.named import hosts_of, repository_of, value_of
from gateway.policy.shell import read_line


@pytest.mark.parametrize(
    ("line", "hosts"),
    [
        ("curl https://a.test/x", ["a.test"]),
        ("curl HTTPS://A.Test:8443/x", ["a.test"]),
        ("curl https://u:p@a.test/x", ["a.test"]),
        ("curl a.test/x b.test", ["a.test", "b.test"]),
        ("curl -H 'X: https://c.test' -d @x https://a.test", ["a.test"]),
        ("curl -o out.txt https://a.test", ["a.test"]),
        ("curl -x p.test https://a.test", ["", "p.test", "a.test"]),
        ("curl --resolve a.test:443:192.0.2.1 https://a.test", ["", "a.test"]),
        ("curl --url=https://a.test", ["a.test"]),
        ("curl 'https://a.test/'$x", ["a.test"]),
        ("curl \"https://a.test/$x\"", ["a.test"]),
        ("curl https://$x/a", [""]),
        ("curl https://a.test$x", [""]),
        ("curl $x", [""]),
        ("curl", [""]),
        ("curl https://[2001:db8::1]/x", ["2001:db8::1"]),
        ("curl https://-/x", [""]),
        ("wget -i list", [""]),
        ("git clone https://a.test/o/n", ["a.test"]),
        ("git clone git@a.test:o/n", ["a.test"]),
        ("git clone ssh://git@a.test:22/o/n", ["a.test"]),
        ("git fetch origin", [""]),
        ("ssh u@a.test ls", ["a.test"]),
        ("scp a u@a.test:b", ["a.test"]),
        ("nc a.test 80", ["a.test"]),
        ("gh pr list", ["api.github.com"]),
        ("gh api x --hostname a.test", ["a.test"]),
        ("aws s3 ls", [""]),
    ],
)  # fmt: skip
def test_hosts(line: str, hosts: list[str]) -> None:
    words = read_line(line).commands[0].words
    name = words[0]
    assert isinstance(name, str)
    assert list(hosts_of(name, words)) == hosts


def test_many_hosts_end_with_one_that_is_not_known() -> None:
    words = ("curl", *(f"https://h{number}.test" for number in range(100)))
    assert hosts_of("curl", words)[-1] == "" and len(hosts_of("curl", words)) < 40


@pytest.mark.parametrize(
    ("line", "repository"),
    [
        ("gh pr create -R o/n", "o/n"),
        ("gh pr create -Ro/n", "o/n"),
        ("gh pr create --repo=github.com/o/n", "o/n"),
        ("gh pr create --repo https://github.com/o/n", "o/n"),
        ("gh pr create -R $x", "None"),
        ("gh pr create -R x", "None"),
        ("gh pr create", "None"),
    ],
)
def test_repositories(line: str, repository: str) -> None:
    assert str(repository_of(read_line(line).commands[0].words)) == repository


def test_values() -> None:
    assert value_of(("a", "-o", "x"), ("-o",)) == "x"
    assert value_of(("a", "-ox"), ("-o",)) == "x"
    assert value_of(("a", "--out=x"), ("--out",)) == "x"
    assert value_of(("a", "-o"), ("-o",)) is None
