"""Every code that a connection is refused with means something."""

import pytest

from gateway.policy.egress import Code
from gateway.review.report.meanings import meaning_of

UPSTREAM = {Code.DNS_FAILED, Code.CONNECT_REFUSED, Code.UNREACHABLE, Code.CONNECT_TIMEOUT}


@pytest.mark.parametrize("code", [code for code in Code if code not in UPSTREAM])
def test_every_refusal_has_a_meaning(code: Code) -> None:
    assert meaning_of(code).endswith(".")
    assert meaning_of(code) != meaning_of("something else")


def test_a_code_of_another_version() -> None:
    assert meaning_of("quantum") == "This version does not know the code."
