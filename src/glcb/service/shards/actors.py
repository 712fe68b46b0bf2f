"""The process of a shard, as a Ray actor.

Ray starts an actor again when its process or its node dies. PostgreSQL decides who owns a shard: a process
that Ray believes to be dead, and that is not, can neither write nor answer.
"""

import asyncio
import functools
import logging
import os
import sys
import time
from collections.abc import Coroutine, Sequence
from typing import Any, Literal

from glcb._errors import GlcbError, StorageError
from glcb.service.engine.engine import Engine
from glcb.service.errors import ApiError, as_api_error
from glcb.service.http.admission import Admission
from glcb.service.http.handlers import Handlers
from glcb.service.http.operations import OPERATIONS
from glcb.service.process.background import log_failures, run_in_thread
from glcb.service.process.log_output import configure_logging
from glcb.service.process.warmup import warm_up, warm_up_rest
from glcb.service.shards.messages import Call, Item, Problem, Pulse, Reply, Result, decode_settings
from glcb.service.storage.database import Database, open_database
from glcb.service.storage.ownership import TAKEN_OVER, Shard, owner_of

log = logging.getLogger("glcb.service")

_TICK_SECONDS = 1.0
_SWITCH_SECONDS = 0.0005
_POLL_SECONDS = 0.01
_TAKE_SECONDS = 60.0
"""Time in which a shard must become free: PostgreSQL ends the transactions of a process that hangs."""
_FIRST_SECONDS = 0.05
"""A batch waits this long for its first answer …"""
_OTHERS_SECONDS = 0.01
"""… and then this long for the others. Later ones are sent separately, so that a slow experiment does not
delay the others."""
_LATE_SECONDS = 1.0
"""A request for late answers waits this long for one."""
_FETCH_SECONDS = 60.0
"""A front end must ask for late answers within this time …"""
_FETCH_WHILE_MOVING_SECONDS = 3.0
"""… or this, while the shard moves: it does not wait for a front end that has died."""
_STANDBY_SECONDS = 180.0
"""A process that is to take over a shard waits this long to be told to."""
_RETURN_SECONDS = 20.0
"""Time in which a new process must take a shard that has been drained."""
_UNCONFIRMED = ("unknown_experiment", "experiment_broken")
"""Errors that the engine raises without a look at the database."""
_OPERATIONS = {operation.name: operation for operation in OPERATIONS}


