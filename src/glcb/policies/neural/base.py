"""What the neural policies share: when they play by turns, when they train, and what they store."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Unpack

import numpy as np

from glcb import _validation
from glcb._arrays import State
from glcb._types import Arm, Float32, Float64
from glcb.policies.base import Common, Estimates, Policy
from glcb.policies.neural import network
from glcb.policies.neural.buffer import Buffer
from glcb.policies.neural.network import Array, Batch, Weights
from glcb.policies.neural.training import (
    BATCH_SIZE,
    GRADIENT_STEPS,
    Network,
    Noise,
    Optimizer,
    rms_prop,
    training,
)
from glcb.policies.simple.round_robin import favor_turn

TRAIN_EVERY = 50


class NeuralPolicy(Policy):
    """Stores all data and trains a network on it every 50 steps.

    A policy says what its network predicts and, if need be, what else it starts from and how it trains.
    """

    stores_data = True
    requires = ("jax", "optax")
    arms_are_independent = False
    networks: ClassVar[int] = 1

    def __init__(self, arms: int | Sequence[Arm], features: int, **common: Unpack[Common]) -> None:
        super().__init__(arms, features, **common)
        _validation.memory(
            4 * GRADIENT_STEPS * BATCH_SIZE * self.features, "The mini-batches of one training"
        )
        how = training(self._loss, self._optimizer)
        self._networks = [
            Network(self._untrained(), Buffer(self.features, len(self.arms)), how)
            for _ in range(self.networks)
        ]

    @abstractmethod
    def _predict(self, x: Float32) -> tuple[Float32 | Float64, Float32 | Float64]:
        """Return each arm's value, and a draw of it that says which arm to play."""

    @staticmethod
    def _loss(weights: Weights, batch: Batch, points: Array, noise: Noise) -> Array:
        """Return what the training makes small."""
        return network.mean_squared_error(network.values(weights, batch.contexts), batch)

    @staticmethod
    def _optimizer() -> Optimizer:
        """Return how it makes it small."""
        return rms_prop()

    def _untrained(self) -> Weights:
        """Return the weights that a network starts from."""
        return network.uniform_weights(self.features, len(self.arms), self._rng)

    def _training_noise(self, rng: np.random.Generator) -> Noise:
        """Draw what the loss needs at random; the first axis counts the gradient steps of one training."""
        return {}

    def _estimate(self, x: Float32) -> Estimates:
        values, drawn = (predicted.astype(np.float64) for predicted in self._predict(x))
        return Estimates(values, favor_turn(drawn - values, self._turns), self._plays.astype(np.float64))

    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        step = self.updates + 1
        # Not the generator that decides: what is learned must not depend on what was decided in between.
        rng = np.random.default_rng((self.seed, step))
        self._store(x, arm, reward, rng)
        if step % TRAIN_EVERY == 0:
            self._train(rng)

    def _store(self, x: Float32, arm: int, reward: float, rng: np.random.Generator) -> None:
        for net in self._networks:
            net.data.add(x, arm, reward)

    def _train(self, rng: np.random.Generator) -> None:
        for net in self._networks:
            net.train(self._training_noise(rng), rng)

    def _state(self) -> State:
        return {
            f"network_{i}_{name}": array
            for i, net in enumerate(self._networks)
            for name, array in net.state().items()
        }

    def _restore(self, state: State) -> None:
        for i, net in enumerate(self._networks):
            prefix = f"network_{i}_"
            net.restore(
                {name.removeprefix(prefix): a for name, a in state.items() if name.startswith(prefix)}
            )
