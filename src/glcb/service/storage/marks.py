"""A high-water mark outside the database: the last acknowledged event of each experiment.

A database that loses its newest events, such as a SQLite file without its write-ahead log, looks intact from
the inside. The mark is written after each commit and before the responses, without a sync: it is
never ahead of the database, and at most a few seconds behind it after a power failure.
"""

import contextlib
import logging
import os
import struct
import threading
import zlib
from pathlib import Path

from glcb._errors import StorageError
from glcb.service.storage.chain import LINK_BYTES, Head

log = logging.getLogger("glcb.service")

_MAGIC = b"glcbmark"
_SLOT = struct.Struct(f"<q{LINK_BYTES}s")
_SLOT_BYTES = 32
"""Slot 0 names the database; slot N is about experiment N: sequence, link, checksum."""
_CLOSED = -1
"""The descriptor after :meth:`MarkFile.close`. A thread that still writes gets an error."""


class MarkFile:
    """The last acknowledged event of each experiment, in a file of fixed slots.

    Parameters
    ----------
    path
        The file. It is created by :meth:`open`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._lock = threading.Lock()  # a closed descriptor may already be that of another file

    def open(self, database: str) -> None:
        """Open the file for writing; create it if it is missing.

        Parameters
        ----------
        database
            The id of the database, 32 hexadecimal digits.

        Raises
        ------
        StorageError
            The file cannot be opened, or belongs to another database.
        """
        if self.path.exists():
            self.check_owner(database)
        try:
            self._descriptor = os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600)
            os.pwrite(self._descriptor, _header(database), 0)
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {error.strerror}") from error

    def check_owner(self, database: str) -> None:
        """Raise StorageError if the file belongs to another database."""
        if self._content()[:_SLOT_BYTES] not in (b"", _header(database)):
            raise StorageError(
                f"{self.path} belongs to another database: the database was deleted or replaced, and its "
                f"events are not here; restore it, or delete {self.path} to start without them"
            )

    def close(self) -> None:
        """Sync and close the file."""
        with self._lock:
            if self._descriptor not in (None, _CLOSED):
                with contextlib.suppress(OSError):
                    os.fsync(self._descriptor)
                    os.close(self._descriptor)
                self._descriptor = _CLOSED

    def set(self, experiment: int, head: Head) -> None:
        """Note the last event of an experiment. A failure is logged: the event itself is on disk."""
        try:
            self._write(experiment, head)
        except OSError as error:
            log.warning("the high-water mark cannot be written", extra={"reason": str(error)})

    def clear(self, experiment: int) -> None:
        """Forget an experiment; raise StorageError if that is impossible, so that its events are kept."""
        try:
            self._write(experiment, Head(0, bytes(LINK_BYTES)))
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {error.strerror}") from error

    def _write(self, experiment: int, head: Head) -> None:
        content = _SLOT.pack(*head)
        slot = content + zlib.crc32(content).to_bytes(4, "little")
        with self._lock:
            if self._descriptor is not None:
                os.pwrite(self._descriptor, slot, experiment * _SLOT_BYTES)

    def read(self) -> tuple[dict[int, Head], list[int]]:
        """Return the last event of each experiment, and the experiments whose slots are damaged."""
        heads, damaged = {}, []
        content = self._content()
        for start in range(_SLOT_BYTES, len(content), _SLOT_BYTES):
            slot, number = content[start : start + _SLOT.size + 4], start // _SLOT_BYTES
            head, checksum = slot[: _SLOT.size], slot[_SLOT.size :]
            if not any(slot):
                continue  # never written
            if zlib.crc32(head).to_bytes(4, "little") != checksum:
                damaged.append(number)
            elif (event := Head(*_SLOT.unpack(head))).sequence > 0:
                heads[number] = event
        return heads, damaged

    def _content(self) -> bytes:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise StorageError(f"cannot read {self.path}: {error.strerror}") from error


def _header(database: str) -> bytes:
    return (_MAGIC + bytes.fromhex(database)).ljust(_SLOT_BYTES, b"\0")
