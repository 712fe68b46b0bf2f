"""The task protocol, the stream that a task produces, and helpers shared by tasks."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from glcb._arrays import Bool, Float32, Float64, Int64
from glcb._errors import InvalidSettings
from glcb._types import Arm, Rewards

STEPS = 5000
"""Number of steps of a run in the paper."""


@dataclass(frozen=True, eq=False)
class Stream:
    """The contexts of one run and the reward of every arm at every step.

    All policies that run with the same seed see the same stream. The arrays are read-only.

    Parameters
    ----------
    contexts : ndarray of float32, shape (steps, features)
        One context per step, scaled to [0, 1].
    rewards : ndarray of float64, shape (steps, arms)
        The reward that each arm would pay at each step.
    available : ndarray of bool, shape (steps, arms), optional
        Whether each arm can be chosen at each step. By default all arms are available.
    delays : ndarray of int64, shape (steps,), optional
        Number of further decisions after which the reward of each step arrives; −1 if it is lost. By default
        every reward arrives before the next decision.
    reported : ndarray of float64, shape (steps, arms), optional
        The rewards to learn, if they differ from the rewards paid: an order that is never reported is learned
        as no order.
    arm_features : ndarray of float32, shape (arms, arm features), optional
        The features of each arm, scaled to [0, 1]. By default arms have no features.

    Raises
    ------
    InvalidSettings
        If ``available``, ``delays``, ``reported`` or ``arm_features`` has the wrong shape, type or values.

    Examples
    --------
    >>> stream = Stream(np.zeros((2, 3), np.float32), np.array([[1.0, 0.0], [0.0, 0.5]]))
    >>> stream.steps, stream.optimum
    (2, 1.5)
    """

    contexts: Float32
    rewards: Float64
    available: Bool | None = None
    delays: Int64 | None = None
    arm_features: Float32 | None = None
    reported: Float64 | None = None

    def __post_init__(self) -> None:
        if self.available is not None:
            _check_array("available", self.available, np.dtype(np.bool_), self.rewards.shape)
            if not self.available.any(axis=1).all():
                raise InvalidSettings("available must allow at least one arm at every step")
        if self.delays is not None:
            _check_array("delays", self.delays, np.dtype(np.int64), self.rewards.shape[:1])
            if self.delays.min(initial=0) < -1:
                raise InvalidSettings(f"delays must be −1 or larger, got {self.delays.min()}")
        if self.arm_features is not None:
            shape = (self.rewards.shape[1], self.arm_features.shape[-1])
            _check_array("arm_features", self.arm_features, np.dtype(np.float32), shape)
        if self.reported is not None:
            _check_array("reported", self.reported, np.dtype(np.float64), self.rewards.shape)
        for array in vars(self).values():
            if isinstance(array, np.ndarray):
                array.setflags(write=False)

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(self.contexts)

    @property
    def best(self) -> Float64:
        """Reward of the best available arm at every step."""
        table = self.rewards if self.available is None else np.where(self.available, self.rewards, -np.inf)
        best: Float64 = table.max(axis=1)
        return best

    @property
    def optimum(self) -> float:
        """Total reward of choosing the best available arm at every step."""
        return float(self.best.sum())


def _check_array(name: str, array: object, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.shape != shape:
        got = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else repr(array)
        raise InvalidSettings(f"{name} must be an array of {dtype} with shape {shape}, got {got}")


class Task(Protocol):
    """A bandit problem: arms, features, the kind of reward, and a stream per seed."""

    @property
    def name(self) -> str:
        """Short name, used on the command line and in results."""

    @property
    def arms(self) -> tuple[Arm, ...]:
        """Names of the arms."""

    @property
    def features(self) -> int:
        """Number of features of a context."""

    @property
    def rewards(self) -> Rewards:
        """Kind of reward: ``"binary"`` or a range ``(low, high)``."""

    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``; the same seed always gives the same data.

        Parameters
        ----------
        seed : int
            Seed of the stream, at least 0.
        steps : int
            Number of steps, at least 1.

        Returns
        -------
        Stream
            The contexts, and the reward of every arm.
        """


@runtime_checkable
class Sketched(Protocol):
    """A task that can be drawn as text."""

    def sketch(self) -> str:
        """Return a drawing made of lines of text."""


@runtime_checkable
class NeedsData(Protocol):
    """A task whose data can be missing."""

    @property
    def rows(self) -> int:
        """Number of rows of the data."""

    def has_data(self) -> bool:
        """Return whether the data is present."""


@runtime_checkable
class HasLength(Protocol):
    """A task with its own run length."""

    @property
    def steps(self) -> int:
        """Number of steps of a run."""


def default_steps(task: Task) -> int:
    """Return the number of steps of a run: the task's default length, or ``STEPS``."""
    return task.steps if isinstance(task, HasLength) else STEPS


def min_max(columns: np.ndarray) -> Float32:
    """Scale every column to [0, 1]; a constant column becomes 0.

    >>> min_max(np.array([[1.0, 7.0], [3.0, 7.0], [2.0, 7.0]]))
    array([[0. , 0. ],
           [1. , 0. ],
           [0.5, 0. ]], dtype=float32)
    """
    low = columns.min(axis=0).astype(np.float64)
    spread = columns.max(axis=0) - low
    scaled = (columns - low) / np.where(spread > 0, spread, 1.0)
    return np.ascontiguousarray(scaled, np.float32)


def stream_generators(seed: int, steps: int, count: int) -> list[np.random.Generator]:
    """Validate the arguments of :meth:`Task.stream` and return independent random generators.

    The generators are spawned from ``default_rng(seed)``, so none of them repeats the numbers that a policy
    with the same seed draws.

    Parameters
    ----------
    seed : int
        Seed of the stream, at least 0.
    steps : int
        Number of steps, at least 1.
    count : int
        Number of generators: one per independent part of the stream.

    Returns
    -------
    list of numpy.random.Generator
        The generators.

    Raises
    ------
    InvalidSettings
        If ``seed`` or ``steps`` is not a whole number in range.
    """
    from glcb import _validation  # imports Numba, which listing tasks does not need

    _validation.integer("steps", steps, 1, 2**31 - 1)
    _validation.integer("seed", seed, 0, 2**63 - 1)
    return np.random.default_rng(seed).spawn(count)


def draw_rows(rows: int, steps: int, rng: np.random.Generator) -> Int64:
    """Return ``steps`` distinct row numbers in random order, or all of them if there are fewer rows."""
    return rng.choice(rows, min(steps, rows), replace=False)
