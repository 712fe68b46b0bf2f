"""The numbers of a report, and the same in words."""

import math
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from glcb._api.reports import Report
from glcb._api.requests import ExperimentSettings
from glcb._api.responses import ExperimentInfo
from glcb._api.statistics import Curves, LiftEstimate
from glcb._types import reward_range

_MINUS = "−"
_MONEY = re.compile(r"[A-Z]{0,2}[$¢£¤¥₠-⃀]|AUD|BRL|CAD|CHF|CNY|DKK|EUR|GBP|INR|NOK|PLN|SEK|USD")
"""Units of money, which has two decimals."""
_MAX_CHANGES = 5
"""Changes in the text of a summary; the report lists all."""


class RewardFormat(NamedTuple):
    """How rewards of an experiment are written."""

    value: Callable[[float], str]
    difference: Callable[[float], str]
    gained: Callable[[float], str]


def reward_format(settings: ExperimentSettings) -> RewardFormat:
    """Return the format of rewards: percentages and points for binary rewards, otherwise numbers.

    >>> binary = reward_format(ExperimentSettings(arms=["a", "b"]))
    >>> binary.value(0.523), binary.difference(-0.021), binary.gained(393.4), binary.gained(-53)
    ('52.3%', '−2.1 points', '393 rewards gained', '53 rewards lost')
    >>> revenue = ExperimentSettings(arms=["a", "b"], rewards=(0, 200), reward_unit="€")
    >>> money = reward_format(revenue)
    >>> money.value(1.389), money.difference(-0.5), money.gained(-1389)
    ('1.39 €', '−0.50 €', '1,389.00 € lost')
    """
    unit = settings.reward_unit or None
    low, high = reward_range(settings.rewards)
    digits = (4 if high - low < 1 else 2) if _MONEY.fullmatch(unit or "") else None

    def gained(x: float) -> str:
        size, change = abs(x), "lost" if x < 0 else "gained"
        shown = f"{size:,.{(0 if size >= 10 else 2) if digits is None else digits}f}"
        return f"{shown} {unit or 'rewards'} {change}"

    if settings.rewards == "binary":
        return RewardFormat(percent, lambda x: f"{_signed(100 * x, 1)} points", gained)
    suffix = f" {unit}" if unit else ""

    def difference(x: float) -> str:
        shown = _number(x, digits)
        return ("+" if x > 0 and re.search("[1-9]", shown) else "") + shown + suffix

    return RewardFormat(lambda x: _number(x, digits) + suffix, difference, gained)


def percent(x: float) -> str:
    """Return a share as a percentage.

    >>> percent(0.523), percent(-0.02)
    ('52.3%', '−2.0%')
    """
    return f"{100 * x:.1f}%".replace("-", _MINUS)


def relative_in_words(x: float) -> str:
    """Return a relative lift.

    >>> relative_in_words(0.344), relative_in_words(-0.0004)
    ('+34.4%', '0.0%')
    """
    return f"{_signed(100 * x, 1)}%"


def _signed(x: float, digits: int) -> str:
    sign = "+" if round(x, digits) > 0 else ""
    return f"{sign}{x:z,.{digits}f}".replace("-", _MINUS)


def _number(x: float, digits: int | None) -> str:
    if digits is None:
        digits = 3 if abs(x) < 10 else 1 if abs(x) < 1000 else 0
    return f"{x:z,.{digits}f}".replace("-", _MINUS)


def main_lift(info: ExperimentInfo, curves: Curves) -> tuple[str, LiftEstimate | None]:
    """Return the lift over the control once a decision compares with it, otherwise over random assignment."""
    if curves.control is not None and curves.control.n:
        return "control", curves.control
    lift = _random_lift(curves)
    if info.settings.shadow or (info.settings.control and lift is None):
        return "control", None
    return "random", lift


def _random_lift(curves: Curves) -> LiftEstimate | None:
    lift = curves.lift
    if lift.difference is None or lift.random is None:
        return None
    return LiftEstimate(
        n=lift.n,
        since=lift.since,
        baseline=lift.random,
        difference=lift.difference,
        low=lift.low,
        high=lift.high,
        fixed_low=lift.fixed_low,
        fixed_high=lift.fixed_high,
        confidence=lift.confidence,
        relative=lift.relative,
        extra_rewards=lift.extra_rewards or 0.0,
        decisions_missing=lift.decisions_missing,
    )


