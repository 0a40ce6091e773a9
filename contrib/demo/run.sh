#!/usr/bin/env bash
# The demo: writes a sample site as an archive, mounts it, looks at it with ordinary tools, copies it out
# and unmounts.  `make demo` sets up what it needs.  Nothing is left behind, whatever happens.
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/../.."
export PATH="$PWD/.venv/bin:$PATH"
export LC_ALL=C.UTF-8

[ -e /dev/fuse ] || {
    echo "demo: there is no /dev/fuse here; 'archivefs doctor' says what to do" >&2
    exit 1
}

work="$(mktemp -d)"
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

clean_up() {
    local status=$? point
    cd /
    for point in "$work"/*/; do
        ! mountpoint -q "$point" || fusermount3 -u "$point" || fusermount3 -uz "$point" || true
    done
    chmod -R u+w "$work" 2>/dev/null || true
    rm -rf --one-file-system "$work"
    exit "$status"
}

title() {
    printf '\n== %s\n' "$1"
}

# Show a command as it would be typed, and run it.
show() {
    printf '$ %s\n' "$1"
    bash -euo pipefail -c "$1"
}

python -m tests.samples.site "$work" >/dev/null
cd "$work"

title "A website in a Labrador archive"
show "archivefs mount -o base_url=https://island.example/ island.lbz island"
show "find island -type f | sort"
show "grep -r -i boats island"
show "getfattr -d island/walks/mühle.html"
show "rsync -aX --chmod=u+w island/ copy/ && diff -r island copy && echo the copy is the same"
show "archivefs umount island"

title "A website in a plain zip"
show "archivefs mount site.zip site"
show "find site -type f | sort"
show "grep -r boats site"
show "getfattr -d site/index.html"
show "archivefs umount site"

title "A Crystal project, with every version of every page"
show "archivefs mount harbour.crystalproj harbour"
show "find harbour/web -type f | sort"
show "ls harbour/history/https/harbour.example/^index^revs"
show "grep -r boats harbour/web"
show "getfattr -d -m 'url|status|date' harbour/site/index.html"
show "archivefs umount harbour"

title "The same without mounting"
show "archivefs find island.lbz /ferries/"
show "archivefs verify island.lbz site.zip harbour.crystalproj"

title "A folder of crawls, and what the last one changed"
show "archivefs mount storage crawls"
show "ls crawls crawls/domains/WIKI"
show "cat 'crawls/diffs/WIKI/2025-03-02_06-00-00_[WIKI]_crawl_all_full/01_files/handbook/files_map.csv.diff.csv'"
show "archivefs umount crawls"

title "A URL database: every record a file"
mkdir urls
printf -- '---\n---\n_path: /\ncontent-type: text/html\n---\n_path: /news/\n' >urls/harbour.example.yaml
show "archivefs mount -o rw urls records"
show "find records -type f | sort"
show "echo 'content-type: text/css' > records/harbour.example/style.css.yaml"
show "archivefs umount records"
show "cat urls/harbour.example.yaml"

title "A centidb store, without the program that wrote it"
show "archivefs mount library.lmdb library"
show "ls library/collections/people/records"
show "cat library/collections/people/decoded/Pa3.yaml"
show "archivefs umount library"

title "Changing an archive as a folder"
show "archivefs mount -o rw island.lbz island"
show "echo '<p>The mill is open again.' > island/news.html && rm island/README.TXT"
show "archivefs status island"
show "archivefs umount island"
show "archivefs verify island.lbz && archivefs cat island.lbz:/news.html"

title "Done"
