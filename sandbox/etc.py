"""The wrap's view of /etc: an allow-list, and of that only what every user of the host may read.

Neither half is enough. Readable-by-all alone would show whatever some package left readable (mail and VPN logins,
`pip.conf` with a password in a URL). The list alone would show more than it means: the wrap of root keeps root's
identity, and an ordinary user keeps their groups (`shadow`, `ssl-cert`, `adm`), so the kernel's own check inside says
yes to private keys below a directory on the list. Therefore every entry's mode is looked at, all the way down.
What is missing can be given with `--bind /etc/NAME:ro`.
"""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import translate

# What compilers, interpreters, shells, TLS and locale code look for. Names below /etc; globs allowed.
LISTED = (
    # the dynamic linker, alternatives, the system's name
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "static",
    "os-release", "lsb-release", "debian_version", "redhat-release", "system-release", "alpine-release", "*-release",
    # names and numbers of protocols; no resolver: names are the proxy's business
    "nsswitch.conf", "protocols", "services", "rpc", "ethertypes", "networks", "host.conf", "gai.conf", "netconfig",
    # certificates of authorities, not private keys
    "ssl", "pki", "ca-certificates", "ca-certificates.conf", "crypto-policies", "gnutls",
    # time, language, terminals
    "localtime", "timezone", "locale.alias", "locale.conf", "locale.gen", "default/locale", "terminfo", "inputrc",
    "bindresvport.blacklist", "mime.types", "mailcap", "magic", "magic.mime", "papersize",
    # shells
    "bash.bashrc", "bashrc", "bash_completion", "bash_completion.d", "profile", "profile.d", "shells", "zsh",
    "zshrc", "zshenv", "zprofile", "fish", "csh.cshrc", "csh.login", "DIR_COLORS", "login.defs",
    # languages and their tools
    "python*", "perl", "php*", "java*", ".java", "jvm*", "maven", "ruby*", "R", "lua*", "emacs", "dotnet", "gdb",
    "debuginfod", "texmf", "groff", "manpath.config", "man_db.conf", "ImageMagick*", "OpenCL", "glvnd", "vulkan",
    "fonts", "vim", "vimrc", "virc", "nanorc", "screenrc", "tmux.conf", "less*", "libnl", "libpaper.d", "xml", "sgml",
    # the client side of ssh
    "ssh/ssh_config", "ssh/ssh_config.d", "ssh/ssh_known_hosts",
)  # fmt: skip

# Below a listed directory, never, whatever the mode says.
NEVER = (
    "private", "*_key", "*.key", "shadow*", "gshadow*", "sudoers*", "*password*", "*secret*", "settings-security.xml",
)  # fmt: skip

_LISTED = re.compile("|".join(translate(name) for name in LISTED)).match
_NEVER = re.compile("|".join(translate(name.lower()) for name in NEVER)).match

# Entries looked at below one listed directory; certificate directories hold some hundred.
DEPTH_LIMIT = 8
ENTRY_LIMIT = 20_000


@dataclass(frozen=True, slots=True)
class EtcEntry:
    """One thing to show: a file or directory to bind read-only, or, with `target`, a symlink to make."""

    path: str
    target: str = ""


# What was looked at, and when it was last changed (ns; 0: it was not there): the view is the same as long as that is.
# Links change only with the directory they are in.
Seen = dict[str, int]


def view_etc(root: str = "/etc", seen: Seen | None = None) -> tuple[EtcEntry, ...]:
    """What of `root` is shown inside, in a stable order. What that follows from is added to `seen`."""
    look = _Look({} if seen is None else seen)
    return tuple(entry for path in _listed(root, look.seen) for entry in look.open_part(path, 0)[0])


def _listed(root: str, seen: Seen) -> Iterator[str]:
    """The paths of the list that exist."""
    _note(root, seen)
    try:
        names = sorted(os.listdir(root))
    except OSError:
        names = []
    for name in names:
        if _LISTED(name):
            yield os.path.join(root, name)
    for listed in LISTED:
        if "/" not in listed:
            continue
        path = os.path.join(root, listed)
        if _is_open(os.path.dirname(path), seen) and os.path.lexists(path):
            yield path


def _note(path: str, seen: Seen) -> None:
    try:
        seen[path] = os.lstat(path).st_ctime_ns
    except OSError:
        seen[path] = 0


def _is_open(folder: str, seen: Seen) -> bool:
    """Whether everybody may reach what is in a directory."""
    _note(folder, seen)
    try:
        real = os.path.realpath(folder)
        _note(real, seen)
        return bool(os.stat(real).st_mode & stat.S_IXOTH)
    except OSError:
        return False


class _Look:
    """One look, with what is left of its budget of entries."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self._left = ENTRY_LIMIT

    def open_part(self, path: str, depth: int) -> tuple[list[EtcEntry], bool]:
        """What of `path` everybody may read, and whether that is all of it (then it is one entry)."""
        self._left -= 1
        if self._left < 0 or depth > DEPTH_LIMIT or _NEVER(path.rpartition("/")[2].lower()):
            return [], False
        try:
            about = os.lstat(path)
            mode = about.st_mode
            if stat.S_ISLNK(mode):
                return [EtcEntry(path, os.readlink(path))], True
            self.seen[path] = about.st_ctime_ns
            if stat.S_ISREG(mode):
                return ([EtcEntry(path)], True) if mode & stat.S_IROTH else ([], False)
            if not stat.S_ISDIR(mode) or not mode & stat.S_IROTH or not mode & stat.S_IXOTH:
                return [], False
            children = [self.open_part(f"{path}/{child}", depth + 1) for child in sorted(os.listdir(path))]
        except OSError:
            return [], False
        if all(whole for _, whole in children):
            return [EtcEntry(path)], True
        return [entry for entries, _ in children for entry in entries], False


def accounts(uid: int, gid: int, name: str, home: str, shell: str) -> tuple[str, str]:
    """The text of passwd and group inside: root, the user with the home of the wrap, and nobody.

    The host's other accounts are not the wrapped process's business; the home is replaced since some programs
    (ssh) ask the account database and not HOME.
    """
    people = {
        0: "root:x:0:0:root:/root:/bin/sh",
        65534: "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin",
    }
    people[uid] = f"{name}:x:{uid}:{gid}:{name}:{home}:{shell}"
    groups = {0: "root:x:0:", 65534: "nogroup:x:65534:"}
    groups.setdefault(gid, f"{name}:x:{gid}:")
    return (
        "".join(f"{people[number]}\n" for number in sorted(people)),
        "".join(f"{groups[number]}\n" for number in sorted(groups)),
    )


def hosts(hostname: str) -> str:
    """The text of hosts inside: loopback, also under the host's own name (Java asks for it)."""
    own = f" {hostname}" if hostname and all(c.isalnum() or c in "-._" for c in hostname) else ""
    return f"127.0.0.1 localhost{own}\n::1 localhost ip6-localhost ip6-loopback\n"
