#!/bin/sh
# System packages that cannot come from .venv. Root on Debian or Ubuntu: installs those that are missing.
# Anybody else: prints the command. Never fails the set-up: what needs them says so itself.
#   system-packages.sh PROGRAM:PACKAGE...
set -u
. "$(dirname "$0")/system.sh"

[ "$(uname -s)" = Linux ] || exit 0   # macOS brings its own sandbox

missing=""
for entry in "$@"; do
    have "${entry%%:*}" || missing="$missing ${entry#*:}"
done
[ -n "$missing" ] || exit 0

# $missing is a list of words.
# An ssh server would start by itself where systemd runs: nobody gets one without having asked.
case "$missing" in
    *openssh-server*) if [ -d /run/systemd/system ] && [ -z "${CI:-}" ]; then TOLD_ONLY=yes; fi ;;
esac

# shellcheck disable=SC2086
if [ -z "${TOLD_ONLY:-}" ] && is_root && [ "$(package_manager)" = apt-get ] && apt_install $missing; then
    exit 0
fi
# shellcheck disable=SC2086
printf 'set-up: missing:%s. This brings what the wrap and the tests need:\n    %s\n' \
    "$missing" "$(install_command $missing)" >&2
