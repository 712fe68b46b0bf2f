"""Off-policy estimators for rankings, from the conditional propensities of their slots.

The propensity of a slot is conditional on the slots above it, as :meth:`glcb.Bandit.rank` logs it. All arrays
have one row per ranking and one column per slot; ``logged`` and ``target`` hold the probability of the shown
arm under the logging policy and under the one to evaluate. Every function returns one term per ranking, whose
mean is the estimate.
"""

from typing import NamedTuple

import numpy as np

from glcb._arrays import Float64
from glcb._errors import InvalidInput


def slate_ips(reward: Float64, logged: Float64, target: Float64) -> Float64:
    """Return the terms of standard IPS for one reward per ranking: the weights of all slots are multiplied.

    Examples
    --------
    >>> slate_ips(np.array([1.0]), np.array([[0.5, 0.5]]), np.array([[1.0, 0.75]]))
    array([3.])
    """
    terms: Float64 = reward * np.prod(_ratios(logged, target), axis=1)
    return terms


def reward_interaction_ips(rewards: Float64, logged: Float64, target: Float64) -> Float64:
    """Return the terms of reward-interaction IPS for one reward per slot.

    The reward of a slot may depend on the slots above it, not on those below, so it is weighted by the slots
    down to its own only (McInerney et al., *Counterfactual evaluation of slate recommendations with
    sequential reward interactions*, KDD 2020). The weights are much smaller than those of standard IPS.

    Examples
    --------
    >>> rewards = np.array([[1.0, 1.0]])
    >>> reward_interaction_ips(rewards, np.array([[0.5, 0.5]]), np.array([[1.0, 0.75]]))
    array([5.])
    """
    terms: Float64 = (rewards * np.cumprod(_ratios(logged, target), axis=1)).sum(axis=1)
    return terms


def independent_ips(rewards: Float64, logged: Float64, target: Float64) -> Float64:
    """Return the terms of independent IPS: each slot is weighted by its own *marginal* propensity.

    It assumes that the reward of a slot depends on nothing but its own arm. Conditional propensities do not
    give marginal ones; for small rankings sum over all rankings, else estimate them by simulation.

    Examples
    --------
    >>> rewards = np.array([[1.0, 1.0]])
    >>> independent_ips(rewards, np.array([[0.5, 0.25]]), np.array([[1.0, 0.75]]))
    array([5.])
    """
    terms: Float64 = (rewards * _ratios(logged, target)).sum(axis=1)
    return terms


class SlotRows(NamedTuple):
    """The slots of rankings, for several policies. Slots that a ranking does not have get the weight 1."""

    rewards: Float64
    """One row per ranking, one column per slot."""
    logged: Float64
    """The propensities, with the same shape."""
    target: Float64
    """The probabilities of the logged arms; the last axis is the policy."""
    logged_marginal: Float64 | None = None
    """The marginal propensities, for independent IPS only."""
    target_marginal: Float64 | None = None

    def reward_interaction(self, rewards: Float64 | None = None) -> Float64:
        """Return the terms of reward-interaction IPS, one column per policy."""
        own = self.rewards if rewards is None else rewards
        policies = np.moveaxis(self.target, -1, 0)
        return np.column_stack([reward_interaction_ips(own, self.logged, target) for target in policies])

    def independent(self) -> Float64:
        """Return the terms of independent IPS, one column per policy."""
        assert self.logged_marginal is not None  # computed if the estimator is used
        assert self.target_marginal is not None
        policies = np.moveaxis(self.target_marginal, -1, 0)
        return np.column_stack(
            [independent_ips(self.rewards, self.logged_marginal, target) for target in policies]
        )


def _ratios(logged: Float64, target: Float64) -> Float64:
    if logged.shape != target.shape or logged.ndim != 2:
        raise InvalidInput(
            f"logged and target must have the shape (rankings, slots), got {logged.shape} and {target.shape}"
        )
    if not (logged > 0).all():
        raise InvalidInput("every logged propensity must be positive")
    return target / logged
