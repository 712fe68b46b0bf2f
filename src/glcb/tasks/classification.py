"""A task from anybody's rows with a label."""

from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from numpy.typing import ArrayLike

from glcb._types import Arm, Rewards
from glcb.tasks.base import STEPS, Stream
from glcb.tasks.data.frames import array_columns, frame_categories, frame_columns
from glcb.tasks.data.readers import Column, Reading, read_table, wanted, with_categories
from glcb.tasks.data.text_file import read_text_file
from glcb.tasks.labeled import Labeled


class ClassificationTask:
    """The classes of a label are the arms; the right one brings 1, every other 0.

    It is made from a text file with :meth:`from_csv`, from a data frame with :meth:`from_frame` or from
    arrays with :meth:`from_arrays`:

    >>> task = ClassificationTask.from_arrays([[1.5, 20], [2.5, 10], [0.5, 30]], ["cat", "dog", "cat"])
    >>> task.arms, task.features
    (('cat', 'dog'), 2)
    >>> task.stream(seed=0).rewards.sum()
    np.float64(3.0)

    Columns in which everything is a number are taken as numbers, all others as categories, which become
    one feature per value; ``categories`` names columns of categories that look like numbers. Columns in
    ``ignore`` are left out. A row with a missing value is an error, or with ``missing="drop"`` left out;
    ``missing_values`` says what is taken for one. A constant column stays and is 0 in every context. The
    rows of a stream are drawn without replacement, so it has no more steps than there are rows.
    """

    rewards: Rewards = "binary"

    def __init__(self, data: Labeled, name: str = "classification") -> None:
        self.data = data
        self.name = name

    @classmethod
    def from_csv(
        cls,
        path: str | PathLike[str],
        label: str,
        *,
        name: str | None = None,
        columns: list[str] | None = None,
        delimiter: str = ",",
        **reading: Unpack[Reading],
    ) -> "ClassificationTask":
        """Make a task of a text file. ``columns`` names the columns of a file without a header."""
        source = Path(path)
        reading = with_categories(reading, label)
        table = read_text_file(source, columns=columns, needed=[label], delimiter=delimiter, reading=reading)
        return cls(Labeled.split(table, label), name or source.name.partition(".")[0])

    @classmethod
    def from_frame(
        cls, frame: Any, label: str, *, name: str = "classification", **reading: Unpack[Reading]
    ) -> "ClassificationTask":
        """Make a task of a data frame of pandas, Polars, or anything that works like them."""
        columns = frame_columns(frame)
        return cls._from_columns(columns, label, name, with_categories(reading, *frame_categories(frame)))

    @classmethod
    def from_arrays(
        cls,
        contexts: ArrayLike,
        labels: ArrayLike,
        *,
        name: str = "classification",
        **reading: Unpack[Reading],
    ) -> "ClassificationTask":
        """Make a task of a table of contexts and a list of labels. Columns are called "0", "1", …"""
        columns = array_columns(contexts, label=labels)
        return cls._from_columns(columns, "label", name, reading)

    @classmethod
    def _from_columns(
        cls, columns: dict[str, Column], label: str, name: str, reading: Reading
    ) -> "ClassificationTask":
        reading = with_categories(reading, label)
        names = wanted(list(columns), [label], reading)
        table = read_table(names, lambda: [[columns[name] for name in names]], reading)
        return cls(Labeled.split(table, label), name)

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The classes."""
        return self.data.arms

    @property
    def features(self) -> int:
        """Length of a context."""
        return self.data.table.features

    @property
    def feature_names(self) -> tuple[str, ...]:
        """What each feature of a context stands for."""
        return self.data.table.feature_names

    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``."""
        return self.data.stream(seed, steps)

    def sketch(self) -> str:
        """Draw the share of each class."""
        return self.data.sketch()
