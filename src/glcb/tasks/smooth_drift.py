"""The smooth task in a world that changes little by little."""

import numpy as np

from glcb._types import Float32, Float64
from glcb.tasks.registry import register
from glcb.tasks.smooth import Smooth


@register
class SmoothDrift(Smooth):
    """As the smooth task, but from halfway on all waves turn, as slowly as the run is long.

    In the end every arm has the wave that the next one had: what the switch does at once.
    """

    name = "smooth-drift"

    def course(self, contexts: Float64 | Float32) -> Float64:
        """Return Q(x, a) at every step of a run that meets these contexts, one row per step."""
        steps = len(contexts)
        still = steps // 2
        angle = np.zeros(steps)
        angle[still:] = 2 * np.pi / len(self.arms) * np.arange(1, steps - still + 1) / (steps - still)
        x, y = (np.asarray(contexts, np.float64) - 0.5).T
        # The waves turn one way if the contexts turn the other.
        turned = [x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)]
        return self.expected(np.stack(turned, axis=1) + 0.5)
