"""The benefit of forgetting (half_life) when a task changes, and its cost when it does not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from rich.table import Table

from glcb._arrays import Float64
from glcb.bench.figures import band, figure
from glcb.bench.run import RunRecord
from glcb.bench.simulation import simulate
from glcb.bench.statistics import paired_differences
from glcb.bench.studies.base import (
    StudyContext,
    StudyResult,
    TaskStudy,
    available_tasks,
    format_mean,
    run_records,
    totals,
)
from glcb.bench.studies.registry import register
from glcb.policies import registry
from glcb.tasks import get
from glcb.tasks.base import Task
from glcb.tasks.smooth import Smooth

CHANGING = ("smooth-switch", "smooth-drift", "smooth-newcomer", "statlog-switch")
"""Tasks that change halfway."""
STATIONARY = ("smooth", "statlog", "covertype")

WINDOW = 200
"""Rewards are averaged over this many steps."""
RECOVERED = 0.9
"""Rewards have recovered when they reach this share of their level before the change."""
_LEVEL = 0.1
"""The level before the change is measured over this share of all steps."""


@dataclass(frozen=True)
class HalfLifeVariant:
    """A policy with a half-life, in decisions."""

    policy: str
    half_life: int | None

    @property
    def title(self) -> str:
        """Display name."""
        return f"{self.policy}, {'none' if self.half_life is None else f'{self.half_life:,}'}"

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that differ from the policy's defaults."""
        return {} if self.half_life is None else {"half_life": self.half_life}


@dataclass(frozen=True, eq=False)
class ChangeCurve:
    """Rewards step by step on a task that changes halfway."""

    received: Float64
    best: Float64
    """Reward of the best arm at every step."""

    @property
    def change(self) -> int:
        """The first step after the change."""
        return self.received.size // 2

    @property
    def before(self) -> Float64:
        """Rewards of the last steps before the change."""
        return self.received[self._level]

    @property
    def after(self) -> Float64:
        """Rewards from the change to the end."""
        return self.received[self.change :]

    @property
    def share_before(self) -> float:
        """Rewards of the last steps before the change, as a share of the best possible."""
        return float(self.received[self._level].sum() / self.best[self._level].sum())

    @property
    def _level(self) -> slice:
        return slice(self.change - max(1, round(_LEVEL * self.received.size)), self.change)


def recovery_steps(curve: ChangeCurve) -> int | None:
    """Return the number of steps after the change until the rewards have recovered, or None.

    Rewards have recovered at the end of the first window of ``WINDOW`` steps, all after the change, in which
    the share of the best possible reward is at least 90% of that before the change.

    >>> ones = np.ones(2000)
    >>> recovery_steps(ChangeCurve(np.repeat([1.0, 0.0, 1.0], [1000, 300, 700]), ones))
    480
    >>> recovery_steps(ChangeCurve(np.repeat([1.0, 0.5], 1000), ones)) is None
    True
    """
    received, best = (_window_sums(part[curve.change :]) for part in (curve.received, curve.best))
    recovered = np.flatnonzero(received >= RECOVERED * curve.share_before * best - 1e-9)
    return int(recovered[0]) + WINDOW if recovered.size else None


def windowed_shares(curve: ChangeCurve) -> Float64:
    """Return the share of the best possible reward in each full window of ``WINDOW`` steps."""
    whole = curve.received.size // WINDOW * WINDOW
    received, best = (part[:whole].reshape(-1, WINDOW).sum(axis=1) for part in (curve.received, curve.best))
    shares: Float64 = received / best
    return shares


def _window_sums(values: Float64) -> Float64:
    return np.convolve(values, np.ones(min(WINDOW, values.size)), "valid")


GLCBS = (HalfLifeVariant("glcb", None), HalfLifeVariant("glcb", 1000), HalfLifeVariant("glcb", 4000))
VARIANTS = (*GLCBS, HalfLifeVariant("linucb", None), HalfLifeVariant("linucb", 4000))

Curves = Mapping[tuple[str, HalfLifeVariant], Sequence[ChangeCurve]]
"""One curve per seed, by task and variant."""
Stationary = Mapping[tuple[str, HalfLifeVariant], Sequence[RunRecord]]


