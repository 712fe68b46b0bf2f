"""Lift and arms by segment, with intervals that hold for all segments together."""

from datetime import UTC, datetime
from itertools import islice

from glcb._api.statistics import ArmMean, FeatureSegments, SegmentList, SegmentStats
from glcb.service.core.experiment import Experiment
from glcb.service.core.lift import CONFIDENCE
from glcb.service.core.segments import SegmentedFeature, Segments, ranges
from glcb.service.core.sums import ArmSums, Sums, most_chosen
from glcb.service.views.estimates import Range, arm_means, lift_estimates

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
    sums = [segment.sums for segment in found]
    decisions = sum(one.decisions for one in sums)
    comparisons = own.comparisons(feature)
    confidence = 1 - (1 - CONFIDENCE) / comparisons
    lifts, controls = (
        lift_estimates(ones, rewards, confidence, feature.has_intervals)
        for ones in ([one.lift for one in sums], [one.control for one in sums])
    )
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
                decisions=segment.sums.decisions,
                share=segment.sums.decisions / decisions,
                lift=lift,
                control=control,
                most_chosen=next(iter(most_chosen(segment.sums.arms, 1)), None),
                best_arm=_best(segment.sums.arms),
                arms=arms,
            )
            for segment, lift, control, arms in zip(found, lifts, controls, _arms(sums, rewards), strict=True)
        ),
    )


def _best(arms: dict[str, ArmSums]) -> str | None:
    known = {arm: one for arm, one in arms.items() if one.rewards >= _MIN_REWARDS}
    return max(known, key=lambda arm: known[arm].total / known[arm].rewards, default=None)


def _arms(segments: list[Sums], rewards: Range) -> list[tuple[ArmMean, ...]]:
    """Return the arms of each segment: the most chosen ones, and the best one."""
    rows, sizes = [], []
    for segment in segments:
        shown = most_chosen(segment.arms, _MAX_ARMS)
        best = _best(segment.arms)
        if best is not None:
            shown[best] = segment.arms[best]
        rows += [(arm, sums, segment.decisions) for arm, sums in shown.items()]
        sizes.append(len(shown))
    means = iter(arm_means(rows, rewards))
    return [tuple(islice(means, size)) for size in sizes]
