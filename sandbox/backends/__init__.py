"""The backends, in the order in which a default looks at them. Each platform has one that is called `native`."""

import sys

from sandbox.backends.base import Backend
from sandbox.backends.bubblewrap import Bubblewrap
from sandbox.backends.microvm import MicroVm
from sandbox.backends.none import Unwrapped
from sandbox.backends.seatbelt import Seatbelt

NATIVE: Backend = Seatbelt() if sys.platform == "darwin" else Bubblewrap()
BACKENDS: tuple[Backend, ...] = (NATIVE, MicroVm(), Unwrapped())