@register
@dataclass(frozen=True, kw_only=True)
class DriftStudy(TaskStudy):
    """Run tasks that change halfway and tasks that do not, with several half-lives.

    By default, the change does not fall on a multiple of any half-life, so nothing is halved at that moment.
    """

    name: ClassVar[str] = "drift"
    question: ClassVar[str] = "Does forgetting help when the task changes, and what does it cost otherwise?"

    seeds: int = 10
    steps: int = 21_000

    @classmethod
    def quick(cls) -> Self:
        """Return a version with a few thousand steps."""
        return cls(seeds=1, steps=9000)

    def run(self, context: StudyContext) -> StudyResult:
        """Execute the runs on stationary tasks, then simulate the tasks that change."""
        available = available_tasks((*STATIONARY, *CHANGING))
        runs = {
            (task, variant): self.task_runs(task, variant.policy, variant.settings)
            for task in available.names
            if task in STATIONARY
            for variant in GLCBS
        }
        records = run_records(runs.values(), context)
        stationary = {cell: [records[run.key] for run in group] for cell, group in runs.items()}
        curves = self._simulate([task for task in available.names if task in CHANGING], context)
        remarks = [
            f"Recovered: the share of the best possible reward over {WINDOW} steps reaches {RECOVERED:.0%} "
            "of that before the change. The number of steps is the median over the seeds that recover.",
            "On the smooth tasks, rewards are the expected rewards of the chosen arms.",
            *available.remarks,
        ]
        return StudyResult(
            [_change_table(curves), _cost_table(stationary)], remarks, lambda path: _draw(path, curves)
        )

    def _simulate(self, tasks: Sequence[str], context: StudyContext) -> Curves:
        curves: dict[tuple[str, HalfLifeVariant], list[ChangeCurve]] = {
            (task, variant): [] for task in tasks for variant in VARIANTS
        }
        for seed, (task, variant) in self.for_each_seed(context, curves):
            curves[task, variant].append(change_curve(get(task), variant, seed, self.steps))
        return curves


def change_curve(task: Task, variant: HalfLifeVariant, seed: int, steps: int) -> ChangeCurve:
    """Run a policy on a task and return its rewards and those of the best arm at every step."""
    stream = task.stream(seed, steps)
    make = registry.get(variant.policy).policy_class
    policy = make(task.arms, task.features, rewards=task.rewards, seed=seed, **variant.settings)
    arms = simulate(policy, stream).arms
    if not isinstance(task, Smooth):
        return ChangeCurve(stream.rewards[np.arange(stream.steps), arms], stream.best)
    table = task.expected_over_time(stream.contexts)
    return ChangeCurve(table[np.arange(stream.steps), arms], table.max(axis=1))


def _change_table(curves: Curves) -> Table:
    seeds = len(next(iter(curves.values())))
    table = Table(title=f"Reward per step on tasks that change halfway: mean ± s.e. of {seeds} seeds")
    table.add_column("task")
    table.add_column("policy, half-life")
    for head in ("before", "after", "steps to recover", "seeds recovered"):
        table.add_column(head, justify="right")
    for (task, variant), own in curves.items():
        recovery = [recovery_steps(curve) for curve in own]
        recovered = [steps for steps in recovery if steps is not None]
        table.add_row(
            task,
            variant.title,
            format_mean([curve.before.mean() for curve in own]),
            format_mean([curve.after.mean() for curve in own]),
            _median(recovered),
            f"{len(recovered)} of {seeds}",
            end_section=variant == VARIANTS[-1],
        )
    return table


def _median(steps: Sequence[int]) -> str:
    if not steps:
        return "–"
    median = float(np.median(steps))
    return f"{median:,.0f}" if median > WINDOW else f"≤ {WINDOW}"


def _cost_table(stationary: Stationary) -> Table:
    tasks = list(dict.fromkeys(task for task, _ in stationary))
    seeds = len(next(iter(stationary.values())))
    table = Table(title=f"Reward on stationary tasks: mean ± s.e. of {seeds} seeds")
    table.add_column("policy, half-life")
    for task in tasks:
        table.add_column(task, justify="right")
        table.add_column("difference from none", justify="right")
    for variant in GLCBS:
        cells = []
        for task in tasks:
            own = totals(stationary[task, variant])
            change = paired_differences(own, totals(stationary[task, GLCBS[0]]))
            cells += [
                format_mean(own, ",.0f"),
                "" if variant.half_life is None else format_mean(change, "+,.0f"),
            ]
        table.add_row(variant.title, *cells)
    return table


def _draw(path: Path, curves: Curves) -> None:
    tasks = list(dict.fromkeys(task for task, _ in curves))
    with figure(
        path, width=12, height=3.6 * -(-len(tasks) // 2), columns=2, rows=-(-len(tasks) // 2)
    ) as axes:
        for ax, task in zip(axes, tasks, strict=False):
            for number, variant in enumerate(VARIANTS):
                shares = np.array([windowed_shares(curve) for curve in curves[task, variant]])
                steps = WINDOW * (np.arange(shares.shape[1]) + 0.5)
                style = "--" if variant.policy == "linucb" else "-"
                band(ax, steps, shares, ls=style, color=f"C{number}", linewidth=1.2, label=variant.title)
            ax.axvline(curves[task, VARIANTS[0]][0].change, color="0.5", linewidth=0.8)
            ax.set(title=task, xlabel="step", ylabel=f"share of the best possible reward, per {WINDOW} steps")
        axes[0].legend(frameon=False, fontsize=8)
