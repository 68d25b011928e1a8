"""What is known of hosts: the shipped data, and what follows from it for a host and for a wildcard."""

import pytest

from gateway.allowlists import load_cautions, load_shipped
from gateway.policy.cautions import CautionKind, Cautions
from gateway.policy.hosts import HostMatcher
from gateway.policy.lists import parse_list


@pytest.fixture(scope="module")
def cautions() -> Cautions:
    return load_cautions()


@pytest.mark.parametrize(
    ("host", "kind", "is_named"),
    [
        ("storage.googleapis.com", CautionKind.STORAGE, True),
        ("acme.s3.amazonaws.com", CautionKind.STORAGE, False),
        ("s3.us-east-1.amazonaws.com", CautionKind.STORAGE, False),
        ("acme.s3.us-east-1.amazonaws.com", CautionKind.CLOUD, False),
        ("me.github.io", CautionKind.HOSTING, False),
        ("gist.github.com", CautionKind.PASTE, True),
        ("r.jina.ai", CautionKind.FETCHER, True),
        ("abc.ngrok.io", CautionKind.TUNNEL, False),
        ("webhook.site", CautionKind.CAPTURE, True),
        ("acme.jfrog.io", CautionKind.PACKAGES, False),
        ("acme.sentry.io", CautionKind.TELEMETRY, False),
    ],
)
def test_hosts(cautions: Cautions, host: str, kind: CautionKind, is_named: bool) -> None:
    found = cautions.of_host(host)
    assert found is not None
    assert (found.kind, found.is_named) == (kind, is_named)
    assert found.why in str(found)


@pytest.mark.parametrize("host", ["a.test", "github.com", "api.anthropic.com", "github.io", "notgithub.io"])
def test_hosts_of_which_nothing_is_known(cautions: Cautions, host: str) -> None:
    assert cautions.of_host(host) is None


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        ("*.github.io", CautionKind.HOSTING),
        ("*.windows.net", CautionKind.CLOUD),
        ("*.s3.amazonaws.com", CautionKind.STORAGE),
        ("*.s3.eu-west-1.amazonaws.com", CautionKind.STORAGE),
        ("*.amazonaws.com", CautionKind.CLOUD),
        ("*.pastebin.com", CautionKind.PASTE),
        ("assets.*.netlify.app", CautionKind.HOSTING),
        ("*.acme.s3.amazonaws.com", None),
        ("*.example.test", None),
        ("bedrock.*.amazonaws.com", None),
        ("*.hub.io.test", None),
    ],
)
def test_wildcards(cautions: Cautions, pattern: str, kind: CautionKind | None) -> None:
    found = cautions.of_wildcard(pattern)
    if kind is None:
        assert found is None
    else:
        assert found is not None and found.kind is kind


def test_redirects(cautions: Cautions) -> None:
    targets = cautions.redirects_of("github.com")
    assert targets is not None
    assert targets.match("release-assets.githubusercontent.com") and not targets.match("a.test")
    assert cautions.redirects_of("a.test") is None
    assert "github.com" in cautions.sources


def test_the_shipped_data_is_clean_and_every_group_is_a_kind() -> None:
    from importlib.resources import files

    for name in ("cautions.txt", "redirects.txt"):
        parsed = parse_list(files("allowlists").joinpath(name).read_bytes(), name)
        assert parsed.problems == ()
        if name == "cautions.txt":
            assert {entry.group for entry in parsed.entries} == {kind.value for kind in CautionKind}


def test_redirects_begin_where_sessions_come(cautions: Cautions) -> None:
    lists = load_shipped()
    allow = HostMatcher((*lists.baseline.patterns, *lists.github.patterns))
    assert sum(allow.match(source) is not None for source in cautions.sources) > 20
