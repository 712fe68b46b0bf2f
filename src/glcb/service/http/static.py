"""The files of the dashboard, read once and served from memory.

The page has no inline scripts or styles. Its files are served under a digest of their contents, so that
browsers can cache them indefinitely and a new version of glcb has new URLs.
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
    """The files of the dashboard."""

    def __init__(self) -> None:
        self._files = _read_files(resources.files("glcb.service") / "dashboard")
        hashed = hashlib.sha256()
        for name, content in self._files.items():
            hashed.update(f"{name} {len(content)} ".encode() + content)
        self.digest = hashed.hexdigest()[:16]
        page = self._files.pop("index.html")
        self._page = page.replace(b'"static/', f'"static/{self.digest}/'.encode())

        self.app = Router([Route("/", self._home, methods=["GET"]), self.route], redirect_slashes=False)
        """Serves only the page and its files, while the service starts or stops."""

    def home(self) -> Response:
        """Return the page."""
        return _response(self._page, "text/html", "no-store")

    @property
    def route(self) -> Route:
        """The route of the files."""
        return Route("/static/{digest}/{file:path}", self._file, methods=["GET"])

    async def _home(self, _request: Request) -> Response:
        return self.home()

    async def _file(self, request: Request) -> Response:
        request.scope["glcb.route"] = "/static"
        name = request.path_params["file"]
        content = self._files.get(name)
        if content is None or request.path_params["digest"] != self.digest:
            raise ApiError("not_found", "there is no such file: reload the page")
        kind = "text/javascript" if name.endswith(".js") else mimetypes.guess_type(name)[0]
        tag = f'"{self.digest}"'
        cached = request.headers.get("if-none-match") == tag
        response = _response(b"" if cached else content, kind, _IMMUTABLE, status=304 if cached else 200)
        response.headers["etag"] = tag
        return response


@functools.cache
def pages() -> Pages:
    """Return the files of the dashboard; they are read once."""
    return Pages()


def is_page(method: str, path: str) -> bool:
    """Return whether a request is for the page or one of its files.

    >>> is_page("GET", "/"), is_page("GET", "/static/0123/main.js"), is_page("GET", "/readyz")
    (True, True, False)
    """
    return method in ("GET", "HEAD") and (path == "/" or bool(_STATIC.fullmatch(path)))


def _response(content: bytes, kind: str | None, cache_control: str, status: int = 200) -> Response:
    headers = {"content-security-policy": _CSP, "cache-control": cache_control}
    response = Response(content, status, headers, media_type=kind)
    wire.add_security_headers(response.raw_headers)
    return response
