"""Who may come in."""

import asyncio
import ipaddress
import time

from glcb.service.auth import ANYBODY, Key, Keyring, Role
from glcb.service.errors import Problem
from glcb.service.http.wire import Scope, header

_SOON = 0.2
"""A key that is not known is looked for again, but not more often than after so many seconds."""


class Door:
    """Finds out who asks, and whether they may."""

    def __init__(self, keyring: Keyring, host: str) -> None:
        """Take the keys, and the address at which the service listens."""
        self.keyring = keyring
        self._only_here = is_loopback(host)

    async def who(self, scope: Scope) -> Key:
        """Return whose key came with a request.

        Where only this machine can ask, everybody is welcome as long as there are no keys. Elsewhere nobody
        is, also after the last key was removed.
        """
        if self._only_here and not self.keyring.keys:
            _check_host(scope)
            return ANYBODY
        said = header(scope, b"authorization") or b""
        kind, _, secret = said.partition(b" ")
        if kind.lower() != b"bearer" or not secret.strip():
            raise Problem("unauthorized", "a key is needed: send it as Authorization: Bearer KEY")
        text = secret.strip().decode("latin-1")
        found = self.keyring.find(text)
        if found is None and time.monotonic() - self.keyring.looked > _SOON:
            await asyncio.to_thread(self.keyring.refresh)
            found = self.keyring.find(text)
        if found is None:
            raise Problem("unauthorized", "this key is not known: `glcb keys add` makes one")
        return found


def check(key: Key, role: Role, experiment: str | None) -> None:
    """Refuse what a key may not do, and know nothing of experiments that are not its own."""
    if experiment is not None and not key.sees(experiment):
        raise Problem("unknown_experiment", f"there is no experiment {experiment!r}: create it first")
    if not key.may(role):
        raise Problem("forbidden", f"this needs a key with the role {which(role)}; this one has {key.role}")


def which(role: Role) -> str:
    """Return which keys may do what needs a role.

    >>> which("read"), which("admin")
    ('read or admin', 'admin')
    """
    return role if role == "admin" else f"{role} or admin"


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("::1")
    (True, True, False, True)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_host(scope: Scope) -> None:
    """Refuse requests that a web page from elsewhere made, by a name that it lets point to this machine."""
    said = (header(scope, b"host") or b"localhost").decode("latin-1")
    name = (
        said[: said.index("]")].lstrip("[")
        if said.startswith("[") and "]" in said
        else said.partition(":")[0]
    )
    if not is_loopback(name.lower()):
        raise Problem(
            "forbidden", "without keys the service answers on localhost only: make a key with `glcb keys add`"
        )
