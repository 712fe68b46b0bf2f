"""Thompson sampling from a bootstrap of three neural networks (Osband, Blundell, Pritzel, Van Roy 2016)."""

import numpy as np

from glcb._types import Float32
from glcb.policies.neural import network
from glcb.policies.neural.base import NeuralPolicy
from glcb.policies.registry import register

SHARE = 0.95


@register("bootrms", source="Osband, Blundell, Pritzel, Van Roy 2016, as in Riquelme, Tucker, Snoek 2018")
class BootRMS(NeuralPolicy):
    """Three networks, each with most of the data; one of them, drawn anew every time, decides."""

    is_randomized = True
    networks = 3

    def _predict(self, x: Float32) -> tuple[Float32, Float32]:
        values: Float32 = np.stack([network.values(net.weights, x) for net in self._networks])
        return values.mean(axis=0), values[self._rng.integers(self.networks)]

    def _store(self, x: Float32, arm: int, reward: float, rng: np.random.Generator) -> None:
        for net in self._networks:
            # The first point goes to all, so that nobody ever trains on nothing.
            if rng.random() < SHARE or self.updates == 0:
                net.data.add(x, arm, reward)
