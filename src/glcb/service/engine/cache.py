"""Loaded experiments: opened after a restart, loaded on demand, saved periodically, unloaded when idle."""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Iterator
from typing import NamedTuple

from glcb._api.requests import encode
from glcb._api.responses import ExperimentInfo
from glcb._errors import GlcbError, StorageError
from glcb.service.config import ServiceSettings
from glcb.service.core.experiment import CorruptLog, Experiment
from glcb.service.core.models import ExperimentSnapshot
from glcb.service.engine import snapshots
from glcb.service.engine.snapshots import Replay, ReplayStopped
from glcb.service.errors import ApiError
from glcb.service.process.background import run_in_thread
from glcb.service.process.clock import Clock
from glcb.service.storage.database import Database
from glcb.service.storage.journal import Journal
from glcb.service.storage.rows import ExperimentRow
from glcb.service.views.responses import experiment_info

log = logging.getLogger("glcb.service")

_QUICK_KINDS = ("decide", "reward", "settle")
"""All other kinds of events can take as long as an experiment is large."""
_WAIT_SECONDS = 1.0
"""A request waits this long for a replay of its experiment: most take milliseconds."""
_REPLAYS = 2
"""Experiments that replay events at the same time. More would slow down each other and all requests."""
_CONTINUE = "; it can continue from its last good state: POST /v1/experiments/{}/recover"
"""Follows the reason why an experiment is broken, if this is possible."""


class LoadedExperiment:
    """An experiment in memory. Hold its lock to read or change it.

    Parameters
    ----------
    number
        The id of the experiment in the database.
    experiment
        The experiment.
    generation
        Its generation in the journal when it was loaded.
    saved_sequence
        Sequence number of the last event in its newest snapshot.
    is_new
        Whether this process has created it.
    replay_seconds
        How long it took to replay the events after its newest snapshot.
    """

    def __init__(
        self,
        number: int,
        experiment: Experiment,
        generation: int,
        saved_sequence: int,
        is_new: bool = False,
        replay_seconds: float = 0.0,
    ) -> None:
        self.id = number
        self.experiment = experiment
        self.generation = generation
        self.saved_sequence = saved_sequence
        self.replay_seconds = replay_seconds
        """How long it took to apply the events since the last attempt to take a snapshot, which may have
        failed. A replay takes about as long."""
        self.is_taken_over = is_new
        """Whether its ids have a prefix that no other process has used."""
        self.is_saving = False
        self.is_unloaded = False
        """Whether it was dropped from memory: load it again."""
        self.lock = asyncio.Lock()
        self.saving = asyncio.Lock()
        """Held while a snapshot is taken and written. Acquire it before ``lock``."""
        self.last_used = time.monotonic() if is_new else -math.inf
        """When a request used it last; one that was only opened is unloaded first."""
        self.quick_kinds: set[str] = set()
        """The kinds of events that can be applied on the event loop. The first one of a kind is not: it can
        load or compile kernels."""
        self.looked = 0
        """Number of decisions that guardrails had counted when they were tested last."""

    def note_event(self, kind: str) -> None:
        """Note that events of a kind were applied."""
        if kind not in _QUICK_KINDS:
            self.quick_kinds.clear()  # the experiment may have grown
        elif kind not in self.quick_kinds and self.experiment.is_small:
            self.quick_kinds.add(kind)

    def needs_snapshot(self, seconds: float) -> bool:
        """Return whether a replay of the events since the last attempt would take longer than ``seconds``."""
        return not self.is_saving and self.replay_seconds > seconds

    @property
    def name(self) -> str:
        """The name of the experiment."""
        return self.experiment.name

    @property
    def unsaved_events(self) -> int:
        """Number of events since the newest snapshot."""
        return self.experiment.state.sequence - self.saved_sequence


class _Load(NamedTuple):
    """An experiment that is being loaded."""

    task: asyncio.Task[LoadedExperiment]
    replay: Replay

    def stop(self) -> None:
        """End it before the next event, or at once if it has not begun."""
        self.replay.stop()
        if not self.replay.has_begun:
            self.task.cancel()


