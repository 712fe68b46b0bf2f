"""The initial rounds of the Deep Bayesian Bandits library (Riquelme, Tucker, Snoek 2018)."""

import numpy as np

from glcb._arrays import Float64

INITIAL_ROUNDS = 2


def force_initial_rounds(bonuses: Float64, decisions: int) -> Float64:
    """Set the bonus of the next arm of the initial rounds to infinity, in place.

    >>> force_initial_rounds(np.array([0.5, 0.2]), decisions=1)
    array([0.5, inf])
    >>> force_initial_rounds(np.array([0.5, 0.2]), decisions=4)
    array([0.5, 0.2])
    """
    if decisions < INITIAL_ROUNDS * bonuses.size:
        bonuses[decisions % bonuses.size] = np.inf
    return bonuses
