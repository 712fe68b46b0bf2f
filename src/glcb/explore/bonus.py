"""The bonus of an arm that was tried little on contexts like this one."""

import math

import numpy as np

from glcb._types import Float64


def bonus(pseudocounts: Float64, step: int, scale: float | Float64) -> Float64:
    """Return C·√(ln t / N̂) for each arm, infinite where nothing was counted; C may differ between arms.

    >>> bonus(np.array([0.0, 1.0, 4.0]), step=10, scale=0.5).round(3)
    array([  inf, 0.759, 0.379])
    """
    squares: Float64 = np.full(pseudocounts.shape, np.inf)
    np.divide(scale * scale * math.log(step), pseudocounts, out=squares, where=pseudocounts > 0)
    bonuses: Float64 = np.sqrt(squares)
    return bonuses
