"""The server process: open the database, listen, load the kernels, serve, shut down.

The process is the whole service, or one of several workers (:mod:`glcb.service.workers`).
"""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any

import uvicorn

from glcb._errors import GlcbError
from glcb.service.access.api_keys import Keyring
from glcb.service.access.sessions import Sessions
from glcb.service.config import ServiceSettings
from glcb.service.engine.engine import Engine
from glcb.service.http.admission import Admission
from glcb.service.http.app import Application
from glcb.service.http.authentication import Authenticator
from glcb.service.http.handlers import Handlers
from glcb.service.http.listening import (
    BACKLOG,
    bound_socket,
    listen,
    raise_file_limit,
    require_keys_if_public,
    url_of,
)
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
from glcb.service.workers.orders import (
    SILENT,
    Orders,
    WorkerReport,
    assignment,
    check_workers,
    direct_address,
)
from glcb.service.workers.worker import Worker, prepared_worker

log = logging.getLogger("glcb.service")

_TICK_SECONDS = 1.0
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
    """Run the service in this process until it receives SIGINT or SIGTERM.

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
    if settings.has_workers:
        check_workers(settings)
    if database_is_missing(settings):  # a new database has no keys: fail before creating it
        require_keys_if_public(settings, keys=[])
    with contextlib.ExitStack() as stack:
        # First: if this fails, no new file is left.
        listener = stack.enter_context(bound_socket(settings.host, settings.port))
        database = stack.enter_context(contextlib.closing(open_database(settings)))
        keyring = Keyring(database)
        require_keys_if_public(settings, keyring.keys)
        worker, sockets = None, [listener]
        if settings.has_workers:
            worker = _worker(settings, database, Orders(assigned=assignment(settings)), sockets, stack)
        else:
            stack.enter_context(database.exclusive(settings.lock_wait_seconds))
        for one in sockets:
            listen(one)
        _print("starting: this takes a few seconds, or about 10 if the kernels must be compiled first")
        Service(settings, database, keyring, sockets, prepare, companion, worker).run()


def run_worker() -> None:
    """Run one of several workers, as the process that has started this one orders on standard input."""
    orders = Orders.read(sys.stdin.buffer)
    settings, report = orders.settings, WorkerReport(orders.report)
    configure_logging(settings.log_level, settings.log_format)
    try:
        with contextlib.ExitStack() as stack:
            database = stack.enter_context(contextlib.closing(open_database(settings)))
            listener = stack.enter_context(socket.socket(fileno=orders.listener))
            sockets = [listener]
            worker = _worker(settings, database, orders, sockets, stack)
            for one in sockets[1:]:
                listen(one)
            Service(settings, database, Keyring(database), sockets, worker=worker, report=report).run()
    except GlcbError as error:
        report.failed(str(error))
        sys.exit(2)
    except Exception as error:
        report.failed(f"{type(error).__name__}: {error}")
        raise


def _worker(
    settings: ServiceSettings,
    database: Database,
    orders: Orders,
    sockets: list[socket.socket],
    stack: contextlib.ExitStack,
) -> Worker:
    """Return a worker; add the socket for clients that send requests to it directly, if there is one."""
    assigned, direct_port = orders.assigned, None
    direct = direct_address(settings, assigned.number)
    if direct is not None:
        sockets.append(stack.enter_context(bound_socket(*direct)))
        direct_port = sockets[-1].getsockname()[1]
    return stack.enter_context(prepared_worker(settings, database, assigned, direct_port))


class Service:
    """An HTTP server and its application.

    Parameters
    ----------
    settings, database, keyring
        What the application needs.
    listeners
        Listening sockets; the first one is that of the service.
    prepare, companion
        See :func:`serve`.
    worker
        What makes this process one of several workers; None if it is the whole service.
    report
        Tells the process that has started this one how it is.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        database: Database,
        keyring: Keyring,
        listeners: list[socket.socket],
        prepare: Prepare | None = None,
        companion: Companion | None = None,
        worker: Worker | None = None,
        report: WorkerReport = SILENT,
    ) -> None:
        self._settings = settings
        self._database = database
        self._keyring = keyring
        self._listeners = listeners
        self._prepare = prepare
        self._companion = companion
        self._worker = worker
        self._report = report
        self._app = Application(self._lifespan, settings.cors_origins)
        outer = self._app if worker is None else worker.application(self._app)
        self._server = _Server(outer, settings, raise_file_limit(), self._hand_over if worker else None)
        self._tracing = None if settings.trace_endpoint is None else Tracing(settings.trace_endpoint)
        self._failure: BaseException | None = None
        self._leaving: asyncio.Task[None] | None = None

    def run(self) -> None:
        """Serve until shutdown; raise the error that ended the service, if any."""
        sys.setswitchinterval(_SWITCH_SECONDS)
        # Other workers accept the connections of a socket that they share, until this one is ready.
        self._server.run(sockets=[] if self._report.has_parent else self._listeners)
        if self._failure is not None:
            raise self._failure

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        engine = Engine(self._database, self._settings)
        running = asyncio.ensure_future(self._run(engine))
        alive = asyncio.ensure_future(self._report.keep_alive(self._server.end))
        await receive()
        running.cancel()
        await asyncio.wait([running])
        try:
            await engine.stop()
        except Exception as error:  # Uvicorn would only log it
            self._failure = self._failure or error
        if self._worker is not None:
            await self._worker.stop()
        if self._tracing is not None:
            await self._tracing.close()
        alive.cancel()
        await send({"type": "lifespan.shutdown.complete"})

    async def _run(self, engine: Engine) -> None:
        """Start the engine and the application, then do the periodic work."""
        settings, worker = self._settings, self._worker
        try:
            if self._prepare is not None:
                await self._prepare(self._database)
            await warm_up()
            if worker is not None:
                await worker.join(self._server.config, self._hand_over)
            await engine.start()
            sessions = Sessions(self._database, self._keyring, settings.session_hours * 3600)
            sessions.is_shared = worker is not None
            people = People(settings, sessions)
            authenticator = Authenticator(self._keyring, settings.host, settings.require_keys, people)
            admission = Admission(settings)
            traced = engine if self._tracing is None else self._tracing.trace(engine)
            session_routes = SessionHandlers(people, authenticator.find, settings.request_seconds)
            handlers = Handlers(engine, self._database, admission, traced)
            answers: Answers = handlers
            if worker is not None:
                answers = await worker.answers(engine, authenticator, handlers)
            routes = Routes(answers, session_routes, settings, authenticator, admission)
            self._app.open(traced, authenticator, admission, routes.app)
            if worker is not None:
                await worker.start(engine)
        except Exception as error:
            self._failure = error
            self._server.should_exit = True
            return
        gc.collect()
        gc.freeze()  # existing objects are permanent: exclude them from later collections
        gc.set_threshold(_COLLECT_AFTER, *gc.get_threshold()[1:])
        url = url_of(self._listeners[0])
        if self._report.has_parent:
            await self._server.accept(self._listeners)
            self._report.ready()
        else:
            _print(f"serving on {url}")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(log_failures(warm_up_rest()))
            if self._companion is not None:
                tasks.create_task(log_failures(self._companion(url)))
            while True:
                await asyncio.sleep(_TICK_SECONDS)
                await log_failures(engine.tick())
                await log_failures(self._keyring.reload())
                if sessions.is_shared:
                    await log_failures(sessions.reload())

    def _hand_over(self) -> None:
        """Give all experiments to other workers, then shut down."""
        if self._leaving is None:
            self._leaving = asyncio.ensure_future(self._leave())

    async def _leave(self) -> None:
        assert self._worker is not None
        try:
            await self._worker.hand_over()
        finally:
            self._server.should_exit = True


