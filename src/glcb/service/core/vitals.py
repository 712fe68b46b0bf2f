"""Sequential detectors over the decisions and rewards of an experiment, for its health checks.

Changes are detected by cumulative sums of log-likelihood ratios (CUSUM; Page 1954). A sum that stays above
zero is evidence for the change. With the threshold log(a), the mean time to a false alarm is at least a
steps (Lorden 1971). The size of everything here is bounded. The sums are part of the state of an experiment,
so they are computed with basic arithmetic, whose results are the same on every machine.
"""

import math
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

THRESHOLD = 13.815510557964274
"""log(10⁶). An alarm: at most one false alarm in a million steps, on average."""
MIN_DECISIONS = 459
"""At a reward rate of 1 %, this many decisions in a row without any reward have a probability of 1 %."""
ALARM_SECONDS = 86_400.0
"""How long a sudden change is reported."""

_STOPPED = 0.1
"""Rewards have stopped if they arrive at this share of their past rate."""
_LOG_STOPPED = -2.3025850929940455
"""log(_STOPPED)."""
_LOG_2 = 0.6931471805599453
_ROOT_OF_HALF = 0.7071067811865476
_MIN_REPORTED = 10
_MIN_DELAYS = 5.0
"""Evidence that rewards have stopped must last longer than this many mean delays."""
_RARE = 1e-6
_MAX_WATCHED = 200
"""Contexts with more features are not watched."""
_BLOCK = 100
"""Decisions after which missing values are compared with the past."""
_MIN_BLOCKS = 5
_RATE_CHANGE = 0.2
"""The change of the share of missing values to detect; half of it is tolerated."""
_RATE_MARGIN = 0.005
_MIN_GAP = 86_400.0
"""A shorter time between two events is not suspicious."""
_GAP_RATIO = 20.0
"""A time between two events is suspicious if it is this many times longer than any before."""
_MIN_STUCK = 1_000
"""This many decisions at exactly the same time mean that the clock was set back."""


class Arrivals(Struct):
    """Whether rewards still arrive as often as in the past."""

    decisions: int = 0
    reported: int = 0
    """Decisions with a reported reward. Default rewards do not count."""
    score: float = 0.0
    since: float = 0.0
    """Time since which the score has been above zero."""
    delay: float = 0.0
    """Mean seconds from a decision to its first reward."""

    def add_decision(self, at: float) -> None:
        """Count a decision."""
        self.decisions += 1
        if self.reported < _MIN_REPORTED or self.decisions < MIN_DECISIONS:
            return
        if self.score == 0:
            self.since = at
        rate = self.reported / self.decisions
        self.score = min(self.score + (1 - _STOPPED) * rate, 2 * THRESHOLD)

    def add_report(self, delay: float) -> None:
        """Count the first reward that is reported for a decision."""
        self.reported += 1
        self.delay += (delay - self.delay) / self.reported
        self.score = max(self.score + _LOG_STOPPED, 0.0)

    def have_stopped(self, now: float) -> bool:
        """Return whether rewards have stopped, or nearly."""
        return self.score >= THRESHOLD and now - self.since >= _MIN_DELAYS * self.delay


class RewardValues(Struct):
    """Which values the learned rewards have, default rewards included."""

    n: int = 0
    at_low: int = 0
    """Rewards at the low end of the range."""
    at_high: int = 0
    """Rewards at the high end of the range."""
    reported: int = 0
    """Rewards that are not default rewards."""
    reported_low: int = 0
    """Those of them at the low end of the range."""
    run: int = 0
    """Number of equal rewards in a row."""
    value: float = math.nan
    """Their value on a scale from 0 to 1."""

    def add(self, scaled: float, reported: bool) -> None:
        """Count a reward; ``scaled`` is its value on a scale from 0 to 1."""
        is_low = scaled <= 0
        self.n += 1
        self.at_low += is_low
        self.at_high += scaled >= 1
        self.reported += reported
        self.reported_low += reported and is_low
        self.run = self.run + 1 if scaled == self.value else 1
        self.value = scaled

    def are_stuck(self) -> bool:
        """Return whether the last rewards are equal for longer than chance explains."""
        if self.run < MIN_DECISIONS:
            return False
        equal = self.at_low if self.value <= 0 else self.at_high if self.value >= 1 else self.run
        share = (equal - self.run + 1) / (self.n - self.run + 2)  # before the run, by Laplace's rule
        return self.run == self.n or share**self.run < _RARE


