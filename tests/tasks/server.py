"""A web server on the loopback interface that can be made to misbehave."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """Files of the server, how it misbehaves, and the requests it received."""

    files: dict[str, bytes] = field(default_factory=dict)
    cut_after: int | None = None
    """Close the connection after this many bytes of a file."""
    claimed_length: int | None = None
    """Value of the Content-Length header."""
    status: int | None = None
    """Answer everything with this status."""
    url: str = ""
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    """File name and Range header of every request."""
    sent: int = 0
    """Number of bytes sent."""


@contextmanager
def serving(files: dict[str, bytes]) -> Iterator[Site]:
    """Serve ``files`` within the block."""
    site = Site(dict(files))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _answer(self, site)

        def log_message(self, *_: object) -> None:
            """Disable logging."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_port}/data"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(handler: BaseHTTPRequestHandler, site: Site) -> None:
    name = handler.path.rpartition("/")[2]
    wanted = handler.headers["Range"]
    site.requests.append((name, wanted))
    content = site.files.get(name)
    if site.status is not None or content is None:
        handler.send_error(site.status or 404)
        return
    version = f'"{hash(content)}"'
    start = 0
    if wanted and handler.headers["If-Range"] == version:
        found = re.fullmatch(r"bytes=(\d+)-", wanted)
        assert found
        start = int(found[1])
        if start >= len(content):
            handler.send_error(416)
            return
    handler.send_response(206 if start else 200)
    handler.send_header("ETag", version)
    handler.send_header("Content-Length", str(site.claimed_length or len(content) - start))
    if start:
        handler.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
    handler.end_headers()
    end = len(content) if site.cut_after is None else start + site.cut_after
    handler.wfile.write(content[start:end])
    site.sent += len(content[start:end])
