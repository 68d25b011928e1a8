#!/bin/sh
# Makes .venv: the locked dependencies and this project, editable. Costs nothing when nothing changed.
# Writes nowhere but below the checkout; system packages only as root.
set -eu
cd "$(dirname "$0")/.."
here=$(pwd -P)
stamp=.venv/set-up.stamp

# All that decides what .venv holds; its first line is the checkout's path, since a .venv cannot be moved.
wanted() {
    printf '%s\n' "$here"
    cat setup/setup.sh requirements.lock pyproject.toml
}

venv_runs() { .venv/bin/python -I -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; }

# As root on a system whose own Python is new enough, the missing part of it is a system package like any other.
find_python() {
    sh setup/find-python.sh 2>.cache/find-python.txt && return
    . setup/system.sh
    if [ -z "${PYTHON:-}" ] && is_root && [ "$(package_manager)" = apt-get ]; then
        packages=$(sed -n 's/^    apt-get install -y \(python3[a-z0-9. -]*\)$/\1/p' .cache/find-python.txt)
        # $packages is a list of words.
        # shellcheck disable=SC2086
        if [ -n "$packages" ] && apt_install $packages; then
            sh setup/find-python.sh
            return
        fi
    fi
    cat .cache/find-python.txt >&2
    return 1
}

sh setup/system-packages.sh bwrap:bubblewrap socat:socat

if venv_runs && wanted | cmp -s - "$stamp"; then
    exit 0
fi

if ! venv_runs || [ "$(head -n 1 "$stamp" 2>/dev/null)" != "$here" ]; then
    mkdir -p .cache
    python=$(find_python)
    echo "set-up: new .venv with $python" >&2
    "$python" -I -m venv --clear .venv
fi
rm -f "$stamp"                    # an interrupted set-up starts anew

echo "set-up: installing requirements.lock and agent-gateway into .venv" >&2
# A personal pip configuration may ask for --user, which a virtual environment refuses.
export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1
# Wheels alone: nothing is compiled, and no package runs code while it is installed. -qq: errors, but not what pip
# has to say about this machine's configuration.
.venv/bin/python -I -m pip install -qq --require-hashes --only-binary :all: --requirement requirements.lock
# "compat" writes the checkout's path into a .pth file; the default puts an import hook before every start.
.venv/bin/python -I -m pip install -qq --no-deps --no-build-isolation \
    --config-settings editable_mode=compat --editable .
wanted >"$stamp"
