"""The coordinator of a service with shards, as a Ray actor: it claims the database and moves shards."""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable

import msgspec
from sqlalchemy import Connection

from glcb._errors import StorageError
from glcb.service.process.log_output import configure_logging
from glcb.service.shards.cluster import Cluster, ShardLayout
from glcb.service.shards.messages import decode_settings, encode_settings, known_settings
from glcb.service.shards.plan import (
    Node,
    Placed,
    ShardMove,
    ShardPlan,
    change_plan,
    drained,
    next_move,
    plan_start,
    stored_plan,
)
from glcb.service.storage.database import Database, open_database

log = logging.getLogger("glcb.service")

_TICK_SECONDS = 1.0
_PING_SECONDS = 2.0
_PREPARE_SECONDS = 120.0
"""Time in which a new process must be prepared to take a shard."""
_DRAIN_SECONDS = 20.0
"""Time that the old process has to finish its requests and to save everything."""
_TAKE_SECONDS = 60.0
"""Time in which the new process must have taken the shard and restored its experiments."""
_LEAVE_SECONDS = 2.0
"""The old process stays this long, so that requests on their way to it are returned to the front ends."""
_PAUSE_SECONDS = 10.0
"""Pause after an unexpected error."""
_AVOID_SECONDS = 300.0
"""A node on which a process could not be started, or could not take its shard, gets none for this long."""


class Coordinator:
    """Keeps other services off the database, knows the claim and the settings of the shards, and moves them.

    Shards and front ends work without it, so it may be away for a moment.

    Parameters
    ----------
    settings
        The settings of the service.
    token
        Identifies the service; it stays the same when Ray starts this actor again.
    """

    def __init__(self, settings: bytes, token: str) -> None:
        decoded = decode_settings(settings)
        configure_logging(decoded.log_level, decoded.log_format)
        self._settings, self._token = decoded, token
        self._stack = contextlib.ExitStack()
        self._is_locked = False
        with contextlib.suppress(StorageError):
            self._lock_database()

    def layout(self) -> ShardLayout:
        """Return the claim, the number of shards and the settings.

        Raises
        ------
        StorageError
            Another service uses the database, or it is unavailable.
        """
        if not self._is_locked:
            self._lock_database()
        # Another service may have had the database while the connection with the lock was lost.
        claim = self._database.claim(self._token, self._settings.workers)
        own, wanted = self._settings, stored_plan(self._database).settings
        settings = own if wanted is None else known_settings(wanted)
        settings = msgspec.structs.replace(settings, database=own.database, workers=own.workers)
        return ShardLayout(claim, own.workers, encode_settings(settings))

    def _lock_database(self) -> None:
        with contextlib.ExitStack() as stack:
            self._database = stack.enter_context(contextlib.closing(open_database(self._settings)))
            stack.enter_context(self._database.locked(self._settings.lock_wait_seconds))
            self._database.claim(self._token, self._settings.workers)
            self._database.sweep()
            self._stack = stack.pop_all()
        self._is_locked = True
        for work in (self._watch, self._move_shards):
            threading.Thread(target=work, name=f"glcb{work.__name__}", daemon=True).start()

    def _watch(self) -> None:
        """Acquire the lock of the database again when its connection was lost."""
        while True:
            time.sleep(_TICK_SECONDS)
            try:
                self._database.watch()
            except StorageError as error:
                log.error("the database is not locked", extra={"reason": str(error)})

    def _move_shards(self) -> None:
        """Move shards until they are where they should be, one after the other."""
        mover = Mover(self._database, Cluster(self._database), self._settings.workers, self.layout)
        while True:
            time.sleep(_TICK_SECONDS)
            try:
                mover.step()
            except Exception:
                log.exception("shards cannot be moved")
                time.sleep(_PAUSE_SECONDS)


