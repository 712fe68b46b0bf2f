"""The benefit of forgetting (half_life) when a task changes halfway, and its cost otherwise.

By default, the change does not fall on a multiple of any half-life, so nothing is halved at that moment. On
the smooth tasks, rewards are the expected rewards of the chosen arms.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
from rich.table import Table

from benchmarks.studies.stored import StoredResults, available_tasks
from glcb.bench import simulate
from glcb.bench.statistics import format_mean, paired_differences
from glcb.policies import registry
from glcb.tasks import get
from glcb.tasks.smooth import Smooth

STEPS = 21_000
CHANGING = ("smooth-switch", "smooth-drift", "smooth-newcomer", "statlog-switch")
STATIONARY = ("smooth", "statlog", "covertype")
VARIANTS = (("glcb", None), ("glcb", 1000), ("glcb", 4000), ("linucb", None), ("linucb", 4000))
"""Policies and their half-lives, in decisions."""


def tables(stored: StoredResults, seeds: int, steps: int) -> Iterator[Table]:
    """Yield the rewards on tasks that change, and on stationary tasks."""
    tasks = available_tasks((*CHANGING, *STATIONARY))

    def measure(task: str, policy: str, half_life: int | None) -> list[list[float]]:
        return [
            stored.get(
                policy,
                f"{task} {half_life} {steps} {seed}",
                partial(run, task, policy, half_life, seed, steps),
            )
            for seed in range(seeds)
        ]

    changing = Table("task", "policy, half-life", "before", "after", title="Reward per step, mean ± s.e.")
    stationary = Table("task", "policy, half-life", "total reward", "difference from none")
    for task in tasks:
        for policy, half_life in VARIANTS:
            before, after, totals = zip(*measure(task, policy, half_life), strict=True)
            title = f"{policy}, {half_life or 'none'}"
            if task in CHANGING:
                changing.add_row(task, title, format_mean(before), format_mean(after))
            elif policy == "glcb":
                none = [row[2] for row in measure(task, policy, None)]
                change = format_mean(paired_differences(totals, none), "+,.0f")
                stationary.add_row(task, title, format_mean(totals, ",.0f"), change)
    yield changing
    yield stationary


def run(name: str, policy: str, half_life: int | None, seed: int, steps: int) -> list[float]:
    """Return the mean reward in the tenth before the middle and in the second half, and the total reward."""
    task = get(name)
    stream = task.stream(seed, steps)
    create = registry.get(policy).create
    made = create(task.arms, task.features, rewards=task.rewards, seed=seed, half_life=half_life)
    trajectory = simulate(made, stream)
    table = task.expected_over_time(stream.contexts) if isinstance(task, Smooth) else stream.rewards
    received = table[np.arange(stream.steps), trajectory.arms]
    middle = stream.steps // 2
    before = received[middle - max(1, round(stream.steps / 10)) : middle]
    return [float(before.mean()), float(received[middle:].mean()), trajectory.total]
