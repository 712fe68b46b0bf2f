"""Two claims of the paper.

A tree deeper than 3 does not improve the reward. And GLCB compares better with other policies on the
financial task with binary rewards, where the best arm pays 1 and all others 0.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from rich.table import Table

from glcb.bench.figures import figure
from glcb.bench.ranks import ranks
from glcb.bench.run import RunRecord
from glcb.bench.statistics import mean_and_error, paired_bootstrap, paired_differences
from glcb.bench.studies.base import (
    StudyContext,
    StudyResult,
    TaskStudy,
    available_tasks,
    format_difference,
    format_mean,
    run_records,
    totals,
)
from glcb.bench.studies.registry import register
from glcb.policies.glcb.settings import PAPER_BINARY, PAPER_BOUNDED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DEPTHS = (1, 2, 3, 4, 5)
PAPER_DEPTH = PAPER_BOUNDED.tree_depth
DEPTH_TASKS = ("wheel", "linear", "financial", "jester")
GLCB = "glcb-paper"
POLICIES = (GLCB, "linucb", "lints", "linfullpost")
BOUNDED, BINARY = VERSIONS = ("financial", "financial-binary")
SLOWER_DECAY = {"learning_rate_decay": PAPER_BOUNDED.learning_rate_decay}
"""The paper's learning rate decay for bounded rewards."""

ByDepth = Mapping[tuple[str, int], list[RunRecord]]
"""Records of all seeds, by task and depth."""
ByPolicy = Mapping[tuple[str, str], list[RunRecord]]
"""Records of all seeds, by task and policy."""


@register
@dataclass(frozen=True, kw_only=True)
class Depth(TaskStudy):
    """Vary the depth of the tree, and run the financial task in both versions."""

    name: ClassVar[str] = "depth"
    question: ClassVar[str] = "Does a deeper tree help, and do binary rewards suit GLCB better?"

    def run(self, context: StudyContext) -> StudyResult:
        """Execute the runs that have no record yet, and compare."""
        tasks = tuple(dict.fromkeys(DEPTH_TASKS + VERSIONS))
        available = available_tasks(tasks)
        depths = {
            (task, depth): self.task_runs(task, GLCB, {} if depth == PAPER_DEPTH else {"tree_depth": depth})
            for task in DEPTH_TASKS
            for depth in DEPTHS
            if task in available.names
        }
        policies = {
            (task, policy): self.task_runs(task, policy, {})
            for task in VERSIONS
            for policy in POLICIES
            if task in available.names
        }
        slower = self.task_runs(BINARY, GLCB, SLOWER_DECAY) if policies else []
        records = run_records([*depths.values(), *policies.values(), slower], context)
        by_depth = {cell: [records[run.key] for run in runs] for cell, runs in depths.items()}
        by_policy = {cell: [records[run.key] for run in runs] for cell, runs in policies.items()}
        remarks = [_remark_on_depth(by_depth)]
        if by_policy:
            remarks += _remarks_on_policies(by_policy, [records[run.key] for run in slower])
        return StudyResult(
            [
                _depth_table(by_depth),
                _gain_table(by_depth),
                *([_policy_table(by_policy)] if by_policy else []),
            ],
            [*remarks, *available.remarks],
            lambda path: _draw(path, by_depth, by_policy),
        )


def gains(by_depth: ByDepth, task: str, depth: int) -> list[float]:
    """Return the differences between ``depth`` and the paper's depth, seed by seed."""
    return paired_differences(totals(by_depth[task, depth]), totals(by_depth[task, PAPER_DEPTH]))


def _tasks(records: Iterable[tuple[str, object]]) -> list[str]:
    return list(dict.fromkeys(task for task, _ in records))


def _depth_table(by_depth: ByDepth) -> Table:
    seeds = len(next(iter(by_depth.values())))
    table = Table(title=f"Reward of GLCB by depth of the tree: mean ± s.e. of {seeds} seeds")
    table.add_column("task")
    for depth in DEPTHS:
        table.add_column(f"depth {depth}", justify="right")
    for task in _tasks(by_depth):
        table.add_row(task, *(format_mean(totals(by_depth[task, depth]), ",.0f") for depth in DEPTHS))
    return table


def _gain_table(by_depth: ByDepth) -> Table:
    deeper = [depth for depth in DEPTHS if depth > PAPER_DEPTH]
    table = Table(title=f"Paired difference from depth {PAPER_DEPTH}: mean and 95% interval")
    table.add_column("task")
    for depth in deeper:
        table.add_column(f"depth {depth}", justify="right")
    for task in _tasks(by_depth):
        table.add_row(task, *(format_difference(gains(by_depth, task, depth)) for depth in deeper))
    return table


