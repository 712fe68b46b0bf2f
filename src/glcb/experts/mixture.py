"""The mixture of the networks with regressions of the reward; which of them to trust is learned online.

The networks are the first expert. The others are regressions per arm: one on the context, and one on random
Fourier features of it. All predict the reward, scaled to [0, 1]. The value of an arm is the mean of these
predictions, weighted by shares that are common to all arms. Each reward multiplies the share of every expert
by its likelihood under that expert, then a small part of all shares is redistributed evenly, so that an
expert can recover (fixed share: Herbster, Warmuth 1998).
"""

import math
from copy import copy
from typing import Literal, NamedTuple, Self

import numpy as np
from numba import boolean, float64

from glcb._arrays import Arrays, Float32, Float64, Int64, copy_into, take_rows
from glcb._numba.arrays import new_vector
from glcb._numba.compile import kernel
from glcb._numba.packed import named_tuple_type
from glcb.experts.fourier import (
    CONTEXTS_TO_MEASURE,
    FOURIER_ARRAYS,
    FourierArrays,
    FourierFeatures,
    measure,
)
from glcb.experts.regression import (
    REGRESSION_ARRAYS,
    Regression,
    RegressionArrays,
    learn_target,
    predict_target,
    square,
    uncertainty,
)

Expert = Literal["linear", "fourier"]
"""A regression beside the networks: on the context, or on random Fourier features of it. For rewards of 0 and
1, the regression on the context is logistic."""

WAVES = 128
"""Number of random Fourier features."""
MAX_FEATURES: dict[Expert, int] = {"linear": 512, "fourier": 80}
"""An expert is left out if there are more features than this: its cost grows with their square, and waves
gain nothing in that many dimensions."""
LINEAR_RIDGE, LOGISTIC_RIDGE, FOURIER_RIDGE = 1.0, 3.0, 0.1
LINEAR_BONUS, LOGISTIC_BONUS, FOURIER_BONUS = 0.25, 0.5, 0.1
"""The size of the bonus per unit of uncertainty, for an expert with a share of 1."""
FOURIER_BONUS_FEATURES = 32
"""The regression on random features has a bonus for bounded rewards and at most this many features. With
more, the uncertainty of the other regression tells contexts apart well enough, and this one would be slow.
With rewards of 0 and 1, it would explore too much."""
REDISTRIBUTED = 0.01
"""The part of all shares that is redistributed evenly with each reward."""
REDISTRIBUTED_PER_SUCCESS = 0.1
"""With rewards of 0 and 1, at most this part per reward of 1. A rare 1 tells more about the experts than many
0s; if the shares returned to equality in between, nothing would be learned about them."""
CLIP = 0.01
"""Predictions of regressions are clipped to [CLIP, 1 − CLIP], like those of the units of a network. So an arm
that seems hopeless keeps a chance to be explored."""
PRIOR_ERROR = 0.25
"""The squared error that is assumed before the first reward."""

NO_TARGET = -1.0
"""Targets are within [0, 1]."""

NETWORKS, LINEAR, FOURIER = range(3)
"""Indices of the experts."""


class ExpertArrays(NamedTuple):
    """The kernels' view of :class:`Experts`."""

    shares: Float64
    """The share of each expert. An expert that is left out always has 0."""
    errors: Float64
    """Sum of the squared errors of the mixture, their number, and the sum of the targets."""
    linear: RegressionArrays
    fourier: RegressionArrays
    features: FourierArrays
    first_targets: Float64
    """The targets of the first contexts, one row per arm; −1 where another arm was rewarded."""
    low: float
    high: float
    binary: bool
    """Whether rewards are 0 or 1."""


EXPERT_ARRAYS = named_tuple_type(
    ExpertArrays,
    float64[::1],
    float64[::1],
    REGRESSION_ARRAYS,
    REGRESSION_ARRAYS,
    FOURIER_ARRAYS,
    float64[:, ::1],
    float64,
    float64,
    boolean,
)


@kernel
def _clip(prediction: float) -> float:
    return min(max(prediction, CLIP), 1 - CLIP)


