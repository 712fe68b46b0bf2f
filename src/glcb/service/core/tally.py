"""Running sums over the decisions and rewards of an experiment, from which its statistics are computed.

Their size depends on the number of arms, and up to a limit on that of the features, but not on the number of
decisions. The slots of a ranking count as decisions.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET, Struct, UnsetType, field

from glcb._api.guardrails import or_default
from glcb._api.requests import ExperimentSettings
from glcb._arrays import Float64
from glcb.bandit.encoding.values import flatten
from glcb.service.core.catalog_tally import ArmTally, CatalogTally, trim
from glcb.service.core.history import History
from glcb.service.core.open_decisions import OpenDecision
from glcb.service.core.segments import Segments
from glcb.service.core.vitals import MIN_DECISIONS, Vitals
from glcb.service.lift import LiftSums, Weights

MAX_BLOCKS = 200
_WINDOW = 1000
"""Forecasts are averaged over about this many recent decisions; older ones fade."""
_FEW_ARMS = 8

_DECISIONS, _PREDICTED, _CHOSEN, _EXPECTED, _VARIANCE = range(5)
_ROWS = 5


class DecisionRecord(NamedTuple):
    """A decision as the tally counts it."""

    arms: tuple[str, ...]
    chosen: int
    """Index of the chosen arm."""
    probabilities: list[float] | Float64
    values: list[float] | Float64
    """Predicted reward of each arm."""
    held_out: bool
    explored: float
    """The bandit's probability of not choosing the most likely arm."""
    overlap: float
    """Probability of the least likely arm, as a share of that of random assignment; holdout included."""
    context: Mapping[Any, Any] | list[Any]
    """The context as sent."""
    is_first: bool = True
    """Whether it is the first one for this context, like the first slot of a ranking."""


class Group(Struct):
    """The rewards of the bandit or of the holdout."""

    n: int = 0
    total: float = 0.0

    @property
    def mean(self) -> float | None:
        """The mean reward, or None without any."""
        return self.total / self.n if self.n else None


class ArmForecasts(Struct):
    """Mean predicted reward of each arm, and its actual and expected number of decisions."""

    arms: tuple[str, ...] = ()
    sums: bytearray = field(default_factory=bytearray)
    """Five rows of float64, one column per arm. Bytes survive a snapshot bit for bit."""

    def add_decision(self, decision: DecisionRecord) -> None:
        """Count a decision."""
        if decision.arms is not self.arms:
            self._set_arms(decision.arms)
        if len(self.arms) <= _FEW_ARMS:
            self._add_one_by_one(decision)
        else:
            self._add_at_once(decision)

    def _add_one_by_one(self, decision: DecisionRecord) -> None:
        """Count a decision; for few arms this is faster than NumPy, and the result is the same."""
        sums, n = memoryview(self.sums).cast("d"), len(self.arms)
        predicted, expected, variance = _PREDICTED * n, _EXPECTED * n, _VARIANCE * n
        for probability, value in zip(decision.probabilities, decision.values, strict=True):
            count = sums[predicted - n] = sums[predicted - n] + 1
            mean = sums[predicted]
            sums[predicted] = mean + (value - mean) / (count if count < _WINDOW else _WINDOW)
            sums[expected] += probability
            sums[variance] += probability * (1 - probability)
            predicted, expected, variance = predicted + 1, expected + 1, variance + 1
        sums[_CHOSEN * n + decision.chosen] += 1

    def _add_at_once(self, decision: DecisionRecord) -> None:
        rows, probabilities = self._rows(), np.asarray(decision.probabilities)
        count, predicted = rows[_DECISIONS], rows[_PREDICTED]
        count += 1
        predicted += (decision.values - predicted) / np.minimum(count, _WINDOW)
        rows[_CHOSEN, decision.chosen] += 1
        rows[_EXPECTED] += probabilities
        rows[_VARIANCE] += probabilities * (1 - probabilities)

    def _rows(self) -> Float64:
        """Return a writable view of the sums."""
        return np.frombuffer(self.sums).reshape(_ROWS, len(self.arms))

    def _set_arms(self, arms: tuple[str, ...]) -> None:
        """Keep the sums of these arms; start new ones at zero."""
        if arms != self.arms:
            columns = {arm: column for column, arm in enumerate(self.arms)}
            before, rows = self._rows(), np.zeros((_ROWS, len(arms)))
            for column, arm in enumerate(arms):
                if arm in columns:
                    rows[:, column] = before[:, columns[arm]]
            self.sums = bytearray(rows.tobytes())
        self.arms = arms

    def predicted(self) -> dict[str, float]:
        """Return the recent mean of the predicted reward of each arm, over all contexts."""
        rows = self._rows()
        return {
            arm: float(value)
            for arm, value, count in zip(self.arms, rows[_PREDICTED], rows[_DECISIONS], strict=True)
            if count
        }

    def largest_deviation(self) -> tuple[str, int, float, float] | None:
        """Return the arm whose number of decisions deviates most from its logged propensities.

        Returns
        -------
        tuple or None
            The arm, its number of decisions, the expected number, and the variance of that number.
        """
        if not self.arms:
            return None
        rows = self._rows()
        # Adding 1 to the variance makes a difference of one decision insignificant.
        deviation = np.abs(rows[_CHOSEN] - rows[_EXPECTED]) / np.sqrt(rows[_VARIANCE] + 1)
        arm = int(deviation.argmax())
        chosen, expected, variance = rows[[_CHOSEN, _EXPECTED, _VARIANCE], arm].tolist()
        return self.arms[arm], int(chosen), expected, variance


