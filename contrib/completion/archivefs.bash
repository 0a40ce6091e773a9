# Completion of archivefs for bash 4.3 or later; bash-completion is not needed.

_archivefs() {
    local current prefix path arguments word
    local -a typed flags
    local -A values
    COMPREPLY=()
    _archivefs_typed
    current=${typed[-1]}
    path=archivefs
    for word in "${typed[@]:1:${#typed[@]}-2}"; do
        _archivefs_command "$path $word" && path="$path $word"
    done
    _archivefs_command "$path"
    word=${typed[-2]}
    if [[ $word == -* && -n ${values[$word]+known} ]]; then
        _archivefs_offer "" "$current" ${values[$word]}
    elif [[ $current == --*=* ]]; then
        _archivefs_offer "${current%%=*}=" "${current#*=}" ${values[${current%%=*}]}
    elif [[ $current == -* ]]; then
        _archivefs_choose "" "$current" "${flags[@]}"
    else
        _archivefs_offer "" "$current" $arguments
    fi
    _archivefs_shorten
}

# The words up to the cursor as they were typed: bash has taken them apart at each = and :.
_archivefs_typed() {
    local left=${COMP_LINE:0:COMP_POINT} index part glued
    typed=()
    for (( index = 0; index <= COMP_CWORD; index++ )); do
        part=${COMP_WORDS[index]}
        glued=yes
        [[ $index -eq 0 || $left == [[:space:]]* ]] && glued=
        left=${left#"${left%%[![:space:]]*}"}
        [[ $left == "$part"* ]] || part=$left
        left=${left#"$part"}
        if [[ $glued ]]; then typed[-1]+=$part; else typed+=("$part"); fi
    done
}

# _archivefs_offer BEFORE TEXT VALUE...: all that begins with TEXT of each of the values.
_archivefs_offer() {
    local before=$1 text=$2 value
    shift 2
    for value in "$@"; do
        case $value in
            @files) _archivefs_paths "$before" "$text" -f ;;
            @folders) _archivefs_paths "$before" "$text" -d ;;
            @mounts) _archivefs_lines "$before" "$text" < <(_archivefs_mounts) ;;
            @mountpoints) _archivefs_lines "$before" "$text" < <(_archivefs_mountpoints) ;;
            @words_*) _archivefs_words "$text" "${value#@words_}" ;;
            *) _archivefs_choose "$before" "$text" "$value" ;;
        esac
    done
}

_archivefs_choose() {
    local before=$1 text=$2 choice
    shift 2
    for choice in "$@"; do
        [[ $choice != "$text"* ]] || COMPREPLY+=("$before$choice")
    done
}

_archivefs_lines() {
    local -a lines
    mapfile -t lines
    _archivefs_choose "$1" "$2" "${lines[@]}"
}

_archivefs_paths() {
    local text=$2 path
    local -a paths
    [[ $text != \~/* ]] || text=$HOME/${text#\~/}
    text=${text//\\/}
    mapfile -t paths < <(compgen "$3" -- "$text")
    compopt -o filenames 2>/dev/null
    for path in "${paths[@]}"; do
        COMPREPLY+=("$1$path")
    done
}

# What stands after -o: the last of several with commas between.
_archivefs_words() {
    local text=${1##*,} names name
    local before=${1%"$text"}
    local -A values
    _archivefs_options "$2"
    compopt -o nospace 2>/dev/null
    name=${text%%=*}
    if [[ $text == *=* ]]; then
        [[ -z $name ]] || _archivefs_offer "$before$name=" "${text#*=}" ${values[$name]}
    else
        _archivefs_choose "$before" "$text" "${names[@]}"
    fi
}

# bash replaces only what follows the last = or :, so that is all that may be offered.
_archivefs_shorten() {
    local index before
    for before in : =; do
        [[ $COMP_WORDBREAKS == *"$before"* && $current == *"$before"* ]] || continue
        prefix=${current%"${current##*"$before"}"}
        for index in "${!COMPREPLY[@]}"; do
            COMPREPLY[index]=${COMPREPLY[index]#"$prefix"}
        done
        current=${current#"$prefix"}
    done
}

_archivefs_mounts() {
    awk '@AWK_MOUNTS@' "@CONFIGURATION@" 2>/dev/null
}

_archivefs_mountpoints() {
    local path
    while read -r path; do
        printf '%b\n' "$path"
    done < <(awk '@AWK_MOUNTPOINTS@' /proc/self/mounts)
}

complete -F _archivefs archivefs
