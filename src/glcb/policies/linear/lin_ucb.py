"""LinUCB with one model per arm (Li, Chu, Langford, Schapire 2010)."""

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from glcb import _validation
from glcb._types import Arm, Float32
from glcb.policies.base import Estimates
from glcb.policies.linear.base import Linear, LinearPolicy
from glcb.policies.registry import register


@register("linucb", source="Li, Chu, Langford, Schapire 2010")
class LinUCB(LinearPolicy):
    """Linear value plus ``alpha`` · √(z'A⁻¹z), scaled to the range of the rewards."""

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        alpha: float = 0.25,
        **common: Unpack[Linear],
    ) -> None:
        super().__init__(arms, features, **common)
        self.alpha = _validation.number("alpha", alpha, 0)

    def _estimate(self, x: Float32) -> Estimates:
        means, widths = self._means_and_widths(x)
        bonuses = self.alpha * (self._high - self._low) * np.sqrt(widths)
        return Estimates(means, bonuses, self._pseudocounts(x, widths))

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "alpha": self.alpha}
