"""The cost of learning scales and categories online instead of knowing them in advance.

A task scales every column to its range over the whole run, which is not available at the first step, and
knows all values of its categories. ``Bandit`` receives the rows as dicts and learns both online.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from glcb.bandit import Bandit
from glcb.bench.simulation import simulate
from glcb.bench.studies.bandit_comparison import Pair, pair_figure, pair_table, run_bandit
from glcb.bench.studies.base import StudyContext, StudyResult, TaskStudy, available_tasks
from glcb.bench.studies.registry import register
from glcb.policies import registry
from glcb.tasks import get
from glcb.tasks.base import draw_rows, stream_generators
from glcb.tasks.classification import LabeledFileTask

TASKS = ("adult", "statlog", "covertype")
POLICIES = ("glcb", "glcb-paper", "linucb")


@register
@dataclass(frozen=True, kw_only=True)
class Contexts(TaskStudy):
    """Run tasks with numbers and categories, scaled in advance and as raw dicts."""

    name: ClassVar[str] = "contexts"
    question: ClassVar[str] = "What does it cost to learn scales and categories online?"

    def run(self, context: StudyContext) -> StudyResult:
        """Run every task in both conditions with every policy and seed."""
        available = available_tasks(TASKS)
        pairs = [Pair(task, policy, [], []) for task in available.names for policy in POLICIES]
        for seed, pair in self.for_each_seed(context, pairs):
            task = get(pair.task)
            assert isinstance(task, LabeledFileTask)
            self._run_pair(task, pair, seed)
        worst = min(pairs, key=lambda pair: pair.ratio)
        remarks = [
            f"The smallest ratio is {worst.ratio:.1%}, for {worst.variant} on {worst.task}. The bandit does "
            "not explore (exploration 0), so the contexts are the only difference.",
        ]
        title = "Reward with contexts scaled in advance and with raw dicts"
        return StudyResult(
            [pair_table(pairs, title, "policy", "scaled in advance", "raw dicts")],
            [*remarks, *available.remarks],
            pair_figure(pairs, "Raw dicts, scaled online", "reward, % of that with scaled contexts"),
        )

    def _run_pair(self, task: LabeledFileTask, pair: Pair, seed: int) -> None:
        stream = task.stream(seed, self.steps)
        policy = registry.get(pair.variant).create(task.arms, task.features, rewards=task.rewards, seed=seed)
        bandit = Bandit(task.arms, policy=pair.variant, rewards=task.rewards, exploration=0, seed=seed)
        pair.baseline.append(simulate(policy, stream).total)
        pair.changed.append(run_bandit(bandit, raw_rows(task, seed, self.steps), stream.rewards))


def raw_rows(task: LabeledFileTask, seed: int, steps: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of the stream of ``seed`` with their original values."""
    table = task.data.table
    (rng,) = stream_generators(seed, steps, 1)
    for row in draw_rows(table.rows, steps, rng):
        numbers = zip(table.number_names, table.numbers[row].tolist(), strict=True)
        codes = zip(table.category_names, table.levels, table.codes[row], strict=True)
        yield {**dict(numbers), **{name: levels[code] for name, levels, code in codes}}
