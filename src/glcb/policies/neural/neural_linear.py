"""Thompson sampling from linear regressions on what a network has learned (Riquelme, Tucker, Snoek 2018)."""

from collections.abc import Sequence
from typing import Unpack

import numpy as np

from glcb import _validation
from glcb._arrays import State
from glcb._types import Arm, Float32, Float64
from glcb.policies.base import Common
from glcb.policies.linear.normal_inverse_gamma import NormalInverseGamma
from glcb.policies.neural import network
from glcb.policies.neural.base import NeuralPolicy
from glcb.policies.registry import register


@register("neurallinear", source="Riquelme, Tucker, Snoek 2018")
class NeuralLinear(NeuralPolicy):
    """One regression per arm on the hidden units of a network, without an intercept.

    The network trains as in RMS, on its own outputs. Whenever it has, every regression is made anew from
    all data as the hidden units see them now; in between each reward is added to that of its arm.
    """

    is_randomized = True

    def __init__(self, arms: int | Sequence[Arm], features: int, **common: Unpack[Common]) -> None:
        super().__init__(arms, features, **common)
        count = len(self.arms)
        _validation.memory(8 * count * network.HIDDEN**2, "One matrix per arm")
        self._posterior = NormalInverseGamma(count, network.HIDDEN)

    def _predict(self, x: Float32) -> tuple[Float64, Float64]:
        means, widths = self._posterior.means_and_widths(self._seen(x))
        return means, self._posterior.draw(means, widths, self._rng)

    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        self._posterior.learn(self._seen(x), arm, reward)
        super()._learn(x, arm, reward)

    def _train(self, rng: np.random.Generator) -> None:
        super()._train(rng)
        contexts, arms, rewards = self._networks[0].data.all()
        self._posterior.learn_anew(self._seen(contexts), arms, rewards)

    def _seen(self, contexts: Float32) -> Float64:
        """Return what the hidden units say."""
        activations: Float64 = network.hidden(self._networks[0].weights, contexts).astype(np.float64)
        return activations

    def _state(self) -> State:
        return {**super()._state(), **self._posterior.state()}

    def _restore(self, state: State) -> None:
        super()._restore(state)
        self._posterior.restore(state)
