"""The file that a bandit writes its log to: whole lines of JSON, or an error and no line at all."""

import contextlib
import errno
import json
import os
from pathlib import Path

from glcb._errors import LogError
from glcb._files import hold
from glcb.bandit.logs.format import Event

_BEGIN = b'{"event":"'
"""How every line begins."""
_CHUNK = 1 << 16


class LogFile:
    """A log that is written to; lines are appended to those that are there.

    A line is handed to the system before :meth:`write` returns, so that it outlives the process. If a process
    was killed while it wrote, the next one to open the log cuts the torn line off. Only one writes at a time.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._descriptor = -1
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        try:
            self._descriptor = os.open(self.path, flags, 0o666)
            hold(self._descriptor)
            self._end = self._whole()
            if self._end < os.fstat(self._descriptor).st_size:
                os.ftruncate(self._descriptor, self._end)
        except BlockingIOError:
            raise LogError(f"another bandit is writing to {self.path}: give each a log of its own") from None
        except (OSError, ValueError) as error:  # ValueError: a name that no file can have
            raise self._failure(error) from error
        self._torn = False

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def is_at(self, path: str | os.PathLike[str]) -> bool:
        """Return whether the file at ``path`` is this one."""
        with contextlib.suppress(OSError, ValueError):
            return os.path.samestat(Path(path).stat(), os.fstat(self._descriptor))
        return False

    def write(self, *events: Event) -> None:
        """Add a line for each event: all of them, or an error and none."""
        lines = [json.dumps(event, separators=(",", ":"), allow_nan=False) + "\n" for event in events]
        text = "".join(lines).encode()
        try:
            if self._torn:
                self._cut()
            if os.write(self._descriptor, text) != len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._end += len(text)
        except BaseException as error:  # an interrupt too must not leave a line of what did not happen
            self._torn = True
            with contextlib.suppress(OSError):
                self._cut()
            if isinstance(error, OSError):
                raise self._failure(error) from error
            raise

    def _cut(self) -> None:
        """Remove what was not written to the end."""
        os.ftruncate(self._descriptor, self._end)
        self._torn = False

    def _whole(self) -> int:
        """Return how many bytes of the file are whole lines."""
        end = os.fstat(self._descriptor).st_size
        if not _BEGIN.startswith(self._read(0, len(_BEGIN))):
            raise LogError(
                f"{self.path} is not a log of a bandit's decisions, and nothing is appended to it: choose a "
                "new name"
            )
        while end > 0:
            start = max(0, end - _CHUNK)
            newline = self._read(start, end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
        return 0

    def _read(self, start: int, length: int) -> bytes:
        os.lseek(self._descriptor, start, os.SEEK_SET)
        return os.read(self._descriptor, length)

    def _failure(self, error: OSError | ValueError) -> LogError:
        return LogError(f"cannot write the log {self.path}: {getattr(error, 'strerror', None) or error}")
