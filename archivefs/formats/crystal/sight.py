"""What ``web/`` shows of a resource, and under which name: decided by rows alone, never by bodies.

Used by the views.  The default revision is the one with the highest id, errors included.  Where that is an error, what
would be shown if the errors did not exist is shown instead (unless ``-o prefer=crystal``); where it is a 304, the
page that it stands for.  The listed names are those of ``urlnames``: the page of a directory is ``index.html``
and the like, where that name is free.

Any thread may call anything; answers are kept in the shared cache for as long as the generation lasts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from archivefs.formats.crystal.connection import forward
from archivefs.formats.crystal.project import ROW_OVERHEAD, Project, Resource
from archivefs.formats.crystal.records import NOT_MODIFIED, Headers, Revision, content_type, merged_headers
from archivefs.formats.crystal.walk import below
from archivefs.urlnames import DIRECTORY_PAGE, NO_SCHEME, PAGE_SUFFIX, index_name, marked_path, split_url

MAX_COMPARED = 4096
"""How many revisions are asked for the page that a 304 stands for."""
_COMPARED_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The options that change what is shown."""

    unfetched: bool = False
    prefer_crystal: bool = False
    redirects_as_links: bool = False
    decode: bool = False
    mtime_last_modified: bool = False


class Shown(NamedTuple):
    """What is shown of a resource, or one revision by itself."""

    url: bytes | None
    """None: a revision whose resource is gone."""
    resource: int
    revision: Revision | None
    """The one whose bytes these are; None: never fetched."""
    headers: Headers = ()
    """Its own, some of them told anew by a 304."""
    fallback: int | None = None
    """The id of the default, if that is an error."""

    @property
    def url_text(self) -> str:
        """The URL as text."""
        return (self.url or b"").decode("utf-8", "surrogateescape")

    @property
    def content_type(self) -> str | None:
        """The content type, if known."""
        return content_type(self.headers, self.url_text) if self.revision else None


class ListedPage(NamedTuple):
    """The page of a directory, as it is listed in that directory."""

    name: str
    resource: Resource


class Sight:
    """What is shown of a project."""

    def __init__(self, project: Project, choices: Choices) -> None:
        self.project = project
        self.choices = choices

    # -- what is shown --

    def shows(self, resource: Resource) -> bool:
        """Is it listed in ``web/``?"""
        if resource.newest is None:
            return self.choices.unfetched
        if not resource.failed:
            return True
        return not self.choices.prefer_crystal and self.project.row("newest_kept", resource.id) is not None

    def shown_at(self, url: bytes) -> Resource | None:
        """The resource of that URL, if it is shown."""
        resource = self.project.resource_by_url(url)
        return resource if resource and self.shows(resource) else None

    def shown(self, resource: Resource) -> Shown | None:
        """What is shown of a resource; None if nothing."""
        return self.project.cached("shown", resource.id, lambda: self._shown(resource), _weight)

    def shown_of(self, resource: int, url: bytes, newest: Revision | None) -> Shown | None:
        """The same where the newest revision is at hand; mostly it is what is shown."""
        if newest is None or newest.error or newest.status == NOT_MODIFIED:
            failed = newest is not None and newest.error is not None
            return self.shown(Resource(resource, url, newest.id if newest else None, failed))
        shown = Shown(url, resource, newest, newest.headers)
        self.project.keep("shown", resource, shown, _weight(shown))
        return shown

    def shown_by_id(self, key: int) -> Shown | None:
        """What is shown of the resource with that id."""
        kept: Shown | None = self.project.kept("shown", key)
        if kept:
            return kept
        resource = self.project.resource(key)
        return self.shown(resource) if resource else None

    def _shown(self, resource: Resource) -> Shown | None:
        if resource.newest is None:
            return Shown(resource.url, resource.id, None) if self.choices.unfetched else None
        newest = self.project.newest(resource.id)
        if not newest:
            return None  # deleted meanwhile
        default, fallback = newest[0], None
        if default.error:
            row = None if self.choices.prefer_crystal else self.project.row("newest_kept", resource.id)
            kept = self.project.revision(row[0]) if row else None
            if kept is None:
                return None
            default, fallback = kept, default.id
        if default.status == NOT_MODIFIED:
            original = self._original(default)
            if original:
                headers = merged_headers(original, default)
                return Shown(resource.url, resource.id, original, headers, fallback)
        return Shown(resource.url, resource.id, default, default.headers, fallback)

    def _original(self, not_modified: Revision) -> Revision | None:
        """The newest page with the same ETag as a 304."""
        tag = not_modified.header("etag")
        below_id, compared = 2**63 - 1, 0
        while tag is not None and compared < MAX_COMPARED:
            found = self.project.newest(not_modified.resource, below=below_id, limit=_COMPARED_AT_ONCE)
            if not found:
                return None
            for revision in found:
                if revision.error is None and revision.status != NOT_MODIFIED and revision.header("etag") == tag:
                    return revision
            below_id, compared = -forward(-below_id, -found[-1].id), compared + len(found)
        return None

    # -- names --

    def listed_page(self, prefix: bytes) -> ListedPage | None:
        """The page that is listed in the directory of *prefix* under a name of its own making."""
        page, beside = self.project.resource_pair(prefix, prefix[:-1])
        if page and self.shows(page):
            name = self._index_name(page)
            return ListedPage(name if self._is_free(prefix + name.encode("ascii")) else DIRECTORY_PAGE, page)
        if beside and _has_page_beside(prefix) and self.shows(beside):
            name = self._index_name(beside)
            if self._is_free(prefix + name.encode("ascii")):
                return ListedPage(name, beside)
        return None

    def is_listed_inside(self, resource: Resource) -> bool:
        """Is the page ``/d`` listed in the directory ``d/``, which is there?"""
        page = self.listed_page(resource.url + b"/")
        return page is not None and page.resource.id == resource.id

    def listed_path(self, url: bytes) -> tuple[str, ...]:
        """Where a URL that is shown is listed below ``web/``; where it would be, if it is not shown."""
        text = url.decode("utf-8", "surrogateescape")
        parts = marked_path(text)
        pieces = split_url(text)
        if pieces.top == NO_SCHEME or pieces.top.endswith(":") or pieces.has_tail:
            return parts
        if not pieces.leaf:
            page = self.listed_page(url)
            return (*parts[:-1], page.name) if page and page.resource.url == url else parts
        if self.project.first_below(*below(url + b"/")) is None:
            return parts
        page = self.listed_page(url + b"/")
        if page and page.resource.url == url:
            return (*parts, page.name)
        return (*parts[:-1], parts[-1] + PAGE_SUFFIX)

    def _index_name(self, resource: Resource) -> str:
        shown = self.shown(resource)
        return index_name(shown.content_type if shown else None)

    def _is_free(self, url: bytes) -> bool:
        return self.project.first_below(*below(url + b"/")) is None and self.shown_at(url) is None


def _has_page_beside(prefix: bytes) -> bool:
    """Can ``/d`` be a page for the directory ``/d/``?  Not ``https:/``, and not ``//`` without a name."""
    return prefix.endswith(b"/") and not prefix.endswith(b"//")


def _weight(shown: Shown) -> int:
    return ROW_OVERHEAD + 4 * sum(len(name) + len(value) for name, value in shown.headers)
