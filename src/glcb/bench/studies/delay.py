"""Rewards that come late, and rewards that never come.

Contexts are passed on as the task scales them and the policy's rule decides alone, so that the way of the
rewards is all that differs. What a decision brought counts in any case; the bandit hears of it later, or not.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from glcb.bench.studies.bandits import POLICY, bandit_for, through_bandit
from glcb.bench.studies.base import Findings, Workplace
from glcb.bench.studies.pairs import Pair, drawing_of, table_of
from glcb.bench.studies.playing import PlayingStudy, playable, plays
from glcb.bench.studies.registry import register
from glcb.tasks import get

TASKS = ("statlog", "covertype")


class Way(NamedTuple):
    """How rewards find their way back."""

    name: str
    delay: int = 0
    """So many decisions are made before a reward comes."""
    lost: float = 0.0
    """The probability that it never comes."""

    def losses(self, seed: int, steps: int) -> list[bool]:
        """Return for each step whether its reward gets lost, the same for every bandit."""
        drawn = np.random.default_rng((seed, 1)).random(steps)
        return [bool(lost) for lost in drawn < self.lost]


AT_ONCE = Way("at once")
WAYS = (
    Way("10 late", delay=10),
    Way("100 late", delay=100),
    Way("1000 late", delay=1000),
    Way("30 % lost", lost=0.3),
)


@register
@dataclass(frozen=True, kw_only=True)
class Delay(PlayingStudy):
    """Play tasks with rewards at once, late, and lost."""

    name: ClassVar[str] = "delay"
    question: ClassVar[str] = "What does it cost if rewards come late, or not at all?"

    def carry_out(self, place: Workplace) -> Findings:
        """Play every task with every seed in every way."""
        here = playable(TASKS)
        pairs = {(task, way): Pair(task, way.name, [], []) for task in here.tasks for way in WAYS}
        for seed, name in plays(place, self.seeds, here.tasks):
            task = get(name)
            stream = task.stream(seed, self.steps)
            before, *after = (
                through_bandit(
                    bandit_for(task, seed),
                    stream.contexts,
                    stream.rewards,
                    delay=way.delay,
                    lost=way.losses(seed, stream.steps),
                )
                for way in (AT_ONCE, *WAYS)
            )
            for way, total in zip(WAYS, after, strict=True):
                pairs[name, way].before.append(before)
                pairs[name, way].after.append(total)
        remarks = [
            f"{POLICY} decides {self.steps:,} times. A late reward comes after so many more decisions: until "
            "the first one comes, nothing is known. Those still to come at the end are never learned. All "
            "rewards count, the lost ones too."
        ]
        found = list(pairs.values())
        return Findings(
            [
                table_of(
                    found, "Reward if rewards come late or get lost", "rewards", AT_ONCE.name, "late or lost"
                )
            ],
            [*remarks, *here.remarks],
            drawing_of(found, "Rewards late or lost", "reward, % of that with rewards at once"),
        )
