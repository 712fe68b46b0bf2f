"""What each part of the default brings: the default with one part taken away, on every task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from rich.table import Table

from glcb._types import Rewards, reward_range
from glcb.bench.figures import figure
from glcb.bench.plan import PAPER_TASKS
from glcb.bench.run import Record
from glcb.bench.statistics import differences, mean_and_error
from glcb.bench.studies.base import Findings, Workplace, spread
from glcb.bench.studies.playing import PlayingStudy, playable
from glcb.bench.studies.records import records_of, totals
from glcb.bench.studies.registry import register
from glcb.policies.glcb.settings import PAPER_BINARY
from glcb.tasks import get

TASKS = (*PAPER_TASKS, "mushroom", "linear", "sparse-linear")
BOUNDED_ONLY = ("start", "leaf_values", "switching_rate")
"""Settings that differ from the paper's for bounded rewards alone."""


@dataclass(frozen=True)
class Variant:
    """A policy with some settings changed."""

    title: str
    changes: dict[str, Any] = field(default_factory=dict)
    policy: str = "glcb"

    def settings(self, rewards: Rewards) -> dict[str, Any]:
        """Return the changes for a task with such rewards; C in units of reward goes with their range."""
        low, high = reward_range(rewards)
        changes = {
            name: value
            for name, value in self.changes.items()
            if rewards != "binary" or name not in BOUNDED_ONLY
        }
        if changes.get("bonus_unit") == "reward":
            changes["bonus_scale"] = PAPER_BINARY.bonus_scale * (high - low)
        return changes


DEFAULT = Variant("default")
VARIANTS = (
    DEFAULT,
    Variant("paper's settings", policy="glcb-paper"),
    Variant("plain steps everywhere", {"step": "plain"}),
    Variant("one rate: 0.1", {"rate_factors": (0.1,)}),
    Variant("one rate: 1", {"rate_factors": (1.0,)}),
    Variant("small ridge only", {"ridges": (0.01,)}),
    Variant("large ridge only", {"ridges": (10.0,)}),
    Variant("4 hyperplanes", {"hyperplanes": 4}),
    Variant("8 hyperplanes", {"hyperplanes": 8}),
    Variant("hyperplanes near the center", {"bias_scale": PAPER_BINARY.bias_scale}),
    Variant("fast switching", {"switching_rate": PAPER_BINARY.switching_rate}),
    Variant("no damping", {"damping": 0.0}),
    Variant("bonus of 0.03 × range", {"bonus_unit": "reward"}),
    Variant("cells start from the inputs", {"start": "inputs"}),
    Variant("bins stand for their midpoints", {"leaf_values": "midpoint"}),
)

Played = Mapping[tuple[str, str], list[Record]]
"""Records of all seeds, by task and title of the variant."""


@register
@dataclass(frozen=True, kw_only=True)
class Ablation(PlayingStudy):
    """Play every variant on every task whose data is here."""

    name: ClassVar[str] = "ablation"
    question: ClassVar[str] = "What does each part of the default bring?"

    seeds: int = 10

    @classmethod
    def quick(cls) -> Self:
        """Return a form of some hundred steps."""
        return cls(seeds=2, steps=300)

    def carry_out(self, place: Workplace) -> Findings:
        """Carry out the runs that have no record yet, and compare."""
        here = playable(TASKS)
        runs = {
            (task, variant.title): self.runs(task, variant.policy, variant.settings(get(task).rewards))
            for task in here.tasks
            for variant in VARIANTS
        }
        records = records_of(runs.values(), place)
        played = {at: [records[run.key] for run in group] for at, group in runs.items()}
        remarks = [
            "Where a change concerns bounded rewards alone, tasks with rewards of 0 and 1 show the default.",
            _remark(played),
            *here.remarks,
        ]
        return Findings(
            [_reward_table(played), _difference_table(played)], remarks, lambda path: _draw(path, played)
        )


def gains(played: Played, task: str, title: str) -> list[float]:
    """Return how much more than the default a variant got, with the same seeds."""
    return differences(totals(played[task, title]), totals(played[task, DEFAULT.title]))


def _tasks(played: Played) -> list[str]:
    return list(dict.fromkeys(task for task, _ in played))


def _table(title: str, tasks: Sequence[str]) -> Table:
    table = Table(title=title)
    table.add_column("variant")
    for task in tasks:
        table.add_column(task, justify="right")
    return table


def _reward_table(played: Played) -> Table:
    seeds = len(next(iter(played.values())))
    table = _table(f"Reward: mean ± s.e. of {seeds} seeds", _tasks(played))
    for variant in VARIANTS:
        cells = (spread(totals(played[task, variant.title]), ",.0f") for task in _tasks(played))
        table.add_row(variant.title, *cells)
    return table


def _difference_table(played: Played) -> Table:
    seeds = len(next(iter(played.values())))
    title = f"Difference to the default with the same seeds: mean ± s.e. of {seeds} seeds"
    table = _table(title, _tasks(played))
    for variant in VARIANTS[1:]:
        cells = (spread(gains(played, task, variant.title), "+,.0f") for task in _tasks(played))
        table.add_row(variant.title, *cells)
    return table


def _remark(played: Played) -> str:
    """Say which variants beat the default beyond twice the standard error, and where."""
    better = []
    for task in _tasks(played):
        for variant in VARIANTS[1:]:
            mean, error = mean_and_error(gains(played, task, variant.title))
            if error is not None and mean > 2 * error > 0:
                better.append(f"{variant.title} on {task}")
    tried = len(_tasks(played)) * (len(VARIANTS) - 1)
    return (
        f"Better than the default by more than two standard errors: {', '.join(better) or 'none'}. "
        f"Of {tried} comparisons, a few would be so by chance."
    )


def _draw(path: Path, played: Played) -> None:
    tasks, variants = _tasks(played), VARIANTS[1:]
    shares = np.array([[_share(played, task, variant.title) for task in tasks] for variant in variants])
    with figure(path, width=3 + 0.9 * len(tasks), height=1.5 + 0.35 * len(variants)) as (ax,):
        ax.imshow(shares, cmap="RdBu", vmin=-20, vmax=20, aspect="auto")
        ax.set_xticks(range(len(tasks)), tasks, rotation=30, ha="right")
        ax.set_yticks(range(len(variants)), [variant.title for variant in variants])
        ax.set_title("Reward compared with the default, %")
        ax.grid(visible=False)
        for row, column in np.ndindex(*shares.shape):
            share = shares[row, column]
            color = "white" if abs(share) > 12 else "black"
            ax.text(column, row, f"{share:+.1f}", ha="center", va="center", fontsize=8, color=color)


def _share(played: Played, task: str, title: str) -> float:
    usual = float(np.mean(totals(played[task, DEFAULT.title])))
    return 100 * float(np.mean(gains(played, task, title))) / max(abs(usual), 1e-9)