class ShardActor:
    """A process with the experiments of one shard.

    Parameters
    ----------
    settings
        The settings of the service.
    claim
        The claim of the service.
    number, count
        Which of how many shards this is.
    generation
        A process of a later generation takes the shard from one of an earlier generation, and not vice versa.
    waits
        Whether to wait for :meth:`take` instead of taking the shard at once. A process that Ray starts again
        after that does not wait.

    Raises
    ------
    StorageError
        The database is unavailable, another service has claimed it, or the shard has moved.
    """

    def __init__(
        self, settings: bytes, claim: str, number: int, count: int, generation: int = 1, waits: bool = False
    ) -> None:
        self._settings = decode_settings(settings)
        configure_logging(self._settings.log_level, self._settings.log_format)
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._database = open_database(self._settings)
        self._generation = generation
        self._take = functools.partial(_take, self._database, claim, Shard(number, count), generation)
        with self._database.read() as connection:
            self._is_owner = not waits or owner_of(connection, number).generation >= generation
        if self._is_owner:
            self._take()
        self._state: Literal["starting", "ready", "moving"] = "starting"
        self._starting: asyncio.Task[None] | None = None
        self._draining: asyncio.Task[None] | None = None
        self._ends = False
        self._ticking: asyncio.Task[None] | None = None
        self._late: dict[int, _Batch] = {}
        self._batches = 0
        self._running = 0

    # ---- life -----------------------------------------------------------------------------------

    async def ping(self) -> Pulse:
        """Say that the process responds. The first call starts the engine."""
        if not self._is_owner:
            self._end_unless_taken()
            return Pulse("starting", _node(), os.getpid(), 0, 0, None, self._generation)
        self._begin()
        engine = self._engine
        experiments, loaded = len(engine.cache.rows), len(engine.loaded)
        trouble = engine.journal.trouble()
        return Pulse(self._state, _node(), os.getpid(), experiments, loaded, trouble, self._generation)

    async def prepare(self) -> str:
        """Do all that can be done before :meth:`take`; return the node."""
        self._end_unless_taken()
        await warm_up()
        return _node()

    def _end_unless_taken(self) -> None:
        """End this process if nobody calls :meth:`take` in time: then another one can be started."""
        import ray

        def end() -> None:
            if not self._is_owner:
                ray.kill(ray.get_runtime_context().current_actor, no_restart=True)

        if not self._ends:
            self._ends = True
            asyncio.get_running_loop().call_later(_STANDBY_SECONDS, end)

    async def take(self) -> None:
        """Take the shard from its last owner, and start the engine."""
        if not self._is_owner:
            await run_in_thread(self._take)
            self._is_owner = True
        self._begin()
        assert self._starting is not None
        await asyncio.wait([self._starting])

    def _begin(self) -> None:
        """Start the engine, unless that was done already."""
        if self._starting is None:
            self._engine = Engine(self._database, self._settings)
            self._handlers = Handlers(self._engine, self._database, Admission(self._settings))
            self._starting = asyncio.ensure_future(self._start())

    async def _start(self) -> None:
        try:
            await warm_up()
            await self._engine.start()
        except Exception:
            log.exception("a shard cannot start")
            os._exit(1)  # Ray starts it again
        self._ticking = asyncio.ensure_future(self._tick())
        self._warming = asyncio.ensure_future(log_failures(warm_up_rest()))
        self._state = "ready"

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            await log_failures(self._engine.tick())
            self._forget_late(_FETCH_SECONDS)
            if self._engine.journal.failure == TAKEN_OVER:
                log.error("another process has taken this shard")
                os._exit(1)

    def _keep_late(self, number: int, batch: "_Batch") -> None:
        """Keep a batch until a front end asks for its late answers."""
        batch.asked_at = time.monotonic()
        self._late[number] = batch

    def _forget_late(self, seconds: float) -> None:
        """Forget late answers that no front end has asked for in this time."""
        oldest = time.monotonic() - seconds
        self._late = {number: batch for number, batch in self._late.items() if batch.asked_at > oldest}

    async def drain(self) -> None:
        """Refuse new requests, finish those that run, and save everything.

        If no other process takes the shard, this one ends, and Ray starts it again.
        """
        self._state = "moving"
        if self._draining is None:
            self._draining = asyncio.ensure_future(self._drain())
        await asyncio.shield(self._draining)

    async def _drain(self) -> None:
        if self._starting is None:
            return
        await asyncio.wait([self._starting])
        self._state = "moving"
        while self._running or self._late:
            await asyncio.sleep(_POLL_SECONDS)
            self._forget_late(_FETCH_WHILE_MOVING_SECONDS)
        if self._ticking is not None:
            self._ticking.cancel()
            self._warming.cancel()
        asyncio.get_running_loop().call_later(_RETURN_SECONDS, os._exit, 1)
        await self._engine.stop()

    # ---- requests -------------------------------------------------------------------------------

    async def apply(self, items: list[tuple[str, str, bytes]]) -> tuple[int, list[Result]] | None:
        """Apply decisions and rewards; return the answers, or None if the shard moves and nothing was done.

        Answers that take longer than most are not waited for: ask for them with :meth:`late`, by the number
        of the batch.
        """
        if self._state == "moving":
            return None
        if self._state == "starting":
            return 0, [_STARTING] * len(items)
        self._running += 1
        try:
            batch = _Batch([self._apply(Item(*fields)) for fields in items])
            answers = await batch.answers(_FIRST_SECONDS, _OTHERS_SECONDS)
            results = await self._confirmed([answers.get(place) for place in range(len(items))])
        finally:
            self._running -= 1
        if not batch.is_complete:
            self._batches += 1
            self._keep_late(self._batches, batch)
        return self._batches, results

    async def _apply(self, item: Item) -> Result:
        began = time.perf_counter()
        try:
            # The request may be one of a front end of another version.
            answer = await self._engine.apply(item.experiment, item.kind, item.request())
        except Exception as error:
            return _as_problem(error)
        if item.kind == "decide":
            self._engine.activity[item.experiment].latency.add(time.perf_counter() - began)
        return answer

    async def late(self, number: int) -> list[tuple[int, Result]]:
        """Return answers of a batch that were not there in time, with their places; as soon as there is one.

        Call it again until all have been returned.
        """
        batch = self._late.pop(number)
        self._running += 1
        try:
            answers = await batch.answers(_LATE_SECONDS, _OTHERS_SECONDS)
            results = await self._confirmed(list(answers.values()))
        finally:
            self._running -= 1
            if not batch.is_complete:
                self._keep_late(number, batch)
        return list(zip(answers, results, strict=True))

    async def _confirmed(self, results: list[Result]) -> list[Result]:
        """Return the results; errors that the engine found by itself only if this process owns the shard."""
        doubtful = [isinstance(one, Problem) and one.code in _UNCONFIRMED for one in results]
        if any(doubtful):
            try:
                await self._engine.confirm()
            except StorageError as error:
                problem = Problem.of(as_api_error(error))
                return [problem if doubt else one for one, doubt in zip(results, doubtful, strict=True)]
        return results

    async def perform(self, call: tuple[Any, ...]) -> Reply | Problem | None:
        """Perform any other operation; return None if the shard moves and nothing was done."""
        if self._state == "moving":
            return None
        if self._state == "starting":
            return _STARTING
        self._running += 1
        try:
            decoded = Call(*call)
            response = await self._handlers.answer(_OPERATIONS[decoded.operation], decoded.request())
            await self._engine.confirm()
            return Reply.of(response)
        except GlcbError as error:
            return await self._problem(error)
        except Exception:
            log.exception("a request failed")
            return Problem.of(ApiError("internal_error", "the service failed: see its log for details"))
        finally:
            self._running -= 1

    async def _problem(self, error: GlcbError) -> Problem:
        """Return an error, once it is certain that it is not that of a process without a shard."""
        if not isinstance(error, StorageError):
            try:
                await self._engine.confirm()
            except StorageError as lost:
                error = lost
        return Problem.of(as_api_error(error))

    async def count_errors(self, counts: dict[str, dict[str, int]]) -> None:
        """Count errors that a front end has found itself, by experiment and code."""
        if self._state == "ready":
            for name in counts.keys() & self._engine.cache.rows:
                self._engine.activity[name].errors.update(counts[name])


