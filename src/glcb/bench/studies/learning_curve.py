"""Learning curves on a task with known expected rewards, used by the convergence study."""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from glcb._arrays import Float32, Float64, Int64
from glcb.bench.studies.base import unit_grid
from glcb.policies.glcb.policy import GLCB
from glcb.tasks.smooth import Smooth

QUARTERS = 4
REGIONS = 4
"""The unit square of contexts is divided into REGIONS × REGIONS regions."""
_FIRST_CHECKPOINT = 100
_CHECKPOINTS_PER_DECADE = 4
_GRID = 20


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """Measurements at each checkpoint, a number of steps."""

    checkpoints: Int64
    errors: Float64
    """Mean absolute error of the values against the expected rewards, over a grid and all arms."""
    suboptimal: Float64
    """Share of decisions since the previous checkpoint that chose a sub-optimal arm."""
    regret: Float64
    """Expected regret up to the checkpoint, per step."""
    pseudocounts: Float64
    """Smallest pseudocount of any arm at any grid point."""
    decisions: Int64
    """Number of decisions by quarter of the run, region and arm."""

    @property
    def coverage(self) -> Float64:
        """Share of pairs of a region and an arm with at least one decision, in each quarter."""
        shares: Float64 = (self.decisions > 0).mean(axis=(1, 2))
        return shares


def checkpoints_up_to(steps: int) -> Int64:
    """Return checkpoints evenly spaced on a logarithmic scale, including the last step.

    >>> checkpoints_up_to(1000)
    array([ 100,  178,  316,  562, 1000])
    """
    first = min(_FIRST_CHECKPOINT, steps)
    count = 1 + round(_CHECKPOINTS_PER_DECADE * np.log10(steps / first))
    return np.unique(np.geomspace(first, steps, count).round().astype(np.int64))


def follow_policy(
    policy: GLCB, task: Smooth, seed: int, steps: int, tick: Callable[[int], None]
) -> LearningCurve:
    """Run ``policy`` on ``task``; ``tick`` is called with the number of new steps at every checkpoint."""
    return _follow(policy, task, seed, steps, lambda _, x: int(policy.decide(x).arm), tick)


def follow_round_robin(
    policy: GLCB, task: Smooth, seed: int, steps: int, tick: Callable[[int], None]
) -> LearningCurve:
    """Train ``policy`` on all arms in turn, so that it learns every arm everywhere without deciding."""
    return _follow(policy, task, seed, steps, lambda step, _: step % len(task.arms), tick)


def _follow(
    policy: GLCB,
    task: Smooth,
    seed: int,
    steps: int,
    choose: Callable[[int, Float32], int],
    tick: Callable[[int], None],
) -> LearningCurve:
    stream = task.stream(seed, steps)
    checkpoints = checkpoints_up_to(steps)
    arms = np.empty(steps, np.int64)
    measurements = []
    for start, end in zip([0, *checkpoints[:-1]], checkpoints, strict=True):
        for step in range(start, end):
            x = stream.contexts[step]
            arms[step] = arm = choose(step, x)
            policy.learn(x, arm, stream.rewards[step, arm])
        measurements.append(measure(policy, task))
        tick(int(end - start))
    errors, pseudocounts = np.array(measurements).T
    regret = regret_of(task.expected(stream.contexts), arms)
    return LearningCurve(
        checkpoints,
        errors,
        shares_between(regret > 0, checkpoints),
        np.cumsum(regret)[checkpoints - 1] / checkpoints,
        pseudocounts,
        decisions_by_quarter(stream.contexts, arms, len(task.arms)),
    )


def measure(policy: GLCB, task: Smooth) -> tuple[float, float]:
    """Return the mean of |value − Q| and the smallest pseudocount, over a grid of contexts and all arms."""
    points = unit_grid(_GRID)
    # A decision may draw a random number to break a tie, so a copy is measured.
    observed = copy.deepcopy(policy)
    decisions = [observed.decide(x) for x in points]
    distances = np.abs(np.array([d.values for d in decisions]) - task.expected(points))
    return float(distances.mean()), float(min(d.pseudocounts.min() for d in decisions))


def regret_of(expected: Float64, arms: Int64) -> Float64:
    """Return the expected regret of each decision.

    >>> regret_of(np.array([[0.5, 0.2], [0.5, 0.75]]), np.array([1, 1])).round(3)
    array([0.3, 0. ])
    """
    regret: Float64 = expected.max(axis=1) - expected[np.arange(arms.size), arms]
    return regret


def shares_between(hits: np.ndarray, checkpoints: Int64) -> Float64:
    """Return the share of ``hits`` between consecutive checkpoints, starting at step 0.

    >>> shares_between(np.array([True, True, False, True]), np.array([2, 4]))
    array([1. , 0.5])
    """
    shares: Float64 = np.diff(np.cumsum(hits)[checkpoints - 1], prepend=0) / np.diff(checkpoints, prepend=0)
    return shares


def decisions_by_quarter(contexts: Float32, arms: Int64, count: int) -> Int64:
    """Count the decisions by quarter of the run, region of the unit square and arm."""
    cells = np.minimum((contexts * REGIONS).astype(np.int64), REGIONS - 1)
    quarter = np.arange(arms.size) * QUARTERS // arms.size
    counts = np.zeros((QUARTERS, REGIONS * REGIONS, count), np.int64)
    np.add.at(counts, (quarter, cells[:, 0] * REGIONS + cells[:, 1], arms), 1)
    return counts
