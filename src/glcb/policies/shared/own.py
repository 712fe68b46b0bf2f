"""Per-arm corrections of the policy that all arms share.

Features rarely determine an arm completely. So every rewarded arm has a logistic regression on the context,
which corrects the value of the shared policy: its output is added to the logit of that value. Its weights
start at 0, so an arm without rewards has the value of the shared policy, and follow by recursive Newton steps
as in ``glcb.experts.regression``. Rewards are 0 or 1.

A mixture decides how much to trust the corrections. Its two shares, for shared and for corrected values, are
common to all arms and follow the likelihood of the rewards (fixed share: Herbster, Warmuth 1998).

The pseudocounts of the shared policy are for context and arm together. A new arm that is similar to known
arms inherits their evidence, although their rewards do not show what is special about it. So every arm also
has a bonus for its own uncertainty: the standard deviation of its effect on the logit, given its own
decisions, in units of the reward. It is weighted by the share of the corrections, so it vanishes where
features explain everything.
"""

import math
from collections import OrderedDict
from typing import Any

import numpy as np

from glcb._arrays import Arrays, Float32, Float64, check_values, copy_into
from glcb._forgetting import halve_moment
from glcb._types import Arm
from glcb.policies.decision import Estimates

RIDGE = 1.0
"""λ: the weight of the prior of no correction."""
REDISTRIBUTED = 0.01
"""The part of the shares that is redistributed evenly with each reward."""
PRIOR_PRECISION = 4.0
"""1 / τ²: the effect of an arm beyond its features has the standard deviation τ = ½ on the logit."""
BONUS = 2.0
"""The size of the bonus, in standard deviations of an arm's effect."""
CLIP = 0.01
"""Values are clipped to [CLIP, 1 − CLIP]."""
MAX_ARMS = 10_000
MAX_BYTES = 64 * 2**20
"""Maximum number of arms and bytes. Beyond it, the correction of the least recently rewarded arm, and the
decision count of the least recently chosen arm, are dropped."""

SHARED, OWN = range(2)


