"""The bonus of an arm that was tried little on contexts like this one."""

import math

import numpy as np

from glcb._numba.compile import kernel
from glcb._types import Float64


def bonus(pseudocounts: Float64, step: int, scale: float) -> Float64:
    """Return C·√(ln t / N̂) for each arm, infinite where nothing was counted.

    >>> bonus(np.array([0.0, 1.0, 4.0]), step=10, scale=0.5).round(3)
    array([  inf, 0.759, 0.379])
    """
    bonuses = np.empty(pseudocounts.size)
    write_bonuses(pseudocounts, step, np.full(pseudocounts.size, scale), bonuses)
    return bonuses


@kernel
def write_bonuses(pseudocounts: Float64, step: int, scales: Float64, bonuses: Float64) -> None:
    """Write the bonus of each arm; every arm has a C of its own here."""
    log_step = math.log(step)
    for arm in range(bonuses.size):
        untried = pseudocounts[arm] == 0
        bonuses[arm] = np.inf if untried else scales[arm] * math.sqrt(log_step / pseudocounts[arm])
