"""The backend with a kernel of its own, for interactive terminals. It has a name and a probe; it does not run yet."""

from gateway.errors import GatewayError
from sandbox.backends.base import OnEvent, Probe, Running
from sandbox.backends.wrap import WrapBackend
from sandbox.spec import SandboxSpec


class MicroVm(WrapBackend):
    """Asked for by name it fails loudly: nothing else may stand in for a kernel boundary."""

    name = "microvm"

    def probe(self) -> Probe:
        """Never available."""
        return Probe(
            False, hint="the micro-VM backend is not part of this version: write --backend native for a wrap"
        )

    def launch(self, spec: SandboxSpec, on_event: OnEvent | None = None) -> Running:
        """Always a GatewayError."""
        raise GatewayError("no micro-VM can run here", self.probe().hint)
