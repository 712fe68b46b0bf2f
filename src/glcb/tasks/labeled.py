"""Rows with a label: the label's classes become the arms, and playing the right one brings 1."""

from dataclasses import dataclass

import numpy as np

from glcb._errors import DataError
from glcb._text import is_integer
from glcb._types import Arm, Float64, Int64
from glcb.tasks.base import Stream, begin, draw_rows, min_max
from glcb.tasks.data.cache import Stored
from glcb.tasks.table import Table


@dataclass(frozen=True, eq=False)
class Labeled:
    """A table and the class of each of its rows."""

    table: Table
    labels: np.ndarray
    """The index of the class."""
    classes: tuple[str, ...]

    @classmethod
    def split(cls, table: Table, label: str) -> "Labeled":
        """Take the column ``label`` out of ``table`` for the classes."""
        labeled = cls(*table.without_category(label))
        if len(labeled.classes) < 2:
            raise DataError(
                f"the label {label!r} is always {labeled.classes[0]!r}: there must be two classes at least"
            )
        if not labeled.table.features:
            raise DataError(f"there is no column besides the label {label!r} to make contexts of")
        return labeled

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The classes by their names, as integers if that is what they are."""
        return tuple(int(name) if is_integer(name) else name for name in self.classes)

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of rows of each class."""
        return tuple(np.bincount(self.labels, minlength=len(self.classes)).tolist())

    def contexts_and_classes(self, rows: Int64) -> tuple[Float64, Int64]:
        """Return the features and the class of some rows."""
        return self.table.encode(rows), self.labels[rows].astype(np.int64)

    def stream(self, seed: int, steps: int) -> Stream:
        """Return different rows in random order, with 1 for the right arm."""
        (rng,) = begin(seed, steps, 1)
        features, classes = self.contexts_and_classes(draw_rows(self.table.rows, steps, rng))
        return Stream(min_max(features), np.eye(len(self.classes))[classes])

    def sketch(self) -> str:
        """Draw the share of each class."""
        shares = np.array(self.counts) / self.table.rows
        width = max(map(len, self.classes))
        bars = ["█" * round(40 * share / shares.max()) or "▏" for share in shares]
        lines = zip(self.classes, shares, bars, strict=True)
        return "\n".join(f"{name:>{width}} {share:7.2%} {bar}" for name, share, bar in lines)

    def store(self) -> Stored:
        """Return what :meth:`restore` needs."""
        table = self.table
        about = {
            "number_names": table.number_names,
            "category_names": table.category_names,
            "levels": table.levels,
            "classes": self.classes,
        }
        return Stored({"numbers": table.numbers, "codes": table.codes, "labels": self.labels}, about)

    @classmethod
    def restore(cls, stored: Stored) -> "Labeled":
        """Return what :meth:`store` was asked to keep."""
        arrays, about = stored.arrays, stored.about
        table = Table(
            arrays["numbers"],
            arrays["codes"],
            tuple(about["number_names"]),
            tuple(about["category_names"]),
            tuple(map(tuple, about["levels"])),
        )
        return cls(table, arrays["labels"], tuple(about["classes"]))
