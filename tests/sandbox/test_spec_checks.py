"""Specs that cannot be meant: each refusal names the field, and comes before anything is made."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import GatewayError
from gateway.session import Mode
from sandbox.mounts import plan_wrap
from sandbox.spec import SandboxBindMount, SandboxSpec
from sandbox.spec_checks import LIST_LIMIT, PATH_LIMIT, check_form, check_private, check_spec
from tests.sandbox.wrapping import Place


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A worktree, directories beside it, and links that lead nowhere."""
    for name in ("repo/sub", "other/below", "state/workspaces/default/home"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "file").touch()
    for name, target in (("dangling", "missing"), ("loop", "loop"), ("link", "other"), ("file-link", "file")):
        (tmp_path / name).symlink_to(target)
    return tmp_path


def spec(host: Path, *binds: str, **fields: Any) -> SandboxSpec:
    """A spec; paths are relative to the host unless they start with "=", which is cut off; "name:ro" is read-only."""

    def path(name: str) -> str:
        return name[1:] if name.startswith("=") else f"{host}/{name}"

    mounts = (SandboxBindMount(path(name.removesuffix(":ro")), path(name.removesuffix(":ro")), name.endswith(":ro"))
              for name in binds or ("repo",))  # fmt: skip
    values: dict[str, Any] = {
        name: tuple(path(one) for one in value) if isinstance(value, tuple) else path(value)
        for name, value in fields.items()
        if name != "mode"
    }
    return SandboxSpec("s", "default", "", tuple(mounts), mode=fields.get("mode", Mode.CHAT), **values)


def refusal(made: SandboxSpec) -> str:
    with pytest.raises(GatewayError) as caught:
        check_spec(made)
        check_private(made)
    return str(caught.value)


# What is wrong with a path, and in which words; "=" marks one that is not below the host.
BAD_PATHS = (
    ("=", "is empty"),
    ("=relative", "is not an absolute path"),
    ("=./relative", "is not an absolute path"),
    ("=~/repo", "is not an absolute path"),
    ("missing", "No such file or directory"),
    ("dangling", "is a link that leads nowhere"),
    ("dangling/below", "is a link that leads nowhere"),
    ("loop", "Too many levels of symbolic links"),
    ("file/below", "Not a directory"),
    ("\udcff", "is not UTF-8"),
    ("a\0b", "holds a NUL character"),
    ("n" * 300, "File name too long"),
    ("/".join(["long"] * 1000), f"and the system takes {PATH_LIMIT}"),
    ("ж/" * 2000, f"and the system takes {PATH_LIMIT}"),
    ("\ud800", "is not UTF-8"),
)


@pytest.mark.parametrize(("path", "words"), BAD_PATHS, ids=[words for _, words in BAD_PATHS])
@pytest.mark.parametrize("field", ["runner_state_dirs", "exec_grant_roots", "protected_paths"])
def test_bad_paths_in_lists(host: Path, field: str, path: str, words: str) -> None:
    made = spec(host, **{field: ("other", path)})
    if field == "protected_paths" and path == "missing":
        check_spec(made)  # it protects nothing, and harms nobody
        return
    message = refusal(made)
    assert message.startswith(f"{field}[1]")
    assert words in message
    assert len(message) < 1000


@pytest.mark.parametrize(("path", "words"), BAD_PATHS, ids=[words for _, words in BAD_PATHS])
def test_bad_paths_of_binds(host: Path, path: str, words: str) -> None:
    message = refusal(spec(host, "repo", path))
    assert message.startswith("bind_mounts[1]")
    assert words in message


@pytest.mark.parametrize(("path", "words"), BAD_PATHS[1:], ids=[words for _, words in BAD_PATHS[1:]])
def test_bad_working_directory(host: Path, path: str, words: str) -> None:
    message = refusal(spec(host, guest_workdir=path))
    assert message.startswith("guest_workdir: ")
    assert words.removeprefix("is a link that leads nowhere") in message


@pytest.mark.parametrize("field", ["home", "state_dir", "runtime_dir", "user_home"])
@pytest.mark.parametrize(
    ("path", "words"), [BAD_PATHS[1], *BAD_PATHS[9:11], *BAD_PATHS[12:]], ids=lambda value: str(value)[:20]
)
def test_bad_paths_that_stand_alone(host: Path, field: str, path: str, words: str) -> None:
    message = refusal(spec(host, **{field: path}))
    assert message.startswith(f"{field}: ")
    assert words in message


