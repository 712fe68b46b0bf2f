"""People who use the dashboard: their session cookie, or the header of a proxy that has signed them in.

A browser sends both without being asked, also on behalf of other pages. So a request that changes anything
needs a header that other pages cannot send: browsers ask first, and the service never permits it.
"""

import ipaddress
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime

from msgspec.json import Decoder
from starlette.requests import Request
from starlette.responses import Response

from glcb._api.guardrails import RESERVED_NAMES
from glcb._api.requests import encode
from glcb._api.sessions import Session, SignIn
from glcb.service.access.api_keys import ANONYMOUS, ApiKey, Role
from glcb.service.access.sessions import Sessions
from glcb.service.config import ServiceSettings
from glcb.service.errors import ApiError
from glcb.service.http import wire
from glcb.service.http.wire import Scope
from glcb.service.storage.tables import MAX_AUTHOR

FindKey = Callable[[str], Awaitable[ApiKey]]
"""Returns the API key with a secret, or raises ApiError."""

COOKIE = "glcb_session"
_SESSION = re.compile(rb"(?:^|;)[ \t]*%b=([A-Za-z0-9_-]{1,64})[ \t]*(?:;|$)" % COOKIE.encode())
_MAX_COOKIE_BYTES = 16_384
"""What is read of the cookies of a request, before any key is checked."""
_MARK = b"x-requested-with"
"""The header that requests of the dashboard have."""
_SAFE = ("GET", "HEAD")
_PEOPLE: tuple[Role, ...] = ("read", "edit", "admin")
_MAX_SIGN_IN_BYTES = 2000
_SIGN_IN = Decoder(SignIn)
_ATTEMPTS = 10
"""Attempts to sign in that an address can make at once."""
_REFILL_SECONDS = 6.0
"""Time after which it can make another one."""
_MAX_ADDRESSES = 10_000


class People:
    """Finds the person who sends a request.

    Parameters
    ----------
    settings
        The settings of the service.
    sessions
        The sessions of people who have signed in with an API key.
    """

    def __init__(self, settings: ServiceSettings, sessions: Sessions) -> None:
        self.sessions = sessions
        self._user_header = _header_name(settings.user_header)
        self._role_header = _header_name(settings.role_header)
        self._proxies = [ipaddress.ip_network(address) for address in settings.trusted_proxies]
        self._spent_until: dict[str, float] = {}

    async def recognize(self, scope: Scope, headers: Mapping[bytes, bytes]) -> ApiKey | None:
        """Return what a person may do, as an API key; None if the request names nobody.

        Raises
        ------
        ApiError
            The session is over, or the request changes something and may come from another page.
        """
        token = session_token(headers)
        if token is not None:
            await self.sessions.learn(token)
            found = self.sessions.find(token)
            if found is None:
                raise ApiError("unauthorized", "the session is over: sign in again")
            person = found[0]
        else:
            named = self._named_by_proxy(scope, headers)
            if named is None:
                return None
            person = named
        if scope["method"] not in _SAFE and _MARK not in headers:
            raise ApiError(
                "forbidden",
                "a request without an API key that changes something needs the header X-Requested-With: glcb",
            )
        return person

    def _named_by_proxy(self, scope: Scope, headers: Mapping[bytes, bytes]) -> ApiKey | None:
        """Return the person whom a trusted proxy names."""
        if self._user_header is None or self._user_header not in headers or not self._is_proxy(scope):
            return None
        name = headers[self._user_header].decode("utf-8", "replace").strip()
        if not 0 < len(name) <= MAX_AUTHOR or not name.isprintable():
            raise ApiError("unauthorized", f"the name of a person must have 1 to {MAX_AUTHOR} characters")
        if name in RESERVED_NAMES:
            raise ApiError(
                "unauthorized",
                f"the trail of changes uses the name {name!r} for changes that no person made: the proxy "
                "must send another name for this person",
            )
        sent = b"read" if self._role_header is None else headers.get(self._role_header, b"read")
        role = next((one for one in _PEOPLE if one == sent.decode("latin-1").strip()), None)
        if role is None:
            raise ApiError("forbidden", f"the role of a person is read, edit or admin, got {sent[:80]!r}")
        return ApiKey(name, "", role, None, 0.0)

    def _is_proxy(self, scope: Scope) -> bool:
        """Return whether a request comes directly from a trusted proxy."""
        client = scope.get("client")
        if client is None:
            return False
        address = ipaddress.ip_address(client[0].partition("%")[0])
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in self._proxies)

    def count_attempt(self, scope: Scope) -> None:
        """Count an attempt to sign in; raise ApiError after too many from one address."""
        address, now = self._address(scope), time.monotonic()
        earliest = now - _ATTEMPTS * _REFILL_SECONDS
        spent = max(self._spent_until.get(address, earliest), earliest) + _REFILL_SECONDS
        if spent > now:
            raise ApiError("rate_limited", "too many attempts to sign in: wait a minute")
        self._spent_until.pop(address, None)
        self._spent_until[address] = spent
        if len(self._spent_until) > _MAX_ADDRESSES:
            del self._spent_until[next(iter(self._spent_until))]

    def _address(self, scope: Scope) -> str:
        """Return the address of a person; through a trusted proxy, the one that the proxy has seen."""
        client = scope.get("client")
        text = client[0] if client else ""
        forwarded = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
        if forwarded and self._is_proxy(scope):  # a proxy adds to the last line, or adds a last line
            text = forwarded[-1].rpartition(b",")[2].strip()[:64].decode("latin-1")  # no address is longer
        try:
            address = ipaddress.ip_address(text.partition("%")[0])
        except ValueError:
            return ""
        if address.version == 4:
            return str(address)
        return str(ipaddress.ip_network((address, 64), strict=False))  # one household or host


