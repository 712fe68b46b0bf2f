"""What a worker is told by the process that starts it, and what it tells that process."""

import asyncio
import contextlib
import os
import re
import secrets
import socket
import sys
import threading
from collections.abc import Callable
from typing import BinaryIO
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from glcb._errors import InvalidSettings
from glcb.service.config import ServiceSettings
from glcb.service.storage.connection import database_url

READY, ALIVE, FAILED = b"ready", b"alive", b"failed "
"""What a worker says: that it answers requests, that its event loop runs, and why it cannot start."""
_ALIVE_SECONDS = 1.0
_MAX_HOST = 40


class WorkerAssignment(Struct, kw_only=True):
    """What a worker is told by whoever starts it."""

    name: str
    incarnation: str
    inner: str
    """Where it listens for other workers: the path of a Unix socket, or an address."""
    number: int = 0
    """Its number on this machine."""


def check_workers(settings: ServiceSettings) -> None:
    """Raise InvalidSettings if a service with several workers cannot have these settings."""
    if database_url(settings).get_backend_name() == "sqlite":
        raise InvalidSettings(
            "several workers need PostgreSQL, because a SQLite file has one writer: pass --database "
            "postgresql://…, or use one worker"
        )
    if settings.high_water_file is not None:
        raise InvalidSettings("several workers have no high_water_file: leave it out, or use one worker")


def assignment(
    settings: ServiceSettings, number: int = 0, folder: str | None = None, host: str | None = None
) -> WorkerAssignment:
    """Return what a worker is told. Its name is the same whenever it is started again.

    Parameters
    ----------
    settings
        The settings of the service.
    number
        Its number on this machine.
    folder
        A folder for Unix sockets, if all workers are on this machine.
    host
        The name of the machine; by default, what the system says.
    """
    incarnation = secrets.token_hex(8)
    if settings.inner_address is None:
        name, inner = f"worker-{number}", f"{folder}/{number}-{incarnation}"
    else:
        inner = _shifted(settings.inner_address, number)
        name = re.sub(r"[^A-Za-z0-9._-]", "-", host or socket.gethostname())[-_MAX_HOST:] or "worker"
        port = split_address(inner)[1]
        if port:
            name = f"{name}-{port}"
        elif settings.workers > 1:
            name = f"{name}-{number}"
    return WorkerAssignment(name=name, incarnation=incarnation, inner=inner, number=number)


def _shifted(address: str, number: int) -> str:
    """Return an address whose port, if it has one, is that of another worker of the machine.

    >>> _shifted("10.0.0.7:9000", 2), _shifted("10.0.0.7", 2)
    ('10.0.0.7:9002', '10.0.0.7')
    """
    found = re.fullmatch(r"(.*:)(\d+)", address)
    if found is None or address.endswith("]"):
        return address
    return f"{found[1]}{int(found[2]) + number}"


def direct_address(settings: ServiceSettings, number: int) -> tuple[str, int] | None:
    """Return where a worker listens for clients that send requests to it directly; None if it does not."""
    if settings.advertise is None:
        return None
    port = urlsplit(settings.advertise).port
    return settings.host, 0 if port is None else port + number


def split_address(address: str) -> tuple[str, int]:
    """Return host and port.

    >>> split_address("10.0.0.7:80"), split_address("10.0.0.7"), split_address("[::1]:80")
    (('10.0.0.7', 80), ('10.0.0.7', 0), ('::1', 80))
    """
    host, bracket, port = address.rpartition("]")
    if not bracket:
        host, _, port = address.partition(":")
    return host.strip("[]"), int(port.strip(":") or 0)


class Orders(Struct, kw_only=True):
    """What a parent tells a new process: one line of JSON on its standard input, which stays open."""

    assigned: WorkerAssignment
    settings: ServiceSettings = ServiceSettings()
    listener: int = -1
    """The descriptor of the listening socket of the service."""
    report: int = -1
    """The descriptor to which the process writes how it is."""

    @classmethod
    def read(cls, file: BinaryIO) -> "Orders":
        """Return the orders on standard input."""
        return _ORDERS.decode(file.readline())


_ORDERS = msgspec.json.Decoder(Orders)


class WorkerReport:
    """Tells the parent how this process is.

    Parameters
    ----------
    descriptor
        Where to write; -1 if there is no parent.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def has_parent(self) -> bool:
        """Whether somebody has started this process."""
        return self._descriptor >= 0

    def ready(self) -> None:
        """Say that this process answers requests."""
        self._write(READY)

    def failed(self, reason: str) -> None:
        """Say why this process cannot start."""
        self._write(FAILED + reason.replace("\n", " ").encode())

    async def keep_alive(self, end: Callable[[], None]) -> None:
        """Say again and again that the event loop runs; call ``end`` if the parent has ended."""
        if self._descriptor < 0:
            return
        loop = asyncio.get_running_loop()

        def wait_for_the_end() -> None:
            while os.read(sys.stdin.fileno(), 1024):
                pass
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(end)

        threading.Thread(target=wait_for_the_end, name="glcb-parent", daemon=True).start()
        while True:
            self._write(ALIVE)
            await asyncio.sleep(_ALIVE_SECONDS)

    def _write(self, line: bytes) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):  # the parent has ended
                os.write(self._descriptor, line + b"\n")


SILENT = WorkerReport(-1)
"""The report of a process without a parent."""
