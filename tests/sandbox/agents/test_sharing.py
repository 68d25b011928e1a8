"""Spaces: what two agents of one see, and what neither sees of the other."""

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from gateway.session import Mode
from sandbox.agents.sharing import SpaceFolders, harness, make_space_folders, overlay, space_folders
from sandbox.mounts import plan_wrap
from sandbox.spec import SandboxBindMount, SandboxSpec
from tests.sandbox.wrapping import NOBODY, Place

STATE = "/var/people/dev/agent-gateway"
FOLDERS = space_folders(STATE, "space", "one")


def test_folders() -> None:
    expected = SpaceFolders(
        root=f"{STATE}/spaces/space",
        repos=f"{STATE}/spaces/space/repos",
        attachments=f"{STATE}/spaces/space/attachments",
        agent=f"{STATE}/spaces/space/agents/one",
        work=f"{STATE}/spaces/space/agents/one/work",
        config=f"{STATE}/spaces/space/agents/one/config",
    )
    assert expected == FOLDERS


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "/a", ".a", "-a", "a\n", "a\0", "ä", "a" * 65, "a b"]
)
def test_names_that_lead_elsewhere(name: str) -> None:
    with pytest.raises(GatewayError, match=r"^space_id: "):
        space_folders(STATE, name, "one")
    with pytest.raises(GatewayError, match=r"^agent_id: "):
        space_folders(STATE, "space", name)


@pytest.mark.parametrize("name", ["a", "A-1", "a.b", "a..b", "0", "a" * 64])
def test_names(name: str) -> None:
    assert space_folders(STATE, name, name).work == f"{STATE}/spaces/{name}/agents/{name}/work"


def described(mounts: tuple[SandboxBindMount, ...]) -> list[tuple[str, bool]]:
    assert all(mount.guest_path == mount.host_path for mount in mounts)
    return [(os.path.relpath(mount.host_path, FOLDERS.root), mount.read_only) for mount in mounts]


OWN = [("agents/one/work", False), ("agents/one/config", True)]


@pytest.mark.parametrize(
    ("there", "more"),
    [
        ((), []),
        (("repos",), [("repos", False)]),
        (("attachments",), [("attachments", True)]),
        (("repos", "attachments"), [("repos", False), ("attachments", True)]),
    ],
)
def test_overlay(there: tuple[str, ...], more: list[tuple[str, bool]]) -> None:
    present = {f"{FOLDERS.root}/{name}" for name in there}
    assert described(overlay(FOLDERS, present.__contains__)) == OWN + more


def test_harness() -> None:
    assert described(harness(FOLDERS)) == OWN[:1]


def test_folders_are_made_for_their_user_alone(tmp_path: Path) -> None:
    folders = space_folders(str(tmp_path / "state"), "space", "one")
    make_space_folders(folders)
    made = [folders.root, folders.repos, folders.agent, folders.work, folders.config]
    assert {stat.S_IMODE(os.stat(path).st_mode) for path in made} == {0o700}
    assert not os.path.exists(folders.attachments)
    Path(folders.work, "kept").touch()
    make_space_folders(folders)
    assert Path(folders.work, "kept").exists()


@pytest.mark.parametrize("name", ["root", "repos", "agent", "work", "config"])
@pytest.mark.parametrize("what", ["file", "link"])
def test_folders_that_something_else_stands_for(tmp_path: Path, name: str, what: str) -> None:
    folders = space_folders(str(tmp_path / "state"), "space", "one")
    path = Path(getattr(folders, name))
    path.parent.mkdir(parents=True)
    if what == "file":
        path.touch()
    else:
        (tmp_path / "elsewhere").mkdir()
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(GatewayError, match=f"^space_id: .*/{path.name}"):
        make_space_folders(folders)


def test_folder_of_somebody_else(tmp_path: Path) -> None:
    folders = space_folders(str(tmp_path / "state"), "space", "one")
    Path(folders.work).mkdir(parents=True)
    if os.geteuid() != 0:
        return  # nobody's files can be made by root alone
    os.chown(folders.work, NOBODY, NOBODY)
    with pytest.raises(GatewayError, match="not a directory of this user"):
        make_space_folders(folders)


# --- In the wrap ----------------------------------------------------------------------------------


def in_space(tmp_path: Path, space: str, agent: str, *paths: str) -> SandboxSpec:
    """A spec that asks for paths below the state directory."""
    state = tmp_path / "state"
    for path in paths:
        (state / path).mkdir(parents=True, exist_ok=True)
    mounts = tuple(SandboxBindMount(f"{state}/{path}", f"{state}/{path}") for path in paths)
    return SandboxSpec("session", "default", agent, mounts, state_dir=str(state), space_id=space)


