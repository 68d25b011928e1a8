"""Which call is handled by what, and all of them together: random calls with and without the door come to the same."""

import json
from pathlib import Path

import pytest

from sandbox.seccomp import DOOR_JUDGED, NOTIFIED
from sandbox.supervisor.operations import HANDLERS, handlers
from sandbox.system_calls import ARCHITECTURES, numbers
from tests.sandbox.supervisor.supervised import ground_of
from tests.sandbox.wrapping import PEOPLE, PYTHON

FUZZED = Path(__file__).with_name("fuzzed.py")
# A few at every run; whoever changes the supervisor runs some hundred more (`fuzzed.py SEED COUNT`).
SEEDS = (1, 2, 3)
STEPS = 400
# What the filter answers by itself.
ANSWERED = {"fcntl"}


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_every_notified_call_is_handled(machine: str) -> None:
    known = numbers(machine)
    notified = {name for name in (*NOTIFIED, *DOOR_JUDGED) if name in known} - ANSWERED
    assert {name for name, _ in handlers(machine).values()} == notified
    assert set(HANDLERS) >= notified


@pytest.mark.parametrize(
    ("machine", "number", "name"),
    [
        ("x86_64", 2, "open"), ("x86_64", 257, "openat"), ("x86_64", 82, "rename"), ("x86_64", 316, "renameat2"),
        ("x86_64", 42, "connect"), ("x86_64", 95, "umask"), ("aarch64", 56, "openat"), ("aarch64", 38, "renameat"),
        ("aarch64", 276, "renameat2"), ("aarch64", 34, "mkdirat"), ("aarch64", 45, "truncate"),
        ("aarch64", 203, "connect"),
    ],
)  # fmt: skip
def test_numbers(machine: str, number: int, name: str) -> None:
    assert handlers(machine)[number][0] == name


def test_unknown_machine_has_none() -> None:
    assert handlers("vax") == {}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("person", PEOPLE)
def test_random_calls_come_to_the_same(person: str, seed: int) -> None:
    results = []
    for door in (True, False):
        with ground_of(person) as ground:
            done = ground.run(PYTHON, "-I", "-S", "-B", str(FUZZED), str(seed), str(STEPS), door=door)
            assert (done.code, done.violations) == (0, []), done.err
            results.append(json.loads(done.out))
    (with_door, tree), (without, expected_tree) = results
    different = [
        pair
        for pair in zip(with_door, without, strict=True)
        if pair[0] != pair[1] and "ok" in (pair[0][1], pair[1][1])
    ]
    assert not different
    assert tree == expected_tree
    other_errors = sum(one != two for one, two in zip(with_door, without, strict=True))
    assert other_errors <= STEPS // 10  # which one, where several apply
