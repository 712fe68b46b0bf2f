"""Statistics of an experiment, computed from its tally."""

from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET

from glcb._api import statistics
from glcb._api.guardrails import MetricStats, ShadowStats, or_default
from glcb._api.responses import Counts
from glcb._api.statistics import FeatureStats, Latency, Stats
from glcb.bandit.encoding.schema import Schema
from glcb.service.core.experiment import Experiment
from glcb.service.core.guard import MetricSums
from glcb.service.core.tally import TallyBlock
from glcb.service.process.metrics import Activity
from glcb.service.views import guardrails, health
from glcb.service.views.arms import MAX_SHARES, Arms
from glcb.service.views.estimates import group_fields
from glcb.service.views.lift import control_lift, lift

_MAX_FEATURES = 100
_MAX_VALUES = 100


def stats(experiment: Experiment, activity: Activity) -> Stats:
    """Return the statistics of an experiment.

    Parameters
    ----------
    experiment
        The experiment.
    activity
        Its counters since the service started.
    """
    counts = Counts(**experiment.bandit.counts)
    schema = experiment.bandit.schema
    arms = Arms(experiment)
    listed, others = arms.listed()
    shown = frozenset(arms.most_chosen(MAX_SHARES))
    return Stats(
        counts=counts,
        match_rate=_mean(counts.rewarded, counts.decisions),
        lift=lift(experiment),
        arms=listed,
        arm_count=len(arms),
        other_arms=others,
        blocks=tuple(_block(block, shown) for block in experiment.state.tally.blocks),
        features=_features(schema),
        arm_features=_features(None if schema is None else schema.arms),
        unmapped=0 if schema is None else schema.unmapped,
        errors=dict(activity.errors),
        latency_us=Latency(*(_microseconds(activity, share) for share in (0.5, 0.99))),
        health=health.checks(experiment),
        **guard_stats(experiment),
    )


def _mean(total: float, n: int) -> float | None:
    return total / n if n else None


def _microseconds(activity: Activity, share: float) -> float | None:
    seconds = activity.latency.quantile(share)
    return None if seconds is None else seconds * 1e6


def _block(block: TallyBlock, shown: frozenset[str]) -> statistics.Block:
    return statistics.Block(
        start=datetime.fromtimestamp(block.start, UTC),
        end=datetime.fromtimestamp(block.end, UTC),
        decisions=block.decisions,
        shares={arm: count / block.decisions for arm, count in block.arms.items() if arm in shown},
        **group_fields(block.bandit, block.holdout),
    )


def _features(schema: Schema | None) -> tuple[FeatureStats, ...]:
    if schema is None:
        return ()
    return tuple(
        FeatureStats(
            name=name,
            kind=feature.kind,
            range=feature.limits,
            values=feature.values[:_MAX_VALUES],
            problems={problem: count for problem, count in feature.problems.items() if count},
        )
        for name, feature in list(schema.features.items())[:_MAX_FEATURES]
    )


def guard_stats(experiment: Experiment) -> dict[str, Any]:
    """Return the statistics of control, metrics, guardrails and shadow mode, by field."""
    state = experiment.state
    if state.guard is UNSET:
        return {}
    guard, arms = state.guard, tuple(map(str, experiment.bandit.arms))
    metrics = or_default(state.settings.metrics, {})
    sums = {name: guard.metrics.get(name, MetricSums()) for name in metrics}
    return {
        "control_lift": control_lift(experiment),
        "guardrails": guardrails.statuses(guard, experiment.ranges, arms),
        "metrics": {
            name: MetricStats(n=one.n, mean=one.total / one.n if one.n else None, unit=metrics[name].unit)
            for name, one in sums.items()
        },
        "shadow": ShadowStats(decisions=guard.shadow_decisions, agreements=guard.agreements)
        if guard.shadow_decisions
        else None,
    }
