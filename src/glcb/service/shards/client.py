"""The connection of a front end to one shard: requests, probes, and replacing a process that hangs."""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from glcb._api.requests import encode
from glcb._api.shards import ShardInfo
from glcb.service.errors import ApiError
from glcb.service.process.background import log_failures
from glcb.service.shards.messages import Call, Problem, Pulse, Reply

log = logging.getLogger("glcb.service")

_PROBE_SECONDS = 0.5
_QUIET_SECONDS = 2.0
"""A shard that has not responded for this long gets no more requests until it does."""
_START_SECONDS = 120.0
"""Time that a process has to respond for the first time."""
_MOVE_SECONDS = 30.0
"""Requests wait this long for a shard that moves."""
_MAX_NAMES = 1000
"""Experiments whose errors are counted between two reports."""
_MAX_BATCH = 64
_MAX_CALLS = 2
"""Batches on their way to one shard. Meanwhile, requests gather in the next one."""
_MIN_BATCH = 16
_GATHER_SECONDS = 0.005
"""While a batch is on its way, the next one waits for this number of requests, or for this long: a call costs
as much CPU time as several requests."""

_AWAY = Pulse("away", None, None, 0, 0, None)

Find = Callable[[int], Awaitable[Any]]
"""Returns the actor of a shard; starts it if there is none."""


class _Waiting(NamedTuple):
    """A decision or a reward that waits for its answer."""

    item: tuple[str, str, bytes]
    answer: asyncio.Future[bytes]
    deadline: float


