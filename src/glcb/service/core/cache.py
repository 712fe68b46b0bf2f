"""Loaded experiments: loaded on demand, saved periodically, unloaded when idle."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator

from glcb._api.requests import encode
from glcb._api.responses import ExperimentInfo
from glcb._errors import GlcbError, StorageError
from glcb.service.background import run_in_thread
from glcb.service.config import ServiceSettings
from glcb.service.core.clock import Clock
from glcb.service.core.experiment import CorruptLog, Experiment
from glcb.service.core.models import ExperimentSnapshot
from glcb.service.errors import ApiError
from glcb.service.responses import experiment_info
from glcb.service.storage import snapshots
from glcb.service.storage.database import Database
from glcb.service.storage.journal import Journal
from glcb.service.storage.rows import ExperimentRow

log = logging.getLogger("glcb.service")

_SLOW_SECONDS = 0.003
"""Events that take longer on average are applied in a thread."""


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
    """

    def __init__(
        self,
        number: int,
        experiment: Experiment,
        generation: int,
        saved_sequence: int,
        is_new: bool = False,
    ) -> None:
        self.id = number
        self.experiment = experiment
        self.generation = generation
        self.saved_sequence = saved_sequence
        self.attempted_sequence = saved_sequence
        """Sequence number at the last attempt to take a snapshot, which may have failed."""
        self.is_taken_over = is_new
        """Whether its ids have a prefix that no other process has used."""
        self.is_saving = False
        self.is_unloaded = False
        """Whether it was dropped from memory: load it again."""
        self.lock = asyncio.Lock()
        self.last_used = time.monotonic()
        self.needs_cpu_time = True
        """Whether the CPU time of the next event must be measured. This is a system call, so it is only done
        after an event whose duration does not show that events are fast."""
        self._mean_seconds = 0.0
        self._applied: set[str] = set()
        """The kinds of events that were applied since it was loaded. The first one of a kind can load or
        compile kernels."""
        self.looked = 0
        """Number of decisions that guardrails had counted when they were tested last."""

    def add_event_time(self, kind: str, seconds: float, cpu_seconds: float | None) -> None:
        """Update the moving average of the CPU time per event, which is at most the duration of the event."""
        if kind not in self._applied:
            self._applied.add(kind)
            return
        is_short = seconds < _SLOW_SECONDS / 2
        self.needs_cpu_time = not is_short
        if is_short or cpu_seconds is not None:
            self._mean_seconds += ((cpu_seconds or seconds) - self._mean_seconds) / 10

    def is_fast(self, kind: str) -> bool:
        """Return whether events of a kind can be applied in the event loop."""
        return kind in self._applied and self._mean_seconds < _SLOW_SECONDS and self.experiment.is_fast

    def needs_snapshot(self, interval: int) -> bool:
        """Return whether ``interval`` events have passed since the last attempt to take a snapshot."""
        return not self.is_saving and self.experiment.state.sequence - self.attempted_sequence >= interval

    @property
    def name(self) -> str:
        """The name of the experiment."""
        return self.experiment.name

    @property
    def unsaved_events(self) -> int:
        """Number of events since the newest snapshot."""
        return self.experiment.state.sequence - self.saved_sequence


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
        """All experiments by name."""
        self.loaded: dict[str, LoadedExperiment] = {}
        self.broken: dict[str, str] = {}
        """Why an experiment cannot be loaded, if retrying does not help."""
        self._database = database
        self._journal = journal
        self._settings = settings
        self._clock = clock
        self._in_doubt = False
        self._loading: dict[str, asyncio.Task[LoadedExperiment]] = {}

    async def refresh(self) -> None:
        """Read the list of experiments from the database."""
        rows = await self._database.threads.run(self._database.experiments)
        self.rows = {row.name: row for row in rows}

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

    async def restore_all(self) -> None:
        """Load every experiment with events after its newest snapshot, and save a new snapshot."""
        for name, row in list(self.rows.items()):
            if row.last_sequence > row.snapshot_sequence:
                with contextlib.suppress(GlcbError):  # logged; the other experiments are not affected
                    await self.save(await self._load(name))
                await self.evict_surplus()

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
            loaded = self.loaded.get(name) or await self._load(name)
            await loaded.lock.acquire()
            if not loaded.is_unloaded and loaded.generation == self._journal.generation(loaded.id):
                return loaded
            self.drop(loaded)
            loaded.lock.release()

    async def forget(self, name: str) -> LoadedExperiment | None:
        """Drop an experiment before its deletion, once none of its events is being written."""
        last = None
        while name in self._loading or name in self.loaded:  # another request may load it meanwhile
            if name in self._loading:
                await asyncio.wait([self._loading[name]])
            loaded = self.loaded.get(name)
            if loaded is not None:
                async with loaded.lock:
                    with contextlib.suppress(StorageError):  # lost events would be deleted anyway
                        await self._journal.submit(loaded.generation, loaded.id, ())
                    self.drop(loaded)
                last = loaded
        self.broken.pop(name, None)
        return last

    async def _load(self, name: str) -> LoadedExperiment:
        await self.settle_rows()
        row = self.find(name)
        if name in self.broken:
            raise self._broken_error(name)
        task = self._loading.get(name)
        if task is None:
            task = self._loading[name] = asyncio.ensure_future(self._restore(row))
            task.add_done_callback(lambda _: self._loading.pop(name, None))
        return await asyncio.shield(task)

    async def _restore(self, row: ExperimentRow) -> LoadedExperiment:
        self.require_storage()
        generation = self._journal.generation(row.id)
        await self._journal.submit(generation, row.id, ())  # its queued events must be on disk first
        started = time.perf_counter()
        try:
            experiment, saved = await self._database.threads.run(snapshots.restore, self._database, row.id)
            if experiment.name != row.name:
                raise CorruptLog(f"it was created with the name {experiment.name!r}")
        except Exception as error:
            reason = _reason(error)
            log.error("experiment cannot be loaded", extra={"experiment": row.name, "reason": reason})
            if isinstance(error, StorageError) and not isinstance(error, CorruptLog):
                raise  # the database cannot be read, which may be temporary
            self.broken[row.name] = reason
            raise self._broken_error(row.name) from error
        loaded = LoadedExperiment(row.id, experiment, generation, saved)
        self.loaded[row.name] = loaded
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
            async with loaded.lock:
                if loaded.is_unloaded or loaded.generation != self._journal.generation(loaded.id):
                    return
                loaded.attempted_sequence = loaded.experiment.state.sequence
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
        async with loaded.lock:
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


def _reason(error: Exception) -> str:
    """Return the message of an error, with its type unless it is one of ours."""
    return str(error) if isinstance(error, GlcbError) else f"{type(error).__name__}: {error}"
