"""Reading columns of which nobody said what they hold: numbers and categories are recognized.

A column in which everything can be read as a number is one of numbers, any other one of categories. Text
comes in chunks, so that a large file never stands in memory as text.
"""

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Literal, TypedDict

import numpy as np

from glcb._errors import DataError, InvalidSettings
from glcb._text import is_number
from glcb._types import Float64
from glcb.tasks.table import Table

MISSING_VALUES = ("", "?", "NA", "N/A", "nan", "NaN", "null", "NULL", "None")
"""What a missing value is written like, unless somebody says otherwise."""
MOST_LEVELS = 1000
"""A column with more different texts than this is a name or a key, and not a category."""

_NOTHING = "\0"

Column = Sequence[str] | np.ndarray
Chunks = Callable[[], Iterable[Sequence[Column]]]


class Reading(TypedDict, total=False):
    """How to read columns; every option is optional."""

    ignore: Collection[str]
    """Columns to leave out."""
    categories: Collection[str]
    """Columns of categories, even if they look like numbers."""
    missing: Literal["error", "drop"]
    """What to do with rows in which something is missing."""
    missing_values: Collection[str]
    """Texts that stand for a missing value."""


def with_categories(reading: Reading, *names: str) -> Reading:
    """Return the same way of reading, with these columns among those of categories."""
    _check_options(reading)  # before a text falls apart into its letters
    return {**reading, "categories": [*reading.get("categories", ()), *names]}


def wanted(names: Sequence[str], needed: Sequence[str], reading: Reading) -> list[str]:
    """Return the columns to read; complain of names that do not exist or occur twice."""
    _check_options(reading)
    for given, what in ((names, "column"), (needed, "arm")):
        twice = {name for name in given if given.count(name) > 1}
        if twice:
            raise DataError(f"every {what} needs a name of its own, {min(twice)!r} occurs more than once")
    for name in (*needed, *reading.get("ignore", ()), *reading.get("categories", ())):
        if name not in names:
            raise DataError(f"there is no column {name!r}; the columns are {_some(names)}")
    ignored = set(reading.get("ignore", ()))
    if ignored & set(needed):
        raise InvalidSettings(f"column {min(ignored & set(needed))!r} cannot be ignored: it is needed")
    return [name for name in names if name not in ignored]


def _check_options(reading: Reading) -> None:
    unknown = reading.keys() - Reading.__annotations__.keys()
    if unknown:
        raise InvalidSettings(
            f"there is no option {min(unknown)!r}; the options are {', '.join(Reading.__annotations__)}"
        )
    for option in ("ignore", "categories", "missing_values"):
        if isinstance(reading.get(option), str):
            raise InvalidSettings(f"{option} must be a list of texts, got {reading.get(option)!r}")


def read_table(names: Sequence[str], chunks: Chunks, reading: Reading) -> Table:
    """Return the table that ``chunks`` hold, column by column in the order of ``names``."""
    missing = reading.get("missing", "error")
    if missing not in ("error", "drop"):
        raise InvalidSettings(f'missing must be "error" or "drop", got {missing!r}')
    categories = set(reading.get("categories", ()))
    while True:
        columns = _Columns(names, categories, reading.get("missing_values", MISSING_VALUES))
        # Every column is taken for numbers until a text turns up; then reading starts over, because
        # earlier chunks no longer know how their numbers were written.
        texts = next(filter(None, map(columns.add, chunks())), None)
        if texts is None:
            return columns.table(missing)
        categories |= texts


