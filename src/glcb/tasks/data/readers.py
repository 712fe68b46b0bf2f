"""Reading tables from text files, data frames and arrays, with the type of each column inferred.

A column in which every value is a number is numeric; any other column is categorical. Text files are read in
chunks, so that a large file is never held in memory as text.
"""

import contextlib
import csv
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from operator import methodcaller
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from glcb._arrays import Float64
from glcb._errors import DataError, InvalidSettings
from glcb._text import is_integer, is_number
from glcb.tasks.data.directory import open_text
from glcb.tasks.data.table import DataTable

MISSING_VALUES = ("", "?", "NA", "N/A", "nan", "NaN", "null", "NULL", "None")
"""Strings that represent a missing value by default."""
MAX_LEVELS = 1000
"""A column with more distinct strings than this is an identifier, not a category."""

_MISSING = "\0"  # represents a missing value of a data frame or array
_CHUNK_ROWS = 10_000

Missing = Literal["error", "drop"]
Column = Sequence[str] | np.ndarray
Chunks = Callable[[], Iterable[Sequence[Column]]]


@dataclass(frozen=True)
class ColumnOptions:
    """How to interpret the columns of a table."""

    ignore: Collection[str] = ()
    """Columns to omit."""
    categories: Collection[str] = ()
    """Columns that are categories even if they hold numbers."""
    missing: Missing = "error"
    """Whether a row with a missing value is an error or is dropped."""
    missing_values: Collection[str] = MISSING_VALUES
    """Strings that represent a missing value."""

    def __post_init__(self) -> None:
        for name in ("ignore", "categories", "missing_values"):
            if isinstance(getattr(self, name), str):
                raise InvalidSettings(f"{name} must be a list of strings, got {getattr(self, name)!r}")
        if self.missing not in ("error", "drop"):
            raise InvalidSettings(f'missing must be "error" or "drop", got {self.missing!r}')

    def with_categories(self, *names: str) -> "ColumnOptions":
        """Return the same options with ``names`` added to the categories."""
        return replace(self, categories=[*self.categories, *names])

    def select(self, names: Sequence[str], required: Sequence[str]) -> list[str]:
        """Return the columns to read; raise an error for unknown or duplicate names."""
        for group, kind in ((names, "column"), (required, "arm")):
            duplicates = {name for name in group if group.count(name) > 1}
            if duplicates:
                raise DataError(f"{kind} names must be unique; {min(duplicates)!r} occurs more than once")
        for name in (*required, *self.ignore, *self.categories):
            if name not in names:
                raise DataError(f"there is no column {name!r}; the columns are {_abbreviated(names)}")
        ignored = set(self.ignore)
        if ignored & set(required):
            raise InvalidSettings(
                f"column {min(ignored & set(required))!r} is required and cannot be ignored"
            )
        return [name for name in names if name not in ignored]


# ---- text files ----


def read_text_file(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    required: Sequence[str] = (),
    delimiter: str = ",",
    comment: str | None = None,
    options: ColumnOptions,
) -> DataTable:
    """Read a table from a text file, plain or compressed.

    Parameters
    ----------
    path : Path
        The file.
    columns : sequence of str, optional
        Column names of a file without a header. Default: the first row is the header.
    required : sequence of str
        Columns that must exist and cannot be ignored.
    delimiter : str
        Character that separates values.
    comment : str, optional
        Lines that start with this text are skipped.
    options : ColumnOptions
        How to interpret the columns.

    Returns
    -------
    DataTable
        The table.
    """
    _check_delimiter(delimiter)
    names = read_header(path, delimiter) if columns is None else list(columns)
    selected = options.select(names, required)
    positions = [names.index(name) for name in selected]

    def chunks() -> Iterator[Sequence[Sequence[str]]]:
        for rows in _text_chunks(path, delimiter, comment, len(names), skip_header=columns is None):
            by_column = list(zip(*rows, strict=True))
            yield [by_column[position] for position in positions]

    return _read_table(selected, chunks, options)


