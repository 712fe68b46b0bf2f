"""API keys: random secrets, stored as digests, with a role and optionally bound to experiments."""

import asyncio
import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from sqlalchemy import delete, insert, select

from glcb._api.guardrails import RESERVED_NAMES
from glcb._errors import InvalidSettings
from glcb.service.storage.database import Database
from glcb.service.storage.tables import api_keys

Role = Literal["publish", "decide", "read", "edit", "admin"]
"""``publish`` permits single decisions, rankings and rewards, so that the key can be part of a web page;
``decide`` also permits batches. ``read`` permits reading, ``edit`` also permits changes of experiments, their
arms and their evaluations, ``admin`` permits everything."""

INCLUDED: dict[Role, tuple[Role, ...]] = {
    "publish": ("publish",),
    "decide": ("decide", "publish"),
    "read": ("read",),
    "edit": ("edit", "read"),
    "admin": get_args(Role),
}
"""The roles that each role includes."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PREFIX = "glcb_"
"""Lets secret scanners recognize a leaked key."""


class ApiKey(NamedTuple):
    """The stored part of an API key; its secret is not stored."""

    name: str
    digest: str
    role: Role
    experiments: tuple[str, ...] | None
    """The experiments it is bound to; None for all."""
    created: float

    def has_role(self, role: Role) -> bool:
        """Return whether the key has a role."""
        return role in INCLUDED[self.role]

    def can_access(self, experiment: str) -> bool:
        """Return whether the key can access an experiment."""
        return self.experiments is None or experiment in self.experiments


ANONYMOUS = ApiKey("", "", "admin", None, 0.0)
"""The key of all requests as long as no keys exist."""


def check_key(name: str, role: str, experiments: Sequence[str] = ()) -> None:
    """Raise InvalidSettings if a name or a role is invalid, or a publishable key has not one experiment."""
    if not _NAME.fullmatch(name):
        raise InvalidSettings(
            f"the name of a key must be 1 to 64 letters, digits, dots, dashes or underscores, got {name!r}"
        )
    if name in RESERVED_NAMES:
        raise InvalidSettings(
            f"the trail of changes uses the name {name!r} for changes without a key: choose another name"
        )
    *others, last = get_args(Role)
    if role not in (*others, last):
        raise InvalidSettings(f"the role of a key must be {', '.join(others)} or {last}, got {role!r}")
    if role == "publish" and len(set(experiments)) != 1:
        given = ", ".join(experiments) or "none"
        raise InvalidSettings(
            f"a key with the role publish needs exactly one experiment, got {given}: pass --experiments NAME"
        )


def add_key(database: Database, name: str, role: str, experiments: Sequence[str] = ()) -> str:
    """Create a key and return its secret, which cannot be shown again.

    Parameters
    ----------
    database
        Where the key is stored.
    name
        A unique name.
    role
        ``publish``, ``decide``, ``read``, ``edit`` or ``admin``.
    experiments
        The experiments to bind the key to; all if empty. The role ``publish`` needs exactly one.

    Raises
    ------
    InvalidSettings
        The name or the role is invalid, the name is taken, or a publishable key has not one experiment.
    """
    check_key(name, role, experiments)
    if any(key.name == name for key in list_keys(database)):
        raise InvalidSettings(f"the key {name!r} already exists: remove it first, or choose another name")
    secret = _PREFIX + secrets.token_urlsafe(32)
    bound = json.dumps(sorted(set(experiments))) if experiments else None
    row = {"name": name, "digest": digest(secret), "role": role, "experiments": bound, "created": time.time()}
    with database.write() as connection:
        connection.execute(insert(api_keys).values(row))
    return secret


def remove_key(database: Database, name: str) -> None:
    """Remove a key; raise InvalidSettings if no key has this name."""
    with database.write() as connection:
        removed = connection.execute(delete(api_keys).where(api_keys.c.name == name)).rowcount
    if not removed:
        raise InvalidSettings(f"there is no key {name!r}; list the keys with `glcb keys list`")


def list_keys(database: Database) -> list[ApiKey]:
    """Return all keys, sorted by name."""
    columns = (getattr(api_keys.c, name) for name in ApiKey._fields)
    with database.read() as connection:
        rows = connection.execute(select(*columns).order_by(api_keys.c.name)).all()
    return [
        ApiKey(name, stored, role, None if bound is None else tuple(json.loads(bound)), created)
        for name, stored, role, bound, created in rows
    ]


def digest(secret: str) -> str:
    """Return the digest of a secret. A fast hash is enough: the secret has 256 random bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


class Keyring:
    """A copy of the keys in memory.

    Parameters
    ----------
    database
        Where the keys are stored.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.refreshed_at = 0.0
        """Time of the last refresh on the monotonic clock."""
        self.keys: list[ApiKey] = []
        self._reloading: asyncio.Task[None] | None = None
        self.refresh()

    def refresh(self) -> None:
        """Read the keys again."""
        self.keys = list_keys(self._database)
        self.refreshed_at = time.monotonic()

    async def reload(self) -> None:
        """Read the keys again in a thread. Callers at the same time share one reading."""
        if self._reloading is None or self._reloading.done():
            self._reloading = asyncio.ensure_future(self._database.threads.run(self.refresh))
        await asyncio.shield(self._reloading)

    def find(self, secret: str) -> ApiKey | None:
        """Return the key with this secret, or None. The duration does not depend on the secret."""
        wanted = digest(secret)
        match = None
        for key in self.keys:
            if hmac.compare_digest(key.digest, wanted):
                match = key
        return match
