"""The kernels of ridge regression: predictions of all arms, and a rank-one update of one arm.

Sums run over one arm at a time, so that an arm's estimates do not depend on the other arms.
"""

from glcb._arrays import Float64
from glcb._numba.compile import kernel


@kernel
def _dot(a: Float64, b: Float64, size: int) -> float:
    total = 0.0
    for i in range(size):
        total += a[i] * b[i]
    return total


@kernel
def means_and_widths(
    weights: Float64, inverses: Float64, z: Float64, means: Float64, widths: Float64
) -> None:
    """Write w·z and z'A⁻¹z of each arm. Half of the symmetric inverse is read, in rows where z is not 0."""
    arms, size = weights.shape
    for arm in range(arms):
        means[arm] = _dot(weights[arm], z, size)
        inverse = inverses[arm]
        width = 0.0
        for i in range(size):
            if z[i] != 0:
                width += z[i] * (inverse[i, i] * z[i] + 2 * _dot(inverse[i], z, i))
        widths[arm] = width


@kernel
def add_observation(
    inverse: Float64, moment: Float64, weights: Float64, z: Float64, target: float, gain: Float64
) -> None:
    """Add z z' to the matrix behind ``inverse`` (Sherman–Morrison), and update the weights."""
    size = z.size
    for i in range(size):
        gain[i] = _dot(inverse[i], z, size)
    scale = 1 / (1 + _dot(gain, z, size))
    for i in range(size):
        factor = scale * gain[i]
        for k in range(size):
            inverse[i, k] -= factor * gain[k]
        moment[i] += target * z[i]
    for i in range(size):
        weights[i] = _dot(inverse[i], moment, size)
