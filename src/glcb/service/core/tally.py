"""Everything that is counted of the decisions and rewards of an experiment.

Its size depends on the number of arms, and up to a limit on that of the features, but not on the number of
decisions. The slots of a ranking count as decisions.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType, field

from glcb._api.guardrails import or_default
from glcb._api.requests import ExperimentSettings
from glcb.bandit.encoding.values import flatten
from glcb.service.core.forecasts import ArmForecasts, CatalogForecasts
from glcb.service.core.history import History
from glcb.service.core.lift import Weights
from glcb.service.core.open_decisions import OpenDecision
from glcb.service.core.records import SlotRecord
from glcb.service.core.segments import Segments
from glcb.service.core.sums import MAX_ARMS, GroupRewards, Sums
from glcb.service.core.vitals import MIN_DECISIONS, Vitals

MAX_BLOCKS = 200


class TallyBlock(Struct):
    """A period with a fixed number of decisions, and the rewards that were counted in it.

    It has no sums for each arm: a reward counts in the block in which it arrives.
    """

    start: float
    end: float
    decisions: int = 0
    arms: dict[str, int] = field(default_factory=dict)
    """Decisions per arm."""
    bandit: GroupRewards = field(default_factory=GroupRewards)
    holdout: GroupRewards = field(default_factory=GroupRewards)
    predictions: int = 0
    """Number of these rewards whose predictions are judged."""
    predicted: float = 0.0
    """Sum of the predictions."""
    observed: float = 0.0
    """Sum of the rewards that were predicted."""
    magnitude: float = 0.0
    """Sum of the absolute values of these rewards."""
    changes: int = 0
    """Number of these rewards that differ from the reward before."""
    squared_errors: float = 0.0
    """Sum of the squared errors of the predictions."""
    bandit_decisions: int = 0
    """Decisions outside the holdout."""
    explored: float = 0.0
    """Over these decisions, the sum of the probability of not choosing the most likely arm."""
    overlap: float = 0.0
    """Sum of the overlap of all decisions with random assignment."""

    def add_decision(self, at: float, slot: SlotRecord, held_out: bool) -> None:
        """Count a decision."""
        self.end = at
        self.decisions += 1
        self.arms[slot.arm] = self.arms.get(slot.arm, 0) + 1
        self.overlap += slot.overlap
        if not held_out:
            self.bandit_decisions += 1
            self.explored += slot.explored

    def add_reward(self, at: float, decision: OpenDecision, value: float, differs: bool) -> None:
        """Count a reward that arrives now, and judge its prediction.

        ``differs`` says whether it differs from the reward before.
        """
        self.end = at
        (self.holdout if decision.held_out else self.bandit).add(value)
        if decision.predicted is not None:
            self.predictions += 1
            self.predicted += decision.predicted
            self.observed += value
            self.magnitude += abs(value)
            self.changes += differs
            self.squared_errors += (value - decision.predicted) * (value - decision.predicted)

    def merge(self, later: "TallyBlock") -> None:
        """Add the next block to this one."""
        self.end = later.end
        self.decisions += later.decisions
        self.bandit.merge(later.bandit)
        self.holdout.merge(later.holdout)
        self.predictions += later.predictions
        self.predicted += later.predicted
        self.observed += later.observed
        self.magnitude += later.magnitude
        self.changes += later.changes
        self.squared_errors += later.squared_errors
        self.bandit_decisions += later.bandit_decisions
        self.explored += later.explored
        self.overlap += later.overlap
        for arm, decisions in later.arms.items():
            self.arms[arm] = self.arms.get(arm, 0) + decisions

    def limit_arms(self) -> None:
        """Keep only the half of the arms with the most decisions if there are too many."""
        if len(self.arms) > MAX_ARMS:
            self.arms = dict(sorted(self.arms.items(), key=lambda item: -item[1])[: MAX_ARMS // 2])


def segment_names(settings: ExperimentSettings) -> list[str] | None:
    """Return the features that an experiment declares as segments, each once; None if it declares none."""
    names = or_default(settings.segments, None)
    return None if names is None else list(dict.fromkeys(names))


class Tally(Struct):
    """Sums over all decisions, by period and by segment, and what the health checks need.

    The length of blocks doubles when there are too many of them.
    """

    whole: Sums = field(default_factory=Sums)
    """The sums of the whole experiment; if arms have features, of the arms that ``catalog`` keeps."""
    history: History = field(default_factory=lambda: History(0.0))
    segments: Segments = field(default_factory=lambda: Segments(0.0))
    vitals: Vitals = field(default_factory=Vitals)
    forecasts: ArmForecasts = field(default_factory=ArmForecasts)
    catalog: CatalogForecasts | UnsetType = UNSET
    """Used instead of ``forecasts`` if arms have features."""
    blocks: list[TallyBlock] = field(default_factory=list)
    block_length: int = 10
    """Decisions per block."""

    def begin(self, at: float, settings: ExperimentSettings) -> None:
        """Begin the history and the segments."""
        self.history = History(at)
        self.segments = Segments(at).changed(segment_names(settings), settings.schema, at)

    def use_settings(self, at: float, settings: ExperimentSettings) -> None:
        """Start the segments anew if other features are declared."""
        names = segment_names(settings)
        if self.segments.names != names:
            self.segments = self.segments.changed(names, settings.schema, at)

    def add_decision(
        self, at: float, slots: Sequence[SlotRecord], held_out: bool, arms: tuple[str, ...], context: Any
    ) -> list[tuple[int, ...]]:
        """Count a decision or a ranking; return the numbers of the segments of each slot.

        Parameters
        ----------
        at
            The time.
        slots
            What was chosen.
        held_out
            Whether it belongs to the holdout.
        arms
            The arms of the experiment.
        context
            The context as sent.
        """
        flat = context if isinstance(context, list) else flatten(context)
        self.vitals.features.add(flat, at)
        if self.catalog is UNSET:
            self.forecasts.add_decision(arms, slots[0])
        return [self._add_slot(at, slot, held_out, flat) for slot in slots]

    def _add_slot(self, at: float, slot: SlotRecord, held_out: bool, context: Any) -> tuple[int, ...]:
        arm, (numbers, segments) = slot.arm, self.segments.add_decision(context, at)
        self.whole.add_decision(arm)
        for sums in (self.history.sums_now(at), *segments):
            sums.add_decision(arm, MAX_ARMS)
        if not self.blocks or self.blocks[-1].decisions >= self.block_length:
            self._start_block(at)
        self.blocks[-1].add_decision(at, slot, held_out)
        if self.catalog is not UNSET:
            self.blocks[-1].limit_arms()
            for name in self.catalog.add_decision(slot, self.whole.arms[arm].decisions):
                self.whole.remove_arm(name)
        self.vitals.arrivals.add_decision(at)
        self.vitals.clock.add(at)
        return numbers

    def add_reward(
        self, at: float, decision: OpenDecision, value: float, scaled: float, control: Weights | None
    ) -> None:
        """Count the reward of a decision.

        Parameters
        ----------
        at
            The time.
        decision
            The decision.
        value, scaled
            Its reward, as sent and on a scale from 0 to 1.
        control
            The weights for the lift over the control, if it can be estimated from this decision.
        """
        period = self.history.sums_at(decision.decided_at)
        period.add_reward(decision, value, scaled, control, self.whole)
        for sums in (self.whole, *self.segments.sums_of(decision.segments)):
            sums.add_reward(decision, value, scaled, control)
        self.vitals.values.add(scaled, decision.reported)
        if not self.blocks:
            self._start_block(at)
        self.blocks[-1].add_reward(at, decision, value, self.vitals.values.run == 1)

    @property
    def predicts(self) -> bool:
        """Whether enough rewards have been counted to judge new predictions."""
        return self.vitals.values.n >= MIN_DECISIONS

    def remove_arm(self, arm: str) -> None:
        """Drop the sums of an arm over the whole experiment. Its past in periods and segments stays."""
        self.whole.remove_arm(arm)
        for block in self.blocks:
            block.arms.pop(arm, None)

    def _start_block(self, at: float) -> None:
        if len(self.blocks) >= MAX_BLOCKS:
            pairs = zip(self.blocks[::2], self.blocks[1::2], strict=True)
            self.blocks = []
            for first, second in pairs:
                first.merge(second)
                if self.catalog is not UNSET:
                    first.limit_arms()
                self.blocks.append(first)
            self.block_length *= 2
        self.blocks.append(TallyBlock(at, at))
