"""The cost of exploration, which gives every arm a known positive probability.

The tasks are those of the paper. Contexts are passed as the task scales them, so exploration is the only
difference.
"""

from dataclasses import dataclass
from typing import ClassVar, get_args

from glcb._types import ExplorationMode
from glcb.bench.plan import PAPER_TASKS
from glcb.bench.studies.bandit_comparison import (
    POLICY,
    Pair,
    make_bandit,
    pair_figure,
    pair_table,
    run_bandit,
)
from glcb.bench.studies.base import StudyContext, StudyResult, TaskStudy, available_tasks
from glcb.bench.studies.registry import register
from glcb.tasks import get

SHARE = 0.05
EXPLORATION_MODES: tuple[ExplorationMode, ...] = get_args(ExplorationMode)


@register
@dataclass(frozen=True, kw_only=True)
class Exploration(TaskStudy):
    """Run the paper's tasks with and without exploration."""

    name: ClassVar[str] = "exploration"
    question: ClassVar[str] = "What does it cost to give every arm a positive probability?"

    def run(self, context: StudyContext) -> StudyResult:
        """Run every task with every seed: without exploration and in both exploration modes."""
        available = available_tasks(PAPER_TASKS)
        pairs = {
            (task, mode): Pair(task, mode, [], []) for task in available.names for mode in EXPLORATION_MODES
        }
        for seed, name in self.for_each_seed(context, available.names):
            task = get(name)
            stream = task.stream(seed, self.steps)
            baseline = run_bandit(make_bandit(task, seed), stream.contexts, stream.rewards)
            for mode in EXPLORATION_MODES:
                exploring = make_bandit(task, seed, SHARE, mode)
                pairs[name, mode].baseline.append(baseline)
                pairs[name, mode].changed.append(run_bandit(exploring, stream.contexts, stream.rewards))
        remarks = [
            f"With probability {SHARE:g} the bandit explores instead of following {POLICY}: in mode gap it "
            "prefers arms with a score close to the best; in mode uniform all arms are equally likely. Every "
            "arm has a positive probability."
        ]
        results = list(pairs.values())
        title = "Reward with and without exploration"
        return StudyResult(
            [pair_table(results, title, "exploration_mode", "exploration 0", f"{SHARE:g}")],
            [*remarks, *available.remarks],
            pair_figure(results, f"Exploration {SHARE:g}", "reward, % of that without exploration"),
        )
