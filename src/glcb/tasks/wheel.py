"""The wheel bandit (Riquelme, Tucker, Snoek 2018): a large reward at the rim of a disk."""

import numpy as np

from glcb._arrays import Float64
from glcb._errors import InvalidSettings
from glcb._types import Rewards
from glcb.tasks.base import STEPS, Stream, min_max, stream_generators
from glcb.tasks.registry import register


@register
class Wheel:
    """Contexts are uniform in the unit disk. Arms 0 to 3 pay a little, arm 4 slightly more.

    Outside the radius ``delta``, the arm of the quadrant pays fifty times as much: (+, +) is arm 0, (+, −)
    arm 1, (−, +) arm 2, (−, −) arm 3. The whole table of rewards is then scaled to [0, 10].

    Parameters
    ----------
    delta : float
        The radius, between 0 and 1.

    Raises
    ------
    InvalidSettings
        If ``delta`` is not between 0 and 1.

    Examples
    --------
    >>> Wheel(delta=0.9).stream(seed=0, steps=10).contexts.shape
    (10, 2)
    """

    name = "wheel"
    arms = (0, 1, 2, 3, 4)
    features = 2
    rewards: Rewards = (0.0, 10.0)

    def __init__(self, delta: float = 0.95) -> None:
        if not 0 < delta < 1:
            raise InvalidSettings(f"delta must be a number between 0 and 1, got {delta!r}")
        self.delta = delta

    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``.

        Parameters
        ----------
        seed : int
            Seed of the stream, at least 0.
        steps : int
            Number of steps, at least 1.

        Returns
        -------
        Stream
            The contexts, and the reward of every arm.
        """
        (rng,) = stream_generators(seed, steps, 1)
        angle = rng.uniform(0, 2 * np.pi, steps)
        radius = np.sqrt(rng.uniform(0, 1, steps))
        points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        table: Float64 = rng.normal([1.0, 1.0, 1.0, 1.0, 1.2], 0.05, (steps, 5))
        outside = np.flatnonzero(radius >= self.delta)
        quadrant = 2 * (points[outside, 0] < 0) + (points[outside, 1] < 0)
        table[outside, quadrant] = rng.normal(50.0, 0.01, outside.size)
        low, high = table.min(), table.max()
        return Stream(min_max((points + 1) / 2), 10 * (table - low) / (high - low))

    def sketch(self) -> str:
        """Draw the best arm at each point of the disk.

        Returns
        -------
        str
            The lines of the drawing.
        """
        heights = np.linspace(0.99, -0.99, 23)
        return "\n".join(
            "".join(map(self._mark, np.linspace(-0.99, 0.99, 47), [y] * 47)).rstrip() for y in heights
        )

    def _mark(self, x: float, y: float) -> str:
        radius = float(np.hypot(x, y))
        if radius > 1:
            return " "
        return str(2 * int(x < 0) + int(y < 0)) if radius >= self.delta else "·"
