"""The front end of a service with shards: it answers HTTP and has no experiments. Any number can run."""

import asyncio
import contextlib
import secrets
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from glcb._errors import InvalidSettings, StorageError
from glcb._ray import connected, require_ray
from glcb.service.config import ServiceSettings
from glcb.service.errors import ApiError
from glcb.service.http.admission import Admission
from glcb.service.http.backend import Backend, RunningBackend
from glcb.service.http.routes import Answers
from glcb.service.process.metrics import Activity, HttpMetrics
from glcb.service.shards.answers import ShardAnswers
from glcb.service.shards.client import ShardClient
from glcb.service.shards.cluster import Cluster, ShardLayout
from glcb.service.shards.coordinator import Coordinator
from glcb.service.shards.messages import encode_settings
from glcb.service.storage.connection import database_url
from glcb.service.storage.database import Database, open_database
from glcb.service.storage.ownership import shard_of

_OBJECT_STORE_BYTES = 100_000_000
"""Size of Ray's object store on this machine: requests and answers are small."""
_LAYOUT_SECONDS = 300.0
"""A coordinator that needs longer to respond, apart from its wait for the lock, is replaced."""
_LAYOUT_ATTEMPTS = 30
"""The coordinator may be away for a moment, while Ray starts it again."""
_LAYOUT_PAUSE_SECONDS = 1.0


def check_settings(settings: ServiceSettings) -> None:
    """Raise InvalidSettings if a service with shards cannot have these settings."""
    if database_url(settings).get_backend_name() == "sqlite":
        raise InvalidSettings(
            "several workers and the executor ray need PostgreSQL, because a SQLite file has one writer: "
            "pass --database postgresql://…, or use one worker"
        )
    if settings.high_water_file is not None:
        raise InvalidSettings(
            "several workers and the executor ray have no high_water_file: leave it out, or use one worker"
        )


@contextlib.contextmanager
def placed_on_ray(settings: ServiceSettings) -> "Iterator[tuple[Database, OnRay]]":
    """Connect to Ray, and start or find the shards; yield the database and the placement.

    Raises
    ------
    InvalidSettings
        The settings are not those of the running shards, or the cluster cannot be reached.
    MissingExtra
        Ray is not installed.
    StorageError
        Another service uses the database.
    """
    check_settings(settings)
    require_ray()
    is_local = settings.executor == "local"
    address = "local" if is_local else settings.address
    memory = _OBJECT_STORE_BYTES if is_local else None
    with (
        contextlib.closing(open_database(settings)) as database,
        connected(address, cores=settings.workers, object_store=memory),
    ):
        yield database, OnRay(settings, database)


