"""Further metrics, and guardrails with anytime-valid tests.

A guardrail says that the expected metric of the bandit must be at least (1 − x) times that of the reference,
the control or random assignment, or at least that of the reference minus d. If the arm of a decision was
served with probability b, and would have been chosen with probability p by the bandit and r by the reference,
then (p − (1 − x) r) / b × (metric − center) + x × center is unbiased for the difference, the margin. The
guardrail breaks when the upper bound of the mean margin, an empirical Bernstein confidence sequence like that
of the lift, is negative. If the metric must not rise, everything is mirrored: the metric of the bandit must
be at most (1 + x) times that of the reference, so that the weights are ((1 + x) r − p) / b.

The margin of an arm counts every decision by the bandit's probability of that arm: the weights are
p(arm) × (1[arm] − (1 − x) r) / b. It compares the metric in the decisions that the bandit gives to the arm
with what the reference would have got in the same decisions. The margins of all arms add up to
that of the experiment.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct, field

from glcb._api.guardrails import REWARD, Breach, Guardrail, or_default
from glcb._api.requests import ExperimentSettings, RewardItem
from glcb._arrays import Float64
from glcb._errors import InvalidReward
from glcb.bandit.config import RewardAggregation
from glcb.bandit.reward_rules import aggregate
from glcb.evaluate.sequences import boundaries
from glcb.service.core.lift import MAX_WEIGHT, Weights

FALSE_ALARMS = 0.05
"""Probability that any guardrail of an experiment ever breaks although none is violated."""
MAX_CONTROL_WEIGHT = 1000.0
"""Decisions in which the control is served so rarely that its weight is larger are left out."""
_LOOK_SHARE = 0.02
"""Guardrails are tested whenever this share of the decisions is new."""


class Shares(NamedTuple):
    """The distributions over the arms of one decision."""

    own: Float64
    """What the bandit would do."""
    random: Float64
    """Random assignment."""
    control: Float64 | None
    """The control; None if there is none."""
    logged: Float64
    """The probabilities with which arms were served, as far as the assignment was random."""
    overall: Float64
    """The probabilities with which arms are served, over the bandit and the holdout."""
    chosen: int
    values: Float64 | None = None
    """The predicted rewards of all arms, on a scale from 0 to 1."""

    def over_random(self) -> Weights | None:
        """Return the weights for the lift over random assignment, or None if it cannot be estimated."""
        return self._weights(self.random, MAX_WEIGHT)

    def over_control(self) -> Weights | None:
        """Return the weights for the lift over the control, or None if it cannot be estimated."""
        return None if self.control is None else self._weights(self.control, MAX_CONTROL_WEIGHT)

    def _weights(self, reference: Float64, most: float) -> Weights | None:
        difference = self.own - reference
        ratios = self.ratios(difference)
        if ratios is None:
            return None
        lowest, highest, chosen = float(ratios.min()), float(ratios.max()), self.chosen
        if max(-lowest, highest) > most:
            return None
        return Weights(
            float(ratios[chosen]),
            float(reference[chosen] / self.logged[chosen]),
            min(lowest, 0.0),
            max(highest, 0.0),
            float((difference * ratios).sum()),
            0.0 if self.values is None else float((difference * self.values).sum()),
            0.0 if self.values is None else float(self.values[chosen]),
        )

    def ratios(self, numerator: Float64) -> Float64 | None:
        """Return the numerator as a share of the logged probabilities; None if one of them is missing."""
        if self.logged.min() > 0:
            return numerator / self.logged
        used = numerator != 0
        if (self.logged[used] <= 0).any():
            return None
        result: Float64 = np.zeros(numerator.size)
        result[used] = numerator[used] / self.logged[used]
        return result


class RecordedReward(RewardItem, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A reward, as its event stores it."""

    public: bool = False
    """Whether a publishable API key reported it."""


class Reference(Struct, array_like=True):
    """What a guardrail compares with, in one decision."""

    ratio: float
    """r / b of the chosen arm."""
    largest: float
    """The largest r / b of all arms."""


