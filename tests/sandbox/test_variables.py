"""The lists: every pattern can match, and no list contradicts another."""

import re
from itertools import combinations

import pytest

from sandbox import variables
from sandbox.env import Names

LISTS = {
    name: value
    for name, value in vars(variables).items()
    if name.isupper() and isinstance(value, tuple) and name != "CREDENTIAL_VALUES"
}


@pytest.mark.parametrize("name", LISTS)
def test_no_name_twice(name: str) -> None:
    assert len(set(LISTS[name])) == len(LISTS[name])
    assert all(re.fullmatch(r"[A-Z_*][A-Z0-9_*]*", entry) for entry in LISTS[name])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pair
        for pair in combinations(("PASSED", "PROGRAMS", "LOCATIONS", "MODEL_PROVIDERS"), 2)
        if pair != ("LOCATIONS", "MODEL_PROVIDERS")  # a location is looked at first
    ],
)
def test_pass_lists_do_not_overlap(one: str, other: str) -> None:
    assert not [name for name in LISTS[one] if name in Names(LISTS[other])]


@pytest.mark.parametrize(
    "never", ["LOADER_INJECTION", "GIT_INJECTION", "INTERPRETER_INJECTION", "PROXIES", "OWN", "SOCKETS"]
)
@pytest.mark.parametrize("passed", ["PASSED", "PROGRAMS", "MODEL_PROVIDERS"])
def test_nothing_passes_that_must_not(never: str, passed: str) -> None:
    assert not [name for name in LISTS[passed] if name in Names(LISTS[never])]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("ghp_" + "a" * 36, True),
        ("ghs_123456_eyJhbGciOiJI.eyJpc3MiOiIx.c2lnbmF0-dXJl_", True),
        ("ghs_123456", False),
        ("github_pat_" + "a" * 30, True),
        ("sk-ant-api03-" + "a" * 30, True),
        ("AKIA" + "A" * 16, True),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", True),
        ("https://me:word@host.test/", True),
        ("https://token-alone@host.test/", True),
        ("HTTPS://Me:Word@host.test/", True),
        ("https://host.test:8080/a@b", False),
        ("https://host.test?mail=a@b.test", False),
        ("A U Thor <author@host.test>", False),
        ("task-force-of-some-length-and-more", False),
        ("xterm-256color", False),
        ("C.UTF-8", False),
    ],
)
def test_credential_values(text: str, is_one: bool) -> None:
    assert any(re.search(shape, text) for shape in variables.CREDENTIAL_VALUES) is is_one


# One for each shape, in its order.
SAMPLES = (
    "gho_" + "a" * 36,
    "github_pat_" + "1A_" * 10,
    "glpat-" + "a" * 20,
    "xoxb-1234567890-abc",
    "xapp-1-A0123456789",
    "sk-proj-" + "a" * 24,
    "sk_live_" + "a" * 24,
    "npm_" + "a" * 36,
    "pypi-" + "a" * 40,
    "hf_" + "a" * 34,
    "dckr_pat_" + "a" * 24,
    "ASIA" + "A1B2" * 4,
    "AIza" + "a" * 35,
    "ya29." + "a" * 30,
    "hvs." + "a" * 24,
    "lin_api_" + "a" * 40,
    "ATATT3x" + "a" * 30,
    "ntn_" + "a" * 40,
    "eyJ" + "a" * 20 + ".eyJ" + "b" * 20 + "." + "c" * 20,
    "-----BEGIN RSA PRIVATE KEY-----",
    "Authorization: basic eA==",
    "postgres://dev:word@db.test/x",
)


@pytest.mark.parametrize(("shape", "sample"), list(zip(variables.CREDENTIAL_VALUES, SAMPLES, strict=True)))
@pytest.mark.parametrize("around", ["{}", "value={}", "[{}]", " {} ", "a\n{}\nb"])
def test_every_shape_is_found_wherever_it_stands(shape: str, sample: str, around: str) -> None:
    assert re.search(shape, around.format(sample))
    assert not re.search(shape, around.format(sample[:6]))


def test_telemetry_is_off_by_plain_values() -> None:
    assert set(variables.TELEMETRY_OFF.values()) <= {"1", "off", "false"}
