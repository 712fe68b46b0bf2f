"""A task from anybody's table in which the reward of every arm is known."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from glcb._errors import DataError
from glcb._types import Arm, Float64, Rewards, reward_range
from glcb.tasks.base import STEPS, Stream, begin, draw_rows, min_max
from glcb.tasks.data.frames import array_columns, frame_categories, frame_columns
from glcb.tasks.data.readers import Column, Reading, read_table, wanted, with_categories
from glcb.tasks.data.text_file import read_text_file
from glcb.tasks.table import Table


class RewardTableTask:
    """Every arm has a column of rewards; all other columns are the context.

    It is made from a text file with :meth:`from_csv`, from a data frame with :meth:`from_frame` or from
    arrays with :meth:`from_arrays`:

    >>> task = RewardTableTask.from_arrays([[0.1], [0.9]], [[1.0, 2.5], [3.0, 0.0]], arms=["a", "b"])
    >>> task.arms, task.rewards
    (('a', 'b'), (0.0, 3.0))

    ``rewards`` says of which kind they are; if it is left out they are ``"binary"`` where all are 0 or 1,
    and otherwise range from the smallest to the largest of the table. Contexts are read as those of
    :class:`ClassificationTask` are.
    """

    def __init__(
        self,
        table: Table,
        table_of_rewards: Float64,
        arms: tuple[Arm, ...],
        rewards: Rewards | None = None,
        name: str = "reward-table",
    ) -> None:
        from glcb import _validation  # imports Numba, which listing tasks does not need

        if not table.features:
            raise DataError("there is no column besides the rewards to make contexts of")
        self.name = name
        self.arms = _validation.arms(arms)
        self.rewards = _kind(table_of_rewards) if rewards is None else _validation.rewards(rewards)
        _check_range(table_of_rewards, self.rewards)
        self._table = table
        self._rewards = table_of_rewards

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
        **reading: Unpack[Reading],
    ) -> "RewardTableTask":
        """Make a task of a text file; ``arms`` names the columns of rewards."""
        source = Path(path)
        table = read_text_file(source, columns=columns, needed=arms, delimiter=delimiter, reading=reading)
        return cls(*_split(table, arms), tuple(arms), rewards, name or source.name.partition(".")[0])

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        arms: Sequence[str],
        *,
        rewards: Rewards | None = None,
        name: str = "reward-table",
        **reading: Unpack[Reading],
    ) -> "RewardTableTask":
        """Make a task of a data frame; ``arms`` names the columns of rewards."""
        columns = frame_columns(frame)
        reading = with_categories(reading, *frame_categories(frame))
        return cls(*_read(columns, arms, reading), tuple(arms), rewards, name)

    @classmethod
    def from_arrays(
        cls,
        contexts: ArrayLike,
        table_of_rewards: ArrayLike,
        *,
        arms: Sequence[Arm] | None = None,
        rewards: Rewards | None = None,
        name: str = "reward-table",
        **reading: Unpack[Reading],
    ) -> "RewardTableTask":
        """Make a task of a table of contexts and a table of rewards, one column per arm."""
        paid = np.asarray(table_of_rewards)
        if paid.ndim != 2:
            raise DataError(f"rewards must be a table, one column per arm, got the shape {paid.shape}")
        own = tuple(range(paid.shape[1]) if arms is None else arms)
        if len(own) != paid.shape[1]:
            raise DataError(f"there are {len(own)} arms, but {paid.shape[1]} columns of rewards")
        columns = [f"reward {arm}" for arm in own]
        everything = array_columns(contexts, **dict(zip(columns, paid.T, strict=True)))
        return cls(*_read(everything, columns, reading), own, rewards, name)

    @property
    def features(self) -> int:
        """Length of a context."""
        return self._table.features

    @property
    def feature_names(self) -> tuple[str, ...]:
        """What each feature of a context stands for."""
        return self._table.feature_names

    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``."""
        (rng,) = begin(seed, steps, 1)
        rows = draw_rows(self._table.rows, steps, rng)
        return Stream(min_max(self._table.encode(rows)), self._rewards[rows])


def _read(columns: dict[str, Column], arms: Sequence[str], reading: Reading) -> tuple[Table, Float64]:
    names = wanted(list(columns), arms, reading)
    return _split(read_table(names, lambda: [[columns[name] for name in names]], reading), arms)


def _split(table: Table, arms: Sequence[str]) -> tuple[Table, Float64]:
    """Take the columns of rewards out of ``table``."""
    paid = []
    for arm in arms:
        if arm in table.category_names:
            raise DataError(f"column {arm!r} must hold rewards, but not everything in it is a number")
        table, column = table.without_number(arm)
        paid.append(column)
    if len(paid) < 2:
        raise DataError(f"there must be two arms at least, got {len(paid)}")
    return table, np.stack(paid, axis=1).astype(np.float64)


def _kind(paid: Float64) -> Rewards:
    if np.isin(paid, (0, 1)).all():
        return "binary"
    low, high = float(paid.min()), float(paid.max())
    if low == high:
        raise DataError(f"every reward is {low:g}: there is nothing to choose")
    return low, high


def _check_range(paid: Float64, kind: Rewards) -> None:
    low, high = reward_range(kind)
    wrong = ~np.isin(paid, (0, 1)) if kind == "binary" else (paid < low) | (paid > high)
    if wrong.any():
        expected = "0 or 1" if kind == "binary" else f"from {low:g} to {high:g}"
        raise DataError(f"rewards must be {expected}, got {paid[wrong][0]:g}")
