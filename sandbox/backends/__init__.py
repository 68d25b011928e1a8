"""The backends, in the order in which a default looks at them."""

from sandbox.backends.base import Backend
from sandbox.backends.bubblewrap import Bubblewrap
from sandbox.backends.microvm import MicroVm
from sandbox.backends.none import Unwrapped

BACKENDS: tuple[Backend, ...] = (Bubblewrap(), MicroVm(), Unwrapped())
