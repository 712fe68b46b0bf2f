"""The mixture of the networks with reward regressions, whose shares are learned online.

The networks are the first expert. The other experts are regressions per arm: one on the context, for binary
rewards a second one with weaker regularization, and one on random Fourier features. For wide contexts, a
single regression treats features as independent instead. All experts predict the reward, scaled to [0, 1].
The value of an arm is the mean prediction, weighted by shares that are common to all arms. Each reward
multiplies the share of every expert by its likelihood under that expert, then a small part of all shares is
redistributed evenly, so that an expert can recover (fixed share: Herbster, Warmuth 1998).

The unit of bonuses is the observed residual deviation, not the reward range, which is often much wider than
the rewards.
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
from glcb.experts.diagonal import (
    DIAGONAL_ARRAYS,
    DiagonalArrays,
    DiagonalRegression,
    diagonal_square,
    learn_diagonal,
    predict_diagonal,
)
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
"""Regressions beside the networks: on the context, or on random Fourier features of it. For rewards of 0 and
1, those on the context are logistic."""

FOURIER_FEATURES = 128
"""Number of random Fourier features."""
MAX_FEATURES: dict[Expert, int] = {"linear": 512, "fourier": 80}
"""With more features, the cost of a regression would be too high, since it grows with their square. The
regressions on the context are then replaced by a diagonal one; random features gain nothing in that many
dimensions."""
LINEAR_RIDGE, LOGISTIC_RIDGE, FOURIER_RIDGE, DIAGONAL_RIDGE = 1.0, 3.0, 0.1, 10.0
WEAK_RIDGE, WEAK_CONSTANT_RIDGE = 0.3, 0.03
"""The second logistic regression. Its constant is freer: rewards can be very rare."""
LINEAR_BONUS, FOURIER_BONUS = 1.0, 0.4
"""The bonus per unit of uncertainty, in residual deviations, for an expert with a share of 1."""
LOGISTIC_BONUS, DIAGONAL_LOGISTIC_BONUS = 0.5, 0.25
"""The bonus per unit of uncertainty for predicted probabilities p, in units of p (1 − p)."""
FOURIER_BONUS_FEATURES = 32
"""The regression on random features has a bonus for bounded rewards and at most this many features. With
more, the uncertainty of the other regression tells contexts apart well enough, and this one would be slow.
With rewards of 0 and 1, it would explore too much."""
REDISTRIBUTED = 0.01
"""The part of all shares that is redistributed evenly with each reward."""
REDISTRIBUTED_PER_SUCCESS = 0.1
"""With rewards of 0 and 1, at most this part per reward of 1. A rare 1 says more about the experts than many
0s; if the shares became equal again in between, they would never be learned."""
CLIP, CLIP_PER_MEAN = 0.01, 0.1
"""Predicted probabilities are clipped to [ε, 1 − ε]; ε is CLIP, or a tenth of the mean reward if that is
smaller. So an arm that seems hopeless keeps a chance to be explored, and rare rewards are learned. Other
predictions are not clipped."""
PRIOR_DEVIATION = 0.5
"""The residual deviation assumed before the first reward."""

NO_TARGET = -1.0
"""Targets are within [0, 1]."""

NETWORKS, LINEAR, WEAK, FOURIER, DIAGONAL = range(5)
"""Indices of the experts."""
EXPERTS = ("networks", "linear", "weak", "fourier", "diagonal")


class ExpertArrays(NamedTuple):
    """The kernels' view of :class:`Experts`."""

    shares: Float64
    """The share of each expert. An expert that is left out always has 0."""
    errors: Float64
    """Sum of the squared errors of the mixture, their number, and the sum of the targets."""
    arm_errors: Float64
    """Sum and number of the squared errors, one row per arm."""
    linear: RegressionArrays
    weak: RegressionArrays
    fourier: RegressionArrays
    diagonal: DiagonalArrays
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
    float64[:, ::1],
    REGRESSION_ARRAYS,
    REGRESSION_ARRAYS,
    REGRESSION_ARRAYS,
    DIAGONAL_ARRAYS,
    FOURIER_ARRAYS,
    float64[:, ::1],
    float64,
    float64,
    boolean,
)


