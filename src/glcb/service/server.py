"""The server process: open the database, listen, load the kernels, serve, shut down.

The experiments are in this process, or in the shards of a Ray cluster (:mod:`glcb.service.shards`).
"""

import asyncio
import contextlib
import errno
import gc
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from types import FrameType
from typing import Any, Protocol

import uvicorn

from glcb._errors import InvalidSettings
from glcb.service.access.api_keys import ApiKey, Keyring
from glcb.service.access.sessions import Sessions
from glcb.service.config import ServiceSettings
from glcb.service.engine.engine import Engine
from glcb.service.http.admission import Admission
from glcb.service.http.app import Application
from glcb.service.http.authentication import Authenticator, is_loopback
from glcb.service.http.backend import Backend, RunningBackend
from glcb.service.http.handlers import Handlers
from glcb.service.http.people import People, SessionHandlers
from glcb.service.http.protocol import Connections, Timeouts
from glcb.service.http.routes import Answers, Routes
from glcb.service.http.tracing import Tracing
from glcb.service.http.wire import Receive, Send
from glcb.service.process.background import log_failures
from glcb.service.process.log_output import configure_logging
from glcb.service.process.warmup import warm_up, warm_up_rest
from glcb.service.storage.connection import database_is_missing
from glcb.service.storage.database import Database, open_database

log = logging.getLogger("glcb.service")

_TICK_SECONDS = 1.0
_BACKLOG = 2048
_RESERVED_FILES = 200
"""File descriptors reserved for everything except connections."""
_SWITCH_SECONDS = 0.0005
"""Python's thread switch interval: the journal must not wait long for a busy event loop."""

_COLLECT_AFTER = 10_000
"""New objects after which Python looks for cycles among them. There are hardly any: more often, it would only
traverse the decisions that wait for their rewards."""

Prepare = Callable[[Database], Coroutine[Any, Any, None]]
Companion = Callable[[str], Coroutine[Any, Any, None]]


def serve(
    settings: ServiceSettings, prepare: Prepare | None = None, companion: Companion | None = None
) -> None:
    """Run the service until it receives SIGINT or SIGTERM.

    Parameters
    ----------
    settings
        The settings of the service.
    prepare
        Called with the database and awaited before the first request is answered.
    companion
        Called with the URL of the service and awaited while the service runs. It and ``prepare`` are
        canceled at shutdown.

    Raises
    ------
    InvalidSettings
        The address is unavailable, or it is public and there are no API keys.
    StorageError
        The database cannot be opened, or another service uses it.
    """
    configure_logging(settings.log_level, settings.log_format)
    if database_is_missing(settings):  # a new database has no keys: fail before creating it
        _require_keys_if_public(settings, keys=[])
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(_bound_socket(settings))  # first: if this fails, no new file is left
        placement: Placement | None = None
        if settings.has_shards:
            from glcb.service.shards.front_end import placed_on_ray

            database, placement = stack.enter_context(placed_on_ray(settings))
        else:
            database = stack.enter_context(contextlib.closing(open_database(settings)))
            stack.enter_context(database.exclusive(settings.lock_wait_seconds))
        keyring = Keyring(database)
        _require_keys_if_public(settings, keyring.keys)
        with _listen_errors(settings):
            listener.listen(_BACKLOG)
        _print("starting: this takes a few seconds, or about 10 if the kernels must be compiled first")
        Service(settings, database, keyring, listener, prepare, companion, placement).run()


class Placement(Protocol):
    """Where the experiments of a service are."""

    def open(self) -> RunningBackend:
        """Return the backend. It is called in the event loop."""

    async def warm_up(self) -> None:
        """Do what must be done before the backend starts."""

    async def warm_up_rest(self) -> None:
        """Do what can be done while requests are answered."""

    def answers(self, backend: Backend, admission: Admission) -> Answers:
        """Return what answers the requests other than single decisions."""


class _InProcess:
    """The experiments are in this process."""

    def __init__(self, settings: ServiceSettings, database: Database) -> None:
        self._settings = settings
        self._database = database

    def open(self) -> RunningBackend:
        """Return a new engine."""
        self._engine = Engine(self._database, self._settings)
        return self._engine

    async def warm_up(self) -> None:
        """Compile the kernels."""
        await warm_up()

    async def warm_up_rest(self) -> None:
        """Compile what the first decisions do not need."""
        await warm_up_rest()

    def answers(self, backend: Backend, admission: Admission) -> Answers:
        """Return the handlers; the backend is the engine, which may be traced."""
        return Handlers(self._engine, self._database, admission, backend)


