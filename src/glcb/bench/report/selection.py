"""Which runs stand in which cell: one column per task and length, one row per policy and settings."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glcb._errors import ResultsError
from glcb.bench import paper
from glcb.bench.plan import PAPER_TASKS
from glcb.bench.report import names
from glcb.bench.report.numbers import digits
from glcb.bench.results import FILE
from glcb.bench.run import Record
from glcb.bench.statistics import mean_and_error


@dataclass(frozen=True)
class Column:
    """A task, played for so many steps."""

    task: str
    steps: int

    @property
    def in_paper(self) -> bool:
        """Whether the authors played the same."""
        return self.task in PAPER_TASKS and self.steps == paper.steps(self.task)


@dataclass(frozen=True)
class Player:
    """A policy with its settings."""

    policy: str
    settings: str = ""
    """Those that differ from the policy's own, in words."""

    @property
    def in_paper(self) -> bool:
        """Whether the authors played it."""
        return self.policy in paper.REWARDS and not self.settings

    @property
    def title(self) -> str:
        """What a reader sees."""
        return self._with_settings(names.title(self.policy))

    @property
    def label(self) -> str:
        """The same for pictures."""
        return self._with_settings(names.label(self.policy))

    def _with_settings(self, name: str) -> str:
        return f"{name} ({self.settings})" if self.settings else name


@dataclass(frozen=True, eq=False)
class Selection:
    """All runs that are compared with each other."""

    columns: tuple[Column, ...]
    players: tuple[Player, ...]
    cells: dict[tuple[Column, Player], list[Record]]
    """The runs in order of their seeds. Where nobody has played, there is no entry."""
    left_out: tuple[str, ...]
    """What is in the folder but not here, in words."""

    def title(self, column: Column) -> str:
        """Return the name of the task, with its length if the task occurs in several."""
        alone = sum(column.task == other.task for other in self.columns) == 1
        return column.task if alone else f"{column.task}, {column.steps:,} steps"

    def first(self, player: Player) -> Record:
        """Return one record of a player: policy, settings and version are the same in all."""
        return next(records[0] for (_, own), records in self.cells.items() if own == player)

    def score(self, column: Column, player: Player) -> tuple[float, float | None] | None:
        """Return mean and standard error of the cumulative reward, or None where there are no runs."""
        records = self.cells.get((column, player))
        return mean_and_error([record.total for record in records]) if records else None

    def scores(
        self, columns: Iterable[Column], players: Sequence[Player]
    ) -> dict[Column, dict[Player, float]]:
        """Return the mean cumulative reward of those who have played, for columns where anybody has."""
        means = {
            column: {player: score[0] for player in players if (score := self.score(column, player))}
            for column in columns
        }
        return {column: own for column, own in means.items() if own}

    def places(self, column: Column) -> int:
        """Return the digits behind the point of all rewards in a column."""
        return digits(max(map(abs, self.scores([column], self.players)[column].values())))

    def optimum(self, column: Column) -> float:
        """Return what the best arm of every step would have brought, mean over all seeds played."""
        by_seed = {
            record.seed: record.optimum
            for (own, _), records in self.cells.items()
            if own == column
            for record in records
        }
        return float(np.mean(list(by_seed.values())))


def select(records: Iterable[Record]) -> Selection:
    """Sort records into cells. Of a policy that has changed only the newest version is kept."""
    checked = [_checked(record) for record in records]
    newest: dict[Player, int] = {}
    for record in checked:
        player = _player(record)
        newest[player] = max(record.version, newest.get(player, record.version))
    found: dict[tuple[Column, Player], dict[int, Record]] = {}
    old: Counter[Player] = Counter()
    for record in checked:
        player = _player(record)
        if record.version < newest[player]:
            old[player] += 1
        else:
            own = found.setdefault((Column(record.task, record.played), player), {})
            own.setdefault(record.seed, record)
    return Selection(
        columns=_ordered(dict.fromkeys(column for column, _ in found)),
        players=tuple(dict.fromkeys(player for _, player in found)),
        cells={key: [own[seed] for seed in sorted(own)] for key, own in found.items()},
        left_out=tuple(
            f"{count} {'runs' if count > 1 else 'run'} of an older version of {player.title}"
            for player, count in old.items()
        ),
    )


def _player(record: Record) -> Player:
    changes = (f"{name} = {json.dumps(value)}" for name, value in sorted(record.settings.items()))
    return Player(record.policy, ", ".join(changes))


def _ordered(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Sort: the paper's tasks in its order, then others as they came; longer runs first."""
    given = list(columns)
    order = list(dict.fromkeys([*PAPER_TASKS, *(column.task for column in given)]))
    return tuple(sorted(given, key=lambda column: (order.index(column.task), -column.steps)))


def _checked(record: Record) -> Record:
    """Return the record if its numbers are numbers; whoever edits a file by hand may have broken one."""
    given: dict[str, Any] = vars(record)
    courses = [given[name] for name in ("rewards", "best", "decide_us", "learn_us")]
    if (
        all(isinstance(given[name], str) for name in ("task", "policy", "environment"))
        and isinstance(given["settings"], dict)
        and all(type(given[name]) is int for name in ("seed", "steps", "version", "played"))
        and all(_is_number(given[name]) for name in ("total", "optimum", "seconds"))
        and all(isinstance(course, list) and len(course) == len(courses[0]) for course in courses)
        and all(_is_number(number) for course in courses for number in course)
        and 1 <= len(courses[0]) <= given["played"]
    ):
        return record
    raise ResultsError(
        f"the record of {record.task}, {record.policy}, seed {record.seed} is damaged: expected finite "
        f"numbers and as many blocks in every list; remove its line from {FILE} and run it again"
    )


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)
