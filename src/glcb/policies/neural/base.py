"""The base class of the neural policies: initial rounds, stored data and periodic training."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from glcb import _validation
from glcb._arrays import Arrays, Float32, Float64
from glcb._types import Arm, Rewards
from glcb.policies.base import Policy
from glcb.policies.buffer import Batch, Buffer
from glcb.policies.decision import Estimates
from glcb.policies.neural import network
from glcb.policies.neural.network import Array, Weights
from glcb.policies.neural.training import (
    BATCH_SIZE,
    GRADIENT_STEPS,
    Network,
    Noise,
    Optimizer,
    compile_training,
    rms_prop,
)
from glcb.policies.round_robin import force_initial_rounds

TRAIN_EVERY = 50


class NeuralPolicy(Policy):
    """Stores all data and trains a network on it after every 50 rewards.

    A subclass implements ``_predict``. It may also override the loss, the optimizer and the initial weights.

    Parameters
    ----------
    arms, features, rewards, seed
        See :class:`~glcb.policies.base.Policy`.
    """

    stores_data = True
    requires = ("jax", "optax")
    extra = "baselines"
    arms_are_independent = False
    network_count: ClassVar[int] = 1
    batch_size: ClassVar[int] = BATCH_SIZE

    def __init__(
        self, arms: int | Sequence[Arm], features: int, *, rewards: Rewards = "binary", seed: int = 0
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed)
        _validation.check_memory(
            4 * GRADIENT_STEPS * self.batch_size * self.features, "The mini-batches of one training"
        )
        training = compile_training(self._loss, self._optimizer)
        self._networks = [
            Network(self._initial_weights(), Buffer(self.features, len(self.arms)), training)
            for _ in range(self.network_count)
        ]

    @abstractmethod
    def _predict(self, x: Float32) -> tuple[Float32 | Float64, Float32 | Float64]:
        """Return each arm's value, and a draw of it that determines the choice."""

    @staticmethod
    def _loss(weights: Weights, batch: Batch, points: Array, noise: Noise) -> Array:
        """Return the loss to minimize."""
        return network.mean_squared_error(network.values(weights, batch.contexts), batch)

    @staticmethod
    def _optimizer() -> Optimizer:
        """Return the optimizer."""
        return rms_prop()

    def _initial_weights(self) -> Weights:
        """Return the weights of an untrained network."""
        return network.uniform_weights(self.features, len(self.arms), self._rng)

    def _training_noise(self, rng: np.random.Generator) -> Noise:
        """Draw the random numbers of the loss; the first axis is the gradient steps of one training."""
        return {}

    def _estimate(self, x: Float32) -> Estimates:
        values, drawn = (predicted.astype(np.float64) for predicted in self._predict(x))
        bonuses = force_initial_rounds(drawn - values, self._decisions)
        return Estimates(values, bonuses, self._reward_counts.astype(np.float64))

    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        step = self.updates + 1
        # Not the generator of the decisions: training must not depend on the decisions in between.
        rng = np.random.default_rng((self.seed, step))
        self._store(x, arm, reward, rng)
        if step % TRAIN_EVERY == 0:
            self._train(rng)

    def _store(self, x: Float32, arm: int, reward: float, rng: np.random.Generator) -> None:
        for net in self._networks:
            net.data.add(x, arm, reward)

    def _train(self, rng: np.random.Generator) -> None:
        for net in self._networks:
            net.train(self._training_noise(rng), rng, self.batch_size)

    def _snapshot(self) -> Arrays:
        return {
            f"network_{i}_{name}": array
            for i, net in enumerate(self._networks)
            for name, array in net.snapshot().items()
        }

    def _restore(self, arrays: Arrays) -> None:
        for i, net in enumerate(self._networks):
            prefix = f"network_{i}_"
            net.restore(
                {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
            )
