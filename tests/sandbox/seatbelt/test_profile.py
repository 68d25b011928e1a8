"""The profile says what the policy says, path by path, and in a language that is read."""

import string
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.seatbelt.policy import FilePolicy, Operation
from sandbox.seatbelt.profile import FILTERS_A_RULE, Network, quote, seatbelt_profile
from sandbox.seatbelt.spelling import is_disguised
from tests.sandbox.seatbelt.evaluator import (
    Form,
    Profile,
    ProfileError,
    Request,
    Text,
    compile_pattern,
    parse,
)
from tests.sandbox.seatbelt.launches import CHAT, CONFIGURED, POLICIES, TERMINAL, WORK, spoken_of

TAG = "agent-gateway-0123456789abcdef"
PORTS = (49152, 49153, 49154)
# Paths for each policy; every one is asked about in seven operations, as a file and as a directory.
PATHS = 700


def text_of(policy: FilePolicy) -> str:
    return seatbelt_profile(policy, Network(PORTS, policy is TERMINAL), TAG)


PROFILES = {name: Profile(text_of(policy)) for name, policy in POLICIES.items()}
every_policy = pytest.mark.parametrize("name", POLICIES)


def ask(operation: Operation, path: str, is_folder: bool = False) -> Request:
    return Request(str(operation), path.encode("utf-8", "surrogateescape"), is_folder)


@every_policy
@settings(max_examples=PATHS, deadline=None, database=None)
@given(data=st.data())
def test_profile_and_policy_are_of_one_mind(name: str, data: st.DataObject) -> None:
    policy, profile = POLICIES[name], PROFILES[name]
    path = data.draw(spoken_of(policy))
    for operation in Operation:
        for is_folder in (False, True):
            rule = policy.refusal(operation, path, is_folder)
            request = ask(operation, path, is_folder)
            assert profile.allows(request) is (rule == ""), (operation, path, rule, profile.deciding(request))


# One path for each kind of rule; the operation is a write to it unless it says otherwise.
DECIDED = (
    ("file-read-data", "/Users/me/.ssh/id_ed25519"),
    ("file-read-metadata", "/Users/me/.local/state/agent-gateway/workspaces"),
    ("file-read-data", f"{WORK}/a.txt"),
    ("file-read-data", "/Users/me/.local/state/agent-gateway/workspaces/default/home/a"),
    ("file-read-data", f"{WORK}/a.kdbx"),
    ("file-write-data", "/Users/me/a.txt"),
    ("file-write-data", f"{WORK}/docs/a.txt"),
    ("file-write-data", "/dev/null"),
    ("file-read-data", "/dev/ttys004"),
    ("file-write-data", f"{WORK}/.e\u200cnv"),
    ("file-write-data", f"{WORK}/.env"),
    ("file-write-data", "/Users/me/.local/state/agent-gateway/workspaces/default/home/.env"),
    ("file-write-data", f"{WORK}/deploy/main.tf"),
    ("file-write-data", f"{WORK}/.claude/settings.json"),
    ("file-write-data", f"{WORK}/.git/hooks/pre-commit"),
    ("file-write-data", f"{WORK}/vault/x"),
    ("file-write-unlink", f"{WORK}/.git"),
    ("file-write-create", f"{WORK}/.claude"),
    ("process-exec", f"{WORK}/a.out"),
    ("process-exec", f"{WORK}/tools/run"),
    ("process-exec", f"{WORK}/vault/x"),
    ("process-exec", "/usr/bin/osascript"),
)


def test_every_rule_of_a_file_decides_something() -> None:
    profile = PROFILES["configured"]
    deciding = [profile.deciding(Request(operation, path.encode())) for operation, path in DECIDED]
    deciding += [profile.deciding(Request("file-write-data", b"/dev/ttys004", own_terminal=True))]
    deciding += [profile.deciding(Request("file-write-unlink", f"/private{WORK}/deep/x".encode(), True))]
    for path in (
        WORK,
        f"/private{WORK}",
        f"{WORK}/docs/build",
        "/Users/me/project",
        "/Users/me/project/docs/build",
    ):
        deciding.append(profile.deciding(Request("file-write-data", f"{path}/a.txt".encode())))
        deciding.append(profile.deciding(Request("file-write-data", f"{path}/.env".encode())))
    for path in (f"/private{WORK}/docs/build/a", "/Users/me/project/docs/a", f"/private{WORK}/docs/a"):
        deciding.append(profile.deciding(Request("file-write-data", path.encode())))
    home = "/Users/me/.local/state/agent-gateway/workspaces/default/home/a"
    deciding.append(profile.deciding(Request("file-write-data", home.encode())))
    about = ("file-read", "file-write", "process-exec")
    rules = [rule for rule in profile.rules if rule.operations[0].startswith(about)]
    assert len(rules) > 20
    assert not [rule for rule in rules if rule not in deciding]


