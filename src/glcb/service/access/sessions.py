"""Sessions of people: an API key is exchanged for a random token, which is stored as a digest and expires.

The sessions in memory are those in the database; other workers learn of changes within a second or two, and
of a new session when it is used. A session lasts no longer than its API key.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import delete, insert, or_, select

from glcb.service.access.api_keys import ApiKey, Keyring, digest
from glcb.service.storage.database import Database
from glcb.service.storage.tables import sessions

MAX_SESSIONS = 100
"""Sessions of one API key; a new one replaces the oldest."""
_LEARN_SECONDS = 0.2
"""Minimum time between two readings that an unknown token triggers."""


class StoredSession(NamedTuple):
    """A session, stored under the digest of its token."""

    key_digest: str
    """The digest of its API key."""
    expires: float


class Sessions:
    """The sessions of a service.

    Parameters
    ----------
    database
        Where the sessions are stored.
    keyring
        The API keys.
    seconds
        How long a session lasts.
    clock
        Returns the time.
    """

    def __init__(
        self, database: Database, keyring: Keyring, seconds: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._keyring = keyring
        self.seconds = seconds
        self._clock = clock
        self._changes = 0
        self.is_shared = False
        """Whether other processes open sessions, too."""
        self._learned_at = 0.0
        self._learning = asyncio.Lock()
        self._open = self._read()

    def _read(self) -> dict[str, StoredSession]:
        columns = (sessions.c.digest, sessions.c.key_digest, sessions.c.expires)
        with self._database.read() as connection:
            rows = connection.execute(select(*columns).order_by(sessions.c.expires)).all()
        return {token: StoredSession(key, expires) for token, key, expires in rows}

    async def reload(self) -> None:
        """Read the sessions again: another worker may have changed them."""
        before = self._changes
        stored = await self._database.threads.run(self._read)
        if self._changes == before:  # otherwise a session that was opened meanwhile could be missing
            self._open = stored

    async def open(self, key: ApiKey) -> tuple[str, float]:
        """Start a session; return its token and when it expires."""
        self._changes += 1
        token, now = secrets.token_urlsafe(32), self._clock()
        session = StoredSession(key.digest, now + self.seconds)
        own = [known for known, other in self._open.items() if other.key_digest == key.digest]
        crowded = own[: max(0, len(own) - MAX_SESSIONS + 1)]

        def store() -> None:
            row = {"digest": digest(token), "key_digest": session.key_digest, "expires": session.expires}
            with self._database.write() as connection:
                over = or_(sessions.c.expires <= now, sessions.c.digest.in_(crowded))
                connection.execute(delete(sessions).where(over))
                connection.execute(insert(sessions).values(row))

        await self._database.threads.run(store)
        over = [known for known, other in self._open.items() if other.expires <= now or known in crowded]
        for known in over:
            self._open.pop(known, None)
        self._open[digest(token)] = session
        self._changes += 1
        return token, session.expires

    async def learn(self, token: str) -> None:
        """Read the sessions again if another worker may have opened one with this token."""
        async with self._learning:  # requests that come meanwhile wait for the same reading
            now = time.monotonic()
            is_known = not self.is_shared or digest(token) in self._open
            if not is_known and now - self._learned_at > _LEARN_SECONDS:
                self._learned_at = now
                await self.reload()

    def find(self, token: str) -> tuple[ApiKey, float] | None:
        """Return the API key of a session and when the session expires; None if it is over."""
        session = self._open.get(digest(token))
        if session is None or session.expires <= self._clock():
            return None
        for key in self._keyring.keys:
            if key.digest == session.key_digest:
                return key, session.expires
        return None

    async def close(self, token: str) -> None:
        """End a session."""
        await self._remove([digest(token)])

    async def close_all(self, key: ApiKey) -> None:
        """End all sessions of an API key."""
        await self._remove([known for known, one in self._open.items() if one.key_digest == key.digest])

    async def _remove(self, digests: list[str]) -> None:
        """Forget sessions at once, even if the database cannot be written to."""
        self._changes += 1
        for known in digests:
            self._open.pop(known, None)

        def drop() -> None:
            with self._database.write() as connection:
                connection.execute(delete(sessions).where(sessions.c.digest.in_(digests)))

        await self._database.threads.run(drop)
        self._changes += 1
