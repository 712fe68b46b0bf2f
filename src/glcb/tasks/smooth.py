"""A synthetic task of which everything is known: the expected reward of every arm in every context."""

import numpy as np

from glcb._types import Float32, Float64, Rewards
from glcb.tasks.base import STEPS, Stream, begin
from glcb.tasks.registry import register

_ANGLES = 2 * np.pi * np.arange(3) / 3
_DIRECTIONS = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)])


@register
class Smooth:
    """Three arms pay 0 or 1; how often an arm pays 1 is a wave across the unit square of contexts.

    Contexts are uniform, and every wave has a direction of its own. The same for every seed.
    """

    name = "smooth"
    arms: tuple[int, ...] = (0, 1, 2)
    features = 2
    rewards: Rewards = "binary"

    def expected(self, contexts: Float64 | Float32) -> Float64:
        """Return Q(x, a), the expected reward: one row per context, one column per arm.

        >>> Smooth().expected(np.array([[0.5, 0.5], [0.75, 0.5]])).round(2)
        array([[0.5 , 0.5 , 0.5 ],
               [0.9 , 0.22, 0.22]])
        """
        along = (np.asarray(contexts, np.float64) - 0.5) @ _DIRECTIONS
        waves: Float64 = 0.5 + 0.4 * np.sin(2 * np.pi * along)
        return waves

    def course(self, contexts: Float64 | Float32) -> Float64:
        """Return Q(x, a) at every step of a run that meets these contexts, one row per step."""
        return self.expected(contexts)

    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``."""
        context_rng, reward_rng = begin(seed, steps, 2)
        contexts = context_rng.random((steps, self.features), np.float32)
        pays = reward_rng.random((steps, len(self.arms))) < self.course(contexts)
        return Stream(contexts, pays.astype(np.float64))