class GuardedDecision(Struct, array_like=True):
    """What guardrails and the lift over the control need to know of an open decision."""

    lift: Weights | None
    """The weights for the lift over the control."""
    chosen: int
    ratio: float
    """p / b of the chosen arm."""
    largest: float
    """The largest p / b of all arms."""
    random: Reference | None
    control: Reference | None
    own: bytes = b""
    """The bandit's probability of each arm, as 64-bit numbers; empty if no arm is guarded."""
    ratios: bytes = b""
    """p / b of each arm."""
    metrics: dict[str, float] = {}
    """The metrics that were reported so far."""
    public: bool = False
    """Whether a publishable API key has reported its reward, or one of its metrics."""

    def forget_arms(self) -> None:
        """Forget the probabilities of single arms: the numbers of arms have changed."""
        self.own = self.ratios = b""

    def add_metrics(self, metrics: Mapping[str, float], aggregation: RewardAggregation) -> None:
        """Add metrics that were reported with a reward."""
        known = self.metrics
        added = {name: aggregate(aggregation, known.get(name), value) for name, value in metrics.items()}
        self.metrics = {**known, **added}

    @classmethod
    def of(cls, shares: Shares, with_arms: bool) -> "GuardedDecision":
        """Return what is needed of a decision, with or without the probabilities of all arms."""
        own, chosen = shares.ratios(shares.own), shares.chosen
        references = [
            None
            if one is None or (ratios := shares.ratios(one)) is None or ratios.max() > MAX_CONTROL_WEIGHT
            else Reference(float(ratios[chosen]), float(ratios.max()))
            for one in (shares.random, shares.control)
        ]
        if own is None:
            references = [None, None]
        known = own is not None and with_arms
        return cls(
            shares.over_control(),
            chosen,
            0.0 if own is None else float(own[chosen]),
            0.0 if own is None else float(own.max()),
            references[0],
            references[1],
            shares.own.tobytes() if known else b"",
            own.tobytes() if own is not None and known else b"",
        )


class MetricSums(Struct):
    """Number and sum of the values of a metric."""

    n: int = 0
    total: float = 0.0
    scaled: float = 0.0
    """Sum of the values on a scale from 0 to 1."""
    trusted: int = 0
    """Number of values that were reported and that guardrails count."""
    ignored: int = 0
    """Number of values that were reported and that guardrails do not count."""


class GuardSums(Struct):
    """Sums over the decisions that a guardrail counts, on a scale of the metric from 0 to 1."""

    n: int = 0
    exposure: float = 0.0
    """Sum of the bandit's probabilities of the arm; for an experiment, the number of decisions."""
    difference: float = 0.0
    """Sum of the estimates without the allowance."""
    squares: float = 0.0
    above: float = 0.0
    below: float = 0.0
    """No estimate could have been higher than ``above``, or lower than minus ``below``."""
    allowance: float = 0.0
    """Sum of the tolerated falls or rises."""
    reference: float = 0.0
    """Sum of the estimates of the metric under the reference."""
    broken: bool = False

    def add(self, value: float, center: float, weights: tuple[float, float, float], exposure: float) -> None:
        """Add a decision: its metric, and the weight of its arm with the lowest and highest of all arms."""
        weight, lowest, highest = weights
        estimate = weight * (value - center)
        self.n += 1
        self.exposure += exposure
        self.difference += estimate
        self.squares += estimate * estimate
        self.above = max(self.above, highest * (1 - center), -lowest * center)
        self.below = max(self.below, -lowest * (1 - center), highest * center)


class GuardrailSums(Struct):
    """The sums of one guardrail: of the whole experiment, or of each arm."""

    guardrail: Guardrail
    experiment: GuardSums = field(default_factory=GuardSums)
    arms: dict[str, GuardSums] = field(default_factory=dict)


