"""Places that are never bound: named directly, by a parent, by something below, or through symlinks."""

import os
import pwd
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import GatewayError
from sandbox.places import (
    KERNEL_PLACES,
    MANAGED_PLACES,
    RUNTIME_PLACES,
    SECRET_PLACES,
    SYSTEM_ROOTS,
    SYSTEM_SECRETS,
    Guard,
    account_home,
    guard,
    resolve_bind,
    within,
)

# A host on paper: only `resolve_bind` and `guard` touch the file system.
STATE = "/home/dev/.local/state/agent-gateway"
PRIVATE_HOME = "/home/dev/.local/state/agent-gateway/workspaces/default/home"
RUNTIME = "/srv/runtime/agent-gateway"
PAPER = Guard(
    homes=("/home/dev", "/srv/people/eve"),
    secrets=tuple(f"/home/dev/{place}" for place in SECRET_PLACES),
    own=(RUNTIME, STATE),
)


# --- Containment ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "root", "expected"),
    [
        ("/srv/repo", "/srv/repo", True),
        ("/srv/repo/below", "/srv/repo", True),
        ("/srv/repo/.git/x", "/srv/repo", True),
        ("/srv/repository", "/srv/repo", False),
        ("/srv/repo.git", "/srv/repo", False),
        ("/srv/rep", "/srv/repo", False),
        ("/srv", "/srv/repo", False),
        ("/", "/srv/repo", False),
        ("/srv/repo", "/", True),
        ("/", "/", True),
        ("/Srv/repo", "/srv", False),
    ],
)
def test_within(path: str, root: str, expected: bool) -> None:
    assert within(path, root) is expected


PARTS = st.lists(st.sampled_from(["a", "b", "ab", "a.b", ".a", "a b", "-"]), max_size=5)
PATHS = PARTS.map(lambda parts: "/" + "/".join(parts))


@given(PATHS, PATHS)
def test_within_is_what_pathlib_says(path: str, root: str) -> None:
    assert within(path, root) is PurePosixPath(path).is_relative_to(root)


@given(PATHS, PATHS, PATHS)
def test_within_is_an_order(one: str, two: str, three: str) -> None:
    assert within(one, one)
    assert one == two or not (within(one, two) and within(two, one))
    assert within(one, three) or not (within(one, two) and within(two, three))


# --- The verdict ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("/", "whole file system"),
        # the kernel's
        ("/proc", "belongs to the wrap"),
        ("/proc/1/root", "belongs to the wrap"),
        ("/sys/fs/cgroup", "belongs to the wrap"),
        ("/dev", "belongs to the wrap"),
        ("/dev/shm/x", "belongs to the wrap"),
        # sockets
        ("/run", "sockets"),
        ("/run/user/1000", "sockets"),
        ("/run/docker.sock", "sockets"),
        ("/var/run/docker.sock", "sockets"),
        ("/run/media", "sockets"),
        # homes: themselves, and what holds them
        ("/home/dev", "the home directory"),
        ("/home", "the home directory"),
        ("/srv/people/eve", "holds the home directory /srv/people/eve"),
        ("/srv/people", "holds the home directory /srv/people/eve"),
        # secrets: themselves, what lies in them, what holds them
        ("/home/dev/.ssh", "holds secrets (/home/dev/.ssh)"),
        ("/home/dev/.ssh/id_ed25519", "holds secrets"),
        ("/home/dev/.ssh/below/deep", "holds secrets"),
        ("/home/dev/.aws/credentials", "holds secrets"),
        ("/home/dev/.config", "holds secrets"),
        ("/home/dev/.config/gh/hosts.yml", "holds secrets"),
        ("/home/dev/.cargo", "holds secrets"),
        ("/home/dev/.netrc", "holds secrets"),
        ("/home/dev/.local/share", "holds secrets"),
        ("/home/dev/.m2", "holds secrets"),
        ("/etc", "holds secrets"),
        ("/etc/shadow", "holds secrets"),
        ("/etc/ssl", "holds secrets"),
        ("/etc/ssl/private/server.key", "holds secrets"),
        ("/etc/ssh", "holds secrets"),
        ("/var", "holds secrets"),
        ("/var/lib", "holds secrets"),
        ("/var/lib/docker/volumes", "holds secrets"),
        # the product's own
        (STATE, "own state"),
        (f"{STATE}/audit", "own state"),
        (PRIVATE_HOME, "own state"),
        ("/home/dev/.local/state", "own state"),
        ("/home/dev/.local", "own state"),
        (RUNTIME, "own state"),
        ("/srv/runtime", "own state"),
        (f"{RUNTIME}/operator.sock", "own state"),
    ],
)
@pytest.mark.parametrize("read_only", [True, False])
def test_refused(path: str, word: str, read_only: bool) -> None:
    assert word in PAPER.refusal(path, read_only)


