"""The Unicode form of hosts, which is shown and never matched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.idn import unicode_form


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("api.allowed.test", ""),
        ("xn--mnchen-3ya.test", "m\u00fcnchen.test"),
        ("a.xn--e1afmkfd.test", "a.\u043f\u0440\u0438\u043c\u0435\u0440.test"),
        ("xn--pi-6kc.test", "\u0430pi.test"),
        ("xn--a.test", "\u0080.test"),  # a control character: the log escapes it
        ("xn--\x80.test", ""),
        ("not-xn--mnchen-3ya.test", ""),
    ],
)
def test_form(host: str, shown: str) -> None:
    assert unicode_form(host) == shown


@given(st.text(alphabet="abcxyz0189-", max_size=60))
def test_any_label_gives_text(label: str) -> None:
    assert isinstance(unicode_form(f"xn--{label}.test"), str)
