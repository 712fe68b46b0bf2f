"""Estimates in units of the reward, from sums on a scale from 0 to 1: lifts and means with their intervals.

The intervals are those of :mod:`glcb.service.core.lift` and :mod:`glcb.evaluate.sequences`: valid at all
times, even if the mean changes. The
fixed-horizon intervals are the usual normal ones, valid at a single time that was chosen in advance.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import NormalDist
from typing import Any

import numpy as np

from glcb._api.statistics import ArmMean, LiftEstimate
from glcb.evaluate.sequences import boundaries
from glcb.service.core.lift import CONFIDENCE, LiftSums, intervals, missing_decisions
from glcb.service.core.sums import ArmSums, GroupRewards

Range = tuple[float, float]
"""The lowest and the highest reward, or the ends of an interval."""
_NORMAL = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


def lift_estimates(
    sums: Sequence[LiftSums],
    rewards: Range,
    confidence: float = CONFIDENCE,
    has_intervals: bool = True,
) -> list[LiftEstimate | None]:
    """Return lifts; None for each without rewards.

    Parameters
    ----------
    sums
        The sums of each lift.
    rewards
        The lowest and the highest reward.
    confidence
        The confidence level of the intervals.
    has_intervals
        Whether there are intervals.
    """
    if not any(one.n for one in sums):
        return [None] * len(sums)
    found = intervals(sums, confidence) if has_intervals else [None] * len(sums)
    return [_lift_estimate(*one, rewards, confidence) for one in zip(sums, found, strict=True)]


def _lift_estimate(
    sums: LiftSums, interval: Range | None, rewards: Range, confidence: float
) -> LiftEstimate | None:
    if not sums.n:
        return None
    low, high = rewards
    unit = high - low
    difference = sums.lift / sums.n * unit
    baseline = low + unit * min(max(sums.random / sums.n, 0.0), 1.0)
    fixed = None if interval is None else sums.fixed_interval(confidence)
    return LiftEstimate(
        n=sums.n,
        since=None if sums.since is None else datetime.fromtimestamp(sums.since, UTC),
        baseline=baseline,
        difference=difference,
        low=None if interval is None else interval[0] * unit,
        high=None if interval is None else interval[1] * unit,
        fixed_low=None if fixed is None else fixed[0] * unit,
        fixed_high=None if fixed is None else fixed[1] * unit,
        confidence=confidence,
        relative=difference / baseline if baseline and low >= 0 else None,
        extra_rewards=sums.gained() * unit,
        decisions_missing=missing_decisions(sums, interval, confidence),
    )


def arm_means(arms: Sequence[tuple[str, ArmSums, int]], rewards: Range) -> tuple[ArmMean, ...]:
    """Return the decisions and the mean reward of arms.

    Parameters
    ----------
    arms
        For each arm its name, its sums, and the number of decisions of which it has a share.
    rewards
        The lowest and the highest reward.
    """
    squares = np.array([sums.squares for _, sums, _ in arms])
    radii = boundaries(squares, np.ones(len(arms)), (1 - CONFIDENCE) / 2).tolist()
    return tuple(_arm_mean(*one, radius, rewards) for one, radius in zip(arms, radii, strict=True))


def _arm_mean(arm: str, sums: ArmSums, decisions: int, radius: float, rewards: Range) -> ArmMean:
    ends: list[float | None] = [None] * 4
    mean = sums.mean
    if mean is not None:
        wide, fixed = radius / sums.rewards, _NORMAL * sums.squares**0.5 / sums.rewards
        limits = (mean - wide, mean + wide, mean - fixed, mean + fixed)
        ends = [in_units(min(max(limit, 0.0), 1.0), rewards) for limit in limits]
    return ArmMean(
        arm=arm,
        decisions=sums.decisions,
        share=sums.decisions / decisions if decisions else 0.0,
        rewards=sums.rewards,
        reward_mean=in_units(mean, rewards),
        low=ends[0],
        high=ends[1],
        fixed_low=ends[2],
        fixed_high=ends[3],
    )


def in_units(scaled: float | None, rewards: Range) -> float | None:
    """Return a reward on a scale from 0 to 1 in units of the reward."""
    return None if scaled is None else rewards[0] + (rewards[1] - rewards[0]) * scaled


def group_fields(bandit: GroupRewards, holdout: GroupRewards) -> dict[str, Any]:
    """Return the rewards of a period, by field."""
    return {
        "rewards": bandit.n + holdout.n,
        "bandit_n": bandit.n,
        "bandit_mean": bandit.mean,
        "holdout_n": holdout.n,
        "holdout_mean": holdout.mean,
    }
