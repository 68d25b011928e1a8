"""AppArmor's restriction of user namespaces (Ubuntu since 23.10), and what lets bubblewrap make one nevertheless."""

import os
import stat
from contextlib import suppress

from sandbox.probing.distribution import read_distribution
from sandbox.probing.host_files import Host

RESTRICTED = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
LOADED = "/sys/kernel/security/apparmor/profiles"
FOLDER = "/etc/apparmor.d"
PROFILE = "bwrap-userns-restrict"
# Where Ubuntu 24.04 keeps it; later releases have it in place.
EXTRA = f"/usr/share/apparmor/extra-profiles/{PROFILE}"

# The program it names, by both of its names where /bin is a link.
ATTACHED = ("/usr/bin/bwrap", "/bin/bwrap")


def restricts(host: Host) -> bool:
    """Whether this host restricts the user namespaces of programs without a profile."""
    return host.read(RESTRICTED).strip() == "1"


def explain_apparmor(program: str, host: Host) -> str:
    """Cause and cure where the restriction holds for the bubblewrap at `program`; empty where it does not.

    Programs without a profile of their own get a user namespace in which they may do nothing. A profile is only
    advised where none is loaded already: two that name one program collide.
    """
    if not restricts(host) or host.capable():
        return ""
    cause = "AppArmor restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns=1)"
    file, last = _profile_file(host), host.as_root("sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
    if _profile_loaded(host):
        cure = f"a profile for bwrap is loaded but does not let {program} do it; look at {file or FOLDER}"
    elif file and host.has(link := f"{FOLDER}/disable/{os.path.basename(file)}"):
        cure = f"its profile is disabled: {host.as_root(f'rm {link}', f'apparmor_parser -r {file}')}"
    elif file:
        cure = f"load its profile for bwrap: {host.as_root(f'apparmor_parser -r {file}')}"
    else:
        fetched = () if host.has(EXTRA) else (_bare_install(host, "apparmor-profiles"),)
        steps = (*fetched, f"cp {EXTRA} {FOLDER}/", f"apparmor_parser -r {FOLDER}/{PROFILE}")
        cure = f"give bwrap its profile: {host.as_root(*steps)}"
    if program not in ATTACHED:
        cure += f" (which names {ATTACHED[0]}, not {program})"
    return f"{cause}: {cure}; or, for every program on this host, {last}"


def _bare_install(host: Host, package: str) -> str:
    return read_distribution(host.root, administrator=True).install_command((package,))


def _profile_loaded(host: Host) -> bool:
    """Whether the kernel lists a profile for bwrap; only root may read the list."""
    names = [line.partition(" ")[0] for line in host.read(LOADED).splitlines()]
    return any(os.path.basename(name) in ("bwrap", PROFILE) for name in names)


def _profile_file(host: Host) -> str:
    """A file that holds a profile for bwrap, this one or another vendor's; two for one program would collide."""
    with suppress(OSError):
        for entry in sorted(os.scandir(host.at(FOLDER)), key=lambda entry: entry.name):
            path = f"{FOLDER}/{entry.name}"
            if stat.S_ISREG(entry.stat().st_mode) and _attaches(host.read(path)):
                return path
    return ""


def _attaches(text: str) -> bool:
    """Whether a profile's head names the program: `profile bwrap /usr/bin/bwrap {`."""
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if words[-1:] == ["{"] and any(word.endswith("/bwrap") for word in words):
            return True
    return False
