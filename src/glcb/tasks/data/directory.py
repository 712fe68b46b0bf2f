"""The data directory: which files belong there, where they are, and how they are opened."""

import gzip
import io
import lzma
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from platformdirs import user_data_path

from glcb._errors import DataError

ENDINGS = ("", ".xz", ".gz")
"""A file may lie there plain or compressed."""
_BUFFER = 1 << 20


@dataclass(frozen=True)
class Facts:
    """What a task makes of a data file, by which a genuine one is told from a wrong one."""

    rows: int
    """Rows that the task uses."""
    features: int
    arms: int
    counts: tuple[int, ...] | None = None
    """Rows of each class; None where there are no classes or nobody counted."""

    def __str__(self) -> str:
        counts = f", classes {' / '.join(map(str, self.counts))}" if self.counts else ""
        return f"{self.rows:,} rows, {self.features} features, {self.arms} arms{counts}"


@dataclass(frozen=True)
class DataFile:
    """A file that a task is made from."""

    name: str
    """Its name in the data directory, without the ending of a compressed file."""
    facts: Facts
    license: str
    origin: str
    """Where it comes from."""
    size: int | None = None
    """Bytes, uncompressed."""
    sha256: str | None = None
    """Of the uncompressed original, where it is known."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every name under which the file is accepted."""
        return tuple(self.name + ending for ending in ENDINGS)

    def find(self) -> Path | None:
        """Return where the file is, or None."""
        candidates = (data_directory() / name for name in self.names)
        return next((path for path in candidates if path.is_file()), None)


def data_directory() -> Path:
    """Return ``GLCB_DATA_DIR``, or the user's data folder if that is not set."""
    named = os.environ.get("GLCB_DATA_DIR")
    return Path(named) if named else user_data_path("glcb", appauthor=False)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open ``path`` for reading, uncompressed; what it is compressed with is seen from its first bytes.

    Whatever is wrong with the file while it is read becomes a DataError.
    """
    try:
        with path.open("rb") as raw, _uncompressed(raw) as content:
            yield content
    except (lzma.LZMAError, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is damaged ({error}): remove it and fetch it again") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


@contextmanager
def opened_text(path: Path) -> Iterator[io.TextIOWrapper]:
    """Open ``path`` for reading text, uncompressed."""
    try:
        with opened(path) as content, io.TextIOWrapper(content, "utf-8-sig", newline="") as text:
            yield text
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text ({error}): convert it first") from error


def _uncompressed(raw: io.BufferedReader) -> BinaryIO:
    start = raw.peek(6)
    if start.startswith(b"\xfd7zXZ\x00"):
        return io.BufferedReader(lzma.open(raw), _BUFFER)
    if start.startswith(b"\x1f\x8b"):
        return io.BufferedReader(gzip.open(raw), _BUFFER)
    return raw
