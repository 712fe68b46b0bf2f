"""What every arm is predicted to bring of late, and how often it should have been played. Of fixed size."""

import numpy as np
from msgspec import Struct, field

from glcb._types import Float64

_RECENT = 1000
"""An average over more decisions than this forgets the oldest little by little."""

_SEEN, _PREDICTED, _PLAYED, _EXPECTED, _VARIANCE = range(5)
_KINDS = 5


class Outlook(Struct):
    """Sums over decisions, for each arm; kept as bytes, which any snapshot holds exactly."""

    arms: tuple[str, ...] = ()
    sums: bytearray = field(default_factory=bytearray)

    def decided(self, arms: tuple[str, ...], played: int, chances: Float64, values: Float64) -> None:
        """Count a decision: all arms, the index of the one played, their probabilities and values."""
        if arms is not self.arms:
            self._take(arms)
        rows = self._rows()
        seen, predicted = rows[_SEEN], rows[_PREDICTED]
        seen += 1
        predicted += (values - predicted) / np.minimum(seen, _RECENT)
        rows[_PLAYED, played] += 1
        rows[_EXPECTED] += chances
        rows[_VARIANCE] += chances * (1 - chances)

    def _rows(self) -> Float64:
        """Return the sums, one row of each kind; what is written to them stays."""
        return np.frombuffer(self.sums).reshape(_KINDS, len(self.arms))

    def _take(self, arms: tuple[str, ...]) -> None:
        """Keep the sums of these arms; new ones begin with nothing, those that are gone are dropped."""
        if arms != self.arms:
            places = {arm: place for place, arm in enumerate(self.arms)}
            before, rows = self._rows(), np.zeros((_KINDS, len(arms)))
            for place, arm in enumerate(arms):
                if arm in places:
                    rows[:, place] = before[:, places[arm]]
            self.sums = bytearray(rows.tobytes())
        self.arms = arms

    def predicted(self) -> dict[str, float]:
        """Return the recent mean of what each arm was predicted to bring, wherever a decision was made."""
        rows = self._rows()
        return {
            arm: float(value)
            for arm, value, seen in zip(self.arms, rows[_PREDICTED], rows[_SEEN], strict=True)
            if seen
        }

    def oddest(self) -> tuple[str, int, float, float] | None:
        """Return the arm that was played least in keeping with its probabilities.

        That is its name, how often it was played, how often it should have been, and how many standard
        deviations these are apart.
        """
        if not self.arms:
            return None
        rows = self._rows()
        # A difference of one play is none, however certain the probabilities were.
        apart = np.abs(rows[_PLAYED] - rows[_EXPECTED]) / np.sqrt(rows[_VARIANCE] + 1)
        odd = int(apart.argmax())
        return self.arms[odd], int(rows[_PLAYED, odd]), float(rows[_EXPECTED, odd]), float(apart[odd])
