"""The cost of decisions that are made with an older model.

If several processes decide for one bandit, each has a copy of the model that lags behind the one that
learns. Here every decision is made with the model as it was some decisions ago: neither the rewards nor the
decisions since then are known to it. With delayed rewards, in contrast, the bandit at least knows its own
decisions (see the study delay).
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Self

from glcb._types import Arm
from glcb.bench.figures import figure
from glcb.bench.statistics import mean_and_error
from glcb.bench.studies.bandit_comparison import Pair, pair_table
from glcb.bench.studies.base import StudyContext, StudyResult, TaskStudy, available_tasks
from glcb.bench.studies.registry import register
from glcb.bench.studies.stored import StoredResults
from glcb.policies import registry
from glcb.policies.base import Policy
from glcb.tasks import get
from glcb.tasks.base import Stream

TASKS = ("wheel", "statlog", "covertype")
LAGS = (1, 10, 100, 1000)
POLICIES = ("glcb", "linucb")

Pairs = Mapping[tuple[str, str, int], Pair]
"""Rewards without and with lag, by task, policy and lag."""


def run_with_lag(policy: Policy, stream: Stream, lag: int) -> float:
    """Return the total reward of a policy that decides without the last ``lag`` decisions and rewards.

    Parameters
    ----------
    policy : Policy
        The policy; it is modified.
    stream : Stream
        The contexts and rewards. All arms are available and no reward is delayed.
    lag : int
        Number of decisions by which the model lags behind; 0 is the usual loop.

    Returns
    -------
    float
        The total reward.
    """
    index_of = {arm: index for index, arm in enumerate(policy.arms)}
    unknown: deque[tuple[int, Arm, float]] = deque()
    total = 0.0
    for step, context in enumerate(stream.contexts):
        arm = policy.decide(context).arm
        reward = float(stream.rewards[step, index_of[arm]])
        total += reward
        unknown.append((step, arm, reward))
        if len(unknown) > lag:
            earlier, arm, reward = unknown.popleft()
            policy.learn(stream.contexts[earlier], arm, reward)
    return total


@register
@dataclass(frozen=True, kw_only=True)
class Lag(TaskStudy):
    """Run tasks with models that lag behind by a number of decisions."""

    name: ClassVar[str] = "lag"
    question: ClassVar[str] = "What does it cost if decisions are made with an older copy of the model?"

    @classmethod
    def quick(cls) -> Self:
        """Return a version with a few hundred steps."""
        return cls(seeds=2, steps=300)

    def run(self, context: StudyContext) -> StudyResult:
        """Run every task with every policy, seed and lag."""
        available = available_tasks(TASKS)
        pairs = {
            (task, policy, lag): Pair(task, f"{policy}, lag {lag:,}", [], [])
            for task in available.names
            for policy in POLICIES
            for lag in LAGS
        }
        stored = StoredResults(context.folder)
        runs = [(task, policy) for task in available.names for policy in POLICIES]
        for seed, (task, policy) in self.for_each_seed(context, runs):
            baseline, *lagging = (
                stored.get(
                    policy,
                    f"lag {lag} {task} {self.steps} {seed}",
                    partial(self._total, task, policy, seed, lag),
                )
                for lag in (0, *LAGS)
            )
            for lag, total in zip(LAGS, lagging, strict=True):
                pairs[task, policy, lag].baseline.append(baseline)
                pairs[task, policy, lag].changed.append(total)
        remark = (
            f"Of {self.steps:,} decisions, each is made with the model as it was that many decisions ago. "
            "The first ones are made by a model that has learned nothing."
        )
        return StudyResult(
            [
                pair_table(
                    [*pairs.values()], "Reward with an older model", "policy and lag", "lag 0", "with lag"
                )
            ],
            [remark, *available.remarks],
            partial(_draw, pairs),
        )

    def _total(self, task: str, policy: str, seed: int, lag: int) -> float:
        """Return the total reward of a policy on a task."""
        world = get(task)
        learner = registry.get(policy).create(world.arms, world.features, rewards=world.rewards, seed=seed)
        return run_with_lag(learner, world.stream(seed, self.steps), lag)


def _draw(pairs: Pairs, path: Path) -> None:
    """Draw the reward of every task and policy by lag."""
    with figure(path, width=6.5, height=4) as (ax,):
        for task, policy in dict.fromkeys((task, policy) for task, policy, _ in pairs):
            own = [pairs[task, policy, lag] for lag in LAGS]
            shares = [
                mean_and_error([100 * b / a for a, b in zip(pair.baseline, pair.changed, strict=True)])
                for pair in own
            ]
            means, errors = [mean for mean, _ in shares], [error or 0.0 for _, error in shares]
            style = "o-" if policy == POLICIES[0] else "s--"
            ax.errorbar(range(len(LAGS)), means, errors, fmt=style, capsize=3, label=f"{task}, {policy}")
        ax.axhline(100, color="0.5", linewidth=0.8)
        ax.set(
            title="Models that lag behind", xlabel="lag in decisions", ylabel="reward, % of that without lag"
        )
        ax.set_xticks(range(len(LAGS)), [f"{lag:,}" for lag in LAGS])
        ax.legend(frameon=False, loc="lower left")
