"""Appends events to a log file, each line completely or not at all."""

import contextlib
import errno
import json
import os
from pathlib import Path

from glcb._errors import LogError
from glcb._files import lock_file
from glcb.bandit.logs.format import (
    VERSION_FIELD,
    Event,
    check_version,
    header_event,
)

_CHUNK = 1 << 16


class LogWriter:
    """Writes a log; new lines follow the existing ones.

    A line is passed to the operating system before :meth:`write` returns, so it survives a crash. If a
    process was killed while writing, the next writer removes the partial line. A log has one writer at a
    time.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._process = os.getpid()
        self._descriptor = -1
        self._end = 0
        self._partial = False
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        try:
            self._descriptor = os.open(self.path, flags, 0o666)
            lock_file(self._descriptor)
            self._end = self._find_end()
            if self._end < os.fstat(self._descriptor).st_size:
                os.ftruncate(self._descriptor, self._end)
        except BlockingIOError:
            raise LogError(
                f"another bandit is writing to {self.path}: use a separate log for each bandit"
            ) from None
        except (OSError, ValueError) as error:  # ValueError: a path with a null character
            raise self._failure(error) from error
        if self._end == 0:
            self.write(header_event())

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def is_at(self, path: str | os.PathLike[str]) -> bool:
        """Return whether `path` is this file."""
        with contextlib.suppress(OSError, ValueError):
            return os.path.samestat(Path(path).stat(), os.fstat(self._descriptor))
        return False

    def write(self, *events: Event) -> None:
        """Append a line for each event: all of them, or none and raise LogError."""
        if os.getpid() != self._process:
            raise LogError(
                f"the log {self.path} belongs to the process that this one was forked from: call log_to with "
                "another path, or with None"
            )
        lines = [json.dumps(event, separators=(",", ":"), allow_nan=False) + "\n" for event in events]
        text = "".join(lines).encode()
        try:
            if self._partial:
                self._truncate()
            if os.write(self._descriptor, text) != len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._end += len(text)
        except BaseException as error:  # a line without its effect would be replayed
            self._partial = True
            with contextlib.suppress(OSError):
                self._truncate()
            if isinstance(error, OSError):
                raise self._failure(error) from error
            raise

    def _truncate(self) -> None:
        """Remove a partial write."""
        os.ftruncate(self._descriptor, self._end)
        self._partial = False

    def _find_end(self) -> int:
        """Return the length of the complete lines; raise LogError if this is not a log of this format."""
        end = os.fstat(self._descriptor).st_size
        start = self._read(0, _CHUNK)
        first, newline, _ = start.partition(b"\n")
        if newline:
            self._check_header(first)
        elif not f'{{"{VERSION_FIELD}":'.encode().startswith(first[: len(VERSION_FIELD) + 4]):
            raise self._not_a_log()
        while end > 0:
            begin = max(0, end - _CHUNK)
            last = self._read(begin, end - begin).rfind(b"\n")
            if last >= 0:
                return begin + last + 1
            end = begin
        return 0

    def _check_header(self, line: bytes) -> None:
        try:
            header = json.loads(line)
        except ValueError:
            header = None
        if not isinstance(header, dict) or VERSION_FIELD not in header:
            raise self._not_a_log()
        check_version(header[VERSION_FIELD], self.path)

    def _not_a_log(self) -> LogError:
        return LogError(f"{self.path} exists and is not a log of a bandit: choose another path")

    def _read(self, start: int, length: int) -> bytes:
        os.lseek(self._descriptor, start, os.SEEK_SET)
        return os.read(self._descriptor, length)

    def _failure(self, error: OSError | ValueError) -> LogError:
        return LogError(f"cannot write the log {self.path}: {getattr(error, 'strerror', None) or error}")