class FeatureSeries(Struct, array_like=True):
    """How often a feature is missing."""

    n: int
    """Decisions in the past, up to the current block."""
    missing: int
    block_missing: int = 0
    rising: float = 0.0
    falling: float = 0.0
    changed_at: float = -math.inf
    before: float = 0.0
    after: float = 0.0

    def close_block(self, at: float) -> None:
        """Compare the block with the past, and add it."""
        if self.n >= _MIN_BLOCKS * _BLOCK:
            rate = _inside(self.missing / self.n)
            self.rising = self._score(self.rising, rate, _inside(rate + _RATE_CHANGE))
            self.falling = self._score(self.falling, rate, _inside(rate - _RATE_CHANGE))
            if max(self.rising, self.falling) > THRESHOLD:
                self.changed_at, self.before = at, self.missing / self.n
                self.after = self.block_missing / _BLOCK
                self.n, self.missing, self.rising, self.falling = 0, 0, 0.0, 0.0
        self.n += _BLOCK
        self.missing += self.block_missing
        self.block_missing = 0

    def _score(self, score: float, past: float, changed: float) -> float:
        if abs(changed - past) < _RATE_CHANGE / 2:
            return 0.0
        present = _BLOCK - self.block_missing
        ratio = self.block_missing * _log(changed / past) + present * _log((1 - changed) / (1 - past))
        return max(score + ratio, 0.0)


def _log(x: float) -> float:
    """Return the logarithm by its series. That of the C library has other last bits on other machines.

    >>> [abs(_log(x) - math.log(x)) < 1e-15 for x in (0.005, 0.7, 1.0, 1.3, 41.0)]
    [True, True, True, True, True]
    """
    mantissa, exponent = math.frexp(x)
    if mantissa < _ROOT_OF_HALF:
        mantissa, exponent = 2 * mantissa, exponent - 1
    ratio = (mantissa - 1) / (mantissa + 1)
    square, series = ratio * ratio, 0.0
    for power in range(21, 0, -2):
        series = series * square + 1 / power
    return exponent * _LOG_2 + 2 * ratio * series


def _inside(rate: float) -> float:
    return min(max(rate, _RATE_MARGIN), 1 - _RATE_MARGIN)


class Features(Struct):
    """Which features contexts have, and how often these are missing."""

    decisions: int = 0
    series: dict[str, FeatureSeries] = field(default_factory=dict)

    def add(self, context: Mapping[Any, Any] | list[Any], at: float) -> None:
        """Count the missing features of a context."""
        series = self.series
        if len(context) > _MAX_WATCHED:
            return
        if isinstance(context, list):
            context = {str(place): value for place, value in enumerate(context)}
        if context.keys() != series.keys() or None in context.values():
            for name in context:
                if name not in series and len(series) < _MAX_WATCHED:
                    past = self.decisions - self.decisions % _BLOCK
                    series[name] = FeatureSeries(past, past, self.decisions % _BLOCK)
            for name, one in series.items():
                one.block_missing += context.get(name) is None
        self.decisions += 1
        if self.decisions % _BLOCK == 0:
            for one in series.values():
                one.close_block(at)

    def changed(self, now: float) -> dict[str, FeatureSeries]:
        """Return the features whose share of missing values changed recently."""
        return {name: one for name, one in self.series.items() if now - one.changed_at < ALARM_SECONDS}


class ClockVitals(Struct):
    """Whether the times of the events look as if the clock had jumped."""

    last: float | None = None
    decisions: int = 0
    longest_gap: float = 0.0
    stuck: int = 0
    """Number of decisions in a row at exactly the same time."""
    jumped_at: float = -math.inf
    jump: float = 0.0
    """Seconds between the two events."""

    def add(self, at: float) -> None:
        """Add the time of a decision."""
        gap = 0.0 if self.last is None else at - self.last
        self.last = at
        self.decisions += 1
        self.stuck = self.stuck + 1 if gap == 0 else 0
        suspicious = gap > max(_MIN_GAP, _GAP_RATIO * self.longest_gap)
        if suspicious and self.decisions > MIN_DECISIONS:
            self.jumped_at, self.jump = at, gap
        self.longest_gap = max(self.longest_gap, gap)

    @property
    def is_stuck(self) -> bool:
        """Whether the clock was set back and has not caught up."""
        return self.stuck >= _MIN_STUCK


class Vitals(Struct):
    """All detectors of an experiment."""

    arrivals: Arrivals = field(default_factory=Arrivals)
    values: RewardValues = field(default_factory=RewardValues)
    features: Features = field(default_factory=Features)
    clock: ClockVitals = field(default_factory=ClockVitals)
