"""The files of the dashboard and the JavaScript client, read once and served from memory.

The page has no inline scripts or styles. Its files are served under a digest of their contents, so that
browsers can cache them indefinitely and a new version of glcb has new URLs. The client has one URL, which web
pages of any origin can import.
"""

import functools
import hashlib
import mimetypes
import re
from importlib import resources
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from glcb.service.errors import ApiError
from glcb.service.http import wire

_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
JAVASCRIPT = "/glcb.js"
"""The path of the JavaScript client."""
_HOUR = "public, max-age=3600"
_IMMUTABLE = "public, max-age=31536000, immutable"
_STATIC = re.compile("/static/[^/]+/.*")
_SERVED = (".html", ".js", ".css", ".svg")


def _read_files(folder: Traversable, prefix: str = "") -> dict[str, bytes]:
    files = {}
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            files.update(_read_files(entry, f"{prefix}{entry.name}/"))
        elif entry.name.endswith(_SERVED):
            files[prefix + entry.name] = entry.read_bytes()
    return files


class Pages:
    """The files of the dashboard and the JavaScript client."""

    def __init__(self) -> None:
        self._files = _read_files(resources.files("glcb.service") / "dashboard")
        hashed = hashlib.sha256()
        for name, content in self._files.items():
            hashed.update(f"{name} {len(content)} ".encode() + content)
        self.digest = hashed.hexdigest()[:16]
        page = self._files.pop("index.html")
        self._page = page.replace(b'"static/', f'"static/{self.digest}/'.encode())

        self._client = (resources.files("glcb.service") / "javascript" / "glcb.js").read_bytes()
        self._client_tag = f'"{hashlib.sha256(self._client).hexdigest()[:16]}"'
        routes = [
            Route("/", self._home, methods=["GET"]),
            Route(JAVASCRIPT, self._javascript, methods=["GET"]),
            self.route,
        ]
        self.app = Router(routes, redirect_slashes=False)
        """Serves only these files, while the service starts or stops."""

    def home(self) -> Response:
        """Return the page."""
        return _response(self._page, "text/html", "no-store")

    def javascript(self, request: Request) -> Response:
        """Return the JavaScript client."""
        response = _cacheable(request, self._client, self._client_tag, "text/javascript", _HOUR)
        response.headers["access-control-allow-origin"] = "*"  # it is public, and needs no API key
        response.headers["cross-origin-resource-policy"] = "cross-origin"
        return response

    @property
    def route(self) -> Route:
        """The route of the files."""
        return Route("/static/{digest}/{file:path}", self._file, methods=["GET"])

    async def _home(self, _request: Request) -> Response:
        return self.home()

    async def _javascript(self, request: Request) -> Response:
        return self.javascript(request)

    async def _file(self, request: Request) -> Response:
        request.scope["glcb.route"] = "/static"
        name = request.path_params["file"]
        content = self._files.get(name)
        if content is None or request.path_params["digest"] != self.digest:
            raise ApiError("not_found", "there is no such file: reload the page")
        kind = "text/javascript" if name.endswith(".js") else mimetypes.guess_type(name)[0]
        return _cacheable(request, content, f'"{self.digest}"', kind, _IMMUTABLE)


@functools.cache
def pages() -> Pages:
    """Return the files; they are read once."""
    return Pages()


def is_page(method: str, path: str) -> bool:
    """Return whether a request is for the page, one of its files, or the JavaScript client.

    >>> is_page("GET", "/"), is_page("GET", "/static/0123/main.js"), is_page("GET", "/readyz")
    (True, True, False)
    """
    return method in ("GET", "HEAD") and (path in ("/", JAVASCRIPT) or bool(_STATIC.fullmatch(path)))


def _cacheable(request: Request, content: bytes, tag: str, kind: str | None, cache_control: str) -> Response:
    """Return a file, or only that the browser has it already."""
    cached = request.headers.get("if-none-match") == tag
    response = _response(b"" if cached else content, kind, cache_control, status=304 if cached else 200)
    response.headers["etag"] = tag
    return response


def _response(content: bytes, kind: str | None, cache_control: str, status: int = 200) -> Response:
    headers = {"content-security-policy": _CSP, "cache-control": cache_control}
    response = Response(content, status, headers, media_type=kind)
    wire.add_security_headers(response.raw_headers)
    return response
