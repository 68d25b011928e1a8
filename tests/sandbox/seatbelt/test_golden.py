"""The profiles of every mode and of a terminal, word for word (`golden.py` says how to write them anew)."""

import pytest

from gateway.session import Mode
from tests.sandbox.seatbelt.evaluator import Profile, Request
from tests.sandbox.seatbelt.golden import FOLDER, NAMES, PLACE, make


@pytest.mark.parametrize("name", NAMES)
def test_profile_is_what_it_was(name: str) -> None:
    assert make(name) == (FOLDER / f"{name}.sb").read_text()


def test_there_is_one_for_each_mode_and_nothing_else() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {*(f"agent-{mode}" for mode in Mode), "terminal"}


STATE = f"{PLACE}/home/.local/state/agent-gateway"
# Path, operation, and in which of the profiles it is allowed.
CHAT = ("agent-chat", "terminal")
AGENTS = tuple(f"agent-{mode}" for mode in Mode)
VERDICTS = (
    ("tree/src/a.py", "file-read-data", NAMES),
    ("tree/src/a.py", "file-write-create", CHAT),
    ("tree/docs/a.md", "file-write-data", ()),
    ("claude/history.jsonl", "file-write-create", NAMES),
    ("home/.local/state/agent-gateway/workspaces/default/home/a", "file-write-create", AGENTS),
    ("home/.local/state/agent-gateway/workspaces/other/home/a", "file-read-data", ()),
    ("home/.local/state/agent-gateway/audit/a.jsonl", "file-read-data", ()),
    ("home/.local/state/agent-gateway/run/wrap-1/tmp/a", "file-write-create", NAMES),
    ("home/.local/state/agent-gateway/run/wrap-2/tmp/a", "file-read-data", ()),
    ("home/notes.txt", "file-write-data", ("terminal",)),
    ("home/notes.txt", "file-read-data", NAMES),
    ("home/.bashrc", "file-write-data", ("terminal",)),
    ("home/.ssh/id_ed25519", "file-read-data", ()),
    ("home/.ssh/authorized_keys", "file-write-create", ()),
    ("home/.ssh", "file-write-unlink", ()),
    ("home/.config", "file-write-unlink", ()),
    ("home/Library/Keychains/login.keychain-db", "file-read-data", ()),
    ("checkout/a", "file-write-data", ()),
    ("tree/vendor/main/a", "file-write-data", ()),
    ("tree/vendor", "file-write-unlink", ()),
    ("tree/.git/config", "file-write-data", ("terminal",)),
    ("tree/vendor/lib/.git/hooks/pre-commit", "file-write-create", ("terminal",)),
    ("tree/.env", "file-write-create", ("terminal",)),
    ("tree/.env.example", "file-write-create", CHAT),
    ("tree/x.tfstate", "file-write-create", ("terminal",)),
    ("tree/deploy/main.tf", "file-write-create", ("terminal",)),
    ("tree/node_modules/x/cacert.pem", "file-write-create", CHAT),
    ("tree/cacert.pem", "file-write-create", ("terminal",)),
    ("tree/test.pem", "file-write-create", CHAT),
    ("tree/fixtures/.env", "file-write-create", CHAT),
    ("tree/a.kdbx", "file-read-data", ()),
    ("tree/.venv/bin/pytest", "process-exec", NAMES),
    ("tree/tools/run", "process-exec", NAMES),
    ("claude/run", "process-exec", ("terminal",)),
)


@pytest.mark.parametrize(("path", "operation", "allowed"), VERDICTS)
def test_verdicts_of_the_golden_profiles(path: str, operation: str, allowed: tuple[str, ...]) -> None:
    for name in NAMES:
        profile = Profile((FOLDER / f"{name}.sb").read_text())
        for prefix in (PLACE, f"/private{PLACE}"):
            assert profile.allows(Request(operation, f"{prefix}/{path}".encode())) is (name in allowed), (
                name,
                prefix,
            )
