"""Tables of numbers and categories, stored compactly and encoded as contexts a few rows at a time."""

from dataclasses import dataclass

import numpy as np

from glcb._arrays import Float64, Int64
from glcb._errors import DataError
from glcb._text import is_integer
from glcb._types import Arm
from glcb.tasks.base import Stream, draw_rows, min_max, stream_generators
from glcb.tasks.data.cache import ParsedData


@dataclass(frozen=True, eq=False)
class DataTable:
    """Numeric columns, and categorical columns as codes of their levels."""

    numbers: np.ndarray
    """The numeric columns, in the smallest type that holds them exactly."""
    codes: np.ndarray
    """The categorical columns: the index of the level."""
    number_names: tuple[str, ...]
    category_names: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    """The distinct values of each categorical column, sorted."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.numbers)

    @property
    def features(self) -> int:
        """Number of features of an encoded row."""
        return len(self.number_names) + sum(map(len, self.levels))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Name of each feature: a column, or ``column=level`` for a category."""
        columns = zip(self.category_names, self.levels, strict=True)
        one_hot = (f"{name}={level}" for name, levels in columns for level in levels)
        return (*self.number_names, *one_hot)

    def encode(self, rows: Int64) -> Float64:
        """Return the features of ``rows``: the numbers, then each category one-hot."""
        width = len(self.number_names)
        features = np.zeros((len(rows), self.features))
        features[:, :width] = self.numbers[rows]
        starts = width + np.cumsum([0, *map(len, self.levels)])[:-1]
        positions = self.codes[rows] + starts
        features[np.arange(len(rows))[:, None], positions.astype(np.int64)] = 1
        return features

    def without_number(self, name: str) -> tuple["DataTable", np.ndarray]:
        """Return the table without one numeric column, and that column."""
        index = self.number_names.index(name)
        names = tuple(other for other in self.number_names if other != name)
        numbers = np.delete(self.numbers, index, axis=1)
        table = DataTable(numbers, self.codes, names, self.category_names, self.levels)
        return table, self.numbers[:, index]

    def without_category(self, name: str) -> tuple["DataTable", np.ndarray, tuple[str, ...]]:
        """Return the table without one categorical column, that column's codes and its levels."""
        index = self.category_names.index(name)
        names = tuple(other for other in self.category_names if other != name)
        levels = self.levels[:index] + self.levels[index + 1 :]
        table = DataTable(
            self.numbers, np.delete(self.codes, index, axis=1), self.number_names, names, levels
        )
        return table, np.ascontiguousarray(self.codes[:, index]), self.levels[index]


@dataclass(frozen=True, eq=False)
class LabeledTable:
    """A table and the class of each of its rows."""

    table: DataTable
    labels: np.ndarray
    """Index of the class of each row."""
    classes: tuple[str, ...]

    @classmethod
    def split(cls, table: DataTable, label: str) -> "LabeledTable":
        """Separate the column ``label`` from ``table``."""
        labeled = cls(*table.without_category(label))
        if len(labeled.classes) < 2:
            raise DataError(
                f"the label {label!r} is always {labeled.classes[0]!r}; there must be at least two classes"
            )
        if not labeled.table.features:
            raise DataError(f"there must be at least one context column besides the label {label!r}")
        return labeled

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The names of the classes, as integers where they are integers."""
        return tuple(int(name) if is_integer(name) else name for name in self.classes)

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of rows of each class."""
        return tuple(np.bincount(self.labels, minlength=len(self.classes)).tolist())

    def contexts_and_classes(self, rows: Int64) -> tuple[Float64, Int64]:
        """Return the features and the classes of ``rows``."""
        return self.table.encode(rows), self.labels[rows].astype(np.int64)

    def stream(self, seed: int, steps: int) -> Stream:
        """Return distinct rows in random order; the arm of the correct class pays 1."""
        (rng,) = stream_generators(seed, steps, 1)
        features, classes = self.contexts_and_classes(draw_rows(self.table.rows, steps, rng))
        return Stream(min_max(features), np.eye(len(self.classes))[classes])

    def sketch(self) -> str:
        """Draw the share of each class as bars."""
        shares = np.array(self.counts) / self.table.rows
        width = max(map(len, self.classes))
        bars = ["█" * round(40 * share / shares.max()) or "▏" for share in shares]
        lines = zip(self.classes, shares, bars, strict=True)
        return "\n".join(f"{name:>{width}} {share:7.2%} {bar}" for name, share, bar in lines)

    def to_parsed(self) -> ParsedData:
        """Return the table in the form that the cache stores."""
        table = self.table
        about = {
            "number_names": table.number_names,
            "category_names": table.category_names,
            "levels": table.levels,
            "classes": self.classes,
        }
        return ParsedData({"numbers": table.numbers, "codes": table.codes, "labels": self.labels}, about)

    @classmethod
    def from_parsed(cls, parsed: ParsedData) -> "LabeledTable":
        """Inverse of :meth:`to_parsed`."""
        arrays, about = parsed.arrays, parsed.about
        table = DataTable(
            arrays["numbers"],
            arrays["codes"],
            tuple(about["number_names"]),
            tuple(about["category_names"]),
            tuple(map(tuple, about["levels"])),
        )
        return cls(table, arrays["labels"], tuple(about["classes"]))
