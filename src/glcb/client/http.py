"""What both clients know of HTTP: how to reach the service, and what came of a request."""

import math
import random
from typing import Any

import httpx

from glcb._errors import InvalidSettings
from glcb._version import __version__
from glcb.client.talk import Answer, Lost, Request, Retries

_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


def options(url: str, api_key: str | None, timeout: float) -> dict[str, Any]:
    """Return how httpx is to be set up."""
    try:
        base = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise InvalidSettings(f"the URL of the service cannot be {url!r}: {error}") from None
    if base.scheme not in ("http", "https") or not base.host:
        raise InvalidSettings(f"the URL of the service must be like http://localhost:8000, got {url!r}")
    if base.path.rstrip("/").endswith("/v1"):
        raise InvalidSettings(f"the URL of the service ends before /v1, which the client adds, got {url!r}")
    if not timeout > 0:
        raise InvalidSettings(f"timeout must be a number of seconds above 0, got {timeout!r}")
    headers = {"User-Agent": f"glcb/{__version__}"}
    if api_key is not None:
        if not (api_key.isascii() and api_key.isprintable() and api_key.strip()):
            raise InvalidSettings("the key must be one that `glcb keys add` has printed")
        headers["Authorization"] = f"Bearer {api_key.strip()}"
    return {"base_url": base, "timeout": timeout, "headers": headers}


def retries(seconds: object) -> Retries:
    """Return for how long to try again."""
    if not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        raise InvalidSettings(
            f"retry_for must be a number of seconds, 0 for a single attempt, got {seconds!r}"
        )
    return Retries(seconds, random.Random())


def arguments(request: Request) -> dict[str, Any]:
    """Return a request as httpx takes it."""
    headers = {} if request.content is None else {"Content-Type": request.kind}
    return {
        "method": request.method,
        "url": request.path,
        "content": request.content,
        "headers": headers,
    }


def answer(response: httpx.Response, content: bytes) -> Answer:
    """Return what came back."""
    return Answer(response.status_code, content, response.headers.get("Retry-After"))


def lost(url: str, error: httpx.RequestError) -> Lost:
    """Return that nothing came back."""
    why = f"no answer from {url} ({type(error).__name__}{f': {error}' if str(error) else ''})"
    return Lost(why, not isinstance(error, _NOT_SENT))
