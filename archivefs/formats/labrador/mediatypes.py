"""Types for extensions that an archive's ``extmime`` does not cover, and ``extmime`` as we write it.

Pure functions, safe from any thread.  The table is our own and not the system's: what is written must not depend on
the machine.
"""

from __future__ import annotations

from collections.abc import Iterable

from archivefs.errors import ContentRefused
from archivefs.formats.labrador import extmime
from archivefs.formats.labrador.keyvalue import records, wrong_lines

_UTF8 = "; charset=UTF-8"

TABLE: dict[str, str] = {
    "html": "text/html" + _UTF8,
    "htm": "text/html" + _UTF8,
    "xhtml": "application/xhtml+xml",
    "txt": "text/plain" + _UTF8,
    "md": "text/markdown" + _UTF8,
    "css": "text/css" + _UTF8,
    "csv": "text/csv" + _UTF8,
    "ics": "text/calendar" + _UTF8,
    "vcf": "text/vcard" + _UTF8,
    "vtt": "text/vtt" + _UTF8,
    "js": "text/javascript" + _UTF8,
    "mjs": "text/javascript" + _UTF8,
    "json": "application/json",
    "map": "application/json",
    "geojson": "application/geo+json",
    "jsonld": "application/ld+json",
    "webmanifest": "application/manifest+json",
    "xml": "application/xml",
    "xsl": "application/xml",
    "xslt": "application/xslt+xml",
    "dtd": "application/xml-dtd",
    "rss": "application/rss+xml",
    "atom": "application/atom+xml",
    "wasm": "application/wasm",
    "png": "image/png",
    "apng": "image/apng",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "avif": "image/avif",
    "svg": "image/svg+xml",
    "svgz": "image/svg+xml",
    "ico": "image/vnd.microsoft.icon",
    "bmp": "image/bmp",
    "tif": "image/tiff",
    "tiff": "image/tiff",
    "jxl": "image/jxl",
    "heic": "image/heic",
    "woff": "font/woff",
    "woff2": "font/woff2",
    "ttf": "font/ttf",
    "otf": "font/otf",
    "eot": "application/vnd.ms-fontobject",
    "mp3": "audio/mpeg",
    "m4a": "audio/mp4",
    "aac": "audio/aac",
    "oga": "audio/ogg",
    "ogg": "audio/ogg",
    "opus": "audio/ogg",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "mid": "audio/midi",
    "midi": "audio/midi",
    "mp4": "video/mp4",
    "m4v": "video/mp4",
    "webm": "video/webm",
    "ogv": "video/ogg",
    "mov": "video/quicktime",
    "avi": "video/vnd.avi",
    "mpg": "video/mpeg",
    "mpeg": "video/mpeg",
    "pdf": "application/pdf",
    "ps": "application/postscript",
    "eps": "application/postscript",
    "rtf": "application/rtf",
    "epub": "application/epub+zip",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "ppt": "application/vnd.ms-powerpoint",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "odt": "application/vnd.oasis.opendocument.text",
    "ods": "application/vnd.oasis.opendocument.spreadsheet",
    "odp": "application/vnd.oasis.opendocument.presentation",
    "zip": "application/zip",
    "gz": "application/gzip",
    "tgz": "application/gzip",
    "tar": "application/x-tar",
    "bz2": "application/x-bzip2",
    "xz": "application/x-xz",
    "zst": "application/zstd",
    "7z": "application/x-7z-compressed",
    "rar": "application/vnd.rar",
    "jar": "application/java-archive",
    "swf": "application/vnd.adobe.flash.movie",
    "torrent": "application/x-bittorrent",
    "asc": "application/pgp-signature",
    "sig": "application/pgp-signature",
    "bin": "application/octet-stream",
}


def completed(data: bytes, names: Iterable[str]) -> bytes:
    """The text *data* in our order, with a line more for each extension among the lower-cased encoded *names* that
    it does not cover and our table knows.  A catch-all covers every extension."""
    lines = [(key, value) for _, key, value in records(data)]
    declared = extmime.Types(data)
    if not any(key == extmime.CATCH_ALL for key, _ in lines):
        found = {_known_extension(name) for name in names if not declared.covers(name)} - {""}
        lines += [(key, TABLE[key]) for key in found]
    # Stable: of equal keys the first one counts, so they must not change places.
    return _text(sorted(lines, key=lambda line: line[0]))


def tidied(data: bytes) -> bytes:
    """The same records in our order."""
    return completed(data, ())


def checked(data: bytes) -> bytes:
    """*data*, if it is legal type declarations; raises ContentRefused with the first thing that is wrong."""
    for number, _ in wrong_lines(data):
        raise ContentRefused(f"line {number} is not an extension and its type, with a space between")
    seen: set[str] = set()
    for number, key, _ in records(data):
        if not extmime.is_legal_key(key):
            raise ContentRefused(f"line {number}: {key!r} cannot be an extension")
        if key in seen:
            raise ContentRefused(f"line {number}: {key!r} was declared before")
        seen.add(key)
    return data


def _known_extension(name: str) -> str:
    """The longest extension of *name* that our table has and ``extmime`` may hold, or nothing."""
    at = name.find(".")
    while at >= 0:
        extension = name[at + 1 :]
        if extension in TABLE and extmime.is_legal_key(extension):
            return extension
        at = name.find(".", at + 1)
    return ""


def _text(lines: Iterable[tuple[str, str]]) -> bytes:
    return "".join(f"{key} {value}\n" for key, value in lines).encode("ascii")
