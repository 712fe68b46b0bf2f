"""Health checks of an experiment, computed from its tally."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from glcb._api.responses import Check
from glcb.service.core.experiment import Experiment
from glcb.service.core.tally import Block

_MIN_SAMPLE = 100
"""Decisions or rewards that a check needs."""
_RECENT_SHARE = 0.25
"""Share of all decisions that counts as recent."""
_MAX_DEVIATIONS = 5.0
"""Deviations of more than this many standard deviations are significant, even if checked repeatedly."""
_MAX_BIAS = 0.05
"""Tolerated bias of the predictions, as a share of the reward range and on top of the sampling error."""
_MIN_EXPLORATION = 0.001
_MIN_MATCH_RATE = 0.01
_MAX_UNUSABLE = 0.1


class _Sums(NamedTuple):
    """Sums over some blocks."""

    decisions: int
    rewards: int
    total: float
    predicted: float
    bandit_decisions: int
    explored: float


def checks(experiment: Experiment) -> tuple[Check, ...]:
    """Return the results of all health checks."""
    blocks = experiment.state.tally.blocks
    overall = _sums(blocks)
    recent = _sums(_latest(blocks, _RECENT_SHARE * overall.decisions))
    return (
        _rewards(overall, recent),
        _calibration(experiment, recent),
        _exploration(experiment, recent),
        _propensities(experiment, overall),
        *_contexts(experiment),
        _holdout(experiment),
    )


def _latest(blocks: list[Block], decisions: float) -> Iterator[Block]:
    """Yield the newest blocks with this many decisions, or with a minimum sample."""
    covered = 0
    for block in reversed(blocks):
        if covered >= max(decisions, 2 * _MIN_SAMPLE):
            return
        covered += block.decisions
        yield block


def _sums(blocks: Iterable[Block]) -> _Sums:
    rows = [
        (
            block.decisions,
            sum(block.rewards),
            sum(block.totals),
            block.predicted,
            block.bandit_decisions,
            block.explored,
        )
        for block in blocks
    ]
    return _Sums(*map(sum, zip(*rows, strict=True))) if rows else _Sums(0, 0, 0.0, 0.0, 0, 0.0)


def _too_early(check: str, subject: str, unit: str = "decisions") -> Check:
    return Check(check, None, f"{subject}: checked after {_MIN_SAMPLE} {unit}.")


def _rewards(overall: _Sums, recent: _Sums) -> Check:
    if overall.decisions < _MIN_SAMPLE:
        return _too_early("rewards", "Match rate")
    match_rate = overall.rewards / overall.decisions
    recent_rate = recent.rewards / recent.decisions
    if match_rate < _MIN_MATCH_RATE:
        text = (
            f"The match rate is only {match_rate:.1%}. Check that rewards are sent, with the right decision "
            "id, before the reward timeout."
        )
        return Check("rewards", False, text)
    if recent_rate < match_rate / 2 and recent.decisions >= 2 * _MIN_SAMPLE:
        text = f"The match rate dropped to {recent_rate:.0%} recently, from {match_rate:.0%} overall."
        return Check("rewards", False, text)
    return Check("rewards", True, f"The match rate is {match_rate:.1%}.")


def _calibration(experiment: Experiment, recent: _Sums) -> Check:
    if recent.rewards < _MIN_SAMPLE:
        return _too_early("calibration", "Calibration of the predictions", "recent rewards")
    if recent.predicted == 0:
        return Check("calibration", None, "This policy does not predict rewards.")
    low, high = experiment.reward_range
    predicted, observed = recent.predicted / recent.decisions, recent.total / recent.rewards
    sampling_error = _MAX_DEVIATIONS * (high - low) / 2 / recent.rewards**0.5
    ok = abs(predicted - observed) <= _MAX_BIAS * (high - low) + sampling_error
    form = ".1%" if experiment.state.settings.rewards == "binary" else ".3g"
    means = f"recent means: {predicted:{form}} predicted, {observed:{form}} observed"
    if ok:
        return Check("calibration", True, f"Predictions are calibrated ({means}).")
    return Check(
        "calibration",
        False,
        f"Predictions are biased ({means}). Did the traffic or the definition of the reward change?",
    )


def _exploration(experiment: Experiment, recent: _Sums) -> Check:
    if len(experiment.bandit.arms) == 1:
        return Check("exploration", None, "With a single arm there is nothing to explore.")
    if recent.bandit_decisions < _MIN_SAMPLE:
        return _too_early("exploration", "Exploration rate", "recent decisions of the bandit")
    rate = recent.explored / recent.bandit_decisions
    if rate < _MIN_EXPLORATION:
        text = (
            "Exploration has stopped: the most likely arm is almost certain, so changes go unnoticed. "
            "Increase exploration."
        )
        return Check("exploration", False, text)
    return Check("exploration", True, f"{rate:.1%} of the decisions explore another arm.")


def _propensities(experiment: Experiment, overall: _Sums) -> Check:
    deviation = experiment.state.tally.forecasts.largest_deviation()
    if deviation is None or overall.decisions < _MIN_SAMPLE:
        return _too_early("propensities", "Agreement of choices with logged propensities")
    arm, chosen, expected, distance = deviation
    if distance > _MAX_DEVIATIONS:
        text = f"{arm!r} was chosen {chosen:,} times, but its logged propensities add up to {expected:,.0f}."
        return Check("propensities", False, text)
    return Check("propensities", True, "Arms are chosen as often as their logged propensities predict.")


def _contexts(experiment: Experiment) -> Iterator[Check]:
    # Both counts belong to the bandit: an uploaded one includes the history of its model file.
    schema, decisions = experiment.bandit.schema, experiment.bandit.counts["decisions"]
    if schema is None or decisions < _MIN_SAMPLE:
        return
    unusable = sum(schema.problems.values()) / (decisions * max(1, len(schema.features)))
    yield Check(
        "contexts",
        unusable <= _MAX_UNUSABLE,
        f"{unusable:.1%} of the context values could not be used as sent.",
    )


def _holdout(experiment: Experiment) -> Check:
    share = experiment.state.settings.holdout
    if share == 0:
        return Check("holdout", None, "There is no holdout, so the lift cannot be measured.")
    return Check(
        "holdout", True, f"{share:.1%} of the decisions are a random holdout that measures the lift."
    )
