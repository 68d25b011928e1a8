"""Reading PATH, first lines, and the places where programs are installed. Looks at the host, changes nothing."""

import os
from collections.abc import Callable, Sequence

from sandbox.reading import read_start

# Folders whose parent is the install prefix.
PROGRAM_FOLDERS = frozenset({"bin", "sbin", "libexec", "shims", "scripts"})

# A folder on PATH brings its parent along when one of these stands in it: then it is a toolchain and not a project.
TOOLCHAIN_MARKS = (
    "pyvenv.cfg",  # a virtual environment
    "libexec",  # pyenv, rbenv, nodenv
    "shims",  # version managers
    "release",  # a JDK
    "installs",  # mise, asdf
    "install",  # bun
)
# Nobody's project has these: they also count where somebody else may have set the pointer.
TOOLCHAIN_PROOFS = (
    "lib/node_modules",  # nvm, fnm, an npm prefix
    "lib/pkgconfig",  # Python and others built from source, or standalone
    "lib/ruby",
    "lib/rustlib",
    "conda-meta",
    "pkg/tool",  # Go
    "tools/image",  # Volta
)

# Version managers that look for themselves below HOME, which is another one inside: a folder on PATH, the variable that
# says where they are instead, and what it says; all below the user's home.
MANAGED_TOOLCHAINS = {
    ".cargo/bin": ("RUSTUP_HOME", ".rustup"),
    ".volta/bin": ("VOLTA_HOME", ".volta"),
    ".asdf/shims": ("ASDF_DATA_DIR", ".asdf"),
    ".local/share/mise/shims": ("MISE_DATA_DIR", ".local/share/mise"),
}

ALL_MARKS = (*TOOLCHAIN_MARKS, *TOOLCHAIN_PROOFS)

# Always there, so that a PATH of nothing visible still finds the system's programs.
SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")

# The kernel reads no more of a script's first line (BINPRM_BUF_SIZE).
SHEBANG_LIMIT = 256
# A pyvenv.cfg holds five lines.
SETTINGS_LIMIT = 16 << 10


def install_prefixes(path: str) -> tuple[str, ...]:
    """The install prefixes a resolved program path suggests, widest first."""
    found = []
    parts = path.split("/")
    if "node_modules" in parts:
        above = "/".join(parts[: parts.index("node_modules")])
        if os.path.basename(above) == "lib":  # an npm prefix: PREFIX/lib/node_modules/PACKAGE/…
            found.append(os.path.dirname(above))
        else:
            found.append(above + "/node_modules")
    folder = os.path.dirname(path)
    if is_program_folder(folder):
        found.append(os.path.dirname(folder))
    return tuple(prefix for prefix in found if prefix.count("/") > 1)  # not all of /opt or /tmp


def is_toolchain(prefix: str, marks: Sequence[str]) -> bool:
    """Whether something in it says that a toolchain is installed here, and not a project kept."""
    return has_mark(prefix, marks) or holds_python(prefix)


def has_mark(prefix: str, marks: Sequence[str]) -> bool:
    """Whether one of the marks stands in it."""
    return any(os.path.lexists(os.path.join(prefix, mark)) for mark in marks)


def holds_python(prefix: str) -> bool:
    """Whether the library of a Python lies in it; a project in which somebody made a virtual environment has one."""
    try:
        return any(name.startswith("python3.") for name in os.listdir(os.path.join(prefix, "lib")))
    except OSError:
        return False


def is_program_folder(folder: str) -> bool:
    """Whether the folder's name says that programs of one installation lie in it."""
    return os.path.basename(folder).lower() in PROGRAM_FOLDERS


def base_interpreter(settings: str) -> str:
    """The interpreter below a virtual environment, from its pyvenv.cfg; empty when that is none."""
    values: dict[str, str] = {}
    for line in os.fsdecode(read_start(settings, SETTINGS_LIMIT)).split("\n"):
        name, _, value = line.partition("=")
        values[name.strip().lower()] = value.strip()
    home = values.get("home", "")
    if not os.path.isabs(home):
        return ""
    for name in ("python3", "python"):
        if os.path.exists(os.path.join(home, name)):
            return os.path.join(home, name)
    return ""


def shebang(path: str) -> list[str]:
    """The words after `#!`; empty when the file has none or names a relative interpreter."""
    line = os.fsdecode(read_start(path, SHEBANG_LIMIT)).split("\n", 1)[0]
    words = line[2:].split() if line.startswith("#!") else []
    return words if words and os.path.isabs(words[0]) else []


def path_folders(search_path: str) -> tuple[str, ...]:
    """The absolute folders of a PATH, each once; empty and relative entries mean the working directory and are out."""
    return tuple(
        dict.fromkeys(os.path.normpath(part) for part in search_path.split(":") if part.startswith("/"))
    )


def find_program(name: str, folders: Sequence[str], workdir: str) -> str:
    """The absolute path under which execvp would find it; empty when it would not."""
    if "/" in name:
        path = os.path.normpath(os.path.join(workdir, name))
        return path if os.path.isfile(path) else ""
    for folder in folders:
        path = os.path.join(folder, name)
        if name and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""


def path_inside(search_path: str, is_visible: Callable[[str], bool]) -> str:
    """PATH for the wrap: what is there of the host's, then the system's folders."""
    folders = [folder for folder in path_folders(search_path) if os.path.isdir(folder) and is_visible(folder)]
    system = [folder for folder in SYSTEM_PATH if os.path.isdir(folder)]
    return ":".join(dict.fromkeys([*folders, *system]))
