"""Linear Thompson sampling with one model per arm (Agrawal, Goyal 2013)."""

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from glcb import _validation
from glcb._types import Arm, Float32
from glcb.policies.base import Estimates
from glcb.policies.linear.base import Linear, LinearPolicy
from glcb.policies.registry import register


@register("lints", source="Agrawal, Goyal 2013")
class LinTS(LinearPolicy):
    """Draws each arm's weights from N(A⁻¹b, ``spread``² A⁻¹) and plays the arm that looks best.

    Only z·weights matters, and that is N(z'A⁻¹b, spread² z'A⁻¹z): one draw per arm instead of one per
    weight, with the same distribution.
    """

    is_randomized = True

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        spread: float = 0.1,
        **common: Unpack[Linear],
    ) -> None:
        super().__init__(arms, features, **common)
        self.spread = _validation.number("spread", spread, 0)

    def _estimate(self, x: Float32) -> Estimates:
        means, widths = self._means_and_widths(x)
        scale = self.spread * (self._high - self._low) * np.sqrt(widths)
        bonuses = self._rng.standard_normal(len(self.arms)) * scale
        return Estimates(means, bonuses, self._pseudocounts(x, widths))

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "spread": self.spread}
