"""An experiment over time: the points of its charts, in a range of dates."""

import time
from collections.abc import Mapping, Sequence
from copy import copy
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType

from glcb._api.statistics import ArmMean, Curves, LiftEstimate, Point
from glcb.service.core.experiment import Experiment
from glcb.service.core.history import ArmSums, Period, floor_time, merged, most_chosen
from glcb.service.core.tally import Group
from glcb.service.errors import ApiError
from glcb.service.estimates import Range, arm_means, lift_estimate
from glcb.service.lift import LiftSums, intervals
from glcb.service.responses import lift_of

_MAX_POINTS = 500
_MAX_SHARES = 12
"""Points contain the shares of this many arms."""
_MAX_LISTED = 100
_WIDTHS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0, 604_800.0)
"""Seconds between points. Longer ones are a power of two of weeks."""

_TIME = {"type": "string", "format": "date-time"}
QUERY: tuple[tuple[str, dict[str, Any]], ...] = (
    ("from", {**_TIME, "description": "Start of the range; by default, the start of the experiment."}),
    ("to", {**_TIME, "description": "End of the range; by default, now."}),
    (
        "points",
        {
            "type": "integer",
            "minimum": 1,
            "maximum": _MAX_POINTS,
            "default": 200,
            "description": "Largest number of points.",
        },
    ),
    ("arm", {"type": "string", "description": "An arm whose decisions and rewards each point shows."}),
)
"""The query parameters of curves."""


class CurvesQuery(NamedTuple):
    """What the curves show."""

    start: float | None = None
    end: float | None = None
    points: int = 200
    arm: str | None = None


def parse_query(query: Mapping[str, str]) -> CurvesQuery:
    """Return the parsed query of curves.

    >>> parse_query({"from": "2026-11-17T09:00:00Z", "points": "50"})
    CurvesQuery(start=1794906000.0, end=None, points=50, arm=None)
    """
    points = query.get("points", "200")
    valid = points.isascii() and points.isdigit() and len(points) < 4 and 1 <= int(points) <= _MAX_POINTS
    if query.keys() - dict(QUERY).keys() or not valid:
        raise ApiError(
            "invalid_request",
            f"the query must be from=TIME, to=TIME, points=1 to {_MAX_POINTS} and arm=NAME, "
            f"got {dict(query)!r}",
        )
    start, end = (parse_time(name, query[name]) if name in query else None for name in ("from", "to"))
    if start is not None and end is not None and start >= end:
        raise ApiError("invalid_request", f"from must be before to, got {query['from']} and {query['to']}")
    return CurvesQuery(start, end, int(points), query.get("arm"))


def parse_time(name: str, text: str) -> float:
    """Return the seconds since the epoch of a query parameter."""
    try:
        # In a query, a plus sign stands for a space.
        parsed = datetime.fromisoformat(text.replace(" ", "+"))
        if parsed.tzinfo is not None:
            return parsed.timestamp()
    except (ValueError, OverflowError):
        pass
    raise ApiError(
        "invalid_request",
        f"{name} must be a time with a time zone, such as 2026-11-17T09:30:00Z, got {text[:80]!r}",
    )


def curves(experiment: Experiment, query: CurvesQuery) -> Curves:
    """Return an experiment over time."""
    rewards, history = experiment.reward_range, experiment.state.tally.history
    periods = history.within(query.start, query.end)
    if query.arm is not None and not _is_known(experiment, query.arm, periods):
        raise ApiError("unknown_arm", f"there is no arm {query.arm!r}")
    since = history.since
    is_whole = len(periods) == len(history.periods)
    arms = most_chosen(_arms(experiment, history.arms if is_whole else _merged(periods)), _MAX_LISTED)
    groups = _grouped(periods, query.points)
    wholes = [_whole(group) for group in groups]
    total = _whole(wholes)
    bandit, holdout = (Group(n, value) for n, value in zip(total.rewards, total.totals, strict=True))
    now = max(time.time(), experiment.state.last_event_at)
    return Curves(
        since=_time(since),
        start=_time(max(periods[0].start, since) if periods else since),
        end=_time(min(periods[-1].end, now) if periods else now),
        anytime_valid=periods[:1] == history.periods[:1],
        lift=lift_of(total.lift, bandit, holdout, *rewards),
        control=None if total.control is UNSET else _cumulated([total.control], rewards)[0],
        arms=arm_means([(arm, sums, total.decisions) for arm, sums in arms.items()], rewards),
        points=_points(experiment, groups, wholes, query.arm, list(arms)[:_MAX_SHARES], since, now),
    )


