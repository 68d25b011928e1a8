"""Policies of launches on a Mac that the tests share, as `plan.py` would make them; and paths to ask them about."""

from dataclasses import replace

from hypothesis import strategies as st

from sandbox.filerules import (
    ALLOWED_AMONG_PACKAGES,
    UNSEARCHED_FOLDERS,
    WRITE_ALLOWED_NAMES,
    WRITE_DENIED_NAMES,
    WRITE_DENIED_PATHS,
)
from sandbox.seatbelt.policy import FilePolicy, Names, Root
from sandbox.seatbelt.services import DANGEROUS_PROGRAMS, DEVICES
from sandbox.seatbelt.spelling import spell

STATE = "/Users/me/.local/state/agent-gateway"
HOME = "/".join((STATE, "workspaces/default/home"))
WORK = "/tmp/work"
ALIASES = ((WORK, "/Users/me/project"),)


def spelled(*paths: str) -> tuple[str, ...]:
    """Every spelling of them."""
    return tuple(one for path in paths for one in spell(path, ALIASES))


def roots(*places: tuple[str, bool]) -> tuple[Root, ...]:
    """Roots in all spellings, parents first."""
    found = [Root(path, writable) for place, writable in places for path in spell(place, ALIASES)]
    return tuple(sorted(found, key=lambda root: (root.path.count("/"), root.path)))


SHIPPED = Names(
    names=WRITE_DENIED_NAMES,
    paths=tuple(f"*/{end}" for end in WRITE_DENIED_PATHS),
    allowed=WRITE_ALLOWED_NAMES,
    package_names=ALLOWED_AMONG_PACKAGES,
    package_folders=UNSEARCHED_FOLDERS,
    package_places=(f"{HOME}/.cache",),
)
CHAT = FilePolicy(
    roots=roots((WORK, True), (f"{WORK}/docs", False), (f"{WORK}/docs/build", True), (HOME, True)),
    hidden=spelled("/Users/me/.ssh", "/Users/me/.config/gh", "/Users/me/.netrc", STATE, "/etc/ssh"),
    shown=spelled(HOME),
    bases=spelled(WORK, "/Users/me"),
    names=SHIPPED,
    sealed=spelled(
        *(f"{WORK}/.git/{name}" for name in ("hooks", "config", "commondir")),
        f"{WORK}/vendor/lib/.git/hooks",
        f"{WORK}/checkouts/main",
    ),
    runnable=spelled(f"{WORK}/.venv", f"{WORK}/tools/run"),
    terminals=("/dev/ttys003",),
)
CONFIGURED = replace(
    CHAT,
    names=replace(
        SHIPPED,
        more_names=("secret-*", "*.p1[2x]", "[!a]only", "Weiß?", "id_rsa"),
        more_paths=("*/deploy/*.tf", f"{WORK}/ops/plan", f"/private{WORK}/ops/plan", "*/deep/*/leaf"),
        more_allowed=("secret-public", "test.pem"),
        allowed_paths=(f"{WORK}/fixtures/*", f"/private{WORK}/fixtures/*", "*/spare/.vscode"),
    ),
    hidden_names=("*.kdbx", "wallet"),
    hidden_paths=("*/private/*.csv", f"{WORK}/vault", f"/private{WORK}/vault"),
)
READ_ONLY = replace(CHAT, roots=roots((WORK, False), (HOME, True)))
TERMINAL = FilePolicy(
    roots=roots(
        ("/Users/me", True),
        (WORK, True),
        ("/Users/me/.ssh", False),
        (STATE, False),
        (f"{STATE}/run/x/tmp", True),
    ),
    hidden=spelled("/Users/me/.ssh", STATE, f"{STATE}/run/x/tmp/hidden"),
    shown=spelled(f"{STATE}/run/x/tmp"),
    sealed=spelled("/Users/me/checkout"),
    runs_everything=True,
)
POLICIES = {"chat": CHAT, "configured": CONFIGURED, "read-only": READ_ONLY, "terminal": TERMINAL}

# Names that a rule speaks of, that almost match one, and that have nothing to do with any.
NAMES = (
    *WRITE_DENIED_NAMES,
    *WRITE_ALLOWED_NAMES,
    *(part for end in WRITE_DENIED_PATHS for part in end.split("/")),
    *UNSEARCHED_FOLDERS,
    ".env.local", ".env.", ".environment", "env", ".env ", ".env:stream", ".env .:x:y", "a.env", ".envrc",
    "x.pem", "x.pem.txt", "pem", ".pem", "x.key", "x.key.", "x.key:", "a:b.key:", "key", "keys", "x.p12", "x.pfx",
    "x.\u212aey", ".\u017fshenv", ".z\u017fhrc", ".ba\u017fhrc", ".pro\ufb01le", ".gitcon\ufb01g",
    "con\ufb01g.\ufb01\u017fh",
    ".e\u200cnv", "\u200c.env", "x.pem\u200d", "\U0001f469\u200d\U0001f4bb.md", "e\u0301.key", "\u00e9.key",
    ".git", "hooks", "config", "commondir", "config.lock", "HEAD", "hooks2", "pre-commit", ".github", ".gitignore",
    ".claude", "settings", "settings.json", "settings.json.tmp", "skills",
    "secret-plan", "secret-public", "secret", "x.p1x", "x.p13", "bonly", "aonly", "only", "weiss1",
    "WEI\u1e9e\u00e9", "wei\u00df",
    "deploy", "main.tf", "ops", "plan", "deep", "leaf", "fixtures", "spare", "a.kdbx", "wallet", "private",
    "x.csv", "vault",
    "docs", "build", "vendor", "lib", "checkouts", "main", "checkout", "tools", "run", ".venv", "bin", "python",
    "src", "a", "b", ".cache", "pip", "tmp", ".ssh", "id_rsa", "\u00e9", "sp ace", "quo\"te", "back\\slash",
    "(x)", "[y]", "a+b",
    "a$", "^b", "{c}", "d|e", "new\nline",
)  # fmt: skip


def prefixes(policy: FilePolicy) -> tuple[str, ...]:
    """Places that a policy speaks of, and those above them."""
    places = (
        *(root.path for root in policy.roots),
        *policy.hidden,
        *policy.sealed,
        *policy.runnable,
        *policy.guarded,
        *policy.passages,
        *DANGEROUS_PROGRAMS[:3],
        *DEVICES[:3],
        "/usr/bin/git",
        "/dev/ttys003",
        "/dev/ttys004",
        "/dev/fd/2",
        "/dev/disk0",
    )
    return tuple(
        dict.fromkeys((*places, *(place.rpartition("/")[0] for place in places), "/Users", "/private"))
    )


@st.composite
def spoken_of(draw: st.DrawFn, policy: FilePolicy) -> str:
    """A path: a place, some names below it, now and then in another letter case."""
    start = draw(st.sampled_from(prefixes(policy)))
    names = draw(st.lists(st.sampled_from(NAMES), max_size=4))
    path = "/".join((start, *names)) or "/"
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 2)))):
        at = draw(st.integers(0, len(path) - 1))
        if path[at].swapcase().isascii():
            path = path[:at] + path[at].swapcase() + path[at + 1 :]
    return path.upper() if draw(st.sampled_from((False,) * 19 + (True,))) and path.isascii() else path