class ExperimentCache:
    """The experiments in the database, and those of them that are loaded.

    Parameters
    ----------
    database
        Where experiments are stored.
    journal
        Writes their events.
    settings
        The settings of the service.
    clock
        The time of the service.
    """

    def __init__(self, database: Database, journal: Journal, settings: ServiceSettings, clock: Clock) -> None:
        self.rows: dict[str, ExperimentRow] = {}
        """All experiments of this process by name."""
        self.loaded: dict[str, LoadedExperiment] = {}
        self.broken: dict[str, str] = {}
        """Why an experiment cannot be loaded, if retrying does not help."""
        self.unopened: set[str] = set()
        """Experiments that had events after their newest snapshot at the start, and are not loaded yet."""
        self._database = database
        self._journal = journal
        self._settings = settings
        self._clock = clock
        self._in_doubt = False
        self._is_closed = False
        self._loading: dict[str, _Load] = {}
        self._replays = asyncio.Semaphore(_REPLAYS)  # in the order of their requests

    async def refresh(self) -> None:
        """Read the list of experiments from the database."""
        while True:
            owned = self._database.partitions
            rows = await self._database.threads.run(self._database.experiments, owned)
            if owned == self._database.partitions:  # otherwise partitions have come or gone meanwhile
                break
        self.rows = {row.name: row for row in rows}

    async def adopt(self, partitions: frozenset[int]) -> list[ExperimentRow]:
        """Add the experiments of partitions; return them. :meth:`open_all` has to open some of them."""
        rows = await self._database.threads.run(self._database.experiments, partitions)
        for row in rows:
            self.rows[row.name] = row
            if _replayed_events(row):
                self.unopened.add(row.name)
        return rows

    async def release(self, name: str) -> None:
        """Save an experiment, and forget it. Nobody uses it meanwhile."""
        while name in self._loading or name in self.loaded:
            load = self._loading.get(name)
            if load is not None:
                load.stop()
                await asyncio.wait([load.task])
            if name in self.loaded:
                await self.unload(self.loaded[name])
        self.rows.pop(name, None)
        self.broken.pop(name, None)
        self.unopened.discard(name)

    @contextlib.contextmanager
    def change_of_rows(self) -> Iterator[None]:
        """Remember if the block fails: its change may or may not have reached the database."""
        try:
            yield
        except BaseException:
            self._in_doubt = True
            raise

    async def settle_rows(self) -> None:
        """After a failed change, read the list of experiments again, once the change can no longer happen."""
        if self._in_doubt:
            if self._database.threads.is_stalled:
                raise StorageError("the database has not answered: retry")
            await self._database.threads.run(self._database.fence)
            await self.refresh()
            self._in_doubt = False

    async def start(self) -> None:
        """Read the list of experiments, and note which of them :meth:`open_all` has to open."""
        await self.refresh()
        self.unopened = {name for name, row in self.rows.items() if _replayed_events(row)}

    async def open_all(self) -> None:
        """Load the unopened experiments one at a time, and save a new snapshot of each.

        Requests load the experiments that they need themselves, and this method waits behind them.
        """
        for name in sorted(self.unopened, key=lambda name: _replayed_events(self.rows[name])):
            await self._open(name)

    async def _open(self, name: str) -> None:
        row = self.rows.get(name)
        if row is not None and _replayed_events(row):  # it was neither deleted nor saved meanwhile
            try:
                loaded = self.loaded.get(name) or await self.load(name, wait=True)
            except StorageError:
                return  # logged; it may be temporary, and the next tick tries again
            except GlcbError:
                pass  # logged; the other experiments are not affected
            else:
                if not loaded.is_saving:
                    loaded.is_saving = True
                    await self.save(loaded)
        self.unopened.discard(name)
        await self.evict_surplus()

    async def close(self) -> None:
        """Load no more experiments, and stop the replays."""
        self._is_closed = True
        loads = list(self._loading.values())
        for load in loads:
            load.stop()
        if loads:
            await asyncio.wait([load.task for load in loads])

    def find(self, name: str) -> ExperimentRow:
        """Return the row of an experiment; raise ApiError if there is none."""
        row = self.rows.get(name)
        if row is None:
            raise ApiError("unknown_experiment", f"there is no experiment {name!r}: create it first")
        return row

    def require_storage(self) -> None:
        """Raise StorageError while the database does not accept events."""
        if self._journal.failure is not None:
            raise StorageError(self._journal.failure)

    def add(self, number: int, experiment: Experiment) -> None:
        """Add a new experiment."""
        loaded = LoadedExperiment(number, experiment, self._journal.generation(number), 0, is_new=True)
        self.rows[loaded.name] = ExperimentRow(number, loaded.name, 1, 0, b"")
        self.loaded[loaded.name] = loaded

    async def acquire(self, name: str) -> LoadedExperiment:
        """Return an experiment with its lock held; the caller releases it."""
        while True:
            loaded = self.loaded.get(name) or await self.load(name)
            await loaded.lock.acquire()
            if not loaded.is_unloaded and loaded.generation == self._journal.generation(loaded.id):
                return loaded
            self.drop(loaded)
            loaded.lock.release()

    async def forget(self, name: str) -> LoadedExperiment | None:
        """Drop an experiment before its deletion, once none of its events is being written."""
        last = None
        while name in self._loading or name in self.loaded:  # another request may load it meanwhile
            load = self._loading.get(name)
            if load is not None:
                load.stop()
                await asyncio.wait([load.task])
            loaded = self.loaded.get(name)
            if loaded is not None:
                async with loaded.lock:
                    with contextlib.suppress(StorageError):  # lost events would be deleted anyway
                        await self._journal.submit(loaded.generation, loaded.id, ())
                    self.drop(loaded)
                last = loaded
        self.broken.pop(name, None)
        self.unopened.discard(name)
        return last

    async def load(self, name: str, wait: bool = False) -> LoadedExperiment:
        """Return an experiment. Unless ``wait``, raise ApiError if its replay takes long; it goes on then."""
        await self.settle_rows()
        if name in self.loaded:
            return self.loaded[name]
        row = self.find(name)
        if name in self.broken:
            raise self._broken_error(name)
        if self._is_closed:
            raise ApiError("stopping", "the service is stopping: retry in a moment")
        load = self._loading.get(name) or self._begin(row)
        while True:
            done, _ = await asyncio.wait([load.task], timeout=None if wait else _WAIT_SECONDS)
            if load.task.cancelled():
                raise self._opening_error(row)
            if done:
                return load.task.result()
            if load.replay.events:  # otherwise, only a snapshot is read
                raise self._opening_error(row)

    def _begin(self, row: ExperimentRow) -> _Load:
        """Load an experiment, even if nobody waits for it any more."""

        def end(task: asyncio.Task[LoadedExperiment]) -> None:
            self._loading.pop(row.name, None)
            if not task.cancelled():
                task.exception()  # mark as retrieved

        replay = Replay(_replayed_events(row))
        load = _Load(asyncio.ensure_future(self._restore_in_turn(row, replay)), replay)
        self._loading[row.name] = load
        load.task.add_done_callback(end)
        return load

    async def _restore_in_turn(self, row: ExperimentRow, replay: Replay) -> LoadedExperiment:
        """Restore an experiment; wait for a turn if it has events to replay.

        After a failed commit, experiments that were dropped have events that the list does not know.
        """
        may_replay = replay.events > 0 or self._journal.failures > 0
        async with self._replays if may_replay else contextlib.nullcontext():
            replay.has_begun = True
            return await self._restore(row, replay)

    async def _restore(self, row: ExperimentRow, replay: Replay) -> LoadedExperiment:
        self.require_storage()
        generation = self._journal.generation(row.id)
        await self._journal.submit(generation, row.id, ())  # its queued events must be on disk first
        started = time.perf_counter()
        try:
            experiment, saved = await self._database.threads.run(
                snapshots.restore, self._database, row.id, replay
            )
            if experiment.name != row.name:
                raise CorruptLog(f"it was created with the name {experiment.name!r}")
        except ReplayStopped:
            raise self._opening_error(row) from None
        except Exception as error:
            reason = _reason(error)
            log.error("experiment cannot be loaded", extra={"experiment": row.name, "reason": reason})
            if isinstance(error, StorageError) and not isinstance(error, CorruptLog):
                raise  # the database cannot be read, which may be temporary
            can_continue = isinstance(error, CorruptLog) and error.last_good > 0
            self.broken[row.name] = f"{reason}{_CONTINUE.format(row.name) if can_continue else ''}"
            self.unopened.discard(row.name)
            raise self._broken_error(row.name) from error
        loaded = LoadedExperiment(row.id, experiment, generation, saved, replay_seconds=replay.seconds)
        self.loaded[row.name] = loaded
        self.unopened.discard(row.name)
        log.info(
            "experiment loaded",
            extra={
                "experiment": row.name,
                "sequence": experiment.state.sequence,
                "replayed": loaded.unsaved_events,
                "seconds": round(time.perf_counter() - started, 3),
            },
        )
        return loaded

    def progress(self, row: ExperimentRow) -> str:
        """Return how many events of an experiment have been replayed."""
        load = self._loading.get(row.name)
        replay = Replay(_replayed_events(row)) if load is None else load.replay
        return f"{replay.done:,} of {replay.events:,} events are done"

    def _opening_error(self, row: ExperimentRow) -> ApiError:
        return ApiError(
            "experiment_opening", f"the experiment {row.name!r} is being opened: {self.progress(row)}: retry"
        )

    def _broken_error(self, name: str) -> ApiError:
        """Return a new error each time: a raised error keeps the frames of its traceback alive."""
        return ApiError(
            "experiment_broken",
            f"the experiment {name!r} cannot be loaded: {self.broken[name]}; restore a backup of the "
            "database, or delete the experiment",
        )

    def drop(self, loaded: LoadedExperiment) -> None:
        """Remove an experiment from memory without saving it."""
        loaded.is_unloaded = True
        if self.loaded.get(loaded.name) is loaded:
            del self.loaded[loaded.name]

    async def save(self, loaded: LoadedExperiment) -> None:
        """Take a snapshot, and write it once all its events are on disk. Requests are not blocked."""
        try:
            async with loaded.saving:
                async with loaded.lock:
                    if loaded.is_unloaded or loaded.generation != self._journal.generation(loaded.id):
                        return
                    loaded.replay_seconds = 0.0
                    snapshot = await run_in_thread(loaded.experiment.snapshot)
                    info = experiment_info(loaded.experiment)
                    on_disk = self._journal.submit(loaded.generation, loaded.id, ())
                await on_disk
                await self._write(loaded, snapshot, info)
        except Exception as error:  # any error: an experiment that cannot be saved can still be replayed
            self._log_unsaved(loaded, error)
        finally:
            loaded.is_saving = False

    async def unload(self, loaded: LoadedExperiment) -> None:
        """Save an experiment and remove it from memory."""
        async with loaded.saving, loaded.lock:
            if loaded.is_unloaded:
                return
            try:
                await self._journal.submit(loaded.generation, loaded.id, ())
                if loaded.unsaved_events:
                    snapshot = await run_in_thread(loaded.experiment.snapshot)
                    await self._write(loaded, snapshot, experiment_info(loaded.experiment))
            except Exception as error:  # any error: the other experiments must be unloaded too
                self._log_unsaved(loaded, error)
            self.drop(loaded)

    async def _write(
        self, loaded: LoadedExperiment, snapshot: ExperimentSnapshot, info: ExperimentInfo
    ) -> None:
        await self._database.threads.run(
            snapshots.save, self._database, loaded.id, snapshot, info, self._settings, self._clock
        )
        loaded.saved_sequence = max(loaded.saved_sequence, snapshot.sequence)
        row = self.rows.get(loaded.name)
        if row is not None and row.id == loaded.id:
            self.rows[loaded.name] = row._replace(snapshot_sequence=snapshot.sequence, summary=encode(info))

    def _log_unsaved(self, loaded: LoadedExperiment, error: Exception) -> None:
        """Only log the failure: until the next snapshot, the events on disk are sufficient."""
        log.error("snapshot failed", extra={"experiment": loaded.name, "reason": _reason(error)})

    async def evict_surplus(self) -> None:
        """Unload the least recently used experiments while too many are loaded."""
        by_use = sorted(self.loaded.values(), key=lambda loaded: loaded.last_used)
        for loaded in by_use[: max(0, len(by_use) - self._settings.max_loaded_experiments)]:
            await self.unload(loaded)


def _replayed_events(row: ExperimentRow) -> int:
    """Return how many events an experiment had after its newest snapshot when the list was read."""
    return max(0, row.last_sequence - row.snapshot_sequence)


def _reason(error: Exception) -> str:
    """Return the message of an error, with its type unless it is one of ours."""
    return str(error) if isinstance(error, GlcbError) else f"{type(error).__name__}: {error}"
