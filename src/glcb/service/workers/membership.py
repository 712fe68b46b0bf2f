"""The part of a worker in the service: it renews its lease, and takes, opens and gives away partitions.

Requests enter a partition when they are complete, and leave it when their response begins. A partition that
is given away is closed first: requests in it end, later ones wait, and then follow it to its new owner.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable

from glcb._errors import GlcbError, StorageError
from glcb.service.engine.engine import Engine
from glcb.service.storage.database import Database
from glcb.service.storage.ownership import LEASE_SECONDS, TAKEN_OVER, partition_of
from glcb.service.storage.threads import StorageThreads
from glcb.service.workers import partitions
from glcb.service.workers.partitions import (
    RENEW_SECONDS,
    Changes,
    PartitionOwner,
    WorkerRow,
    WorkerView,
    find_worker,
    should_restart,
    wanted_changes,
)

log = logging.getLogger("glcb.service")

MOVE_SECONDS = 15.0
"""Requests wait this long for a partition that moves."""
_PAUSE_SECONDS = 0.05
_GRACE_SECONDS = 1.5 * RENEW_SECONDS
"""A worker whose lease has expired has this long to renew it."""
_NOBODY = PartitionOwner(None, 0)
_TOGETHER = 16
"""Partitions without experiments are given away together, others a few at a time."""


class Membership:
    """The lease and the partitions of this worker, and what it knows of the others.

    Parameters
    ----------
    database
        The database.
    row
        This worker.
    restart
        Called once if it is the turn of this worker in a rolling restart.
    """

    def __init__(self, database: Database, row: WorkerRow, restart: Callable[[], None]) -> None:
        self.row = row
        self.view = WorkerView((), {}, {}, frozenset())
        self._rows: dict[str, WorkerRow] = {}
        """All workers by their incarnations."""
        self.in_flight: dict[int, int] = {}
        """Requests in each partition."""
        self._database = database
        self._restart: Callable[[], None] | None = restart
        self._engine: Engine | None = None
        self._threads = StorageThreads(1, database.deadline)  # a lease must not wait for other work
        self._open: frozenset[int] = frozenset()
        self._closing: set[int] = set()
        """Partitions that are being given away."""
        self._opening: frozenset[int] = frozenset()
        """Partitions that this worker owns, and whose experiments are being listed."""
        self._changed = asyncio.Event()
        self._reading = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None
        """The next reading, which has not begun."""
        self._renewed_at = time.monotonic()
        self._expired: dict[str, float] = {}
        """Since when the leases of workers have been known to be expired, by incarnation."""
        self._steady_since = self._renewed_at
        """Since when the lease has been renewed without a gap."""
        self._giving: asyncio.Task[None] | None = None
        self._adopting: asyncio.Task[None] | None = None
        self.on_view: Callable[[WorkerView], None] = lambda _: None
        """Called with every new view."""

    # ---- life -----------------------------------------------------------------------------------

    async def join(self, timeout: float) -> None:
        """Become a worker; wait this long for another process with the same name."""
        self.row = await self._threads.run(partitions.join, self._database, self.row, timeout)
        self._renewed_at = self._steady_since = time.monotonic()

    async def begin(self, engine: Engine) -> None:
        """Take the first partitions. :meth:`run` renews the lease from then on."""
        self._engine = engine
        await self.refresh()
        await self._work()

    async def opened(self) -> None:
        """Wait until the first partitions are open."""
        if self._adopting is not None:
            await asyncio.wait([self._adopting])

    async def run(self) -> None:
        """Renew the lease, and take and give partitions, until canceled."""
        while True:
            began = time.monotonic()
            try:
                await self.refresh()
                await self._work()
            except StorageError as error:
                self._end_if_replaced(error)
                log.error("the lease cannot be renewed", extra={"reason": str(error)})
            except GlcbError as error:
                log.error("partitions cannot be taken", extra={"reason": str(error)})
            except Exception:
                log.exception("partitions cannot be taken")
            await asyncio.sleep(max(0.0, began + RENEW_SECONDS - time.monotonic()))

    async def hand_over(self, seconds: float) -> None:
        """Give all partitions away, if there is another worker; give up after this time."""
        self.row = self.row._replace(stopping=True)
        with contextlib.suppress(TimeoutError, StorageError):
            async with asyncio.timeout(seconds):
                await self.refresh()
                while self.view.owned_by(self.row.name) and any(
                    name != self.row.name for name in self.view.homes()
                ):
                    self._give(wanted_changes(self.view, self.row.name))
                    if self._giving is not None:
                        await asyncio.wait([self._giving])
                    await asyncio.sleep(_PAUSE_SECONDS)  # partitions that are being opened are given later
                    await self.refresh()

    async def leave(self) -> None:
        """Remove this worker, whose engine has stopped."""
        with contextlib.suppress(StorageError):  # its lease expires
            await self._threads.run(partitions.leave, self._database, self.row)
        self._threads.close()

    def _end_if_replaced(self, error: StorageError) -> None:
        if str(error) == TAKEN_OVER:
            log.error("other workers have taken the partitions of this one")
            os._exit(1)  # whoever has started it starts it again

    # ---- what others have -----------------------------------------------------------------------

    def owner_of(self, partition: int) -> tuple[WorkerRow | None, int]:
        """Return the owner of a partition, and the epoch."""
        owner = self.view.owners.get(partition, _NOBODY)
        return self._rows.get(owner.worker or ""), owner.epoch

    async def wait_for_owner(self, partition: int) -> tuple[WorkerRow | None, int]:
        """Return the owner of a partition; wait for one that is free, which somebody takes soon."""
        deadline = time.monotonic() + LEASE_SECONDS
        while self.owner_of(partition)[0] is None and time.monotonic() < deadline:
            await self.refresh()
            if self.owner_of(partition)[0] is None:
                await asyncio.sleep(RENEW_SECONDS / 4)
        return self.owner_of(partition)

    def others(self) -> list[WorkerRow]:
        """Return all other live workers."""
        return [one for one in self.view.workers if one.is_live and one.name != self.row.name]

    async def refresh(self) -> None:
        """Read who owns what by now, and open partitions that this worker got. Callers share readings."""
        if self._next is None:
            self._next = asyncio.ensure_future(self._read())
        await asyncio.shield(self._next)

    async def _read(self) -> None:
        async with self._reading:
            self._next = None  # who comes now needs another reading
            began = time.monotonic()
            self.view = await self._threads.run(partitions.renew, self._database, self.row)
            if began - self._renewed_at > LEASE_SECONDS:
                self._steady_since = began
            self._renewed_at = began
            self._rows = {one.incarnation: one for one in self.view.workers}
            self.on_view(self.view)
            self._open_new()

    def _open_new(self) -> None:
        """Open the partitions that this worker owns and does not have open, in the background."""
        mine = frozenset(self.view.owned_by(self.row.name))
        new = mine - self._open - self._closing
        if new and not self._opening and self._engine is not None:
            self._opening = new
            self._adopting = asyncio.ensure_future(self._adopt(self._engine, new))

    async def _adopt(self, engine: Engine, new: frozenset[int]) -> None:
        try:
            self._database.partitions = (self._database.partitions or frozenset()) | new
            await engine.adopt(new)
            self._open |= new
        except GlcbError as error:  # the next reading tries again
            log.error("partitions cannot be opened", extra={"reason": str(error)})
        except Exception:
            log.exception("partitions cannot be opened")
        self._opening = frozenset()
        if new <= self._open:  # others may have come meanwhile
            self._open_new()
        self._notify()

    # ---- what this worker changes ---------------------------------------------------------------

    async def _work(self) -> None:
        """Take over from workers whose leases have expired, take what is free, give what is too much."""
        now = time.monotonic()
        expired = [one for one in self.view.workers if not one.is_live]
        self._expired = {one.incarnation: self._expired.get(one.incarnation, now) for one in expired}
        # If the clock of the database has jumped ahead, live workers renew their leases within this time.
        dead = [
            one for one in expired if one.has_ended or now - self._expired[one.incarnation] >= _GRACE_SECONDS
        ]
        # After an outage of the database, all leases have expired, and nobody is dead.
        if dead and now - self._steady_since >= LEASE_SECONDS:
            deadline = now + RENEW_SECONDS  # the lease must be renewed meanwhile
            for one in dead:
                with contextlib.suppress(StorageError):  # its transactions have not ended yet
                    if await self._threads.run(partitions.take_over, self._database, one):
                        about = {"worker": one.name, "pid": one.process}
                        log.warning("a worker is replaced", extra=about)
                if time.monotonic() > deadline:
                    break
            await self.refresh()
        changes = wanted_changes(self.view, self.row.name)
        if changes.take:
            await self._threads.run(partitions.take, self._database, self.row, changes.take)
            await self.refresh()
        self._give(changes)
        if self._restart is not None and should_restart(self.view, self.row.name):
            log.info("this worker restarts")
            restart, self._restart = self._restart, None
            restart()

    def _give(self, changes: Changes) -> None:
        """Give partitions away in the background, unless that goes on already."""
        if changes.give and (self._giving is None or self._giving.done()):
            self._giving = asyncio.ensure_future(self._give_all(changes.give))

    async def _give_all(self, recipients: dict[int, str]) -> None:
        assert self._engine is not None
        full = {partition_of(name) for name in self._engine.cache.rows}
        numbers = [number for number in recipients if number in self._open]
        groups = [frozenset(number for number in numbers if number not in full)]
        groups += [frozenset([number]) for number in numbers if number in full]
        limit = asyncio.Semaphore(_TOGETHER)

        async def give(group: frozenset[int]) -> None:
            async with limit:
                await self._give_group(group, {number: recipients[number] for number in group})

        await asyncio.gather(*(give(group) for group in groups if group))

    async def _give_group(self, numbers: frozenset[int], recipients: dict[int, str]) -> None:
        """Close partitions, save their experiments, and give them to other workers."""
        assert self._engine is not None
        self._closing |= numbers
        self._open -= numbers
        try:
            while any(self.in_flight.get(number) for number in numbers):
                await self._changed.wait()
            await self._engine.release(numbers)
            self._database.partitions = (self._database.partitions or frozenset()) - numbers
            found = {number: find_worker(self.view.workers, name) for number, name in recipients.items()}
            rows = {number: row for number, row in found.items() if row is not None}
            await self._threads.run(partitions.give, self._database, self.row, rows)
        except GlcbError as error:
            log.error("partitions stay here", extra={"partitions": sorted(numbers), "reason": str(error)})
        except Exception:
            log.exception("partitions stay here", extra={"partitions": sorted(numbers)})
        while True:  # only a reading from now on knows whether they are still here
            try:
                await self.refresh()
                break
            except StorageError:
                await asyncio.sleep(RENEW_SECONDS)
        self._closing -= numbers
        self._open_new()
        self._notify()

    # ---- requests -------------------------------------------------------------------------------

    def is_open(self, partition: int) -> bool:
        """Return whether requests may enter a partition."""
        return partition in self._open

    async def settled(self, partition: int) -> bool:
        """Wait while a partition is being opened or given away; return whether it is open here."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MOVE_SECONDS):
                while partition in self._closing or partition in self._opening:
                    await self._changed.wait()
        return partition in self._open

    def enter(self, partition: int) -> None:
        """Count a request in a partition that is open."""
        self.in_flight[partition] = self.in_flight.get(partition, 0) + 1

    def exit(self, partition: int) -> None:
        """Count a request in a partition no more."""
        self.in_flight[partition] -= 1
        if partition in self._closing:
            self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
