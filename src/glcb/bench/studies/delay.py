"""The cost of delayed and lost rewards.

Two parts: benchmark tasks whose rewards are reported some decisions later, and the clicks of a homepage, of
which only clicks are reported and the reward timeout decides what counts as no click. In the first part,
contexts are passed as the task scales them and there is no exploration, so only the reporting of rewards
differs. Every reward counts toward the total; the bandit receives it late or never.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple, Self

import numpy as np
from rich.table import Table

from glcb.bench.studies.bandit_comparison import (
    POLICY,
    Pair,
    make_bandit,
    pair_figure,
    pair_table,
    run_bandit,
)
from glcb.bench.studies.base import StudyContext, StudyResult, TaskStudy, available_tasks, format_mean
from glcb.bench.studies.homepage_visits import (
    LOSS_RATE,
    MEAN_DELAY,
    VISITS,
    Setup,
    available_policies,
    lift,
    make_homepage,
)
from glcb.bench.studies.registry import register
from glcb.bench.studies.stored import StoredResults
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


CLICK_POLICIES = ("glcb", "linucb", "lints", "vw-squarecb")
CLICK_RATES = (0.01, 0.05, 0.2)
WINDOWS = (0, 1, 10, 50)
"""Reward timeouts, in mean delays; 0 means that every outcome is reported at once."""
MANY_LOST = 0.3


class Clicks(NamedTuple):
    """How clicks on a homepage are reported."""

    click_rate: float
    window: int
    loss_rate: float = LOSS_RATE


CLICKS = [
    *(Clicks(rate, window) for rate in CLICK_RATES for window in WINDOWS),
    *(Clicks(rate, 10, MANY_LOST) for rate in CLICK_RATES),
]


@register
@dataclass(frozen=True, kw_only=True)
class DelayStudy(TaskStudy):
    """Run tasks and a homepage with immediate, delayed and lost rewards."""

    name: ClassVar[str] = "delay"
    question: ClassVar[str] = "What does it cost if rewards are delayed or lost?"

    visits: int = VISITS

    @classmethod
    def quick(cls) -> Self:
        """Return a version with a few hundred steps and visits."""
        return cls(seeds=2, steps=300, visits=200)

    def run(self, context: StudyContext) -> StudyResult:
        """Run every task with every seed in every condition."""
        available = available_tasks(TASKS)
        pairs = {
            (task, condition): Pair(task, condition.name, [], [])
            for task in available.names
            for condition in CONDITIONS
        }
        stored = StoredResults(context.folder)
        for seed, name in self.for_each_seed(context, available.names):
            baseline, *changed = (
                stored.get(
                    POLICY,
                    f"{name} {self.steps} {seed} {condition}",
                    partial(self._total, name, seed, condition),
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
        policies, missing = available_policies(CLICK_POLICIES)
        remarks.append(
            f"The homepage has {self.visits:,} visits (see the study homepage). Only clicks are reported, "
            "after an exponential delay; the window is the reward timeout in mean delays, 0 means that every "
            "outcome is reported at once."
        )
        return StudyResult(
            [
                pair_table(results, title, "condition", IMMEDIATE.name, "delayed or lost"),
                _click_table(self._lifts(stored, context, policies)),
            ],
            [*remarks, *available.remarks, *missing],
            pair_figure(results, "Delayed or lost rewards", "reward, % of that with immediate rewards"),
        )

    def _total(self, name: str, seed: int, condition: Condition) -> float:
        """Return the total reward of a task."""
        task = get(name)
        stream = task.stream(seed, self.steps)
        return run_bandit(
            make_bandit(task, seed),
            stream.contexts,
            stream.rewards,
            delay=condition.delay,
            lost=condition.losses(seed, stream.steps),
        )

    def _lifts(
        self, stored: StoredResults, context: StudyContext, policies: Sequence[str]
    ) -> Mapping[Clicks, Mapping[str, list[float]]]:
        """Measure the lift over random articles of every policy, seed by seed."""
        lifts: dict[Clicks, dict[str, list[float]]] = {
            clicks: {policy: [] for policy in policies} for clicks in CLICKS
        }
        for seed, (clicks, policy) in self.for_each_seed(context, [(c, p) for c in CLICKS for p in policies]):
            key = f"delay {self.visits} {seed} {clicks}"
            lifts[clicks][policy].append(
                stored.get(policy, key, partial(self._measure, clicks, policy, seed))
            )
        return lifts

    def _measure(self, clicks: Clicks, policy: str, seed: int) -> float:
        homepage = make_homepage(seed, clicks.click_rate, self.visits, loss_rate=clicks.loss_rate)
        window = clicks.window * MEAN_DELAY if clicks.window else None
        return lift(homepage, Setup(policy, window), seed)


def _click_table(lifts: Mapping[Clicks, Mapping[str, list[float]]]) -> Table:
    """Return the lifts in percent."""
    policies = list(next(iter(lifts.values())))
    table = Table(title="Clicks on a homepage: lift over random articles, %, mean ± s.e.")
    for heading in ("click rate", "lost", "window", *policies):
        table.add_column(heading, justify="right")
    for clicks, row in lifts.items():
        cells = (format_mean([100 * value for value in row[policy]], "+.1f") for policy in policies)
        table.add_row(f"{clicks.click_rate:.0%}", f"{clicks.loss_rate:.0%}", str(clicks.window), *cells)
    return table
