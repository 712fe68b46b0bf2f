"""The smooth task in a world in which something new turns up."""

from typing import ClassVar

import numpy as np

from glcb._types import Float32, Float64
from glcb.tasks.registry import register
from glcb.tasks.smooth import Smooth


@register
class SmoothNewcomer(Smooth):
    """As the smooth task with a fourth arm: worthless at first, from halfway on better than all others.

    The arm is there from the start, and whoever tries it early learns to leave it alone. So this is harder
    than an arm that is added later, which nobody has an opinion of.
    """

    name = "smooth-newcomer"
    arms = (0, 1, 2, 3)
    pays: ClassVar[tuple[float, float]] = (0.05, 0.95)
    """How often the fourth arm pays 1, in the first half and in the second."""

    def course(self, contexts: Float64 | Float32) -> Float64:
        """Return Q(x, a) at every step of a run that meets these contexts, one row per step."""
        waves = self.expected(contexts)
        newcomer = np.where(np.arange(len(waves)) < len(waves) // 2, *self.pays)
        return np.column_stack([waves, newcomer])
