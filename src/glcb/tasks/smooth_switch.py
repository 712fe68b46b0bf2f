"""The smooth task in a world that changes at once."""

import numpy as np

from glcb._types import Float32, Float64
from glcb.tasks.registry import register
from glcb.tasks.smooth import Smooth


@register
class SmoothSwitch(Smooth):
    """As the smooth task, but halfway every arm takes over the wave of the next.

    So the best arm of every context is another one from then on, and as good as the old one was.
    """

    name = "smooth-switch"

    def course(self, contexts: Float64 | Float32) -> Float64:
        """Return Q(x, a) at every step of a run that meets these contexts, one row per step."""
        expected = self.expected(contexts)
        later = expected[len(expected) // 2 :]
        later[:] = np.roll(later, -1, axis=1)
        return expected