_STARTING = Problem.of(ApiError("starting", "the process that has this experiment is starting: retry"))


class _Batch:
    """Decisions and rewards that arrived together, and their answers."""

    def __init__(self, work: Sequence[Coroutine[Any, Any, Result]]) -> None:
        self.asked_at = time.monotonic()
        """When a front end asked for its answers last."""
        self._places = {asyncio.ensure_future(one): place for place, one in enumerate(work)}
        """What has not been returned yet."""

    @property
    def is_complete(self) -> bool:
        """Whether all answers have been returned."""
        return not self._places

    async def answers(self, first: float, others: float) -> dict[int, Result]:
        """Return new answers: wait ``first`` seconds for one, and then ``others`` seconds for all."""
        _, late = await asyncio.wait(self._places, timeout=first, return_when=asyncio.FIRST_COMPLETED)
        if late:
            await asyncio.wait(late, timeout=others)
        done = [task for task in self._places if task.done()]
        return {self._places.pop(task): task.result() for task in done}


def _as_problem(error: BaseException) -> Problem:
    if isinstance(error, GlcbError):
        return Problem.of(as_api_error(error))
    log.error("a request failed", exc_info=error)
    return Problem.of(ApiError("internal_error", "the service failed: see its log for details"))


def _node() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


def _take(database: Database, claim: str, shard: Shard, generation: int) -> None:
    """Take a shard, as soon as the transactions of its last owner have ended."""
    deadline = time.monotonic() + _TAKE_SECONDS
    while True:
        try:
            database.take_shard(claim, shard, generation)
            return
        except StorageError as error:
            if str(error) == TAKEN_OVER or time.monotonic() > deadline:
                raise
            log.warning("a shard is not free yet", extra={"shard": shard.number, "reason": str(error)})
            time.sleep(0.2)
