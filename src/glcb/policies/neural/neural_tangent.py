"""NeuralUCB and NeuralTS: a network, and the width of its confidence from its gradient.

The network has one output. Its input is the disjoint encoding of an arm and a context: one block of inputs
per arm, zero except for the block of the arm, which holds the context. It has one hidden layer of m rectified
units. With the gradient g of the output for the chosen arm, the precision of every weight grows by g² from
λ, and the squared width of an arm is λ Σ g² / precision.

The papers multiply the output by √m and divide the squared gradient by m. The factors cancel, and are omitted
here, as in the authors' programs. Only the block of one arm has an input, so the gradients of all arms need
two products of a context with as many weights as the network has.
"""

import math
from collections.abc import Sequence

import numpy as np

from glcb import _validation
from glcb._arrays import Arrays, Float32, Float64, copy_into
from glcb._types import Arm, Rewards, reward_range
from glcb.policies.buffer import Batch
from glcb.policies.neural import network
from glcb.policies.neural.base import NeuralPolicy
from glcb.policies.neural.network import Array, Weights
from glcb.policies.neural.training import Noise, Optimizer
from glcb.policies.registry import register

HIDDEN = 100
REGULARIZATION = 1e-3
LEARNING_RATE = 1e-3


def initial_weights(features: int, arms: int, rng: np.random.Generator) -> Weights:
    """Return an untrained network: the weights of a layer are uniform in ±1 / √inputs, the biases 0."""
    inner, outer = 1 / math.sqrt(arms * features), 1 / math.sqrt(HIDDEN)
    return {
        "inner": rng.uniform(-inner, inner, (arms, features, HIDDEN)).astype(np.float32),
        "inner_bias": np.zeros(HIDDEN, np.float32),
        "outer": rng.uniform(-outer, outer, HIDDEN).astype(np.float32),
        "outer_bias": np.zeros(1, np.float32),
    }


def values_of(weights: Weights, contexts: Array, arms: Array) -> Array:
    """Return the value of one arm for each row of ``contexts``."""
    count, features, hidden = weights["inner"].shape
    chosen = arms[:, None] == np.arange(count)
    blocks = (chosen[:, :, None] * contexts[:, None, :]).reshape(-1, count * features)
    # One product with all blocks: a gather of the arms' weights would need a scatter for its gradient.
    inputs = blocks @ weights["inner"].reshape(-1, hidden) + weights["inner_bias"]
    return network.rectified(inputs) @ weights["outer"] + weights["outer_bias"]


