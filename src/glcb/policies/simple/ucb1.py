"""UCB1 (Auer, Cesa-Bianchi, Fischer 2002), blind to the context."""

import math

from glcb._types import Float32
from glcb.explore import bonus
from glcb.policies.base import Estimates
from glcb.policies.registry import register
from glcb.policies.simple.means import MeanPolicy


@register("ucb1", source="Auer, Cesa-Bianchi, Fischer 2002")
class UCB1(MeanPolicy):
    """Mean reward plus √(2 ln t / n), scaled to the range of the rewards."""

    def _estimate(self, x: Float32) -> Estimates:
        tried = self._tried.astype(float)
        scale = math.sqrt(2) * (self._high - self._low)
        return Estimates(self._means.copy(), bonus(tried, self._turns + 1, scale), tried)