def test_longest_path() -> None:
    check_form("home", "/" + "n" * (PATH_LIMIT - 1))
    with pytest.raises(GatewayError):
        check_form("home", "/" + "n" * PATH_LIMIT)


@pytest.mark.parametrize("path", ["dangling", "loop", "file", "file/below", "n" * 300])
def test_home_that_cannot_be_made(host: Path, path: str) -> None:
    with pytest.raises(GatewayError, match=r"^home: "):
        plan_wrap(spec(host, home=path))


# --- Numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["bind_mounts", "protected_paths", "runner_state_dirs", "exec_grant_roots"])
def test_too_many(host: Path, field: str) -> None:
    """Nothing is looked at: the paths need not even be any."""
    value = "relative"
    entry: Any = SandboxBindMount(value, value) if field == "bind_mounts" else value
    many: Any = (entry,) * 10_000
    with pytest.raises(GatewayError) as caught:
        check_spec(replace(spec(host), **{field: many}))
    assert caught.value.message == f"{field} has 10000 entries, and a wrap takes {LIST_LIMIT}"
    assert "a directory that holds them" in caught.value.hint


def test_as_many_as_there_may_be(host: Path) -> None:
    mount = SandboxBindMount(f"{host}/repo", f"{host}/repo")
    check_spec(replace(spec(host), bind_mounts=(mount,) * LIST_LIMIT))
    with pytest.raises(GatewayError, match=r"^bind_mounts has "):
        check_spec(replace(spec(host), bind_mounts=(mount,) * (LIST_LIMIT + 1)))


def test_ten_thousand_binds_are_refused_before_anything_starts(place: Place) -> None:
    work = str(place.worktree)
    done = place.run("touch", "ran", bind_mounts=[[work, False]] * 10_000)
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr.startswith(f"refused: bind_mounts has 10000 entries, and a wrap takes {LIST_LIMIT} (")
    assert not (place.worktree / "ran").exists()
    assert not place.state.exists()


# --- Contradictions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("binds", "fields", "words"),
    [
        (("repo", "repo:ro"), {}, "bind_mounts[1].read_only: HOST/repo is read-only here and writable in bind_m"),
        (("repo:ro", "repo"), {}, "bind_mounts[1].read_only: HOST/repo is writable here and read-only in bind_m"),
        (("other", "link:ro"), {}, "bind_mounts[1].read_only: HOST/other is read-only here"),
        (("repo:ro", "other", "repo/../repo"), {}, "bind_mounts[2].read_only: HOST/repo is writable here"),
        (("repo:ro",), {"runner_state_dirs": ("repo",)}, "runner_state_dirs[0]: HOST/repo stays writable, and is"),
        (("repo",), {"runner_state_dirs": ("repo",), "mode": Mode.REVIEW}, "runner_state_dirs[0]: HOST/repo stays"),
        (("repo",), {"runner_state_dirs": ("file",)}, "runner_state_dirs[0]: HOST/file is not a directory"),
        (("repo",), {"runner_state_dirs": ("other",), "protected_paths": ("other",)},
         "runner_state_dirs[0]: HOST/other has to be writable, and protected_paths[0] protects HOST/other"),
        (("repo",), {"runner_state_dirs": ("other/below",), "protected_paths": ("repo", "link")},
         "runner_state_dirs[0]: HOST/other/below has to be writable, and protected_paths[1] protects HOST/other"),
        (("repo",), {"guest_workdir": "other"}, "guest_workdir: HOST/other lies in none of bind_mounts"),
        (("repo",), {"guest_workdir": "repo/.."}, "guest_workdir: HOST lies in none of bind_mounts"),
        (("repo",), {"guest_workdir": "=/usr"}, "guest_workdir: /usr lies in none of bind_mounts"),
        (("file",), {"guest_workdir": "file"}, "guest_workdir: HOST/file is not a directory"),
        (("repo",), {"exec_grant_roots": ("=/",)}, "exec_grant_roots[0]: / would allow every program"),
        (("repo",), {"home": "repo/home"}, "home: HOST/repo/home and bind_mounts[0], HOST/repo, lie in one another"),
        (("repo",), {"home": "repo"}, "home: HOST/repo and bind_mounts[0], HOST/repo, lie in one another"),
        (("other", "repo/sub"), {"home": "repo"}, "home: HOST/repo and bind_mounts[1], HOST/repo/sub, lie in one"),
        (("link",), {"home": "other/home"}, "home: HOST/other/home and bind_mounts[0], HOST/other, lie in"),
        (("repo",), {"home": "other/home", "runner_state_dirs": ("other",)},
         "runner_state_dirs[0]: HOST/other holds the private home HOST/other/home"),
        (("repo",), {"home": "other/home", "protected_paths": ("other",)},
         "home: HOST/other/home has to be writable, and protected_paths[0] protects HOST/other"),
    ],
)  # fmt: skip
def test_contradictions(host: Path, binds: tuple[str, ...], fields: dict[str, Any], words: str) -> None:
    assert refusal(spec(host, *binds, **fields)).startswith(words.replace("HOST", str(host)))


