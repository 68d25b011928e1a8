#!/bin/sh
# Writes requirements.lock from pyproject.toml: one file for every supported Python and platform, each package
# pinned by hash, no address of any index in it. Keeps the versions that still fit; --upgrade takes the newest.
set -eu
cd "$(dirname "$0")/.."
uv=.cache/lock/bin/uv

if ! [ -x "$uv" ]; then
    mkdir -p .cache
    python=$(sh setup/find-python.sh)
    "$python" -I -m venv --clear .cache/lock
    .cache/lock/bin/python -I -m pip install -qq uv
fi

# --no-config and the empty variables: a private index or a local wheel of this machine must not get in.
env -u UV_INDEX -u UV_EXTRA_INDEX_URL -u UV_FIND_LINKS "$uv" pip compile pyproject.toml \
    --group build --group dev --no-config \
    --universal --python-version 3.12 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --no-annotate --no-header --quiet \
    --output-file requirements.lock "$@"

if grep -nE '://|^-|[[:space:]]@[[:space:]]' requirements.lock; then
    echo "lock: requirements.lock names a place to download from, or an option (above)" >&2
    exit 1
fi
