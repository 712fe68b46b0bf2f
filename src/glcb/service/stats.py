"""Statistics of an experiment, computed from its tally."""

from datetime import UTC, datetime

from glcb._api import statistics
from glcb._api.responses import Counts
from glcb._api.statistics import FeatureStats, Latency, Stats
from glcb.bandit.encoding.schema import Schema
from glcb.service import health
from glcb.service.arms import Arms
from glcb.service.core.experiment import Experiment
from glcb.service.core.tally import Block
from glcb.service.metrics import Activity
from glcb.service.responses import guard_stats, lift

_MAX_SHARES = 12
"""Blocks contain the shares of this many arms, those with the most decisions."""
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
    shown = frozenset(arms.most_chosen(_MAX_SHARES))
    return Stats(
        counts=counts,
        match_rate=_mean(counts.rewarded, counts.decisions),
        lift=lift(experiment),
        arms=listed,
        arm_count=len(arms),
        other_arms=others,
        blocks=tuple(_block(block, shown) for block in experiment.state.tally.blocks),
        features=_features(schema),
        arm_features=_features(experiment.bandit.arm_schema),
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


def _block(block: Block, shown: frozenset[str]) -> statistics.Block:
    (bandit_n, holdout_n), (bandit, holdout) = block.rewards, block.totals
    return statistics.Block(
        start=datetime.fromtimestamp(block.start, UTC),
        end=datetime.fromtimestamp(block.end, UTC),
        decisions=block.decisions,
        rewards=bandit_n + holdout_n,
        bandit_n=bandit_n,
        bandit_mean=_mean(bandit, bandit_n),
        holdout_n=holdout_n,
        holdout_mean=_mean(holdout, holdout_n),
        shares={arm: count / block.decisions for arm, count in block.arms.items() if arm in shown},
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
