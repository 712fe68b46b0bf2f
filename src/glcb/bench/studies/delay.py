"""The cost of delayed and lost rewards.

Contexts are passed as the task scales them and there is no exploration, so only the reporting of rewards
differs. Every reward counts toward the total; the bandit receives it late or never.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from glcb.bench.studies.bandit_comparison import (
    POLICY,
    Pair,
    make_bandit,
    pair_figure,
    pair_table,
    run_bandit,
)
from glcb.bench.studies.base import StudyContext, StudyResult, TaskStudy, available_tasks
from glcb.bench.studies.registry import register
from glcb.tasks import get

TASKS = ("statlog", "covertype")


class Condition(NamedTuple):
    """How rewards are reported."""

    name: str
    delay: int = 0
    """Number of decisions before a reward is reported."""
    loss_rate: float = 0.0
    """Probability that a reward is never reported."""

    def losses(self, seed: int, steps: int) -> list[bool]:
        """Return for each step whether its reward is lost, the same for every bandit."""
        drawn = np.random.default_rng((seed, 1)).random(steps)
        return [bool(lost) for lost in drawn < self.loss_rate]


IMMEDIATE = Condition("immediate")
CONDITIONS = (
    Condition("delay 10", delay=10),
    Condition("delay 100", delay=100),
    Condition("delay 1000", delay=1000),
    Condition("30% lost", loss_rate=0.3),
)


@register
@dataclass(frozen=True, kw_only=True)
class Delay(TaskStudy):
    """Run tasks with immediate, delayed and lost rewards."""

    name: ClassVar[str] = "delay"
    question: ClassVar[str] = "What does it cost if rewards are delayed or lost?"

    def run(self, context: StudyContext) -> StudyResult:
        """Run every task with every seed in every condition."""
        available = available_tasks(TASKS)
        pairs = {
            (task, condition): Pair(task, condition.name, [], [])
            for task in available.names
            for condition in CONDITIONS
        }
        for seed, name in self.for_each_seed(context, available.names):
            task = get(name)
            stream = task.stream(seed, self.steps)
            baseline, *changed = (
                run_bandit(
                    make_bandit(task, seed),
                    stream.contexts,
                    stream.rewards,
                    delay=condition.delay,
                    lost=condition.losses(seed, stream.steps),
                )
                for condition in (IMMEDIATE, *CONDITIONS)
            )
            for condition, total in zip(CONDITIONS, changed, strict=True):
                pairs[name, condition].baseline.append(baseline)
                pairs[name, condition].changed.append(total)
        remarks = [
            f"{POLICY} makes {self.steps:,} decisions. A delayed reward is reported after that number "
            "of further decisions; rewards that are still pending at the end are never learned. The total "
            "includes all rewards, even lost ones."
        ]
        results = list(pairs.values())
        title = "Reward with delayed or lost rewards"
        return StudyResult(
            [pair_table(results, title, "condition", IMMEDIATE.name, "delayed or lost")],
            [*remarks, *available.remarks],
            pair_figure(results, "Delayed or lost rewards", "reward, % of that with immediate rewards"),
        )