class Block(Struct):
    """A period with a fixed number of decisions."""

    start: float
    end: float
    decisions: int = 0
    arms: dict[str, int] = field(default_factory=dict)
    """Decisions per arm."""
    rewards: list[int] = field(default_factory=lambda: [0, 0])
    """Number of rewards that were counted in this period: of the bandit's decisions and of the holdout."""
    totals: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """Sums of these rewards."""
    predictions: int = 0
    """Number of these rewards whose predictions are judged."""
    predicted: float = 0.0
    """Sum of the predictions."""
    observed: float = 0.0
    """Sum of the rewards that were predicted."""
    squared_errors: float = 0.0
    """Sum of the squared errors of the predictions."""
    bandit_decisions: int = 0
    """Decisions outside the holdout."""
    explored: float = 0.0
    """Over these decisions, the sum of the probability of not choosing the most likely arm."""
    overlap: float = 0.0
    """Sum of the overlap of all decisions with random assignment."""

    def merge(self, later: "Block", is_catalog: bool) -> None:
        """Add the next block to this one."""
        self.end = later.end
        self.decisions += later.decisions
        self.predictions += later.predictions
        self.predicted += later.predicted
        self.observed += later.observed
        self.squared_errors += later.squared_errors
        self.bandit_decisions += later.bandit_decisions
        self.explored += later.explored
        self.overlap += later.overlap
        for arm, decisions in later.arms.items():
            self.arms[arm] = self.arms.get(arm, 0) + decisions
        self.arms = trim(self.arms) if is_catalog else self.arms
        for group in (0, 1):
            self.rewards[group] += later.rewards[group]
            self.totals[group] += later.totals[group]


def segment_names(settings: ExperimentSettings) -> list[str] | None:
    """Return the features that an experiment declares as segments, each once; None if it declares none."""
    names = or_default(settings.segments, None)
    return None if names is None else list(dict.fromkeys(names))