Predictions = tuple[float, float, float, float, float]
"""The prediction of each expert, scaled to [0, 1]; 0 for an expert that is left out."""


@kernel
def _mean_target(experts: ExpertArrays) -> float:
    """Return the mean of the targets, with a 1 as prior observation."""
    mean: float = (experts.errors[2] + 1) / (experts.errors[1] + 1)
    return mean


@kernel
def lowest_probability(experts: ExpertArrays) -> float:
    """Return the distance that predicted probabilities keep from 0 and 1."""
    return min(CLIP, CLIP_PER_MEAN * _mean_target(experts))


@kernel
def clip(prediction: float, experts: ExpertArrays) -> float:
    """Return a prediction, clipped if it is a probability."""
    if not experts.binary:
        return prediction
    lowest = lowest_probability(experts)
    return min(max(prediction, lowest), 1 - lowest)


@kernel
def residual_deviation(arm: int, experts: ExpertArrays) -> float:
    """Return the residual deviation, scaled like targets: of all arms or of ``arm``, whichever is larger.

    An arm whose rewards vary keeps its bonus even if the arms chosen instead are certain.
    """
    errors, own = experts.errors, experts.arm_errors[arm]
    if errors[1] == 0:
        return PRIOR_DEVIATION
    variance = errors[0] / errors[1]
    if own[1] > 0:
        variance = max(variance, own[0] / own[1])
    return math.sqrt(variance)


@kernel
def _predictions(x: Float32, z: Float64, arm: int, network: float, experts: ExpertArrays) -> Predictions:
    """Return the prediction of each expert; ``z`` holds the regression inputs for the context ``x``."""
    shares, linear_inputs = experts.shares, z[experts.features.phases.size :]
    linear, weak, fourier, diagonal = 0.0, 0.0, 0.0, 0.0
    if shares[LINEAR] > 0:
        linear = clip(predict_target(linear_inputs, arm, experts.linear), experts)
    if shares[WEAK] > 0:
        weak = clip(predict_target(linear_inputs, arm, experts.weak), experts)
    if shares[FOURIER] > 0:
        fourier = clip(predict_target(z, arm, experts.fourier), experts)
    if shares[DIAGONAL] > 0:
        diagonal = clip(predict_diagonal(x, arm, experts.diagonal), experts)
    return (network - experts.low) / (experts.high - experts.low), linear, weak, fourier, diagonal


@kernel
def mix_values(
    x: Float32, z: Float64, values: Float64, deviations: Float64, bonuses: Float64, experts: ExpertArrays
) -> None:
    """Replace network values with mixture values; write the bonuses of the regressions.

    The standard deviation of a reward of 0 or 1 follows from its value. As the unit of the bonus from counts,
    which only the networks need, it is multiplied by the square root of their share. The deviation of other
    rewards is predicted by the networks, but is at most the residual deviation.
    """
    shares, scale = experts.shares, experts.high - experts.low
    linear_square = square(z[experts.features.phases.size :] if experts.linear.rounded.size > 0 else z[:0])
    fourier_square = square(z if experts.fourier.rounded.size > 0 else z[:0])
    for arm in range(values.size):
        network, linear, weak, fourier, diagonal = _predictions(x, z, arm, values[arm], experts)
        mean = shares[NETWORKS] * network + shares[LINEAR] * linear + shares[WEAK] * weak
        mean += shares[FOURIER] * fourier + shares[DIAGONAL] * diagonal
        values[arm] = experts.low + scale * mean
        bonus, deviation = 0.0, residual_deviation(arm, experts)
        if shares[LINEAR] > 0:
            size = shares[LINEAR] * LINEAR_BONUS * deviation
            if experts.binary:
                size = shares[LINEAR] * linear * (1 - linear) + shares[WEAK] * weak * (1 - weak)
                size *= LOGISTIC_BONUS
            bonus = size * uncertainty(linear_square, arm, experts.linear)
        if experts.fourier.rounded.size > 0:
            size = shares[FOURIER] * FOURIER_BONUS * deviation
            bonus += size * uncertainty(fourier_square, arm, experts.fourier)
        if shares[DIAGONAL] > 0:
            size = DIAGONAL_LOGISTIC_BONUS * diagonal * (1 - diagonal)
            if not experts.binary:
                size = LINEAR_BONUS * deviation
            bonus += shares[DIAGONAL] * size * math.sqrt(diagonal_square(x, arm, experts.diagonal))
        bonuses[arm] = scale * bonus
        if experts.binary:
            deviations[arm] = math.sqrt(shares[NETWORKS] * mean * (1 - mean))
        else:
            deviations[arm] = min(deviations[arm], scale * deviation)


