"""Several workers on one machine: a parent opens the socket of the service, and starts and restarts them.

Workers are new processes, which inherit the socket: whoever is free accepts the next connection. The parent
neither answers requests nor knows any experiments. If it is killed, its workers end.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable

import msgspec

from glcb._errors import GlcbError, StorageError
from glcb.service.access.api_keys import list_keys
from glcb.service.config import ServiceSettings
from glcb.service.http.listening import bound_socket, listen, require_keys_if_public, url_of
from glcb.service.process.log_output import configure_logging
from glcb.service.storage.database import Database, open_database
from glcb.service.workers import partitions
from glcb.service.workers.orders import FAILED, READY, Orders, WorkerAssignment, assignment, check_workers

log = logging.getLogger("glcb.service")

COMMAND = (sys.executable, "-c", "from glcb.service.server import run_worker; run_worker()")
"""The program of a worker."""
HANG_SECONDS = 10.0
"""A worker whose event loop is silent for this long is killed, and started again."""
_START_SECONDS = 120.0
"""Time that a new process has for its first sign of life."""
_PAUSES = (0.0, 1.0, 2.0, 5.0, 10.0)
"""Seconds before a worker is started again that has failed 0, 1, 2, … times in a row."""
_STEADY_SECONDS = 30.0
"""A worker that has run for this long has not failed."""


def serve_workers(
    settings: ServiceSettings,
    reload: Callable[[], ServiceSettings] | None = None,
    host: str | None = None,
) -> None:
    """Run a service with several workers on this machine until SIGINT or SIGTERM.

    Parameters
    ----------
    settings
        The settings of the service.
    reload
        Returns the settings for new processes, which may have changed meanwhile. Address, database and number
        of workers stay as they are.
    host
        The name of the machine, from which those of the workers derive; by default, what the system says.

    Raises
    ------
    InvalidSettings
        The address is unavailable, it is public and there are no API keys, or the database is not PostgreSQL.
    StorageError
        The database cannot be opened, or another service uses it.
    """
    configure_logging(settings.log_level, settings.log_format)
    check_workers(settings)
    with (
        bound_socket(settings.host, settings.port) as listener,
        contextlib.closing(open_database(settings)) as database,
        tempfile.TemporaryDirectory(prefix="glcb-") as folder,
    ):
        require_keys_if_public(settings, list_keys(database))
        listen(listener)
        sys.stderr.write(
            "starting: this takes a few seconds, or about 10 if the kernels must be compiled first\n"
        )
        sys.stderr.flush()
        parent = Parent(settings, database, listener, folder, reload or (lambda: settings), host)
        asyncio.run(parent.run())


class Parent:
    """Starts workers, starts them again when they end or hang, and stops them.

    Parameters
    ----------
    settings
        The settings of the service.
    database
        The database, to end the leases of workers that have ended.
    listener
        The listening socket of the service.
    folder
        A private folder for Unix sockets.
    reload
        Returns the settings for new processes.
    host
        The name of the machine.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        database: Database,
        listener: socket.socket,
        folder: str,
        reload: Callable[[], ServiceSettings],
        host: str | None = None,
    ) -> None:
        self._settings = settings
        self._database = database
        self._listener = listener
        self._folder = folder
        self._reload = reload
        self._host = host
        self._processes: dict[int, Process] = {}
        self._stopping = asyncio.Event()
        self._ready: set[int] = set()
        self._failure: GlcbError | None = None
        self._has_served = False

    async def run(self) -> None:
        """Run until a signal; raise the error of a worker that cannot start."""
        loop = asyncio.get_running_loop()
        # Workers of other machines can take over; on one machine, all end.
        gently = signal.SIGINT if self._settings.inner_address is None else signal.SIGTERM
        loop.add_signal_handler(signal.SIGINT, self._stop, signal.SIGINT)
        loop.add_signal_handler(signal.SIGTERM, self._stop, gently)
        keepers = [asyncio.ensure_future(self._keep(number)) for number in range(self._settings.workers)]
        await asyncio.wait(keepers)
        for keeper in keepers:
            keeper.result()
        if self._failure is not None:
            raise self._failure

    def _stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Let all workers end; at the second time, at once."""
        is_second = self._stopping.is_set()
        self._stopping.set()
        for process in self._processes.values():
            _send(process, signal.SIGKILL if is_second else how)

    async def _keep(self, number: int) -> None:
        """Start one worker again and again."""
        failures = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            assigned = await self._run_once(number)
            self._ready.discard(number)
            await self._expire(assigned)
            if self._stopping.is_set():
                return
            if not self._has_served and self._failure is not None:
                self._stop()
                return
            failures = 0 if time.monotonic() - began > _STEADY_SECONDS else failures + 1
            pause = _PAUSES[min(max(0, failures - 1), len(_PAUSES) - 1)]
            log.warning("a worker is started again", extra={"worker": assigned.name, "pause": pause})
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)

    async def _expire(self, assigned: WorkerAssignment) -> None:
        """End the lease of a worker that has ended."""
        try:
            await self._database.threads.run(partitions.expire, self._database, assigned.incarnation)
        except StorageError as error:
            log.error("a lease cannot be ended", extra={"worker": assigned.name, "reason": str(error)})

    async def _run_once(self, number: int) -> WorkerAssignment:
        """Run one process until it ends; kill it if it hangs."""
        settings = self._next_settings()
        assigned = assignment(settings, number, self._folder, self._host)
        reader, writer = os.pipe()
        orders = Orders(assigned=assigned, settings=settings, listener=self._listener.fileno(), report=writer)
        try:
            process = await asyncio.create_subprocess_exec(
                *COMMAND,
                stdin=PIPE,
                pass_fds=(self._listener.fileno(), writer),
                start_new_session=True,  # Ctrl-C in a terminal stops the parent, which then stops the workers
            )
        finally:
            os.close(writer)
        self._processes[number] = process
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode(orders) + b"\n")
        with open(reader, "rb", buffering=0) as report:  # noqa: PTH123  # a descriptor
            stream = asyncio.StreamReader()
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(stream), report
            )
            try:
                await self._listen(number, stream, process)
            finally:
                transport.close()
        _send(process, signal.SIGKILL)
        await process.wait()
        process.stdin.close()
        return assigned

    def _next_settings(self) -> ServiceSettings:
        try:
            settings = self._reload()
        except GlcbError as error:
            log.error("the settings cannot be read again", extra={"reason": str(error)})
            return self._settings
        own = self._settings
        same = {
            name: getattr(own, name) for name in ("host", "port", "database", "data", "workers", "executor")
        }
        return msgspec.structs.replace(settings, **same)

    async def _listen(self, number: int, stream: asyncio.StreamReader, process: Process) -> None:
        """Read what a worker says, until it ends or is silent for too long."""
        patience = _START_SECONDS
        while True:
            try:
                line = await asyncio.wait_for(stream.readline(), patience)
            except TimeoutError:
                if self._stopping.is_set():
                    continue
                log.error("a worker hangs and is killed", extra={"pid": process.pid})
                return
            if not line:
                return
            patience = HANG_SECONDS
            if line.startswith(FAILED):
                reason = line.removeprefix(FAILED).strip().decode()
                log.error("a worker cannot start", extra={"pid": process.pid, "reason": reason})
                if not self._has_served:  # later ones are started again
                    self._failure = self._failure or StorageError(reason)
            elif line.startswith(READY):
                self._ready.add(number)
                if len(self._ready) == self._settings.workers and not self._has_served:
                    self._has_served, self._failure = True, None
                    sys.stderr.write(f"serving on {url_of(self._listener)}\n")
                    sys.stderr.flush()


def _send(process: Process, number: signal.Signals) -> None:
    """Send a signal to a process. The method of the process could take its exit status away."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)
