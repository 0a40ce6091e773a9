#!/usr/bin/env bash
# Looks at mounts with a real file manager, on a screen that nobody sees:
#
#   contrib/desktop/look.sh PICTURE [PICTURE OF THE SECOND WINDOW]
#
# A sample archive is mounted and shown in pcmanfm, another one with `archivefs open`, and a third is opened as by a click.
# Of the first two windows, known by the name of the folder, pictures are taken (PNG). It fails if a window does not come,
# or if what the file manager reads and looks for met a problem; what that cost is told. `contrib/setup.sh desktop`
# installs what it needs. Nothing is left behind, whatever happens.
set -euo pipefail
mapfile -t pictures < <(realpath -m -- "$@")
cd -P "$(dirname "${BASH_SOURCE[0]}")/../.."
export PATH="$PWD/.venv/bin:$PATH" LC_ALL=C.UTF-8

[ $# -ge 1 ] || {
    echo "usage: contrib/desktop/look.sh PICTURE [PICTURE OF THE SECOND WINDOW]" >&2
    exit 2
}
window_s="${LOOK_S:-20}" # how long a window may take

work="$(mktemp -d)"
children=()
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

clean_up() {
    local status=$? point child
    # The file manager before its screen.
    for child in $(printf '%s\n' "${children[@]}" | tac); do
        kill "$child" 2>/dev/null && wait "$child" 2>/dev/null || true
    done
    for point in "$work"/mounted "$work"/archivefs/*; do
        ! mountpoint -q "$point" || fusermount3 -u "$point" || fusermount3 -uz "$point" || true
    done
    rm -rf --one-file-system "$work"
    exit "$status"
}

fail() {
    echo "look: $*" >&2
    exit 1
}

# A home folder of its own, with our types and entries in it as `make install-system` installs them for everybody.
furnish_home() {
    export HOME="$work" XDG_RUNTIME_DIR="$work/run" XDG_CONFIG_HOME="$work/.config" XDG_CACHE_HOME="$work/.cache"
    export XDG_DATA_HOME="$work/.local/share" GIO_USE_VOLUME_MONITOR=unix NO_AT_BRIDGE=1
    unset WAYLAND_DISPLAY DBUS_SESSION_BUS_ADDRESS XDG_CURRENT_DESKTOP
    mkdir -p -m 700 "$XDG_RUNTIME_DIR"
    mkdir -p "$XDG_DATA_HOME/mime/packages" "$XDG_DATA_HOME/applications" "$XDG_CONFIG_HOME"
    cp contrib/mime/archivefs.xml "$XDG_DATA_HOME/mime/packages"
    cp contrib/desktop/archivefs.desktop "$XDG_DATA_HOME/applications"
    update-mime-database "$XDG_DATA_HOME/mime"
    update-desktop-database "$XDG_DATA_HOME/applications"
    python -m tests.samples.site "$work" >/dev/null
    cp "$work/island.lbz" "$work/a click.lbz"
}

start_screen() {
    mkdir "$work/screen"
    Xvfb -displayfd 3 -screen 0 900x560x24 -fbdir "$work/screen" -nolisten tcp 3>"$work/display" 2>"$work/xvfb.log" &
    children+=($!)
    wait_for 10 test -s "$work/display" || fail "no screen: $(cat "$work/xvfb.log")"
    DISPLAY=":$(cat "$work/display")"
    export DISPLAY
}

# wait_for SECONDS COMMAND...: until it succeeds; fails when it has not in that time.
wait_for() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.1
    done
}

# look NAME MOUNT [PICTURE]: waits for the window with that name, takes the picture, and says what it cost the mount.
look() {
    wait_for "$window_s" xdotool search --onlyvisible --name "^$1\$" || fail "no window is called $1: $(cat "$work/log")"
    [ -z "${3-}" ] || python contrib/desktop/picture.py "$work/screen/Xvfb_screen0" "$3"
    [ ! -s "$2/.archivefs/errors.log" ] || fail "problems: $(cat "$2/.archivefs/errors.log")"
    echo "$1: shown; $(python -c 'import json, sys
counts = json.load(open(sys.argv[1]))["operations"]
print(sum(counts.values()), "operations, no problem")' "$2/.archivefs/status.json")"
}

furnish_home
start_screen
archivefs mount "$work/site.zip" "$work/mounted"
pcmanfm "$work/mounted/images" >"$work/log" 2>&1 &
children+=($!)
wait_for "$window_s" grep -q '"open"' "$work/mounted/.archivefs/status.json" || true # for the thumbnail
look images "$work/mounted" "${pictures[0]}"
archivefs open "$work/island.lbz" >/dev/null
look island.lbz "$work/archivefs/island.lbz" "${pictures[1]-}"
gio open "$work/a click.lbz" >/dev/null
look "a click.lbz" "$work/archivefs/a click.lbz"