class Service:
    """An HTTP server and its application.

    Parameters
    ----------
    settings, database, keyring
        What the application needs.
    listener
        A listening socket.
    prepare, companion
        See :func:`serve`.
    placement
        Where the experiments are; by default, in this process.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        database: Database,
        keyring: Keyring,
        listener: socket.socket,
        prepare: Prepare | None = None,
        companion: Companion | None = None,
        placement: Placement | None = None,
    ) -> None:
        self._settings = settings
        self._database = database
        self._placement = placement or _InProcess(settings, database)
        self._keyring = keyring
        self._listener = listener
        self._prepare = prepare
        self._companion = companion
        self._app = Application(self._lifespan, settings.cors_origins)
        self._server = _Server(self._app, settings, raise_file_limit())
        self._tracing = None if settings.trace_endpoint is None else Tracing(settings.trace_endpoint)
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Serve until shutdown; raise the error that ended the service, if any."""
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._server.run(sockets=[self._listener])
        if self._failure is not None:
            raise self._failure

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        engine = self._placement.open()
        running = asyncio.ensure_future(self._run(engine))
        await receive()
        running.cancel()
        await asyncio.wait([running])
        try:
            await engine.stop()
        except Exception as error:  # Uvicorn would only log it
            self._failure = self._failure or error
        if self._tracing is not None:
            await self._tracing.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _run(self, engine: RunningBackend) -> None:
        """Start the backend and the application, then do the periodic work."""
        try:
            if self._prepare is not None:
                await self._prepare(self._database)
            await self._placement.warm_up()
            await engine.start()
            settings = self._settings
            sessions = Sessions(self._database, self._keyring, settings.session_hours * 3600)
            people = People(settings, sessions)
            authenticator = Authenticator(self._keyring, settings.host, settings.require_keys, people)
            admission = Admission(settings)
            traced = engine if self._tracing is None else self._tracing.trace(engine)
            session_routes = SessionHandlers(people, authenticator.find, settings.request_seconds)
            answers = self._placement.answers(traced, admission)
            routes = Routes(answers, session_routes, settings, authenticator, admission)
            self._app.open(traced, authenticator, admission, routes.app)
        except Exception as error:
            self._failure = error
            self._server.should_exit = True
            return
        gc.collect()
        gc.freeze()  # existing objects are permanent: exclude them from later collections
        gc.set_threshold(_COLLECT_AFTER, *gc.get_threshold()[1:])
        host, port = self._listener.getsockname()[:2]
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        _print(f"serving on {url}")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(log_failures(self._placement.warm_up_rest()))
            if self._companion is not None:
                tasks.create_task(log_failures(self._companion(url)))
            while True:
                await asyncio.sleep(_TICK_SECONDS)
                await log_failures(engine.tick())
                await log_failures(self._keyring.reload())
                if settings.has_shards:  # other front ends have sessions, too
                    await log_failures(sessions.reload())


class _Server(uvicorn.Server):
    """Uvicorn's server. After the shutdown signal, it answers new requests with status 503."""

    def __init__(self, app: Application, settings: ServiceSettings, max_files: int) -> None:
        timeouts = Timeouts(settings.request_seconds, settings.idle_seconds, settings.write_seconds)
        max_connections = min(settings.max_connections, max_files - min(_RESERVED_FILES, max_files // 2))
        super().__init__(
            uvicorn.Config(
                app,
                http=Connections(app, timeouts, max_connections),  # type: ignore[arg-type]  # makes protocols
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=_BACKLOG,
                timeout_graceful_shutdown=int(settings.shutdown_seconds) or 1,
            )
        )
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down gracefully; on a second Ctrl-C, immediately."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True
        self._app.close()


def _require_keys_if_public(settings: ServiceSettings, keys: Sequence[ApiKey]) -> None:
    """Refuse a public address without API keys."""
    if not keys and not is_loopback(settings.host):
        raise InvalidSettings(
            f"other machines can reach {settings.host}, and there are no API keys: create one with "
            "`glcb keys add NAME --role admin`, or serve on 127.0.0.1"
        )


def _print(line: str) -> None:
    """Write a line for the user who started the service, independent of the log format."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def raise_file_limit() -> int:
    """Raise the limit on open files as far as the system permits; return the new limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


@contextlib.contextmanager
def _bound_socket(settings: ServiceSettings) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with _listen_errors(settings):
            listener.bind((settings.host, settings.port))
        listener.setblocking(False)
        yield listener


@contextlib.contextmanager
def _listen_errors(settings: ServiceSettings) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        advice = (
            ": choose another with --port, or --port 0 for a free one"
            if error.errno == errno.EADDRINUSE
            else ""
        )
        raise InvalidSettings(
            f"cannot listen on {settings.host} port {settings.port}: {reason}{advice}"
        ) from error