def _is_known(experiment: Experiment, arm: str, periods: list[Period]) -> bool:
    return arm in experiment.bandit.arms or any(arm in period.arms for period in periods)


def _arms(experiment: Experiment, found: dict[str, ArmSums]) -> dict[str, ArmSums]:
    """Return the sums of the arms of an experiment; if arms have features, of all that were chosen."""
    if experiment.bandit.catalog is not None:
        return found
    return {str(arm): found.get(str(arm)) or ArmSums() for arm in experiment.bandit.arms}


def _merged(periods: list[Period]) -> dict[str, ArmSums]:
    return merged(period.arms for period in periods)


def _grouped(periods: list[Period], points: int) -> list[list[Period]]:
    """Return the periods of each point: those that start in the same minute, hour, day and so on."""
    if not periods:
        return []
    length = periods[-1].end - periods[0].start
    width = next((one for one in _WIDTHS if length / one <= points - 1), _WIDTHS[-1])
    while length / width > points - 1 and width < length:
        width *= 2
    if points == 1 or width >= length:
        return [periods]
    return [list(group) for _, group in groupby(periods, lambda period: floor_time(period.start, width))]


def _whole(periods: list[Period]) -> Period:
    """Return several periods as one, without its arms."""
    if not periods:
        return Period(0.0, 0.0)
    whole = Period(periods[0].start, periods[0].start)
    for period in periods:
        whole.merge(period)
    return whole


def _points(
    experiment: Experiment,
    groups: list[list[Period]],
    wholes: list[Period],
    arm: str | None,
    shown: list[str],
    since: float,
    now: float,
) -> tuple[Point, ...]:
    rewards, settled = experiment.reward_range, experiment.open.settled_until(now)
    lifts = _cumulated([whole.lift for whole in wholes], rewards)
    controls = _cumulated([whole.control for whole in wholes], rewards)
    own: tuple[ArmMean | None, ...] = (None,) * len(wholes)
    if arm is not None:
        own = arm_means(
            [
                (arm, _of_arm(arm, group), whole.decisions)
                for group, whole in zip(groups, wholes, strict=True)
            ],
            rewards,
        )
    return tuple(
        Point(
            start=_time(max(whole.start, since)),
            end=_time(min(whole.end, now)),
            complete=whole.end <= settled,
            decisions=whole.decisions,
            rewards=sum(whole.rewards),
            bandit_n=whole.rewards[0],
            bandit_mean=Group(whole.rewards[0], whole.totals[0]).mean,
            holdout_n=whole.rewards[1],
            holdout_mean=Group(whole.rewards[1], whole.totals[1]).mean,
            shares=_shares(group, whole.decisions, shown),
            lift=lifts[place],
            control=controls[place],
            arm=own[place],
        )
        for place, (group, whole) in enumerate(zip(groups, wholes, strict=True))
    )


def _cumulated(parts: Sequence[LiftSums | UnsetType], rewards: Range) -> list[LiftEstimate | None]:
    """Return the lift from the start of the range to the end of each point."""
    total, sums = LiftSums(), []
    for part in parts:
        if part is not UNSET:
            total.merge(part)
        sums.append(copy(total))
    if not total.n:
        return [None] * len(parts)
    return [
        lift_estimate(one, interval, rewards) for one, interval in zip(sums, intervals(sums), strict=True)
    ]


def _of_arm(arm: str, periods: list[Period]) -> ArmSums:
    sums = ArmSums()
    for period in periods:
        if arm in period.arms:
            sums.merge(period.arms[arm])
    return sums


def _shares(periods: list[Period], decisions: int, shown: list[str]) -> dict[str, float]:
    counts = dict.fromkeys(shown, 0)
    for period in periods:
        for arm in shown:
            sums = period.arms.get(arm)
            if sums is not None:
                counts[arm] += sums.decisions
    return {arm: count / decisions for arm, count in counts.items()} if decisions else {}


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