class Guard(Struct):
    """What is known about the metrics and the guardrails of an experiment, and about shadow mode."""

    metrics: dict[str, MetricSums] = field(default_factory=dict)
    guardrails: list[GuardrailSums] = field(default_factory=list)
    shadow_decisions: int = 0
    agreements: int = 0
    open: dict[str, GuardedDecision] = field(default_factory=dict)
    """Open decisions; written by ``Experiment.snapshot``."""

    def configure(self, guardrails: Sequence[Guardrail]) -> None:
        """Use these guardrails; those that were used before keep their sums."""
        known = {one.guardrail: one for one in self.guardrails}
        self.guardrails = [known.get(one) or GuardrailSums(one) for one in guardrails]

    def restart(self, arm: str | None) -> None:
        """Forget what guardrails know of an arm that is resumed, or of the experiment."""
        for sums in self.guardrails:
            if arm is None:
                sums.experiment = GuardSums()
            else:
                sums.arms.pop(arm, None)

    def count(
        self,
        decision: GuardedDecision,
        reward: float,
        settings: ExperimentSettings,
        ranges: Mapping[str, tuple[float, float]],
        arms: Sequence[str],
        reported: bool = True,
    ) -> None:
        """Count the metrics of a decision whose reward is final.

        For guardrails, a decision for which a publishable API key has reported anything is one without a
        report. If it were left out, visitors could choose which decisions count.

        Parameters
        ----------
        decision
            The decision.
        reward
            Its reward.
        settings
            The settings of the experiment.
        ranges
            The lowest and the highest value of every metric, the reward included.
        arms
            The arms of the experiment.
        reported
            Whether the reward was reported, and is not the default one.
        """
        values = {REWARD: reward, **_metric_values(decision.metrics, settings)}
        is_trusted = not decision.public or settings.trust_publishable is True
        self._judge(decision, values if is_trusted else _default_values(settings), ranges, arms)
        for metric, value in values.items():
            known = self.metrics.setdefault(metric, MetricSums())
            low, high = ranges[metric]
            known.n += 1
            known.total += value
            known.scaled += (value - low) / (high - low)
            if reported if metric == REWARD else metric in decision.metrics:
                known.trusted += is_trusted
                known.ignored += not is_trusted

    def count_without_reward(
        self,
        decision: GuardedDecision,
        settings: ExperimentSettings,
        ranges: Mapping[str, tuple[float, float]],
        arms: Sequence[str],
    ) -> None:
        """Count a decision that a publishable API key ended without a reward, as if it had not done so.

        The arguments are those of :meth:`count`.
        """
        if settings.trust_publishable is not True:
            self._judge(decision, _default_values(settings), ranges, arms)

    def _judge(
        self,
        decision: GuardedDecision,
        values: Mapping[str, float],
        ranges: Mapping[str, tuple[float, float]],
        arms: Sequence[str],
    ) -> None:
        """Add the values of a decision to the guardrails."""
        for sums in self.guardrails:
            metric = sums.guardrail.metric
            reference = decision.control if sums.guardrail.against == "control" else decision.random
            if metric in values and reference is not None:
                known = self.metrics.get(metric, MetricSums())
                center = (0.5 + known.scaled) / (1 + known.n)
                _add(sums, decision, reference, values[metric], center, ranges[metric], arms)

    def find_breach(self, settings: ExperimentSettings, arms: Sequence[str]) -> Breach | None:
        """Return the first guardrail that breaks now, or None."""
        spared = {*or_default(settings.paused_arms, []), settings.control}
        for sums in self.guardrails:
            named = series_of(sums)
            error = level(len(self.guardrails), sums.guardrail, len(arms))
            for arm, margin in zip(named, margins(list(named.values()), error), strict=True):
                if margin.high < 0 and not named[arm].broken and arm not in spared:
                    return Breach(
                        guardrail=sums.guardrail, arm=arm, reason=_reason(sums.guardrail, arm, named[arm])
                    )
        return None

    def mark_broken(self, breach: Breach) -> None:
        """Note that a guardrail has broken, so that it does so only once."""
        for sums in self.guardrails:
            if sums.guardrail == breach.guardrail:
                series_of(sums)[breach.arm].broken = True


def level(guardrails: int, guardrail: Guardrail, arms: int) -> float:
    """Return the probability of a false alarm of each series of a guardrail.

    All series of an experiment share ``FALSE_ALARMS``.
    """
    return FALSE_ALARMS / (guardrails * (max(arms, 1) if guardrail.pauses == "arm" else 1))


def is_due(counted: int, looked: int) -> bool:
    """Return whether guardrails are tested again, if ``looked`` decisions were counted at the last look."""
    return counted - looked >= max(1, _LOOK_SHARE * looked)


def check_metrics(metrics: Mapping[str, float], ranges: Mapping[str, tuple[float, float]]) -> None:
    """Raise InvalidReward if a metric is unknown or its value is outside its range."""
    for name, value in metrics.items():
        if name == REWARD or name not in ranges:
            known = ", ".join(repr(one) for one in ranges if one != REWARD) or "none"
            raise InvalidReward(f"there is no metric {name!r}; the metrics of this experiment are {known}")
        low, high = ranges[name]
        if not low <= value <= high:
            raise InvalidReward(f"{name} must be a number from {low:g} to {high:g}, got {value:g}")


