"""Each cause with its cure, read from a host in small."""

import errno
from pathlib import Path

import pytest

from sandbox.layout import STUB
from sandbox.probing.obstacles import NAMESPACES, OF_THE_PROGRAM, Failure, Step, explain
from tests.sandbox.hosts import CAPABLE, DEBIAN, FILTERED, ORDINARY, UBUNTU, host_with

BWRAP = "/usr/bin/bwrap"
PLAIN = {
    "/etc/os-release": DEBIAN,
    "/usr/bin/sudo*": "",
    "/proc/self/status": ORDINARY,
    "/proc/sys/kernel/osrelease": "6.1.0-18-amd64\n",
    "/proc/self/mountinfo": "22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n",
    "/proc/1/comm": "systemd\n",
    **{f"/proc/self/ns/{name}": "" for names in NAMESPACES.values() for name in names},
    **{f"/proc/sys/user/max_{name}_namespaces": "63000\n" for names in NAMESPACES.values() for name in names},
    "/proc/sys/kernel/seccomp/actions_avail": "kill_process errno allow\n",
}
CHROOT = "22 1 259:2 / /proc rw - proc proc rw\n23 1 259:2 / /dev rw - tmpfs tmpfs rw\n"
KEEP = " (to keep it: a file in /etc/sysctl.d)"
RESTRICTED = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
SANDBOX = "AGENT_GATEWAY_SANDBOX"
TWO_LINES = "Name:\nSeccomp:\t2\n"


@pytest.mark.parametrize(
    ("step", "error", "files", "words"),
    [
        ("USER", 28, {"/proc/sys/user/max_user_namespaces": "0\n"},
         f"no user namespaces are allowed here: sudo sysctl -w user.max_user_namespaces=16384{KEEP}"),
        ("USER", 28, {"/proc/sys/user/max_user_namespaces": "5\n"},
         "all 5 user namespaces of user.max_user_namespaces are used up"),
        ("MOUNT", 0, {"/proc/sys/user/max_mnt_namespaces": "0\n"}, "sysctl -w user.max_mnt_namespaces=16384"),
        ("PROC", 0, {"/proc/sys/user/max_pid_namespaces": "0\n"}, "sysctl -w user.max_pid_namespaces=16384"),
        ("NETWORK", 0, {"/proc/sys/user/max_net_namespaces": "0\n"}, "sysctl -w user.max_net_namespaces=16384"),
        ("NETWORK", 0, {"/proc/sys/user/max_uts_namespaces": "0\n"}, "sysctl -w user.max_uts_namespaces=16384"),
        ("USER", 28, {"/.dockerenv": "", "/proc/sys/user/max_user_namespaces": "0\n"}, "on the container's host"),
        ("USER", 1, {"/proc/sys/kernel/unprivileged_userns_clone": "0\n"},
         f"sudo sysctl -w kernel.unprivileged_userns_clone=1{KEEP}"),
        ("USER", 1, {RESTRICTED: "1\n"}, "AppArmor restricts user namespaces"),
        ("MOUNT", 0, {RESTRICTED: "1\n"}, "AppArmor restricts user namespaces"),
        ("NETWORK", 0, {RESTRICTED: "1\n", "/etc/os-release": UBUNTU}, "apparmor_parser -r"),
        ("FILTER", 0, {RESTRICTED: "1\n"}, f"{BWRAP} cannot install a system-call filter here (said)"),
        ("USER", 1, {"/proc/self/mountinfo": CHROOT}, "no user namespaces in a chroot"),
        ("MOUNT", 1, {"/proc/self/mountinfo": CHROOT}, f"{BWRAP} cannot set mounts up here (said)"),
        ("USER", 22, {"/proc/sys/kernel/osrelease": "4.4.0-19041-Microsoft\n",
                      "/proc/self/environ": "WSL_DISTRO_NAME=Debian\0"}, "wsl --set-version Debian 2"),
        ("USER", 1, {"/proc/sys/kernel/osrelease": "5.15.90.1-microsoft-standard-WSL2\n"},
         f"{BWRAP} cannot make a user namespace here (said)"),
        ("USER", 1, {"/proc/self/environ": f"{SANDBOX}=native\0"}, "already runs in a wrap of agent-gateway"),
        ("USER", 1, {STUB: "", "/.dockerenv": ""}, "already runs in a wrap"),
        ("USER", 1, {"/proc/self/environ": f"{SANDBOX}=none\0"}, f"{BWRAP} cannot make a user namespace"),
        ("USER", 1, {"/.dockerenv": "", "/proc/self/status": FILTERED},
         "this Docker container does not let bubblewrap make a user namespace: start it with docker run"
         " --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
         " --security-opt systempaths=unconfined (each weakens the container;"),
        ("MOUNT", 0, {"/.dockerenv": ""}, "docker run --security-opt apparmor=unconfined"),
        ("PROC", 0, {"/.dockerenv": "", "/proc/self/status": FILTERED},
         "docker run --security-opt systempaths=unconfined (each"),
        ("USER", 1, {"/run/.containerenv": "", "/proc/self/status": FILTERED}, "podman run --security-opt seccomp="),
        ("PROC", 0, {"/run/.containerenv": ""}, "podman run --security-opt unmask=ALL (each"),
        ("PROC", 0, {"/proc/self/environ": "KUBERNETES_SERVICE_HOST=10.0.0.1\0"},
         "securityContext procMount: Unmasked with hostUsers: false in the pod (each"),
        ("USER", 1, {"/.dockerenv": "", RESTRICTED: "1\n"}, "needs the profile bwrap-userns-restrict as well"),
        ("USER", 1, {"/run/systemd/container": "lxc\n"}, "security.nesting true"),
        ("USER", 1, {"/.flatpak-info": ""}, "a Flatpak around this does not let bubblewrap make a user namespace"),
        ("USER", 1, {"/proc/self/environ": "container=firejail\0"}, "Firejail around this"),
        ("USER", 1, {"/proc/1/comm": "bwrap\n"}, "another bubblewrap sandbox around this"),
        ("USER", 1, {"/proc/self/status": FILTERED}, "RestrictNamespaces=no"),
        ("FILTER", 0, {"/proc/self/status": FILTERED}, "does not let bubblewrap install a system-call filter"),
        ("OPTIONS", 1, {}, f"{BWRAP} is too old, version 0.5.0 or later is needed: sudo apt-get install bubblewrap"),
        ("PROGRAM", errno.EAGAIN, {}, "ulimit -u"),
        ("PROGRAM", errno.ENOEXEC, {"/.dockerenv": ""}, f"{BWRAP} cannot run here (said)"),
        ("WHOLE", 1, {}, f"{BWRAP} cannot set the whole wrap up here (said)"),
    ],
)  # fmt: skip
def test_cause_and_cure(tmp_path: Path, step: str, error: int, files: dict[str, str], words: str) -> None:
    text = explain(Failure(Step[step], BWRAP, error, "said"), host_with(tmp_path, {**PLAIN, **files}))
    assert words in text


