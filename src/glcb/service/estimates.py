"""Estimates of lifts and means in units of the reward, from sums on a scale from 0 to 1."""

from collections.abc import Sequence

from glcb._api.statistics import ArmMean, LiftEstimate
from glcb.service.core.history import ArmSums, MeanInterval, mean_intervals
from glcb.service.lift import CONFIDENCE, LiftSums

Range = tuple[float, float]
"""The lowest and the highest reward, or the ends of an interval."""


def lift_estimate(
    sums: LiftSums,
    interval: Range | None,
    rewards: Range,
    confidence: float = CONFIDENCE,
) -> LiftEstimate | None:
    """Return a lift; None without rewards.

    Parameters
    ----------
    sums
        Its sums.
    interval
        Its interval that is valid at all times, on a scale from 0 to 1.
    rewards
        The lowest and the highest reward.
    confidence
        The confidence level of the interval.
    """
    if not sums.n:
        return None
    low, high = rewards
    unit = high - low
    difference = sums.lift / sums.n * unit
    baseline = low + unit * min(max(sums.random / sums.n, 0.0), 1.0)
    fixed = None if interval is None else sums.fixed_interval(confidence)
    return LiftEstimate(
        n=sums.n,
        baseline=baseline,
        difference=difference,
        low=None if interval is None else interval[0] * unit,
        high=None if interval is None else interval[1] * unit,
        fixed_low=None if fixed is None else fixed[0] * unit,
        fixed_high=None if fixed is None else fixed[1] * unit,
        confidence=confidence,
        relative=difference / baseline if baseline and low >= 0 else None,
        extra_rewards=sums.gained() * unit,
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
    found = mean_intervals([sums for _, sums, _ in arms])
    return tuple(
        _arm_mean(arm, sums, mean, decisions, rewards)
        for (arm, sums, decisions), mean in zip(arms, found, strict=True)
    )


def _arm_mean(arm: str, sums: ArmSums, found: MeanInterval | None, decisions: int, rewards: Range) -> ArmMean:
    mean, low, high, fixed_low, fixed_high = in_units(found, rewards)
    return ArmMean(
        arm=arm,
        decisions=sums.decisions,
        share=sums.decisions / decisions if decisions else 0.0,
        rewards=sums.rewards,
        reward_mean=mean,
        low=low,
        high=high,
        fixed_low=fixed_low,
        fixed_high=fixed_high,
    )


def in_units(found: MeanInterval | None, rewards: Range) -> tuple[float | None, ...]:
    """Return a mean and the ends of its intervals, in units of the reward; None for each without rewards."""
    if found is None:
        return (None,) * 5
    low, high = rewards
    scaled = (found.mean, found.low, found.high, found.fixed_low, found.fixed_high)
    return tuple(low + (high - low) * value for value in scaled)
