"""Raw contexts, met one at a time, against contexts that were scaled with all of them at hand.

A task scales every column to its lowest and highest value in the whole run, which nobody can know at its
first step, and knows all values of its categories. ``Bandit`` gets the rows as dicts and learns both on the
way.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from glcb.bandit import Bandit
from glcb.bench.simulation import simulate
from glcb.bench.studies.bandits import through_bandit
from glcb.bench.studies.base import Findings, Workplace
from glcb.bench.studies.pairs import Pair, drawing_of, table_of
from glcb.bench.studies.playing import PlayingStudy, playable, plays
from glcb.bench.studies.registry import register
from glcb.policies import registry
from glcb.tasks import get
from glcb.tasks.base import begin, draw_rows
from glcb.tasks.file_task import LabeledFileTask

TASKS = ("adult", "statlog", "covertype")
POLICIES = ("glcb", "glcb-paper", "linucb")


@register
@dataclass(frozen=True, kw_only=True)
class Contexts(PlayingStudy):
    """Play tasks with numbers and categories, in the task's own scaling and as raw dicts."""

    name: ClassVar[str] = "contexts"
    question: ClassVar[str] = "What does it cost to learn scales and categories along the way?"

    def carry_out(self, place: Workplace) -> Findings:
        """Play every task in both ways with every policy and seed."""
        here = playable(TASKS)
        pairs = [Pair(task, policy, [], []) for task in here.tasks for policy in POLICIES]
        for seed, pair in plays(place, self.seeds, pairs):
            task = get(pair.task)
            assert isinstance(task, LabeledFileTask)
            self._play(task, pair, seed)
        worst = min(pairs, key=lambda pair: pair.ratio)
        remarks = [
            f"The smallest ratio is {worst.ratio:.1%}, of {worst.variant} on {worst.task}. The bandit plays "
            "by the policy's rule alone (exploration 0), so contexts are all that differs.",
        ]
        title = "Reward with the task's own scaling and with raw dicts"
        return Findings(
            [table_of(pairs, title, "policy", "own scaling", "raw dicts")],
            [*remarks, *here.remarks],
            drawing_of(pairs, "Raw dicts, one at a time", "reward, % of that with the task's scaling"),
        )

    def _play(self, task: LabeledFileTask, pair: Pair, seed: int) -> None:
        stream = task.stream(seed, self.steps)
        policy = registry.get(pair.variant).make(task.arms, task.features, rewards=task.rewards, seed=seed)
        bandit = Bandit(task.arms, policy=pair.variant, rewards=task.rewards, exploration=0, seed=seed)
        pair.before.append(simulate(policy, stream).total)
        pair.after.append(through_bandit(bandit, raw_rows(task, seed, self.steps), stream.rewards))


def raw_rows(task: LabeledFileTask, seed: int, steps: int) -> Iterator[dict[str, Any]]:
    """Yield the rows that the stream of ``seed`` is made of, as they are in the file."""
    table = task.data.table
    (rng,) = begin(seed, steps, 1)
    for row in draw_rows(table.rows, steps, rng):
        numbers = zip(table.number_names, table.numbers[row].tolist(), strict=True)
        codes = zip(table.category_names, table.levels, table.codes[row], strict=True)
        yield {**dict(numbers), **{name: levels[code] for name, levels, code in codes}}
