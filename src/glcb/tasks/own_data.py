"""Tasks made from your own data: labeled rows, or rows with the reward of every arm."""

from collections.abc import Collection, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glcb._arrays import Float64
from glcb._errors import DataError
from glcb._types import Arm, Rewards, reward_range
from glcb.tasks.base import STEPS, Stream, draw_rows, min_max, stream_generators
from glcb.tasks.classification import LabeledTask
from glcb.tasks.data.readers import (
    MISSING_VALUES,
    ColumnOptions,
    Missing,
    array_columns,
    categorical_columns,
    frame_columns,
    read_columns,
    read_text_file,
)
from glcb.tasks.data.table import DataTable, LabeledTable


class ClassificationTask(LabeledTask):
    """A task made from labeled rows: the classes are the arms, the correct one pays 1 and the others 0.

    Make one with :meth:`from_csv`, :meth:`from_frame` or :meth:`from_arrays`. A column that holds only
    numbers is numeric; any other column is a category and becomes one feature per value. A constant column
    is kept and is 0 in every context. The rows of a stream are drawn without replacement, so a stream has at
    most as many steps as there are rows.

    Parameters
    ----------
    data : LabeledTable
        The rows and their classes.
    name : str
        Name of the task in results.

    Examples
    --------
    >>> task = ClassificationTask.from_arrays([[1.5, 20], [2.5, 10], [0.5, 30]], ["cat", "dog", "cat"])
    >>> task.arms, task.features
    (('cat', 'dog'), 2)
    >>> task.stream(seed=0).rewards.sum()
    np.float64(3.0)
    """

    def __init__(self, data: LabeledTable, name: str = "classification") -> None:
        self._data = data
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
        ignore: Collection[str] = (),
        categories: Collection[str] = (),
        missing: Missing = "error",
        missing_values: Collection[str] = MISSING_VALUES,
    ) -> "ClassificationTask":
        """Make a task from a text file, plain or compressed with xz or gzip.

        Parameters
        ----------
        path : str or path
            The file.
        label : str
            Column that holds the class.
        name : str, optional
            Name of the task. Default: the name of the file without its extension.
        columns : list of str, optional
            Column names of a file without a header. Default: the first row is the header.
        delimiter : str
            Character that separates values.
        ignore : collection of str
            Columns to omit.
        categories : collection of str
            Columns to treat as categories even if they hold numbers.
        missing : {"error", "drop"}
            Whether a row with a missing value is an error or is dropped.
        missing_values : collection of str
            Strings that represent a missing value.

        Returns
        -------
        ClassificationTask
            The task.

        Raises
        ------
        DataError
            If the file cannot be read or its contents cannot be converted to a task.
        InvalidSettings
            If an option is invalid.
        """
        source = Path(path)
        options = ColumnOptions(ignore, categories, missing, missing_values).with_categories(label)
        table = read_text_file(
            source, columns=columns, required=[label], delimiter=delimiter, options=options
        )
        return cls(LabeledTable.split(table, label), name or source.name.partition(".")[0])

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        label: str,
        *,
        name: str = "classification",
        ignore: Collection[str] = (),
        categories: Collection[str] = (),
        missing: Missing = "error",
        missing_values: Collection[str] = MISSING_VALUES,
    ) -> "ClassificationTask":
        """Make a task from a pandas, Polars or compatible data frame.

        Columns of a categorical type are categories. Other parameters are as in :meth:`from_csv`.

        Parameters
        ----------
        frame : data frame
            The rows.
        label : str
            Column that holds the class.
        name, ignore, categories, missing, missing_values
            See :meth:`from_csv`.

        Returns
        -------
        ClassificationTask
            The task.

        Raises
        ------
        DataError
            If ``frame`` is not a data frame or cannot be converted to a task.
        InvalidSettings
            If an option is invalid.
        """
        options = ColumnOptions(ignore, categories, missing, missing_values)
        columns = frame_columns(frame)
        options = options.with_categories(*categorical_columns(frame), label)
        return cls(LabeledTable.split(read_columns(columns, [label], options), label), name)

    @classmethod
    def from_arrays(
        cls,
        contexts: ArrayLike,
        labels: ArrayLike,
        *,
        name: str = "classification",
        ignore: Collection[str] = (),
        categories: Collection[str] = (),
        missing: Missing = "error",
        missing_values: Collection[str] = MISSING_VALUES,
    ) -> "ClassificationTask":
        """Make a task from a table of contexts and a list of labels.

        Parameters
        ----------
        contexts : array_like, shape (rows, features)
            The contexts. Their columns are called "0", "1", ….
        labels : array_like, shape (rows,)
            The class of each row.
        name, ignore, categories, missing, missing_values
            See :meth:`from_csv`.

        Returns
        -------
        ClassificationTask
            The task.

        Raises
        ------
        DataError
            If the shapes do not match or the data cannot be converted to a task.
        InvalidSettings
            If an option is invalid.
        """
        options = ColumnOptions(ignore, categories, missing, missing_values).with_categories("label")
        columns = array_columns(contexts, label=labels)
        return cls(LabeledTable.split(read_columns(columns, ["label"], options), "label"), name)

    @property
    def data(self) -> LabeledTable:
        """The rows and their classes."""
        return self._data

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Name of each feature: a column, or ``column=value`` for a category."""
        return self.data.table.feature_names


class RewardTableTask:
    """A task made from a table with one column of rewards per arm; all other columns are the context.

    Make one with :meth:`from_csv`, :meth:`from_frame` or :meth:`from_arrays`. Context columns are
    interpreted as by :class:`ClassificationTask`.

    Parameters
    ----------
    table : DataTable
        The context columns.
    reward_table : ndarray, shape (rows, arms)
        The reward of every arm in every row.
    arms : tuple of str or int
        Names of the arms.
    rewards : "binary" or (low, high), optional
        Kind of reward. Default: ``"binary"`` if all rewards are 0 or 1, otherwise the range of the table.
    name : str
        Name of the task in results.

    Examples
    --------
    >>> task = RewardTableTask.from_arrays([[0.1], [0.9]], [[1.0, 2.5], [3.0, 0.0]], arms=["a", "b"])
    >>> task.arms, task.rewards
    (('a', 'b'), (0.0, 3.0))
    """

    def __init__(
        self,
        table: DataTable,
        reward_table: Float64,
        arms: tuple[Arm, ...],
        rewards: Rewards | None = None,
        name: str = "reward-table",
    ) -> None:
        from glcb import _validation  # imports Numba, which listing tasks does not need

        if not table.features:
            raise DataError("there must be at least one context column besides the rewards")
        self.name = name
        self.arms = _validation.arms(arms)
        self.rewards = _infer_kind(reward_table) if rewards is None else _validation.rewards(rewards)
        _check_range(reward_table, self.rewards)
        self._table = table
        self._rewards = reward_table

    @classmethod
    def from_csv(
        cls,
        path: str | PathLike[str],
        arms: Sequence[str],
        *,
        rewards: Rewards | None = None,
        name: str | None = None,
        columns: list[str] | None = None,
        delimiter: str = ",",
        ignore: Collection[str] = (),
        categories: Collection[str] = (),
        missing: Missing = "error",
        missing_values: Collection[str] = MISSING_VALUES,
    ) -> "RewardTableTask":
        """Make a task from a text file.

        Parameters
        ----------
        path : str or path
            The file, plain or compressed with xz or gzip.
        arms : sequence of str
            Columns of rewards, one per arm.
        rewards : "binary" or (low, high), optional
            Kind of reward. Default: inferred from the table.
        name, columns, delimiter, ignore, categories, missing, missing_values
            See :meth:`ClassificationTask.from_csv`.

        Returns
        -------
        RewardTableTask
            The task.

        Raises
        ------
        DataError
            If the file cannot be read or its contents cannot be converted to a task.
        InvalidSettings
            If an option is invalid.
        """
        source = Path(path)
        options = ColumnOptions(ignore, categories, missing, missing_values)
        table = read_text_file(source, columns=columns, required=arms, delimiter=delimiter, options=options)
        return cls(*_split(table, arms), tuple(arms), rewards, name or source.name.partition(".")[0])

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        arms: Sequence[str],
        *,
        rewards: Rewards | None = None,
        name: str = "reward-table",
        ignore: Collection[str] = (),
        categories: Collection[str] = (),
        missing: Missing = "error",
        missing_values: Collection[str] = MISSING_VALUES,
    ) -> "RewardTableTask":
        """Make a task from a pandas, Polars or compatible data frame.

        Parameters
        ----------
        frame : data frame
            The rows.
        arms : sequence of str
            Columns of rewards, one per arm.
        rewards : "binary" or (low, high), optional
            Kind of reward. Default: inferred from the table.
        name, ignore, categories, missing, missing_values
            See :meth:`ClassificationTask.from_csv`.

        Returns
        -------
        RewardTableTask
            The task.

        Raises
        ------
        DataError
            If ``frame`` is not a data frame or cannot be converted to a task.
        InvalidSettings
            If an option is invalid.
        """
        options = ColumnOptions(ignore, categories, missing, missing_values)
        columns = frame_columns(frame)
        options = options.with_categories(*categorical_columns(frame))
        return cls(*_split(read_columns(columns, arms, options), arms), tuple(arms), rewards, name)

    @classmethod
    def from_arrays(
        cls,
        contexts: ArrayLike,
        reward_table: ArrayLike,
        *,
        arms: Sequence[Arm] | None = None,
        rewards: Rewards | None = None,
        name: str = "reward-table",
        ignore: Collection[str] = (),
        categories: Collection[str] = (),
        missing: Missing = "error",
        missing_values: Collection[str] = MISSING_VALUES,
    ) -> "RewardTableTask":
        """Make a task from a table of contexts and a table of rewards.

        Parameters
        ----------
        contexts : array_like, shape (rows, features)
            The contexts. Their columns are called "0", "1", ….
        reward_table : array_like, shape (rows, arms)
            The reward of every arm in every row.
        arms : sequence of str or int, optional
            Names of the arms. Default: 0, 1, 2, ….
        rewards : "binary" or (low, high), optional
            Kind of reward. Default: inferred from the table.
        name, ignore, categories, missing, missing_values
            See :meth:`ClassificationTask.from_csv`.

        Returns
        -------
        RewardTableTask
            The task.

        Raises
        ------
        DataError
            If the shapes do not match or the data cannot be converted to a task.
        InvalidSettings
            If an option is invalid.
        """
        options = ColumnOptions(ignore, categories, missing, missing_values)
        values = np.asarray(reward_table)
        if values.ndim != 2:
            raise DataError(f"rewards must be a table with one column per arm, got shape {values.shape}")
        names = tuple(range(values.shape[1]) if arms is None else arms)
        if len(names) != values.shape[1]:
            raise DataError(f"got {len(names)} arms, but {values.shape[1]} columns of rewards")
        reward_columns = [f"reward {arm}" for arm in names]
        columns = array_columns(contexts, **dict(zip(reward_columns, values.T, strict=True)))
        table = read_columns(columns, reward_columns, options)
        return cls(*_split(table, reward_columns), names, rewards, name)

    @property
    def features(self) -> int:
        """Number of features of a context."""
        return self._table.features

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Name of each feature: a column, or ``column=value`` for a category."""
        return self._table.feature_names

    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``.

        Parameters
        ----------
        seed : int
            Seed of the stream, at least 0.
        steps : int
            Maximum number of steps; a stream is not longer than the data.

        Returns
        -------
        Stream
            The contexts, and the reward of every arm.
        """
        (rng,) = stream_generators(seed, steps, 1)
        rows = draw_rows(self._table.rows, steps, rng)
        return Stream(min_max(self._table.encode(rows)), self._rewards[rows])


def _split(table: DataTable, arms: Sequence[str]) -> tuple[DataTable, Float64]:
    """Separate the reward columns from ``table``."""
    rewards = []
    for arm in arms:
        if arm in table.category_names:
            raise DataError(f"column {arm!r} must hold rewards, but it contains values that are not numbers")
        table, column = table.without_number(arm)
        rewards.append(column)
    if len(rewards) < 2:
        raise DataError(f"there must be at least two arms, got {len(rewards)}")
    return table, np.stack(rewards, axis=1).astype(np.float64)


def _infer_kind(rewards: Float64) -> Rewards:
    if np.isin(rewards, (0, 1)).all():
        return "binary"
    low, high = float(rewards.min()), float(rewards.max())
    if low == high:
        raise DataError(f"every reward is {low:g}; there must be at least two different rewards")
    return low, high


def _check_range(rewards: Float64, kind: Rewards) -> None:
    low, high = reward_range(kind)
    wrong = ~np.isin(rewards, (0, 1)) if kind == "binary" else (rewards < low) | (rewards > high)
    if wrong.any():
        expected = "0 or 1" if kind == "binary" else f"from {low:g} to {high:g}"
        raise DataError(f"rewards must be {expected}, got {rewards[wrong][0]:g}")