# Each route by which a name or a protected file could be changed although nobody writes to its path.
MOVES = (
    ("a file onto a denied name", Operation.CREATE, f"{WORK}/.env", False),
    ("a link to a denied file", Operation.LINK, f"{WORK}/.env", False),
    ("a link to a secret of the host", Operation.LINK, "/Users/me/notes.txt", False),
    ("a clone to a denied name", Operation.CLONE, f"{WORK}/.env", False),
    ("a clone outside of the roots", Operation.CLONE, "/Users/me/Library/LaunchAgents/a.plist", False),
    ("a clone of a secret", Operation.CLONE, "/Users/me/.ssh/id_ed25519", False),
    ("a git directory away", Operation.UNLINK, f"{WORK}/.git", False),
    ("the directory above one away", Operation.UNLINK, f"{WORK}/vendor/lib", False),
    ("the one above that away", Operation.UNLINK, f"{WORK}/vendor", False),
    ("the worktree itself away", Operation.UNLINK, WORK, False),
    ("the link that leads to it", Operation.UNLINK, "/Users/me/project", False),
    ("what is above a protected checkout", Operation.UNLINK, f"{WORK}/checkouts", False),
    ("what is above a read-only directory", Operation.UNLINK, f"{WORK}/docs", False),
    ("hooks in another letter case", Operation.CREATE, f"{WORK}/.git/Hooks", False),
    ("a directory to where settings would be", Operation.CREATE, f"{WORK}/.claude", False),
    ("a directory to where settings would be, deeper", Operation.CREATE, f"{WORK}/a/.CLAUDE", False),
    ("an innocent file", Operation.UNLINK, f"{WORK}/src/a.py", True),
    ("an innocent directory", Operation.CREATE, f"{WORK}/src/new", True),
    ("what is beside a git directory", Operation.UNLINK, f"{WORK}/vendor/lib2", True),
    ("a repository that is new", Operation.CREATE, f"{WORK}/clone/.git/config", True),
    ("a lock beside a sealed file", Operation.CREATE, f"{WORK}/.git/config.lock", True),
)


@pytest.mark.parametrize(("what", "operation", "path", "allowed"), MOVES, ids=[move[0] for move in MOVES])
@pytest.mark.parametrize("prefix", ["", "/private"])
def test_nothing_is_moved_around_the_rules(
    what: str, operation: Operation, path: str, allowed: bool, prefix: str
) -> None:
    path = prefix + path if path.startswith(WORK) else path
    assert PROFILES["chat"].allows(ask(operation, path, is_folder=True)) is allowed
    assert (CHAT.refusal(operation, path, is_folder=True) == "") is allowed


OTHERS = (
    (Request("network-outbound", remote="tcp localhost:49152"), True),
    (Request("network-outbound", remote="tcp localhost:49154"), True),
    (Request("network-outbound", remote="tcp localhost:22"), False),
    (Request("network-outbound", remote="tcp *:443"), False),
    (Request("network-outbound", b"/private/var/run/mDNSResponder", remote="unix"), False),
    (Request("network-outbound", b"/var/run/docker.sock", remote="unix"), False),
    (Request("network-bind"), False),
    (Request("network-inbound"), False),
    (Request("mach-lookup", service=b"com.apple.dnssd.service"), False),
    (Request("mach-lookup", service=b"com.apple.SecurityServer"), False),
    (Request("mach-lookup", service=b"com.apple.trustd.agent"), True),
    (Request("signal"), False),
    (Request("signal", target="same-sandbox"), True),
    (Request("process-info-pidinfo"), False),
    (Request("process-info-pidinfo", target="self"), True),
    (Request("appleevent-send"), False),
    (Request("lsopen"), False),
    (Request("job-creation"), False),
    (Request("file-ioctl", b"/dev/ttys001", number=2147578994), False),  # TIOCSTI
    (Request("file-ioctl", b"/dev/ttys001", number=1074295912), True),  # TIOCGWINSZ
    (Request("process-fork"), True),
    (Request("file-read-data", b"/dev/ttys004", own_terminal=True), True),
    (Request("file-write-data", b"/dev/ttys004", own_terminal=True), True),
    (Request("file-mount", b"/Users/me/project/src"), False),
    (Request("hid-control"), False),
    (Request("sysctl-read", service=b"kern.procargs2"), False),
    (Request("sysctl-read", service=b""), False),  # asked for by a number without a name
    (Request("sysctl-read", service=b"kern.proc.all"), False),
    (Request("sysctl-read", service=b"hw.ncpu"), True),
    (Request("sysctl-read", service=b"kern.osversion"), True),
)


@pytest.mark.parametrize(("request_", "allowed"), OTHERS)
def test_what_is_not_a_file(request_: Request, allowed: bool) -> None:
    assert PROFILES["chat"].allows(request_) is allowed


@pytest.mark.parametrize(
    ("request_", "allowed"),
    [
        (Request("network-outbound", remote="tcp *:443"), True),
        (Request("network-bind"), True),
        (Request("mach-lookup", service=b"com.apple.dnssd.service"), True),
        (Request("network-outbound", b"/private/var/run/mDNSResponder", remote="unix"), True),
        (Request("network-outbound", b"/var/run/docker.sock", remote="unix"), False),
        (Request("lsopen"), False),
    ],
)
def test_the_network_of_a_terminal_is_open(request_: Request, allowed: bool) -> None:
    assert PROFILES["terminal"].allows(request_) is allowed