class _Columns:
    """The columns read so far."""

    def __init__(self, names: Sequence[str], categories: Collection[str], missing: Collection[str]) -> None:
        self._names = names
        self._levels = {name: _Levels() for name in names if name in categories}
        self._missing_texts = {*missing, _NOTHING}
        self._missing = dict.fromkeys(names, 0)
        self._incomplete = 0
        self._numbers: list[np.ndarray] = []
        self._codes: list[np.ndarray] = []

    def add(self, chunk: Sequence[Column]) -> set[str]:
        """Take some more rows; return the columns that had to be numbers and are not."""
        texts, numbers, codes = set(), [], []
        complete = np.ones(len(chunk[0]), np.bool_)
        for name, column in zip(self._names, chunk, strict=True):
            if name in self._levels:
                values, missing = self._as_codes(name, column)
                codes.append(values)
            else:
                floats = self._as_numbers(name, column)
                if floats is None:
                    texts.add(name)
                    continue
                missing = np.isnan(floats)
                numbers.append(floats)
            self._missing[name] += int(missing.sum())
            complete &= ~missing
        if not texts:
            self._incomplete += int((~complete).sum())
            rows = len(complete)
            self._numbers.append(_compact(_side_by_side(numbers, rows, np.float64)[complete]))
            self._codes.append(_side_by_side(codes, rows, np.uint8)[complete])
        return texts

    def table(self, missing: str) -> Table:
        """Return everything that was read."""
        if self._incomplete and missing == "error":
            raise DataError(self._complaint())
        if not sum(map(len, self._numbers)):
            why = f": all {self._incomplete:,} have a missing value" if self._incomplete else ""
            raise DataError(f"there are no rows{why}")
        numbers, codes = np.concatenate(self._numbers), np.concatenate(self._codes)
        levels = tuple(_in_order(codes[:, at], list(own)) for at, own in enumerate(self._levels.values()))
        number_names = tuple(name for name in self._names if name not in self._levels)
        return Table(numbers, codes, number_names, tuple(self._levels), levels)

    def _as_codes(self, name: str, column: Column) -> tuple[np.ndarray, np.ndarray]:
        levels = self._levels[name]
        values = np.fromiter(map(levels.__getitem__, _texts(column)), np.uint16, len(column))
        missing = np.isin(values, [levels[text] for text in self._missing_texts & levels.keys()])
        if len(levels) - len(self._missing_texts & levels.keys()) > MOST_LEVELS:
            raise DataError(
                f"column {name!r} has more than {MOST_LEVELS:,} different values, too many for categories: "
                "ignore it, or group its values first"
            )
        return (values.astype(np.uint8) if len(levels) <= 256 else values), missing

    def _as_numbers(self, name: str, column: Column) -> Float64 | None:
        """Return the column as numbers, NaN where one is missing, or None if it holds something else."""
        if isinstance(column, np.ndarray) and column.dtype.kind not in "fiubOUT":
            raise DataError(f"column {name!r} holds {column.dtype} values: turn them into numbers first")
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

    def _complaint(self) -> str:
        counts = {name: count for name, count in self._missing.items() if count}
        listed = _some([f"{name!r} ({count:,})" for name, count in counts.items()])
        return (
            f"values are missing in {self._incomplete:,} rows, in the columns {listed}: fill them in, ignore "
            'these columns, or say missing="drop" to leave out these rows'
        )


class _Levels(dict[str, int]):
    """Gives every new text the next number."""

    def __missing__(self, text: str) -> int:
        self[text] = number = min(len(self), 2**16 - 1)
        return number


class _Floats(dict[Any, float]):
    """Parses every value once: most columns repeat themselves."""

    def __missing__(self, value: Any) -> float:
        self[value] = number = _float(value)
        return number


def _float(value: Any) -> float:
    if isinstance(value, str) and not is_number(value):
        raise ValueError(f"{value!r} is no number")
    return float(value)


def _in_order(codes: np.ndarray, levels: list[str]) -> tuple[str, ...]:
    """Sort the levels that occur, as numbers if they are numbers, and renumber ``codes`` in place."""
    used = np.flatnonzero(np.bincount(codes, minlength=len(levels))).tolist()
    order = sorted(used, key=levels.__getitem__)
    with contextlib.suppress(ValueError):
        order.sort(key=lambda code: _float(levels[code]))
    renumbered = np.zeros(len(levels), codes.dtype)
    renumbered[order] = np.arange(len(order))
    codes[:] = renumbered[codes]
    return tuple(levels[code] for code in order)


def _texts(column: Column) -> Iterator[str]:
    """Give the values as texts; whole numbers are written without a point."""
    if not isinstance(column, np.ndarray):
        return iter(column)
    if column.dtype.kind == "f" and (column[np.isfinite(column)] % 1 == 0).all():
        return (str(int(value)) if np.isfinite(value) else _NOTHING for value in column)
    return (_NOTHING if value is None or value != value else str(value) for value in column.tolist())


def _floats(column: Column) -> Float64:
    if isinstance(column, np.ndarray):
        if column.dtype.kind in "fiub":
            return column.astype(np.float64)
        column = column.tolist()
    return np.fromiter(map(_Floats().__getitem__, column), np.float64, len(column))


def _side_by_side(columns: list[np.ndarray], rows: int, dtype: type) -> np.ndarray:
    return np.stack(columns, axis=1) if columns else np.empty((rows, 0), dtype)


def _compact(numbers: Float64) -> np.ndarray:
    """Return the numbers in the smallest type that holds every one of them exactly."""
    for dtype in (np.int8, np.int16, np.int32, np.float32):
        with np.errstate(invalid="ignore", over="ignore"):
            smaller = numbers.astype(dtype)
        if np.array_equal(smaller, numbers):
            return smaller
    return numbers


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(str, names[:8])) + (", …" if len(names) > 8 else "")
