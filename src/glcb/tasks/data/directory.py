"""The data directory: the files it holds, where they are, and how to open them."""

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

EXTENSIONS = ("", ".xz", ".gz")
"""A file may be plain or compressed."""
_BUFFER = 1 << 20


@dataclass(frozen=True)
class Facts:
    """Dimensions that identify a data file."""

    rows: int
    """Number of rows that the task uses."""
    features: int
    arms: int
    counts: tuple[int, ...] | None = None
    """Number of rows of each class; None without classes or if the counts are unknown."""

    def __str__(self) -> str:
        counts = f", classes {' / '.join(map(str, self.counts))}" if self.counts else ""
        return f"{self.rows:,} rows, {self.features} features, {self.arms} arms{counts}"


@dataclass(frozen=True)
class DataFile:
    """A data file of a task."""

    name: str
    """Name in the data directory, without the extension of a compressed file."""
    facts: Facts
    license: str
    origin: str
    """URL of the source."""
    size: int | None = None
    """Size in bytes, uncompressed."""
    sha256: str | None = None
    """Hash of the uncompressed original, if known."""

    @property
    def names(self) -> tuple[str, ...]:
        """All accepted file names."""
        return tuple(self.name + extension for extension in EXTENSIONS)

    def find(self) -> Path | None:
        """Return the path of the file, or None if it does not exist."""
        candidates = (data_directory() / name for name in self.names)
        return next((path for path in candidates if path.is_file()), None)


def data_directory() -> Path:
    """Return ``GLCB_DATA_DIR``, or the user's data folder if it is not set."""
    configured = os.environ.get("GLCB_DATA_DIR")
    return Path(configured) if configured else user_data_path("glcb", appauthor=False)


@contextmanager
def open_binary(path: Path) -> Iterator[BinaryIO]:
    """Open ``path`` for reading and decompress it; the compression is detected from the first bytes.

    Errors while the file is read are raised as DataError.
    """
    try:
        with path.open("rb") as raw, _decompressed(raw) as content:
            yield content
    except (lzma.LZMAError, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is damaged ({error}): remove it and fetch it again") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


@contextmanager
def open_text(path: Path) -> Iterator[io.TextIOWrapper]:
    """Open ``path`` for reading UTF-8 text and decompress it."""
    try:
        with open_binary(path) as content, io.TextIOWrapper(content, "utf-8-sig", newline="") as text:
            yield text
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text ({error}): convert it first") from error


def _decompressed(raw: io.BufferedReader) -> BinaryIO:
    start = raw.peek(6)
    if start.startswith(b"\xfd7zXZ\x00"):
        return io.BufferedReader(lzma.open(raw), _BUFFER)
    if start.startswith(b"\x1f\x8b"):
        return io.BufferedReader(gzip.open(raw), _BUFFER)
    return raw
