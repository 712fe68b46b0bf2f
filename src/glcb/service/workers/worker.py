"""What makes a process of the service one of several workers."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from os import getpid
from urllib.parse import urlsplit

from uvicorn.config import Config

from glcb.service.access.api_keys import ApiKey
from glcb.service.config import ServiceSettings
from glcb.service.engine.engine import Engine
from glcb.service.http.app import Application
from glcb.service.http.authentication import Authenticator
from glcb.service.http.handlers import Handlers
from glcb.service.http.protocol import Connections, Timeouts
from glcb.service.http.wire import Scope
from glcb.service.process.background import log_failures
from glcb.service.storage.database import Database
from glcb.service.workers import partitions
from glcb.service.workers.answers import WorkerAnswers
from glcb.service.workers.dispatch import Dispatcher
from glcb.service.workers.forwarding import Peers
from glcb.service.workers.inner import Listener, bound_inner_socket
from glcb.service.workers.membership import Membership
from glcb.service.workers.orders import WorkerAssignment
from glcb.service.workers.partitions import WorkerRow

_MAX_CONNECTIONS = 10_000
"""Connections of other workers. They limit themselves."""


class Worker:
    """One of several workers.

    Parameters
    ----------
    settings
        The settings of the service.
    database
        The database.
    assigned
        What this worker was told.
    inner
        The socket for other workers.
    place
        Where they find it.
    direct_port
        The port for clients that send requests to this worker directly.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        database: Database,
        assigned: WorkerAssignment,
        inner: socket.socket,
        place: str,
        direct_port: int | None = None,
    ) -> None:
        self._settings = settings
        self._database = database
        self._inner = inner
        url = None
        if settings.advertise is not None:
            parts = urlsplit(settings.advertise)
            url = f"{parts.scheme}://{parts.netloc.removesuffix(f':{parts.port}')}:{direct_port}"
        self._row = WorkerRow(
            assigned.name, assigned.incarnation, place, url, socket.gethostname(), getpid(), False, 0
        )
        self._listener: Listener | None = None
        self._membership: Membership | None = None
        self._running: asyncio.Task[None] | None = None

    def application(self, app: Application) -> Dispatcher:
        """Return the application that answers requests, or sends them to other workers."""
        self._dispatcher = Dispatcher(app, self._settings)
        return self._dispatcher

    async def join(self, config: Config, restart: Callable[[], None]) -> None:
        """Become one of the workers, without any partitions yet.

        Parameters
        ----------
        config
            That of the HTTP server.
        restart
            Called if this worker is to restart.
        """
        settings, self._config = self._settings, config
        self._membership = Membership(self._database, self._row, restart)
        await self._membership.join(settings.lock_wait_seconds)

    async def answers(
        self, engine: Engine, authenticator: Authenticator, handlers: Handlers
    ) -> WorkerAnswers:
        """Return what answers requests, once :meth:`start` has been called."""
        assert self._membership is not None
        settings, membership = self._settings, self._membership
        secret = await self._database.threads.run(partitions.secret, self._database)
        waiting = max(1, int(settings.max_concurrent_requests * settings.max_share))
        most_bytes = int(settings.max_buffered_bytes * settings.max_share)
        peers = Peers(secret, waiting, most_bytes, 2 * settings.storage_seconds)
        membership.on_view = lambda view: peers.keep(view.workers)
        answers = WorkerAnswers(handlers, engine, self._database, membership, peers)

        async def experiment_of(scope: Scope) -> str:
            key: ApiKey = await authenticator.authenticate(scope)
            return answers.experiment_of(key)

        async def admit(scope: Scope) -> None:
            await authenticator.authenticate(scope)

        timeouts = Timeouts(settings.request_seconds, float("inf"), settings.write_seconds)
        connections = Connections(self._dispatcher.inner, timeouts, _MAX_CONNECTIONS)
        self._listener = Listener(self._inner, secret, connections, self._config)
        self._dispatcher.open(membership, peers, engine.confirm, experiment_of, admit)
        return answers

    async def start(self, engine: Engine) -> None:
        """Take partitions, and answer requests for them."""
        assert self._membership is not None
        assert self._listener is not None
        await self._listener.start()
        await self._membership.begin(engine)
        self._running = asyncio.ensure_future(log_failures(self._membership.run()))
        await self._membership.opened()

    async def hand_over(self) -> None:
        """Give all partitions to other workers, if there are any, within the time of a shutdown."""
        if self._running is not None and self._membership is not None:
            await self._membership.hand_over(self._settings.shutdown_seconds)

    async def stop(self) -> None:
        """Leave, after the engine has stopped."""
        if self._listener is not None:
            await self._listener.stop()
        if self._running is not None:
            self._running.cancel()
        if self._membership is not None:
            await self._membership.leave()


@contextlib.contextmanager
def prepared_worker(
    settings: ServiceSettings, database: Database, assigned: WorkerAssignment, direct_port: int | None
) -> Iterator[Worker]:
    """Keep services that are one process off the database, and bind the socket for other workers."""
    with (
        bound_inner_socket(assigned.inner) as (inner, place),
        database.share(settings.lock_wait_seconds),
    ):
        yield Worker(settings, database, assigned, inner, place, direct_port)
