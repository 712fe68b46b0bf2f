"""An extended Kalman filter in a subspace of the weights of a network (Duran-Martin, Kara, Murphy 2022).

After a warm-up, the network is trained on the first rewards by gradient descent. The principal directions of
its path span the subspace. From then on, each reward updates a normal distribution of the position in the
subspace, and no data are stored.
"""

from collections.abc import Sequence

import numpy as np

from glcb import _validation
from glcb._arrays import Arrays, Float32, Float64, copy_into
from glcb._types import Arm, Rewards, reward_range
from glcb.policies.base import Policy
from glcb.policies.buffer import Batch, Buffer
from glcb.policies.decision import Estimates
from glcb.policies.neural import network
from glcb.policies.neural.network import Array, Weights
from glcb.policies.neural.training import LARGEST_GRADIENT, Noise, Optimizer, compile_training
from glcb.policies.registry import register

WARM_UP_ROUNDS = 20
PATH_POINTS = 500
STEPS_BETWEEN_POINTS = 2
LEARNING_RATE = 0.05
MOMENTUM = 0.9


class KalmanFilter:
    """A normal distribution of a vector that is observed through noisy scalar products.

    The covariance is factor · factor'. Potter's update of the factor (1963) keeps it positive definite.
    """

    def __init__(self, dimension: int, prior_variance: float, noise_variance: float) -> None:
        self.mean: Float64 = np.zeros(dimension)
        self.factor: Float64 = np.sqrt(prior_variance) * np.eye(dimension)
        self._noise_variance = noise_variance

    def update(self, gradient: Float64, error: float) -> None:
        """Learn that the observation differs by ``error`` from the prediction with this gradient."""
        projected = self.factor.T @ gradient
        variance = projected @ projected + self._noise_variance
        direction = self.factor @ projected
        self.mean += direction * (error / variance)
        self.factor -= np.outer(direction, projected / (variance + np.sqrt(self._noise_variance * variance)))

    def draw_deviation(self, rng: np.random.Generator) -> Float64:
        """Draw the difference of the vector from its mean."""
        deviation: Float64 = self.factor @ rng.standard_normal(len(self.mean))
        return deviation