@pytest.mark.parametrize(
    ("step", "missing", "words"),
    [
        ("USER", "/proc/self/ns/user", "CONFIG_USER_NS"),
        ("PROC", "/proc/self/ns/pid", "CONFIG_PID_NS"),
        ("NETWORK", "/proc/self/ns/net", "CONFIG_NET_NS"),
        ("NETWORK", "/proc/self/ns/ipc", "CONFIG_IPC_NS"),
        ("NETWORK", "/proc/self/ns/uts", "CONFIG_UTS_NS"),
        ("FILTER", "/proc/sys/kernel/seccomp/actions_avail", "CONFIG_SECCOMP_FILTER"),
    ],
)
def test_kernel_that_has_it_not(tmp_path: Path, step: str, missing: str, words: str) -> None:
    files = {path: text for path, text in PLAIN.items() if path != missing}
    assert words in explain(Failure(Step[step], BWRAP, errno.EINVAL), host_with(tmp_path, files))


@pytest.mark.parametrize("setting", ["/proc/sys/kernel/unprivileged_userns_clone", RESTRICTED])
def test_root_is_not_restricted(tmp_path: Path, setting: str) -> None:
    value = "1\n" if setting == RESTRICTED else "0\n"
    host = host_with(tmp_path, {**PLAIN, setting: value, "/proc/self/status": CAPABLE}, administrator=True)
    assert (
        explain(Failure(Step.USER, BWRAP, 1, "said"), host)
        == f"{BWRAP} cannot make a user namespace here (said)"
    )


@pytest.mark.parametrize(
    ("files", "status", "words"),
    [
        ({}, ORDINARY, "CAP_SETFCAP, which a user namespace needs: give it back, or be an ordinary user"),
        ({"/.dockerenv": ""}, ORDINARY, "start the container with --cap-add SETFCAP, or be an ordinary user"),
        ({}, CAPABLE, f"{BWRAP} cannot set mounts up here"),
    ],
)
def test_root_without_its_capabilities(
    tmp_path: Path, files: dict[str, str], status: str, words: str
) -> None:
    host = host_with(tmp_path, {**PLAIN, **files, "/proc/self/status": status}, administrator=True)
    assert words in explain(Failure(Step.MOUNT, BWRAP), host)


def test_without_words_the_kernels_are_given(tmp_path: Path) -> None:
    text = explain(Failure(Step.USER, BWRAP, errno.EPERM), host_with(tmp_path, PLAIN))
    assert text == f"{BWRAP} cannot make a user namespace here (Operation not permitted)"


@pytest.mark.parametrize("step", list(Step))
def test_always_one_printable_line(tmp_path: Path, step: Step) -> None:
    files = {**PLAIN, "/proc/self/status": TWO_LINES, "/proc/self/environ": "WSL_DISTRO_NAME=\x1b[2J\n\0"}
    for more in (
        {},
        {"/proc/sys/kernel/osrelease": "Microsoft\n"},
        {"/proc/sys/user/max_net_namespaces": "\x1b\n"},
    ):
        text = explain(
            Failure(step, BWRAP, 28, "bwrap: \x1b]0;x\x07\n" * 99), host_with(tmp_path, {**files, **more})
        )
        assert text and text.isprintable() and len(text) < 1000


@pytest.mark.parametrize("step", OF_THE_PROGRAM)
def test_broken_program_is_nobody_elses_fault(tmp_path: Path, step: Step) -> None:
    files = {
        **PLAIN,
        "/.dockerenv": "",
        RESTRICTED: "1\n",
        "/proc/self/status": FILTERED,
        "/proc/1/comm": "bwrap\n",
    }
    assert explain(Failure(step, BWRAP, 1, "said"), host_with(tmp_path, files)).startswith(BWRAP)
