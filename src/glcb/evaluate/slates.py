"""Off-policy estimators for rankings, from the conditional propensities of their slots.

The propensity of a slot is conditional on the slots above it, as :meth:`glcb.Bandit.rank` logs it. All arrays
have one row per ranking and one column per slot; ``logged`` and ``target`` hold the probability of the shown
arm under the logging policy and under the one to evaluate. Every function returns one term per ranking, whose
mean is the estimate.
"""

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


def _ratios(logged: Float64, target: Float64) -> Float64:
    if logged.shape != target.shape or logged.ndim != 2:
        raise InvalidInput(
            f"logged and target must have the shape (rankings, slots), got {logged.shape} and {target.shape}"
        )
    if not (logged > 0).all():
        raise InvalidInput("every logged propensity must be positive")
    return target / logged
