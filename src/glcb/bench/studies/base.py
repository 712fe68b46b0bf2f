"""What a study is, and what it leaves behind."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from rich.table import Table

from glcb import _validation
from glcb.bench.statistics import mean_and_error, paired_bootstrap

Progress = Callable[[int, int], None]
"""Is told how much is done, and out of how much."""


@dataclass(frozen=True)
class Workplace:
    """Where a study works, and who wants to know how far it is."""

    folder: Path
    """For the records of runs, so that an interrupted study can go on."""
    jobs: int
    """Processes that may work at the same time."""
    progress: Progress


@dataclass(frozen=True)
class Findings:
    """What came of a study."""

    tables: Sequence[Table]
    remarks: Sequence[str]
    """What the numbers mean, a sentence or two each."""
    draw: Callable[[Path], None]
    """Draws the picture into a file."""


@dataclass(frozen=True, kw_only=True)
class Study(ABC):
    """A question about the algorithm. Its fields say how much work goes into the answer."""

    name: ClassVar[str]
    question: ClassVar[str]

    seeds: int = 1
    """Repetitions, with the seeds 0, 1, 2, …"""

    def __post_init__(self) -> None:
        _validation.whole_number("seeds", self.seeds, 1, 10_000)

    @classmethod
    @abstractmethod
    def quick(cls) -> Self:
        """Return a small form, for a first impression within a minute."""

    @abstractmethod
    def carry_out(self, place: Workplace) -> Findings:
        """Do the work."""


def spread(numbers: Sequence[float], form: str = ".3f") -> str:
    """Return mean ± standard error, as a table shows it; one number alone has no error, and none has a sign.

    >>> spread([1.0, 2.0, 3.0], "+.2f")
    '+2.00 ± 0.58'
    """
    mean, error = mean_and_error(numbers)
    return f"{mean:{form}}" + (f" ± {error:{form.removeprefix('+')}}" if error is not None else "")


def gain(gained: Sequence[float]) -> str:
    """Return what was gained on average, and the interval of that mean; one number alone has none.

    >>> gain([2.0, 2.0]), gain([-1200.0])
    ('+2 [+2, +2]', '-1,200')
    """
    interval = paired_bootstrap(gained)
    shown = f" [{interval.low:+,.0f}, {interval.high:+,.0f}]" if interval is not None else ""
    return f"{np.mean(gained):+,.0f}{shown}"
