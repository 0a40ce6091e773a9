# Completion of archivefs for fish 3 or later.

# The command that is being typed: archivefs, and the names after it as far as they are commands.
function __archivefs_at
    set -l path archivefs
    set -l typed (commandline -opc)
    for word in $typed[2..-1]
        contains -- "$path $word" $__archivefs_commands; and set path "$path $word"
    end
    test "$path" = "$argv[1]"
end

# All that each of the values may be; files are left to fish.
function __archivefs_offer
    for value in $argv
        switch $value
            case @files
            case @folders
                __fish_complete_directories
            case @mounts
                __archivefs_mounts
            case @mountpoints
                __archivefs_mountpoints
            case '@words_*'
                __archivefs_words (string replace @words_ __archivefs_words_ -- $value)
            case '*'
                echo $value
        end
    end
end

# What stands after -o: the last of several with commas between.
function __archivefs_words
    set -l text (string replace -r '^-o' '' -- (commandline -ct))
    set -l last (string split , -- $text)[-1]
    set -l before (string sub -l (math (string length -- "$text") - (string length -- "$last")) -- "$text")
    for row in $$argv[1]
        set -l fields (string split \t -- $row)
        if not string match -q '*=*' -- $last
            printf '%s\t%s\n' $before$fields[1](test -n "$fields[2]"; and echo =; or echo "") $fields[3]
        else if test "$fields[1]" = (string split -m 1 = -- $last)[1]
            __archivefs_values $before$fields[1]= (string split -m 1 = -- $last)[2] (string sub -s 2 -- $fields[2])
        end
    end
end

function __archivefs_values
    for value in (string split -n ' ' -- $argv[3])
        switch $value
            case @files
                for path in $argv[2]*
                    echo $argv[1]$path(test -d $path; and echo /; or echo "")
                end
            case @folders
                printf "$argv[1]%s\n" (__fish_complete_directories $argv[2])
            case '*'
                echo $argv[1]$value
        end
    end
end

function __archivefs_mounts
    set -l folder $XDG_CONFIG_HOME
    test -n "$folder"; or set folder $HOME/.config
    awk '@AWK_MOUNTS@' $folder/archivefs/config.yaml 2>/dev/null
end

function __archivefs_mountpoints
    for path in (awk '@AWK_MOUNTPOINTS@' /proc/self/mounts)
        printf '%b\n' $path
    end
end
