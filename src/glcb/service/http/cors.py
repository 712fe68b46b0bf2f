"""Cross-origin requests: which web pages may call the service.

Browsers let a page of another origin read a response only if the response names this origin. The service
names the origins of the setting ``cors_origins``, and only in the responses to single decisions, rankings
and rewards, which is what publishable API keys permit. Requests without an origin are not affected.
"""

from collections.abc import Iterable

from glcb.service.errors import ApiError
from glcb.service.http import wire
from glcb.service.http.operations import OPERATIONS, matches
from glcb.service.http.wire import Header, Message, Scope, Send

_PATHS = [operation.path for operation in OPERATIONS if operation.role == "publish"]
_PREFLIGHT_HEADERS = [
    (b"access-control-allow-methods", b"POST"),
    (b"access-control-allow-headers", b"authorization, content-type"),
    (b"access-control-max-age", b"7200"),
]


class Cors:
    """The origins that may call the service.

    Parameters
    ----------
    origins
        Such as ``https://www.example.com``.
    """

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origin.encode() for origin in origins)

    def is_preflight(self, scope: Scope) -> bool:
        """Return whether a browser asks if it may send a decision, a ranking or a reward."""
        return (
            scope["method"] == "OPTIONS"
            and wire.header(scope, b"origin") is not None
            and wire.header(scope, b"access-control-request-method") is not None
            and _has_path(scope)
        )

    async def answer_preflight(self, scope: Scope, send: Send) -> None:
        """Permit the origin, or say which setting does."""
        headers = self._headers(scope)
        if not headers:
            origin = (wire.header(scope, b"origin") or b"").decode("latin-1")
            message = f"the setting cors_origins does not have the origin {origin[:200]!r}: add it"
            await wire.send_json(send, wire.error_answer(ApiError("forbidden", message)))
            return
        headers = [*wire.SECURITY_HEADERS, *headers, *_PREFLIGHT_HEADERS]
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    def permit(self, scope: Scope, send: Send) -> Send:
        """Return ``send`` for a response that the page may read, if its origin may call the service."""
        headers = self._headers(scope) if _has_path(scope) else []
        if not headers:
            return send

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *headers]}
            await send(message)

        return send_with_headers

    def _headers(self, scope: Scope) -> list[Header]:
        """Return the headers that permit the origin of a request; none if it may not call the service."""
        origin = wire.header(scope, b"origin")
        if origin is None or origin not in self._origins:
            return []
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", b"retry-after"),
            (b"vary", b"origin"),
        ]


def _has_path(scope: Scope) -> bool:
    return any(matches(path, scope["path"]) for path in _PATHS)
