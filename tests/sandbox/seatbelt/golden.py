"""The golden profiles: what a launch in each mode, and a terminal, is confined by. To write them anew:

.venv/bin/python -m tests.sandbox.seatbelt.golden
"""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from gateway.session import Mode, Profile
from sandbox.places import SECRET_PLACES, Guard
from sandbox.seatbelt.plan import lay_out
from sandbox.spec import SandboxBindMount, SandboxSpec

FOLDER = Path(__file__).resolve().parents[2] / "data/seatbelt"
# Stands in the files for the directory in which a host in small is made. Both are digits: letters would stand there in
# both cases. It has two spellings, with /private and without.
PLACE = "/tmp/0"
PORTS = (49152, 49153, 49154)
TAG = "agent-gateway-0123456789abcdef"
NAMES = (*(f"agent-{mode}" for mode in Mode), "terminal")


@contextmanager
def host() -> Iterator[Path]:
    """A host in small: a worktree with a submodule and a linked checkout, a home, state."""
    # Of one length always: where a profile's strings are cut depends on it.
    root = Path("/tmp", f"{os.getpid()}{time.monotonic_ns()}".zfill(19)[-19:])
    root.mkdir(mode=0o700)
    try:
        for repository in ("tree", "tree/vendor/lib"):
            for part in ("objects", "refs", "hooks"):
                (root / repository / ".git" / part).mkdir(parents=True)
            (root / repository / ".git/HEAD").write_text("ref: refs/heads/main\n")
        for folder in ("tree/docs", "tree/.venv/bin", "checkout", "claude", "home"):
            (root / folder).mkdir(parents=True)
        (root / "tree/.venv/pyvenv.cfg").write_text("home = /usr/bin\n")
        (root / "tree/.venv/bin/pytest").write_text("#!/bin/sh\n")
        (root / "tree/.venv/bin/pytest").chmod(0o755)
        yield root
    finally:
        shutil.rmtree(root)


def spec_of(root: Path, name: str) -> SandboxSpec:
    """A spec that uses every field that a profile depends on."""
    state = f"{root}/home/.local/state/agent-gateway"
    spec = SandboxSpec(
        "session",
        "default",
        "",
        tuple(SandboxBindMount(path, path, read_only) for path, read_only in (
            (f"{root}/tree", False), (f"{root}/tree/docs", True),
        )),
        protected_paths=(f"{root}/checkout", f"{root}/tree/vendor/main"),
        runner_state_dirs=(f"{root}/claude",),
        exec_grant_roots=(f"{root}/tree/tools",),
        home=os.path.join(state, "workspaces/default/home"),
        state_dir=state,
        runtime_dir=f"{state}/run",
        user_home=f"{root}/home",
        command=(f"{root}/tree/.venv/bin/pytest",),
        search_path="/usr/bin:/bin",
        deny_write=("*.tfstate", "*/deploy/*.tf"),
        allow_write=("test.pem", f"{root}/tree/fixtures/*"),
        deny_read=("*.kdbx",),
    )  # fmt: skip
    if name == "terminal":
        return replace(spec, profile=Profile.TERMINAL)
    return replace(spec, mode=Mode(name.removeprefix("agent-")))


def make(name: str) -> str:
    """One profile's text."""
    with host() as root:
        (root / "tree/tools").mkdir()
        spec = spec_of(root, name)
        home = spec.user_home
        # The places of this user alone: those of whoever runs this are not for a file that everybody compares with.
        places = Guard(
            (home,), tuple(os.path.join(home, place) for place in sorted(SECRET_PLACES)), (spec.state_dir,)
        )
        layout = lay_out(spec, places, f"{spec.runtime_dir}/wrap-1", (), make_home=False)
        return layout.profile(PORTS, TAG).replace(root.name, Path(PLACE).name)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for one in NAMES:
        (FOLDER / f"{one}.sb").write_text(make(one))
