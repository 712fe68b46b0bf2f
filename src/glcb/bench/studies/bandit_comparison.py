"""Comparison of two ways to run a ``Bandit`` on the same streams, used by several studies."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from glcb._arrays import Float64
from glcb._types import ExplorationMode
from glcb.bandit import Bandit
from glcb.bench.figures import figure
from glcb.bench.statistics import mean_and_error, paired_differences
from glcb.bench.studies.base import format_difference, format_mean
from glcb.tasks.base import Task

POLICY = "glcb"


def make_bandit(
    task: Task, seed: int, exploration: float = 0.0, exploration_mode: ExplorationMode = "gap"
) -> Bandit:
    """Return a bandit that takes the contexts of ``task`` without further scaling."""
    return Bandit(
        task.arms,
        policy=POLICY,
        rewards=task.rewards,
        exploration=exploration,
        exploration_mode=exploration_mode,
        schema={str(feature): (0.0, 1.0) for feature in range(task.features)},
        spare_slots=0,
        seed=seed,
    )


def run_bandit(
    bandit: Bandit,
    contexts: Iterable[Any],
    rewards: Float64,
    *,
    delay: int = 0,
    lost: Sequence[bool] | None = None,
) -> float:
    """Let ``bandit`` decide on every context and return the total reward, including unreported rewards.

    Parameters
    ----------
    bandit : Bandit
        The bandit; it is modified.
    contexts : iterable
        One context per step.
    rewards : ndarray, shape (steps, arms)
        The reward of every arm at every step.
    delay : int
        Number of decisions between a decision and the report of its reward.
    lost : sequence of bool, optional
        Steps whose reward is never reported.

    Returns
    -------
    float
        The total reward.
    """
    index_of = {arm: index for index, arm in enumerate(bandit.arms)}
    losses = repeat(False, len(rewards)) if lost is None else lost
    unreported: deque[tuple[str, float]] = deque()
    total = 0.0
    for context, row, is_lost in zip(contexts, rewards.tolist(), losses, strict=True):
        decision = bandit.decide(context)
        value = row[index_of[decision.arm]]
        total += value
        unreported.append(("" if is_lost else decision.id, value))
        if len(unreported) > delay:
            decision_id, value = unreported.popleft()
            if decision_id:
                bandit.reward(decision_id, value)
    return total


@dataclass(frozen=True)
class Pair:
    """Total rewards on one task in two conditions, seed by seed."""

    task: str
    variant: str
    """Policy or condition."""
    baseline: list[float]
    changed: list[float]

    @property
    def ratio(self) -> float:
        """Mean reward of the changed condition as a share of the baseline."""
        return float(np.mean(self.changed) / np.mean(self.baseline))

    @property
    def difference(self) -> str:
        """Mean difference between the conditions, with an interval."""
        return format_difference(paired_differences(self.changed, self.baseline))


def pair_table(pairs: Sequence[Pair], title: str, variant: str, baseline: str, changed: str) -> Table:
    """Return both conditions in columns; ``variant``, ``baseline`` and ``changed`` are headings."""
    table = Table(title=f"{title}: mean ± s.e. of {len(pairs[0].baseline)} seeds")
    table.add_column("task")
    table.add_column(variant)
    for heading in (baseline, changed, "ratio", "difference, 95%"):
        table.add_column(heading, justify="right")
    for pair in pairs:
        rewards = (format_mean(pair.baseline, ",.0f"), format_mean(pair.changed, ",.0f"))
        table.add_row(pair.task, pair.variant, *rewards, f"{pair.ratio:.1%}", pair.difference)
    return table


def pair_figure(pairs: Sequence[Pair], title: str, ylabel: str) -> Callable[[Path], None]:
    """Return a function that draws the ratio of the conditions by task and variant."""
    by_variant: Mapping[str, list[Pair]] = {
        variant: [pair for pair in pairs if pair.variant == variant]
        for variant in dict.fromkeys(pair.variant for pair in pairs)
    }
    tasks = list(dict.fromkeys(pair.task for pair in pairs))

    def draw(path: Path) -> None:
        with figure(path, width=1.5 + 1.6 * len(tasks), height=4) as (ax,):
            for shift, (variant, own) in enumerate(by_variant.items()):
                ratios = [
                    mean_and_error([100 * b / a for a, b in zip(pair.baseline, pair.changed, strict=True)])
                    for pair in own
                ]
                offset = 0.12 * (shift - (len(by_variant) - 1) / 2)
                positions = [tasks.index(pair.task) + offset for pair in own]
                means, errors = [mean for mean, _ in ratios], [error or 0.0 for _, error in ratios]
                ax.errorbar(positions, means, errors, fmt="o", capsize=3, label=variant)
            ax.axhline(100, color="0.5", linewidth=0.8)
            ax.set(title=title, ylabel=ylabel)
            ax.set_xticks(range(len(tasks)), tasks)
            ax.legend(frameon=False)

    return draw
