"""What is denied outright in every mode: more privilege, the end of the system or its disks, the way out"
" of the wrap."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

PRIVILEGE: Final = "it asks for more privilege than the session has"
SYSTEM: Final = "it stops, rewires or destroys the system"
DISK: Final = "it destroys what is on a disk"
ESCAPE: Final = "it leads out of the sandbox or the container"


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Names of programs -> why. Compared in lower case: some file systems do not tell the cases apart.
DENIED: Final[Mapping[str, str]] = MappingProxyType(
    dict.fromkeys(
        _words(
            "sudo sudoedit su doas pkexec runuser setpriv gosu su-exec calife super sudo-rs run0 visudo"
            " vipw vigr "
            "passwd chpasswd useradd userdel usermod groupadd groupdel groupmod adduser deluser addgroup"
            " delgroup "
            "newusers newgrp sg chsh chfn setcap capsh gpasswd dscl dseditgroup dsenableroot"
        ),
        PRIVILEGE,
    )
    | dict.fromkeys(
        _words(
            "shutdown reboot halt poweroff init telinit kexec insmod rmmod modprobe iptables ip6tables nft "
            "ufw firewall-cmd iptables-restore ip6tables-restore ebtables pfctl efibootmgr grub-install "
            "update-grub bootctl csrutil nvram spctl kextload kextunload swapoff swapon update-initramfs "
            "dracut setenforce hwclock"
        ),
        SYSTEM,
    )
    | dict.fromkeys(
        _words(
            "mkfs mke2fs mkswap fdisk sfdisk cfdisk gdisk sgdisk parted partprobe wipefs blkdiscard"
            " badblocks "
            "cryptsetup lvremove vgremove pvremove lvreduce vgreduce mdadm hdparm nvme zpool zfs debugfs"
            " tune2fs "
            "resize2fs e2fsck fsck xfs_repair diskutil newfs newfs_apfs newfs_hfs losetup dmsetup"
            " sg_format "
            "mkdosfs mkntfs nwipe scrub"
        ),
        DISK,
    )
    | dict.fromkeys(
        _words(
            "nsenter unshare chroot pivot_root switch_root mount umount fusermount fusermount3 systemd-run "
            "systemd-nspawn machinectl lxc lxc-attach lxc-start lxd incus ctr runc crun at batch atd"
            " launchctl "
            "flatpak-spawn host-spawn distrobox-host-exec toolbox distrobox firejail cgexec"
        ),
        ESCAPE,
    )
)  # fmt: skip
# Beginnings of names.
DENIED_BEGINNINGS: Final[Mapping[str, str]] = MappingProxyType(
    {"mkfs.": DISK, "fsck.": DISK, "newfs_": DISK, "mount.": ESCAPE, "umount.": ESCAPE}
)
# Rows, where a program does more than the one thing.
DENIED_ROWS: Final[Mapping[str, str]] = MappingProxyType(
    dict.fromkeys(
        (
            "systemctl poweroff",
            "systemctl reboot",
            "systemctl halt",
            "systemctl kexec",
            "systemctl suspend",
            "systemctl hibernate",
            "systemctl rescue",
            "systemctl emergency",
            "systemctl isolate",
            "systemctl switch-root",
        ),
        SYSTEM,
    )
    | dict.fromkeys(
        (
            "ip netns exec",
            "docker plugin install",
        ),
        ESCAPE,
    )
)

# Containers that are no containers: options of `docker run`, `create`, `exec` and their like.
CONTAINER_FLAGS: Final = frozenset({"--privileged"})
CONTAINER_CAPABILITIES: Final = frozenset({"--cap-add"})
# Options that share something of the host, with the values that do.
CONTAINER_SHARES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "--pid": frozenset({"host"}),
        "--ipc": frozenset({"host"}),
        "--uts": frozenset({"host"}),
        "--userns": frozenset({"host"}),
        "--cgroupns": frozenset({"host"}),
        "--net": frozenset({"host"}),
        "--network": frozenset({"host"}),
        "--security-opt": frozenset(
            {
                "seccomp=unconfined",
                "apparmor=unconfined",
                "label=disable",
                "label:disable",
                "systempaths=unconfined",
            }
        ),
    }
)
# Options that show a device or a directory of the host, and the sources that are too much.
CONTAINER_DEVICES: Final = frozenset({"--device"})
CONTAINER_MOUNTS: Final = frozenset({"-v", "--volume", "--mount"})
CONTAINER_SOURCES: Final = frozenset(
    {"/", "/etc", "/root", "/home", "/proc", "/sys", "/dev", "/boot", "/usr", "/var", "/var/run", "/run",
     "/var/run/docker.sock", "/run/docker.sock", "/var/lib/docker", "/Users", "/private", "~"}
)  # fmt: skip
CONTAINERS: Final = frozenset({"docker", "podman", "nerdctl"})

# Files that are disks or the machine's memory. Whoever writes there is denied.
DEVICES: Final = (
    r"/dev/(?:sd[a-z]+|hd[a-z]+|vd[a-z]+|xvd[a-z]+|nvme|mmcblk|disk|rdisk|loop|dm-|mapper/|md\d|ram\d"
    r"|mem\b|kmem\b|port\b"
    r"|sr\d|zd\d|nbd\d|block/)|/proc/(?:sysrq-trigger|sys/|kcore)|/sys/(?:kernel|firmware|block|class|power)"
)
# Directories that nothing is left of once they are deleted, or everything in them.
WHOLE: Final = frozenset(
    {"/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/opt", "/proc", "/root", "/run",
     "/sbin", "/srv",
     "/sys", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/sbin", "/usr/share", "/var", "/var/lib",
     "/var/log",
     "/Applications", "/Library", "/System", "/Users", "/Volumes", "/private", "/private/etc",
     "/private/var"}
)  # fmt: skip
# Programs that delete or change a whole tree, with the options that make them do so; without any they always do.
TREES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "rm": frozenset(),
        "chmod": frozenset({"-R", "--recursive"}),
        "chown": frozenset({"-R", "--recursive"}),
        "chgrp": frozenset({"-R", "--recursive"}),
        "setfacl": frozenset({"-R", "--recursive"}),
        "chattr": frozenset({"-R"}),
        "mv": frozenset(),
        "find": frozenset(),
        "rimraf": frozenset(),
        "shred": frozenset(),
    }
)