@kernel
def _predictions(z: Float64, arm: int, network: float, experts: ExpertArrays) -> tuple[float, float, float]:
    """Return the scaled reward that each expert predicts; 0 for an expert that is left out."""
    linear, fourier = 0.0, 0.0
    if experts.shares[LINEAR] > 0:
        linear = _clip(predict_target(z[experts.features.phases.size :], arm, experts.linear))
    if experts.shares[FOURIER] > 0:
        fourier = _clip(predict_target(z, arm, experts.fourier))
    return (network - experts.low) / (experts.high - experts.low), linear, fourier


@kernel
def mix_values(
    z: Float64, values: Float64, deviations: Float64, bonuses: Float64, experts: ExpertArrays
) -> None:
    """Replace the values of the networks with those of the mixture; write the bonuses of the regressions.

    The standard deviation of a reward of 0 or 1 follows from its value. That of other rewards is left as the
    networks predict it.
    """
    shares, scale = experts.shares, experts.high - experts.low
    linear_square = square(z[experts.features.phases.size :] if experts.linear.rounded.size > 0 else z[:0])
    fourier_square = square(z if experts.fourier.rounded.size > 0 else z[:0])
    for arm in range(values.size):
        network, linear, fourier = _predictions(z, arm, values[arm], experts)
        mean = shares[NETWORKS] * network + shares[LINEAR] * linear + shares[FOURIER] * fourier
        values[arm] = experts.low + scale * mean
        size = LOGISTIC_BONUS * linear * (1 - linear) if experts.linear.logistic else LINEAR_BONUS
        bonus = shares[LINEAR] * size * uncertainty(linear_square, arm, experts.linear)
        bonus += shares[FOURIER] * FOURIER_BONUS * uncertainty(fourier_square, arm, experts.fourier)
        bonuses[arm] = scale * bonus
        if experts.binary:
            deviations[arm] = math.sqrt(mean * (1 - mean))


@kernel
def _log_likelihood(prediction: float, target: float, experts: ExpertArrays) -> float:
    """Return the log-likelihood of a reward: Bernoulli, or normal with the mean squared error as variance."""
    if experts.binary:
        return math.log(prediction if target > 0 else 1 - prediction)
    variance = (experts.errors[0] + PRIOR_ERROR) / (experts.errors[1] + 1)
    error = target - prediction
    likelihood: float = -error * error / (2 * variance)
    return likelihood


@kernel
def _redistributed(experts: ExpertArrays) -> float:
    """Return the part of all shares that the next reward redistributes evenly."""
    if not experts.binary:
        return REDISTRIBUTED
    mean: float = (experts.errors[2] + 1) / (experts.errors[1] + 1)
    return min(REDISTRIBUTED, REDISTRIBUTED_PER_SUCCESS * mean)


@kernel
def _update_shares(predictions: tuple[float, float, float], target: float, experts: ExpertArrays) -> None:
    """Weight the experts by the likelihood of the reward, then redistribute a part of the shares evenly."""
    shares = experts.shares
    likelihoods = new_vector(np.float64, shares.size)
    mean = 0.0
    for expert in range(shares.size):
        mean += shares[expert] * predictions[expert]
    experts.errors[0] += (target - mean) * (target - mean)
    experts.errors[1] += 1
    experts.errors[2] += target
    best = -np.inf
    for expert in range(shares.size):
        present = shares[expert] > 0
        likelihoods[expert] = _log_likelihood(predictions[expert], target, experts) if present else -np.inf
        best = max(best, likelihoods[expert])
    total, present_experts, redistributed = 0.0, 0, _redistributed(experts)
    for expert in range(shares.size):
        if likelihoods[expert] > -np.inf:
            shares[expert] *= math.exp(likelihoods[expert] - best)
            total += shares[expert]
            present_experts += 1
    for expert in range(shares.size):
        if likelihoods[expert] > -np.inf:
            kept = (1 - redistributed) * shares[expert] / total
            shares[expert] = kept + redistributed / present_experts


