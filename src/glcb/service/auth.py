"""API keys: random, shown once, kept as a digest, with a role and perhaps bound to some experiments."""

import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from sqlalchemy import delete, insert, select

from glcb._errors import InvalidSettings
from glcb.service.storage.storage import Storage
from glcb.service.storage.tables import keys

Role = Literal["decide", "read", "admin"]
"""Decisions and rewards; looking at everything; all of it."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PREFIX = "glcb_"
"""So that a key that got lost is recognized as one."""


class Key(NamedTuple):
    """Who may do what. The key itself is known to its owner only."""

    name: str
    digest: str
    role: Role
    experiments: tuple[str, ...] | None
    created: float

    def may(self, role: Role) -> bool:
        """Return whether the key has this role."""
        return self.role in (role, "admin")

    def sees(self, experiment: str) -> bool:
        """Return whether the key may know of an experiment."""
        return self.experiments is None or experiment in self.experiments


ANYBODY = Key("", "", "admin", None, 0.0)
"""Whoever comes, as long as there are no keys."""


def check(name: str, role: str) -> None:
    """Refuse what no key can be called, and roles that there are not."""
    if not _NAME.fullmatch(name):
        raise InvalidSettings(
            f"the name of a key must be 1 to 64 letters, digits, dots, dashes or underscores, got {name!r}"
        )
    if role not in get_args(Role):
        raise InvalidSettings(f"the role of a key must be {', '.join(get_args(Role))}, got {role!r}")


def add(storage: Storage, name: str, role: str, experiments: Sequence[str] = ()) -> str:
    """Make a key; return it, for the only time."""
    check(name, role)
    if any(key.name == name for key in listed(storage)):
        raise InvalidSettings(f"there is a key {name!r} already: remove it first, or choose another name")
    secret = _PREFIX + secrets.token_urlsafe(32)
    bound = json.dumps(sorted(set(experiments))) if experiments else None
    row = {"name": name, "digest": digest(secret), "role": role, "experiments": bound, "created": time.time()}
    with storage.write() as connection:
        connection.execute(insert(keys).values(row))
    return secret


def remove(storage: Storage, name: str) -> None:
    """Remove a key; whoever has it is refused from then on."""
    with storage.write() as connection:
        removed = connection.execute(delete(keys).where(keys.c.name == name)).rowcount
    if not removed:
        raise InvalidSettings(f"there is no key {name!r}; `glcb keys list` shows those there are")


def listed(storage: Storage) -> list[Key]:
    """Return all keys by their names."""
    columns = (keys.c.name, keys.c.digest, keys.c.role, keys.c.experiments, keys.c.created)
    with storage.read() as connection:
        rows = connection.execute(select(*columns).order_by(keys.c.name)).all()
    return [
        Key(name, known, role, None if bound is None else tuple(json.loads(bound)), created)
        for name, known, role, bound, created in rows
    ]


def digest(secret: str) -> str:
    """Return what is kept of a key. It is random and long, so that nobody can guess it from this."""
    return hashlib.sha256(secret.encode()).hexdigest()


class Keyring:
    """The keys as they were when somebody last looked."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.looked = 0.0
        """When that was, by the monotonic clock."""
        self.keys: list[Key] = []
        self.refresh()

    def refresh(self) -> None:
        """Look at the keys again."""
        self.keys = listed(self._storage)
        self.looked = time.monotonic()

    def find(self, secret: str) -> Key | None:
        """Return whose key this is; it takes the same time whichever it is."""
        wanted = digest(secret)
        found = None
        for key in self.keys:
            if hmac.compare_digest(key.digest, wanted):
                found = key
        return found