class Tally(Struct):
    """Sums over all decisions, and over blocks whose length doubles when there are too many of them."""

    bandit: Group = field(default_factory=Group)
    holdout: Group = field(default_factory=Group)
    lift: LiftSums = field(default_factory=LiftSums)
    vitals: Vitals = field(default_factory=Vitals)
    arms: dict[str, ArmTally] = field(default_factory=dict)
    removed_decisions: int = 0
    """Decisions for arms that have been removed since."""
    forecasts: ArmForecasts = field(default_factory=ArmForecasts)
    blocks: list[Block] = field(default_factory=list)
    block_length: int = 10
    """Decisions per block."""
    catalog: CatalogTally | UnsetType = UNSET
    """If arms have features, their sums are here, and not in ``arms`` and ``forecasts``."""
    history: History = field(default_factory=lambda: History(0.0))
    segments: Segments = field(default_factory=lambda: Segments(0.0))

    def begin(self, at: float, settings: ExperimentSettings) -> None:
        """Begin the history and the segments."""
        self.history = History(at)
        self.segments = Segments(at).changed(segment_names(settings), settings.schema, at)

    def use_settings(self, at: float, settings: ExperimentSettings) -> None:
        """Start the segments anew if other features are declared."""
        names = segment_names(settings)
        if self.segments.names != names:
            self.segments = self.segments.changed(names, settings.schema, at)

    def add_decision(self, at: float, decision: DecisionRecord, opened: OpenDecision) -> None:
        """Count a decision, and note its segments until its reward is known."""
        if not self.blocks or self.blocks[-1].decisions >= self.block_length:
            self._start_block(at)
        arm, block = decision.arms[decision.chosen], self.blocks[-1]
        block.end = at
        block.decisions += 1
        block.arms[arm] = block.arms.get(arm, 0) + 1
        block.overlap += decision.overlap
        if not decision.held_out:
            block.bandit_decisions += 1
            block.explored += decision.explored
        if self.catalog is UNSET:
            self._arm(arm).decisions += 1
            self.forecasts.add_decision(decision)
        else:
            chosen = decision.chosen
            probabilities = np.asarray(decision.probabilities)
            self.catalog.add_decision(arm, float(decision.values[chosen]), chosen, probabilities)
            block.arms = trim(block.arms)
        self.vitals.arrivals.add_decision(at)
        context = decision.context if isinstance(decision.context, list) else flatten(decision.context)
        if decision.is_first:
            self.vitals.features.add(context, at)
        self.vitals.clock.add(at)
        self.history.add_decision(at, arm)
        opened.segments = self.segments.add_decision(context, arm, at)

    def add_reward(self, at: float, decision: OpenDecision, value: float, scaled: float) -> None:
        """Count the reward of a decision; ``scaled`` is its value on a scale from 0 to 1."""
        group = self.holdout if decision.held_out else self.bandit
        group.n += 1
        group.total += value
        self.history.add_reward(decision, value, scaled, self.lift.center)
        self.segments.add_reward(decision, scaled)
        if decision.weights is not None:
            self.lift.add(scaled, decision.weights, held_out=decision.held_out)
        self.vitals.values.add(scaled, decision.reported)
        if not self.blocks:
            self._start_block(at)
        block = self.blocks[-1]
        block.end = at
        block.rewards[decision.held_out] += 1
        block.totals[decision.held_out] += value
        if decision.predicted is not None:
            block.predictions += 1
            block.predicted += decision.predicted
            block.observed += value
            block.squared_errors += (value - decision.predicted) ** 2
        tally = self._arm(decision.arm) if self.catalog is UNSET else self.catalog.of_reward(decision.arm)
        tally.rewards += 1
        tally.total += value

    def add_control(self, decision: OpenDecision, scaled: float, weights: Weights, center: float) -> None:
        """Count a reward for the lift over the control.

        Parameters
        ----------
        decision
            The decision.
        scaled
            Its reward, on a scale from 0 to 1.
        weights
            The weights for the lift over the control.
        center
            The center of its estimate.
        """
        self.history.add_control(decision, scaled, weights, center)
        self.segments.add_control(decision, scaled, weights)

    def _arm(self, arm: str) -> ArmTally:
        """Return the sums of an arm."""
        tally = self.arms.get(arm)
        if tally is None:
            tally = self.arms[arm] = ArmTally()
        return tally

    @property
    def predicts(self) -> bool:
        """Whether enough rewards have been counted to judge new predictions."""
        return self.vitals.values.n >= MIN_DECISIONS

    def remove_arm(self, arm: str) -> None:
        """Drop the sums of an arm except its number of decisions."""
        self.removed_decisions += self.arms.pop(arm, ArmTally()).decisions
        self.history.remove_arm(arm)
        for block in self.blocks:
            block.arms.pop(arm, None)

    def _start_block(self, at: float) -> None:
        if len(self.blocks) >= MAX_BLOCKS:
            pairs = zip(self.blocks[::2], self.blocks[1::2], strict=True)
            self.blocks = []
            for first, second in pairs:
                first.merge(second, self.catalog is not UNSET)
                self.blocks.append(first)
            self.block_length *= 2
        self.blocks.append(Block(at, at))