def _policy_table(by_policy: ByPolicy) -> Table:
    seeds = len(next(iter(by_policy.values())))
    table = Table(title=f"Financial with bounded and with binary rewards: mean ± s.e. of {seeds} seeds")
    table.add_column("policy")
    for task in VERSIONS:
        table.add_column(task, justify="right")
        table.add_column("rank", justify="right")
    ranked = {task: policy_ranks(by_policy, task) for task in VERSIONS}
    for policy in POLICIES:
        cells: list[str] = []
        for task in VERSIONS:
            cells += [format_mean(totals(by_policy[task, policy]), ",.0f"), str(ranked[task][policy])]
        table.add_row(policy, *cells)
    return table


def policy_ranks(by_policy: ByPolicy, task: str) -> dict[str, int]:
    """Return the rank of each policy on ``task`` by mean reward."""
    return ranks({policy: float(np.mean(totals(by_policy[task, policy]))) for policy in POLICIES})


def _remark_on_depth(by_depth: ByDepth) -> str:
    deeper = [(task, depth) for task in _tasks(by_depth) for depth in DEPTHS if depth > PAPER_DEPTH]
    above = [
        f"{task} at depth {depth}"
        for task, depth in deeper
        if (interval := paired_bootstrap(gains(by_depth, task, depth))) and interval.low > 0
    ]
    paper_depth = {task: np.mean(totals(by_depth[task, PAPER_DEPTH])) for task in _tasks(by_depth)}
    largest = max(np.mean(gains(by_depth, task, depth)) / paper_depth[task] for task, depth in deeper)
    return (
        f"Of {len(deeper)} intervals for depths above {PAPER_DEPTH}, these are above 0: "
        f"{', '.join(above) or 'none'}. "
        f"The largest mean gain is {largest:+.1%} of the reward."
    )


def _remarks_on_policies(by_policy: ByPolicy, slower: list[RunRecord]) -> list[str]:
    bounded, binary = (policy_ranks(by_policy, task)[GLCB] for task in VERSIONS)
    with_slower = policy_ranks({**by_policy, (BINARY, GLCB): slower}, BINARY)[GLCB]
    return [
        f"Among {len(POLICIES)} policies, {GLCB} ranks {bounded} on {BOUNDED} and {binary} on {BINARY}. The "
        f"paper compares it with nine others; run `glcb bench --tasks {BOUNDED},{BINARY}` for more.",
        "With the slower learning rate decay that the paper uses for bounded rewards "
        f"({PAPER_BOUNDED.learning_rate_decay:g} instead of {PAPER_BINARY.learning_rate_decay:g}), its "
        f"reward on {BINARY} is {format_mean(totals(slower), ',.0f')} and its rank {with_slower}.",
    ]


def _draw(path: Path, by_depth: ByDepth, by_policy: ByPolicy) -> None:
    columns = 2 if by_policy else 1
    with figure(path, width=6 * columns, height=4.5, columns=columns) as axes:
        _draw_depths(axes[0], by_depth)
        if by_policy:
            _draw_policies(axes[1], by_policy)


def _draw_depths(ax: "Axes", by_depth: ByDepth) -> None:
    tasks = _tasks(by_depth)
    for number, task in enumerate(tasks):
        reference = float(np.mean(totals(by_depth[task, PAPER_DEPTH])))
        points = [mean_and_error(gains(by_depth, task, depth)) for depth in DEPTHS]
        ax.errorbar(
            np.array(DEPTHS) + 0.06 * (number - (len(tasks) - 1) / 2),
            [100 * mean / reference for mean, _ in points],
            [100 * (error or 0.0) / reference for _, error in points],
            marker="o",
            capsize=3,
            label=task,
        )
    seeds = len(next(iter(by_depth.values())))
    ax.axhline(0, color="0.5", linewidth=0.8)
    ax.set(
        title=f"Depth of the tree, mean ± s.e. of {seeds} seeds",
        xlabel="depth",
        ylabel=f"difference from depth {PAPER_DEPTH}, %",
        xticks=DEPTHS,
    )
    ax.legend(frameon=False)


def _draw_policies(ax: "Axes", by_policy: ByPolicy) -> None:
    width = 0.8 / len(POLICIES)
    for number, policy in enumerate(POLICIES):
        shares = [
            mean_and_error([100 * record.total / record.optimum for record in by_policy[task, policy]])
            for task in VERSIONS
        ]
        ax.bar(
            np.arange(len(VERSIONS)) + (number - (len(POLICIES) - 1) / 2) * width,
            [mean for mean, _ in shares],
            0.9 * width,
            yerr=[error or 0.0 for _, error in shares],
            capsize=3,
            label=policy,
        )
    ax.set(title="Bounded and binary rewards", ylabel="reward, % of the best possible")
    ax.set_xticks(range(len(VERSIONS)), VERSIONS)
    ax.set_ylim(0, 118)
    ax.legend(frameon=False, ncols=len(POLICIES), loc="upper center")
