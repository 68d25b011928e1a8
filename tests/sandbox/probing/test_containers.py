"""Which container it is, and what its runtime has to be told."""

from pathlib import Path

import pytest

from sandbox.probing.containers import (
    DOCKER,
    KUBERNETES,
    LXC,
    NSPAWN,
    OTHER,
    PODMAN,
    Container,
    find_container,
)
from tests.sandbox.hosts import host_with

IN_DOCKER = "12:pids:/docker/0123456789ab\n0::/docker/0123456789ab\n"


@pytest.mark.parametrize(
    ("files", "container"),
    [
        ({}, None),
        ({"/proc/self/cgroup": "0::/user.slice/user-1000.slice/session-2.scope\n"}, None),
        ({"/.dockerenv": ""}, DOCKER),
        ({"/proc/self/cgroup": IN_DOCKER}, DOCKER),
        ({"/run/.containerenv": ""}, PODMAN),
        ({"/proc/self/cgroup": "0::/machine.slice/libpod-01.scope\n"}, PODMAN),
        ({"/run/systemd/container": "podman\n"}, PODMAN),
        ({"/proc/self/cgroup": "11:cpu:/kubepods/besteffort/pod1/2\n"}, KUBERNETES),
        ({"/.dockerenv": "", "/proc/self/environ": "KUBERNETES_SERVICE_HOST=10.0.0.1\0"}, KUBERNETES),
        ({"/var/run/secrets/kubernetes.io/serviceaccount/token": "x"}, KUBERNETES),
        ({"/proc/1/environ": "container=lxc\0"}, LXC),
        ({"/proc/self/environ": "container=lxc\0"}, LXC),
        ({"/run/systemd/container": "systemd-nspawn\n"}, NSPAWN),
        ({"/run/systemd/container": "rkt\n"}, OTHER),
        ({"/run/systemd/container": "wsl\n"}, None),
        ({"/proc/self/environ": "container=flatpak\0"}, None),
        ({"/proc/self/environ": "containers=lxc\0"}, None),
    ],
)
def test_container(tmp_path: Path, files: dict[str, str], container: Container | None) -> None:
    assert find_container(host_with(tmp_path, files)) is container


@pytest.mark.parametrize("container", [DOCKER, PODMAN, KUBERNETES, LXC, NSPAWN, OTHER])
def test_advice_says_the_other_way(container: Container) -> None:
    text = container.advise(())
    assert text.endswith("or run agent-gateway outside the container")
    assert all(option.text in text for option in container.options)


def test_advice_is_as_little_as_is_needed() -> None:
    text = DOCKER.advise([option for option in DOCKER.options if option.proc])
    assert "systempaths=unconfined" in text
    assert "seccomp=" not in text
