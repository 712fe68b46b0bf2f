"""Arms with features: rewards of shared learners, and how soon a new arm is used.

A new arm joins in the middle of a run. Its share is that of the last 100 decisions. It is measured after how
many decisions the share first reaches 90% of the final one, the mean of the last quarter of the run. A new
arm that is merely explored has a share as well, so the same is measured for its advantage: the share of the
decisions in which it is the best, minus its share of the others.

What a new arm gains and costs shows in the regret since it joined: the sum of the differences between the
expected rewards of the best arm and of the chosen one. It is measured for a new arm that is often the best,
and for one that never is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

import numpy as np
from rich.table import Table

from glcb._arrays import Bool, Float64, Int64
from glcb._types import Rewards
from glcb.bench.figures import band, figure
from glcb.bench.statistics import mean_and_error
from glcb.bench.studies.arm_learners import ADD_ARM, BOTH, KINDS, Kind, available_arms, run_learner
from glcb.bench.studies.base import Study, StudyContext, StudyResult, available_tasks, format_mean
from glcb.bench.studies.homepage_visits import available_policies
from glcb.bench.studies.registry import register
from glcb.bench.studies.stored import StoredResults
from glcb.tasks import get
from glcb.tasks.arm_features import ArmCatalog, ArmNewcomer, ModelRouting
from glcb.tasks.base import STEPS, Stream

TASKS = (ArmCatalog.name, ModelRouting.name)
BEST, UNIFORM = "best possible", "uniform"
WINDOW = 100
"""Number of decisions of which the moving share of a new arm is the mean."""
REACHED = 0.9
"""The part of its final share that a new arm has to reach."""
PERIODS = (100, 500, 3000)
"""Numbers of decisions since a new arm joined for which shares and regrets are reported."""


class NewArmResult(NamedTuple):
    """What became of a new arm in one run."""

    curve: Float64
    """Its share of the last decisions, after each decision since it joined."""
    share: float
    """Its final share."""
    share_after: int
    """Number of decisions until its share was 90% of the final one."""
    advantages: Float64
    """Its advantage in the last decisions, after each decision since it joined."""
    advantage: float
    """Its final advantage."""
    shares: tuple[float, ...]
    """Its share in each of ``PERIODS``."""
    regrets: tuple[float, ...]
    """The regret in each of ``PERIODS``, whichever arms were chosen."""

    def advantage_after(self, target: float) -> int:
        """Return the number of decisions until its advantage was 90% of ``target``."""
        return first_reached(self.advantages, REACHED * target)


def follow_newcomer(arms: Int64, expected: Float64, arrival: int) -> NewArmResult:
    """Return what became of a new arm, the last one.

    Parameters
    ----------
    arms
        The arm that was chosen, by step.
    expected
        The expected reward of every arm, by step.
    arrival
        The step at which the new arm joined.
    """
    newcomer = expected.shape[1] - 1
    chosen, best = arms == newcomer, expected.argmax(axis=1) == newcomer
    regrets = (expected.max(axis=1) - expected[np.arange(arms.size), arms])[arrival:]
    curve = _moving_mean(chosen, np.ones_like(chosen), arrival)
    advantages = _moving_mean(chosen & best, best, arrival) - _moving_mean(chosen & ~best, ~best, arrival)
    last = slice((arrival + len(chosen)) // 2, None)
    share, is_best = float(chosen[last].mean()), best[last]
    advantage = _mean(chosen[last][is_best]) - _mean(chosen[last][~is_best])
    return NewArmResult(
        curve,
        share,
        first_reached(curve, REACHED * share),
        advantages,
        advantage,
        tuple(float(chosen[arrival : arrival + period].mean()) for period in PERIODS),
        tuple(float(regrets[:period].sum()) for period in PERIODS),
    )


def _moving_mean(part: Bool, whole: Bool, arrival: int) -> Float64:
    """Return the share of ``part`` in ``whole`` within a window, for windows that end after ``arrival``."""
    parts, wholes = (np.cumsum(np.r_[np.zeros(WINDOW), flags]) for flags in (part, whole))
    ends = np.arange(arrival, len(part)) + WINDOW
    means: Float64 = (parts[ends] - parts[ends - WINDOW]) / np.maximum(
        wholes[ends] - wholes[ends - WINDOW], 1
    )
    return means


def _mean(flags: Bool) -> float:
    return float(flags.mean()) if flags.size else 0.0


def first_reached(curve: Float64, target: float) -> int:
    """Return the number of the first decision at which a curve reaches a target, or that of the last one.

    >>> first_reached(np.array([0.0, 0.2, 0.1]), 0.15), first_reached(np.array([0.0, 0.2]), 0.3)
    (2, 2)
    """
    reached = np.flatnonzero(curve >= target)
    return int(reached[0]) + 1 if reached.size else curve.size


@register
@dataclass(frozen=True, kw_only=True)
class ArmFeatures(Study):
    """Compare learners that use features of arms with a network per arm, and follow a new arm."""

    name: ClassVar[str] = "arms"
    question: ClassVar[str] = "What do features of arms gain, and how soon is a new arm used?"

    seeds: int = 10
    steps: int = STEPS
    newcomer_steps: int = ArmNewcomer.steps

    @classmethod
    def quick(cls) -> Self:
        """Return a version with a few hundred steps."""
        return cls(seeds=2, steps=200, newcomer_steps=400)

    def run(self, context: StudyContext) -> StudyResult:
        """Measure all learners on all tasks, seed by seed."""
        tasks, remarks = available_tasks(TASKS)
        policies, missing = available_policies([kind.policy for kind in KINDS])
        kinds = [kind for kind in KINDS if kind.policy in policies]
        stored, done = StoredResults(context.folder), 0
        total = self.seeds * (len(tasks) * len(kinds) + 4)
        rewards: dict[str, dict[str, list[float]]] = {task: {} for task in tasks}
        good: dict[Kind, list[NewArmResult]] = {BOTH: [], ADD_ARM: []}
        bad: dict[Kind, list[NewArmResult]] = {BOTH: [], ADD_ARM: []}
        for seed in range(self.seeds):
            for name, totals in rewards.items():
                for learner, reward in self._rewards(name, seed, kinds, stored).items():
                    totals.setdefault(learner, []).append(reward)
                done += len(kinds)
                context.progress(done, total)
            for task, newcomers in ((ArmNewcomer(), good), (ArmNewcomer(best_in=0), bad)):
                for kind, follow_ups in newcomers.items():
                    follow_ups.append(self._newcomer(task, kind, seed, stored))
                    done += 1
                    context.progress(done, total)
        remark = (
            f"{self.seeds} seeds. The catalog has 1,000 arms that come and go, about 60 at a time. Of two "
            "shared learners, the first also has corrections of single arms, for rewards of 0 and 1 only. "
            f"The new arm joins {ArmNewcomer.arrival(self.newcomer_steps):,} decisions after the start, when "
            f"20 others are known. Shares are those of the last {WINDOW} decisions, before it joined 0. The "
            "advantage is the share of the decisions in which it is the best minus that of the others. The "
            "regret is that of all decisions since it joined, for whichever arm."
        )
        tables = [
            _reward_table(rewards, self.steps),
            _newcomer_table(good),
            _period_table("A new arm that is often the best", good),
            _period_table("A new arm that is never the best", bad),
        ]
        return StudyResult(tables, [remark, *remarks, *missing], _figure(rewards, good))

    def _rewards(
        self, name: str, seed: int, kinds: Sequence[Kind], stored: StoredResults
    ) -> dict[str, float]:
        """Return the total reward of every learner on a task."""
        task = get(name)
        stream = task.stream(seed, self.steps)
        totals = {BEST: stream.optimum}
        for kind in kinds:
            if task.rewards == "binary" or not kind.only_binary:
                key = f"{kind.key} on {name}, {self.steps} steps, seed {seed}"
                measure = partial(_total, kind, stream, task.rewards, seed)
                totals[kind.name] = stored.get(kind.policy, key, measure)
        steps = range(stream.steps)
        totals[UNIFORM] = sum(
            float(stream.rewards[step, available_arms(stream, step)].mean()) for step in steps
        )
        return totals

    def _newcomer(self, task: ArmNewcomer, kind: Kind, seed: int, stored: StoredResults) -> NewArmResult:
        """Return what becomes of a new arm; the arms that are chosen are stored."""
        steps = self.newcomer_steps

        def measure() -> list[int]:
            stream = task.stream(seed, steps)
            arms: list[int] = run_learner(kind.make(stream, task.rewards, seed), stream).tolist()
            return arms

        key = f"{kind.key} on {task.name}, best in {task.best_in:.0%}, {steps} steps, seed {seed}"
        chosen = np.array(stored.get(kind.policy, key, measure))
        return follow_newcomer(chosen, task.expected(seed, steps), task.arrival(steps))


def _total(kind: Kind, stream: Stream, rewards: Rewards, seed: int) -> float:
    arms = run_learner(kind.make(stream, rewards, seed), stream)
    return float(stream.rewards[np.arange(stream.steps), arms].sum())


def _reward_table(rewards: Mapping[str, Mapping[str, Sequence[float]]], steps: int) -> Table:
    table = Table(title=f"Total reward in {steps:,} steps, mean ± s.e.")
    table.add_column("learner")
    for task in rewards:
        table.add_column(task, justify="right")
    for name in (BEST, *(kind.name for kind in KINDS), UNIFORM):
        if any(name in totals for totals in rewards.values()):
            cells = (totals.get(name) for totals in rewards.values())
            table.add_row(name, *("–" if cell is None else format_mean(cell, ",.0f") for cell in cells))
    return table


def _newcomer_table(newcomers: Mapping[Kind, Sequence[NewArmResult]]) -> Table:
    table = Table(title="A new arm, mean ± s.e.")
    table.add_column("learner")
    for heading in (
        "final share, %",
        f"{REACHED:.0%} of it after",
        "final advantage, %",
        f"{REACHED:.0%} of it after",
        f"{REACHED:.0%} of the final advantage with add_arm after",
    ):
        table.add_column(heading, justify="right")
    yardsticks = [each.advantage for each in newcomers[ADD_ARM]]
    for kind, runs in newcomers.items():
        pairs = list(zip(runs, yardsticks, strict=True))
        table.add_row(
            kind.name,
            format_mean([100 * each.share for each in runs], ".1f"),
            format_mean([each.share_after for each in runs], ",.0f"),
            format_mean([100 * each.advantage for each in runs], ".1f"),
            format_mean([each.advantage_after(each.advantage) for each in runs], ",.0f"),
            format_mean([each.advantage_after(yardstick) for each, yardstick in pairs], ",.0f"),
        )
    return table


def _period_table(title: str, newcomers: Mapping[Kind, Sequence[NewArmResult]]) -> Table:
    table = Table(title=f"{title}, mean ± s.e.")
    table.add_column("learner")
    for quantity in ("share, %", "regret"):
        for period in PERIODS:
            table.add_column(f"{quantity}, first {period:,}", justify="right")
    for kind, runs in newcomers.items():
        shares = (format_mean([100 * each.shares[i] for each in runs], ".1f") for i in range(len(PERIODS)))
        regrets = (format_mean([each.regrets[i] for each in runs], ".1f") for i in range(len(PERIODS)))
        table.add_row(kind.name, *shares, *regrets)
    return table


def _figure(
    rewards: Mapping[str, Mapping[str, Sequence[float]]], newcomers: Mapping[Kind, Sequence[NewArmResult]]
) -> Callable[[Path], None]:
    """Return a function that draws the rewards of every task, and the share of the new arm over time."""

    def draw(path: Path) -> None:
        with figure(path, width=4.5 * (len(rewards) + 1), height=4, columns=len(rewards) + 1) as panels:
            for panel, (task, totals) in zip(panels, rewards.items(), strict=False):
                points = [mean_and_error(each) for each in totals.values()]
                means, errors = [mean for mean, _ in points], [error or 0.0 for _, error in points]
                panel.barh(range(len(totals)), means, xerr=errors, capsize=3)
                panel.set_yticks(range(len(totals)), list(totals))
                panel.invert_yaxis()
                panel.set(title=task, xlabel="total reward")
            for kind, runs in newcomers.items():
                curves = np.array([100 * each.curve for each in runs])
                band(panels[-1], np.arange(curves.shape[1]), curves, label=kind.name)
            panels[-1].set(title="A new arm", xlabel="decisions since it joined", ylabel="share, %")
            panels[-1].legend(frameon=False)

    return draw
