"""Errors that speak of a spec's fields, in the words of whoever wrote options."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.as_written import named_as_written
from gateway.errors import GatewayError
from gateway.options import RunOptions
from gateway.session import Profile
from sandbox.spec import SandboxBindMount, SandboxSpec

OPTIONS = RunOptions(
    command=("true",),
    bind=("more", "more:ro"),
    protect=("../kept",),
    state_dirs=("state",),
    exec_grants=("bin",),
)


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SandboxSpec:
    """A worktree that is the current directory, and what the options name."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    here = os.getcwd()
    mounts = (
        SandboxBindMount(here, here),
        SandboxBindMount(f"{here}/more", f"{here}/more"),
        SandboxBindMount(f"{here}/more", f"{here}/more", read_only=True),
    )
    return SandboxSpec(
        "session", "default", "", mounts, guest_workdir=here, protected_paths=(f"{tmp_path}/kept", "/checkout"),
        runner_state_dirs=(f"{here}/state", "/agents/own"), exec_grant_roots=(f"{here}/bin", "/other"),
        user_home=str(tmp_path),
    )  # fmt: skip


def said(options: RunOptions, spec: SandboxSpec, message: str) -> str:
    with pytest.raises(GatewayError) as caught, named_as_written(options, spec):
        raise GatewayError(message, "a hint")
    assert caught.value.hint == "a hint"
    return str(caught.value).removesuffix(" (a hint)")


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("bind_mounts[0]", "the current directory"),
        ("bind_mounts[1]", "--bind more"),
        ("bind_mounts[2]", "--bind more:ro"),
        ("bind_mounts[2].read_only", "--bind more:ro"),
        ("protected_paths[0]", "--protect ../kept"),
        ("protected_paths[1]", "a protected path of the configuration"),
        ("runner_state_dirs[0]", "--state-dir state"),
        ("runner_state_dirs[1]", "the agent's own directory"),
        ("exec_grant_roots[0]", "--exec-grant bin"),
        ("exec_grant_roots[1]", "a program's directory"),
        ("home", "home"),
        ("bind_mounts", "bind_mounts"),
    ],
)
def test_field(spec: SandboxSpec, field: str, words: str) -> None:
    assert said(OPTIONS, spec, f"{field}: /x: no, as in {field}") == f"{words}: /x: no, as in {words}"


def test_what_is_shown_without_a_bind(spec: SandboxSpec, tmp_path: Path) -> None:
    def first(options: RunOptions, of: SandboxSpec) -> str:
        return said(options, of, "bind_mounts[0]: no")

    assert first(replace(OPTIONS, repo="."), spec) == "--repo .: no"
    assert first(replace(OPTIONS, space="team"), spec) == "--space team: no"
    assert first(OPTIONS, replace(spec, guest_workdir=f"{os.getcwd()}/more")) == "the worktree: no"
    home = SandboxBindMount(str(tmp_path), str(tmp_path))
    terminal = replace(spec, profile=Profile.TERMINAL, bind_mounts=(home, *spec.bind_mounts))
    assert first(OPTIONS, terminal) == "the home directory: no"


def test_nothing_is_raised_where_nothing_was(spec: SandboxSpec) -> None:
    with named_as_written(OPTIONS, spec):
        pass
