"""The values that a session asks its wrap with, and the life of a wrap."""

import dataclasses

import pytest

from gateway.session import Mode
from sandbox.spec import TRANSITIONS, SandboxBindMount, SandboxHandle, SandboxSpec, SandboxState


def spec(*binds: str, workdir: str = "") -> SandboxSpec:
    mounts = tuple(SandboxBindMount(path, path) for path in binds)
    return SandboxSpec("session", "workspace", "agent", mounts, guest_workdir=workdir)


def test_defaults_are_the_narrow_ones_and_chat() -> None:
    made = spec("/srv/repo")
    assert (made.mode, made.network_enabled) == (Mode.CHAT, True)
    lists = ("egress_allowlist", "protected_paths", "runner_state_dirs", "exec_grant_roots", "command")
    assert [getattr(made, name) for name in lists] == [()] * len(lists)
    assert [made.deny_write, made.allow_write, made.deny_read] == [(), (), ()]
    assert [made.home, made.state_dir, made.runtime_dir, made.user_home] == ["", "", "", ""]
    assert not SandboxBindMount("/srv/repo", "/srv/repo").read_only


@pytest.mark.parametrize(
    ("binds", "workdir", "expected"),
    [
        (("/srv/repo", "/srv/data"), "", "/srv/repo"),
        (("/srv/repo",), "/srv/repo/below", "/srv/repo/below"),
        ((), "/srv", "/srv"),
        ((), "", "/"),
    ],
)
def test_where_the_command_starts(binds: tuple[str, ...], workdir: str, expected: str) -> None:
    assert spec(*binds, workdir=workdir).workdir == expected


def test_git_configuration_does_not_show() -> None:
    made = dataclasses.replace(spec(), git_config="[user]\n\tname = A U Thor\n")
    assert "A U Thor" not in repr(made)


@pytest.mark.parametrize(
    "value", [spec(), SandboxBindMount("/a", "/a"), SandboxHandle("s", "native", SandboxState.CREATED)]
)
def test_values_are_frozen(value: SandboxSpec | SandboxBindMount | SandboxHandle) -> None:
    for field in dataclasses.fields(value):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field.name, None)
    assert not hasattr(value, "__dict__")


ALLOWED = {
    ("created", "warm"), ("created", "error"), ("created", "destroyed"),
    ("warm", "active"), ("warm", "error"), ("warm", "destroyed"),
    ("active", "suspended"), ("active", "error"), ("active", "destroyed"),
    ("suspended", "active"), ("suspended", "error"), ("suspended", "destroyed"),
    ("error", "destroyed"),
}  # fmt: skip


@pytest.mark.parametrize("before", SandboxState)
@pytest.mark.parametrize("after", SandboxState)
def test_transitions(before: SandboxState, after: SandboxState) -> None:
    assert (after in TRANSITIONS[before]) is ((str(before), str(after)) in ALLOWED)


def test_every_state_can_be_reached_and_torn_down() -> None:
    reached = {SandboxState.CREATED}
    while more := {after for state in reached for after in TRANSITIONS[state]} - reached:
        reached |= more
    assert reached == set(SandboxState) == set(TRANSITIONS)
    assert all(
        SandboxState.DESTROYED in TRANSITIONS[state] for state in set(SandboxState) - {SandboxState.DESTROYED}
    )


def test_handle_has_no_error_unless_told() -> None:
    handle = SandboxHandle("session", "native", SandboxState.ACTIVE)
    assert (handle.error, dict(handle.details)) == ("", {})