class ShardClient:
    """Sends requests to one shard, and replaces a process that hangs.

    A call is made at most once. If its outcome is unknown, the request gets 503, and the client can repeat it
    with the same idempotency key. Only requests that a shard has refused because it moves are sent again.

    Parameters
    ----------
    number
        The shard.
    find
        Returns its actor.
    hang_seconds
        Time after which a process that does not respond is replaced.
    call_seconds
        Time after which a request fails.
    max_waiting
        Requests that may wait for this shard.
    """

    def __init__(
        self, number: int, find: Find, hang_seconds: float, call_seconds: float, max_waiting: int
    ) -> None:
        self.number = number
        self.pulse: Pulse | None = None
        """What the shard said last; None while it does not respond."""
        self.heard_at = time.monotonic()
        """When it, or Ray on its behalf, responded last."""
        self.responded_at = self.heard_at
        """When it responded itself."""
        self.replaced = 0
        """How often a process that did not respond was replaced."""
        self.moves = 0
        """How often another process has taken over on purpose."""
        self.errors: dict[str, dict[str, int]] = {}
        """Errors that this front end has found itself, by experiment and code."""
        self._find = find
        self._hang_seconds = hang_seconds
        self._call_seconds = call_seconds
        self._max_waiting = max_waiting
        self._actor: Any = None
        self._queue: deque[_Waiting] = deque()
        self._gathering: asyncio.TimerHandle | None = None
        self._waiting = 0
        self._calls: set[asyncio.Task[None]] = set()
        self._fetches: set[asyncio.Task[None]] = set()
        self._open: set[asyncio.Future[Any]] = set()
        """Calls whose results are awaited."""
        self._has_responded = False
        self._generation = 0
        self._moves_until: float | None = None
        """Until when requests wait for a shard that moves; None if it does not."""

    @property
    def is_ready(self) -> bool:
        """Whether the shard answers requests."""
        return self.pulse is not None and self.pulse.state == "ready"

    @property
    def is_moving(self) -> bool:
        """Whether the shard has saved everything and will be back soon."""
        return self._moves_until is not None and time.monotonic() < self._moves_until

    def info(self, wanted: int = 0) -> ShardInfo:
        """Return what is known about the shard, and the generation that administrators want."""
        pulse = self.pulse or _AWAY
        return ShardInfo(
            number=self.number,
            state="moving" if self.is_moving else pulse.state,
            node=pulse.node,
            process=pulse.process,
            experiments=pulse.experiments,
            loaded=pulse.loaded,
            trouble=pulse.trouble,
            generation=pulse.generation,
            wanted=wanted,
            silent=round(time.monotonic() - self.responded_at, 1),
        )

    # ---- decisions and rewards ------------------------------------------------------------------

    async def send(self, name: str, kind: str, request: Any) -> bytes:
        """Send a decision or a reward together with others; return its answer or raise its error."""
        if not (self.is_ready or self.is_moving):
            raise self._unavailable()
        if self._waiting >= self._max_waiting:
            raise ApiError("overloaded", "this shard has too many open requests: retry")
        loop = asyncio.get_running_loop()
        deadline = time.monotonic() + self._call_seconds
        waiting = _Waiting((name, kind, encode(request)), loop.create_future(), deadline)
        self._waiting += 1
        self._queue.append(waiting)
        if len(self._queue) in (1, _MIN_BATCH):
            loop.call_soon(self._flush)
        return await waiting.answer

    def _flush(self, min_batch: int = _MIN_BATCH) -> None:
        while self._queue and self.is_ready and len(self._calls) < _MAX_CALLS:
            if self._calls and len(self._queue) < min_batch:
                if self._gathering is None:
                    loop = asyncio.get_running_loop()
                    self._gathering = loop.call_later(_GATHER_SECONDS, self._flush_gathered)
                return
            batch = [self._queue.popleft() for _ in range(min(_MAX_BATCH, len(self._queue)))]
            task = asyncio.ensure_future(self._apply(self._actor, batch))
            self._calls.add(task)
            task.add_done_callback(self._end)

    def _flush_gathered(self) -> None:
        self._gathering = None
        self._flush(min_batch=1)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._calls.discard(task)
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        self._flush()

    async def _apply(self, actor: Any, batch: list[_Waiting]) -> None:
        try:
            if self.pulse is None:  # it became silent before this task ran
                raise self._unavailable()
            answer = await self._answered(actor, "apply", [one.item for one in batch])
        except ApiError as error:
            self._finish(batch, [error] * len(batch))
            return
        if answer is None:  # nothing was done
            if actor is self._actor:
                self._moves()
            self._queue.extendleft(reversed(batch))
            return
        number, answers = answer
        on_time = [(one, result) for one, result in zip(batch, answers, strict=True) if result is not None]
        self._finish([one for one, _ in on_time], [result for _, result in on_time])
        late = {place: one for place, one in enumerate(batch) if answers[place] is None}
        if late:
            task = asyncio.ensure_future(self._fetch(actor, number, late))
            self._fetches.add(task)
            task.add_done_callback(self._fetches.discard)

    async def _fetch(self, actor: Any, number: int, late: dict[int, _Waiting]) -> None:
        """Wait for answers that take longer than the others of their batch."""
        deadline = max(one.deadline for one in late.values())
        try:
            while late:
                if time.monotonic() > deadline:
                    raise self._unavailable()
                answers = await self._answered(actor, "late", number)
                self._finish([late.pop(place) for place, _ in answers], [answer for _, answer in answers])
        except ApiError as error:
            self._finish(list(late.values()), [error] * len(late))

    def _finish(self, batch: list[_Waiting], answers: list[Any]) -> None:
        self._waiting -= len(batch)
        for one, answer in zip(batch, answers, strict=True):
            if one.answer.done():  # canceled
                continue
            if isinstance(answer, bytes):
                one.answer.set_result(answer)
            else:
                one.answer.set_exception(answer.error() if isinstance(answer, Problem) else answer)

    # ---- other requests -------------------------------------------------------------------------

    async def perform(self, call: Call) -> Reply:
        """Perform an operation; raise its error."""
        while True:
            while self.is_moving:
                await asyncio.sleep(_PROBE_SECONDS / 10)
            if not self.is_ready:
                raise self._unavailable()
            actor = self._actor
            answer = await self._answered(actor, "perform", tuple(call))
            if isinstance(answer, Problem):
                raise answer.error()
            if answer is not None:
                reply: Reply = answer
                return reply
            if actor is self._actor:
                self._moves()

    def add_error(self, experiment: str, code: str) -> None:
        """Count an error for the next report."""
        if experiment in self.errors or len(self.errors) < _MAX_NAMES:
            counts = self.errors.setdefault(experiment, {})
            counts[code] = counts.get(code, 0) + 1

    async def send_errors(self) -> None:
        """Report the errors that this front end has found itself."""
        if self.errors and self.is_ready:
            counts, self.errors = self.errors, {}
            with contextlib.suppress(ApiError):
                await self._answered(self._actor, "count_errors", counts)

    async def drain(self) -> None:
        """Let the shard save everything."""
        if self._actor is not None:
            await self._answered(self._actor, "drain")

    async def _answered(self, actor: Any, method: str, *arguments: Any) -> Any:
        """Return the result of a call; raise ApiError if it is unknown."""
        from ray.exceptions import RayError

        try:
            future = asyncio.wrap_future(getattr(actor, method).remote(*arguments).future())
            self._open.add(future)
            try:
                await asyncio.wait([future], timeout=self._call_seconds)
            finally:
                self._open.discard(future)
                future.cancel()
            if not future.cancelled():
                return future.result()
        except RayError as error:
            log.warning(
                "a shard has not answered", extra={"shard": self.number, "reason": _first_line(error)}
            )
        except Exception:
            log.exception("a call to a shard failed", extra={"shard": self.number})
        raise self._unavailable()

    def _unavailable(self) -> ApiError:
        return ApiError(
            "shard_unavailable",
            f"the process of shard {self.number}, which has this experiment, does not respond and is being "
            "replaced: retry",
        )

    # ---- probes ---------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Probe the shard forever, and refuse requests that have waited too long."""
        await asyncio.gather(self._probe_forever(), self._expire_forever())

    async def _probe_forever(self) -> None:
        while True:
            await log_failures(self._probe())
            await asyncio.sleep(_PROBE_SECONDS if self.is_ready else _PROBE_SECONDS / 5)

    async def _expire_forever(self) -> None:
        """Refuse requests that have waited too long, whatever a probe waits for."""
        while True:
            await asyncio.sleep(_PROBE_SECONDS)
            late = []
            while self._queue and self._queue[0].deadline < time.monotonic() and not self.is_moving:
                late.append(self._queue.popleft())
            self._finish(late, [self._unavailable()] * len(late))

    async def _probe(self) -> None:
        from ray.exceptions import ActorDiedError, RayError

        if self._actor is None:
            self._actor = await self._find(self.number)
        future = asyncio.wrap_future(self._actor.ping.remote().future())
        while not future.done():
            await asyncio.wait([future], timeout=_PROBE_SECONDS)
            if not future.done():
                self._check_silence()
        try:
            pulse: Pulse = future.result()
        except ActorDiedError as error:
            log.error("a shard has ended", extra={"shard": self.number, "reason": _first_line(error)})
            self._is_away()
            self._actor = None  # start it again
        except RayError as error:
            if self.pulse is not None:
                log.warning("a shard is away", extra={"shard": self.number, "reason": _first_line(error)})
            self._is_away()
        else:
            if self.pulse is None or pulse.process != self.pulse.process:
                self._has_responded = True
                log.info("a shard responds", extra={"shard": self.number, "state": pulse.state})
            if self._generation and pulse.generation > self._generation:
                self.moves += 1
            self._generation = pulse.generation
            self.heard_at = self.responded_at = time.monotonic()
            self.pulse = pulse
            if pulse.state == "ready":
                self._has_moved()
            elif pulse.state == "moving":
                self._moves()
                self._actor = None  # another process has the shard soon
            self._flush()

    def _check_silence(self) -> None:
        """Give up on requests to a shard that is silent; replace it if it stays so."""
        silent = time.monotonic() - self.heard_at
        if silent > _QUIET_SECONDS and not self.is_moving:
            self._fail_all()
        if silent > (self._hang_seconds if self._has_responded else _START_SECONDS):
            import ray

            log.error("a shard does not respond: it is replaced", extra={"shard": self.number})
            self._is_away()
            self.replaced += 1
            ray.kill(self._actor, no_restart=False)

    def _is_away(self) -> None:
        """Note that Ray knows that the process is gone, and starts a new one."""
        self.heard_at = time.monotonic()
        self._has_responded = False
        if not self.is_moving:
            self._fail_all()

    def _moves(self) -> None:
        """Keep requests until the shard is back, but not forever."""
        if self._moves_until is None:
            self._moves_until = time.monotonic() + _MOVE_SECONDS
        if self.pulse is not None:
            self.pulse = self.pulse._replace(state="moving")

    def _has_moved(self) -> None:
        """Give requests that have waited for a move as much time as they had before it."""
        if self._moves_until is not None:
            passed = time.monotonic() - self._moves_until + _MOVE_SECONDS
            self._queue = deque(one._replace(deadline=one.deadline + passed) for one in self._queue)
            self._moves_until = None

    def _fail_all(self) -> None:
        """Refuse requests from now on; those that wait get 503."""
        self.pulse = None
        for future in self._open:
            future.cancel()
        waiting = list(self._queue)
        self._queue.clear()
        self._finish(waiting, [self._unavailable()] * len(waiting))


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
