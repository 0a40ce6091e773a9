"""The HTTP interface: from a request to an answer, without any server.

``web/server.py`` runs it; ``api.py`` does the work.  Checks come in this order: Host, path, method, read-only,
parameters, id.  Delete over GET is a hazard (link checkers, previews, images on foreign pages all send GET), hence the
refusals.  Any thread may call.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from archivefs.format import WebAnswer, WebHandler, WebOffer, WebRequest
from archivefs.formats.crawls import rendering
from archivefs.formats.crawls.api import Api, ApiError, Parameters, envelope
from archivefs.formats.crawls.documentation import PAGES
from archivefs.formats.crawls.products import Product, made
from archivefs.formats.crawls.storage import Storage

LOG = logging.getLogger(__name__)

LIST, GET, DELETE = "/v2/crawler/crawls", "/v2/crawler/crawls/get", "/v2/crawler/crawls/delete"
METHODS = {LIST: ("GET", "HEAD"), GET: ("GET", "HEAD"), DELETE: ("GET", "DELETE")}
FORMATS = {LIST: ("json", "html"), GET: ("json", "csv", "html"), DELETE: ("json",)}
JSON, HTML = "application/json; charset=utf-8", "text/html; charset=utf-8"
CSV, TEXT = "text/csv; charset=utf-8", "text/plain; charset=utf-8"
MAX_FIELDS = 100

_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
}


class Routes:
    """The interface to one storage."""

    def __init__(self, storage: Storage, *, writable: bool = False, get_delete: bool = True) -> None:
        self._storage = storage
        self._api = Api(storage)
        self._writable = writable
        self._get_delete = get_delete

    def __call__(self, request: WebRequest) -> WebAnswer:
        """The answer, whatever happens."""
        parameters: Parameters = {}
        try:
            self._check(request)
            parameters = _parameters(request.query)
            answer = self._answered(request, parameters)
        except ApiError as error:
            answer = _failed(request, parameters, error)
        except Exception:
            LOG.exception("%s: this is a bug in archivefs", request.path)
            answer = _failed(request, parameters, ApiError(500, "Internal error."))
        if request.method == "HEAD":
            return answer._replace(pieces=())
        return answer

    def close(self) -> None:
        """Close the storage."""
        self._storage.close()

    def _check(self, request: WebRequest) -> None:
        if not _HOST.fullmatch(request.headers.get("host", "")):
            raise ApiError(403, "Host not allowed.")
        methods = METHODS.get(request.path)
        if methods is None:
            raise ApiError(404, "Not found.")
        if request.method not in methods:
            raise ApiError(405, f"Method not allowed. Allowed: {', '.join(methods)}.")
        if request.path == DELETE and not _is_bare(request):
            self._check_delete(request)

    def _check_delete(self, request: WebRequest) -> None:
        if not self._writable:
            raise ApiError(403, "Server is read-only.")
        headers = request.headers
        if "prefetch" in f"{headers.get('purpose', '')} {headers.get('sec-purpose', '')}".lower():
            raise ApiError(403, "Delete refused: the request is a prefetch.")
        # Another server on this machine is "same-site": a page of its may not delete here either.
        if headers.get("sec-fetch-site", "").lower() in ("cross-site", "same-site"):
            raise ApiError(403, "Delete refused: the request comes from another site.")
        if request.method == "GET" and not self._get_delete:
            raise ApiError(403, "Delete over GET is turned off.")

    def _answered(self, request: WebRequest, parameters: Parameters) -> WebAnswer:
        if _is_bare(request):
            return _answer(200, TEXT, made(lambda product: product.write_text(PAGES[request.path])))
        format = parameters.get("format", "json")
        if format not in FORMATS[request.path]:
            raise ApiError(400, f"Format '{format}' not supported.")
        serve: Mapping[str, Callable[[Parameters, str], WebAnswer]] = {
            LIST: self._list,
            GET: self._get,
            DELETE: self._delete,
        }
        return serve[request.path](parameters, format)

    def _list(self, parameters: Parameters, format: str) -> WebAnswer:
        data = self._api.list(parameters)
        if format == "html":
            return _answer(200, HTML, made(lambda product: rendering.write_list_page(data, product)))
        return _json(200, envelope(data))

    def _get(self, parameters: Parameters, format: str) -> WebAnswer:
        product = self._api.get(parameters, format)
        answer = _answer(200, {"json": JSON, "html": HTML, "csv": CSV}[format], product)
        if format == "csv":
            answer = answer._replace(headers={**answer.headers, "Content-Disposition": _attachment(parameters["file"])})
        return answer

    def _delete(self, parameters: Parameters, _format: str) -> WebAnswer:
        return _json(200, envelope(self._api.delete(parameters)))


def offer() -> WebOffer:
    """What the format offers to ``archivefs crawls serve``."""
    import click

    def open_routes(path: str, *, rw: bool, no_get_delete: bool) -> tuple[WebHandler, Callable[[], None]]:
        routes = Routes(Storage(path), writable=rw, get_delete=not no_get_delete)
        return routes, routes.close

    return WebOffer(
        open=open_routes,
        options=(
            click.Option(["--rw"], is_flag=True, help="Allow crawls to be deleted."),
            click.Option(["--no-get-delete"], is_flag=True, help="Allow that only by the method DELETE, not by GET."),
        ),
        help="Serve the crawls of STORAGE over HTTP, to this machine alone.",
    )


def _is_bare(request: WebRequest) -> bool:
    return request.method in ("GET", "HEAD") and not request.query


def _parameters(query: str) -> Parameters:
    """By name; the last of several counts, and an empty one is missing."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="replace", max_num_fields=MAX_FIELDS)
    except ValueError:
        raise ApiError(400, "Too many parameters.") from None
    return {name: value for name, value in dict(pairs).items() if value}


# -- answers --


def _answer(status: int, content_type: str, product: Product, **more: str) -> WebAnswer:
    headers = {**_HEADERS, "Content-Type": content_type, **more}
    return WebAnswer(status, headers, product.pieces(), product.size)


def _json(status: int, data: bytes, **more: str) -> WebAnswer:
    return _answer(status, JSON, made(lambda product: product.write(data)), **more)


def _failed(request: WebRequest, parameters: Parameters, error: ApiError) -> WebAnswer:
    more: dict[str, Any] = {"Allow": ", ".join(METHODS[request.path])} if error.status == 405 else {}
    if parameters.get("format") == "html" and "html" in FORMATS.get(request.path, ()):
        page = made(lambda product: rendering.write_error_page(product, error.status, error.message))
        return _answer(error.status, HTML, page, **more)
    return _json(error.status, envelope(error.data, ok=False, error=error.message), **more)


def _attachment(member: str) -> str:
    """The last part of the name, without what could end the quotes or the line."""
    name = re.sub(r"[^ !#-\[\]-~]", "_", member.rpartition("/")[2])
    return f'attachment; filename="{name}"'
