"""CrystalTree: a Crystal project as a folder.

    web/ history/ by-id/ roots/ groups/ aliases/ errors/ site project.json

Nodes are made on demand from rows, and an ident leads back to its node by one query (``idents.py``), so that nothing
is remembered however much is walked.  A project lives: what Crystal commits is a new generation, noticed within a
second.  Any thread may call anything; what is shared is guarded where it is (``database.py``, ``bodies.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from archivefs.errors import NotFound, StaleNode, quoted
from archivefs.format import Opening, Page
from archivefs.formats.crystal import failures, gatherings
from archivefs.formats.crystal.bodies import Body, BodyStore
from archivefs.formats.crystal.codings import codings_of, decoded_size, open_decoded
from archivefs.formats.crystal.connection import forward
from archivefs.formats.crystal.database import Database
from archivefs.formats.crystal.export import site_pages
from archivefs.formats.crystal.facts_of import NANO, mtime_ns
from archivefs.formats.crystal.history import (
    ByIdDirectory,
    HistoryView,
    RevisionsDirectory,
    latest_of,
    revision_node,
    revision_parts,
    revisions_of,
    shown_alone,
)
from archivefs.formats.crystal.idents import Fixed, Idents, Meaning, Sort
from archivefs.formats.crystal.location import find_project
from archivefs.formats.crystal.media import cannot_change
from archivefs.formats.crystal.nodes import BodyFile, Link, SmallDirectory, TextFile, lost, relative_path
from archivefs.formats.crystal.project import Project, Resource
from archivefs.formats.crystal.records import Headers, fetch_time
from archivefs.formats.crystal.sight import Choices, Shown, Sight
from archivefs.formats.crystal.summary import facts_of_project, project_document
from archivefs.formats.crystal.url_views import FlatDirectory, UrlDirectory, UrlRoot, UrlView, prefix_at, raw
from archivefs.formats.crystal.urls import forms
from archivefs.formats.crystal.walk import below
from archivefs.formats.crystal.web import WebView
from archivefs.formats.crystal.web_aliases import LINK_EXTRA
from archivefs.readers import BytesReader
from archivefs.tree import Attributes, Capture, Directory, Node, Parts, Reader, Tree, Usage
from archivefs.urlnames import NO_SCHEME, directory_path, scheme_of

MISS_LOOK_S = 0.05
"""How old a look at the database may be when a body is missing."""
_NOT_DECODABLE = -1


class CrystalTree(Tree):
    """An opened project."""

    leads_back = True
    open_needed = True

    def __init__(self, path: str, opening: Opening, database: Database | None = None) -> None:
        """Raises UnreadableArchive.  *database*: opened already, and closed with the tree."""
        place = find_project(path)
        self.project = Project(place, opening.cache, database)
        self.sight = Sight(self.project, choices_of(opening.options))
        self.idents = Idents()
        self.immutable = cannot_change(place.folder)
        self._cache = opening.cache
        self.bodies = BodyStore(place.folder, opening.cache, self.project.owner)
        self.web = WebView(self)
        self.revisions_class: type[RevisionsDirectory] = RevisionsDirectory
        self.remover: Callable[[int], None] | None = None
        """Removes a revision, on a mount where that is allowed."""
        self._history = HistoryView(self)

    # -- the tree --

    def root(self) -> Directory:
        return SmallDirectory(self, Fixed.TOP, self.top_children)

    def top_children(self) -> list[tuple[str, Node]]:
        """What is in the root."""
        of = gatherings.small
        children: list[tuple[str, Node]] = [
            ("web", UrlRoot(self.web, Fixed.WEB)),
            ("history", UrlRoot(self._history, Fixed.HISTORY)),
            ("by-id", ByIdDirectory(self, Fixed.BY_ID)),
        ]
        schema = self.project.edition().schema
        for name, table, ident, make in (
            ("roots", "root_resource", Fixed.ROOTS, gatherings.root_children),
            ("groups", "resource_group", Fixed.GROUPS, gatherings.group_children),
            ("aliases", "alias", Fixed.ALIASES, gatherings.alias_children),
        ):
            if schema.has(table):
                children.append((name, of(self, ident, make)))
        children.append(("errors", of(self, Fixed.ERRORS, failures.error_children)))
        site = self._site()
        if site:
            children.append(("site", site))
        children.append(("project.json", TextFile(self, Fixed.PROJECT_JSON, lambda: project_document(self.project))))
        return children

    def _site(self) -> Link | None:
        """A link to where the site begins, if the project says where and something is stored below."""
        prefix = self.project.edition().properties.get("default_url_prefix")
        parts = directory_path(f"{prefix}/") if prefix and not prefix.endswith("/") else None
        if not parts or self.project.first_below(*below(raw(f"{prefix}/"))) is None:
            return None
        return Link(self, Fixed.SITE, lambda: relative_path((), ("web", *parts)))

    def generation(self) -> int:
        return self.project.generation()

    def usage(self) -> Usage:
        return Usage(size=self.project.database.state.size)

    def facts(self) -> Mapping[str, object]:
        return facts_of_project(self.project)

    def extras(self) -> Mapping[str, Callable[[], Reader]]:
        return {"project.json": lambda: BytesReader(project_document(self.project))}

    def close(self) -> None:
        self.bodies.close()
        self.project.close()

    # -- idents --

    def node(self, ident: int) -> Node:
        meaning = self.idents.meaning(ident)
        try:
            node = self._node(meaning, ident)
        except NotFound as error:
            raise StaleNode(archive=self.project.place.folder) from error
        if node is None:
            raise StaleNode(archive=self.project.place.folder)
        return node

    def _node(self, meaning: Meaning, ident: int) -> Node | None:
        sort, key, extra = meaning
        if sort is Sort.FIXED:
            return self._fixed(key)
        if sort is Sort.WEB:
            return self.web.node_by_id(key)
        if sort in (Sort.WEB_DIR, Sort.HISTORY_DIR):
            return self._url_directory(self.web if sort is Sort.WEB_DIR else self._history, ident, key, extra)
        if sort in (Sort.REVISION, Sort.BY_ID):
            return revision_node(self, sort, key)
        if sort is Sort.REVISIONS:
            return revisions_of(self, key)
        if sort is Sort.LATEST:
            return latest_of(self, key) if revisions_of(self, key) else None
        return self._other_node(meaning)

    def _other_node(self, meaning: Meaning) -> Node | None:
        sort, key, extra = meaning
        edition = self.project.edition()
        if sort is Sort.ROOT:
            return next((gatherings.root_link(self, root) for root in edition.roots if root.id == key), None)
        if sort is Sort.GROUP:
            return next(
                (gatherings.group_node(self, group, extra) for group in edition.groups if group.id == key), None
            )
        if sort is Sort.MEMBER:
            group = next((group for group in edition.groups if group.id == extra), None)
            resource = self.project.resource(key)
            return gatherings.member_link(self, group, resource) if group and resource else None
        if sort is Sort.ALIAS:
            if extra >= LINK_EXTRA:
                return self.web.alias_links.node(key, extra)
            return next((gatherings.alias_node(self, alias) for alias in edition.aliases if alias.id == key), None)
        return self._failure_node(meaning)

    def _failure_node(self, meaning: Meaning) -> Node | None:
        sort, key, extra = meaning
        if sort is Sort.FETCH_ERROR:
            return failures.fetch_error(self, key)
        if sort is Sort.STATUS and not extra:
            return failures.status_directory(self, key) if key in failures.statuses(self) else None
        if self.project.revision(key) is None:
            return None
        return failures.status_link(self, key) if sort is Sort.STATUS else failures.no_cookie_link(self, key)

    def _fixed(self, key: int) -> Node | None:
        if key == Fixed.TOP:
            return self.root()
        if key in (Fixed.WEB_NO_SCHEME, Fixed.HISTORY_NO_SCHEME):
            return (self.web if key == Fixed.WEB_NO_SCHEME else self._history).top(NO_SCHEME)
        for children in (self.top_children(), failures.error_children(self)):
            for _, node in children:
                if node.ident == key:
                    return node
        return None

    def _url_directory(self, view: UrlView, ident: int, key: int, depth: int) -> Node | None:
        resource = self.project.resource(key)
        if resource is None:
            return None
        scheme = scheme_of(resource.url.decode("utf-8", "surrogateescape"))
        if scheme is None:
            return None
        if not resource.url.startswith(scheme.encode("ascii") + b"://"):
            return FlatDirectory(view, ident, f"{scheme}:") if depth == 1 else None
        prefix = prefix_at(resource.url, depth)
        return UrlDirectory(view, ident, prefix) if prefix else None

    # -- bodies --

    def mtime_ns(self) -> int:
        """The time of what has no time of its own."""
        return self.project.database.state.mtime_ns

    def find_body(self, key: int) -> Body | None:
        """Where the body of a revision lies; None if it is lost."""
        edition = self.project.edition()
        body = self.bodies.find(key, edition.major, edition.generation)
        if body is None and (self.project.database.look(max_age_s=MISS_LOOK_S) or self.bodies.moved()):
            self.bodies.forget_folders()  # Crystal may have moved everything under us
            edition = self.project.edition()
            body = self.bodies.find(key, edition.major, edition.generation)
        return body

    def size_of(self, body: Body, headers: Headers) -> int:
        """How many bytes are read from a body."""
        decoded = self._decoded_size(body, headers)
        return body.size if decoded is None else decoded

    def open_body(self, shown: Shown) -> Reader:
        """Open what is shown; raises CorruptMember if its body is lost."""
        if shown.revision is None:
            return BytesReader(b"", mtime_ns=self.mtime_ns())
        body = self.find_body(shown.revision.id)
        if body is None:
            raise lost(self, shown)
        time_ns = mtime_ns(self, shown, body)
        raw_reader = self.bodies.open(body, mtime_ns=time_ns)
        size = self._decoded_size(body, shown.headers)
        if size is None:
            return raw_reader
        attributes = Attributes(size, time_ns, body.version)
        return open_decoded(raw_reader, codings_of(shown.headers), attributes, self._cache, self.project.owner)

    def read_through(self, body: Body, size: int) -> None:
        """Read a body from beginning to end, *size* bytes at a time; raises what is wrong with it."""
        reader = self.bodies.open(body, mtime_ns=0)
        try:
            for offset in range(0, reader.attributes().size, size):
                reader.read_at(offset, size)
        finally:
            reader.close()

    def _decoded_size(self, body: Body, headers: Headers) -> int | None:
        """The size of a body with its codings undone; None if it is served as it lies."""
        codings = codings_of(headers) if self.sight.choices.decode else ()
        if not codings:
            return None
        key = (self.project.owner, "decoded size", body.version, codings)
        size: int | None = self._cache.get(key)
        if size is None:
            reader = self.bodies.open(body, mtime_ns=0)
            try:
                measured = decoded_size(reader, codings)
            finally:
                reader.close()
            size = _NOT_DECODABLE if measured is None else measured
            self._cache.put(key, size, 350)
        return None if size == _NOT_DECODABLE else size

    # -- URLs --

    def find_resource(self, url: str) -> Resource | None:
        """The resource that *url* means, in any of its forms."""
        try:
            candidates = [raw(form) for form in forms(url, self.project.edition().aliases)]
        except UnicodeEncodeError:
            return None
        return next((found for found in map(self.project.resource_by_url, candidates) if found), None)

    def find_shown(self, url: str) -> Resource | None:
        """The same, if it is shown in ``web/``."""
        resource = self.find_resource(url)
        return resource if resource and self.sight.shows(resource) else None

    def captures(self, url: str) -> Iterator[Capture]:
        """What ``web/`` shows of a URL, then every revision in ``history/``, newest first."""
        resource = self.find_resource(url)
        if resource is None:
            return
        node = self.web.node_of(resource)
        shown = self.sight.shown(resource)
        if node and shown and shown.revision:
            yield self._capture(node, ("web", *self.sight.listed_path(resource.url)), shown)
        below_id = 2**63 - 1
        while found := self.project.newest(resource.id, below=below_id, limit=64):
            below_id = -forward(-below_id, -found[-1].id)
            for revision in found:
                if revision.error is None:
                    alone = shown_alone(revision, resource.url)
                    file = BodyFile(self, self.idents.of(Sort.REVISION, revision.id), alone)
                    yield self._capture(file, revision_parts(resource.url, revision.id), alone)

    def pages(self, site: str | None) -> tuple[str, Iterator[Page]]:
        """The pages of one site, by default that of the project's ``default_url_prefix``."""
        return site_pages(self, site)

    def _capture(self, node: Node, parts: Parts, shown: Shown) -> Capture:
        assert shown.revision
        seconds = fetch_time(shown.headers)
        facts: dict[str, object] = {"url": quoted(shown.url or b""), "revision": shown.revision.id}
        body = self.find_body(shown.revision.id)
        facts["body"] = body.where if body else "lost"
        if shown.fallback is not None:
            facts["fallback"] = shown.fallback
        return Capture(
            node=node,
            parts=parts,
            status=shown.revision.status or 0,
            headers=shown.headers,
            time_ns=None if seconds is None else seconds * NANO,
            facts=facts,
        )


def choices_of(options: Mapping[str, object]) -> Choices:
    """What the options of a mount or a command mean."""
    return Choices(
        unfetched=bool(options.get("unfetched")),
        prefer_crystal=options.get("prefer") == "crystal",
        redirects_as_links=options.get("redirects") == "symlink",
        decode=bool(options.get("decode")),
        mtime_last_modified=options.get("mtime") == "last-modified",
    )
