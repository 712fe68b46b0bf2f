"""Atomic file replacement and locks."""

import contextlib
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Yield a temporary file that replaces ``path`` once its content is on disk.

    If anything fails, ``path`` is left unchanged.

    Raises
    ------
    OSError
        If the file cannot be written.
    ValueError
        If ``path`` is not a valid file name.
    """
    part = path.parent / f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part"
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        _sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError, ValueError):
            part.unlink()


def lock_file(descriptor: int) -> None:
    """Lock an open file for this process.

    The operating system releases the lock when the process ends for any reason. On Windows this does
    nothing.

    Raises
    ------
    BlockingIOError
        If another process holds the lock.
    OSError
        If the file cannot be locked.
    """
    if sys.platform == "win32":
        return
    import fcntl

    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` durable, on systems that support it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
