"""The base class of studies, and a shared grid."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from rich.table import Table

from glcb import _validation
from glcb._arrays import Float32

Progress = Callable[[int, int], None]
"""Progress callback: amount done, total amount."""


@dataclass(frozen=True)
class StudyResult:
    """Result of a study."""

    tables: Sequence[Table]
    remarks: Sequence[str]
    """Interpretation of the numbers, one or two sentences each."""
    draw: Callable[[Path], None]
    """Draws the figure into a file."""


@dataclass(frozen=True, kw_only=True)
class Study(ABC):
    """A question about the algorithm. The fields set the amount of work."""

    name: ClassVar[str]
    question: ClassVar[str]

    seeds: int = 1
    """Number of repetitions, with the seeds 0, 1, 2, …."""

    def __post_init__(self) -> None:
        _validation.integer("seeds", self.seeds, 1, 10_000)

    @classmethod
    @abstractmethod
    def quick(cls) -> Self:
        """Return a version that takes less than a minute."""

    @abstractmethod
    def run(self, progress: Progress) -> StudyResult:
        """Answer the question."""


def unit_grid(resolution: int) -> Float32:
    """Return ``resolution`` × ``resolution`` evenly spaced points of the unit square, row by row.

    >>> unit_grid(2).tolist()
    [[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]]
    """
    side = ((np.arange(resolution) + 0.5) / resolution).astype(np.float32)
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
