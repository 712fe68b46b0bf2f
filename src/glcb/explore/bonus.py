"""The bonus of an arm that was tried little on contexts like this one."""

import math

import numpy as np

from glcb._compile import kernel
from glcb._types import Float64


def bonus(pseudocounts: Float64, step: int, scale: float | Float64) -> Float64:
    """Return C·√(ln t / N̂) for each arm, infinite where nothing was counted; C may differ between arms.

    >>> bonus(np.array([0.0, 1.0, 4.0]), step=10, scale=0.5).round(3)
    array([  inf, 0.759, 0.379])
    """
    scales = scale if isinstance(scale, np.ndarray) else np.full(pseudocounts.size, scale)
    bonuses = np.empty(pseudocounts.size)
    write_bonuses(pseudocounts, step, scales, bonuses)
    return bonuses


@kernel
def write_bonuses(pseudocounts: Float64, step: int, scales: Float64, bonuses: Float64) -> None:
    """Write the bonus of each arm."""
    log_step = math.log(step)
    for arm in range(bonuses.size):
        untried = pseudocounts[arm] == 0
        bonuses[arm] = np.inf if untried else scales[arm] * math.sqrt(log_step / pseudocounts[arm])
