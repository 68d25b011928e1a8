"""The file policy of one launch on macOS, as a table; and that its names are those of every platform."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.filerules import FileRules, NameRules
from sandbox.folding import readings
from sandbox.seatbelt.policy import FilePolicy, Names, Operation, Root, ways
from tests.sandbox.seatbelt.launches import CHAT, CONFIGURED, HOME, NAMES, READ_ONLY, STATE, TERMINAL, WORK

READ, META, CREATE, WRITE = Operation.READ, Operation.METADATA, Operation.CREATE, Operation.WRITE
UNLINK, LINK, EXECUTE = Operation.UNLINK, Operation.LINK, Operation.EXECUTE
CLONE = Operation.CLONE
OUTSIDE = "outside the writable directories"

# Policy, operation, path, the rule that refuses it (empty: it is allowed).
VERDICTS: tuple[tuple[FilePolicy, Operation, str, str], ...] = (
    (CHAT, READ, "/Users/me/notes.txt", ""),
    (CHAT, READ, "/Users/me/.ssh/id_rsa", "/Users/me/.ssh"),
    (CHAT, READ, "/Users/me/.SSH/id_rsa", "/Users/me/.ssh"),
    (CHAT, READ, "/Users/me/.sshd", ""),
    (CHAT, META, "/Users/me/.ssh", "/Users/me/.ssh"),
    (CHAT, READ, f"{HOME}/.bashrc", ""),
    (CHAT, META, f"{STATE}/workspaces", ""),
    (CHAT, READ, f"{STATE}/workspaces", STATE),
    (CHAT, META, f"{STATE}/audit", STATE),
    (CHAT, WRITE, f"{WORK}/a.py", ""),
    (CHAT, WRITE, f"/private{WORK}/a.py", ""),
    (CHAT, WRITE, f"{WORK.upper()}/a.py", OUTSIDE),
    (CHAT, WRITE, "/Users/me/a.py", OUTSIDE),
    (CHAT, WRITE, "/tmp/workshop/a", OUTSIDE),
    (CHAT, WRITE, "/dev/null", ""),
    (CHAT, WRITE, "/dev/tty", ""),
    (CHAT, WRITE, "/dev/ttys012", "another terminal"),
    (CHAT, READ, "/dev/ttys012", "another terminal"),
    (CHAT, META, "/dev/ttys012", ""),
    (CHAT, WRITE, "/dev/ttys003", ""),
    (CHAT, READ, "/dev/ttys003", ""),
    (TERMINAL, READ, "/dev/ttys003", "another terminal"),
    (CHAT, WRITE, "/dev/disk2", OUTSIDE),
    (CHAT, WRITE, f"{WORK}/docs/a.md", OUTSIDE),
    (CHAT, WRITE, f"{WORK}/Docs/a.md", OUTSIDE),
    (CHAT, WRITE, f"{WORK}/docs/build/a.html", ""),
    (CHAT, CREATE, f"{WORK}/.env", ".env"),
    (CHAT, CREATE, f"{WORK}/src/.Env", ".env"),
    (CHAT, CREATE, f"{WORK}/.env/bin/python", ".env"),
    (CHAT, CREATE, f"{WORK}/.env.example", ""),
    (CHAT, CREATE, f"{WORK}/.env.example/x", ".env.*"),  # an exception frees a file
    (CHAT, CREATE, f"{WORK}/.vscode/.env.example", ".vscode"),
    (CHAT, CREATE, f"{WORK}/.environment", ""),
    (CHAT, CREATE, f"{WORK}/x.\u212aey", "*.key"),
    (CHAT, CREATE, f"{WORK}/.e\u200cnv", "invisible character in a plain name"),
    (CHAT, CREATE, f"{WORK}/lib/node_modules/a/cacert.pem", ""),
    (CHAT, CREATE, f"{WORK}/lib/site-packages/cacert.pem", ""),
    (CHAT, CREATE, f"{WORK}/lib/site-packages/.env", ".env"),
    (CHAT, CREATE, f"{WORK}/lib/cacert.pem", "*.pem"),
    (CHAT, CREATE, f"{WORK}/lib/Node_Modules/cacert.pem", "*.pem"),  # an exception is as it is spelled
    (CHAT, CREATE, f"{HOME}/.cache/pip/cacert.pem", ""),
    (CHAT, CREATE, f"{HOME}/cacert.pem", "*.pem"),
    (CHAT, WRITE, f"{WORK}/.claude/settings.json", "*/.claude/settings.json"),
    (CHAT, WRITE, f"{WORK}/a/.claude/hooks/x", "*/.claude/hooks"),
    (CHAT, WRITE, f"{WORK}/.claude/notes.md", ""),
    (CHAT, CREATE, f"{WORK}/.claude", "*/.claude"),
    (CHAT, WRITE, f"{WORK}/.claude", ""),  # its own entry list, when a file is made in it
    (CHAT, WRITE, f"{WORK}/.git/config", f"{WORK}/.git/config"),
    (CHAT, CREATE, f"{WORK}/.git/HOOKS/pre-commit", f"{WORK}/.git/hooks"),
    (CHAT, WRITE, f"{WORK}/.git/index", ""),
    (CHAT, WRITE, f"{WORK}/new/.git/config", ""),
    (CHAT, UNLINK, f"{WORK}/.git", "holds what is protected"),
    (CHAT, UNLINK, f"{WORK}/vendor", "holds what is protected"),
    (CHAT, UNLINK, WORK, "holds what is protected"),
    (CHAT, UNLINK, f"{WORK}/docs", OUTSIDE),
    (CHAT, UNLINK, f"{WORK}/src", ""),
    (CHAT, LINK, f"{WORK}/src/a", ""),
    (CHAT, LINK, "/Users/me/a", OUTSIDE),
    (CHAT, CLONE, f"{WORK}/src/a", ""),
    (CHAT, CLONE, "/Users/me/a", OUTSIDE),
    (CHAT, CLONE, f"{WORK}/.env", ".env"),
    (CHAT, EXECUTE, "/usr/bin/git", ""),
    (CHAT, EXECUTE, "/bin/launchctl", "dangerous program"),
    (CHAT, EXECUTE, f"{WORK}/a.out", "writable directory"),
    (CHAT, EXECUTE, f"{WORK}/docs/a.out", "writable directory"),
    (CHAT, EXECUTE, f"{WORK}/.venv/bin/python", ""),
    (CHAT, EXECUTE, f"{WORK}/.VENV/bin/python", "writable directory"),
    (CHAT, EXECUTE, f"{WORK}/tools/run", ""),
    (CHAT, EXECUTE, f"{WORK}/tools/run2", "writable directory"),
    (CHAT, EXECUTE, "/Users/me/.ssh/run", "/Users/me/.ssh"),
    (READ_ONLY, WRITE, f"{WORK}/a.py", OUTSIDE),
    (READ_ONLY, WRITE, f"{HOME}/a", ""),
    (READ_ONLY, EXECUTE, f"{WORK}/a.out", ""),
    (CONFIGURED, CREATE, f"{WORK}/secret-plan", "secret-*"),
    (CONFIGURED, CREATE, f"{WORK}/secret-public", ""),
    (CONFIGURED, CREATE, f"{WORK}/secret-public/x", "secret-*"),
    (CONFIGURED, CREATE, f"{WORK}/test.pem", ""),
    (CONFIGURED, CREATE, f"{WORK}/fixtures/a/.env", ""),
    (CONFIGURED, CREATE, f"{WORK}/spare/.vscode", ""),
    (CONFIGURED, CREATE, f"{WORK}/spare/.vscode/tasks.json", ".vscode"),  # it would take `*/spare/.vscode/*`
    (CONFIGURED, CREATE, f"{WORK}/deploy/x/main.tf", "*/deploy/*.tf"),
    (CONFIGURED, CREATE, f"{WORK}/deploy", "*/deploy"),
    (CONFIGURED, UNLINK, f"{WORK}/ops", f"{WORK}/ops"),
    (CONFIGURED, READ, "/Users/me/pass.kdbx", "*.kdbx"),
    (CONFIGURED, READ, "/Library/pass.kdbx", ""),
    (CONFIGURED, WRITE, f"{WORK}/wallet/x", "wallet"),
    (CONFIGURED, READ, f"{WORK}/private/a.csv", "*/private/*.csv"),
    (CONFIGURED, EXECUTE, f"{WORK}/vault/x", f"{WORK}/vault"),
    (TERMINAL, WRITE, "/Users/me/.bashrc", ""),
    (TERMINAL, WRITE, "/Users/me/.ssh/authorized_keys", OUTSIDE),
    (TERMINAL, UNLINK, "/Users/me/.ssh", OUTSIDE),
    (TERMINAL, UNLINK, "/Users/me/.local/state", "holds what is protected"),
    (TERMINAL, WRITE, "/Users/me/checkout/a", "/Users/me/checkout"),
    (TERMINAL, EXECUTE, "/Users/me/bin/tool", ""),
    (TERMINAL, EXECUTE, "/usr/bin/open", "dangerous program"),
    (TERMINAL, READ, f"{STATE}/run/x/tmp/hidden", f"{STATE}/run/x/tmp/hidden"),
)  # fmt: skip


@pytest.mark.parametrize(("policy", "operation", "path", "rule"), VERDICTS)
def test_verdicts(policy: FilePolicy, operation: Operation, path: str, rule: str) -> None:
    assert policy.refusal(operation, path) == rule


def test_directories_on_the_way_to_a_denied_path() -> None:
    assert ways("*/.config/fish/config.fish") == ("*/.config", "*/.config/fish")
    assert ways("/w/a/*") == ("/w", "/w/a")
    assert ways("*/a/*/b") == ("*/a", "*/a/*")
    assert ways("*/x") == ()


@pytest.mark.parametrize(("operation", "is_folder", "refused"), [
    (UNLINK, True, True), (UNLINK, False, False), (CREATE, True, False), (CREATE, False, False),
])  # fmt: skip
def test_below_a_wildcard_directories_stay_where_they_are(
    operation: Operation, is_folder: bool, refused: bool
) -> None:
    """Every name is on the way to `*/deep/*/leaf`; making one is no sign of anything."""
    assert bool(CONFIGURED.refusal(operation, f"{WORK}/deep/x", is_folder)) is refused


def test_nothing_is_writable_without_roots() -> None:
    policy = FilePolicy(roots=(Root("/w", False),))
    assert policy.grounds == policy.kept == policy.guarded == ()
    assert policy.refusal(WRITE, "/w/a") == OUTSIDE


ASCII = tuple(name for name in NAMES if name.isascii() and "\n" not in name)


@settings(max_examples=2000, deadline=None, database=None)
@given(names=st.lists(st.sampled_from(ASCII), min_size=1, max_size=4))
def test_names_are_those_of_every_platform(names: list[str]) -> None:
    """Whatever the create-time rules of Linux deny by name is denied here; and nothing else, but for what lies in
    directories whose name is excepted."""
    rules = NameRules(
        FileRules(deny_write=("secret-*", "*.p1[2x]", "*/deploy/*.tf"), allow_write=("secret-public",))
    )
    policy = FilePolicy(
        roots=(Root("/w", True),),
        names=replace(
            CHAT.names,
            more_names=("secret-*", "*.p1[2x]"), more_paths=("*/deploy/*.tf",), more_allowed=("secret-public",),
        ),
    )  # fmt: skip
    folder = "/".join(("/w", *names[:-1]))
    there = rules.denied(folder.encode(), names[-1].encode())
    here = policy.refusal(WRITE, f"{folder}/{names[-1]}")
    excepted = {*CHAT.names.allowed, "secret-public"}
    packages = [at for at, name in enumerate(names) if name in CHAT.names.package_folders]
    read = [reading for name in names[:-1] for reading in readings(name.encode())]
    inside = any(name.endswith((".pem", ".key")) for name in read) if packages else False
    if there:
        assert here, names
    elif not inside and not excepted & {name.lower() for name in names[:-1]}:
        assert not here, (names, here)


def test_shipped_names_are_denied_one_by_one() -> None:
    names = Names(names=CHAT.names.names)
    for glob in names.names:
        name = glob.replace("*", "x")
        assert (
            FilePolicy(roots=(Root("/w", True),), names=names).refusal(CREATE, f"/w/a/{name}") in names.names
        )
