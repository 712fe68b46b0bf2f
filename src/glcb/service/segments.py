"""Lift and arms by segment, with intervals that hold for all segments together."""

from datetime import UTC, datetime
from itertools import islice

from msgspec import UNSET

from glcb._api.statistics import ArmMean, FeatureSegments, LiftEstimate, SegmentList, SegmentStats
from glcb.service.core.experiment import Experiment
from glcb.service.core.history import ArmSums, most_chosen
from glcb.service.core.segments import Segment, SegmentedFeature, Segments, ranges
from glcb.service.estimates import Range, arm_means, lift_estimate
from glcb.service.lift import CONFIDENCE, LiftSums, intervals

_MAX_ARMS = 5
"""A segment shows this many of its arms, and the best one."""
_MIN_REWARDS = 30
"""An arm with fewer rewards is not called the best one."""


def segments(experiment: Experiment) -> SegmentList:
    """Return lift and arms by segment."""
    rewards, own = experiment.reward_range, experiment.state.tally.segments
    return SegmentList(
        since=datetime.fromtimestamp(own.since, UTC),
        confidence=CONFIDENCE,
        features=tuple(_feature(own, name, one, rewards) for name, one in own.chosen().items()),
    )


def _feature(own: Segments, name: str, feature: SegmentedFeature, rewards: Range) -> FeatureSegments:
    found = own.of(feature)
    decisions = sum(segment.decisions for segment in found)
    comparisons = own.comparisons(feature)
    lifts = _estimates([one.lift for one in found], feature, comparisons, rewards)
    controls = _estimates(
        [LiftSums() if one.control is UNSET else one.control for one in found], feature, comparisons, rewards
    )
    means = _arms(found, rewards)
    bounds = dict(zip(feature.ranges, ranges(feature.edges), strict=False))
    places = {id(own.segments[place]): limits for place, limits in bounds.items()}
    return FeatureSegments(
        feature=name,
        kind=feature.kind,
        since=datetime.fromtimestamp(feature.since, UTC),
        final=feature.is_settled,
        comparisons=comparisons,
        segments=tuple(
            SegmentStats(
                value=segment.value,
                kind=segment.kind,
                range=places.get(id(segment)),
                decisions=segment.decisions,
                share=segment.decisions / decisions,
                lift=lift,
                control=control,
                most_chosen=next(iter(most_chosen(segment.arms, 1)), None),
                best_arm=_best(segment.arms),
                arms=arms,
            )
            for segment, lift, control, arms in zip(found, lifts, controls, means, strict=True)
        ),
    )


def _estimates(
    sums: list[LiftSums],
    feature: SegmentedFeature,
    comparisons: int,
    rewards: Range,
) -> list[LiftEstimate | None]:
    if not any(one.n for one in sums):
        return [None] * len(sums)
    confidence = 1 - (1 - CONFIDENCE) / comparisons
    bounds = intervals(sums, confidence) if feature.has_intervals else [None] * len(sums)
    return [
        lift_estimate(one, interval, rewards, confidence) for one, interval in zip(sums, bounds, strict=True)
    ]


def _best(arms: dict[str, ArmSums]) -> str | None:
    means = {arm: one.total / one.rewards for arm, one in arms.items() if one.rewards >= _MIN_REWARDS}
    return max(means, key=means.__getitem__, default=None)


def _arms(found: list[Segment], rewards: Range) -> list[tuple[ArmMean, ...]]:
    """Return the arms of each segment: the most chosen ones, and the best one."""
    rows, sizes = [], []
    for segment in found:
        shown = most_chosen(segment.arms, _MAX_ARMS)
        best = _best(segment.arms)
        if best is not None:
            shown[best] = segment.arms[best]
        rows += [(arm, sums, segment.decisions) for arm, sums in shown.items()]
        sizes.append(len(shown))
    means = iter(arm_means(rows, rewards))
    return [tuple(islice(means, size)) for size in sizes]
