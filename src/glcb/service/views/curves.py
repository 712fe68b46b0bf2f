"""An experiment over time: the points of its charts, in a range of dates."""

import time
from collections.abc import Collection, Mapping
from copy import copy
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, NamedTuple

from glcb._api.statistics import ArmMean, Curves, LiftEstimate, Point
from glcb.bandit import recorded
from glcb.service.core.experiment import Experiment
from glcb.service.core.history import Period, floor_time
from glcb.service.core.lift import LiftSums
from glcb.service.core.rankings import MAX_LISTED
from glcb.service.core.sums import ArmSums, Sums, most_chosen
from glcb.service.errors import ApiError
from glcb.service.views.arms import MAX_SHARES
from glcb.service.views.estimates import Range, arm_means, group_fields, lift_estimates
from glcb.service.views.lift import lift_of

_MAX_POINTS = 500
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
    periods, since = history.within(query.start, query.end), history.since
    if query.arm is not None and not _is_known(experiment, query.arm, periods):
        raise ApiError("unknown_arm", f"there is no arm {query.arm!r}")
    is_whole = len(periods) == len(history.periods)
    found = experiment.state.tally.whole if is_whole else Sums.of(period.sums for period in periods)
    arms = most_chosen(_arms(experiment, found.arms), MAX_LISTED)
    shown = list(arms)[:MAX_SHARES]
    parts = _grouped(periods, query.points, {*shown} if query.arm is None else {*shown, query.arm})
    total = Sums.of((part.sums for part in parts), ())
    now = max(time.time(), experiment.state.last_event_at)
    return Curves(
        since=_time(since),
        start=_time(max(periods[0].start, since) if periods else since),
        end=_time(min(periods[-1].end, now) if periods else now),
        anytime_valid=periods[:1] == history.periods[:1],
        lift=lift_of(total, rewards),
        control=lift_estimates([total.control], rewards)[0],
        arms=arm_means([(arm, sums, total.decisions) for arm, sums in arms.items()], rewards),
        points=_points(experiment, parts, query.arm, shown, since, now),
    )


def _is_known(experiment: Experiment, arm: str, periods: list[Period]) -> bool:
    return arm in experiment.bandit.arms or any(arm in period.sums.arms for period in periods)


def _arms(experiment: Experiment, found: dict[str, ArmSums]) -> dict[str, ArmSums]:
    """Return the sums of the arms of an experiment; if arms have features, of all that were chosen."""
    if recorded.catalog(experiment.bandit) is not None:
        return found
    return {str(arm): found.get(str(arm)) or ArmSums() for arm in experiment.bandit.arms}


def _grouped(periods: list[Period], points: int, arms: Collection[str]) -> list[Period]:
    """Return the period of each point, with the sums of these arms.

    A point has the periods that start in the same minute, hour, day and so on.
    """
    if not periods:
        return []
    length = periods[-1].end - periods[0].start
    width = next((one for one in _WIDTHS if length / one <= points - 1), _WIDTHS[-1])
    while length / width > points - 1 and width < length:
        width *= 2
    groups = [periods]
    if points > 1 and width < length:
        groups = [list(group) for _, group in groupby(periods, lambda one: floor_time(one.start, width))]
    return [
        Period(group[0].start, group[-1].end, Sums.of((period.sums for period in group), arms))
        for group in groups
    ]


def _points(
    experiment: Experiment, parts: list[Period], arm: str | None, shown: list[str], since: float, now: float
) -> tuple[Point, ...]:
    rewards, settled = experiment.reward_range, experiment.open.settled_until(now)
    lifts = _cumulated([part.sums.lift for part in parts], rewards)
    controls = _cumulated([part.sums.control for part in parts], rewards)
    own: tuple[ArmMean | None, ...] = (None,) * len(parts)
    if arm is not None:
        of_arm = [(arm, part.sums.arms.get(arm) or ArmSums(), part.sums.decisions) for part in parts]
        own = arm_means(of_arm, rewards)
    return tuple(
        Point(
            start=_time(max(part.start, since)),
            end=_time(min(part.end, now)),
            complete=part.end <= settled,
            decisions=part.sums.decisions,
            shares=_shares(part.sums, shown),
            lift=lifts[place],
            control=controls[place],
            arm=own[place],
            **group_fields(part.sums.bandit, part.sums.holdout),
        )
        for place, part in enumerate(parts)
    )


def _cumulated(parts: list[LiftSums], rewards: Range) -> list[LiftEstimate | None]:
    """Return the lift from the start of the range to the end of each point."""
    total, sums = LiftSums(), []
    for part in parts:
        total.merge(part)
        sums.append(copy(total))
    return lift_estimates(sums, rewards)


def _shares(sums: Sums, shown: list[str]) -> dict[str, float]:
    return {arm: sums.arms[arm].decisions / sums.decisions if arm in sums.arms else 0.0 for arm in shown}


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
