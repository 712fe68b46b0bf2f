"""Health checks of an experiment, computed from its tally.

A check is silent until it has enough data. A failed check names the likely cause and what to do. The
thresholds follow from false-alarm rates, stated next to each constant here and in ``core/vitals.py``.
"""

import math
from collections.abc import Iterator

from msgspec import UNSET

from glcb._api.guardrails import or_default
from glcb._api.responses import Check
from glcb.bandit import recorded
from glcb.bandit.encoding.schema import identifiers
from glcb.evaluate.sequences import boundary
from glcb.service.core.experiment import Experiment
from glcb.service.core.forecasts import CatalogForecasts
from glcb.service.core.guard import MetricSums
from glcb.service.core.tally import Tally, TallyBlock
from glcb.service.core.vitals import ALARM_SECONDS, MIN_DECISIONS, Vitals

_MIN_SAMPLE = 100
"""Decisions or rewards that a check of means needs."""
_RECENT_SHARE = 0.25
"""Share of all decisions that counts as recent."""
_JUDGED_SHARE = 0.5
"""Share of all decisions whose predictions are judged."""
_JUDGED_ERROR = 0.01
"""Probability that this check ever fails by chance, if errors are normal."""
_ERROR = 0.001
"""Probability that a check of means ever fails by chance."""
_MIN_CHANGES = 40
"""Changes of the reward before its variance is known well enough: about 20 sales, if most rewards are 0."""
_MAX_BIAS = 0.1
"""Tolerated bias of the predictions, as a share of the mean reward and on top of the sampling error."""
_MIN_OVERLAP = 0.01
"""With less, an off-policy estimate from 100 decisions is worth no more than one random decision."""
_MAX_UNUSABLE = 0.1
_MIN_POSITIVE = 44
"""At a success rate of 90 %, this many successes in a row have a probability of 1 %."""
_MAX_ZEROS = 0.01
"""If fewer of the reported rewards are 0, zeros are not reported."""
_FULL_MATCH = 0.5
"""With a higher match rate, zeros are assumed to be reported."""


def checks(experiment: Experiment) -> tuple[Check, ...]:
    """Return the results of all health checks."""
    tally = experiment.state.tally
    recent = latest(tally, _RECENT_SHARE)
    values = _reward_values(experiment)
    return (
        _rewards(experiment, tally.vitals),
        values,
        _calibration(experiment, values),
        _exploration(experiment, recent),
        _propensities(experiment),
        *_contexts(experiment),
        _features(experiment),
        _clock(experiment),
        _holdout(experiment),
        *_guardrails(experiment),
    )


def latest(tally: Tally, share: float) -> TallyBlock:
    """Return the newest blocks, with this share of the decisions or with a minimum sample, as one."""
    recent = TallyBlock(0.0, 0.0)
    for block in reversed(tally.blocks):
        if recent.decisions >= max(share * tally.whole.decisions, 2 * _MIN_SAMPLE):
            break
        recent.merge(block)
    return recent


def _too_early(check: str, subject: str, unit: str = "decisions", n: int = _MIN_SAMPLE) -> Check:
    return Check(check, None, f"{subject}: checked after {n} {unit}.")


# ---- rewards --------------------------------------------------------------------------------------


def _rewards(experiment: Experiment, vitals: Vitals) -> Check:
    arrivals, settings = vitals.arrivals, experiment.state.settings
    waiting = settings.reward_timeout is not None
    counts = experiment.bandit.counts
    due = arrivals.decisions - counts["pending"] if waiting else arrivals.decisions
    if not arrivals.reported:
        if due < MIN_DECISIONS:
            unit = "decisions have timed out" if waiting else "decisions"
            return _too_early("rewards", "Match rate", unit, MIN_DECISIONS)
        text = (
            f"No reward has ever arrived, for {due:,} decisions. Check that your application sends rewards, "
            "with the id of the decision"
        )
        return Check("rewards", False, text + (" and before the reward timeout." if waiting else "."))
    rate = min(arrivals.reported / max(due, 1), 1.0)
    if arrivals.have_stopped(experiment.state.last_event_at):
        text = (
            f"Rewards have almost stopped arriving; before, {rate:.1%} of the decisions had one. Check the "
            "application that sends them, and whether its rewards are rejected."
        )
        return Check("rewards", False, text)
    text = f"{rate:.1%} of the decisions have a reported reward"
    if settings.default_reward is not None:
        text += f"; the others count as {settings.default_reward:g} after the timeout"
    return Check("rewards", True, text + ".")


