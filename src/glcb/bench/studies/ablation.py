"""Ablation: the default settings of GLCB with one part removed, on every task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from rich.table import Table

from glcb._types import Rewards, reward_range
from glcb.bench.figures import figure
from glcb.bench.plan import PAPER_TASKS
from glcb.bench.run import RunRecord
from glcb.bench.statistics import mean_and_error, paired_differences
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
from glcb.policies.glcb.settings import PAPER_BINARY
from glcb.tasks import get

TASKS = (*PAPER_TASKS, "mushroom", "linear", "sparse-linear")
BOUNDED_ONLY = ("initialization", "leaf_values", "switching_rate")
"""Settings that differ from the paper's only for bounded rewards."""


@dataclass(frozen=True)
class AblationVariant:
    """A policy with changed settings."""

    title: str
    changes: dict[str, Any] = field(default_factory=dict)
    policy: str = "glcb"

    def settings(self, rewards: Rewards) -> dict[str, Any]:
        """Return the changes for a kind of reward; a bonus in units of reward is scaled by the range."""
        low, high = reward_range(rewards)
        changes = {
            name: value
            for name, value in self.changes.items()
            if rewards != "binary" or name not in BOUNDED_ONLY
        }
        if changes.get("bonus_unit") == "reward":
            changes["bonus_scale"] = PAPER_BINARY.bonus_scale * (high - low)
        return changes


DEFAULT = AblationVariant("default")
VARIANTS = (
    DEFAULT,
    AblationVariant("paper settings", policy="glcb-paper"),
    AblationVariant("networks alone", {"experts": ()}),
    AblationVariant("no random features", {"experts": ("linear",)}),
    AblationVariant("no regression on the context", {"experts": ("fourier",)}),
    AblationVariant("gradient steps everywhere", {"optimizer": "gradient"}),
    AblationVariant("single rate: 0.1", {"rate_factors": (0.1,)}),
    AblationVariant("single rate: 1", {"rate_factors": (1.0,)}),
    AblationVariant("small ridge only", {"ridges": (0.01,)}),
    AblationVariant("large ridge only", {"ridges": (10.0,)}),
    AblationVariant("4 hyperplanes", {"hyperplanes": 4}),
    AblationVariant("8 hyperplanes", {"hyperplanes": 8}),
    AblationVariant("hyperplanes near the center", {"bias_scale": PAPER_BINARY.bias_scale}),
    AblationVariant("fast switching", {"switching_rate": PAPER_BINARY.switching_rate}),
    AblationVariant("no damping", {"damping": 0.0}),
    AblationVariant("bonus of 0.03 × range", {"bonus_unit": "reward"}),
    AblationVariant("weights initialized from the inputs", {"initialization": "inputs"}),
    AblationVariant("bin values are midpoints", {"leaf_values": "midpoint"}),
)

Records = Mapping[tuple[str, str], list[RunRecord]]
"""Records of all seeds, by task and title of the variant."""


@register
@dataclass(frozen=True, kw_only=True)
class Ablation(TaskStudy):
    """Run every variant on every task whose data is available."""

    name: ClassVar[str] = "ablation"
    question: ClassVar[str] = "What does each part of the default settings contribute?"

    seeds: int = 10

    @classmethod
    def quick(cls) -> Self:
        """Return a version with a few hundred steps."""
        return cls(seeds=2, steps=300)

    def run(self, context: StudyContext) -> StudyResult:
        """Execute the runs that have no record yet, and compare."""
        available = available_tasks(TASKS)
        runs = {
            (task, variant.title): self.task_runs(task, variant.policy, variant.settings(get(task).rewards))
            for task in available.names
            for variant in VARIANTS
        }
        by_key = run_records(runs.values(), context)
        records = {cell: [by_key[run.key] for run in group] for cell, group in runs.items()}
        remarks = [
            "Where a change only affects bounded rewards, tasks with binary rewards show the default.",
            _remark(records),
            *available.remarks,
        ]
        return StudyResult(
            [_reward_table(records), _difference_table(records)], remarks, lambda path: _draw(path, records)
        )


def gains(records: Records, task: str, title: str) -> list[float]:
    """Return the differences of a variant from the default, seed by seed."""
    return paired_differences(totals(records[task, title]), totals(records[task, DEFAULT.title]))


def _tasks(records: Records) -> list[str]:
    return list(dict.fromkeys(task for task, _ in records))


def _table(title: str, tasks: Sequence[str]) -> Table:
    table = Table(title=title)
    table.add_column("variant")
    for task in tasks:
        table.add_column(task, justify="right")
    return table


def _reward_table(records: Records) -> Table:
    seeds = len(next(iter(records.values())))
    table = _table(f"Reward: mean ± s.e. of {seeds} seeds", _tasks(records))
    for variant in VARIANTS:
        cells = (format_mean(totals(records[task, variant.title]), ",.0f") for task in _tasks(records))
        table.add_row(variant.title, *cells)
    return table


def _difference_table(records: Records) -> Table:
    seeds = len(next(iter(records.values())))
    title = f"Paired difference from the default: mean ± s.e. of {seeds} seeds"
    table = _table(title, _tasks(records))
    for variant in VARIANTS[1:]:
        cells = (format_mean(gains(records, task, variant.title), "+,.0f") for task in _tasks(records))
        table.add_row(variant.title, *cells)
    return table


def _remark(records: Records) -> str:
    """Name the variants that beat the default by more than two standard errors."""
    better = []
    for task in _tasks(records):
        for variant in VARIANTS[1:]:
            mean, error = mean_and_error(gains(records, task, variant.title))
            if error is not None and mean > 2 * error > 0:
                better.append(f"{variant.title} on {task}")
    comparisons = len(_tasks(records)) * (len(VARIANTS) - 1)
    return (
        f"Better than the default by more than two standard errors: {', '.join(better) or 'none'}. "
        f"With {comparisons} comparisons, a few false positives are expected."
    )


def _draw(path: Path, records: Records) -> None:
    tasks, variants = _tasks(records), VARIANTS[1:]
    shares = np.array([[_share(records, task, variant.title) for task in tasks] for variant in variants])
    with figure(path, width=3 + 0.9 * len(tasks), height=1.5 + 0.35 * len(variants)) as (ax,):
        ax.imshow(shares, cmap="RdBu", vmin=-20, vmax=20, aspect="auto")
        ax.set_xticks(range(len(tasks)), tasks, rotation=30, ha="right")
        ax.set_yticks(range(len(variants)), [variant.title for variant in variants])
        ax.set_title("Reward relative to the default, %")
        ax.grid(visible=False)
        for row, column in np.ndindex(*shares.shape):
            share = shares[row, column]
            color = "white" if abs(share) > 12 else "black"
            ax.text(column, row, f"{share:+.1f}", ha="center", va="center", fontsize=8, color=color)


def _share(records: Records, task: str, title: str) -> float:
    default = float(np.mean(totals(records[task, DEFAULT.title])))
    return 100 * float(np.mean(gains(records, task, title))) / max(abs(default), 1e-9)
