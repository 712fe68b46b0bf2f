"""Synthetic tasks with smooth, non-linear, exactly known expected rewards; three of them change halfway."""

from typing import ClassVar

import numpy as np

from glcb._arrays import Float32, Float64
from glcb._types import Rewards
from glcb.tasks.base import STEPS, Stream, stream_generators
from glcb.tasks.registry import register

_ANGLES = 2 * np.pi * np.arange(3) / 3
_DIRECTIONS = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)])


@register
class Smooth:
    """Three arms pay 0 or 1. The probability of a 1 is a sine wave over the unit square of contexts.

    Contexts are uniform. Each arm's wave has its own direction, and the waves are the same for every seed.
    """

    name = "smooth"
    arms: tuple[int, ...] = (0, 1, 2)
    features = 2
    rewards: Rewards = "binary"

    def expected(self, contexts: Float64 | Float32) -> Float64:
        """Return the expected reward Q(x, a) before any change: one row per context, one column per arm.

        >>> Smooth().expected(np.array([[0.5, 0.5], [0.75, 0.5]])).round(2)
        array([[0.5 , 0.5 , 0.5 ],
               [0.9 , 0.22, 0.22]])
        """
        along = (np.asarray(contexts, np.float64) - 0.5) @ _DIRECTIONS
        waves: Float64 = 0.5 + 0.4 * np.sin(2 * np.pi * along)
        return waves

    def expected_over_time(self, contexts: Float64 | Float32) -> Float64:
        """Return the expected rewards of a run with these contexts, one row per step."""
        return self.expected(contexts)

    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``."""
        context_rng, reward_rng = stream_generators(seed, steps, 2)
        contexts = context_rng.random((steps, self.features), np.float32)
        pays = reward_rng.random((steps, len(self.arms))) < self.expected_over_time(contexts)
        return Stream(contexts, pays.astype(np.float64))


@register
class SmoothSwitch(Smooth):
    """Like the smooth task, but halfway through, each arm takes over the wave of the next arm.

    From then on, a different arm is best in every context, with the same expected reward as the old one.
    """

    name = "smooth-switch"

    def expected_over_time(self, contexts: Float64 | Float32) -> Float64:
        """Return the expected rewards of a run with these contexts, one row per step."""
        expected = self.expected(contexts)
        later = expected[len(expected) // 2 :]
        later[:] = np.roll(later, -1, axis=1)
        return expected


@register
class SmoothDrift(Smooth):
    """Like the smooth task, but from halfway on, all waves rotate slowly until the end of the run.

    At the end, each arm has the wave that the next arm had at the start, as after the switch.
    """

    name = "smooth-drift"

    def expected_over_time(self, contexts: Float64 | Float32) -> Float64:
        """Return the expected rewards of a run with these contexts, one row per step."""
        steps = len(contexts)
        still = steps // 2
        angle = np.zeros(steps)
        angle[still:] = 2 * np.pi / len(self.arms) * np.arange(1, steps - still + 1) / (steps - still)
        x, y = (np.asarray(contexts, np.float64) - 0.5).T
        # Rotating the waves one way is rotating the contexts the other way.
        rotated = [x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)]
        return self.expected(np.stack(rotated, axis=1) + 0.5)


@register
class SmoothNewcomer(Smooth):
    """Like the smooth task, with a fourth arm that is worthless at first and the best from halfway on.

    The arm exists from the start, so a policy first learns to avoid it. That is harder than adding
    an arm later, for which the policy has no estimate yet.
    """

    name = "smooth-newcomer"
    arms = (0, 1, 2, 3)
    pays: ClassVar[tuple[float, float]] = (0.05, 0.95)
    """Expected reward of the fourth arm in the first and in the second half."""

    def expected_over_time(self, contexts: Float64 | Float32) -> Float64:
        """Return the expected rewards of a run with these contexts, one row per step."""
        waves = self.expected(contexts)
        newcomer = np.where(np.arange(len(waves)) < len(waves) // 2, *self.pays)
        return np.column_stack([waves, newcomer])
