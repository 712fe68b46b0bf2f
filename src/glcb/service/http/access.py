"""Authentication and authorization."""

import ipaddress
import time

from glcb.service.auth import ANONYMOUS, ApiKey, Keyring, Role
from glcb.service.errors import ApiError
from glcb.service.http.wire import Scope, header

_REFRESH_SECONDS = 0.2
"""Minimum time between two reloads of the keys that an unknown key triggers."""


class Authenticator:
    """Finds the API key of a request.

    Parameters
    ----------
    keyring
        The API keys of the service.
    host
        The address on which the service listens.
    """

    def __init__(self, keyring: Keyring, host: str) -> None:
        self.keyring = keyring
        self._is_local = is_loopback(host)

    async def authenticate(self, scope: Scope) -> ApiKey:
        """Return the API key that was sent with a request.

        A service on a loopback address needs no key as long as none exists. On any other address, every
        request needs one, even after the last key was removed.
        """
        if self._is_local and not self.keyring.keys:
            _check_host(scope)
            return ANONYMOUS
        scheme, _, secret = (header(scope, b"authorization") or b"").partition(b" ")
        if scheme.lower() != b"bearer" or not secret.strip():
            raise ApiError("unauthorized", "an API key is required: send it as Authorization: Bearer KEY")
        text = secret.strip().decode("latin-1")
        key = self.keyring.find(text)
        if key is None and time.monotonic() - self.keyring.refreshed_at > _REFRESH_SECONDS:
            await self.keyring.reload()
            key = self.keyring.find(text)
        if key is None:
            raise ApiError("unauthorized", "the API key is unknown: create one with `glcb keys add`")
        return key


def authorize(key: ApiKey, role: Role, experiment: str | None) -> None:
    """Refuse a request that a key does not permit; experiments of other keys appear not to exist."""
    if experiment is not None and not key.can_access(experiment):
        raise ApiError("unknown_experiment", f"there is no experiment {experiment!r}: create it first")
    if not key.has_role(role):
        raise ApiError("forbidden", f"this needs an API key with the role {roles(role)}, got {key.role}")


def roles(role: Role) -> str:
    """Return the roles that include a role.

    >>> roles("read"), roles("admin")
    ('read or admin', 'admin')
    """
    return role if role == "admin" else f"{role} or admin"


def is_loopback(host: str) -> bool:
    """Return whether an address can only be reached from this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("::1")
    (True, True, False, True)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_host(scope: Scope) -> None:
    """Refuse a foreign Host header: a web page may have rebound its name to this machine."""
    host = (header(scope, b"host") or b"localhost").decode("latin-1")
    name = (
        host[: host.index("]")].lstrip("[")
        if host.startswith("[") and "]" in host
        else host.partition(":")[0]
    )
    if not is_loopback(name.lower()):
        raise ApiError(
            "forbidden",
            "without API keys, the service only answers requests to localhost: create a key with "
            "`glcb keys add`",
        )
