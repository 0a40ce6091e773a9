#compdef archivefs
# Completion of archivefs for zsh.

_archivefs_mounts() {
    local -a names
    names=(${(f)"$(awk '@AWK_MOUNTS@' "@CONFIGURATION@" 2>/dev/null)"})
    compadd "$@" -a names
}

_archivefs_mountpoints() {
    local -a paths
    paths=(${(g::)${(f)"$(awk '@AWK_MOUNTPOINTS@' /proc/self/mounts)"}})
    compadd "$@" -a paths
}

# The commands follow.
_archivefs "$@"