def _check_delimiter(value: object) -> None:
    if not isinstance(value, str) or len(value) != 1 or value in '"\r\n':
        raise InvalidSettings(
            f"delimiter must be a single character other than a quote or newline, got {value!r}"
        )


def read_header(path: Path, delimiter: str = ",") -> list[str]:
    """Return the first row of ``path``."""
    with _open_rows(path, delimiter) as rows:
        header = next(rows, None)
    if header is None:
        raise DataError(f"{path} is empty")
    return header


def count_integers(path: Path, delimiter: str) -> dict[str, tuple[int, int]]:
    """Return the number of values and of distinct values of each column that is written as integers.

    Missing values are not counted. A column with a value such as ``1.0`` is not written as integers.
    """
    names = read_header(path, delimiter)
    distinct: dict[str, set[str]] = {name: set() for name in names}
    values = dict.fromkeys(names, 0)
    for rows in _text_chunks(path, delimiter, None, len(names), skip_header=True):
        for name, column in zip(names, zip(*rows, strict=True), strict=True):
            if name in distinct:
                present = Counter(column)
                for missing in MISSING_VALUES:
                    present.pop(missing, None)
                if all(map(is_integer, present)):
                    distinct[name].update(present)
                    values[name] += present.total()
                else:
                    del distinct[name]
    return {name: (values[name], len(own)) for name, own in distinct.items()}


def _text_chunks(
    path: Path, delimiter: str, comment: str | None, width: int, *, skip_header: bool
) -> Iterator[list[list[str]]]:
    with _open_rows(path, delimiter, comment) as rows:
        first = 1
        if skip_header:
            next(rows)
            first = 2
        while chunk := list(islice(rows, _CHUNK_ROWS)):
            if set(map(len, chunk)) != {width}:
                number, row = next(pair for pair in enumerate(chunk, first) if len(pair[1]) != width)
                raise DataError(f"row {number:,} of {path} has {len(row)} columns instead of {width}")
            first += len(chunk)
            yield chunk


@contextmanager
def _open_rows(path: Path, delimiter: str, comment: str | None = None) -> Iterator[Iterator[list[str]]]:
    """Yield the rows of a file. Empty lines, and spaces around lines and before values, are skipped."""
    try:
        with open_text(path) as text:
            lines = text if comment is None else (line for line in text if not line.startswith(comment))
            stripped = filter(None, map(methodcaller("strip", " \r\n"), lines))
            yield csv.reader(stripped, delimiter=delimiter, skipinitialspace=True)
    except csv.Error as error:
        raise DataError(f"cannot read {path}: {error}; check for an unclosed quote") from error


# ---- data frames and arrays ----


def read_columns(columns: Mapping[str, Column], required: Sequence[str], options: ColumnOptions) -> DataTable:
    """Return the table made of ``columns``; ``required`` ones must exist and cannot be ignored."""
    selected = options.select(list(columns), required)
    return _read_table(selected, lambda: [[columns[name] for name in selected]], options)


def frame_columns(frame: Any) -> dict[str, Column]:
    """Return the columns of a data frame by name, with None for missing values."""
    if not hasattr(frame, "columns") or not hasattr(frame, "__getitem__"):
        raise DataError(f"expected a data frame, got a {type(frame).__name__}; for arrays use from_arrays")
    names = list(frame.columns)
    if len(set(names)) != len(names):
        raise DataError(f"column names must be unique; got {', '.join(map(str, names))}")
    return {str(name): _series_values(frame[name]) for name in names}


def categorical_columns(frame: Any) -> list[str]:
    """Return the columns of a categorical type, including those with numeric categories."""
    kinds = {str(name): str(frame[name].dtype).lower() for name in frame.columns}
    return [name for name, kind in kinds.items() if kind.startswith(("category", "categorical", "enum"))]


