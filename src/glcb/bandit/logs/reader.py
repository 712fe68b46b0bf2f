"""Reads logs one record at a time: JSON lines, CSV and Parquet."""

import bz2
import csv
import gzip
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, cast, get_args

from glcb._errors import INSTALL_LOGS, InvalidSettings, LogError, MissingExtra
from glcb._text import is_number, is_unicode
from glcb.bandit.logs.format import (
    NESTED_FIELDS,
    VERSION_FIELD,
    LogColumns,
    check_version,
    is_event,
    no_header_error,
)

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
_COMPRESSED: Mapping[str, Callable[[IO[bytes], Literal["rb"]], IO[bytes]]] = {
    ".bz2": bz2.open,
    ".gz": gzip.open,  # type: ignore[dict-item]
    ".xz": lzma.open,
}
_BATCH = 1000
_SAVE_AS_UTF8 = "save the log as UTF-8"


class Record(NamedTuple):
    """One row of a log, or the reason why it cannot be read, and the share of the log read so far."""

    values: Mapping[str, Any] | None
    problem: str
    share: float


def read_records(path: Path, form: str | None, columns: LogColumns) -> Iterator[Record]:
    """Yield the records of a log.

    Raises
    ------
    InvalidSettings
        If the format is unknown.
    LogError
        If the file cannot be read, has an old format, or lacks a column.
    MissingExtra
        If the log is a Parquet file and pyarrow is not installed.
    """
    chosen = form or _SUFFIXES.get(suffixes(path)[-1])
    if chosen not in get_args(Format):
        raise InvalidSettings(
            f"format must be one of {', '.join(get_args(Format))}, got {form or path.name!r}: pass format=, "
            "or --format on the command line"
        )
    read = {"csv": _read_csv, "jsonl": _read_jsonl, "parquet": _read_parquet}[cast(Format, chosen)]
    try:
        yield from read(path, columns)
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise LogError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


@lru_cache(maxsize=4096)
def parse_cell(text: str) -> Any:
    """Return the value of a CSV cell: a number, a string, or None if it is empty.

    Examples
    --------
    >>> parse_cell("31"), parse_cell(" 0.5"), parse_cell("FR"), parse_cell(""), parse_cell("1_000")
    (31, 0.5, 'FR', None, '1_000')
    """
    stripped = text.strip()
    if not is_number(stripped):
        return text if stripped else None
    digits = stripped.lstrip("+-")
    return int(stripped) if digits.isdecimal() and len(digits) < 19 else float(stripped)


def suffixes(path: Path) -> list[str]:
    """Return the suffixes of a path in lower case, without the suffix of a compressed file."""
    return [ending for ending in map(str.lower, path.suffixes) if ending not in _COMPRESSED] or [""]


@contextmanager
def open_log(path: Path) -> Iterator[tuple[IO[bytes], "Position"]]:
    """Yield the decompressed file and the share of it that has been read."""
    with path.open("rb") as file:
        position = Position(file, path.stat().st_size)
        unpack = _COMPRESSED.get(path.suffix.lower())
        if unpack is None:
            yield file, position
        else:
            with unpack(file, "rb") as unpacked:
                yield unpacked, position


class Position:
    """The share of a file read so far; for a compressed file, of its compressed size."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._size = file, size

    def __call__(self) -> float:
        """Return the share."""
        return min(1.0, self._file.tell() / self._size) if self._size else 1.0


def _read_jsonl(path: Path, columns: LogColumns) -> Iterator[Record]:
    has_header = False
    with open_log(path) as (file, position):
        for line in file:
            if line.isspace():
                continue
            try:
                values = json.loads(line)
            except (ValueError, RecursionError) as error:
                yield Record(None, f"it is not JSON: {error}", position())
                continue
            if not isinstance(values, dict):
                yield Record(None, f"it must be a JSON object, got a {type(values).__name__}", position())
                continue
            if VERSION_FIELD in values:
                check_version(values[VERSION_FIELD], path)
                has_header = True
                continue
            if not has_header and is_event(values):
                raise no_header_error(path)
            yield Record(values, "", position())


def _read_csv(path: Path, columns: LogColumns) -> Iterator[Record]:
    delimiter = "\t" if ".tsv" in suffixes(path) else ","
    with open_log(path) as (file, position):
        # Invalid bytes must not stop the replay: only their rows are rejected.
        text = io.TextIOWrapper(file, "utf-8-sig", "surrogateescape", newline="")
        rows = csv.reader(text, delimiter=delimiter)
        names = next(rows, [])
        if not is_unicode("".join(names)):
            raise LogError(f"{path} has column names that are not UTF-8: {_SAVE_AS_UTF8}")
        if not names:
            raise LogError(f"{path} is empty: a CSV file must begin with a row of column names")
        if len(names) == 1 and ";" in names[0]:
            raise LogError(f"{path} is separated by semicolons: save it with commas, or with tabs as .tsv")
        _check_columns(path, names, columns)
        while True:
            try:
                row = next(rows, None)
            except csv.Error as error:
                yield Record(None, f"it is not a CSV row: {error}", position())
                continue
            if row is None:
                return
            if not is_unicode("".join(row)):
                yield Record(None, f"it is not UTF-8: {_SAVE_AS_UTF8}", position())
            elif len(row) == len(names):
                values = {
                    name: value if name == columns.arm else parse_cell(value)
                    for name, value in zip(names, row, strict=True)
                }
                yield Record(values, "", position())
            elif row:
                yield Record(None, f"it has {len(row)} cells, expected {len(names)}", position())


def _read_parquet(path: Path, columns: LogColumns) -> Iterator[Record]:
    try:
        from pyarrow import parquet
        from pyarrow.lib import ArrowException
    except ImportError as error:
        raise MissingExtra(f"Parquet files need pyarrow: {INSTALL_LOGS}") from error
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            _check_columns(path, names, columns)
            done, total = 0, file.metadata.num_rows
            for batch in file.iter_batches(_BATCH):
                for values in batch.to_pylist():
                    done += 1
                    yield Record(_parse_nested(values) if is_event(values) else values, "", done / total)
    except ArrowException as error:
        raise LogError(f"cannot read {path}: {error}") from error


def _parse_nested(values: dict[str, Any]) -> dict[str, Any]:
    """Return an event with its lists and objects, which are JSON text in a table."""
    parsed = {}
    for name in NESTED_FIELDS:
        if isinstance(values.get(name), str):
            with suppress(ValueError, RecursionError):
                parsed[name] = json.loads(values[name])
    return {**values, **parsed}


def _check_columns(path: Path, names: list[str], columns: LogColumns) -> None:
    """Raise LogError before the first row if a column is missing."""
    available = ", ".join(names)
    if len(set(names)) != len(names):
        raise LogError(f"{path} has two columns with the same name: {available}")
    for role in ("arm", "reward"):
        name = getattr(columns, role)
        if name not in names:
            raise LogError(
                f"{path} has no column {name!r}; its columns are {available}: name the column of the {role} "
                f"with {role}_column=, or --{role}-column on the command line"
            )
    if unknown := [name for name in columns.ignore if name not in names]:
        raise LogError(f"{path} has no column {unknown[0]!r} to ignore; its columns are {available}")