def test_another_guest_path(host: Path) -> None:
    mount = SandboxBindMount(f"{host}/repo", "/elsewhere")
    message = refusal(replace(spec(host), bind_mounts=(mount,)))
    assert message.startswith("bind_mounts[0].guest_path: this backend shows a path only where it is")


@pytest.mark.parametrize(
    ("binds", "fields"),
    [
        (("repo", "repo"), {}),
        (("repo:ro", "link:ro", "other:ro"), {}),
        (("repo", "repo/sub:ro"), {}),
        (("repo:ro", "repo/sub"), {}),
        (("file", "file-link"), {}),
        (("repo",), {"runner_state_dirs": ("repo",)}),
        (("repo",), {"runner_state_dirs": ("repo/sub",), "mode": Mode.PLAN}),
        (("repo",), {"runner_state_dirs": ("other",), "protected_paths": ("other/below",)}),
        (("repo",), {"protected_paths": ("repo",)}),
        (("repo/sub",), {"protected_paths": ("repo",)}),
        (("repo",), {"protected_paths": ("repo/sub", "repo/missing", "=/nowhere/at/all")}),
        (("repo",), {"guest_workdir": "repo/sub"}),
        (("other",), {"guest_workdir": "link/below"}),
        (("repo",), {"guest_workdir": "other", "runner_state_dirs": ("other",)}),
        (("repo",), {"guest_workdir": "other/below", "home": "other"}),
        (("repo",), {"home": "missing/home", "user_home": "missing", "runtime_dir": "missing", "state_dir": "no"}),
        (("repo",), {"exec_grant_roots": ("other", "=/usr")}),
        # what the product makes in time
        (("state/spaces/one/repos",), {"state_dir": "state"}),
        (("repo",), {"state_dir": "state", "runner_state_dirs": ("state/workspaces/default/agents/claude",)}),
    ],
)  # fmt: skip
def test_what_can_be_meant(host: Path, binds: tuple[str, ...], fields: dict[str, Any]) -> None:
    made = spec(host, *binds, **fields)
    check_spec(made)
    check_private(made)


def test_nothing_is_made(host: Path) -> None:
    before = sorted(host.rglob("*"))
    made = spec(host, home="new/home", protected_paths=("gone",))
    check_spec(made)
    check_private(made)
    assert sorted(host.rglob("*")) == before


# --- From outside ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"bind_mounts": [["relative", False]]}, "bind_mounts[0]: 'relative' is not an absolute path"),
        ({"bind_mounts": [["HOME", False]]}, "bind_mounts[0]: HOME cannot be seen from inside the wrap: it holds"),
        ({"bind_mounts": [["/", True]]}, "bind_mounts[0]: / cannot be seen from inside the wrap: it is the whole"),
        ({"runner_state_dirs": ["/nowhere"]}, "runner_state_dirs[0]: '/nowhere': No such file or directory"),
        ({"guest_workdir": "/usr"}, "guest_workdir: /usr lies in none of bind_mounts"),
        ({"home": "WORK/home"}, "home: WORK/home and bind_mounts[0], WORK, lie in one another"),
    ],
)  # fmt: skip
def test_refused_before_anything_starts(place: Place, fields: dict[str, Any], words: str) -> None:
    def named(value: Any) -> Any:
        if isinstance(value, list):
            return [named(one) for one in value]
        if not isinstance(value, str):
            return value
        return value.replace("HOME", str(place.home)).replace("WORK", str(place.worktree))

    done = place.run("touch", "ran", **{name: named(value) for name, value in fields.items()})
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr.startswith(f"refused: {named(words)}")
    assert os.listdir(place.worktree) == []
    assert not place.state.exists()


@pytest.mark.parametrize("field", ["session_id", "bind_mounts"])
def test_what_every_session_has(host: Path, field: str) -> None:
    empty: dict[str, Any] = {"session_id": "", "bind_mounts": ()}
    said = refusal(replace(spec(host), **{field: empty[field]}))
    assert said.startswith(f"{field} is empty (")
