"""What the handlers have in common; each kind of fault is tested where it shows, in test_git_http and test_app_api."""

import httpx
import pytest

from gateway.forge.faults import Fault, Point
from gateway.forge.server import Forge
from tests.fakes.forge import AppClient


@pytest.mark.parametrize("status", [200, 204, 299, 418, 451, 503, 599])
@pytest.mark.parametrize("body", [b"", b"text"])
def test_any_status(forge: Forge, app: AppClient, status: int, body: bytes) -> None:
    """Also such as have no phrase, or should have no body."""
    body = b"" if status == 204 else body
    forge.faults.set(Point.FIND, Fault(status, body, headers={"X-Y": "z"}))
    answer = app.ask("GET", "/repos/acme/widget/installation")
    assert (answer.status_code, answer.content, answer.headers["X-Y"]) == (status, body, "z")
    assert forge.wait_until_idle()


def test_other_methods(forge: Forge) -> None:
    for method in ("PUT", "PATCH", "HEAD", "OPTIONS", "TRACE"):
        for path in ("/acme/widget/info/refs", "/api/v3/app"):
            answer = httpx.request(method, forge.url + path, trust_env=False)
            assert answer.status_code == 405
    assert forge.wait_until_idle()
