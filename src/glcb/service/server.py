"""The process: opens the database, listens, restores, answers, and stops without leaving anything behind."""

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
from typing import Any

import uvicorn

from glcb._errors import InvalidSettings
from glcb.service import logging as logs
from glcb.service.auth import Key, Keyring
from glcb.service.config import ServiceSettings
from glcb.service.core.engine import Engine
from glcb.service.http.access import Door, is_loopback
from glcb.service.http.app import Application
from glcb.service.http.handlers import Cold
from glcb.service.http.protocol import PatientProtocol
from glcb.service.http.wire import Receive, Send
from glcb.service.storage.opening import is_missing, open_storage
from glcb.service.storage.storage import Storage
from glcb.service.warmup import warm_up
from glcb.service.work import logged

log = logging.getLogger("glcb.service")

_TICK_SECONDS = 1.0
_BACKLOG = 2048
_OTHER_FILES = 200
"""So many open files are needed for something else than connections."""
_SWITCH_SECONDS = 0.0005
"""How soon a thread that has something to do gets its turn: commits must not wait for a busy event loop."""


Before = Callable[[Storage], Coroutine[Any, Any, None]]
Beside = Callable[[str], Coroutine[Any, Any, None]]


def serve(settings: ServiceSettings, before: Before | None = None, beside: Beside | None = None) -> None:
    """Serve until told to stop.

    ``before`` is given the database, and what it does is done before any request is answered; ``beside`` is
    given the URL and runs as long as the service does. Both are cancelled when it is told to stop.
    """
    logs.begin(settings.log_level, settings.log_format)
    if is_missing(settings):  # then it has no keys, and should not be made in vain
        _check_reach(settings, keys=[])
    with (
        _bound(settings) as listener,  # first: where this fails, no new file is left behind
        contextlib.closing(open_storage(settings)) as storage,
        storage.alone(settings.takeover_seconds),
    ):
        keyring = Keyring(storage)
        _check_reach(settings, keyring.keys)
        with _told_where(settings):
            listener.listen(_BACKLOG)
        _say("starting: some seconds, or some 20 if this is the first time and the kernels are compiled")
        Service(settings, storage, keyring, listener, before, beside).run()


class Service:
    """One server and its application."""

    def __init__(
        self,
        settings: ServiceSettings,
        storage: Storage,
        keyring: Keyring,
        listener: socket.socket,
        before: Before | None = None,
        beside: Beside | None = None,
    ) -> None:
        self._settings = settings
        self._storage = storage
        self._keyring = keyring
        self._listener = listener
        self._before = before
        self._beside = beside
        self._app = Application(self._lifespan)
        self._server = _Server(self._app, settings, most_files())
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Serve until told to stop."""
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._server.run(sockets=[self._listener])
        if self._failure is not None:
            raise self._failure

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        engine = Engine(self._storage, self._settings)
        working = asyncio.ensure_future(self._work(engine))
        await receive()
        working.cancel()
        await asyncio.wait([working])
        try:
            await engine.stop()
        except Exception as error:  # the server would only log it
            self._failure = self._failure or error
        await send({"type": "lifespan.shutdown.complete"})

    async def _work(self, engine: Engine) -> None:
        """Get ready; then do every second what nobody asks for."""
        try:
            if self._before is not None:
                await self._before(self._storage)
            await warm_up()
            await engine.start()
            door = Door(self._keyring, self._settings.host)
            self._app.begin(engine, door, Cold(engine, self._storage, door).app)
        except Exception as error:
            self._failure = error
            self._server.should_exit = True
            return
        gc.collect()
        gc.freeze()  # what is there now stays: no need to look at it again and again
        host, port = self._listener.getsockname()[:2]
        where = f"[{host}]" if ":" in host else host
        url = f"http://{where}:{port}"
        _say(f"serving on {url}")
        async with asyncio.TaskGroup() as tasks:
            if self._beside is not None:
                tasks.create_task(logged(self._beside(url)))
            while True:
                await asyncio.sleep(_TICK_SECONDS)
                for work in (engine.tick(), asyncio.to_thread(self._keyring.refresh)):
                    await logged(work)


class _Server(uvicorn.Server):
    """Uvicorn's server, which refuses what comes after it was told to stop, and then ends in peace."""

    def __init__(self, app: Application, settings: ServiceSettings, most_files: int) -> None:
        PatientProtocol.request_seconds = settings.request_seconds
        PatientProtocol.idle_seconds = settings.idle_seconds
        PatientProtocol.most = min(settings.max_connections, most_files - min(_OTHER_FILES, most_files // 2))
        super().__init__(
            uvicorn.Config(
                app,
                http=PatientProtocol,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=_BACKLOG,
                timeout_keep_alive=int(settings.idle_seconds) + 1,
                timeout_graceful_shutdown=int(settings.stop_seconds) or 1,
            )
        )
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; on a second Ctrl-C at once."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True
        self._app.end()


def _check_reach(settings: ServiceSettings, keys: Sequence[Key]) -> None:
    """Refuse to be there for everybody."""
    if not keys and not is_loopback(settings.host):
        raise InvalidSettings(
            f"on {settings.host} others could reach the service, and there are no keys: make one with "
            "`glcb keys add NAME --role admin`, or serve on 127.0.0.1"
        )


def _say(line: str) -> None:
    """Tell whoever started the service, whatever the format of the logs."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def most_files() -> int:
    """Allow as many open files as the system lets us; return how many that are."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


@contextlib.contextmanager
def _bound(settings: ServiceSettings) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with _told_where(settings):
            listener.bind((settings.host, settings.port))
        listener.setblocking(False)
        yield listener


@contextlib.contextmanager
def _told_where(settings: ServiceSettings) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        advice = (
            ": choose another with --port, or --port 0 for any" if error.errno == errno.EADDRINUSE else ""
        )
        raise InvalidSettings(
            f"cannot listen on {settings.host} port {settings.port}: {why}{advice}"
        ) from error
