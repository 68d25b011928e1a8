"""Garbage collection of a process that serves: what start-up left is never looked at again."""

import gc
from typing import Final

# What runs makes little garbage in circles.
_COLLECT_AFTER: Final = (10_000, 20, 100)


def settle_garbage() -> None:
    """Called once, when everything is set up."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