def summarize(info: ExperimentInfo, curves: Curves, changes: Sequence[str]) -> Report:
    """Return the summary of an experiment in the period that the curves cover.

    Parameters
    ----------
    info
        The experiment.
    curves
        The experiment over the period.
    changes
        What was changed in the period, oldest first.
    """
    over, lift = main_lift(info, curves)
    arms = tuple(sorted(curves.arms, key=lambda arm: -arm.decisions))
    decisions = sum(point.decisions for point in curves.points)
    failed = tuple(check.text for check in info.health if check.ok is False)
    parts = [
        f"{info.name}, {period_in_words(curves.start, curves.end)}: "
        f"{verdict(info, over, lift, curves.anytime_valid)}",
        f"{decisions:,} decisions.",
        _best_arm(info, curves),
        _changes_in_words(changes),
        " ".join(failed) if failed else "All health checks pass.",
    ]
    return Report(
        text=" ".join(part for part in parts if part),
        experiment=info.name,
        state=info.state,
        start=curves.start,
        end=curves.end,
        anytime_valid=curves.anytime_valid,
        decisions=decisions,
        rewards=sum(point.rewards for point in curves.points),
        over="control" if over == "control" else "random",
        lift=lift,
        arms=arms,
        changes=tuple(changes),
        failed_checks=failed,
    )


def verdict(info: ExperimentInfo, over: str, lift: LiftEstimate | None, anytime_valid: bool) -> str:
    """Return in one sentence whether the experiment pays.

    Parameters
    ----------
    info
        The experiment.
    over
        What the lift is measured against: ``"control"`` or ``"random"``.
    lift
        The lift in the period.
    anytime_valid
        Whether its interval is valid at any time.
    """
    if lift is None and info.settings.shadow:
        return "no lift in shadow mode: everybody is served the control."
    if lift is None and over == "control":
        return "no decision compares the bandit with the control yet."
    if lift is None:
        return "no rewards yet."
    reference = reference_in_words(info, over)
    rewards = reward_format(info.settings)
    size = (
        relative_in_words(lift.relative) if lift.relative is not None else rewards.difference(lift.difference)
    )
    gained = rewards.gained(lift.extra_rewards)
    if lift.low is None or lift.high is None or lift.low <= 0 <= lift.high:
        return f"no significant difference from {reference} yet ({size}, {gained})."
    better = "better" if lift.low > 0 else "worse"
    condition = "" if anytime_valid else ", if the start of the period was chosen in advance"
    return f"{better} than {reference}: {size}, {gained} ({interval_in_words(info, lift)}{condition})."


def interval_in_words(info: ExperimentInfo, lift: LiftEstimate) -> str:
    """Return the interval of a lift, in units of the reward."""
    if lift.low is None or lift.high is None:
        return ""
    difference = reward_format(info.settings).difference
    return f"{lift.confidence:.0%} interval {difference(lift.low)} to {difference(lift.high)}"


def reference_in_words(info: ExperimentInfo, over: str) -> str:
    """Return what the lift is measured against."""
    if over == "random":
        return "random assignment"
    control = info.settings.control
    return f"the control “{control}”" if control else "the control"


def period_in_words(start: datetime, end: datetime) -> str:
    """Return a period.

    >>> period_in_words(datetime(2026, 11, 10, 9, 30), datetime(2026, 11, 17, 9, 30))
    '10 Nov 2026 to 17 Nov 2026'
    """
    first, last = (f"{time.day} {time:%b %Y}" for time in (start, end))
    return first if first == last else f"{first} to {last}"


def _changes_in_words(changes: Sequence[str]) -> str:
    if not changes:
        return "No changes."
    count = "1 change" if len(changes) == 1 else f"{len(changes)} changes"
    return f"{count}: {'; '.join(changes[-_MAX_CHANGES:])}."


def _best_arm(info: ExperimentInfo, curves: Curves) -> str:
    """Return the arm with the highest mean reward among the arms with enough rewards."""
    known = [arm for arm in curves.arms if arm.reward_mean is not None and arm.rewards >= 30]
    if not known:
        return ""
    best = max(known, key=lambda arm: arm.reward_mean if arm.reward_mean is not None else -math.inf)
    assert best.reward_mean is not None
    return f"Highest mean reward: {best.arm} ({reward_format(info.settings).value(best.reward_mean)})."