class TangentPolicy(NeuralPolicy):
    """Scales rewards to [0, 1], trains the network on them, and provides the values and widths of all arms.

    Parameters
    ----------
    arms, features, rewards, seed
        See :class:`~glcb.policies.base.Policy`.
    nu
        The amount of exploration, at least 0.
    """

    batch_size = 64

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        nu: float,
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed)
        self.nu = _validation.number("nu", nu, 0)
        self._low, self._high = reward_range(self.rewards)
        # Inverse precisions relative to 1 / λ. Float64, because each is the result of thousands of updates.
        self._variances: dict[str, Float64] = {
            name: np.ones(array.shape) for name, array in self._networks[0].weights.items()
        }

    def _initial_weights(self) -> Weights:
        _validation.check_memory(8 * len(self.arms) * self.features * HIDDEN, "The weights of the network")
        return initial_weights(self.features, len(self.arms), self._rng)

    @staticmethod
    def _loss(weights: Weights, batch: Batch, points: Array, noise: Noise) -> Array:
        error = ((values_of(weights, batch.contexts, batch.arms) - batch.rewards) ** 2).mean()
        return error + REGULARIZATION * sum((array**2).sum() for array in weights.values()) / points

    @staticmethod
    def _optimizer() -> Optimizer:
        import optax

        return optax.adam(LEARNING_RATE)

    def _values_and_widths(self, x: Float32) -> tuple[Float64, Float64]:
        """Return value and width of every arm, in the unit of the rewards."""
        weights, variances = self._networks[0].weights, self._variances
        inputs = x @ weights["inner"] + weights["inner_bias"]
        activations = network.rectified(inputs).astype(np.float64)
        slopes = (weights["outer"] * (inputs > 0)).astype(np.float64)  # derivatives for the hidden inputs
        inner_variances = x.astype(np.float64) ** 2 @ variances["inner"] + variances["inner_bias"]
        squares = (
            (slopes**2 * inner_variances).sum(axis=1)
            + activations**2 @ variances["outer"]
            + variances["outer_bias"]
        )
        values = activations @ weights["outer"].astype(np.float64) + weights["outer_bias"]
        scale = self._high - self._low
        return self._low + scale * values, scale * np.sqrt(squares)

    def _gradient(self, x: Float32, arm: int) -> dict[str, Float64]:
        """Return the gradient of the arm's value; that for ``inner`` is the block of the arm."""
        weights = self._networks[0].weights
        inputs = x @ weights["inner"][arm] + weights["inner_bias"]
        slopes = (weights["outer"] * (inputs > 0)).astype(np.float64)
        return {
            "inner": np.outer(x, slopes),
            "inner_bias": slopes,
            "outer": network.rectified(inputs).astype(np.float64),
            "outer_bias": np.ones(1),
        }

    def _count_decision(self, x: Float32, arm: int) -> None:
        for name, gradient in self._gradient(x, arm).items():
            variances = self._variances[name][arm] if name == "inner" else self._variances[name]
            variances /= 1 + variances * gradient**2 / REGULARIZATION

    def _count_and_learn(self, x: Float32, arm: int, reward: float) -> None:
        # In this order, because the precision grows by the gradient of the network that decided.
        self._count_decision(x, arm)
        self._learn(x, arm, reward)

    def _store(self, x: Float32, arm: int, reward: float, rng: np.random.Generator) -> None:
        super()._store(x, arm, (reward - self._low) / (self._high - self._low), rng)

    def _variance_arrays(self) -> Arrays:
        return {f"variance_{name}": array for name, array in self._variances.items()}

    def _snapshot(self) -> Arrays:
        return {**super()._snapshot(), **self._variance_arrays()}

    def _restore(self, arrays: Arrays) -> None:
        super()._restore(arrays)
        copy_into(self._variance_arrays(), arrays)


@register("neuralucb", source="Zhou, Li, Gu 2020")
class NeuralUCB(TangentPolicy):
    """Chooses the arm with the largest value of a network plus a bonus from its gradient.

    The bonus is ν · √(λ Σ g² / U): the diagonal form, where each weight has its own precision U. Every arm is
    chosen twice first, as in the other neural policies. The network trains on all data after every 50
    rewards, with 100 mini-batches of 64.

    Parameters
    ----------
    arms, features, rewards, seed
        See :class:`~glcb.policies.base.Policy`.
    nu
        The size of the exploration bonus, at least 0.

    References
    ----------
    Zhou, Li, Gu: Neural contextual bandits with UCB-based exploration. ICML, 2020.
    """

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        nu: float = 0.3,
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed, nu=nu)

    def _predict(self, x: Float32) -> tuple[Float64, Float64]:
        values, widths = self._values_and_widths(x)
        return values, values + self.nu * widths


@register("neuralts", source="Zhang, Zhou, Li, Gu 2021")
class NeuralTS(TangentPolicy):
    """Draws the value of every arm around a network's value, with a deviation from its gradient.

    The standard deviation is ν · √(λ Σ g² / U): the diagonal form, where each weight has its own precision U.
    Every arm is chosen twice first, as in the other neural policies. The network trains on all data after
    every 50 rewards, with 100 mini-batches of 64.

    Parameters
    ----------
    arms, features, rewards, seed
        See :class:`~glcb.policies.base.Policy`.
    nu
        The scale of the standard deviation, at least 0.

    References
    ----------
    Zhang, Zhou, Li, Gu: Neural Thompson sampling. ICLR, 2021.
    """

    is_randomized = True

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        nu: float = 0.3,
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed, nu=nu)

    def _predict(self, x: Float32) -> tuple[Float64, Float64]:
        values, widths = self._values_and_widths(x)
        return values, self._rng.normal(values, self.nu * widths)