@kernel
def learn_mixture(
    x: Float32, z: Float64, arm: int, reward: float, network: float, experts: ExpertArrays
) -> bool:
    """Learn the reward of ``arm``, for which the networks had predicted the value ``network``.

    Returns whether the waves have a length now: then the first rewards must be learned again, with waves
    (:meth:`Experts.restart_waves`).
    """
    target = (reward - experts.low) / (experts.high - experts.low)
    _update_shares(_predictions(z, arm, network, experts), target, experts)
    if experts.shares[LINEAR] > 0:
        learn_target(z[experts.features.phases.size :], arm, target, experts.linear)
    if experts.shares[FOURIER] > 0:
        learn_target(z, arm, target, experts.fourier)
        step = experts.features.contexts[0]
        if step < CONTEXTS_TO_MEASURE:
            experts.first_targets[arm, step] = target
            measure(x, experts.features)
            return bool(step + 1 == CONTEXTS_TO_MEASURE)
    return False


class Contributions(NamedTuple):
    """What the regressions contribute to the value of every arm, already weighted by their shares."""

    bases: Float64
    """The value at the baseline, scaled to [0, 1]."""
    contributions: Float64
    """One row per arm, one column per feature."""


class Experts:
    """Regressions of each arm's reward, and their shares beside the networks.

    Parameters
    ----------
    arms
        Number of arms.
    features
        Number of features of a context.
    kinds
        The regressions to use. One that would be too slow for this number of features is left out.
    low, high
        The range of rewards.
    binary
        Whether rewards are 0 or 1.
    rng
        Source of the random features.
    """

    def __init__(
        self,
        arms: int,
        features: int,
        kinds: tuple[Expert, ...],
        low: float,
        high: float,
        binary: bool,
        rng: np.random.Generator,
    ) -> None:
        inputs = _inputs(features, kinds)
        waves = WAVES if inputs["fourier"] else 0
        self.features = FourierFeatures(features, waves, rng)
        ridge = LOGISTIC_RIDGE if binary else LINEAR_RIDGE
        self.linear = Regression(arms, inputs["linear"], ridge, logistic=binary, has_uncertainty=True)
        self.fourier = Regression(
            arms,
            inputs["fourier"],
            FOURIER_RIDGE,
            logistic=False,
            has_uncertainty=not binary and features <= FOURIER_BONUS_FEATURES,
        )
        present = np.array([1.0, inputs["linear"] > 0, inputs["fourier"] > 0])
        self.arrays = ExpertArrays(
            shares=present / present.sum(),
            errors=np.zeros(3),
            linear=self.linear.arrays,
            fourier=self.fourier.arrays,
            features=self.features.arrays,
            first_targets=np.full((arms, CONTEXTS_TO_MEASURE), NO_TARGET),
            low=low,
            high=high,
            binary=binary,
        )

    @staticmethod
    def bytes_needed(arms: int, features: int, kinds: tuple[Expert, ...]) -> int:
        """Return the most memory that experts of this size need."""
        inputs = _inputs(features, kinds)
        waves = 4 * (WAVES + CONTEXTS_TO_MEASURE) * features if inputs["fourier"] else 0
        has_fourier_bonus = features <= FOURIER_BONUS_FEATURES
        linear = Regression.bytes_needed(arms, inputs["linear"], has_uncertainty=True)
        targets = 8 * CONTEXTS_TO_MEASURE * arms
        return waves + targets + linear + Regression.bytes_needed(arms, inputs["fourier"], has_fourier_bonus)

    @property
    def inputs(self) -> int:
        """Number of inputs of all regressions together; 0 if there are only networks."""
        return self.features.inputs if self.arrays.shares[NETWORKS] < 1 else 0

    @property
    def shares(self) -> dict[str, float]:
        """The share of each expert in all values."""
        names = ("networks", "linear", "fourier")
        return dict(zip(names, self.arrays.shares.tolist(), strict=True))

    def restart_waves(self) -> list[tuple[Float32, int, float]]:
        """Forget what the regression on waves has learned; return the contexts, arms and targets to learn.

        Without waves, the first contexts were rows of a linear problem. If they stayed, they would force the
        weights of the context and the constant to fit them alone.
        """
        self.fourier.reset()
        first, targets = self.features.arrays.first, self.arrays.first_targets
        return [
            (first[step], int(arm), float(targets[arm, step]))
            for step, arm in np.argwhere(targets.T != NO_TARGET)
        ]

    def contributions(self, x: Float32, baseline: Float32) -> Contributions:
        """Return what each feature contributes to the values between ``baseline`` and ``x``.

        A regression is a function of one weighted sum of its inputs, and every input is a function of one
        projection of the context. Each nonlinearity is replaced by its slope between the two ends, so the
        contributions add up. For the waves and the logistic function by themselves this equals integrated
        gradients along the straight line.
        """
        arms = len(self.linear.arrays.weights)
        bases, contributions = np.zeros(arms), np.zeros((arms, x.size))
        ends = np.stack([self.features.at(x), self.features.at(baseline)])
        slopes = self.features.slopes(x, baseline)
        waves = self.features.inputs - x.size - 1
        for regression, share, first in (
            (self.linear, self.arrays.shares[LINEAR], waves),
            (self.fourier, self.arrays.shares[FOURIER], 0),
        ):
            if share > 0:
                weights = regression.arrays.weights
                outputs = ends[:, first:] @ weights.T
                predictions = 1 / (1 + np.exp(-outputs)) if regression.arrays.logistic else outputs
                predictions = predictions.clip(CLIP, 1 - CLIP)
                change = outputs[0] - outputs[1]
                inside = (predictions[0] > CLIP) & (predictions[0] < 1 - CLIP)
                curved = predictions[0] * (1 - predictions[0]) if regression.arrays.logistic else 1.0
                ratios = inside * curved
                np.divide(predictions[0] - predictions[1], change, out=ratios, where=change != 0)
                bases += share * predictions[1]
                contributions += share * ratios[:, None] * (weights @ slopes[first:])
        difference = x.astype(np.float64) - baseline
        return Contributions(bases, contributions * difference)

    def forget(self, arms: slice | None = None) -> None:
        """Halve the weight of all evidence, or of some arms. Weights and shares stay, but move faster."""
        self.linear.forget(arms)
        self.fourier.forget(arms)
        if arms is None:
            self.arrays.errors[:] /= 2

    def reordered(self, sources: Int64) -> Self:
        """Return a copy in which arm j is the current arm ``sources[j]``, or a new arm for −1."""
        new = copy(self)
        new.linear, new.fourier = copy(self.linear), copy(self.fourier)
        new.linear.reorder(sources)
        new.fourier.reorder(sources)
        new.arrays = self.arrays._replace(
            linear=new.linear.arrays,
            fourier=new.fourier.arrays,
            first_targets=take_rows(self.arrays.first_targets, sources, NO_TARGET),
        )
        return new

    def snapshot(self) -> Arrays:
        """Return everything learned and the random features; nothing if there are only networks."""
        if self.arrays.shares[NETWORKS] == 1:
            return {}
        return {
            "expert_shares": self.arrays.shares,
            "expert_errors": self.arrays.errors,
            "expert_first_targets": self.arrays.first_targets,
            **self.linear.snapshot("linear"),
            **self.fourier.snapshot("fourier"),
            **self.features.snapshot(),
        }

    def restore(self, arrays: Arrays) -> None:
        """Restore a snapshot; raise KeyError or ValueError if it is invalid."""
        if self.arrays.shares[NETWORKS] == 1:
            return
        absent = self.arrays.shares == 0
        copy_into(
            {
                "expert_shares": self.arrays.shares,
                "expert_errors": self.arrays.errors,
                "expert_first_targets": self.arrays.first_targets,
            },
            arrays,
        )
        shares = self.arrays.shares
        if (
            shares.min() < 0
            or not math.isclose(shares.sum(), 1, abs_tol=1e-6)
            or (absent != (shares == 0)).any()
        ):
            raise ValueError("the shares of the experts must be positive and add up to 1")
        if self.arrays.errors.min() < 0:
            raise ValueError("the squared errors of the experts are negative")
        targets = self.arrays.first_targets
        if ((targets != NO_TARGET) & ((targets < 0) | (targets > 1))).any():
            raise ValueError("the first targets of the experts must be within [0, 1]")
        self.linear.restore("linear", arrays)
        self.fourier.restore("fourier", arrays)
        self.features.restore(arrays)


def _inputs(features: int, kinds: tuple[Expert, ...]) -> dict[Expert, int]:
    """Return the number of inputs of each regression; 0 for one that is left out."""
    sizes: dict[Expert, int] = {"linear": features + 1, "fourier": WAVES + features + 1}
    return {
        kind: size if kind in kinds and features <= MAX_FEATURES[kind] else 0 for kind, size in sizes.items()
    }