@kernel
def _log_likelihood(prediction: float, target: float, experts: ExpertArrays) -> float:
    """Return the log-likelihood of a reward: Bernoulli, or normal with the mean squared error as variance."""
    if experts.binary:
        return math.log(prediction if target > 0 else 1 - prediction)
    variance = experts.errors[0] / experts.errors[1]
    error = target - prediction
    likelihood: float = -error * error / (2 * variance) if variance > 0 else 0.0
    return likelihood


@kernel
def _redistributed(experts: ExpertArrays) -> float:
    """Return the part of all shares that the next reward redistributes evenly."""
    if not experts.binary:
        return REDISTRIBUTED
    return min(REDISTRIBUTED, REDISTRIBUTED_PER_SUCCESS * _mean_target(experts))


@kernel
def _update_shares(predictions: Predictions, arm: int, target: float, experts: ExpertArrays) -> None:
    """Weight the experts by the likelihood of the reward, then redistribute a part of the shares evenly."""
    shares = experts.shares
    likelihoods = new_vector(np.float64, shares.size)
    mean = 0.0
    for expert in range(shares.size):
        mean += shares[expert] * predictions[expert]
    squared = (target - mean) * (target - mean)
    experts.errors[0] += squared
    experts.errors[1] += 1
    experts.errors[2] += target
    experts.arm_errors[arm, 0] += squared
    experts.arm_errors[arm, 1] += 1
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

    Returns True once the kernel length is fixed: then the first rewards must be learned again, with random
    features (:meth:`Experts.restart_fourier`).
    """
    target = (reward - experts.low) / (experts.high - experts.low)
    _update_shares(_predictions(x, z, arm, network, experts), arm, target, experts)
    linear_inputs = z[experts.features.phases.size :]
    if experts.shares[LINEAR] > 0:
        learn_target(linear_inputs, arm, target, experts.linear)
    if experts.shares[WEAK] > 0:
        learn_target(linear_inputs, arm, target, experts.weak)
    if experts.shares[DIAGONAL] > 0:
        learn_diagonal(x, arm, target, experts.diagonal)
    if experts.shares[FOURIER] > 0:
        learn_target(z, arm, target, experts.fourier)
        step = experts.features.contexts[0]
        if step < CONTEXTS_TO_MEASURE:
            experts.first_targets[arm, step] = target
            measure(x, experts.features)
            return bool(step + 1 == CONTEXTS_TO_MEASURE)
    return False


class Contributions(NamedTuple):
    """The contributions of the regressions to the value of every arm, weighted by their shares."""

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
        The regressions to use. With many features, some are left out or diagonal; see ``MAX_FEATURES``.
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
        inputs = _inputs(features, kinds, binary)
        count = FOURIER_FEATURES if inputs.fourier else 0
        self.features = FourierFeatures(features, count, rng)
        ridge = LOGISTIC_RIDGE if binary else LINEAR_RIDGE
        self.linear = Regression(arms, inputs.linear, ridge, logistic=binary, has_uncertainty=True)
        self.weak = Regression(
            arms, inputs.weak, WEAK_RIDGE, logistic=True, constant_ridge=WEAK_CONSTANT_RIDGE
        )
        self.fourier = Regression(
            arms,
            inputs.fourier,
            FOURIER_RIDGE,
            logistic=False,
            has_uncertainty=not binary and features <= FOURIER_BONUS_FEATURES,
        )
        self.diagonal = DiagonalRegression(arms, inputs.diagonal, DIAGONAL_RIDGE, logistic=binary)
        present = np.array([1, *np.sign(inputs)], np.float64)
        self.arrays = ExpertArrays(
            shares=present / present.sum(),
            errors=np.zeros(3),
            arm_errors=np.zeros((arms, 2)),
            linear=self.linear.arrays,
            weak=self.weak.arrays,
            fourier=self.fourier.arrays,
            diagonal=self.diagonal.arrays,
            features=self.features.arrays,
            first_targets=np.full((arms, CONTEXTS_TO_MEASURE), NO_TARGET),
            low=low,
            high=high,
            binary=binary,
        )

    @staticmethod
    def bytes_needed(arms: int, features: int, kinds: tuple[Expert, ...], binary: bool) -> int:
        """Return the most memory that experts of this size need."""
        inputs = _inputs(features, kinds, binary)
        fourier = 4 * ((FOURIER_FEATURES if inputs.fourier else 0) + CONTEXTS_TO_MEASURE) * features
        has_fourier_bonus = not binary and features <= FOURIER_BONUS_FEATURES
        regressions = (
            Regression.bytes_needed(arms, inputs.linear, has_uncertainty=True)
            + Regression.bytes_needed(arms, inputs.weak)
            + Regression.bytes_needed(arms, inputs.fourier, has_fourier_bonus)
            + DiagonalRegression.bytes_needed(arms, inputs.diagonal)
        )
        return fourier + (8 * CONTEXTS_TO_MEASURE + 16) * arms + regressions

    @property
    def inputs(self) -> int:
        """Number of inputs of all regressions together; 0 if there are only networks."""
        return self.features.inputs if self.arrays.shares[NETWORKS] < 1 else 0

    @property
    def shares(self) -> dict[str, float]:
        """The share of each expert in all values."""
        return dict(zip(EXPERTS, self.arrays.shares.tolist(), strict=True))

    def restart_fourier(self) -> list[tuple[Float32, int, float]]:
        """Reset the regression on random features; return the contexts, arms and targets to learn.

        Until the random features exist, the first contexts are rows of a linear problem. If they stayed, they
        would force the weights of the context and the constant to fit them alone.
        """
        self.fourier.reset()
        first, targets = self.features.arrays.first, self.arrays.first_targets
        return [
            (first[step], int(arm), float(targets[arm, step]))
            for step, arm in np.argwhere(targets.T != NO_TARGET)
        ]

    def contributions(self, x: Float32, baseline: Float32) -> Contributions:
        """Return the contribution of each feature to the values between ``baseline`` and ``x``.

        A regression is a function of one weighted sum of its inputs, and every input is a function of one
        projection of the context. Each nonlinearity is replaced by its slope between the two ends, so the
        contributions add up. For the random features and the logistic function alone, this equals integrated
        gradients along the straight line.
        """
        arms = len(self.linear.arrays.weights)
        bases, contributions = np.zeros(arms), np.zeros((arms, x.size))
        ends = np.stack([self.features.at(x), self.features.at(baseline)])
        slopes = self.features.slopes(x, baseline)
        start = self.features.inputs - x.size - 1
        uncentered = np.append(np.stack([x, baseline]), np.ones((2, 1)), axis=1).astype(np.float64)
        low = lowest_probability(self.arrays) if self.arrays.binary else -np.inf
        high = 1 - low
        shares = self.arrays.shares
        for regression, share, own_ends, own_slopes in (
            (self.linear.arrays, shares[LINEAR], ends[:, start:], slopes[start:]),
            (self.weak.arrays, shares[WEAK], ends[:, start:], slopes[start:]),
            (self.fourier.arrays, shares[FOURIER], ends, slopes),
            (self.diagonal.arrays, shares[DIAGONAL], uncentered, slopes[start:]),
        ):
            if share > 0:
                weights = regression.weights
                outputs = own_ends @ weights.T
                predictions = 1 / (1 + np.exp(-outputs)) if regression.logistic else outputs
                predictions = predictions.clip(low, high)
                change = outputs[0] - outputs[1]
                inside = (predictions[0] > low) & (predictions[0] < high)
                curved = predictions[0] * (1 - predictions[0]) if regression.logistic else 1.0
                ratios = inside * curved
                np.divide(predictions[0] - predictions[1], change, out=ratios, where=change != 0)
                bases += share * predictions[1]
                contributions += share * ratios[:, None] * (weights @ own_slopes)
        difference = x.astype(np.float64) - baseline
        return Contributions(bases, contributions * difference)

    def forget(self, arms: slice | None = None) -> None:
        """Halve the weight of all evidence, or of some arms. Weights and shares stay, but move faster."""
        for regression in (self.linear, self.weak, self.fourier, self.diagonal):
            regression.forget(arms)
        self.arrays.arm_errors[arms or slice(None)] /= 2
        if arms is None:
            self.arrays.errors[:] /= 2

    def reordered(self, sources: Int64) -> Self:
        """Return a copy in which arm j is the current arm ``sources[j]``, or a new arm for −1."""
        new = copy(self)
        new.linear, new.weak, new.fourier = copy(self.linear), copy(self.weak), copy(self.fourier)
        new.diagonal = copy(self.diagonal)
        for regression in (new.linear, new.weak, new.fourier, new.diagonal):
            regression.reorder(sources)
        new.arrays = self.arrays._replace(
            arm_errors=take_rows(self.arrays.arm_errors, sources, 0),
            linear=new.linear.arrays,
            weak=new.weak.arrays,
            fourier=new.fourier.arrays,
            diagonal=new.diagonal.arrays,
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
            "expert_arm_errors": self.arrays.arm_errors,
            "expert_first_targets": self.arrays.first_targets,
            **self.linear.snapshot("linear"),
            **self.weak.snapshot("weak"),
            **self.fourier.snapshot("fourier"),
            **self.diagonal.snapshot(),
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
                "expert_arm_errors": self.arrays.arm_errors,
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
        if min(self.arrays.errors.min(), self.arrays.arm_errors.min()) < 0:
            raise ValueError("the squared errors of the experts are negative")
        targets = self.arrays.first_targets
        if ((targets != NO_TARGET) & ((targets < 0) | (targets > 1))).any():
            raise ValueError("the first targets of the experts must be within [0, 1]")
        self.linear.restore("linear", arrays)
        self.weak.restore("weak", arrays)
        self.fourier.restore("fourier", arrays)
        self.diagonal.restore(arrays)
        self.features.restore(arrays)


class _Inputs(NamedTuple):
    """The number of inputs of each regression, in the order of the experts; 0 for one that is left out."""

    linear: int
    weak: int
    fourier: int
    diagonal: int


def _inputs(features: int, kinds: tuple[Expert, ...], binary: bool) -> _Inputs:
    is_wide = features > MAX_FEATURES["linear"]
    linear = features + 1 if "linear" in kinds else 0
    has_fourier = "fourier" in kinds and features <= MAX_FEATURES["fourier"]
    return _Inputs(
        linear=0 if is_wide else linear,
        weak=linear if binary and not is_wide else 0,
        fourier=FOURIER_FEATURES + features + 1 if has_fourier else 0,
        diagonal=linear if is_wide else 0,
    )
