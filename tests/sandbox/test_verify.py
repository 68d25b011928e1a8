"""The check of the mounts that were really made against the plan: on paper, and with bubblewrap."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import GatewayError
from gateway.session import FileRules
from sandbox.masks import Mask, MaskKind
from sandbox.mounts import Bind, WrapPlan, plan_wrap
from sandbox.probing.trial import find_bubblewrap
from sandbox.spec import SandboxBindMount, SandboxSpec
from sandbox.verify import Mounted, compare, parse_mountinfo, source_of, verify_mounts

# --- The kernel's list ----------------------------------------------------------------------------

LIST = rb"""
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 0:20 / /proc rw,nosuid,nodev,noexec - proc proc rw
30 21 8:2 /volumes/one /srv/data ro,relatime shared:5 master:2 - ext4 /dev/sdb1 rw
31 21 0:44 / /tmp rw,nosuid - tmpfs tmpfs rw
32 31 0:45 / /tmp rw - tmpfs tmpfs ro
33 21 8:1 /home/dev/with\040space /srv/with\040space rw - ext4 /dev/sda1 rw
34 21 8:1 /a\134b /srv/tab\011new\012line\134 ro - ext4 /dev/sda1 rw
"""


def test_parse() -> None:
    found = parse_mountinfo(LIST.strip())
    assert found["/"] == Mounted("8:1", "/", False)
    assert found["/srv/data"] == Mounted("8:2", "/volumes/one", True)
    assert found["/tmp"] == Mounted("0:45", "/", False)  # the one on top; the options are the mount's own
    assert found["/srv/with space"] == Mounted("8:1", "/home/dev/with space", False)
    assert found["/srv/tab\tnew\nline\\"] == Mounted("8:1", "/a\\b", True)
    assert len(found) == 6
    assert parse_mountinfo(b"") == {}


def test_parse_this_processs_own() -> None:
    found = parse_mountinfo(Path("/proc/self/mountinfo").read_bytes())
    assert {"/", "/proc"} <= set(found)


@pytest.mark.parametrize("name", ["a\u2028b", "a\rb", "a\x0bb", "a\x85b", "a\x1cb", "a\r", "\udcffa", "ж"])
def test_parse_what_ends_a_line_elsewhere(name: str) -> None:
    """The kernel escapes nothing but blank, tab, newline and backslash."""
    line = b"21 1 8:1 /%b /srv/%b rw - ext4 /dev/sda1 rw\n" % (os.fsencode(name), os.fsencode(name))
    assert parse_mountinfo(line + line) == {f"/srv/{name}": Mounted("8:1", f"/{name}", False)}


@pytest.mark.parametrize("data", [b"\n", b"21 1 8:1 / /", b"x\n21 1 8:1 / / rw\n", b"\0"])
def test_list_of_an_unknown_form(data: bytes) -> None:
    with pytest.raises(GatewayError, match="cannot be checked"):
        parse_mountinfo(data)


def test_source_without_a_root() -> None:
    assert source_of("/srv/x", {"/srv/other": Mounted("8:1", "/", False)}) == ("", "")


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("/", ("8:1", "/")),
        ("/home/dev/work", ("8:1", "/home/dev/work")),
        ("/srv/data", ("8:2", "/volumes/one")),
        ("/srv/data/below/deep", ("8:2", "/volumes/one/below/deep")),
        ("/srv/database", ("8:1", "/srv/database")),
        ("/srv", ("8:1", "/srv")),
        ("/tmp/x", ("0:45", "/x")),
        ("/srv/with space/x", ("8:1", "/home/dev/with space/x")),
    ],
)
def test_source(path: str, source: tuple[str, str]) -> None:
    assert source_of(path, parse_mountinfo(LIST.strip())) == source


NAMES = st.sampled_from(["a", "b", "ab", "c d"])


@given(st.lists(NAMES, max_size=4), st.lists(NAMES, max_size=4))
def test_source_of_what_lies_in_a_bind(above: list[str], below: list[str]) -> None:
    """A bind of the root's directory at another place: sources are the root's own paths."""
    mounts = {"/": Mounted("8:1", "/", False), "/mnt/x": Mounted("8:1", "/" + "/".join(above), False)}
    path = "/".join(("/mnt/x", *below))
    assert source_of(path, mounts) == ("8:1", "/" + "/".join((*above, *below)))


# --- The comparison, on paper ---------------------------------------------------------------------

WORK, DATA, PIN, SEALED, EMPTY, HIDDEN = (
    "/srv/work", "/srv/data", "/srv/work/.git", "/srv/work/.git/config", "/srv/work/plans", "/srv/work/private",
)  # fmt: skip
PLAN = WrapPlan(
    arguments=(
        "--bind", WORK, WORK, "--ro-bind", DATA, DATA, "--tmpfs", "/tmp", "--ro-bind", "/usr", "/usr",
        "--bind", PIN, PIN, "--ro-bind", SEALED, SEALED, "--ro-bind", "/dev/null", EMPTY, "--tmpfs", HIDDEN,
    ),
    files=(),
    binds=(Bind(WORK, False), Bind(DATA, True)),
    masks=(
        Mask(PIN, MaskKind.PIN), Mask(SEALED, MaskKind.READ_ONLY), Mask(EMPTY, MaskKind.EMPTY_FILE),
        Mask(HIDDEN, MaskKind.EMPTY_FOLDER),
    ),
    python="/usr/bin/python3", home="/tmp/home", path="/usr/bin", visible=(), variables=(), git_config="",
)  # fmt: skip
OUTSIDE = {
    "/": Mounted("8:1", "/", False),
    "/srv/data": Mounted("8:2", "/one", False),
    "/srv/work/volume": Mounted("8:3", "/", False),
    "/usr": Mounted("8:4", "/", False),
}
INSIDE = {
    "/": Mounted("0:50", "/newroot", True),
    "/tmp": Mounted("0:51", "/", False),
    "/usr": Mounted("8:4", "/", True),
    WORK: Mounted("8:1", WORK, False),
    "/srv/work/volume": Mounted("8:3", "/", False),
    DATA: Mounted("8:2", "/one", True),
    PIN: Mounted("8:1", PIN, False),
    SEALED: Mounted("8:1", SEALED, True),
    EMPTY: Mounted("0:52", "/null", True),
    HIDDEN: Mounted("0:53", "/", True),
    "/dev": Mounted("0:54", "/", False),
    "/dev/pts": Mounted("0:55", "/", False),
    "/proc": Mounted("0:56", "/", False),
    "/proc/sys": Mounted("0:56", "/sys", True),
}


def test_as_planned() -> None:
    assert compare(PLAN, OUTSIDE, INSIDE) == ""


@pytest.mark.parametrize(
    ("path", "mounted", "difference"),
    [
        # a bind that shows something else: another directory, another file system, nothing
        (WORK, Mounted("8:1", "/home/dev/.ssh", False), f"{WORK} is not what it was a moment ago"),
        (WORK, Mounted("8:9", WORK, False), f"{WORK} is not what it was a moment ago"),
        (WORK, Mounted("8:1", "/srv", False), f"{WORK} is not what it was a moment ago"),
        (WORK, None, f"{WORK} is not what it was a moment ago"),
        (DATA, Mounted("8:2", "/two", True), f"{DATA} is not what it was a moment ago"),
        # read-only by plan and not in fact
        (DATA, Mounted("8:2", "/one", False), f"{DATA} is not read-only"),
        (SEALED, Mounted("8:1", SEALED, False), f"{SEALED} is not read-only"),
        # stricter than planned is no danger
        (WORK, Mounted("8:1", WORK, True), ""),
        # masks that went elsewhere
        (PIN, None, f"{PIN} is not what it was a moment ago"),
        (PIN, Mounted("8:1", "/srv/work/other", False), f"{PIN} is not what it was a moment ago"),
        (SEALED, None, f"{SEALED} is not what it was a moment ago"),
        (EMPTY, None, f"{EMPTY} is not hidden"),
        (HIDDEN, None, f"{HIDDEN} is not hidden"),
        # what nobody planned
        ("/srv/work/src", Mounted("8:1", "/home/dev/.ssh", False), "something is mounted on /srv/work/src"),
        ("/home/dev", Mounted("8:1", "/home/dev", True), "something is mounted on /home/dev"),
        ("/srv", Mounted("8:1", "/srv", False), "something is mounted on /srv"),
        ("/device", Mounted("8:1", "/device", False), "something is mounted on /device"),
        ("/process", Mounted("8:1", "/process", False), "something is mounted on /process"),
        # a file system that came along with a bind, and one that only has its place
        ("/srv/work/volume", Mounted("8:3", "/", True), ""),
        ("/srv/work/volume", Mounted("8:3", "/below", False), "something is mounted on /srv/work/volume"),
        ("/srv/work/volume", Mounted("8:1", "/", False), "something is mounted on /srv/work/volume"),
        ("/srv/work/volume", None, ""),
        # bubblewrap's own
        ("/dev/shm", Mounted("0:60", "/", False), ""),
        ("/proc/sysrq-trigger", Mounted("0:60", "/null", True), ""),
    ],
)
def test_difference(path: str, mounted: Mounted | None, difference: str) -> None:
    inside = {point: value for point, value in INSIDE.items() if point != path}
    if mounted is not None:
        inside[path] = mounted
    assert compare(PLAN, OUTSIDE, inside) == difference


@given(st.sampled_from([bind.path for bind in PLAN.binds] + [mask.path for mask in PLAN.masks]))
def test_nothing_planned_may_be_missing(path: str) -> None:
    assert compare(PLAN, OUTSIDE, {point: value for point, value in INSIDE.items() if point != path})


# --- The real thing -------------------------------------------------------------------------------


@pytest.fixture
def made(tmp_path: Path) -> WrapPlan:
    """The plan of a worktree with one of each mask, and a private home."""
    for name in (".env", "plans", "private/x", "sub/sealed/x", "src/x"):
        path = tmp_path / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "home").mkdir()
    work = str(tmp_path / "work")
    return plan_wrap(
        SandboxSpec(
            "session", "default", "",
            (SandboxBindMount(work, work),),
            user_home=str(tmp_path / "home"),
            home=str(tmp_path / "private"),
            protected_paths=(f"{work}/sub/sealed",),
            deny_read=("plans", "*/private"),
            file_rules=FileRules.EXISTING_ONLY,
        )
    )  # fmt: skip


@contextmanager
def waiting(arguments: tuple[str, ...]) -> Iterator[int]:
    """A process that waits in the wrap; gives its number outside."""
    told, tells = os.pipe()
    command = (
        find_bubblewrap(),
        *arguments,
        "--info-fd",
        str(tells),
        "--remount-ro",
        "/",
        "--",
        "/bin/sh",
        "-c",
    )
    script = "echo ready; exec cat"  # the info comes before the mounts
    process = subprocess.Popen(
        (*command, script), stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(tells,), env={}
    )
    os.close(tells)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        with os.fdopen(told) as info:
            yield json.load(info)["child-pid"]
    finally:
        process.communicate()


def refused(pid: int, plan: WrapPlan) -> str:
    with pytest.raises(GatewayError) as caught:
        verify_mounts(pid, plan)
    return caught.value.message


def test_real_wrap_is_the_planned_one(made: WrapPlan) -> None:
    assert {mask.kind for mask in made.masks} == set(MaskKind)
    with waiting(made.arguments) as pid:
        verify_mounts(pid, made)


@pytest.mark.parametrize("name", ["a\u2028b", "a\rb", "a\nb", "a b\\"])
def test_real_wrap_of_an_unusual_name(tmp_path: Path, name: str) -> None:
    for folder in (f"tree/{name}/.vscode", "home"):
        (tmp_path / folder).mkdir(parents=True)
    work = f"{tmp_path}/tree/{name}"
    made = plan_wrap(
        SandboxSpec("session", "default", "", (SandboxBindMount(work, work),), user_home=f"{tmp_path}/home")
    )
    with waiting(made.arguments) as pid:
        verify_mounts(pid, made)


def test_real_wrap_that_is_another(made: WrapPlan, tmp_path: Path) -> None:
    """The plan asks for more than was mounted, or for something else."""
    work = f"{tmp_path}/work"
    with waiting(made.arguments) as pid:
        for change, word in (
            (replace(made, binds=(*made.binds, Bind(f"{work}/src", True))), "is not what it was"),
            (replace(made, binds=(Bind(work, True),)), f"{work} is not read-only"),
            (replace(made, masks=(*made.masks, Mask(f"{work}/src/x", MaskKind.EMPTY_FILE))), "is not hidden"),
            (replace(made, arguments=()), "something is mounted on"),
        ):
            message = refused(pid, change)
            assert message.startswith("the wrap is not the planned one: ")
            assert word in message


def test_real_wrap_after_somebody_put_a_link_in_the_way(made: WrapPlan, tmp_path: Path) -> None:
    """Between the plan and the mounts: a directory is now another one, a file a link to another."""
    work = tmp_path / "work"
    (work / ".env").unlink()
    (work / ".env").symlink_to("src/x")
    with waiting(made.arguments) as pid:
        assert "is not what it was" in refused(pid, made)
    (work / ".env").unlink()
    (work / ".env").touch()
    (work / "plans").rename(work / "moved")
    (work / "plans").symlink_to("src/x")
    with waiting(made.arguments) as pid:
        assert refused(pid, made) == f"the wrap is not the planned one: {work}/plans is not hidden"


def test_bind_that_became_a_link(made: WrapPlan, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    for name in (".env", "plans", "private", "sub/sealed", "src"):
        (tmp_path / "other" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "work" / name).rename(tmp_path / "other" / name)
    (tmp_path / "work/sub").rmdir()
    (tmp_path / "work").rmdir()
    (tmp_path / "work").symlink_to("other")
    with waiting(made.arguments) as pid:
        assert "is not what it was" in refused(pid, made)


def test_process_that_is_gone(made: WrapPlan) -> None:
    beyond = (1 << 22) + 1  # the kernel gives no number above PID_MAX_LIMIT
    assert refused(beyond, made) == "the wrap's mounts cannot be checked: No such file or directory"
