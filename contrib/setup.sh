#!/usr/bin/env bash
# Install what is missing, and nothing else.
#
#   contrib/setup.sh system    Debian packages: FUSE and the programs that the tests and the demo use
#   contrib/setup.sh desktop   Debian packages: a file manager, and a screen that nobody sees, for contrib/desktop/look.sh
#   contrib/setup.sh peers     Debian packages: the tools that the benchmark compares with
#   contrib/setup.sh python    archivefs with all extras and the development tools, in .venv
#
# A second run does nothing: packages are asked for only when a program is not there, and .venv is made
# again only when pyproject.toml, this folder's place or the Python in it have changed.
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/.."
PATH="$PATH:/usr/sbin:/sbin"

main() {
    for part in "$@"; do
        case "$part" in
            system) set_up_system ;;
            desktop) set_up_desktop ;;
            peers) set_up_peers ;;
            python) set_up_python ;;
            *) fail "unknown part '$part': system, desktop, peers or python is expected" ;;
        esac
    done
}

fail() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

# -- Debian packages --

set_up_system() {
    local -a packages=()
    command -v fusermount3 >/dev/null || packages+=(fuse3)
    has_libfuse2 || packages+=("$(libfuse2_package)")
    command -v rsync >/dev/null || packages+=(rsync)
    command -v getfattr >/dev/null || packages+=(attr)
    command -v unzip >/dev/null || packages+=(unzip)
    command -v zip >/dev/null || packages+=(zip)
    command -v git >/dev/null || packages+=(git)
    command -v vim >/dev/null || packages+=(vim)
    command -v nano >/dev/null || packages+=(nano)
    command -v gio >/dev/null || packages+=(libglib2.0-bin)
    command -v update-mime-database >/dev/null || packages+=(shared-mime-info)
    command -v desktop-file-validate >/dev/null || packages+=(desktop-file-utils)
    command -v xmllint >/dev/null || packages+=(libxml2-utils)
    command -v man >/dev/null || packages+=(man-db)
    command -v zsh >/dev/null || packages+=(zsh)
    command -v fish >/dev/null || packages+=(fish)
    command -v systemd-analyze >/dev/null || packages+=(systemd)
    [ "${#packages[@]}" -eq 0 ] || install_packages "${packages[@]}"
    # In a machine that has never mounted anything the module may not be loaded.
    [ -e /dev/fuse ] || as_root modprobe fuse 2>/dev/null || true
}

set_up_desktop() {
    local -a packages=()
    command -v Xvfb >/dev/null || packages+=(xvfb)
    command -v xdotool >/dev/null || packages+=(xdotool)
    command -v pcmanfm >/dev/null || packages+=(pcmanfm)
    [ "${#packages[@]}" -eq 0 ] || install_packages "${packages[@]}" adwaita-icon-theme
}

set_up_peers() {
    local -a packages=()
    command -v fuse-zip >/dev/null || packages+=(fuse-zip)
    command -v archivemount >/dev/null || packages+=(archivemount)
    [ "${#packages[@]}" -eq 0 ] || install_packages "${packages[@]}"
}

# Not with `| grep -q`, which would stop reading at the first match and so make ldconfig fail, now and then.
has_libfuse2() {
    [[ "$(ldconfig -p 2>/dev/null)" == *"libfuse.so.2 "* ]]
}

# Debian 13 calls it libfuse2t64.
libfuse2_package() {
    if apt-cache show libfuse2t64 >/dev/null 2>&1; then echo libfuse2t64; else echo libfuse2; fi
}

install_packages() {
    command -v apt-get >/dev/null || fail "please install: $*"
    echo "setup: installing $*"
    apt_install "$@" && return
    # The lists may be missing or old; they are fetched only now that something is needed.
    as_root apt-get -qq update || fail "apt-get update failed; please install: $*"
    apt_install "$@" || fail "could not be installed: $*"
}

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" >/dev/null
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        fail "this needs root or sudo: $*"
    fi
}

# -- .venv --

set_up_python() {
    local wanted
    wanted="$(cksum <pyproject.toml) $PWD"
    if [ -x .venv/bin/python ] && [ "$(cat .venv/archivefs.stamp 2>/dev/null)" = "$wanted" ] &&
        .venv/bin/python -c 'import archivefs, pytest' 2>/dev/null; then
        return
    fi
    make_environment
    echo "setup: installing archivefs and its tools in .venv"
    .venv/bin/python -m pip --disable-pip-version-check install -qq --editable '.[all,dev]'
    printf '%s\n' "$wanted" >.venv/archivefs.stamp
}

# A .venv that was moved or whose Python is gone is made anew; a good one is kept.
make_environment() {
    if [ "$(.venv/bin/python -c 'import sys; print(sys.prefix)' 2>/dev/null)" = "$PWD/.venv" ] &&
        is_in_place && .venv/bin/python -m pip --version >/dev/null 2>&1; then
        return
    fi
    local python
    python="$(find_python)" || {
        install_packages python3-venv
        python="$(find_python)" || fail "Python 3.10 or later is needed, with venv"
    }
    rm -rf .venv
    "$python" -m venv .venv
}

# activate has the absolute path in it, so it tells whether the folder is still where it was made.
is_in_place() {
    grep -qF "$PWD/.venv" .venv/bin/activate 2>/dev/null
}

# The first Python that is new enough and can make an environment.
find_python() {
    local python
    for python in python3 /usr/bin/python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
        if "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            command -v "$python"
            return
        fi
    done
    return 1
}

main "$@"
