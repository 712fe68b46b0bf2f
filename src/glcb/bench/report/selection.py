"""Selection of records for a report: one column per task and length, one entry per policy and settings."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glcb._document.document import Table
from glcb._errors import ResultsError
from glcb.bench import paper
from glcb.bench.plan import PAPER_TASKS
from glcb.bench.report import appearance
from glcb.bench.report.formatting import digits
from glcb.bench.results import FILE
from glcb.bench.run import RunRecord
from glcb.bench.statistics import mean_and_error

FEW_TASKS = 7
"""Largest number of tasks with several figures of each: the tasks of the paper."""


@dataclass(frozen=True)
class Column:
    """A task with a number of steps."""

    task: str
    steps: int

    @property
    def in_paper(self) -> bool:
        """Whether the paper reports results for the same task and length."""
        return self.task in PAPER_TASKS and self.steps == paper.steps(self.task)


@dataclass(frozen=True)
class SelectedPolicy:
    """A policy with its settings."""

    policy: str
    settings: str = ""
    """Settings that differ from the defaults, formatted."""

    @property
    def in_paper(self) -> bool:
        """Whether the paper reports results for the policy."""
        return self.policy in paper.REWARDS and not self.settings

    @property
    def title(self) -> str:
        """Display name."""
        return self._with_settings(appearance.title(self.policy))

    @property
    def label(self) -> str:
        """Display name in figures."""
        return self._with_settings(appearance.label(self.policy))

    def _with_settings(self, name: str) -> str:
        return f"{name} ({self.settings})" if self.settings else name


@dataclass(frozen=True, eq=False)
class Selection:
    """All records that are compared with each other."""

    columns: tuple[Column, ...]
    entries: tuple[SelectedPolicy, ...]
    cells: dict[tuple[Column, SelectedPolicy], list[RunRecord]]
    """Records ordered by seed. A combination without records has no item."""
    excluded: tuple[str, ...]
    """Descriptions of records in the folder that are left out of the selection."""

    def title(self, column: Column) -> str:
        """Return the name of the task without a folder that all tasks share.

        If the task occurs with several lengths, its length is added.
        """
        folders = {other.task.rpartition("/")[0] for other in self.columns}
        name = column.task.rpartition("/")[2] if len(folders) == 1 else column.task
        alone = sum(column.task == other.task for other in self.columns) == 1
        return name if alone else f"{name}, {column.steps:,} steps"

    @property
    def has_many_tasks(self) -> bool:
        """Whether there are too many tasks for several figures of each."""
        return len(self.columns) > FEW_TASKS

    def oriented(self, table: Table) -> Table:
        """Return a table of policies and tasks; many tasks, if more than the policies, become rows."""
        turn = self.has_many_tasks and len(self.columns) > len(self.entries)
        return table.transposed("task") if turn else table

    @property
    def positive_columns(self) -> list[Column]:
        """Columns in which the best possible reward of every run is positive, so that shares are defined."""
        negative = {
            column for (column, _), own in self.cells.items() if min(record.optimum for record in own) <= 0
        }
        return [column for column in self.columns if column not in negative]

    def first(self, entry: SelectedPolicy) -> RunRecord:
        """Return one record of an entry; policy, settings and version are the same in all of them."""
        return next(records[0] for (_, own), records in self.cells.items() if own == entry)

    def score(self, column: Column, entry: SelectedPolicy) -> tuple[float, float | None] | None:
        """Return mean and standard error of the total reward, or None without records."""
        records = self.cells.get((column, entry))
        return mean_and_error([record.total for record in records]) if records else None

    def share(self, column: Column, entry: SelectedPolicy) -> tuple[float, float | None] | None:
        """Return mean and standard error of the total reward in percent of the best possible reward."""
        records = self.cells.get((column, entry))
        return (
            mean_and_error([100 * record.total / record.optimum for record in records]) if records else None
        )

    def step_time(self, column: Column, entry: SelectedPolicy) -> float | None:
        """Return the µs of CPU time of one decision and update, including periodic work such as training.

        It is the median over the blocks of all runs, because the first block includes compilation. Records
        without CPU times have median durations only, which exclude periodic work.
        """
        records = self.cells.get((column, entry), ())
        blocks = [
            time for record in records for time in record.cpu_us or np.add(record.decide_us, record.learn_us)
        ]
        return float(np.median(blocks)) if blocks else None

    def scores(
        self, columns: Iterable[Column], entries: Sequence[SelectedPolicy]
    ) -> dict[Column, dict[SelectedPolicy, float]]:
        """Return the mean total rewards; columns and entries without records are omitted."""
        means = {
            column: {entry: score[0] for entry in entries if (score := self.score(column, entry))}
            for column in columns
        }
        return {column: own for column, own in means.items() if own}

    def places(self, column: Column) -> int:
        """Return the number of decimal places of the rewards in a column."""
        return digits(max(map(abs, self.scores([column], self.entries)[column].values())))

    def optimum(self, column: Column) -> float:
        """Return the mean total reward of the best arms, over all seeds."""
        by_seed = {
            record.seed: record.optimum
            for (own, _), records in self.cells.items()
            if own == column
            for record in records
        }
        return float(np.mean(list(by_seed.values())))


def select(records: Iterable[RunRecord]) -> Selection:
    """Group records by column and entry. Only the newest version of a policy is kept."""
    checked = [_checked(record) for record in records]
    newest: dict[SelectedPolicy, int] = {}
    for record in checked:
        entry = _entry(record)
        newest[entry] = max(record.version, newest.get(entry, record.version))
    grouped: dict[tuple[Column, SelectedPolicy], dict[int, RunRecord]] = {}
    outdated: Counter[SelectedPolicy] = Counter()
    for record in checked:
        entry = _entry(record)
        if record.version < newest[entry]:
            outdated[entry] += 1
        else:
            own = grouped.setdefault((Column(record.task, record.steps_run), entry), {})
            own.setdefault(record.seed, record)
    return Selection(
        columns=_ordered(dict.fromkeys(column for column, _ in grouped)),
        entries=tuple(dict.fromkeys(entry for _, entry in grouped)),
        cells={key: [own[seed] for seed in sorted(own)] for key, own in grouped.items()},
        excluded=tuple(
            f"{count} {'runs' if count > 1 else 'run'} of an older version of {entry.title}"
            for entry, count in outdated.items()
        ),
    )


def _entry(record: RunRecord) -> SelectedPolicy:
    changes = (f"{name} = {json.dumps(value)}" for name, value in sorted(record.settings.items()))
    return SelectedPolicy(record.policy, ", ".join(changes))


def _ordered(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Sort columns: the paper's tasks in its order, then others by first appearance; longer runs first."""
    unsorted = list(columns)
    order = list(dict.fromkeys([*PAPER_TASKS, *(column.task for column in unsorted)]))
    return tuple(sorted(unsorted, key=lambda column: (order.index(column.task), -column.steps)))


def _checked(record: RunRecord) -> RunRecord:
    """Return the record if its values are valid; a file edited by hand may not be."""
    values: dict[str, Any] = vars(record)
    lists = [values[name] for name in ("rewards", "best_rewards", "decide_us", "learn_us")]
    if (
        all(isinstance(values[name], str) for name in ("task", "policy", "environment"))
        and isinstance(values["settings"], dict)
        and all(type(values[name]) is int for name in ("seed", "steps", "version", "steps_run"))
        and all(_is_number(values[name]) for name in ("total", "optimum", "seconds"))
        and all(isinstance(own, list) and len(own) == len(lists[0]) for own in lists)
        and all(_is_number(number) for own in (*lists, values["cpu_us"]) for number in own)
        and 1 <= len(lists[0]) <= values["steps_run"]
    ):
        return record
    raise ResultsError(
        f"the record of {record.task}, {record.policy}, seed {record.seed} is damaged: expected finite "
        f"numbers and lists of equal length; remove its line from {FILE} and run it again"
    )


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)