@every_policy
def test_every_denial_is_tagged(name: str) -> None:
    for rule in PROFILES[name].rules:
        assert rule.message == (b"" if rule.allows else TAG.encode()), rule


@every_policy
def test_parts_come_in_their_order(name: str) -> None:
    """Later rules win: reads, then the write reset, roots, names, what is protected, guards, programs, the rest."""
    text = text_of(POLICIES[name])
    marks: tuple[str, ...] = (
        "(allow default)",
        "; Secrets",
        "(deny file-write* file-link file-clone (with",
        "; Names",
        "; What is protected",
    )
    marks += ("(deny file-write-unlink", "; Programs", "; Network", "; Other processes")
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)
    assert text.startswith("(version 1)\n(allow default)\n")


def strings(form: Form) -> list[bytes]:
    match form:
        case Text(value):
            return [value]
        case list(parts):
            return [found for part in parts for found in strings(part)]
    return []


AWKWARD = (
    "\u202eevil",
    "\udcff",
    'a") (allow default) ("',
    "\\",
    "a\\",
    "[",
    "]",
    "^",
    "-",
    " ",
    "'",
    "$(x)",
)


def test_any_path_is_quoted() -> None:
    """In a string and in an expression: the path itself and its neighbours get the right verdict."""
    for name in (*(f"x{chr(code)}y" for code in range(1, 0x180) if chr(code) != "/"), *AWKWARD):
        path = f"{WORK}/{name}"
        assert parse(quote(path)) == [Text(path.encode("utf-8", "surrogateescape"))]
        assert quote(path).isprintable()
        profile = Profile(text_of(FilePolicy(roots=CHAT.roots, sealed=(path,))))
        for below in ("", "/below"):
            assert not profile.allows(ask(Operation.WRITE, f"{path}{below}")), name
        assert profile.allows(ask(Operation.WRITE, f"{WORK}/x"))
        assert profile.allows(ask(Operation.WRITE, f"{path}2")) is not is_disguised(name), name


def test_long_strings_are_put_together() -> None:
    for path in (f"/{'x' * 1000}", f"/{'\u00e9' * 400}", "/" + "\n" * 300, "/" + '"' * 250):
        assert quote(path).startswith("(string-append ")
        assert parse(quote(path)) == [Text(path.encode())]


def test_many_paths_are_divided_among_rules() -> None:
    sealed = tuple(f"{WORK}/{number}" for number in range(FILTERS_A_RULE))
    profile = Profile(text_of(replace(CHAT, sealed=sealed)))
    assert all(len(rule.filters) <= FILTERS_A_RULE for rule in profile.rules)
    assert not profile.allows(ask(Operation.WRITE, sealed[0]))
    assert not profile.allows(ask(Operation.WRITE, sealed[-1]))


def test_one_more_repository_is_a_few_lines_more() -> None:
    """Rules are shared: a guard for each directory above, once."""

    def lines(repositories: int) -> int:
        sealed = (
            f"{WORK}/a/b/c/{one}/.git/{name}" for one in range(repositories) for name in ("hooks", "config")
        )
        return text_of(replace(CONFIGURED, sealed=tuple(sealed))).count("\n")

    assert lines(2) - lines(1) <= 10
    assert lines(101) - lines(1) <= 1_000


@pytest.mark.parametrize(
    "text",
    [
        "(allow default)",
        "(version 1)(allow default",
        "(version 1)(allow default))",
        "(version 1)(deny file-wirte*)",
        '(version 1)(deny file-write* (subpaht "/a"))',
        '(version 1)(deny file-write* (subpath "/a/"))',
        '(version 1)(deny file-write* (subpath "\\q"))',
        '(version 1)(deny file-write* (require-all (subpath "/a") (nonsense)))',
        '(version 1)(deny network-outbound (remote tcp "127.0.0.1:1"))',
        '(version 1)(deny file-write* (with massage "x"))',
        f'(version 1)(deny file-write* (literal "/{"x" * 300}"))',
        '(version 1)(deny file-write* (literal (string-apend "/a" "/b")))',
    ],
)
def test_a_mistake_in_a_profile_is_noticed(text: str) -> None:
    with pytest.raises(ProfileError):
        Profile(text)


@pytest.mark.parametrize(
    "pattern", [b"/a", b"^/a", b"^/a\\.b$", b"^/a{2}$", b"^/[\\w]$", b"^/(?:a)$", b"^/a+$", b"^/[]a]$"]
)
def test_a_pattern_that_engines_read_differently_is_noticed(pattern: bytes) -> None:
    with pytest.raises(ProfileError):
        compile_pattern(pattern)


def test_a_tag_is_a_plain_word() -> None:
    assert set(TAG) <= {*string.ascii_letters, *string.digits, "-"}