def array_columns(contexts: ArrayLike, **others: ArrayLike) -> dict[str, Column]:
    """Return the columns of ``contexts``, called "0", "1", …, and other columns of the same length."""
    table = np.asarray(contexts)
    if table.ndim != 2:
        raise DataError(f"contexts must be a table with one row per context, got shape {table.shape}")
    columns: dict[str, Column] = {str(index): table[:, index] for index in range(table.shape[1])}
    for name, values in others.items():
        column = np.asarray(values)
        if column.shape != (len(table),):
            raise DataError(f"there must be one {name} for each of {len(table):,} rows, got {column.shape}")
        columns[name] = column
    return columns


def _series_values(series: Any) -> np.ndarray:
    missing = np.asarray(series.isna() if hasattr(series, "isna") else series.is_null(), np.bool_)
    values = np.asarray(series)
    if missing.any() and values.dtype.kind != "f":
        values = values.astype(object)
        values[missing] = None
    return values


# ---- type inference ----


def _read_table(names: Sequence[str], chunks: Chunks, options: ColumnOptions) -> DataTable:
    """Return the table in ``chunks``, whose columns are in the order of ``names``."""
    categories = set(options.categories)
    while True:
        columns = _Columns(names, categories, options.missing_values)
        # A column counts as numeric until a string appears. Then reading starts over, because the original
        # spelling of the numbers in earlier chunks is lost.
        textual = next(filter(None, map(columns.add, chunks())), None)
        if textual is None:
            return columns.table(options.missing)
        categories |= textual


class _Columns:
    """The columns read so far."""

    def __init__(self, names: Sequence[str], categories: Collection[str], missing: Collection[str]) -> None:
        self._names = names
        self._levels = {name: _Levels() for name in names if name in categories}
        self._missing_texts = {*missing, _MISSING}
        self._missing = dict.fromkeys(names, 0)
        self._incomplete = 0
        self._numbers: list[np.ndarray] = []
        self._codes: list[np.ndarray] = []

    def add(self, chunk: Sequence[Column]) -> set[str]:
        """Add rows; return the columns that were assumed to be numeric but are not."""
        textual, numbers, codes = set(), [], []
        complete = np.ones(len(chunk[0]), np.bool_)
        for name, column in zip(self._names, chunk, strict=True):
            if name in self._levels:
                values, missing = self._as_codes(name, column)
                codes.append(values)
            else:
                floats = self._as_numbers(name, column)
                if floats is None:
                    textual.add(name)
                    continue
                missing = np.isnan(floats)
                numbers.append(floats)
            self._missing[name] += int(missing.sum())
            complete &= ~missing
        if not textual:
            self._incomplete += int((~complete).sum())
            rows = len(complete)
            self._numbers.append(_compact(_side_by_side(numbers, rows, np.float64)[complete]))
            self._codes.append(_side_by_side(codes, rows, np.uint8)[complete])
        return textual

    def table(self, missing: Missing) -> DataTable:
        """Return all rows as a table."""
        if self._incomplete and missing == "error":
            raise DataError(self._missing_message())
        if not sum(map(len, self._numbers)):
            reason = f": all {self._incomplete:,} have a missing value" if self._incomplete else ""
            raise DataError(f"there are no rows{reason}")
        numbers, codes = np.concatenate(self._numbers), np.concatenate(self._codes)
        levels = tuple(
            _sort_levels(codes[:, index], list(own)) for index, own in enumerate(self._levels.values())
        )
        number_names = tuple(name for name in self._names if name not in self._levels)
        return DataTable(numbers, codes, number_names, tuple(self._levels), levels)

    def _as_codes(self, name: str, column: Column) -> tuple[np.ndarray, np.ndarray]:
        levels = self._levels[name]
        values = np.fromiter(map(levels.__getitem__, _texts(column)), np.uint16, len(column))
        missing = np.isin(values, [levels[text] for text in self._missing_texts & levels.keys()])
        if len(levels) - len(self._missing_texts & levels.keys()) > MAX_LEVELS:
            raise DataError(
                f"column {name!r} has more than {MAX_LEVELS:,} distinct values, too many for a category: "
                "ignore it, or group its values first"
            )
        return (values.astype(np.uint8) if len(levels) <= 256 else values), missing

    def _as_numbers(self, name: str, column: Column) -> Float64 | None:
        """Return the column as numbers, with NaN for missing values, or None if it is not numeric."""
        if isinstance(column, np.ndarray) and column.dtype.kind not in "fiubOUT":
            raise DataError(f"column {name!r} holds {column.dtype} values: convert them to numbers first")
        try:
            numbers = _floats(column)
        except (TypeError, ValueError):
            filled = ["nan" if text in self._missing_texts else text for text in _texts(column)]
            try:
                numbers = _floats(filled)
            except ValueError:
                return None
        if np.isinf(numbers).any():
            raise DataError(f"column {name!r} holds an infinite number: replace it first")
        return numbers

    def _missing_message(self) -> str:
        counts = {name: count for name, count in self._missing.items() if count}
        listed = _abbreviated([f"{name!r} ({count:,})" for name, count in counts.items()])
        return (
            f"values are missing in {self._incomplete:,} rows, in the columns {listed}: fill them in, ignore "
            'these columns, or pass missing="drop" to drop these rows'
        )