def _reward_values(experiment: Experiment) -> Check:
    name, settings = "reward_values", experiment.state.settings
    vitals, (low, high) = experiment.state.tally.vitals, experiment.reward_range
    values, arrivals = vitals.values, vitals.arrivals
    if not values.reported:
        return _too_early(name, "Values of the rewards", "rewards", MIN_DECISIONS)
    positive = values.reported >= _MIN_POSITIVE and values.reported_low <= _MAX_ZEROS * values.reported
    partial = settings.default_reward is None and arrivals.reported < _FULL_MATCH * arrivals.decisions
    if positive and partial:
        text = (
            f"Only {arrivals.reported / arrivals.decisions:.1%} of the decisions have a reward, and almost "
            f"none of these is {low:g}. If the others count as {low:g}, the bandit does not learn that: "
            f"report {low:g} as well, or set reward_timeout and default_reward={low:g}."
        )
        # In a range, such as ratings by some users, rewards above the lowest one may be all there are.
        return Check(name, False if settings.rewards == "binary" else None, text)
    if values.are_stuck():
        text = (
            f"The last {values.run:,} rewards are all {low + (high - low) * values.value:g}. Nothing can be "
            "learned from equal rewards: check how the application computes them."
        )
        return Check(name, False, text)
    if values.n < MIN_DECISIONS:
        return _too_early(name, "Values of the rewards", "rewards", MIN_DECISIONS)
    return Check(name, True, "The rewards differ.")


def _calibration(experiment: Experiment, values: Check) -> Check:
    tally = experiment.state.tally
    if values.ok is False or not tally.vitals.values.reported:
        return Check("calibration", None, "Calibration of the predictions: needs rewards that differ.")
    recent = latest(tally, _JUDGED_SHARE)
    if recent.predictions < _MIN_SAMPLE:
        needed = "recent rewards of decisions made after the first rewards"
        return _too_early("calibration", "Calibration of the predictions", needed)
    if recent.predicted == 0:
        return Check("calibration", None, "This policy does not predict rewards.")
    predicted, observed = recent.predicted / recent.predictions, recent.observed / recent.predictions
    ok = are_calibrated(tally)
    if ok is None:
        return Check("calibration", None, "Calibration of the predictions: needs more rewards that differ.")
    form = ".1%" if experiment.state.settings.rewards == "binary" else ".3g"
    means = f"recent means: {predicted:{form}} predicted, {observed:{form}} observed"
    if ok:
        return Check("calibration", True, f"Predictions are calibrated ({means}).")
    return Check(
        "calibration",
        False,
        f"Predictions are biased ({means}). The traffic or the definition of the reward probably changed. "
        "An experiment with half_life forgets old rewards.",
    )


def are_calibrated(tally: Tally) -> bool | None:
    """Return whether recent predictions agree with the rewards, up to chance and a tolerated bias.

    The variance of an error is estimated from the recent errors, which include the large rewards that explain
    a high mean, and from all errors, which include those that a low mean may lack by chance. The larger
    estimate counts. The bound of the mean error is that of a normal distribution, at all times.

    Returns
    -------
    bool or None
        None if too few rewards are known.
    """
    recent = latest(tally, _JUDGED_SHARE)
    n, predictions = recent.predictions, sum(block.predictions for block in tally.blocks)
    if n < _MIN_SAMPLE or sum(block.changes for block in tally.blocks) < _MIN_CHANGES:
        return None
    all_squares = sum(block.squared_errors for block in tally.blocks)
    variance = max(recent.squared_errors / n, all_squares / predictions)
    sampling_error = math.sqrt(variance) * boundary(n, 0.0, _JUDGED_ERROR / 2) / n
    tolerated = _MAX_BIAS * recent.magnitude / n
    return abs(recent.predicted - recent.observed) / n <= tolerated + sampling_error


# ---- choices --------------------------------------------------------------------------------------