@pytest.mark.parametrize(
    "path",
    [
        "/srv/repo", "/home/dev/work", "/home/dev/x/.ssh", "/home/other/work", "/tmp/x", "/opt/tool",
        "/home/dev/.sshx", "/home/dev/.config/fish", "/home/dev/.cargo/bin", "/home/dev/.cache/pip",
        "/home/dev/.local/bin", "/home/dev/.claude", "/home/dev/.local/state/other", "/home/developer",
        "/home/dev/.netrc.d", "/process", "/running/x", "/device", "/run/media/dev/stick", "/var/www", "/var/tmp/x",
        "/etc/ssl/certs", "/etc/sshd", "/usr/local/src", "/srv/runtime/other", "/mnt/data",
    ],
)  # fmt: skip
@pytest.mark.parametrize("read_only", [True, False])
def test_not_refused(path: str, read_only: bool) -> None:
    assert PAPER.refusal(path, read_only) == ""


@pytest.mark.parametrize(
    "path", ["/usr", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/bin", "/lib", "/boot"]
)
def test_system_directories_are_read_only(path: str) -> None:
    assert PAPER.refusal(path, read_only=False) == "system directories are read-only"
    assert PAPER.refusal(path, read_only=True) == ""


@pytest.mark.parametrize(
    ("path", "managed"),
    [
        (PRIVATE_HOME, True),
        (f"{STATE}/spaces/one/repos", True),
        (STATE, False),
        (f"{STATE}/audit", False),
        (f"{STATE}/workspaces-old", False),
        (f"{STATE}/run", False),
        ("/home/dev/.local/state", False),
        (f"{RUNTIME}/spaces.sock", False),
    ],
)
def test_what_the_product_keeps_for_wraps(path: str, managed: bool) -> None:
    assert (PAPER.refusal(path, read_only=False, managed=True) == "") is managed


def test_managed_opens_nothing_else() -> None:
    for path in ("/", "/home/dev", "/home/dev/.ssh", "/run", "/proc"):
        assert PAPER.refusal(path, read_only=True, managed=True)


NAMES = st.sampled_from(
    ["home", "dev", ".ssh", ".config", "gh", ".local", "state", "agent-gateway", "run", "etc", "x"]
)


@given(st.lists(NAMES, max_size=6).map(lambda parts: "/" + "/".join(parts)), st.booleans())
def test_nothing_that_may_be_bound_holds_or_lies_in_a_secret(path: str, read_only: bool) -> None:
    if PAPER.refusal(path, read_only):
        return
    bound = PurePosixPath(path)
    for place in (*PAPER.secrets, *PAPER.own, *SYSTEM_SECRETS, *KERNEL_PLACES, *RUNTIME_PLACES):
        assert not bound.is_relative_to(place)
        assert not PurePosixPath(place).is_relative_to(bound)
    for home in PAPER.homes:
        assert not PurePosixPath(home).is_relative_to(bound)


@given(st.lists(NAMES, max_size=6).map(lambda parts: "/" + "/".join(parts)))
def test_read_only_is_never_refused_where_writing_is_allowed(path: str) -> None:
    assert PAPER.refusal(path, read_only=False) or not PAPER.refusal(path, read_only=True)


# --- The lists ------------------------------------------------------------------------------------


def test_lists_are_normalised_and_without_repetition() -> None:
    for places in (
        SECRET_PLACES,
        KERNEL_PLACES,
        RUNTIME_PLACES,
        MANAGED_PLACES,
        SYSTEM_SECRETS,
        SYSTEM_ROOTS,
    ):
        assert len(set(places)) == len(places)
        assert all(place == os.path.normpath(place) for place in places)
    assert not [place for place in SECRET_PLACES if place.startswith(("/", ".."))]


@pytest.mark.parametrize(
    "place",
    [
        ".ssh", ".aws", ".gnupg", ".config/gh", ".kube", ".docker", ".netrc", ".git-credentials", ".pypirc", ".npmrc",
        ".cargo/credentials", ".cargo/credentials.toml", ".config/gcloud", ".azure", "Library/Keychains", ".mozilla",
        ".config/google-chrome", ".config/chromium",
    ],
)  # fmt: skip
def test_list_of_the_house_is_complete(place: str) -> None:
    assert place in SECRET_PLACES


# --- The guard of a real home ---------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home/dev"
    folder.mkdir(parents=True)
    return folder


def test_guard_knows_the_home_given_and_the_accounts(home: Path) -> None:
    places = guard(str(home), ("", "/srv/state"))
    assert str(home) in places.homes
    assert account_home() == pwd.getpwuid(os.getuid()).pw_dir
    assert account_home() in {*places.homes, "/"}
    assert f"{home}/.ssh" in places.secrets
    assert places.own == ("/srv/state",)


@pytest.mark.parametrize("given_home", ["", "/"])
def test_guard_without_a_home(given_home: str) -> None:
    places = guard(given_home, ())
    assert "/" not in places.homes
    assert "" not in places.homes
    assert places.refusal("/", read_only=True)


def test_guard_resolves_a_home_behind_a_link(tmp_path: Path, home: Path) -> None:
    (tmp_path / "link").symlink_to(home.parent)
    places = guard(f"{tmp_path}/link/dev", ())
    assert {str(home), f"{tmp_path}/link/dev"} <= set(places.homes)
    assert places.refusal(f"{home}/.ssh", read_only=True)


def test_guard_resolves_secrets_that_are_links(tmp_path: Path, home: Path) -> None:
    """`~/.ssh` kept on another volume is as secret there."""
    volume = tmp_path / "volume"
    (volume / "ssh").mkdir(parents=True)
    (home / ".ssh").symlink_to(volume / "ssh")
    places = guard(str(home), ())
    for path in (f"{volume}/ssh", f"{volume}/ssh/id_ed25519", str(volume), f"{home}/.ssh"):
        assert "holds secrets" in places.refusal(path, read_only=True)


def test_guard_resolves_secrets_below_a_link(tmp_path: Path, home: Path) -> None:
    """`~/.config` kept with other dotfiles: what is secret below it is secret there."""
    dotfiles = tmp_path / "dotfiles"
    (dotfiles / "gh").mkdir(parents=True)
    (home / ".config").symlink_to(dotfiles)
    places = guard(str(home), ())
    for path in (f"{dotfiles}/gh", f"{dotfiles}/gh/hosts.yml", str(dotfiles)):
        assert "holds secrets" in places.refusal(path, read_only=True)
    assert places.refusal(f"{dotfiles}/fish", read_only=True) == ""


def test_guard_with_links_that_lead_nowhere(home: Path) -> None:
    (home / ".ssh").symlink_to("missing")
    (home / ".aws").symlink_to(".aws")
    places = guard(str(home), ())
    for name in (".ssh", "missing", ".aws"):
        assert places.refusal(f"{home}/{name}", read_only=True)


def test_guard_resolves_own_directories(tmp_path: Path, home: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    places = guard(str(home), (f"{tmp_path}/link",))
    assert "own state" in places.refusal(f"{tmp_path}/real/audit", read_only=True)


# --- Resolving ------------------------------------------------------------------------------------


def refused(path: Path | str, home: Path, read_only: bool = True) -> str:
    with pytest.raises(GatewayError) as caught:
        resolve_bind(str(path), "bind_mounts[0]", read_only, guard(str(home), ()))
    return str(caught.value)


def test_resolves_what_may_be_bound(tmp_path: Path, home: Path) -> None:
    (home / "work").mkdir()
    (tmp_path / "link").symlink_to("home/dev/work")
    places = guard(str(home), ())
    for path in (home / "work", tmp_path / "link", tmp_path / "home/dev/../dev/work", f"{home}//work/"):
        assert resolve_bind(str(path), "bind_mounts[0]", False, places) == str(home / "work")


@pytest.mark.parametrize("target", [".ssh", ".ssh/id_ed25519", ".", "..", "work/up", ".config/gh"])
@pytest.mark.parametrize("read_only", [True, False])
def test_link_to_what_is_never_bound(tmp_path: Path, home: Path, target: str, read_only: bool) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh/id_ed25519").touch()
    (home / ".config/gh").mkdir(parents=True)
    (home / "work").mkdir()
    (home / "work/up").symlink_to("../.ssh")
    (tmp_path / "innocent").symlink_to(home / target)
    assert "cannot be seen from inside the wrap" in refused(tmp_path / "innocent", home, read_only)
    assert refused(home / target, home, read_only)


@pytest.mark.parametrize("path", ["/", "/proc/self/root", "/proc/self/cwd/../..", "/dev/fd", "//", "/../"])
def test_ways_around(home: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/usr/bin")
    assert refused(path, home)


def test_system_directory_by_its_other_name(home: Path) -> None:
    """On most systems /bin is a link to /usr/bin."""
    for path in ("/bin", "/lib", "/usr", "/usr/bin"):
        assert "system directories are read-only" in refused(path, home, read_only=False)


def test_what_is_not_there(tmp_path: Path, home: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("missing")
    (tmp_path / "file").touch()
    message = refused(tmp_path / "missing", home)
    assert message == f"bind_mounts[0]: {tmp_path}/missing: No such file or directory"
    assert "No such file" in refused(tmp_path / "dangling", home)
    assert "symbolic links" in refused(tmp_path / "loop", home)
    assert "Not a directory" in refused(tmp_path / "file/below", home)
    assert "too long" in refused(tmp_path / ("x" * 300), home)


@pytest.mark.parametrize("path", ["", ".", "relative", "~", "~/work"])
def test_relative_paths(home: Path, path: str) -> None:
    assert refused(path, home) == f"bind_mounts[0]: {path!r} is not an absolute path"


def test_managed_home_that_somebody_made_a_link_out(tmp_path: Path, home: Path) -> None:
    state = tmp_path / "state"
    (state / "workspaces/default").mkdir(parents=True)
    (home / ".ssh").mkdir()
    (state / "audit").mkdir()
    places = guard(str(home), (str(state),))
    link = state / "workspaces/default/home"
    for target in (home / ".ssh", home, state / "audit", state, Path("/"), Path("/usr")):
        link.symlink_to(target)
        with pytest.raises(GatewayError):
            resolve_bind(str(link), "home", False, places, managed=True)
        link.unlink()
    link.mkdir()
    assert resolve_bind(str(link), "home", False, places, managed=True) == str(link)
