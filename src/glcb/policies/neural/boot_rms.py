"""Thompson sampling from a bootstrap of three neural networks (Osband, Blundell, Pritzel, Van Roy 2016)."""

import numpy as np

from glcb._arrays import Float32
from glcb.policies.neural import network
from glcb.policies.neural.base import NeuralPolicy
from glcb.policies.registry import register

SHARE = 0.95


@register("bootrms", source="Osband, Blundell, Pritzel, Van Roy 2016, as in Riquelme, Tucker, Snoek 2018")
class BootRMS(NeuralPolicy):
    """Trains three networks, each on 95% of the data, and chooses the best arm of a random network.

    Parameters
    ----------
    arms, features, rewards, seed
        See :class:`~glcb.policies.base.Policy`.

    References
    ----------
    Osband, Blundell, Pritzel, Van Roy: Deep exploration via bootstrapped DQN. NeurIPS, 2016.
    """

    is_randomized = True
    network_count = 3

    def _predict(self, x: Float32) -> tuple[Float32, Float32]:
        values: Float32 = np.stack([network.values(net.weights, x) for net in self._networks])
        return values.mean(axis=0), values[self._rng.integers(self.network_count)]

    def _store(self, x: Float32, arm: int, reward: float, rng: np.random.Generator) -> None:
        for net in self._networks:
            # All networks store the first reward, so that none is trained without data.
            if rng.random() < SHARE or self.updates == 0:
                net.data.add(x, arm, reward)
