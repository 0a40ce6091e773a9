"""What the pages say beyond the help of the commands."""

from __future__ import annotations

OVERVIEW = (
    "archivefs shows archives of websites as ordinary folders, so that ls, grep, rsync, an editor or a browser can "
    "read them without unpacking. A format is recognised by what is in the file, not by its name.",
    "Every mount has a folder .archivefs at its root, which is not listed: status.json in it says how the mount is "
    "doing, and errors.log which problems were met.",
    "An archive that is mounted read-only is never touched. Damage is an error when the damaged file is read, and the "
    "rest stays readable.",
    "Where a command takes SRC[:/PATH], the path is that of a file or folder in the archive.",
)

EXIT_CODES_OF_ALL = (
    ("130", "interrupted, by Ctrl-C"),
    ("141", "nobody reads the output any more"),
)

ENVIRONMENT = (
    ("XDG_CONFIG_HOME", "The folder of archivefs/config.yaml, where it is not ~/.config."),
    ("XDG_CACHE_HOME", "The folder of archivefs/index, where it is not ~/.cache."),
    ("DISPLAY, WAYLAND_DISPLAY", "Where one of them is set, archivefs open shows the folder in a file manager."),
    ("FUSE_LIBRARY_PATH", "The libfuse 2 that the transport fusepy uses."),
    ("PERSISTENT_STORAGE_PATH", "The storage into which programs that import the format crawls create archives."),
)

FILES = (
    ("~/.config/archivefs/config.yaml", "Defaults for options, and mounts with a name; see archivefs.yaml(5)."),
    ("~/.cache/archivefs/index", "Tables of large archives, which make their next mount quick. May be deleted."),
    ("~/archivefs", "Where archivefs open makes its mounts."),
    ("/etc/fuse.conf", "Must say user_allow_other before an ordinary user can mount with -o allow_other."),
    ("/sbin/mount.archivefs", "How mount(8) calls archivefs; see mount.archivefs(8)."),
)

EXAMPLES = (
    (
        "Look at an archive:",
        ("archivefs mount site.zip site", "grep -r boats site", "archivefs umount site"),
    ),
    (
        "Without mounting it:",
        ("archivefs tree site.zip", "archivefs cat site.zip:/style.css", "archivefs verify site.zip"),
    ),
    (
        "Change one, in a format that can be written:",
        ("archivefs mount -o rw site.lbz site", "cp new.html site/", "archivefs umount site"),
    ),
)

OPTION_WORDS = (
    "-o takes NAME=VALUE, or NAME alone for what is only on or off, and several of them with commas between. A comma "
    "in a value is written \\, with a backslash before it."
)

HELPER = (
    "mount(8) calls this helper for the types archivefs and fuse.archivefs; archivefs.FORMAT names the format too. It "
    "is found as /sbin/mount.archivefs and /sbin/mount.fuse.archivefs.",
    "mount(8) hands its helpers rw unless ro was asked for. So rw alone mounts read-only here, and write asks for "
    "writing; ro is stronger than both.",
    "No configuration file is read unless config=PATH is among the options.",
)

HELPER_OPTIONS = (
    ("write", "Mount read-write."),
    ("format=NAME", "Take the archive for this format."),
    ("external=PATH", "An archive or folder that holds what this one leaves out."),
    ("subdir=PATH", "Show this folder of the archive as the root."),
)

CONFIGURATION = (
    "What would be said every time can stand in this file, below XDG_CONFIG_HOME or else ~/.config. There need not be "
    "one. It is written in YAML; anchors, aliases and tags are not allowed.",
    "A named mount goes before its format, a format before the general options, and the command line before all. A "
    "flag is yes or no. Paths begin at the folder of the file; ~ is the home folder. A key that does not exist and a "
    "value that makes no sense end every command that opens an archive.",
    "archivefs config check checks the file, and archivefs config show says which value holds and where it comes from. "
    "-o config=PATH reads another file, -o config=off none.",
)

KEYS = (
    ("options", "Any general option of archivefs-mount(1), for all mounts."),
    ("formats", "By the name of a format: its own options, and general ones for mounts of nothing else."),
    (
        "mounts",
        "By a name for archivefs mount NAME and archivefs umount NAME: sources (one path or a list) and mountpoint; if "
        "needed format, subdir, externals and options.",
    ),
)

CONFIGURATION_EXAMPLE = (
    "options:",
    "  umask: 027",
    "formats:",
    "  crystal:",
    "    redirects: symlink",
    "mounts:",
    "  island:",
    "    sources: ~/archives/island.lbz",
    "    mountpoint: ~/island",
    "    options: {rw: yes}",
)