class Mover:
    """Moves shards, one at a time.

    A new process is prepared before the old one stops taking requests, so that a shard is away for a moment
    only, and stays where it is if the new process cannot be started.

    Parameters
    ----------
    database
        The database with the plan.
    cluster
        The actors.
    count
        The number of shards.
    layout
        Returns what a new process needs to know.
    """

    def __init__(
        self, database: Database, cluster: Cluster, count: int, layout: Callable[[], ShardLayout]
    ) -> None:
        self._database = database
        self._cluster = cluster
        self._count = count
        self._layout = layout
        self._avoided: dict[str, float] = {}
        """Until when nodes are avoided, by id."""
        self._has_restarted = False

    def step(self) -> None:
        """Make the next move, if there is one."""
        nodes = self._cluster.nodes()
        plan = self._current_plan(nodes)
        shards = self._placed()
        self._avoided = {node: until for node, until in self._avoided.items() if until > time.monotonic()}
        move = next_move(shards, nodes, plan, self._avoided)
        if move is not None:
            self._has_restarted |= move.reason == "restart"
            self._move(move, drained(nodes, plan))
        elif self._has_restarted and all(
            shard.is_ready and shard.generation >= plan.generations.get(shard.number, 0) for shard in shards
        ):
            log.info("all shards have been restarted")
            os._exit(0)  # Ray starts the coordinator again, too

    def _current_plan(self, nodes: list[Node]) -> ShardPlan:
        """Return the plan; forget nodes that have left."""
        alive = {node.id for node in nodes}

        def without_gone(plan: ShardPlan, _connection: Connection | None = None) -> ShardPlan:
            return msgspec.structs.replace(plan, draining=tuple(alive.intersection(plan.draining)))

        plan = stored_plan(self._database)
        if not alive.issuperset(plan.draining):
            change_plan(self._database, without_gone)
        return without_gone(plan)

    def _placed(self) -> list[Placed]:
        """Return where all shards are."""
        import ray
        from ray.exceptions import RayError

        actors = [self._cluster.shard(number) for number in range(self._count)]
        pings = [None if actor is None else actor.ping.remote() for actor in actors]
        shards = []
        for number, ping in enumerate(pings):
            try:
                pulse = None if ping is None else ray.get(ping, timeout=_PING_SECONDS)
            except RayError:
                pulse = None
            if pulse is None:
                shards.append(Placed(number, None, 0, False))
            else:
                shards.append(Placed(number, pulse.node, pulse.generation, pulse.state == "ready"))
        return shards

    def _move(self, move: ShardMove, leaving: set[str]) -> None:
        """Start a new process, let the old one finish, and let the new one take the shard."""
        import ray
        from ray.exceptions import RayError

        number, node, reason = move
        about = {"shard": number, "node": node, "reason": reason}
        owner = self._cluster.owner(number)
        old = self._cluster.shard(number, owner)
        if old is None:
            return
        generation = owner.generation + 1
        plan_start(self._database, number, generation)
        new = self._cluster.start_shard(number, generation, self._layout(), node)
        try:
            place = ray.get(new.prepare.remote(), timeout=_PREPARE_SECONDS)
        except RayError:
            log.exception("a shard stays where it is: its new process cannot start", extra=about)
            self._avoided[node] = time.monotonic() + _AVOID_SECONDS
            ray.kill(new, no_restart=True)
            return
        if place in leaving:  # it was started elsewhere, because its node has ended
            ray.kill(new, no_restart=True)
            return
        began = time.monotonic()
        with contextlib.suppress(RayError):  # one that died, or hangs, is fenced
            ray.get(old.drain.remote(), timeout=_DRAIN_SECONDS)
        try:
            ray.get(new.take.remote(), timeout=_TAKE_SECONDS)
        except RayError:
            log.exception("the new process of a shard has not taken it", extra=about)
            self._avoided[node] = time.monotonic() + _AVOID_SECONDS
            if self._cluster.owner(number).generation < generation:
                ray.kill(new, no_restart=True)
                ray.kill(old, no_restart=False)  # it takes the shard again
            return
        log.info("a shard has moved", extra={**about, "seconds": round(time.monotonic() - began, 3)})
        time.sleep(_LEAVE_SECONDS)
        ray.kill(old, no_restart=True)