class OwnCorrections:
    """Per-arm corrections of the values of a shared policy, and bonuses for what it does not know.

    Parameters
    ----------
    context
        Number of features of a context.
    """

    def __init__(self, context: int) -> None:
        self.context = context
        self._size = context + 1
        self.capacity = max(1, min(MAX_ARMS, MAX_BYTES // (8 * self._size * (self._size + 1))))
        self._index: OrderedDict[Arm, int] = OrderedDict()
        self._weights: Float64 = np.zeros((0, self._size))
        self._inverses: Float64 = np.zeros((0, self._size, self._size))
        self._shares: Float64 = np.array([0.5, 0.5])
        self._decisions: OrderedDict[Arm, int] = OrderedDict()

    @property
    def shares(self) -> dict[str, float]:
        """The shares of the shared values and of the corrected values."""
        return {"shared": float(self._shares[SHARED]), "own": float(self._shares[OWN])}

    @property
    def arms(self) -> int:
        """Number of arms with a correction."""
        return len(self._index)

    # ---- values ---------------------------------------------------------------------------------

    def correct(self, x: Float32, names: tuple[Arm, ...], estimates: Estimates) -> Estimates:
        """Return the estimates of candidates with corrected values, and with per-arm bonuses."""
        values = estimates.values.copy()
        known = [(position, self._index[name]) for position, name in enumerate(names) if name in self._index]
        if known:
            positions, rows = (list(part) for part in zip(*known, strict=True))
            shared = values[positions]
            own = _corrected(shared, self._weights[rows] @ _inputs(x))
            values[positions] = self._shares[SHARED] * shared + self._shares[OWN] * own
        bonuses = estimates.bonuses + self._shares[OWN] * self._bonuses(names, values)
        return Estimates(values, bonuses, estimates.pseudocounts)

    def _bonuses(self, names: tuple[Arm, ...], values: Float64) -> Float64:
        """Return the uncertainty about each arm, from its own decisions.

        A decision has the information p (1 − p) about the logit, which is also the slope of the reward.
        """
        decisions = self._decisions
        counts = np.array([decisions.get(name, 0) for name in names], np.float64)
        clipped = values.clip(CLIP, 1 - CLIP)
        slopes = clipped * (1 - clipped)
        bonuses: Float64 = BONUS * slopes / np.sqrt(PRIOR_PRECISION + counts * slopes)
        return bonuses

    def contributions(
        self, arm: Arm, ends: Float32, values: Float64, contributions: Float64
    ) -> tuple[Float64, Float64]:
        """Return the corrected value at the context and the baseline, and the contributions of the features.

        Each nonlinearity is replaced by its slope between the two ends, so the contributions add up.

        Parameters
        ----------
        arm
            The name of the arm.
        ends
            The context and the baseline, one row each.
        values
            The value of the shared policy at both ends.
        contributions
            The contribution of each feature of the joint vector to the difference between these values.
        """
        row = self._index.get(arm)
        if row is None:
            return values, contributions
        inputs = np.stack([_inputs(end) for end in ends])
        outputs = inputs @ self._weights[row]
        own = _corrected(values, outputs)
        logits = _logit(values)
        change, shared_change = (logits + outputs) @ (1, -1), values @ (1, -1)
        slope = (own @ (1, -1)) / change if change else 0.0
        bend = (logits @ (1, -1)) / shared_change if shared_change else 0.0
        result = contributions * (self._shares[SHARED] + self._shares[OWN] * slope * bend)
        corrections = (inputs[0] - inputs[1])[:-1] * self._weights[row, :-1]
        result[: self.context] += self._shares[OWN] * slope * corrections
        return self._shares[SHARED] * values + self._shares[OWN] * own, result

    # ---- learning -------------------------------------------------------------------------------

    def count_decision(self, arm: Arm) -> None:
        """Count a decision for an arm, before its reward is known."""
        self._decisions[arm] = self._decisions.pop(arm, 0) + 1
        if len(self._decisions) > MAX_ARMS:
            self._decisions.popitem(last=False)

    def learn(self, x: Float32, arm: Arm, reward: float, value: float) -> None:
        """Learn the reward of an arm for which the shared policy had predicted `value`."""
        row = self._row(arm)
        z = _inputs(x)
        prediction = float(_corrected(np.array([value]), np.array([self._weights[row] @ z]))[0])
        self._update_shares(np.array([value, prediction]), reward)
        curvature = prediction * (1 - prediction)
        product = self._inverses[row] @ z
        shrink = 1 / (1 + curvature * float(z @ product))
        self._weights[row] += shrink * (reward - prediction) * product
        scaled = math.sqrt(shrink * curvature) * product
        self._inverses[row] -= np.outer(scaled, scaled)  # symmetric to the last bit

    def _row(self, arm: Arm) -> int:
        """Return the row of an arm; a new arm takes a free row, or the row of the least recent arm."""
        row = self._index.pop(arm, None)
        if row is None:
            if len(self._index) < self.capacity:
                row = len(self._index)
                if row == len(self._weights):
                    count = min(max(8, 2 * row), self.capacity)
                    self._weights = _grown(self._weights, count)
                    self._inverses = _grown(self._inverses, count)
            else:
                _, row = self._index.popitem(last=False)
            self._weights[row] = 0
            self._inverses[row] = np.eye(self._size) / RIDGE
        self._index[arm] = row
        return row

    def _update_shares(self, predictions: Float64, reward: float) -> None:
        """Weight both shares by the likelihood of the reward, then redistribute a part evenly."""
        clipped = predictions.clip(CLIP, 1 - CLIP)
        weighted = self._shares * (clipped if reward > 0 else 1 - clipped)
        self._shares[:] = (1 - REDISTRIBUTED) * weighted / weighted.sum() + REDISTRIBUTED / 2

    def forget(self) -> None:
        """Halve the weight of all rewards so far. λ and the weights stay."""
        for row in self._index.values():
            halve_moment(self._inverses[row], RIDGE)
        for arm, count in self._decisions.items():
            self._decisions[arm] = count >> 1

    # ---- saving ---------------------------------------------------------------------------------

    def snapshot(self) -> tuple[dict[str, Any], Arrays]:
        """Return the names of the arms, least recent first, and what was learned about them."""
        rows = list(self._index.values())
        decisions = [[name, count] for name, count in self._decisions.items()]
        return {"arms": list(self._index), "decisions": decisions}, {
            "weights": self._weights[rows],
            "inverses": self._inverses[rows],
            "shares": self._shares,
        }

    def restore(self, metadata: dict[str, Any], arrays: Arrays) -> None:
        """Restore a snapshot; raise ValueError, TypeError or KeyError if it is invalid."""
        names, weights, inverses = metadata["arms"], arrays["weights"], arrays["inverses"]
        shapes = {"weights": (len(names), self._size), "inverses": (len(names), self._size, self._size)}
        for name, shape in shapes.items():
            array = check_values(name, arrays[name])
            if array.dtype != np.float64 or array.shape != shape:
                raise ValueError(f"{name} must be float64 {shape}, got {array.dtype} {array.shape}")
        if len(inverses):
            np.linalg.cholesky(inverses)  # raises a ValueError unless they are positive definite
        copy_into({"shares": self._shares}, arrays)
        if self._shares.min() < 0 or not math.isclose(self._shares.sum(), 1, abs_tol=1e-6):
            raise ValueError("the shares must not be negative and must add up to 1")
        decisions = OrderedDict((name, int(count)) for name, count in metadata["decisions"])
        if len(names) > self.capacity or len(set(names)) != len(names):
            raise ValueError("there are too many arms, or an arm occurs twice")
        if (
            not len(decisions) == len(metadata["decisions"]) <= MAX_ARMS
            or min(decisions.values(), default=0) < 0
        ):
            raise ValueError("the decisions of arms must be at least 0, and an arm can occur only once")
        self._index = OrderedDict((name, row) for row, name in enumerate(names))
        self._weights, self._inverses = weights.copy(), inverses.copy()
        self._decisions = decisions


def _inputs(x: Float32) -> Float64:
    """Return [x − ½, 1]."""
    return np.append(x.astype(np.float64) - 0.5, 1.0)


def _corrected(values: Float64, outputs: Float64) -> Float64:
    """Return σ(logit(value) + output), clipped."""
    clipped = values.clip(CLIP, 1 - CLIP)
    corrected: Float64 = 1 / (1 + (1 - clipped) / clipped * np.exp(-outputs))
    return corrected.clip(CLIP, 1 - CLIP)


def _logit(values: Float64) -> Float64:
    clipped = values.clip(CLIP, 1 - CLIP)
    logits: Float64 = np.log(clipped / (1 - clipped))
    return logits


def _grown(array: Float64, count: int) -> Float64:
    larger: Float64 = np.zeros((count, *array.shape[1:]))
    larger[: len(array)] = array
    return larger