def _exploration(experiment: Experiment, recent: TallyBlock) -> Check:
    if len(experiment.bandit.arms) == 1 and recorded.catalog(experiment.bandit) is None:
        return Check("exploration", None, "With a single arm there is nothing to explore.")
    if recent.decisions < _MIN_SAMPLE or not recent.bandit_decisions:
        return _too_early("exploration", "Exploration rate", "recent decisions of the bandit")
    rate, overlap = recent.explored / recent.bandit_decisions, recent.overlap / recent.decisions
    if overlap < _MIN_OVERLAP:
        text = (
            f"Some arms are chosen at {overlap:.2%} of the rate of random assignment. That is too rare to "
            "notice changes, and for the lift and other off-policy estimates. Increase exploration or the "
            "holdout."
        )
        return Check("exploration", False, text)
    return Check("exploration", True, f"{rate:.1%} of the bandit's decisions explore another arm.")


def _propensities(experiment: Experiment) -> Check:
    tally = experiment.state.tally
    if tally.whole.decisions < _MIN_SAMPLE:
        return _too_early("propensities", "Agreement of choices with logged propensities")
    if tally.catalog is not UNSET:
        return _most_likely(tally.catalog)
    deviation = tally.forecasts.largest_deviation()
    assert deviation is not None  # there are decisions
    arm, chosen, expected, variance = deviation
    error = _ERROR / (2 * len(experiment.bandit.arms))
    if abs(chosen - expected) > boundary(variance, 1.0, error):
        more = "more" if chosen > expected else "less"
        text = (
            f"{arm!r} is chosen {more} often than its logged propensities imply: {chosen:,} times, while they"
            f" add up to {expected:,.0f}. The propensities cannot be used for off-policy evaluation. Run "
            "glcb audit to see whether stored data was altered."
        )
        return Check("propensities", False, text)
    return Check("propensities", True, "Arms are chosen as often as their logged propensities predict.")


def _most_likely(names: CatalogForecasts) -> Check:
    """Check the draws of all decisions together: the names of arms with features come and go."""
    if abs(names.chosen - names.expected) > boundary(names.variance, 1.0, _ERROR / 2):
        text = (
            f"The most likely candidate was chosen {names.chosen:,} times, but its logged propensities add "
            f"up to {names.expected:,.0f}. The propensities cannot be used for off-policy evaluation. Run "
            "glcb audit to see whether stored data was altered."
        )
        return Check("propensities", False, text)
    return Check("propensities", True, "Arms are chosen as often as their logged propensities predict.")


# ---- contexts and time ----------------------------------------------------------------------------


def _contexts(experiment: Experiment) -> Iterator[Check]:
    # Both counts belong to the bandit: an uploaded one includes the history of its model file.
    schema, decisions = experiment.bandit.schema, experiment.bandit.counts["decisions"]
    extra = experiment.state.extra_slots
    decisions -= 0 if extra is UNSET else extra  # a ranking has one context
    if schema is None or decisions < _MIN_SAMPLE or not schema.features:
        return
    shares = {
        name: sum(count for problem, count in feature.problems.items() if problem != "missing") / decisions
        for name, feature in schema.features.items()
    }
    worst = max(shares, key=shares.__getitem__)
    worst_name = max(schema.without_slot, key=schema.without_slot.__getitem__, default=worst)
    if found := identifiers(schema, decisions):
        names, share = ", ".join(map(repr, found)), max(found.values())
        text = (
            f"{names}: up to {share:.1%} of the values are new ones without a slot, like those of an "
            "identifier or a time. Nothing can be learned from them, and other features get fewer slots: do "
            "not send them."
        )
        yield Check("contexts", False, text)
    elif shares[worst] > _MAX_UNUSABLE:
        text = (
            f"{shares[worst]:.1%} of the values of {worst!r} cannot be used as sent: they have another type, "
            "are outside the range, or are new values without a free slot. Check how it is computed, or "
            "declare it in the schema."
        )
        yield Check("contexts", False, text)
    elif schema.without_slot.get(worst_name, 0.0) > _MAX_UNUSABLE:
        text = (
            f"{schema.without_slot[worst_name]:.1%} of the recent contexts have a value of {worst_name!r} "
            "that has no slot of its own, so little can be learned from it. Send fewer features, declare "
            f"{worst_name!r} in the schema, or create an experiment with a larger spare_slots."
        )
        yield Check("contexts", False, text)
    else:
        text = f"Values in contexts can be used as sent, except {shares[worst]:.1%} of {worst!r}."
        yield Check("contexts", True, text if shares[worst] else "Values in contexts can be used as sent.")


