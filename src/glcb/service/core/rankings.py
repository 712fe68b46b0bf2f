"""What is recorded of decisions and rankings, and how those among arms with features are answered.

Every slot of a ranking is a decision among the candidates that no slot above has. It counts as such in all
statistics: its arm is chosen given the slots above it, so that its propensity, and its lift over a random
choice among the same candidates, are exact.
"""

import numpy as np
from msgspec import Struct

from glcb._api.requests import ExperimentSettings
from glcb._arrays import Float64
from glcb.bandit.ranking import Ranking
from glcb.policies.decision import Estimates
from glcb.service.core.guard import GuardedDecision
from glcb.service.core.lift import Weights
from glcb.service.core.records import SlotRecord

NO_OUTCOME = b"{}"
"""The outcome of an event that returns nothing, such as the reward of a single decision."""
MAX_LISTED = 100
"""Answers have so many of the arms: the most likely ones, or those with the most decisions."""


class SlotRewards(Struct):
    """The outcome of a reward for a ranking: what was learned for each slot."""

    rewards: list[tuple[int, float]]
    """Slots with their rewards; default rewards are the last ones."""
    reported: int
    """Number of rewards that are not default rewards."""
    unexamined: list[int]
    """Slots from which nothing is learned."""


def has_catalog(settings: ExperimentSettings) -> bool:
    """Return whether the arms of an experiment have features."""
    return isinstance(settings.arms, dict)


def most_likely(ranking: Ranking) -> dict[str, float]:
    """Return the probability of each candidate for the first slot, or of the most likely ones."""
    names, shares = ranking.candidates, ranking.slot_probabilities[0]
    indices = np.arange(len(names))
    if len(names) > MAX_LISTED:
        likely = np.argsort(-shares, kind="stable")[:MAX_LISTED]
        chosen = names.index(ranking.arms[0])
        indices = np.sort(likely if chosen in likely else np.append(likely[:-1], chosen))
    return {str(names[index]): float(shares[index]) for index in indices}


def all_probabilities(ranking: Ranking) -> dict[str, float]:
    """Return the probability of each arm for the first slot."""
    shares = ranking.slot_probabilities[0].tolist()
    return {str(arm): share for arm, share in zip(ranking.candidates, shares, strict=True)}


def slot_record(
    arm: str,
    actual: Float64,
    estimates: Estimates,
    chosen: int,
    *,
    listed: bool,
    explored: float,
    overlap: float,
    weights: Weights | None,
    guarded: GuardedDecision | None = None,
) -> SlotRecord:
    """Return what is recorded of a slot.

    Parameters
    ----------
    arm
        The arm of the slot.
    actual
        The probabilities of the draw.
    estimates
        The estimates of all arms.
    chosen
        The index of the arm.
    listed
        Whether to record the values and probabilities of all arms. With features, there can be thousands of
        candidates; and rankings can have many slots.
    explored, overlap, weights, guarded
        See :class:`SlotRecord`.
    """
    propensity, highest = float(actual[chosen]), float(actual.max())
    if listed:
        values, probabilities = estimates.values.tolist(), actual.tolist()
    else:
        values = [float(estimates.values[chosen])]
        probabilities = [min(highest * int(np.count_nonzero(actual == highest)), 1.0)]
    is_likeliest = propensity == highest
    return SlotRecord(
        arm, propensity, explored, overlap, values, probabilities, is_likeliest, weights, guarded
    )
