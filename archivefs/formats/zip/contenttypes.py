"""The content type of a member by the ending of its name: a table of our own.

The standard library's differs from machine to machine and takes a moment to load.
"""

from __future__ import annotations

CONTENT_TYPES = {
    "avif": "image/avif",
    "bmp": "image/bmp",
    "css": "text/css",
    "csv": "text/csv",
    "epub": "application/epub+zip",
    "gif": "image/gif",
    "gz": "application/gzip",
    "htm": "text/html",
    "html": "text/html",
    "ico": "image/vnd.microsoft.icon",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "js": "text/javascript",
    "json": "application/json",
    "md": "text/markdown",
    "mjs": "text/javascript",
    "mp3": "audio/mpeg",
    "mp4": "video/mp4",
    "oga": "audio/ogg",
    "ogg": "audio/ogg",
    "ogv": "video/ogg",
    "pdf": "application/pdf",
    "png": "image/png",
    "rss": "application/rss+xml",
    "svg": "image/svg+xml",
    "tif": "image/tiff",
    "tiff": "image/tiff",
    "ttf": "font/ttf",
    "txt": "text/plain",
    "warc": "application/warc",
    "wasm": "application/wasm",
    "wav": "audio/wav",
    "webm": "video/webm",
    "webmanifest": "application/manifest+json",
    "webp": "image/webp",
    "woff": "font/woff",
    "woff2": "font/woff2",
    "xhtml": "application/xhtml+xml",
    "xml": "application/xml",
    "zip": "application/zip",
}


def content_type(name: bytes) -> str | None:
    """The type for a member's name, or None where its ending is not known."""
    stem, dot, ending = name.rpartition(b"/")[2].rpartition(b".")
    if not dot or not stem:
        return None
    return CONTENT_TYPES.get(ending.decode("ascii", "replace").lower())