def _features(experiment: Experiment) -> Check:
    features = experiment.state.tally.vitals.features
    if features.decisions < MIN_DECISIONS:
        return _too_early("features", "Changes of the features", n=MIN_DECISIONS)
    changed = features.changed(experiment.state.last_event_at)
    if not changed:
        return Check(
            "features", True, "No feature has appeared, vanished or changed how often it is missing."
        )
    lines = []
    for name, series in list(changed.items())[:3]:
        if series.after > 0.99:
            lines.append(f"{name!r} has vanished")
        elif series.before > 0.99:
            lines.append(f"{name!r} has appeared")
        else:
            lines.append(
                f"{name!r} was missing in {series.before:.0%} of the contexts, now {series.after:.0%}"
            )
    more = f", and {len(changed) - 3} more" if len(changed) > 3 else ""
    text = (
        f"In the last {ALARM_SECONDS / 3600:.0f} hours of traffic: {'; '.join(lines)}{more}. Check what "
        "changed in the application that sends contexts; the bandit relies on features it has learned from."
    )
    return Check("features", False, text)


def _clock(experiment: Experiment) -> Check:
    clock, now = experiment.state.tally.vitals.clock, experiment.state.last_event_at
    if clock.is_stuck:
        text = (
            f"The system clock was set back: the last {clock.stuck:,} decisions have the same time, and no "
            "reward timeout passes until the clock has caught up. Synchronize the clock."
        )
        return Check("clock", False, text)
    if now - clock.jumped_at < ALARM_SECONDS:
        text = (
            f"There were no decisions for {clock.jump / 86_400:,.1f} days, much longer than before: the "
            "system clock has jumped, or there was no traffic. Pending decisions may have timed out early."
        )
        return Check("clock", False, text)
    if clock.decisions < _MIN_SAMPLE:
        return _too_early("clock", "Jumps of the clock")
    return Check("clock", True, "The clock has not jumped.")


def _holdout(experiment: Experiment) -> Check:
    steering = experiment.steering
    if steering.is_shadow:
        text = "In shadow mode, all decisions are served the control, so the lift cannot be measured."
        return Check("holdout", None, text)
    if steering.holdout == 0:
        text = "There is no holdout: the lift is estimated from exploration alone."
        return Check("holdout", None, text)
    served = "the control" if steering.serves_control else "random arms"
    text = f"{steering.holdout:.1%} of the decisions are a holdout, which is served {served}."
    return Check("holdout", True, text)


def _guardrails(experiment: Experiment) -> Iterator[Check]:
    """Check that guardrails get data, if there are any: what publishable API keys report does not count."""
    guard, settings = experiment.state.guard, experiment.state.settings
    guardrails = or_default(settings.guardrails, [])
    if not guardrails or guard is UNSET:
        return
    sums = {one.metric: guard.metrics.get(one.metric, MetricSums()) for one in guardrails}
    ignored = {metric: one.ignored for metric, one in sums.items() if one.ignored and not one.trusted}
    without_data = [metric for metric, values in ignored.items() if values >= _MIN_SAMPLE]
    if settings.trust_publishable is True:
        text = "Guardrails count what publishable API keys report, so visitors can break them."
        yield Check("guardrails", True, text)
    elif without_data:
        text = (
            f"The guardrail of {without_data[0]!r} gets no data: all {ignored[without_data[0]]:,} reported "
            "values came with publishable API keys, which do not count because visitors could break it. "
            "Report with another key, or set trust_publishable."
        )
        yield Check("guardrails", False, text)
    elif ignored or not any(one.trusted for one in sums.values()):
        yield _too_early("guardrails", "Data of the guardrails", "reported values")
    else:
        yield Check("guardrails", True, "Guardrails get data.")
