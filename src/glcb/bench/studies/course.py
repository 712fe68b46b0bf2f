"""The course of learning on a task whose expected rewards are known, measured along the way."""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from glcb._types import Float32, Float64, Int64
from glcb.bench.studies.square import grid
from glcb.policies.glcb.policy import GLCB
from glcb.tasks.smooth import Smooth

QUARTERS = 4
REGIONS = 4
"""The square of contexts is cut into this many by this many regions."""
_FIRST_MARK = 100
_MARKS_PER_DECADE = 4
_GRID = 20


@dataclass(frozen=True, eq=False)
class Course:
    """How far the policy had come at each mark, a number of steps."""

    marks: Int64
    errors: Float64
    """Mean distance of the values from the true expected rewards, over a grid of contexts and all arms."""
    suboptimal: Float64
    """Share of plays since the mark before that went to an arm that is not the best."""
    regret: Float64
    """Expected reward lost up to the mark, per step."""
    pseudocounts: Float64
    """Smallest pseudocount of any arm in any context of the grid."""
    plays: Int64
    """Plays in each quarter of the run, in each region, of each arm."""

    @property
    def tried(self) -> Float64:
        """Share of all pairs of a region and an arm that were played at all, in each quarter."""
        shares: Float64 = (self.plays > 0).mean(axis=(1, 2))
        return shares


def marks_up_to(steps: int) -> Int64:
    """Return where to measure: evenly on a logarithmic scale, the last step included.

    >>> marks_up_to(1000)
    array([ 100,  178,  316,  562, 1000])
    """
    first = min(_FIRST_MARK, steps)
    count = 1 + round(_MARKS_PER_DECADE * np.log10(steps / first))
    return np.unique(np.geomspace(first, steps, count).round().astype(np.int64))


def bandit_course(policy: GLCB, task: Smooth, seed: int, steps: int, tick: Callable[[int], None]) -> Course:
    """Let ``policy`` play for itself; ``tick`` hears of steps done, at every mark."""
    return _follow(policy, task, seed, steps, lambda _, x: int(policy.decide(x).arm), tick)


def taught_course(policy: GLCB, task: Smooth, seed: int, steps: int, tick: Callable[[int], None]) -> Course:
    """Teach ``policy`` all arms in turn, so that it learns every arm everywhere; it decides nothing."""
    return _follow(policy, task, seed, steps, lambda step, _: step % len(task.arms), tick)


def _follow(
    policy: GLCB,
    task: Smooth,
    seed: int,
    steps: int,
    choose: Callable[[int, Float32], int],
    tick: Callable[[int], None],
) -> Course:
    stream = task.stream(seed, steps)
    marks = marks_up_to(steps)
    arms = np.empty(steps, np.int64)
    seen = []
    for start, end in zip([0, *marks[:-1]], marks, strict=True):
        for step in range(start, end):
            x = stream.contexts[step]
            arms[step] = arm = choose(step, x)
            policy.learn(x, arm, stream.rewards[step, arm])
        seen.append(look(policy, task))
        tick(int(end - start))
    errors, pseudocounts = np.array(seen).T
    lost = regret_of(task.expected(stream.contexts), arms)
    return Course(
        marks,
        errors,
        shares_between(lost > 0, marks),
        np.cumsum(lost)[marks - 1] / marks,
        pseudocounts,
        plays_by_quarter(stream.contexts, arms, len(task.arms)),
    )


def look(policy: GLCB, task: Smooth) -> tuple[float, float]:
    """Return the mean of |value − Q| and the smallest pseudocount, over a grid of contexts and all arms."""
    points = grid(_GRID)
    # A decision may draw a random number to break a tie: a copy is asked, so that looking changes nothing.
    observed = copy.deepcopy(policy)
    decisions = [observed.decide(x) for x in points]
    distances = np.abs(np.array([d.values for d in decisions]) - task.expected(points))
    return float(distances.mean()), float(min(d.pseudocounts.min() for d in decisions))


def regret_of(expected: Float64, arms: Int64) -> Float64:
    """Return how much each play lost against the best arm of its step, in expectation.

    >>> regret_of(np.array([[0.5, 0.2], [0.5, 0.75]]), np.array([1, 1])).round(3)
    array([0.3, 0. ])
    """
    lost: Float64 = expected.max(axis=1) - expected[np.arange(arms.size), arms]
    return lost


def shares_between(hits: np.ndarray, marks: Int64) -> Float64:
    """Return the share of ``hits`` from each mark to the next, the first counted from the start.

    >>> shares_between(np.array([True, True, False, True]), np.array([2, 4]))
    array([1. , 0.5])
    """
    shares: Float64 = np.diff(np.cumsum(hits)[marks - 1], prepend=0) / np.diff(marks, prepend=0)
    return shares


def plays_by_quarter(contexts: Float32, arms: Int64, count: int) -> Int64:
    """Count the plays in each quarter of the run, in each region of the unit square, of each arm."""
    cells = np.minimum((contexts * REGIONS).astype(np.int64), REGIONS - 1)
    quarter = np.arange(arms.size) * QUARTERS // arms.size
    plays = np.zeros((QUARTERS, REGIONS * REGIONS, count), np.int64)
    np.add.at(plays, (quarter, cells[:, 0] * REGIONS + cells[:, 1], arms), 1)
    return plays
