"""How an experiment fares, from its sums."""

from datetime import UTC, datetime

from glcb._api import responses
from glcb._api.responses import ArmStats, Counts, FeatureStats, Latency, Stats
from glcb.service import health, views
from glcb.service.core.experiment import Experiment
from glcb.service.core.live import Activity
from glcb.service.core.tally import ArmTally, Block

_MOST_SHARES = 12
"""Of so many arms, the most played ones, every block tells the share."""
_MOST_FEATURES = 100
_MOST_VALUES = 100


def stats(seen: Experiment, activity: Activity) -> Stats:
    """Return everything that is known of an experiment's success."""
    counts = Counts(**seen.bandit.counts)
    schema = seen.bandit.schema
    told = _most_played(seen)
    microseconds = [
        None if (t := activity.latency.quantile(share)) is None else t * 1e6 for share in (0.5, 0.99)
    ]
    return Stats(
        counts=counts,
        match_rate=views.mean(counts.rewarded, counts.decisions),
        lift=views.lift(seen),
        arms=_arms(seen),
        blocks=tuple(_block(block, told) for block in seen.around.tally.blocks),
        features=_features(seen),
        unmapped=0 if schema is None else schema.unmapped,
        refused=dict(activity.refused),
        latency_us=Latency(*microseconds),
        health=health.checks(seen),
    )


def _most_played(seen: Experiment) -> frozenset[str]:
    tallies = seen.around.tally.arms
    arms = sorted(map(str, seen.bandit.arms), key=lambda arm: -tallies.get(arm, ArmTally()).decisions)
    return frozenset(arms[:_MOST_SHARES])


def _arms(seen: Experiment) -> tuple[ArmStats, ...]:
    tallies, predicted = seen.around.tally.arms, seen.around.tally.outlook.predicted()
    decisions = seen.around.tally.gone + sum(tally.decisions for tally in tallies.values())
    plays = seen.bandit.reward_counts
    found = []
    for arm in map(str, seen.bandit.arms):
        own = tallies.get(arm, ArmTally())
        found.append(
            ArmStats(
                arm=arm,
                decisions=own.decisions,
                share=own.decisions / decisions if decisions else 0.0,
                reward_mean=views.mean(own.total, own.rewards),
                predicted=predicted.get(arm),
                rewards=plays[arm],
            )
        )
    return tuple(found)


def _block(block: Block, told: frozenset[str]) -> responses.Block:
    (bandit_n, holdout_n), (bandit, holdout) = block.rewards, block.totals
    return responses.Block(
        start=datetime.fromtimestamp(block.start, UTC),
        end=datetime.fromtimestamp(block.end, UTC),
        decisions=block.decisions,
        rewards=bandit_n + holdout_n,
        bandit_n=bandit_n,
        bandit_mean=views.mean(bandit, bandit_n),
        holdout_n=holdout_n,
        holdout_mean=views.mean(holdout, holdout_n),
        shares={arm: plays / block.decisions for arm, plays in block.arms.items() if arm in told},
    )


def _features(seen: Experiment) -> tuple[FeatureStats, ...]:
    schema = seen.bandit.schema
    if schema is None:
        return ()
    return tuple(
        FeatureStats(
            name=name,
            kind=feature.kind,
            range=feature.limits,
            values=feature.values[:_MOST_VALUES],
            problems={problem: count for problem, count in feature.problems.items() if count},
        )
        for name, feature in list(schema.features.items())[:_MOST_FEATURES]
    )
