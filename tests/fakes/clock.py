"""A clock that stands still until it is told otherwise, and the gateway's event loop with timers that follow it."""

from gateway.proxy.reactor import GatewayLoop


class FakeClock:
    """Seconds of a monotonic clock. Changes only by `advance`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Moves the clock on."""
        self.now += seconds


class ClockedLoop(GatewayLoop):
    """A loop of which `clock` moves the time on, besides the real time: what was to happen later is due at once."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def time(self) -> float:
        return super().time() + self._clock.now
