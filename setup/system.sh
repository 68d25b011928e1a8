# shellcheck shell=sh
# What this system is and how it installs packages. Sourced by the other scripts; POSIX sh.

is_root() { [ "$(id -u)" -eq 0 ]; }

have() { command -v "$1" >/dev/null 2>&1; }

# Field $1 of os-release (ID, VERSION_ID, ID_LIKE), or nothing where there is no such file.
os_release() {
    [ -r "${OS_RELEASE:=/etc/os-release}" ] || return 0
    sed -n "s/^$1=//p" "$OS_RELEASE" | tr -d "\"'"
}

# The system's package manager: one word, "none" if we know none.
package_manager() {
    if [ "$(uname -s)" = Darwin ]; then
        echo brew
        return
    fi
    for manager in apt-get dnf pacman zypper apk; do
        if have "$manager"; then
            echo "$manager"
            return
        fi
    done
    echo none
}

# The command that installs packages "$@", as its reader would type it.
install_command() {
    case $(package_manager) in
        apt-get) command="apt-get install -y $*" ;;
        dnf) command="dnf install -y $*" ;;
        pacman) command="pacman -S --needed $*" ;;
        zypper) command="zypper install -y $*" ;;
        apk) command="apk add $*" ;;
        brew) echo "brew install $*"; return ;;
        *) echo "install with this system's package manager: $*"; return ;;
    esac
    if is_root; then echo "$command"; else echo "sudo $command"; fi
}

# Installs Debian or Ubuntu packages; the lists are fetched only when the machine's own do not do.
apt_install() {
    echo "set-up: apt-get install $*" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 && return
    apt-get update -qq >&2 && apt-get install -y -qq --no-install-recommends "$@" >&2
}
