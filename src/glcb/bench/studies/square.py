"""The unit square, where studies look at every point."""

import numpy as np

from glcb._types import Float32


def grid(resolution: int) -> Float32:
    """Return ``resolution`` by ``resolution`` points, evenly spread, row by row.

    >>> grid(2).tolist()
    [[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]]
    """
    side = ((np.arange(resolution) + 0.5) / resolution).astype(np.float32)
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