class _Levels(dict[str, int]):
    """Assigns the next number to every new string."""

    def __missing__(self, text: str) -> int:
        self[text] = number = min(len(self), 2**16 - 1)
        return number


class _Floats(dict[Any, float]):
    """Parses every distinct value once; most columns repeat values."""

    def __missing__(self, value: Any) -> float:
        self[value] = number = _float(value)
        return number


def _float(value: Any) -> float:
    if isinstance(value, str) and not is_number(value):
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def _sort_levels(codes: np.ndarray, levels: list[str]) -> tuple[str, ...]:
    """Sort the levels in use, numerically if they are numbers, and renumber ``codes`` in place."""
    used = np.flatnonzero(np.bincount(codes, minlength=len(levels))).tolist()
    order = sorted(used, key=levels.__getitem__)
    with contextlib.suppress(ValueError):
        order.sort(key=lambda code: _float(levels[code]))
    renumbered = np.zeros(len(levels), codes.dtype)
    renumbered[order] = np.arange(len(order))
    codes[:] = renumbered[codes]
    return tuple(levels[code] for code in order)


def _texts(column: Column) -> Iterator[str]:
    """Return the values as strings; whole numbers are written without a decimal point."""
    if not isinstance(column, np.ndarray):
        return iter(column)
    if column.dtype.kind == "f" and (column[np.isfinite(column)] % 1 == 0).all():
        return (str(int(value)) if np.isfinite(value) else _MISSING for value in column)
    return (_MISSING if value is None or value != value else str(value) for value in column.tolist())


def _floats(column: Column) -> Float64:
    if isinstance(column, np.ndarray):
        if column.dtype.kind in "fiub":
            return column.astype(np.float64)
        column = column.tolist()
    return np.fromiter(map(_Floats().__getitem__, column), np.float64, len(column))


def _side_by_side(columns: list[np.ndarray], rows: int, dtype: type) -> np.ndarray:
    return np.stack(columns, axis=1) if columns else np.empty((rows, 0), dtype)


def _compact(numbers: Float64) -> np.ndarray:
    """Return the numbers in the smallest type that holds each of them exactly."""
    for dtype in (np.int8, np.int16, np.int32, np.float32):
        with np.errstate(invalid="ignore", over="ignore"):
            smaller = numbers.astype(dtype)
        if np.array_equal(smaller, numbers):
            return smaller
    return numbers


def _abbreviated(names: Sequence[str]) -> str:
    return ", ".join(map(str, names[:8])) + (", …" if len(names) > 8 else "")
