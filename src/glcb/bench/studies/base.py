"""Base classes of studies, and helpers that several studies share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from rich.table import Table

from glcb import _validation
from glcb._arrays import Float32
from glcb._errors import DataError, GlcbError
from glcb.bench.executors import LocalExecutor
from glcb.bench.plan import run_missing, tasks_without_data
from glcb.bench.results import Results
from glcb.bench.run import Failure, Run, RunRecord
from glcb.bench.statistics import mean_and_error, paired_bootstrap

T = TypeVar("T")

Progress = Callable[[int, int], None]
"""Progress callback: amount done, total amount."""


@dataclass(frozen=True)
class StudyContext:
    """Resources of a study."""

    folder: Path
    """Folder for the records of runs, so that an interrupted study can resume."""
    jobs: int
    """Number of parallel processes."""
    progress: Progress


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
    def run(self, context: StudyContext) -> StudyResult:
        """Answer the question."""


@dataclass(frozen=True, kw_only=True)
class TaskStudy(Study):
    """A study that runs policies on benchmark tasks."""

    seeds: int = 20
    steps: int = 5000

    @classmethod
    def quick(cls) -> Self:
        """Return a version with a few hundred steps."""
        return cls(seeds=2, steps=500)

    def task_runs(self, task: str, policy: str, settings: dict[str, Any]) -> list[Run]:
        """Return one run per seed."""
        return [Run(task, policy, seed, self.steps, settings) for seed in range(self.seeds)]

    def for_each_seed(self, context: StudyContext, items: Collection[T]) -> Iterator[tuple[int, T]]:
        """Yield every combination of seed and item, and report progress."""
        total = self.seeds * len(items)
        for seed in range(self.seeds):
            for done, item in enumerate(items):
                context.progress(seed * len(items) + done, total)
                yield seed, item
        context.progress(total, total)


class AvailableTasks(NamedTuple):
    """The tasks whose data is available, and a remark about the others."""

    names: tuple[str, ...]
    remarks: list[str]


def available_tasks(tasks: Sequence[str]) -> AvailableTasks:
    """Return the ``tasks`` whose data is available; raise DataError if there are none."""
    missing = tasks_without_data(tasks)
    present = tuple(task for task in tasks if task not in missing)
    if not present:
        raise DataError(f"this study needs the data of {' or '.join(tasks)}: see `glcb data list`")
    remark = f"Skipped because their data is missing (`glcb data list`): {', '.join(missing)}."
    return AvailableTasks(present, [remark] if missing else [])


def run_records(groups: Iterable[list[Run]], context: StudyContext) -> dict[str, RunRecord]:
    """Execute the runs that have no record yet, each once, and return all records by key."""
    runs = {run.key: run for group in groups for run in group}
    by_seed = sorted(runs.values(), key=lambda run: run.seed)
    failures = []
    for done, total, outcome in run_missing(by_seed, context.folder, LocalExecutor(context.jobs)):
        context.progress(done, total)
        if isinstance(outcome, Failure):
            failures.append(outcome)
    if failures:
        first = failures[0]
        raise GlcbError(
            f"{len(failures)} of {total} runs failed, such as {first.task}, {first.policy}, seed "
            f"{first.seed}: {first.error}; run the same command to retry them"
        )
    return {record.key: record for record in Results(context.folder).records}


def totals(records: Iterable[RunRecord]) -> list[float]:
    """Return the total reward of each run."""
    return [record.total for record in records]


def format_mean(numbers: Sequence[float], form: str = ".3f") -> str:
    """Format mean ± standard error; a single number has no error.

    >>> format_mean([1.0, 2.0, 3.0], "+.2f")
    '+2.00 ± 0.58'
    """
    mean, error = mean_and_error(numbers)
    return f"{mean:{form}}" + (f" ± {error:{form.removeprefix('+')}}" if error is not None else "")


def format_difference(differences: Sequence[float]) -> str:
    """Format a mean paired difference with its bootstrap interval; a single number has no interval.

    >>> format_difference([2.0, 2.0]), format_difference([-1200.0])
    ('+2 [+2, +2]', '-1,200')
    """
    interval = paired_bootstrap(differences)
    shown = f" [{interval.low:+,.0f}, {interval.high:+,.0f}]" if interval is not None else ""
    return f"{np.mean(differences):+,.0f}{shown}"


def unit_grid(resolution: int) -> Float32:
    """Return ``resolution`` × ``resolution`` evenly spaced points of the unit square, row by row.

    >>> unit_grid(2).tolist()
    [[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]]
    """
    side = ((np.arange(resolution) + 0.5) / resolution).astype(np.float32)
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
