"""AppArmor's restriction of user namespaces, in every state of its profile for bubblewrap."""

from pathlib import Path

import pytest

from sandbox.probing.apparmor import EXTRA, FOLDER, LOADED, RESTRICTED, explain_apparmor
from tests.sandbox.hosts import CAPABLE, ORDINARY, UBUNTU, host_with

ON = {
    RESTRICTED: "1\n",
    "/proc/self/status": ORDINARY,
    "/etc/os-release": UBUNTU,
    "/usr/bin/sudo*": "",
    f"{FOLDER}/usr.bin.man": "profile man /usr/bin/man {\n}\n",
}
CAUSE = "AppArmor restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns=1): "
LAST = "; or, for every program on this host, sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
PROFILE = f"{FOLDER}/bwrap-userns-restrict"
TEXT = "abi <abi/4.0>,\nprofile bwrap /usr/bin/bwrap flags=(attach_disconnected) {\n  allow userns,\n}\n"
LOAD = "sudo apparmor_parser -r /etc/apparmor.d/bwrap-userns-restrict"
COPY = f"sudo cp {EXTRA} /etc/apparmor.d/ && {LOAD}"


@pytest.mark.parametrize(
    ("files", "cure"),
    [
        ({}, f"give bwrap its profile: sudo apt-get install apparmor-profiles && {COPY}"),
        ({EXTRA: TEXT}, f"give bwrap its profile: {COPY}"),
        ({PROFILE: TEXT}, f"load its profile for bwrap: {LOAD}"),
        (
            {PROFILE: TEXT, f"{FOLDER}/disable/bwrap-userns-restrict": ""},
            f"its profile is disabled: sudo rm {FOLDER}/disable/bwrap-userns-restrict && {LOAD}",
        ),
        (
            {EXTRA: TEXT, f"{FOLDER}/of-a-vendor": "profile theirs /usr/bin/bwrap {\n userns,\n}\n"},
            "load its profile for bwrap: sudo apparmor_parser -r /etc/apparmor.d/of-a-vendor",
        ),
        (
            {EXTRA: TEXT, f"{FOLDER}/abstract": "# profile x /usr/bin/bwrap {\n"},
            f"give bwrap its profile: {COPY}",
        ),
        (
            {PROFILE: TEXT, LOADED: "docker-default (enforce)\nbwrap (enforce)\nunpriv_bwrap (enforce)\n"},
            f"a profile for bwrap is loaded but does not let /usr/bin/bwrap do it; look at {PROFILE}",
        ),
        (
            {LOADED: "/usr/bin/bwrap (unconfined)\n"},
            f"a profile for bwrap is loaded but does not let /usr/bin/bwrap do it; look at {FOLDER}",
        ),
        ({EXTRA: TEXT, LOADED: "docker-default (enforce)\n"}, f"give bwrap its profile: {COPY}"),
    ],
)
def test_cure(tmp_path: Path, files: dict[str, str], cure: str) -> None:
    assert explain_apparmor("/usr/bin/bwrap", host_with(tmp_path, {**ON, **files})) == f"{CAUSE}{cure}{LAST}"


@pytest.mark.parametrize(
    "files",
    [{RESTRICTED: "0\n"}, {RESTRICTED: ""}, {"/proc/self/status": CAPABLE}],
    ids=("off", "empty", "root"),
)
def test_not_in_force(tmp_path: Path, files: dict[str, str]) -> None:
    assert explain_apparmor("/usr/bin/bwrap", host_with(tmp_path, {**ON, **files})) == ""


def test_program_that_the_profile_does_not_name(tmp_path: Path) -> None:
    text = explain_apparmor("/opt/bin/bwrap", host_with(tmp_path, {**ON, PROFILE: TEXT}))
    assert "(which names /usr/bin/bwrap, not /opt/bin/bwrap)" in text


def test_root_without_capabilities_needs_no_sudo(tmp_path: Path) -> None:
    host = host_with(tmp_path, {**ON, PROFILE: TEXT}, administrator=True)
    assert "load its profile for bwrap: apparmor_parser -r" in explain_apparmor("/usr/bin/bwrap", host)
