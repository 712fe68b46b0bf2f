"""Logs as they lie in files, read one record at a time: JSON lines, CSV and Parquet."""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, cast, get_args

from glcb._errors import INSTALL_LOGS, InvalidSettings, LogError, MissingExtra
from glcb._text import is_number, is_unicode

Format = Literal["csv", "jsonl", "parquet"]

_SUFFIXES: Mapping[str, Format] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".log": "jsonl",
    ".parquet": "parquet",
}
_BATCH = 1000
_SAVE_AS_UTF8 = "save the log as UTF-8"


@dataclass(frozen=True)
class Layout:
    """Which columns of a log hold what; all others are features, unless there is a column of contexts."""

    context: str = "context"
    """Holds a whole context, as an object of JSON."""
    arm: str = "arm"
    reward: str = "reward"
    propensity: str = "propensity"
    ignore: Collection[str] = ()
    """Columns that are no features."""


class Record(NamedTuple):
    """One row of a log, or why it is none, and how much of the log has been read with it."""

    values: Mapping[str, Any] | None
    problem: str
    share: float


def records(path: Path, form: str | None, layout: Layout) -> Iterator[Record]:
    """Yield what is in the file; raise LogError if it cannot be read, or has no column for the arm."""
    chosen = form or _SUFFIXES.get(_suffixes(path)[-1])
    if chosen not in get_args(Format):
        raise InvalidSettings(
            f"the format of a log is {', '.join(get_args(Format))}, got {form or path.name!r}: say which one "
            "with format=, at the shell with --format"
        )
    read = {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet}[cast(Format, chosen)]
    try:
        yield from read(path, layout)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise LogError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


def cell(text: str) -> Any:
    """Return what a cell of a CSV file says: a number, a text, or nothing.

    >>> cell("31"), cell(" 0.5"), cell("FR"), cell(""), cell("1_000")
    (31, 0.5, 'FR', None, '1_000')
    """
    stripped = text.strip()
    if not is_number(stripped):
        return text if stripped else None
    digits = stripped.lstrip("+-")
    return int(stripped) if digits.isdecimal() and len(digits) < 19 else float(stripped)


def _suffixes(path: Path) -> list[str]:
    """Return the endings of the name, without that of a compression."""
    return [ending for ending in map(str.lower, path.suffixes) if ending != ".gz"] or [""]


@contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], "_Position"]]:
    with path.open("rb") as file:
        position = _Position(file, path.stat().st_size)
        if path.suffix.lower() == ".gz":
            with gzip.open(file, "rb") as unpacked:
                yield cast(IO[bytes], unpacked), position
        else:
            yield file, position


class _Position:
    """How far a file has been read, be it compressed or not."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._size = file, size

    def __call__(self) -> float:
        return min(1.0, self._file.tell() / self._size) if self._size else 1.0


def _jsonl(path: Path, layout: Layout) -> Iterator[Record]:
    with _opened(path) as (file, position):
        for line in file:
            if line.isspace():
                continue
            try:
                values = json.loads(line)
            except (ValueError, RecursionError) as error:
                yield Record(None, f"it is no JSON: {error}", position())
                continue
            if isinstance(values, dict):
                yield Record(values, "", position())
            else:
                yield Record(None, f"it is no object of JSON but a {type(values).__name__}", position())


def _csv(path: Path, layout: Layout) -> Iterator[Record]:
    delimiter = "\t" if ".tsv" in _suffixes(path) else ","
    with _opened(path) as (file, position):
        # Bytes that are no text must not stop the rest.
        text = io.TextIOWrapper(file, "utf-8-sig", "surrogateescape", newline="")
        rows = csv.reader(text, delimiter=delimiter)
        names = next(rows, [])
        if not is_unicode("".join(names)):
            raise LogError(f"{path} has columns whose names are not UTF-8: {_SAVE_AS_UTF8}")
        if not names:
            raise LogError(f"{path} has no first row: a CSV file begins with the names of its columns")
        if len(names) == 1 and ";" in names[0]:
            raise LogError(f"{path} has ; between its cells: save it with commas, or with tabs as .tsv")
        _check_columns(path, names, layout)
        while True:
            try:
                row = next(rows, None)
            except csv.Error as error:
                yield Record(None, f"it is no row: {error}", position())
                continue
            if row is None:
                return
            if not is_unicode("".join(row)):
                yield Record(None, f"it is not UTF-8: {_SAVE_AS_UTF8}", position())
            elif len(row) == len(names):
                values = {
                    name: value if name == layout.arm else cell(value)
                    for name, value in zip(names, row, strict=True)
                }
                yield Record(values, "", position())
            elif row:
                yield Record(None, f"it has {len(row)} cells instead of {len(names)}", position())


def _parquet(path: Path, layout: Layout) -> Iterator[Record]:
    try:
        from pyarrow import parquet
        from pyarrow.lib import ArrowException
    except ImportError as error:
        raise MissingExtra(f"Parquet files need pyarrow: {INSTALL_LOGS}") from error
    try:
        with parquet.ParquetFile(path) as file:
            _check_columns(path, file.schema_arrow.names, layout)
            done, total = 0, file.metadata.num_rows
            for batch in file.iter_batches(_BATCH):
                for values in batch.to_pylist():
                    done += 1
                    yield Record(values, "", done / total)
    except ArrowException as error:
        raise LogError(f"cannot read {path}: {error}") from error


def _check_columns(path: Path, names: list[str], layout: Layout) -> None:
    """Find out at the first row, not at the last, that columns are called differently."""
    if len(set(names)) != len(names):
        raise LogError(f"{path} has two columns of the same name: {', '.join(names)}")
    for column in ("arm", "reward"):
        name = getattr(layout, column)
        if name not in names:
            raise LogError(
                f"{path} has no column {name!r} but {', '.join(names)}: say which one holds the "
                f"{column}, with {column}=, at the shell with --{column}-column"
            )
    if unknown := [name for name in layout.ignore if name not in names]:
        raise LogError(
            f"{path} has no column {unknown[0]!r} that could be ignored: its columns are {', '.join(names)}"
        )