@register("ekf-subspace", source="Duran-Martin, Kara, Murphy 2022")
class EKFSubspace(Policy):
    """Draws a network from a Kalman filter in a subspace of its weights and chooses the best arm for it.

    The first 20 rounds choose every arm in turn. Their data are deleted once the subspace is found.
    Rewards are scaled to [0, 1].

    Parameters
    ----------
    arms, features, rewards, seed
        See :class:`~glcb.policies.base.Policy`.
    dimension
        The dimension of the subspace, from 1 to 500, but at most the number of weights.
    prior_variance
        The variance of the position in each direction of the subspace after the warm-up, at least 1e-12.
    noise_variance
        The variance of a reward, scaled to [0, 1], around its expected value, at least 1e-12.

    References
    ----------
    Duran-Martin, Kara, Murphy: Efficient online Bayesian inference for neural bandits. AISTATS, 2022.
    """

    requires = ("jax", "optax")
    extra = "baselines"
    arms_are_independent = False
    is_randomized = True

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        dimension: int = 200,
        prior_variance: float = 3e-3,
        noise_variance: float = 1e-3,
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed)
        self.dimension = _validation.integer("dimension", dimension, 1, PATH_POINTS)
        self.prior_variance = _validation.number("prior_variance", prior_variance, 1e-12)
        self.noise_variance = _validation.number("noise_variance", noise_variance, 1e-12)
        self._low, self._high = reward_range(self.rewards)
        self._shapes = network.shapes(self.features, len(self.arms))
        size = sum(int(np.prod(shape)) for shape in self._shapes.values())
        _validation.check_memory(4 * PATH_POINTS * size, "The path of the weights in the warm-up")
        self._data = Buffer(self.features, len(self.arms))
        self._origin = _flat(network.uniform_weights(self.features, len(self.arms), self._rng))
        # No directions until the warm-up is complete, so that all draws are the untrained network.
        self._basis: Float32 = np.zeros((min(self.dimension, size), size), np.float32)
        self._filter = KalmanFilter(len(self._basis), self.prior_variance, self.noise_variance)
        self._weights = self._at(self._filter.mean)

    def _at(self, position: Float64) -> Weights:
        """Return the network at a position in the subspace."""
        return self._unflatten(self._origin + position.astype(np.float32) @ self._basis)

    def _unflatten(self, vector: Float32) -> Weights:
        ends = np.cumsum([np.prod(shape) for shape in self._shapes.values()])
        parts = np.split(vector, ends[:-1])
        return {
            name: part.reshape(shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }

    @property
    def _warm_up_steps(self) -> int:
        return WARM_UP_ROUNDS * len(self.arms)

    def _estimate(self, x: Float32) -> Estimates:
        drawn_weights = self._at(self._filter.mean + self._filter.draw_deviation(self._rng))
        values, drawn = (
            self._low + (self._high - self._low) * network.values(weights, x).astype(np.float64)
            for weights in (self._weights, drawn_weights)
        )
        bonuses = drawn - values
        if self.updates < self._warm_up_steps:
            bonuses[self._decisions % len(self.arms)] = np.inf
        return Estimates(values, bonuses, self._reward_counts.astype(np.float64))

    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        scaled = (reward - self._low) / (self._high - self._low)
        if self.updates < self._warm_up_steps:
            self._data.add(x, arm, scaled)
            if len(self._data) == self._warm_up_steps:
                self._find_subspace()
        else:
            gradient = self._basis @ self._gradient(x, arm)
            error = scaled - float(network.values(self._weights, x)[arm])
            self._filter.update(gradient.astype(np.float64), error)
        self._weights = self._at(self._filter.mean)

    def _gradient(self, x: Float32, arm: int) -> Float32:
        """Return the gradient of the arm's value for all weights."""
        inputs = x @ self._weights["inner"] + self._weights["inner_bias"]
        slopes = self._weights["outer"][:, arm] * (inputs > 0)
        outer, outer_bias = (np.zeros(self._shapes[name], np.float32) for name in ("outer", "outer_bias"))
        outer[:, arm] = network.rectified(inputs)
        outer_bias[arm] = 1
        return _flat(
            {"inner": np.outer(x, slopes), "inner_bias": slopes, "outer": outer, "outer_bias": outer_bias}
        )

    def _find_subspace(self) -> None:
        """Train on the data of the warm-up, span the subspace by the path of the weights, delete the data."""
        path = self._descend()
        self._origin = path[-1].copy()
        # The directions in descending order of the variance of the path along them.
        directions = np.linalg.svd(path - path.mean(axis=0), full_matrices=False)[2]
        self._basis = directions[: len(self._basis)].copy()
        self._data = Buffer(self.features, len(self.arms))

    def _descend(self) -> Float32:
        """Return the weights after every second step of gradient descent on all data of the warm-up."""
        training = compile_training(_loss, _optimizer)
        contexts, arms, rewards = self._data.all()
        repeated = Batch(
            *(
                np.repeat(array[None], STEPS_BETWEEN_POINTS, axis=0)
                for array in (contexts, arms.astype(np.int32), rewards.astype(np.float32))
            )
        )
        weights = self._unflatten(self._origin)
        state, points = training.init(weights), np.float32(len(arms))
        path: Float32 = np.empty((PATH_POINTS, self._origin.size), np.float32)
        for point in path:
            weights, state = training.run(weights, state, repeated, points, {})
            point[:] = _flat(weights)
        return path

    def _learned(self) -> Arrays:
        return {
            "origin": self._origin,
            "basis": self._basis,
            "mean": self._filter.mean,
            "factor": self._filter.factor,
        }

    def _snapshot(self) -> Arrays:
        return {**self._learned(), **self._data.snapshot()}

    def _restore(self, arrays: Arrays) -> None:
        copy_into(self._learned(), arrays)
        self._data.restore(arrays)
        self._weights = self._at(self._filter.mean)


def _flat(weights: Weights) -> Float32:
    """Return all weights in one vector, in the order of ``network.shapes``."""
    order = ("inner", "inner_bias", "outer", "outer_bias")
    return np.concatenate([np.asarray(weights[name]).ravel() for name in order])


def _loss(weights: Weights, batch: Batch, points: Array, noise: Noise) -> Array:
    return network.mean_squared_error(network.values(weights, batch.contexts), batch) / 2


def _optimizer() -> Optimizer:
    import optax

    return optax.chain(
        optax.clip_by_global_norm(LARGEST_GRADIENT), optax.sgd(LEARNING_RATE, momentum=MOMENTUM)
    )
