"""Rewards that come late, and rewards that never come.

Contexts are passed on as the task scales them and the policy's rule decides alone, so that the way of the
rewards is all that differs. What a decision brought counts in any case; the bandit hears of it later, or not.
"""

from collections import deque
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

from glcb._errors import DataError
from glcb.bandit import Bandit
from glcb.bench.experiment import Experiment, without_missing_data
from glcb.bench.studies.base import Findings, Study, Workplace
from glcb.bench.studies.exploration import POLICY, SPREADS, bandit_for
from glcb.bench.studies.pairs import Pair, drawing_of, table_of
from glcb.bench.studies.registry import register
from glcb.tasks import get
from glcb.tasks.base import Stream

TASKS = ("statlog", "covertype")


class Way(NamedTuple):
    """How rewards find their way back."""

    name: str
    delay: int = 0
    """So many decisions are made before a reward comes."""
    lost: float = 0.0
    """The probability that it never comes."""


AT_ONCE = Way("at once")
WAYS = (
    Way("10 late", delay=10),
    Way("100 late", delay=100),
    Way("1000 late", delay=1000),
    Way("30 % lost", lost=0.3),
)


@register
@dataclass(frozen=True, kw_only=True)
class Delay(Study):
    """Play tasks with rewards at once, late, and lost."""

    name: ClassVar[str] = "delay"
    question: ClassVar[str] = "What does it cost if rewards come late, or not at all?"

    seeds: int = 20
    steps: int = 5000

    @classmethod
    def quick(cls) -> Self:
        """Return a form of some hundred steps."""
        return cls(seeds=2, steps=500)

    def carry_out(self, place: Workplace) -> Findings:
        """Play every task with every seed in every way."""
        present, absent = without_missing_data(Experiment(TASKS, (POLICY,), self.seeds, self.steps))
        if not present.tasks:
            raise DataError(f"this study needs the data of {' or '.join(TASKS)}: see `glcb data list`")
        pairs = {(task, way): Pair(task, way.name, [], []) for task in present.tasks for way in WAYS}
        plays = [(seed, task) for seed in range(self.seeds) for task in present.tasks]
        for done, (seed, name) in enumerate(plays):
            place.progress(done, len(plays))
            task = get(name)
            stream = task.stream(seed, self.steps)
            before, *after = (
                played_late(bandit_for(task, seed, 0.0, SPREADS[0]), stream, way, seed)
                for way in (AT_ONCE, *WAYS)
            )
            for way, total in zip(WAYS, after, strict=True):
                pairs[name, way].before.append(before)
                pairs[name, way].after.append(total)
        place.progress(len(plays), len(plays))
        remarks = [
            f"{POLICY} decides {self.steps:,} times. A late reward comes after so many more decisions: until "
            "the first one comes, nothing is known. Those still to come at the end are never learnt. All "
            "rewards count, the lost ones too."
        ]
        if absent:
            remarks.append(f"Left out, their data is not here (`glcb data list`): {', '.join(absent)}.")
        found = list(pairs.values())
        return Findings(
            [
                table_of(
                    found, "Reward if rewards come late or get lost", "rewards", AT_ONCE.name, "late or lost"
                )
            ],
            remarks,
            drawing_of(found, "Rewards late or lost", "reward, % of that with rewards at once"),
        )


def played_late(bandit: Bandit, stream: Stream, way: Way, seed: int) -> float:
    """Let ``bandit`` play the stream; return the sum of what its decisions brought, learnt or not."""
    number = {arm: index for index, arm in enumerate(bandit.arms)}
    lost = np.random.default_rng((seed, 1)).random(stream.steps) < way.lost
    under_way: deque[tuple[str, float]] = deque()
    total = 0.0
    for x, rewards, gone in zip(stream.contexts, stream.rewards.tolist(), lost.tolist(), strict=True):
        decision = bandit.decide(x)
        value = rewards[number[decision.arm]]
        total += value
        under_way.append(("" if gone else decision.id, value))
        if len(under_way) > way.delay:
            name, value = under_way.popleft()
            if name:
                bandit.reward(name, value)
    return total
