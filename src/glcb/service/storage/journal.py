"""Group commit: events of all experiments go to disk in one transaction, as many as have come meanwhile.

Events are written in the order in which they came. If a commit fails, so do all events behind it: they were
applied to a state that is not on disk. The generation tells states apart: one that was loaded in an earlier
generation than the present one may contain what was lost, and must be loaded anew.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from glcb._errors import StorageError
from glcb.service.storage.database import Row
from glcb.service.storage.storage import Event, Storage

log = logging.getLogger("glcb.service")

_GATHER_SECONDS = 0.002
"""Events wait so long for others: a commit of many takes hardly longer than one of few."""
_PROBE_SECONDS = 0.5
"""While the database takes nothing, it is tried again and again after so many seconds."""

Committed = Callable[[int, float], None]
"""Is told the number of events of a commit, and the seconds that it took."""


class _Entry(NamedTuple):
    rows: Sequence[Row]
    done: asyncio.Future[None]


class Journal:
    """A thread that writes what the event loop gives it, and says there when it is on disk."""

    def __init__(self, storage: Storage, *, most: int, committed: Committed) -> None:
        self._storage = storage
        self._most = most
        self._committed = committed
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_Entry] = deque()
        self._writing = False
        self._stopping = False
        self._changed = threading.Condition()
        self.generation = 0
        """Grows with every failure."""
        self.trouble: str | None = None
        """Why nothing can be written at present."""
        self.depth = 0
        """Events that wait to be written."""
        self._thread = threading.Thread(target=self._run, name="glcb-journal", daemon=True)
        self._thread.start()

    # ---- called by the event loop ---------------------------------------------------------------

    def put(self, generation: int, experiment: int, events: Sequence[Event]) -> asyncio.Future[None]:
        """Give events to write; return what is done when they, and all before them, are on disk.

        Without any events, this waits for those of others.
        """
        done: asyncio.Future[None] = self._loop.create_future()
        rows = [(experiment, *event) for event in events]
        with self._changed:
            if generation != self.generation:
                raise StorageError(self.trouble or "the database was not available for a moment: try again")
            if not rows and not self._queue and not self._writing:
                done.set_result(None)
                return done
            self._queue.append(_Entry(rows, done))
            self.depth += len(rows)
            self._changed.notify()
        return done

    async def stop(self) -> None:
        """Write what is there, then end."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        await asyncio.to_thread(self._thread.join)

    def _settle(self, entries: Sequence[_Entry], trouble: str | None) -> None:
        for entry in entries:
            if entry.done.cancelled():
                continue
            if trouble is None:
                entry.done.set_result(None)
            else:
                entry.done.set_exception(StorageError(trouble))
                entry.done.exception()  # whoever has gone away need not hear of it

    # ---- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        while entries := self._next():
            rows = [row for entry in entries for row in entry.rows]
            began = time.perf_counter()
            try:
                if rows:
                    self._storage.append(rows)
            except Exception as error:  # whatever it is: if this thread ended, everybody would wait for ever
                log.error("events cannot be committed", extra={"events": len(rows), "why": str(error)})
                self._fail(entries, str(error))
                continue
            with self._changed:
                self._writing = False
                self.depth -= len(rows)
            if rows:
                self._committed(len(rows), time.perf_counter() - began)
            self._loop.call_soon_threadsafe(self._settle, entries, None)

    def _next(self) -> list[_Entry]:
        """Wait for events; return those of one commit, nothing at the end."""
        with self._changed:
            while not self._queue:
                if self._stopping:
                    return []
                self._changed.wait()
        if not self._stopping:
            time.sleep(_GATHER_SECONDS)
        with self._changed:
            entries: list[_Entry] = []
            room = self._most
            while self._queue and (not entries or len(self._queue[0].rows) <= room):
                entries.append(self._queue.popleft())
                room -= len(entries[-1].rows)
            self._writing = True
            return entries

    def _fail(self, entries: list[_Entry], trouble: str) -> None:
        """Fail everything that came, from now on too, until the database takes something again."""
        with self._changed:
            self.generation += 1
            self.trouble = trouble
            lost = [*entries, *self._queue]
            self._queue.clear()
            self._writing = False
            self.depth = 0
        self._loop.call_soon_threadsafe(self._settle, lost, trouble)
        while not self._stopping:
            with self._changed:
                self._changed.wait(_PROBE_SECONDS)
            try:
                self._storage.probe()
            except Exception as error:
                self.trouble = str(error)
            else:
                self.trouble = None
                log.warning("events can be committed again")
                return
