"""Thompson sampling from linear regressions on learned features (Riquelme, Tucker, Snoek 2018)."""

from collections.abc import Sequence

import numpy as np

from glcb import _validation
from glcb._arrays import Arrays, Float32, Float64
from glcb._types import Arm, Rewards
from glcb.policies.linear.normal_inverse_gamma import NormalInverseGamma
from glcb.policies.neural import network
from glcb.policies.neural.base import NeuralPolicy
from glcb.policies.registry import register


@register("neurallinear", source="Riquelme, Tucker, Snoek 2018")
class NeuralLinear(NeuralPolicy):
    """Samples from one Bayesian regression per arm on the hidden units of a network, without an intercept.

    The network trains as in RMS, on its own outputs. After each training, all regressions are refitted to
    all data with the new hidden units. Between trainings, each reward updates the regression of its arm.

    Parameters
    ----------
    arms, features, rewards, seed
        See :class:`~glcb.policies.base.Policy`.

    References
    ----------
    Riquelme, Tucker, Snoek: Deep Bayesian bandits showdown. ICLR, 2018.
    """

    is_randomized = True

    def __init__(
        self, arms: int | Sequence[Arm], features: int, *, rewards: Rewards = "binary", seed: int = 0
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed)
        count = len(self.arms)
        _validation.check_memory(8 * count * network.HIDDEN**2, "One matrix per arm")
        self._posterior = NormalInverseGamma(count, network.HIDDEN)

    def _predict(self, x: Float32) -> tuple[Float64, Float64]:
        means, widths = self._posterior.means_and_widths(self._hidden(x))
        return means, self._posterior.draw(means, widths, self._rng)

    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        self._posterior.learn(self._hidden(x), arm, reward)
        super()._learn(x, arm, reward)

    def _train(self, rng: np.random.Generator) -> None:
        super()._train(rng)
        contexts, arms, rewards = self._networks[0].data.all()
        self._posterior.refit(self._hidden(contexts), arms, rewards)

    def _hidden(self, contexts: Float32) -> Float64:
        """Return the activations of the hidden units."""
        activations: Float64 = network.hidden(self._networks[0].weights, contexts).astype(np.float64)
        return activations

    def _snapshot(self) -> Arrays:
        return {**super()._snapshot(), **self._posterior.snapshot()}

    def _restore(self, arrays: Arrays) -> None:
        super()._restore(arrays)
        self._posterior.restore(arrays)
