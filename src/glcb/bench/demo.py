"""The comparison behind ``glcb demo``: GLCB and simple baselines on three tasks that need no data files."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.table import Table

from glcb._arrays import Float64
from glcb.bench.comparison import Duel, best_other, conclusion, leaders
from glcb.bench.curves import block_ends
from glcb.bench.figures import band, figure
from glcb.bench.plan import BenchmarkPlan
from glcb.bench.report import appearance
from glcb.bench.run import Run, RunRecord
from glcb.bench.statistics import mean_and_error, paired_differences


class DemoTask(NamedTuple):
    """The difficulty that the task tests."""

    name: str
    purpose: str
    """The purpose of the task."""


TASKS = (
    DemoTask("smooth", "non-linear rewards: the best arm changes along curved boundaries"),
    DemoTask("linear", "linear rewards: the assumption of LinUCB and LinTS holds exactly"),
    DemoTask("wheel", "exploration: large rewards are confined to a few contexts"),
)
NOTE = (
    "The best possible reward is earned by an oracle that knows all rewards in advance; where rewards are "
    "random (smooth), no policy can reach 100%."
)
POLICIES = ("glcb", "linucb", "lints", "epsilon-greedy", "ucb1", "uniform")


def runs(seeds: int, steps: int) -> list[Run]:
    """Return all runs of the demo."""
    return BenchmarkPlan(tuple(task.name for task in TASKS), POLICIES, seeds, steps).runs()


def table(records: Iterable[RunRecord]) -> Table:
    """Return the share of the best possible reward and the time per decision of every policy."""
    own = list(records)
    result = Table(title="Share of the best possible reward: mean ± s.e.")
    result.add_column("policy")
    for task in TASKS:
        result.add_column(task.name, justify="right")
    result.add_column("µs per decision", justify="right")
    for policy in POLICIES:
        cells = []
        for task in TASKS:
            shares = [record.total / record.optimum for record in _select(own, task.name, policy)]
            mean, error = mean_and_error(shares)
            cells.append(f"{100 * mean:.1f}" + (f" ± {100 * error:.1f}%" if error is not None else "%"))
        times = [time for record in own if record.policy == policy for time in record.decide_us]
        result.add_row(appearance.title(policy), *cells, f"{np.median(times):.0f}")
    return result


def summary(records: Iterable[RunRecord]) -> str:
    """Return one sentence: which policy leads on which task, and how GLCB compares."""
    own = list(records)
    means = {
        task.name: {
            policy: float(np.mean([record.total for record in _select(own, task.name, policy)]))
            for policy in POLICIES
        }
        for task in TASKS
    }
    led = {appearance.title(policy): tasks for policy, tasks in leaders(means).items()}
    duels = [
        _duel(own, task, other)
        for task, policies in means.items()
        if (other := best_other(policies, POLICIES[0]))
    ]
    return conclusion(led, len(TASKS), appearance.title(POLICIES[0]), len(POLICIES) - 1, duels)


def draw(records: Iterable[RunRecord], path: Path) -> None:
    """Draw the share of the best possible reward over time, one panel per task, into ``path``."""
    own = list(records)
    with figure(path, width=12, height=4.2, columns=len(TASKS)) as axes:
        for ax, task in zip(axes, TASKS, strict=True):
            for policy in POLICIES:
                selected = _select(own, task.name, policy)
                style = appearance.stroke(policy) or appearance.Stroke("#868e96")
                band(
                    ax,
                    block_ends(selected[0])[1:],
                    [_cumulative_share(record) for record in selected],
                    label=appearance.title(policy),
                    color=style.color,
                    linestyle=style.dashes,
                    linewidth=style.width,
                )
            ax.set(title=f"{task.name}: {task.purpose.partition(':')[0]}", xlabel="step", ylim=(0, None))
        axes[0].set_ylabel("share of the best possible reward so far, %")
        axes[0].legend(frameon=False, loc="lower right", ncols=2)


def _select(records: Sequence[RunRecord], task: str, policy: str) -> list[RunRecord]:
    selected = [record for record in records if (record.task, record.policy) == (task, policy)]
    return sorted(selected, key=lambda record: record.seed)


def _duel(records: Sequence[RunRecord], task: str, other: str) -> Duel:
    ours, theirs = (
        [record.total for record in _select(records, task, name)] for name in (POLICIES[0], other)
    )
    return Duel(tuple(paired_differences(ours, theirs)), float(np.mean(theirs)))


def _cumulative_share(record: RunRecord) -> Float64:
    shares: Float64 = 100 * np.cumsum(record.rewards) / np.cumsum(record.best_rewards)
    return shares