class _Server(uvicorn.Server):
    """Uvicorn's server. After the shutdown signal, it answers new requests with status 503.

    Parameters
    ----------
    app
        The application.
    settings
        The settings of the service.
    max_files
        The limit on open files.
    hand_over
        Called at SIGTERM instead of the shutdown, if this process is one of several workers.
    """

    def __init__(
        self,
        app: Any,
        settings: ServiceSettings,
        max_files: int,
        hand_over: Callable[[], None] | None = None,
    ) -> None:
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
                backlog=BACKLOG,
                timeout_graceful_shutdown=int(settings.shutdown_seconds) or 1,
            )
        )
        self._app = app
        self._hand_over = hand_over
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)

    async def accept(self, listeners: list[socket.socket]) -> None:
        """Accept connections from now on."""

        def make_connection() -> Any:
            make: Any = self.config.http_protocol_class
            return make(self.config, self.server_state, self.lifespan.state)

        loop = asyncio.get_running_loop()
        for one in listeners:
            self.servers.append(await loop.create_server(make_connection, sock=one, backlog=BACKLOG))

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down gracefully; on a second Ctrl-C, immediately. A worker hands over first at SIGTERM."""
        if sig == signal.SIGTERM and self._hand_over is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._hand_over)
            return
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.end()

    def end(self) -> None:
        """Shut down."""
        self.should_exit = True
        self._app.close()


def _print(line: str) -> None:
    """Write a line for the user who started the service, independent of the log format."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