class SessionHandlers:
    """The routes with which people sign in and out.

    Parameters
    ----------
    people
        The people who have signed in.
    find_key
        Finds the API key of a person who signs in.
    request_seconds
        The time that a client has to send a request.
    """

    def __init__(self, people: People, find_key: FindKey, request_seconds: float) -> None:
        self._people = people
        self._find_key = find_key
        self._request_seconds = request_seconds

    async def sign_in(self, request: Request) -> Response:
        """Exchange an API key for a session cookie."""
        wire.check_json(request.scope)
        self._people.count_attempt(request.scope)
        content = await wire.read_body(
            request.scope, request.receive, _MAX_SIGN_IN_BYTES, self._request_seconds, lambda _: None
        )
        key = await self._find_key(wire.decode(content, _SIGN_IN).api_key)
        if key.role not in _PEOPLE:
            raise ApiError("forbidden", f"people need the role read, edit or admin, got {key.role}")
        token, expires = await self._people.sessions.open(key)
        response = _answer(key, expires)
        _set_cookie(response, request, token, self._people.sessions.seconds)
        return response

    async def show_session(self, request: Request) -> Response:
        """Return who sends the request."""
        token = session_token(dict(request.scope["headers"]))
        found = None if token is None else self._people.sessions.find(token)
        return _answer(request.state.key, None if found is None else found[1])

    async def sign_out(self, request: Request) -> Response:
        """End the session of the request."""
        token = session_token(dict(request.scope["headers"]))
        if token is not None:
            await self._people.sessions.close(token)
        return _signed_out(request)

    async def sign_out_everywhere(self, request: Request) -> Response:
        """End all sessions of the API key."""
        if request.state.key is not ANONYMOUS:
            await self._people.sessions.close_all(request.state.key)
        return _signed_out(request)


def session_token(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the token in the session cookie of a request, if there is one."""
    found = _SESSION.search(headers.get(b"cookie", b"")[:_MAX_COOKIE_BYTES])
    return None if found is None else found[1].decode()


def _header_name(setting: str | None) -> bytes | None:
    return None if setting is None else setting.lower().encode("latin-1")


def _answer(key: ApiKey, expires: float | None) -> Response:
    expires_at = None if expires is None else datetime.fromtimestamp(expires, UTC)
    session = Session(name=key.name, role=key.role, experiments=key.experiments, expires_at=expires_at)
    return Response(encode(session), media_type="application/json")


def _set_cookie(response: Response, request: Request, token: str, seconds: float) -> None:
    """Keep the token in the browser: scripts cannot read it, and other sites cannot cause it to be sent."""
    secure = request.headers.get("x-forwarded-proto", "").lower() == "https"
    response.set_cookie(
        COOKIE, token, max_age=int(seconds), path="/", secure=secure, httponly=True, samesite="strict"
    )


def _signed_out(request: Request) -> Response:
    response = Response(status_code=204)
    _set_cookie(response, request, "", 0)
    return response
