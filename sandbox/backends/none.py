"""No wrap: the same door with the host behind it. What commands see is convenience and not a boundary."""

import os
import sys
import tempfile

from sandbox.backends.base import Inside, OnEvent, Probe
from sandbox.backends.hosted import PACKAGE, PYTHON_FLAGS, Hosted, Hosting, Places, launch_hosted
from sandbox.backends.life import Life
from sandbox.backends.wrap import WrapBackend
from sandbox.paths import path_folders
from sandbox.spec import SandboxSpec
from sandbox.spec_checks import check_spec

NOTE = "no wrap"


class Unwrapped(WrapBackend):
    """Always available."""

    name = "none"

    def probe(self) -> Probe:
        """It needs nothing."""
        return Probe(True, NOTE)

    def launch(self, spec: SandboxSpec, on_event: OnEvent | None = None) -> Hosted:
        """Opens the listeners and starts the keeper."""
        check_spec(spec)
        return launch_hosted(
            spec, Life(spec.session_id, self.name, on_event), Hosting(_inside, wrapped=False)
        )


def _inside(spec: SandboxSpec, places: Places) -> Inside:
    """The host itself."""
    return Inside(
        home=spec.user_home,
        path=":".join(path_folders(spec.search_path)),
        tmpdir=tempfile.gettempdir(),
        git_config=places.git_config,
        connect=(sys.executable, *PYTHON_FLAGS, os.path.join(PACKAGE, "connect.py")),
        roots=("/",),
        variables={},
        credential=(sys.executable, *PYTHON_FLAGS, os.path.join(PACKAGE, "credential.py")),
        gh_config=places.gh_config,
    )
