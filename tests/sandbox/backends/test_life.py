"""States change as the table says and no other way; events reach the callback and the reader."""

import threading

import pytest

from gateway.errors import GatewayError
from sandbox.backends.life import MOST_WAITING, UNTOLD, Life
from sandbox.events import Cause, Killed, Ready, SandboxEvent, SandboxViolation, Starting, Violation
from sandbox.spec import TRANSITIONS, SandboxHandle, SandboxState


def life_in(state: SandboxState, told: list[SandboxEvent] | None = None) -> Life:
    """A life that has come to a state."""
    life = Life("session", "native", told.append if told is not None else None)
    ways = {
        SandboxState.CREATED: (),
        SandboxState.WARM: (SandboxState.WARM,),
        SandboxState.ACTIVE: (SandboxState.WARM, SandboxState.ACTIVE),
        SandboxState.SUSPENDED: (SandboxState.WARM, SandboxState.ACTIVE, SandboxState.SUSPENDED),
        SandboxState.ERROR: (SandboxState.ERROR,),
        SandboxState.DESTROYED: (SandboxState.DESTROYED,),
    }
    for step in ways[state]:
        life.move(step)
    return life


@pytest.mark.parametrize("before", SandboxState)
@pytest.mark.parametrize("after", SandboxState)
def test_table(before: SandboxState, after: SandboxState) -> None:
    life = life_in(before)
    if after in TRANSITIONS[before]:
        life.move(after)
        assert life.state is after
    else:
        with pytest.raises(GatewayError, match=f"the wrap is {before}"):
            life.move(after)
        assert life.state is before


def test_handle_is_a_snapshot() -> None:
    life = life_in(SandboxState.CREATED)
    before = life.handle
    life.up({"http_port": "1"})
    assert before == SandboxHandle("session", "native", SandboxState.CREATED)
    assert life.handle == SandboxHandle("session", "native", SandboxState.WARM, "", {"http_port": "1"})


def test_failure_is_told_once() -> None:
    told: list[SandboxEvent] = []
    life = life_in(SandboxState.ACTIVE, told)
    life.fail("it ended", Cause.OOM)
    life.fail("again", Cause.MANUAL)
    assert told == [Starting(), Killed(Cause.OOM)]
    assert (life.handle.state, life.handle.error) == (SandboxState.ERROR, "it ended")
    with pytest.raises(GatewayError, match="the wrap is error: it ended"):
        life.move(SandboxState.ACTIVE)
    assert life.destroyed()
    assert not life.destroyed()


@pytest.mark.parametrize("state", [state for state in SandboxState if state is not SandboxState.DESTROYED])
def test_destroyed_from_everywhere(state: SandboxState) -> None:
    life = life_in(state)
    assert (life.destroyed(), life.destroyed(), life.state) == (True, False, SandboxState.DESTROYED)
    life.fail("too late", Cause.MANUAL)
    assert life.state is SandboxState.DESTROYED


def violation(target: str, count: int = 1) -> Violation:
    return Violation(SandboxViolation("file-write-create", target, "", count=count))


def test_reader_and_callback_get_the_same() -> None:
    told: list[SandboxEvent] = []
    life = Life("session", "native", told.append)
    life.up({})
    read: list[SandboxEvent] = []
    reader = threading.Thread(target=lambda: read.extend(life.events()))
    reader.start()
    life.tell(violation("a"))
    life.tell(violation("b"))
    life.destroyed()
    reader.join()
    assert read == told == [Starting(), Ready(), violation("a"), violation("b")]


def test_reader_that_comes_late_misses_nothing() -> None:
    life = life_in(SandboxState.WARM)
    life.tell(violation("a"))
    life.destroyed()
    assert list(life.events()) == [Starting(), violation("a")]
    assert list(life.events()) == []


def test_no_reader_costs_no_memory_and_nothing_is_uncounted() -> None:
    life = Life("session", "native")
    for number in range(MOST_WAITING + 1000):
        life.tell(violation(str(number), count=2))
    life.destroyed()
    events = list(life.events())
    assert len(events) == MOST_WAITING + 1
    assert events[-1] == Violation(SandboxViolation("unknown", UNTOLD, "", count=2 * 1001))
