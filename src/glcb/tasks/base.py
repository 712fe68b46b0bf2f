"""The one protocol of all tasks, and what a task hands out."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from glcb._types import Arm, Float32, Float64, Int64, Rewards

STEPS = 5000
"""Length of a run in the paper."""


@dataclass(frozen=True, eq=False)
class Stream:
    """The contexts of one run and the reward that every arm would bring, the same for every policy."""

    contexts: Float32
    """One row per step, within [0, 1]."""
    rewards: Float64
    """One row per step, one column per arm."""

    def __post_init__(self) -> None:
        self.contexts.setflags(write=False)
        self.rewards.setflags(write=False)

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(self.contexts)

    @property
    def optimum(self) -> float:
        """Sum of the rewards of the best arm of every step."""
        return float(self.rewards.max(axis=1).sum())


class Task(Protocol):
    """A bandit problem: what a policy must know to play it, and streams to play on."""

    @property
    def name(self) -> str:
        """Short name, as the command line and the results use it."""

    @property
    def arms(self) -> tuple[Arm, ...]:
        """Names of the arms."""

    @property
    def features(self) -> int:
        """Length of a context."""

    @property
    def rewards(self) -> Rewards:
        """The kind of reward, as a policy takes it."""

    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``: the same bytes every time."""


@runtime_checkable
class Sketched(Protocol):
    """A task that a small picture explains better than words."""

    def sketch(self) -> str:
        """Return the picture, in lines of text."""


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


def begin(seed: int, steps: int, generators: int) -> list[np.random.Generator]:
    """Check what a stream is asked for; return independent generators for the parts of it.

    None of them draws what ``default_rng(seed)`` draws: a policy of the same seed may use that one.
    """
    from glcb import _validation  # imports Numba, which listing tasks does not need

    _validation.whole_number("steps", steps, 1, 2**31 - 1)
    _validation.whole_number("seed", seed, 0, 2**63 - 1)
    return np.random.default_rng(seed).spawn(generators)


def draw_rows(rows: int, steps: int, rng: np.random.Generator) -> Int64:
    """Return the numbers of ``steps`` different rows in random order, or of all if there are fewer."""
    return rng.choice(rows, min(steps, rows), replace=False)
