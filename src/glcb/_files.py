"""Files that are there whole, or as they were before, and files for one process alone."""

import contextlib
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Give a file to write to, which takes the place of ``path`` when it is on disk.

    If anything fails, ``path`` stays as it was: OSError, or ValueError for a name that no file can have.
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


def hold(descriptor: int) -> None:
    """Lock an open file; raise BlockingIOError if another process has it, OSError if it cannot be locked.

    The system gives it back when the process ends, however it ends. On Windows nothing is locked.
    """
    if sys.platform == "win32":
        return
    import fcntl

    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
