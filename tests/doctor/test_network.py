"""Names and proxies. Look-ups of outside names are in tests/doctor/test_answer.py, in a namespace without a network."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.allowlists import load_shipped
from gateway.doctor.findings import Verdict
from gateway.doctor.network import look_at_dns, look_at_proxies
from tests.fakes.doctor import only, place_in, verdicts

SECRET = "hunter2"


def test_names_that_the_config_answers(tmp_path: Path) -> None:
    """The forge is an address here, and the listed name is mapped."""
    first = next(one.text for one in load_shipped().baseline.patterns if "*" not in one.text)
    config = f'github: {{url: "http://127.0.0.1:1"}}\negress: {{hosts: {{{first}: 127.0.0.1}}}}\n'
    finding = only(list(look_at_dns(place_in(tmp_path, config), "dns")))
    assert (finding.verdict, "answered by egress.hosts" in finding.reason) == (Verdict.OK, True)


@pytest.mark.parametrize(
    ("variables", "expected", "words"),
    [
        ({}, [Verdict.OK], "none are set"),
        ({"NO_PROXY": "localhost"}, [Verdict.OK], "only NO_PROXY, which no session gets"),
        ({"HTTPS_PROXY": f"http://u:{SECRET}@proxy.test:3128"}, [Verdict.WARNING], "HTTPS_PROXY set"),
        ({"https_proxy": "http://proxy.test:3128", "no_proxy": "x"}, [Verdict.WARNING], "https_proxy set"),
        ({"ALL_PROXY": "socks5://proxy.test:1080"}, [Verdict.WARNING], "it asks no SOCKS proxy"),
        (
            {"HTTP_PROXY": "http://p.test", "all_proxy": "socks5://p.test"},
            [Verdict.WARNING] * 2,
            "HTTP_PROXY set",
        ),
    ],
)
def test_variables(tmp_path: Path, variables: dict[str, str], expected: list[Verdict], words: str) -> None:
    place = place_in(tmp_path)
    found = list(look_at_proxies(replace(place, environ={**place.environ, **variables}), "proxy variables"))
    assert verdicts(found) == expected
    assert words in found[0].reason
    assert SECRET not in str(found)


def test_a_company_proxy(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        config = f'egress: {{upstream_proxy: "http://u:{SECRET}@127.0.0.1:{port}"}}\n'
        place = place_in(tmp_path, config)
        place = replace(place, environ={**place.environ, "HTTPS_PROXY": "http://127.0.0.1:1"})
        assert only(list(look_at_proxies(place, "proxy variables"))).verdict is Verdict.OK
    gone = only(list(look_at_proxies(place, "proxy variables")))
    assert gone.verdict is Verdict.FAILED
    assert gone.reason == f"egress.upstream_proxy, 127.0.0.1:{port}, cannot be reached: Connection refused"
