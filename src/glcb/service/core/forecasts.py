"""What was predicted for arms, and whether they are chosen as often as their propensities say.

Names of arms with features come and go by the thousand, so those that were chosen least recently are dropped
after a while. Whether arms are chosen as often as their propensities say cannot be checked for each name; it
is checked for the most likely candidates of all decisions together.
"""

import numpy as np
from msgspec import Struct, field

from glcb._arrays import Float64
from glcb.service.core.records import SlotRecord

MAX_NAMES = 20_000
"""If there are more names of arms with features, the half that was chosen least recently is dropped."""
_WINDOW = 1000
"""Predictions are averaged over about this many recent decisions; older ones fade."""
_FEW_ARMS = 8

_DECISIONS, _PREDICTED, _CHOSEN, _EXPECTED, _VARIANCE = range(5)
_ROWS = 5


class ArmForecasts(Struct):
    """Mean predicted reward of each arm, and how often it is in the first slot, actual and expected."""

    arms: tuple[str, ...] = ()
    sums: bytearray = field(default_factory=bytearray)
    """Five rows of float64, one column per arm. Bytes survive a snapshot bit for bit."""

    def add_decision(self, arms: tuple[str, ...], slot: SlotRecord) -> None:
        """Count a decision among these arms."""
        if arms is not self.arms:
            self._set_arms(arms)
        if len(arms) <= _FEW_ARMS:
            self._add_one_by_one(slot)
        else:
            self._add_at_once(slot)

    def _add_one_by_one(self, slot: SlotRecord) -> None:
        """Count a decision; for few arms this is faster than NumPy, and the result is the same."""
        sums, n = memoryview(self.sums).cast("d"), len(self.arms)
        predicted, expected, variance = _PREDICTED * n, _EXPECTED * n, _VARIANCE * n
        for probability, value in zip(slot.probabilities, slot.values, strict=True):
            count = sums[predicted - n] = sums[predicted - n] + 1
            mean = sums[predicted]
            sums[predicted] = mean + (value - mean) / (count if count < _WINDOW else _WINDOW)
            sums[expected] += probability
            sums[variance] += probability * (1 - probability)
            predicted, expected, variance = predicted + 1, expected + 1, variance + 1
        sums[_CHOSEN * n + self.arms.index(slot.arm)] += 1

    def _add_at_once(self, slot: SlotRecord) -> None:
        rows, probabilities = self._rows(), np.array(slot.probabilities)
        count, predicted = rows[_DECISIONS], rows[_PREDICTED]
        count += 1
        predicted += (np.array(slot.values) - predicted) / np.minimum(count, _WINDOW)
        rows[_CHOSEN, self.arms.index(slot.arm)] += 1
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


class CatalogForecasts(Struct):
    """Mean predicted reward of each arm with features, and how often a most likely candidate is chosen."""

    predicted: dict[str, float] = field(default_factory=dict)
    """Recent mean of the predicted reward, over the decisions for an arm. The least recently chosen first."""
    chosen: int = 0
    """Decisions in which a most likely candidate was chosen."""
    expected: float = 0.0
    """The sum of their probabilities."""
    variance: float = 0.0
    """The variance of their number."""

    def add_decision(self, slot: SlotRecord, decisions: int) -> list[str]:
        """Count a decision, one of so many for its arm; return the names that are dropped."""
        (value,), (share,) = slot.values, slot.probabilities
        predicted = self.predicted.pop(slot.arm, 0.0)
        self.predicted[slot.arm] = predicted + (value - predicted) / min(decisions, _WINDOW)
        self.chosen += slot.is_likeliest
        self.expected += share
        self.variance += share * (1 - share)
        dropped = list(self.predicted)[: MAX_NAMES // 2] if len(self.predicted) > MAX_NAMES else []
        for name in dropped:
            del self.predicted[name]
        return dropped
