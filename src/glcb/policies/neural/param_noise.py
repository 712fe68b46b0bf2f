"""Exploration by noise on the weights of a neural network (Plappert et al. 2018)."""

import math
from collections.abc import Sequence

import numpy as np

from glcb._arrays import Arrays, Float32, Float64, copy_into
from glcb._types import Arm, Rewards
from glcb.policies.neural import network
from glcb.policies.neural.base import NeuralPolicy
from glcb.policies.neural.network import Weights
from glcb.policies.registry import register

INITIAL_NOISE = 0.05
INITIAL_EPSILON = 0.1
EPSILON_DECAY = 0.99
NOISE_FACTOR = 1.01
COMPARED_CONTEXTS = 300


@register("paramnoise", source="Plappert et al. 2018, as in Riquelme, Tucker, Snoek 2018")
class ParamNoise(NeuralPolicy):
    """Adds N(0, noise²) to every weight and bias, and chooses the best arm of the noisy network.

    The noise is adapted after each training. It grows if it changes the softmax of the outputs less than a
    random choice with probability epsilon would, and shrinks otherwise; epsilon decays.

    Parameters
    ----------
    arms, features, rewards, seed
        See :class:`~glcb.policies.base.Policy`.

    References
    ----------
    Plappert et al.: Parameter space noise for exploration. ICLR, 2018.
    """

    is_randomized = True

    def __init__(
        self, arms: int | Sequence[Arm], features: int, *, rewards: Rewards = "binary", seed: int = 0
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed)
        self._noise = INITIAL_NOISE
        self._epsilon = INITIAL_EPSILON

    def _predict(self, x: Float32) -> tuple[Float32, Float32]:
        return network.values(self._networks[0].weights, x), network.values(self._noisy(self._rng), x)

    def _noisy(self, rng: np.random.Generator) -> Weights:
        """Return the weights with fresh noise."""
        noise = np.float32(self._noise)
        return {
            name: array + noise * rng.standard_normal(array.shape, np.float32)
            for name, array in self._networks[0].weights.items()
        }

    def _train(self, rng: np.random.Generator) -> None:
        super()._train(rng)
        net = self._networks[0]
        contexts = net.data.draw((COMPARED_CONTEXTS,), rng).contexts
        change = divergence(network.values(net.weights, contexts), network.values(self._noisy(rng), contexts))
        self._adapt(change)

    def _adapt(self, change: float) -> None:
        """Adapt the noise to ``change``, the divergence it caused."""
        target = -math.log(1 - self._epsilon + self._epsilon / len(self.arms))
        self._noise *= NOISE_FACTOR if change < target else 1 / NOISE_FACTOR
        self._epsilon *= EPSILON_DECAY

    def _snapshot(self) -> Arrays:
        return {**super()._snapshot(), "adapted": np.array([self._noise, self._epsilon])}

    def _restore(self, arrays: Arrays) -> None:
        super()._restore(arrays)
        adapted = np.empty(2)
        copy_into({"adapted": adapted}, arrays)
        self._noise, self._epsilon = adapted.tolist()


def divergence(clean: Float32, noisy: Float32) -> float:
    """Return the mean over the rows of KL(softmax(clean) ‖ softmax(noisy))."""
    first, second = _log_softmax(clean), _log_softmax(noisy)
    return float((np.exp(first) * (first - second)).sum(axis=1).mean())


def _log_softmax(rows: Float32) -> Float64:
    shifted = rows.astype(np.float64) - rows.max(axis=1, keepdims=True)
    normalized: Float64 = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return normalized
