#!/bin/sh
# Prints the path of a Python that can build .venv (CPython >= 3.12 with venv and ensurepip).
# Finds none: says what was tried and the one command that brings one, exit status 1.
# Every candidate is run before it is believed: a pyenv shim exists for each version any project ever used.
# $PYTHON, if set, is the only candidate.
set -u
. "$(dirname "$0")/system.sh"

# Those the lock was tried with come first.
versions="3.13 3.12 3.14"
tried=""
bare=""

# Says "good PATH", "bare X.Y" (no ensurepip), "old X.Y" or "odd NAME". Has to parse in any Python, old ones too.
# In a virtual environment it answers with the interpreter below it, which outlives the environment.
probe='
import sys
version = "%d.%d" % sys.version_info[:2]
name = sys.implementation.name if sys.version_info >= (3, 3) else "python2"
if sys.version_info < (3, 12):
    print("old " + version)
elif name != "cpython" or "free-threading" in sys.version:
    print("odd " + version + " (" + name + ", not an ordinary CPython)")
else:
    try:
        import ensurepip, venv
    except ImportError:
        print("bare " + version)
    else:
        print("good " + (getattr(sys, "_base_executable", None) or sys.executable))
'

# Runs candidate $1; if it serves, prints its path and ends the search.
try() {
    [ -x "$1" ] && [ ! -d "$1" ] || return 0
    answer=$("$1" -I -c "$probe" 2>/dev/null </dev/null) || answer=""
    case $answer in
        "good "*) echo "${answer#good }"; exit 0 ;;
        "bare "*) bare=${answer#bare }; why="$bare, but its ensurepip or venv is missing" ;;
        "old "*) why="${answer#old } is too old" ;;
        "odd "*) why=${answer#odd } ;;
        *) why="does not run" ;;
    esac
    tried="$tried    $1: $why
"
}

# Tries program $1 in every folder on PATH, not only in the first: a shim there may hide a real one.
try_on_path() {
    set -f
    saved_ifs=$IFS
    IFS=:
    for folder in $PATH; do
        IFS=$saved_ifs
        try "${folder:-.}/$1"
    done
    IFS=$saved_ifs
    set +f
}

# The command that brings a Python that serves, on this system.
advice() {
    system=$(os_release ID)-$(os_release VERSION_ID)
    if [ -n "$bare" ] && [ "$(package_manager)" = apt-get ]; then
        install_command "python$bare-venv"
    elif have uv; then
        echo "uv python install 3.13"
    elif have pyenv; then
        echo "pyenv install 3.13"
    else
        case $(package_manager) in
            brew) echo "brew install python@3.13" ;;
            dnf) install_command python3.12 ;;
            pacman) install_command python ;;
            zypper) install_command python312 ;;
            apk) install_command python3 ;;
            apt-get)
                case $system in
                    debian-1[01] | debian-12 | ubuntu-2[0-3].*)
                        # Their own Python is older than 3.12, and so is everything else they package.
                        echo "$(install_command pipx) && pipx install uv && ~/.local/bin/uv python install 3.13" ;;
                    *) install_command python3 python3-venv ;;
                esac ;;
            *) echo "uv python install 3.13    (with uv, from this system's packages or pipx)" ;;
        esac
    fi
}

if [ -n "${PYTHON:-}" ]; then
    case $PYTHON in
        */*) try "$PYTHON" ;;
        *) try_on_path "$PYTHON" ;;
    esac
else
    pyenv=${PYENV_ROOT:-${HOME:-}/.pyenv}
    uv=${UV_PYTHON_INSTALL_DIR:-${XDG_DATA_HOME:-${HOME:-}/.local/share}/uv/python}
    for version in $versions; do
        try_on_path "python$version"
        for candidate in "$pyenv/versions/$version"*/bin/python "$uv/cpython-$version"*/bin/python"$version"; do
            try "$candidate"
        done
    done
    try_on_path python3
    try_on_path python
fi

{
    echo "set-up: no Python that serves: CPython 3.12 or newer with venv and ensurepip is needed."
    if [ -n "$tried" ]; then
        echo "  Tried:"
        printf '%s' "$tried"
    fi
    echo "  This brings one (then run make again):"
    echo "    $(advice)"
} >&2
exit 1