class OnRay:
    """The experiments are in the shards of a Ray cluster.

    Parameters
    ----------
    settings
        The settings of the front end, and of the shards if they do not run yet.
    database
        The database of the service.
    """

    def __init__(self, settings: ServiceSettings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._cluster = Cluster(database)
        self._count = self._layout().shards
        if settings.workers not in (1, self._count):
            raise InvalidSettings(
                f"this service runs with {self._count} workers, got {settings.workers}: pass --workers "
                f"{self._count}, or stop the service first"
            )

    def open(self) -> RunningBackend:
        """Return the clients of all shards."""
        self._shards = Shards(self._settings, self._count, self._find)
        return self._shards

    async def warm_up(self) -> None:
        """Do nothing: the shards compile the kernels."""

    async def warm_up_rest(self) -> None:
        """Do nothing: the shards compile the kernels."""

    def answers(self, _backend: Backend, admission: Admission) -> Answers:
        """Return what answers the requests apart from single decisions and rewards."""
        return ShardAnswers(self._shards, self._database, admission, self._cluster)

    def _layout(self) -> ShardLayout:
        """Return what the processes of shards need to know; start the coordinator if needed."""
        import ray
        from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayError

        for attempt in range(_LAYOUT_ATTEMPTS):
            coordinator = self._cluster.coordinator(
                Coordinator, encode_settings(self._settings), secrets.token_hex(8)
            )
            try:
                layout: ShardLayout = ray.get(
                    coordinator.layout.remote(), timeout=_LAYOUT_SECONDS + self._settings.lock_wait_seconds
                )
                return layout
            except GetTimeoutError as error:
                ray.kill(coordinator, no_restart=False)
                raise StorageError(
                    "the coordinator of the shards does not respond and is being replaced: retry"
                ) from error
            except RayError as error:
                cause = getattr(error, "cause", None)
                if isinstance(cause, StorageError):
                    raise cause from None
                if attempt + 1 == _LAYOUT_ATTEMPTS or not isinstance(error, ActorUnavailableError):
                    raise StorageError(f"the coordinator of the shards cannot start: {error}") from error
                time.sleep(_LAYOUT_PAUSE_SECONDS)
        raise AssertionError("unreachable")

    async def _find(self, number: int) -> Any:
        """Return the actor of a shard; start it if there is none."""
        return await asyncio.to_thread(self._find_shard, number)

    def _find_shard(self, number: int) -> Any:
        found = self._cluster.shard(number)
        if found is None:
            layout = self._layout()  # first: another service may have had the database meanwhile
            owner = self._cluster.owner(number)
            found = self._cluster.shard(number, owner)  # another front end may have started it meanwhile
            if found is None:
                found = self._cluster.start_shard(number, owner.generation + 1, layout)
        return found


class Shards:
    """Sends requests to the shards of their experiments.

    Parameters
    ----------
    settings
        The settings of the front end.
    count
        The number of shards.
    find
        Returns the actor of a shard.
    """

    def __init__(self, settings: ServiceSettings, count: int, find: Any) -> None:
        self.settings = settings
        self.metrics = HttpMetrics()
        self.activity: defaultdict[str, Activity] = defaultdict(Activity)
        """Not used: the shards count what happens to their experiments."""
        max_waiting = max(1, int(settings.max_concurrent_requests * settings.max_share))
        call_seconds = 2 * settings.storage_seconds
        self.clients = [
            ShardClient(number, find, settings.shard_seconds, call_seconds, max_waiting)
            for number in range(count)
        ]
        self._watching: list[asyncio.Task[None]] = []

    def of(self, experiment: str) -> ShardClient:
        """Return the shard of an experiment."""
        return self.clients[shard_of(experiment, len(self.clients))]

    async def start(self) -> None:
        """Find or start all shards, and wait until they are ready."""
        self._watching = [asyncio.ensure_future(client.watch()) for client in self.clients]
        while not all(client.is_ready for client in self.clients):
            await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """Stop the probes; save all experiments if the shards end with this process."""
        for task in self._watching:
            task.cancel()
        if self.settings.executor == "local":
            ends = (client.drain() for client in self.clients)
            await asyncio.gather(*ends, return_exceptions=True)

    async def tick(self) -> None:
        """Report errors to the shards."""
        await asyncio.gather(*(client.send_errors() for client in self.clients))

    async def apply(self, name: str, kind: str, request: Any) -> bytes:
        """Apply one request; return its answer or raise its error."""
        return await self.of(name).send(name, kind, request)

    async def apply_many(self, name: str, kind: str, requests: Sequence[Any]) -> list[bytes | ApiError]:
        """Apply requests; return an answer or an error for each."""
        ends = await asyncio.gather(
            *(self.apply(name, kind, one) for one in requests), return_exceptions=True
        )
        return [end if isinstance(end, bytes) else _as_error(end) for end in ends]

    def count_error(self, name: str | None, error: ApiError) -> None:
        """Remember an error response, which the shard of its experiment counts."""
        if name is not None:
            self.of(name).add_error(name, error.code)


def _as_error(error: BaseException) -> ApiError:
    if not isinstance(error, ApiError):
        raise error
    return error
