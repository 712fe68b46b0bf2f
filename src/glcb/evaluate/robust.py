"""Confidence sequences of doubly robust terms.

A doubly robust term, expected + w (reward − predicted), has the right mean for any predictions, as
long as the model was fitted on earlier rows. An empirical Bernstein bound also needs to know how far below
the mean a term can be, and a large weight times a prediction has no such bound. So the predictions are capped
at k p / π(a | x), where p is the smallest propensity of the logging policy: then w × prediction is at most k,
and the capped predictions are just another model (Waudby-Smith, Wu, Ramdas, Karampatziakis and Mineiro,
*Anytime-valid off-policy inference for contextual bandits*, 2022). The cap k grows with the variance observed
so far, so that it costs little in the bound and ever less in precision.

The upper bound uses the same terms with the loss, 1 − reward.
"""

import numpy as np

from glcb._arrays import Arrays, Float64, Int64, copy_into
from glcb.evaluate.sequences import LowerSequence

_VARIANCE_PER_CAP = 0.3
"""A cap of k needs a sum of squared errors of this number × k²."""


def caps(errors: Float64, before: Float64, min_propensity: float) -> Float64:
    """Return the cap of each row, which depends only on earlier rows.

    Parameters
    ----------
    errors
        The squared weighted errors of the model, one row per decision.
    before
        Their sum over earlier rows.
    min_propensity
        The smallest propensity of the logging policy.
    """
    sums = before + np.cumsum(errors, axis=0) - errors
    limited: Float64 = np.clip(np.sqrt(np.maximum(sums, 0.0) / _VARIANCE_PER_CAP), 1.0, 1 / min_propensity)
    return limited


def robust_terms(
    outcome: Float64,
    arm: Int64,
    weight: Float64,
    shares: Float64,
    predictions: Float64,
    limits: Float64,
) -> Float64:
    """Return the doubly robust terms of one policy, with capped predictions.

    Parameters
    ----------
    outcome
        The rewards, or 1 − the rewards.
    arm
        The index of the logged arm.
    weight
        The weight of each row.
    shares
        The probability of each arm in each row under the policy.
    predictions
        The predicted outcome of each arm in each row, from 0 to 1.
    limits
        The cap of each row × the smallest propensity.

    Examples
    --------
    >>> one, shares = np.ones(1), np.array([[1.0, 0.0]])
    >>> robust_terms(one, np.array([0]), 2 * one, shares, np.array([[0.75, 0.5]]), one)
    array([1.25])
    >>> robust_terms(one, np.array([0]), 2 * one, shares, np.array([[0.75, 0.5]]), 0.5 * one)
    array([1.5])
    """
    with np.errstate(divide="ignore"):
        capped = np.minimum(predictions, limits[:, None] / shares)
    terms: Float64 = (shares * capped).sum(axis=1) + weight * (outcome - capped[np.arange(len(arm)), arm])
    return terms


class RobustSequence:
    """Confidence sequences of the values of policies, and of their differences from the reference.

    The first policy is the one that wrote the log; its rewards are known.

    Parameters
    ----------
    policies : int
        Number of policies.
    reference : int
        The policy that differences are relative to.
    min_propensity : float
        The smallest propensity of the logging policy.
    """

    def __init__(self, policies: int, reference: int, min_propensity: float) -> None:
        self._reference, self._min_propensity = reference, min_propensity
        self._squares = np.zeros(policies)
        self._values = LowerSequence(2 * policies)
        self._differences = LowerSequence(2 * policies, largest=2.0)

    def add(
        self,
        reward: Float64,
        arm: Int64,
        weight: Float64,
        shares: list[Float64],
        predictions: Float64,
    ) -> None:
        """Add rows.

        Parameters
        ----------
        reward
            The rewards, from 0 to 1.
        arm
            The index of the logged arm.
        weight
            The weights, one column per policy.
        shares
            For each policy but the first, the probability of each arm in each row.
        predictions
            The predicted reward of each arm in each row, from 0 to 1.
        """
        predicted = predictions[np.arange(len(arm)), arm]
        errors = (weight * (reward - predicted)[:, None]) ** 2
        depths = caps(errors, self._squares, self._min_propensity)
        depths[:, 0] = 0.0
        self._squares = self._squares + errors.sum(axis=0)
        gains, losses = [reward], [1 - reward]
        for policy, own in enumerate(shares, 1):
            limits = depths[:, policy] * self._min_propensity
            gains.append(robust_terms(reward, arm, weight[:, policy], own, predictions, limits))
            losses.append(robust_terms(1 - reward, arm, weight[:, policy], own, 1 - predictions, limits))
        gain, loss = np.column_stack(gains), np.column_stack(losses)
        reference = [self._reference]
        self._values.add(np.hstack([gain, loss]), np.hstack([depths, depths]))
        both = depths + depths[:, reference]
        self._differences.add(
            np.hstack([gain + loss[:, reference], loss + gain[:, reference]]), np.hstack([both, both])
        )

    def bounds(self, error: float) -> tuple[Float64, Float64]:
        """Return the lower and upper bound of each value, each with at most this error probability."""
        low, high = np.split(self._values.bounds(error), 2)
        return low, 1 - high

    def difference_bounds(self, error: float) -> tuple[Float64, Float64]:
        """Return the bounds of the differences."""
        # The series have the means 1 + difference and 1 − difference.
        above, below = np.split(self._differences.bounds(error), 2)
        return above - 1, 1 - below

    def snapshot(self) -> Arrays:
        """Return the state."""
        parts = {"values": self._values, "differences": self._differences}
        own = {
            f"{name}.{key}": array for name, part in parts.items() for key, array in part.snapshot().items()
        }
        return {"squares": self._squares, **own}

    def restore(self, arrays: Arrays) -> None:
        """Restore a snapshot."""
        copy_into(self.snapshot(), arrays)
