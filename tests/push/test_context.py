"""What the pushes of a session share."""

from typing import Any, cast

from gateway.push.context import PushContext
from tests.fakes.clock import FakeClock


def test_durations_are_milliseconds() -> None:
    clock = FakeClock()
    nothing = cast(Any, None)
    context = PushContext(nothing, nothing, nothing, nothing, nothing, "label", clock)
    start = clock()
    clock.advance(1.2345)
    assert context.milliseconds_since(start) in {1234, 1235}
    assert context.running == 0