class Margin(NamedTuple):
    """The mean margin per exposure with its bounds, on a scale of the metric from 0 to 1."""

    mean: float
    low: float
    high: float


def series_of(sums: GuardrailSums) -> dict[str | None, GuardSums]:
    """Return the sums of each arm, or of the whole experiment as those of None."""
    if sums.guardrail.pauses != "arm":
        return {None: sums.experiment}
    return {arm: one for arm, one in sums.arms.items()}  # noqa: C416 (the keys get a wider type)


def _default_values(settings: ExperimentSettings) -> dict[str, float]:
    """Return the values of a decision without a report; none if it has no default reward."""
    if settings.reward_timeout is None or settings.default_reward is None:
        return {}
    return {REWARD: settings.default_reward, **_metric_values({}, settings)}


def _metric_values(reported: Mapping[str, float], settings: ExperimentSettings) -> dict[str, float]:
    """Return the values of the metrics of a decision, or their defaults."""
    values = {}
    for name, metric in or_default(settings.metrics, {}).items():
        value = reported.get(name, metric.default)
        if value is not None:
            values[name] = min(max(value, metric.range[0]), metric.range[1])
    return values


def _add(
    sums: GuardrailSums,
    decision: GuardedDecision,
    reference: Reference,
    value: float,
    center: float,
    limits: tuple[float, float],
    arms: Sequence[str],
) -> None:
    """Add a decision to the sums of a guardrail."""
    guardrail, (low, high) = sums.guardrail, limits
    sign = -1.0 if guardrail.rises else 1.0
    limit = 1 - sign * guardrail.tolerated if guardrail.relative else 1.0
    scaled, unit = (value - low) / (high - low), high - low
    tolerated = guardrail.tolerated * (center + low / unit if guardrail.relative else 1 / unit)
    referred = center + reference.ratio * (scaled - center)
    if guardrail.pauses != "arm":
        weight = decision.ratio - limit * reference.ratio
        weights = _mirrored(sign, weight, -limit * reference.largest, decision.largest)
        sums.experiment.add(scaled, center, weights, 1.0)
        sums.experiment.allowance += tolerated
        sums.experiment.reference += referred
        return
    own, ratios = np.frombuffer(decision.own).tolist(), np.frombuffer(decision.ratios).tolist()
    for place, (share, ratio) in enumerate(zip(own, ratios, strict=True)):
        if share <= 0 or place >= len(arms):
            continue
        one = sums.arms.get(arms[place])
        if one is None:
            one = sums.arms[arms[place]] = GuardSums()
        weight = (ratio if place == decision.chosen else 0.0) - limit * share * reference.ratio
        weights = _mirrored(sign, weight, -limit * share * reference.largest, ratio)
        one.add(scaled, center, weights, share)
        one.allowance += share * tolerated
        one.reference += share * referred


def _mirrored(sign: float, weight: float, lowest: float, highest: float) -> tuple[float, float, float]:
    """Return a weight with the lowest and highest of all arms, times a sign."""
    return (weight, lowest, highest) if sign > 0 else (-weight, -highest, -lowest)


def margins(series: list[GuardSums], error: float) -> list[Margin]:
    """Return the margin of each series, each with this probability of a false alarm."""
    squares = np.array([one.squares for one in series])
    above = boundaries(squares, np.array([one.above for one in series]), error).tolist()
    below = boundaries(squares, np.array([one.below for one in series]), error).tolist()
    result = []
    for one, up, down in zip(series, above, below, strict=True):
        if one.exposure <= 0:
            result.append(Margin(math.nan, -math.inf, math.inf))
            continue
        total = one.difference + one.allowance
        result.append(Margin(*((total + part) / one.exposure for part in (0.0, -down, up))))
    return result


def _reason(guardrail: Guardrail, arm: str | None, sums: GuardSums) -> str:
    """Return why a guardrail breaks, in a sentence."""
    change, side = guardrail.tolerated, "above" if guardrail.rises else "below"
    tolerated = f"{100 * change:.4g}%" if guardrail.relative else f"{change:.4g}"
    reference = "the control" if guardrail.against == "control" else "random assignment"
    where = "" if arm is None else f" of {arm!r}"
    return (
        f"{guardrail.metric}{where} is more than {tolerated} {side} that of {reference}, with a confidence "
        f"of {1 - FALSE_ALARMS:.0%} after {sums.n:,} decisions"
    )
