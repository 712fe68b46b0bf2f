"""Authentication and authorization."""

import functools
import ipaddress
import re
import time
from collections.abc import Mapping

from glcb.service.access.api_keys import ANONYMOUS, INCLUDED, ApiKey, Keyring, Role
from glcb.service.errors import ApiError
from glcb.service.http.people import People
from glcb.service.http.wire import Scope

_REFRESH_SECONDS = 0.2
"""Minimum time between two reloads of the keys that an unknown key triggers."""
_FORWARDED = frozenset(
    (
        b"cf-connecting-ip",
        b"forwarded",
        b"true-client-ip",
        b"via",
        b"x-client-ip",
        b"x-cluster-client-ip",
        b"x-forwarded-by",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-port",
        b"x-forwarded-proto",
        b"x-forwarded-server",
        b"x-original-host",
        b"x-real-ip",
    )
)
"""Headers that reverse proxies add."""
_SUBSCRIPTION_KEY = b"ocp-apim-subscription-key"
"""The header in which clients of Azure Personalizer send their key."""
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^:\[\]]+))(?::[0-9]*)?")
"""Matches a Host header: an IPv6 address in brackets or a name, and an optional port."""


class Authenticator:
    """Finds the API key of a request.

    Parameters
    ----------
    keyring
        The API keys of the service.
    host
        The address on which the service listens.
    require_keys
        Whether requests need a key even on a loopback address and while no key exists.
    people
        Finds the person who sends a request without an API key.
    """

    def __init__(
        self, keyring: Keyring, host: str, require_keys: bool = False, people: People | None = None
    ) -> None:
        self.keyring = keyring
        self._is_local = is_loopback(host) and not require_keys
        self._people = people

    async def authenticate(self, scope: Scope) -> ApiKey:
        """Return the API key of a request, or of its person; look for new keys if it is unknown.

        A service on a loopback address needs no key as long as none exists. On any other address, every
        request needs one, even after the last key was removed.

        Raises
        ------
        ApiError
            There is no key, or the request needs one because it comes from elsewhere.
        """
        headers = dict(reversed(scope["headers"]))  # the first of several headers with the same name counts
        if self._is_local and not self.keyring.keys:
            _check_is_local(headers)
            return ANONYMOUS
        secret = _secret(headers)
        if secret:
            return await self.find(secret)
        person = None if self._people is None else await self._people.recognize(scope, headers)
        if person is None:
            raise ApiError("unauthorized", "an API key is required: send it as Authorization: Bearer KEY")
        return person

    async def find(self, secret: str) -> ApiKey:
        """Return the API key with a secret; look for new keys if it is unknown."""
        key = self.keyring.find(secret)
        if key is None and time.monotonic() - self.keyring.refreshed_at > _REFRESH_SECONDS:
            await self.keyring.reload()
            key = self.keyring.find(secret)
        if key is None:
            raise ApiError("unauthorized", "the API key is unknown: create one with `glcb keys add`")
        return key


def _secret(headers: Mapping[bytes, bytes]) -> str:
    """Return the secret of the API key in the headers of a request; empty without one."""
    scheme, _, secret = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() != b"bearer" or not secret.strip():
        secret = headers.get(_SUBSCRIPTION_KEY, b"")
    return secret.strip().decode("latin-1")


def authorize(key: ApiKey, role: Role, experiment: str | None) -> None:
    """Refuse a request that a key does not permit; experiments of other keys appear not to exist."""
    if experiment is not None and not key.can_access(experiment):
        raise ApiError("unknown_experiment", f"there is no experiment {experiment!r}: create it first")
    if not key.has_role(role):
        raise ApiError("forbidden", f"this needs an API key with the role {roles(role)}, got {key.role}")
    if role == "admin" and experiment is None and key.experiments is not None:
        raise ApiError(
            "forbidden",
            f"this concerns all experiments, and the API key is bound to {', '.join(key.experiments)}: "
            "use one without --experiments",
        )


def roles(role: Role) -> str:
    """Return the roles that include a role.

    >>> roles("publish"), roles("read"), roles("admin")
    ('publish, decide or admin', 'read, edit or admin', 'admin')
    """
    *others, last = (one for one, included in INCLUDED.items() if role in included)
    return f"{', '.join(others)} or {last}" if others else last


def is_loopback(host: str) -> bool:
    """Return whether an address can only be reached from this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("::1")
    (True, True, False, True)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_is_local(headers: Mapping[bytes, bytes]) -> None:
    """Refuse a request that a proxy forwards, or a web page whose name was rebound to this machine."""
    if not _FORWARDED.isdisjoint(headers):
        name = min(_FORWARDED & headers.keys())
        raise ApiError(
            "forbidden",
            f"the header {name.decode()} says that a proxy forwards this request, and there are no "
            "API keys: create one with `glcb keys add`",
        )
    if not _names_loopback(headers.get(b"host", b"localhost")):
        raise ApiError(
            "forbidden",
            "without API keys, the service only answers requests to localhost: create a key with "
            "`glcb keys add`",
        )


@functools.lru_cache(maxsize=64)
def _names_loopback(header: bytes) -> bool:
    """Return whether a Host header names this machine."""
    host = _HOST.fullmatch(header.decode("latin-1").lower())
    return host is not None and is_loopback(host[1] or host[2])
