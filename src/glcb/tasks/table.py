"""A table of numbers and categories, kept compactly and turned into contexts a few rows at a time."""

from dataclasses import dataclass

import numpy as np

from glcb._types import Float64, Int64


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of numbers as they are, and columns of categories as codes of their levels."""

    numbers: np.ndarray
    """One row per row, one column per column of numbers, in the smallest type that holds them exactly."""
    codes: np.ndarray
    """One row per row, one column per column of categories: the index of the level."""
    number_names: tuple[str, ...]
    category_names: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    """The different values of each column of categories, in order."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.numbers)

    @property
    def features(self) -> int:
        """Length of a row once every category has become one feature per level."""
        return len(self.number_names) + sum(map(len, self.levels))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Name of each feature: the column, and the level for a category."""
        columns = zip(self.category_names, self.levels, strict=True)
        one_hot = (f"{name}={level}" for name, levels in columns for level in levels)
        return (*self.number_names, *one_hot)

    def encode(self, rows: Int64) -> Float64:
        """Return the features of some rows: numbers first, then a 1 for the level of each category."""
        width = len(self.number_names)
        features = np.zeros((len(rows), self.features))
        features[:, :width] = self.numbers[rows]
        starts = width + np.cumsum([0, *map(len, self.levels)])[:-1]
        places = self.codes[rows] + starts
        features[np.arange(len(rows))[:, None], places.astype(np.int64)] = 1
        return features

    def without_number(self, name: str) -> tuple["Table", np.ndarray]:
        """Return the table without one column of numbers, and that column."""
        at = self.number_names.index(name)
        rest = tuple(other for other in self.number_names if other != name)
        table = Table(np.delete(self.numbers, at, axis=1), self.codes, rest, self.category_names, self.levels)
        return table, self.numbers[:, at]

    def without_category(self, name: str) -> tuple["Table", np.ndarray, tuple[str, ...]]:
        """Return the table without one column of categories, that column's codes and its levels."""
        at = self.category_names.index(name)
        rest = tuple(other for other in self.category_names if other != name)
        levels = self.levels[:at] + self.levels[at + 1 :]
        table = Table(self.numbers, np.delete(self.codes, at, axis=1), self.number_names, rest, levels)
        return table, np.ascontiguousarray(self.codes[:, at]), self.levels[at]