@pytest.mark.parametrize(
    ("space", "agent", "path", "allowed"),
    [
        ("space", "one", "spaces/space/agents/one/work", True),
        ("space", "one", "spaces/space/agents/one/work/below", True),
        ("space", "one", "spaces/space/repos", True),
        ("space", "one", "spaces/space/attachments", True),
        ("space", "one", "spaces/space/agents/two/work", False),
        ("space", "one", "spaces/space/agents/one", False),
        ("space", "one", "spaces/space/agents", False),
        ("space", "one", "spaces/space", False),
        ("space", "one", "spaces", False),
        ("space", "one", "spaces/other/repos", False),
        ("space", "one", "spaces/other/agents/one/work", False),
        ("space", "", "spaces/space/repos", True),
        ("space", "", "spaces/space/agents/one/work", False),
        ("", "one", "spaces/space/repos", False),
        ("sp.ce", "one", "spaces/space/repos", False),
        ("space", "one", "audit", False),
        ("space", "one", "workspaces/other/home", False),
    ],
)
def test_which_folders_may_be_bound(tmp_path: Path, space: str, agent: str, path: str, allowed: bool) -> None:
    made = in_space(tmp_path, space, agent, path)
    other = tmp_path / "other"
    other.mkdir()
    bound = (SandboxBindMount(str(other), str(other)),)
    for asked in (made, replace(made, bind_mounts=bound, runner_state_dirs=(f"{tmp_path}/state/{path}",))):
        if allowed:
            assert f"{tmp_path}/state/{path}" in {bind.path for bind in plan_wrap(asked).binds}
        else:
            with pytest.raises(GatewayError, match="own state"):
                plan_wrap(asked)


def test_link_to_a_sibling(tmp_path: Path) -> None:
    made = in_space(tmp_path, "space", "one", "spaces/space/agents/two/work", "spaces/space/repos")
    link = tmp_path / "state/spaces/space/repos/link"
    link.symlink_to("../agents/two/work")
    with pytest.raises(GatewayError, match="own state"):
        plan_wrap(replace(made, bind_mounts=(SandboxBindMount(str(link), str(link)),)))


def agent_of(place: Place, agent: str) -> SpaceFolders:
    """An agent of the space, with something in each of its folders."""
    folders = space_folders(str(place.state), "space", agent)
    make_space_folders(folders)
    for folder, text in ((folders.work, "work"), (folders.config, "told"), (folders.repos, "shared")):
        place.write(Path(folder, "file"), f"{text} of {agent}\n" if text != "shared" else "shared\n")
    place.write(Path(folders.attachments, "file"), "attached\n")
    return folders


def binds(mounts: tuple[SandboxBindMount, ...]) -> list[list[object]]:
    return [[mount.host_path, mount.read_only] for mount in mounts]


@pytest.mark.parametrize("mode", [Mode.CHAT, Mode.REVIEW])
def test_two_agents_of_one_space(place: Place, mode: Mode) -> None:
    one, two = agent_of(place, "one"), agent_of(place, "two")
    script = f"""
    cat {one.work}/file {one.config}/file {one.repos}/file {one.attachments}/file
    for name in {one.work} {one.repos} {one.config} {one.attachments}; do
        echo new 2>/dev/null >$name/new && echo wrote $name; done
    ls {os.path.dirname(one.agent)} {one.agent}
    ls {two.agent} 2>/dev/null || echo no sibling"""
    done = place.sh(
        f"exec 2>&1; {script}",
        bind_mounts=binds(overlay(one)),
        agent_id="one",
        space_id="space",
        mode=mode.value,
        _workdir=one.work,
    )
    written = [f"wrote {one.work}", f"wrote {one.repos}"] if mode is Mode.CHAT else []
    assert done.stdout.splitlines() == [
        "work of one", "told of one", "shared", "attached", *written,
        f"{os.path.dirname(one.agent)}:", "one", "", f"{one.agent}:", "config", "work", "no sibling",
    ]  # fmt: skip


def test_agent_with_its_work_alone(place: Place) -> None:
    one, two = agent_of(place, "one"), agent_of(place, "two")
    script = f"cd {one.work} && cat file; ls -d {one.config} {one.repos} {two.agent} 2>/dev/null; true"
    options = {
        "bind_mounts": binds(harness(one)),
        "agent_id": "one",
        "space_id": "space",
        "_workdir": one.work,
    }
    assert place.sh(script, **options).stdout == "work of one\n"
