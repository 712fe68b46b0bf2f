"""Checks that say whether the estimates of an evaluation can be trusted, and why not."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from glcb._arrays import Arrays, Bool, Float64, Int64, copy_into
from glcb._types import Arm

Level = Literal["ok", "warning", "error"]

_MIN_EFFECTIVE_ROWS = 100
_MIN_EFFECTIVE_REWARDS = 100
_MAX_WEIGHT_SHARE = 0.05
_MAX_UNSUPPORTED = (0.001, 0.02)
_DEVIATIONS = 5.0
"""Standard errors by which a mean may differ from its expectation."""
_RARE = 10.0
"""An event with this expected count almost certainly occurs."""
_MIN_MISMATCH = 0.02
_DRIFT = 0.25
"""A feature has drifted if its mean moved by this many standard deviations, significantly."""


class Diagnostic(NamedTuple):
    """A check and its result."""

    name: str
    level: Level
    message: str
    """The meaning, in words."""


NO_PROPENSITIES = Diagnostic(
    "propensities",
    "warning",
    "The log has no propensities. The values are predictions of a model, and nothing corrects them where the "
    "logged choices depended on what the model does not see. There is no interval; an experiment would tell.",
)


class WeightSums:
    """Sums of the importance weights of several policies."""

    def __init__(self, policies: int, arms: int) -> None:
        self._count = np.zeros(1)
        self._weights = np.zeros(policies)
        self._squares = np.zeros(policies)
        self._largest = np.zeros(policies)
        self._matches = np.zeros(policies)
        self._rewards = np.zeros(policies)
        self._reward_squares = np.zeros(policies)
        self._assigned = np.zeros((policies, arms))
        self._inverse = np.zeros(4)
        """1 / p minus the number of eligible arms: sum, sum of squares, sum of numbers of eligible arms,
        rows."""
        self._frequencies = np.zeros((4, arms))
        """For each arm: decisions, sums of 1 / p and 1 / p², and rows in which the arm is eligible."""
        self._smallest = np.ones(1)
        """The smallest propensity."""

    def add(
        self,
        weight: Float64,
        match: Float64,
        reward: Float64,
        assigned: Float64,
        arm: Int64,
        propensity: Float64,
        eligible: Bool,
    ) -> None:
        """Add rows: weights and matching probabilities by policy, and the sums of probabilities by arm.

        Arms, propensities and eligible arms have one row per slot if the rows are rankings.
        """
        self._count += len(weight)
        self._weights += weight.sum(axis=0)
        self._squares += (weight**2).sum(axis=0)
        self._largest = np.maximum(self._largest, weight.max(axis=0, initial=0.0))
        self._matches += match.sum(axis=0)
        weighted = weight * reward
        self._rewards += weighted.sum(axis=0)
        self._reward_squares += (weighted**2).sum(axis=0)
        self._assigned += assigned
        sizes = eligible.sum(axis=1)
        excess = 1 / propensity - sizes
        self._inverse += (excess.sum(), (excess**2).sum(), sizes.sum(), len(sizes))
        powers = (np.bincount(arm, propensity**-power, eligible.shape[1]) for power in (0.0, 1.0, 2.0))
        self._frequencies += (*powers, eligible.sum(axis=0))
        self._smallest = np.minimum(self._smallest, propensity.min(initial=1.0))

    def snapshot(self) -> Arrays:
        """Return the state."""
        return {name.removeprefix("_"): value for name, value in vars(self).items()}

    def restore(self, arrays: Arrays) -> None:
        """Restore a snapshot."""
        copy_into(self.snapshot(), arrays)

    # ---- numbers --------------------------------------------------------------------------------

    def effective_rows(self, policy: int) -> float:
        """Return the effective sample size: (Σw)² / Σw²."""
        squares = float(self._squares[policy])
        return float(self._weights[policy]) ** 2 / squares if squares else 0.0

    def effective_rewards(self, policy: int) -> float:
        """Return the effective number of nonzero rewards: (Σwr)² / Σ(wr)²."""
        squares = float(self._reward_squares[policy])
        return float(self._rewards[policy]) ** 2 / squares if squares else 0.0

    def largest_weight(self, policy: int) -> float:
        """Return the largest weight."""
        return float(self._largest[policy])

    def match_rate(self, policy: int) -> float:
        """Return the mean probability that the policy gives to the logged arm."""
        return float(self._matches[policy] / max(self._count[0], 1))

    def assigned(self, policy: int) -> Float64:
        """Return the share of each arm in the decisions of the policy."""
        shares: Float64 = self._assigned[policy] / max(float(self._count[0]), 1.0)
        return shares

    # ---- checks ---------------------------------------------------------------------------------

    def check(self, policy: int, arms: Sequence[Arm], logged: Sequence[int]) -> list[Diagnostic]:
        """Return the checks of one policy, most consequential first."""
        return [
            self._check_mean(policy),
            self._check_support(policy, arms, logged),
            self._check_rows(policy),
            self._check_rewards(policy),
            self._check_largest(policy),
        ]

    def _check_rows(self, policy: int) -> Diagnostic:
        effective, count = self.effective_rows(policy), float(self._count[0])
        message = f"The estimate is worth {effective:,.0f} of {count:,.0f} rows"
        if effective < _MIN_EFFECTIVE_ROWS:
            message += f": fewer than {_MIN_EFFECTIVE_ROWS}. The policy rarely does what the log did."
            return Diagnostic("effective sample size", "error", message)
        return Diagnostic("effective sample size", "ok", message + ".")

    def _check_largest(self, policy: int) -> Diagnostic:
        largest, total = self.largest_weight(policy), float(self._weights[policy])
        share = largest / total if total else 1.0
        message = f"The largest weight is {largest:,.4g}, {share:.1%} of all weights"
        if share > _MAX_WEIGHT_SHARE:
            return Diagnostic("largest weight", "warning", message + ". One row moves the result noticeably.")
        return Diagnostic("largest weight", "ok", message + ".")

    def _check_mean(self, policy: int) -> Diagnostic:
        count = max(float(self._count[0]), 1.0)
        mean = float(self._weights[policy]) / count
        error = math.sqrt(max(float(self._squares[policy]) / count - mean**2, 0.0) / count)
        message = f"The weights average {mean:.3f} and should average 1"
        if abs(mean - 1) > max(_DEVIATIONS * error, _MIN_MISMATCH):
            message += (
                ". The logged propensities are wrong, or the policy plays arms that the log never plays "
                "in such contexts. Do not use IPS."
            )
            return Diagnostic("mean weight", "error", message)
        return Diagnostic("mean weight", "ok", message + ".")

    def _check_support(self, policy: int, arms: Sequence[Arm], logged: Sequence[int]) -> Diagnostic:
        shares = self.assigned(policy)
        never = [index for index, count in enumerate(logged) if not count and shares[index] > 0]
        missing = float(shares[never].sum()) if never else 0.0
        if missing <= _MAX_UNSUPPORTED[0]:
            return Diagnostic("support", "ok", "The log has decisions for every arm that the policy plays.")
        names = ", ".join(repr(arms[index]) for index in never[:5]) + (", …" if len(never) > 5 else "")
        message = (
            f"The policy plays {names} in {missing:.1%} of the rows, and the log never does: nothing is "
            "known about their reward there. Only the direct method extrapolates, without evidence."
        )
        return Diagnostic("support", "error" if missing > _MAX_UNSUPPORTED[1] else "warning", message)

    def _check_rewards(self, policy: int) -> Diagnostic:
        effective = self.effective_rewards(policy)
        message = f"The estimate rests on the equivalent of {effective:,.0f} nonzero rewards"
        if effective < _MIN_EFFECTIVE_REWARDS:
            spread = 1 / math.sqrt(effective) if effective else math.inf
            message += (
                f". That gives an error of about ±{spread:.0%} and no power to tell policies apart: collect "
                "more data."
            )
            return Diagnostic("rewards", "error", message)
        return Diagnostic("rewards", "ok", message + ".")

    def check_propensities(self) -> Diagnostic:
        """Check that 1 / p averages to the number of arms, as correct propensities imply."""
        count = max(float(self._inverse[3]), 1.0)
        mean = float(self._inverse[0]) / count
        error = math.sqrt(max(float(self._inverse[1]) / count - mean**2, 0.0) / count)
        arms = float(self._inverse[2]) / count
        message = f"1 / propensity averages {arms + mean:.2f}, expected {arms:.2f} (the number of arms)"
        if abs(mean) > max(_DEVIATIONS * error, _MIN_MISMATCH * arms):
            message += (
                ". The logged propensities are wrong, or some arms cannot be chosen in some contexts and the "
                "log does not say so."
            )
            return Diagnostic("propensities", "error", message)
        return Diagnostic("propensities", "ok", message + ".")

    def check_frequencies(self, arms: Sequence[Arm]) -> Diagnostic:
        """Check for each arm that 1 / p, summed over its decisions, is about the number of rows.

        Correct propensities imply this, even if the logging policy was learning. A rare choice counts much,
        and the variance does not show rare choices that happen not to occur: with the smallest propensity p,
        none occurs in as many as 10 / p rows with a probability of exp(−10).
        """
        chosen, weights, squares, rows = self._frequencies
        rows = np.maximum(rows, 1.0)
        means = weights / rows
        errors = np.sqrt(np.maximum(squares / rows - means**2, 0.0) / rows)
        unseen = _RARE / (self._smallest * rows)
        excess = np.abs(means - 1) / np.maximum(_DEVIATIONS * errors + unseen, _MIN_MISMATCH)
        excess[chosen < _MIN_EFFECTIVE_ROWS] = 0.0  # too few for a standard error
        worst = int(excess.argmax())
        if excess[worst] <= 1:
            message = "Arms are chosen about as often as their propensities predict."
            return Diagnostic("arm frequencies", "ok", message)
        message = (
            f"{arms[worst]!r} was chosen {chosen[worst]:,.0f} times, but its propensities predict about "
            f"{chosen[worst] / means[worst]:,.0f}. The logged propensities are wrong, or the arm cannot be "
            "chosen in some contexts and the log does not say so."
        )
        return Diagnostic("arm frequencies", "error", message)


class ContextSums:
    """Means and variances of the encoded contexts in the two halves of a log."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._seen = np.zeros(1)
        self._sums = np.zeros((2, 3, 0))
        """For each half: number of rows, sums and sums of squares."""

    def add(self, contexts: Float64) -> None:
        """Add encoded contexts."""
        if not self._sums.size:
            self._sums = np.zeros((2, 3, contexts.shape[1]))
        middle = int(np.clip(self._rows // 2 - self._seen[0], 0, len(contexts)))
        for half, part in enumerate((contexts[:middle], contexts[middle:])):
            self._sums[half] += (np.full(part.shape[1], len(part)), part.sum(axis=0), (part**2).sum(axis=0))
        self._seen += len(contexts)

    def check(self) -> Diagnostic:
        """Check that the contexts of the two halves of the log are alike."""
        counts = self._sums[:, 0]
        if not self._sums.size or counts.min() < _MIN_EFFECTIVE_ROWS:
            return Diagnostic(
                "context drift", "ok", "There are too few rows to compare two halves of the log."
            )
        means = self._sums[:, 1] / counts
        variances = np.maximum(self._sums[:, 2] / counts - means**2, 0.0)
        moved = np.abs(means[1] - means[0])
        errors = np.sqrt((variances / counts).sum(axis=0))
        spread = np.sqrt(variances.mean(axis=0))
        drifted = (moved > _DRIFT * spread) & (moved > _DEVIATIONS * errors) & (moved > 1e-9)
        if not drifted.any():
            return Diagnostic("context drift", "ok", "The contexts of both halves of the log are alike.")
        message = (
            f"{int(drifted.sum())} of {drifted.size} encoded features differ between the two halves of the "
            "log. The estimates describe the contexts of the log; future ones may resemble its end."
        )
        return Diagnostic("context drift", "warning", message)

    def snapshot(self) -> Arrays:
        """Return the state."""
        return {"seen": self._seen, "sums": self._sums}

    def restore(self, arrays: Arrays) -> None:
        """Restore a snapshot."""
        self._seen, self._sums = arrays["seen"].copy(), arrays["sums"].copy()


NO_INTERVAL = Diagnostic(
    "interval",
    "error",
    "A lower bound is above the upper bound, so there is no interval. Correct propensities almost never "
    "cause this, so the logged ones are probably wrong.",
)


def check_identifiers(names: Sequence[str]) -> Diagnostic:
    """Check that no feature is an identifier; `names` are the features that look like one."""
    if not names:
        return Diagnostic("identifiers", "ok", "No feature has another text in almost every row.")
    message = (
        f"{', '.join(map(repr, names))}: another text in almost every row, like an identifier or a time. "
        "Nothing can be learned from it, and policies that learn earn less: leave it out (ignore_columns)."
    )
    return Diagnostic("identifiers", "warning", message)


def worst(diagnostics: Sequence[Diagnostic]) -> Level:
    """Return the most severe level."""
    levels: tuple[Level, ...] = ("error", "warning")
    return next((level for level in levels if any(each.level == level for each in diagnostics)), "ok")
