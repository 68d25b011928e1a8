"""In which container this process runs, and which options of its runtime let a wrap be made inside. It reads files."""

from collections.abc import Sequence
from dataclasses import dataclass

from sandbox.probing.host_files import Host


@dataclass(frozen=True, slots=True)
class Option:
    """`text` as the runtime takes it. `filters`: it lifts the runtime's system-call filter, which may be lifted
    already; `proc`: it unmasks /proc, whose masks keep a new one from being mounted."""

    text: str
    filters: bool = False
    proc: bool = False


@dataclass(frozen=True, slots=True)
class Container:
    """`title`: what stands in the way, in a sentence; `how`: where the options go; `price`: what they cost."""

    title: str
    how: str
    options: tuple[Option, ...] = ()
    price: str = ""

    def advise(self, options: Sequence[Option]) -> str:
        """The cure with the options that are needed; all of them when none of them is known to be."""
        chosen = " ".join(option.text for option in options or self.options)
        cure = f"{self.how} {chosen}".strip()
        return f"{cure}{self.price}, or run agent-gateway outside the container"


DOCKER = Container(
    "this Docker container",
    "start it with docker run",
    (
        Option("--security-opt seccomp=unconfined", filters=True),
        Option("--security-opt apparmor=unconfined"),
        Option("--security-opt systempaths=unconfined", proc=True),
    ),
    " (each weakens the container; --cap-add SYS_ADMIN lifts only the filter and gives away more, --privileged gives"
    " the container up as a boundary)",
)
PODMAN = Container(
    "this Podman container",
    "start it with podman run",
    (
        Option("--security-opt seccomp=unconfined", filters=True),
        Option("--security-opt label=disable"),
        Option("--security-opt unmask=ALL", proc=True),
    ),
    " (each weakens the container; --privileged gives it up as a boundary)",
)
KUBERNETES = Container(
    "this Kubernetes pod",
    "set in the container's securityContext",
    (
        Option("seccompProfile: {type: Unconfined},", filters=True),
        Option("appArmorProfile: {type: Unconfined},"),
        Option("procMount: Unmasked with hostUsers: false in the pod", proc=True),
    ),
    " (each weakens the container; privileged: true gives it up as a boundary)",
)
LXC = Container(
    "this LXC container", "on its host, lxc config set NAME security.nesting true (or the runtime's like)"
)
NSPAWN = Container("this systemd-nspawn container", "start it with", (Option("--private-users=pick"),))
OTHER = Container(
    "this container", "its runtime must allow user namespaces, mounts and a /proc without masks in it"
)

# Where a name stands that a runtime gives its containers: `container=` of systemd's container interface.
NAMED = {
    "docker": DOCKER,
    "podman": PODMAN,
    "oci": PODMAN,
    "kubernetes": KUBERNETES,
    "lxc": LXC,
    "lxc-libvirt": LXC,
    "systemd-nspawn": NSPAWN,
}
# Other values of it, that other parts of the probe know.
NO_CONTAINERS = ("wsl", "firejail", "flatpak")
# A word in a line of /proc/self/cgroup, which shows it where the cgroups have no namespace of their own.
IN_CGROUPS = (("kubepods", KUBERNETES), ("libpod", PODMAN), ("docker", DOCKER), ("/lxc", LXC))


def find_container(host: Host) -> Container | None:
    """The container in which this runs; None outside of one. Kubernetes first: its runtimes show as well."""
    if host.has("/var/run/secrets/kubernetes.io") or host.variable("KUBERNETES_SERVICE_HOST"):
        return KUBERNETES
    if host.has("/run/.containerenv"):
        return PODMAN
    if host.has("/.dockerenv"):
        return DOCKER
    name = host.read("/run/systemd/container").strip()
    name = name or host.variable("container") or host.variable("container", "1")
    if name in NAMED:
        return NAMED[name]
    groups = host.read("/proc/self/cgroup")
    for word, container in IN_CGROUPS:
        if word in groups:
            return container
    return OTHER if name not in ("", *NO_CONTAINERS) else None
