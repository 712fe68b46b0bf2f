"""The maximum cost of a request without an API key for the event loop: ``python -m benchmarks.strangers``.

Every header, cookie, path and query that the service reads is filled with up to 64 kB of text that is slow to
parse. The figure is the CPU time of the thread that serves all clients, per request.
"""

import argparse
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from benchmarks.service.server import Server, serving

SIZE = 64_000
"""Bytes of text in one request, a little less than all headers together can have."""
FILLINGS = {
    "letters": b"a",
    "escaped quotes": b'\\"',
    "cookies": b"a=b; ",
    "cookies without a name": b"=;",
    "semicolons": b";",
    "commas": b",",
    "equal signs": b"=",
    "parameters": b"a=1&",
    "dots": b".",
    "colons": b":",
    "slashes": b"/",
    "digits": b"9",
    "zeros": b"0",
    "dashes": b"-",
    "brackets": b"[",
    "percent signs": b"%41",
    "broken percent signs": b"%",
    "not ASCII": b"\xff",
}
HEADERS = (
    "Accept", "Accept-Encoding", "Access-Control-Request-Headers", "Access-Control-Request-Method",
    "Authorization", "Connection", "Content-Type", "Cookie", "Expect", "Forwarded", "Host", "If-None-Match",
    "Ocp-Apim-Subscription-Key", "Origin", "Referer", "Traceparent", "Tracestate", "Transfer-Encoding",
    "Upgrade", "User-Agent", "X-Forwarded-For", "X-Forwarded-Proto", "X-Requested-With", "X-Role", "X-User",
)  # fmt: skip
PATHS = (
    "/{}", "/{}/decisions", "/glcb.js{}", "/personalizer/v1.0/events/{}/reward", "/static/{}",
    "/static/x/{}", "/v1/{}", "/v1/experiments/{}", "/v1/experiments/{}/arms/{}", "/v1/experiments/home/{}",
    "/v1/experiments/home/arms/{}", "/v1/experiments/home/decisions/{}/reward", "/v1/experiments?{}",
    "/v1/experiments/home/curves?{}", "/v1/experiments/home/arms?{}", "/v1/session?{}", "/healthz?{}",
)  # fmt: skip
TARGETS = (
    ("GET", "/"),
    ("GET", "/v1/experiments"),
    ("GET", "/v1/session"),
    ("POST", "/v1/session"),
    ("POST", "/v1/experiments/home/decisions"),
    ("OPTIONS", "/v1/experiments/home/decisions"),
    ("POST", "/personalizer/v1.0/rank"),
)
FLAGS = (
    "--set", "require_keys=true", "--set", "cors_origins=https://example.com",
    "--set", "user_header=X-User", "--set", "role_header=X-Role",
)  # fmt: skip


class Request(NamedTuple):
    """One request without an API key."""

    name: str
    content: bytes


def requests(size: int) -> Iterator[Request]:
    """Yield every combination of place and filling."""
    for name, text in FILLINGS.items():
        filling = (text * (size // len(text)))[:size]
        quoted = b'glcb_session="' + filling + b'"'
        for method, path in TARGETS:
            for header in HEADERS:
                yield _request(f"{method} {path}, {header}: {name}", method, path, header, filling)
            yield _request(f"{method} {path}, session cookie: {name}", method, path, "Cookie", quoted)
            bearer = b"Bearer " + filling
            yield _request(f"{method} {path}, key: {name}", method, path, "Authorization", bearer)
        for template in PATHS:
            for method in ("GET", "POST", "PATCH"):
                path = template.replace("{}", filling.decode("latin-1"), 1).replace("{}", "x")
                yield _request(f"{method} {template}: {name}", method, path, "Accept", b"*/*")
    many = b"".join(b"\r\nX-%d: a" % number for number in range(size // 12))
    for method, path in TARGETS:
        yield _request(f"{method} {path}, many headers", method, path, "Accept", b"*/*" + many)


def _request(name: str, method: str, path: str, header: str, value: bytes) -> Request:
    lines = [
        f"{method} {path} HTTP/1.1".encode("latin-1"),
        b"Content-Length: 2",
        *((f"{other}: x".encode()) for other in ("Host", "Origin") if other != header),
        f"{header}: ".encode() + value,
    ]
    if header != "Content-Type":
        lines.append(b"Content-Type: application/json")
    if header != "Access-Control-Request-Method" and method == "OPTIONS":
        lines.append(b"Access-Control-Request-Method: POST")
    return Request(name, b"\r\n".join(lines) + b"\r\n\r\n{}")


def cost(server: Server, request: Request, repeats: int) -> float:
    """Return the milliseconds of CPU time on the event loop per request."""
    before = _loop_seconds(server)
    for _ in range(repeats):
        _send(server, request.content)
    return (_loop_seconds(server) - before) / repeats * 1000


def _loop_seconds(server: Server) -> float:
    """Return the CPU time of the server's main thread (Linux)."""
    statistics = Path(f"/proc/{server.pid}/task/{server.pid}/schedstat").read_text()
    return int(statistics.split()[0]) / 1e9


def _send(server: Server, content: bytes) -> None:
    """Send a request and wait until the server has answered it and closed the connection, or rejected it."""
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname or "", address.port or 0), timeout=60) as connection:
        try:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65_536):
                pass
        except ConnectionError:
            return


def measure(server: Server, size: int, most: int | None = None) -> list[tuple[float, str]]:
    """Return the cost of every request and its name, most expensive first.

    Parameters
    ----------
    server
        A service with API keys.
    size
        Bytes of the text in each request.
    most
        Number of requests to send; by default, all.
    """
    chosen = list(requests(size))
    step = 1 if most is None else max(1, len(chosen) // most)
    costs = [(cost(server, request, 2), request) for request in chosen[::step]]
    costs.sort(key=lambda pair: -pair[0])
    # Measure the most expensive ones again: sometimes, the loop also does other work.
    again = [(min(first, cost(server, request, 10)), request.name) for first, request in costs[:20]]
    return sorted([*again, *((first, request.name) for first, request in costs[20:])], reverse=True)


def main() -> None:
    """Print the most expensive requests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=SIZE)
    size: int = parser.parse_args().size
    with tempfile.TemporaryDirectory() as folder, serving(["--data", f"{folder}/glcb.db"], *FLAGS) as server:
        made = server.command("keys", "add", "team", "--role", "admin")
        assert made.returncode == 0, made.stderr
        costs = measure(server, size)
    print(f"{len(costs)} requests of {size:,} bytes; ms of CPU on the event loop, most expensive first:")
    for milliseconds, name in costs[:15]:
        print(f"{milliseconds:8.2f}  {name}")
    print(f"{costs[len(costs) // 2][0]:8.2f}  median")


if __name__ == "__main__":
    main()
