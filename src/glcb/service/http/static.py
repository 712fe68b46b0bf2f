"""The dashboard: one page and the files that it needs, read once and kept.

The page has no script or style of its own, and the files are found under a digest of them all: whoever has
one of them never needs to ask for it again, and a new version of glcb brings new addresses.
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

from glcb.service.errors import Problem
from glcb.service.http import wire

_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_FOR_EVER = "public, max-age=31536000, immutable"
_STATIC = re.compile("/static/[^/]+/.*")
_SERVED = (".html", ".js", ".css", ".svg")


def _files(folder: Traversable, before: str = "") -> dict[str, bytes]:
    found = {}
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            found.update(_files(entry, f"{before}{entry.name}/"))
        elif entry.name.endswith(_SERVED):
            found[before + entry.name] = entry.read_bytes()
    return found


class Pages:
    """The files of the dashboard."""

    def __init__(self) -> None:
        self._files = _files(resources.files("glcb.service") / "dashboard")
        hashed = hashlib.sha256()
        for name, content in self._files.items():
            hashed.update(f"{name} {len(content)} ".encode() + content)
        self.digest = hashed.hexdigest()[:16]
        page = self._files.pop("index.html")
        self._page = page.replace(b'"static/', f'"static/{self.digest}/'.encode())

        self.app = Router([Route("/", self._home, methods=["GET"]), self.route], redirect_slashes=False)
        """The page and its files alone, for as long as there is nothing else."""

    def home(self) -> Response:
        """Return the page."""
        return _answer(self._page, "text/html", "no-store")

    @property
    def route(self) -> Route:
        """Where the files are."""
        return Route("/static/{digest}/{file:path}", self._file, methods=["GET"])

    async def _home(self, _request: Request) -> Response:
        return self.home()

    async def _file(self, request: Request) -> Response:
        request.scope["glcb.route"] = "/static"
        name = request.path_params["file"]
        content = self._files.get(name)
        if content is None or request.path_params["digest"] != self.digest:
            raise Problem("not_found", "there is no such file: load the page again")
        kind = "text/javascript" if name.endswith(".js") else mimetypes.guess_type(name)[0]
        tag = f'"{self.digest}"'
        known = request.headers.get("if-none-match") == tag
        response = _answer(b"" if known else content, kind, _FOR_EVER, status=304 if known else 200)
        response.headers["etag"] = tag
        return response


@functools.cache
def pages() -> Pages:
    """Return the files, which are read once."""
    return Pages()


def is_page(method: str, path: str) -> bool:
    """Return whether a request is one for the page or its files.

    >>> is_page("GET", "/"), is_page("GET", "/static/0123/main.js"), is_page("GET", "/readyz")
    (True, True, False)
    """
    return method in ("GET", "HEAD") and (path == "/" or bool(_STATIC.fullmatch(path)))


def _answer(content: bytes, kind: str | None, caching: str, status: int = 200) -> Response:
    headers = {"content-security-policy": _CSP, "cache-control": caching}
    response = Response(content, status, headers, media_type=kind)
    wire.secure(response.raw_headers)
    return response
