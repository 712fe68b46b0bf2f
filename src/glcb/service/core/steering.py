"""Who is served what: holdout, ramp, control and shadow mode, and the propensities that follow.

Every decision belongs to the holdout or to the bandit. The holdout is served the baseline: random assignment,
or the control. ``traffic`` enlarges it, so that raising ``traffic`` only moves decisions from the baseline to
the bandit. In shadow mode, everybody is served the control.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET

from glcb import _validation
from glcb._api.guardrails import REWARD, or_default
from glcb._api.requests import (
    DecisionRequest,
    ExperimentSettings,
    ExplanationRequest,
    RankingRequest,
    named_features,
)
from glcb._arrays import Float64
from glcb._errors import InvalidInput, InvalidSettings, UnknownArm
from glcb._types import reward_range
from glcb._validation import about
from glcb.bandit import Bandit
from glcb.bandit.ranking import Ranking
from glcb.explore.choice import ChoiceRule, certain, distribution
from glcb.explore.shares import ShareBounds, share_bounds
from glcb.policies.decision import Estimates
from glcb.service.core.guard import GuardedDecision, Shares
from glcb.service.core.rankings import has_catalog, slot_record
from glcb.service.core.records import SlotRecord
from glcb.service.errors import ApiError

_MAX_METRICS = 20
_MAX_GUARDRAILS = 20


class Assignment(NamedTuple):
    """How one decision or ranking is made."""

    held_out: bool
    eligible: list[str] | None
    """The eligible arms without those that are paused; None for all."""
    control: tuple[str, ...]
    """The arms of the control that can be served, from the first slot on."""
    serve: tuple[str, ...]
    """The arms to serve instead of drawing them."""
    uniform: bool
    """Whether arms that are not served are drawn uniformly."""
    sticky: bool
    """Whether the group was assigned to a unit: it is then known, not random."""


class SteeredSlot(NamedTuple):
    """One drawn or served slot."""

    arm: str
    probabilities: Float64
    """The probabilities of the draw."""
    estimates: Estimates


def steered_slots(ranking: Ranking) -> list[SteeredSlot]:
    """Return the slots of a ranking."""
    return [
        SteeredSlot(str(arm), shares, estimates)
        for arm, shares, estimates in zip(
            ranking.arms, ranking.slot_probabilities, ranking.estimates, strict=True
        )
    ]


class Steering:
    """The settings of an experiment that say who is served what.

    Parameters
    ----------
    settings
        The settings.
    bandit
        The bandit, for its arms.
    """

    def __init__(self, settings: ExperimentSettings, bandit: Bandit) -> None:
        self._settings = settings
        self._bandit = bandit
        self.holdout = effective_holdout(settings)
        self.is_shadow = settings.shadow is True
        self.serves_control = self.is_shadow or settings.baseline == "control"
        self.has_shares = bool(or_default(settings.shares, {}))
        """Whether probabilities of arms are bounded."""
        self._start, self._end = or_default(settings.start_at, None), or_default(settings.end_at, None)
        self._control_arm = or_default(settings.control, None)
        self._arm_guards = any(one.pauses == "arm" for one in or_default(settings.guardrails, []))
        self._paused = frozenset(or_default(settings.paused_arms, []))
        self._has_catalog = has_catalog(settings)
        self._rewards = reward_range(settings.rewards)
        self._shares = or_default(settings.shares, {})

    # ---- before the draw ------------------------------------------------------------------------

    def check_schedule(self, now: float) -> None:
        """Raise ApiError outside the schedule of the experiment."""
        if self._start is not None and now < self._start.timestamp():
            raise ApiError("experiment_paused", f"the experiment starts at {self._start.isoformat()}")
        if self._end is not None and now >= self._end.timestamp():
            raise ApiError("experiment_paused", f"the experiment ended at {self._end.isoformat()}")

    def assign(
        self, request: DecisionRequest | RankingRequest, draw: Callable[[str | None], float], slots: int
    ) -> Assignment:
        """Return how a request is answered.

        Parameters
        ----------
        request
            The request.
        draw
            Returns a number from 0 to 1 that decides on the holdout: of a unit, or of the next decision.
        slots
            Number of slots.

        Raises
        ------
        ApiError
            All eligible arms are paused, or the control is needed and missing.
        UnknownArm
            The control is not an arm of the experiment.
        """
        eligible = self.eligible(request)
        control = self._control(request, eligible, slots)
        held_out = self.is_shadow or (self.holdout > 0 and draw(request.unit) < self.holdout)
        serves = held_out and self.serves_control
        return Assignment(
            held_out,
            eligible,
            control,
            control if serves else (),
            held_out,
            request.unit is not None,
        )

    def _candidates(self, request: DecisionRequest | RankingRequest | ExplanationRequest) -> Sequence[str]:
        if request.arms is None:
            return self._bandit.arms  # type: ignore[return-value]  # arms are strings here
        return list(dict(named_features(request.arms)))

    def eligible(self, request: DecisionRequest | RankingRequest | ExplanationRequest) -> list[str] | None:
        """Return the eligible arms of a request, without those that are paused; None for all."""
        if not self._paused:
            return request.eligible
        asked = self._candidates(request) if request.eligible is None else request.eligible
        eligible = [arm for arm in asked if arm not in self._paused]
        if asked and not eligible:
            raise ApiError("experiment_paused", "all eligible arms are paused: resume one of them")
        return eligible

    def _control(
        self,
        request: DecisionRequest | RankingRequest,
        eligible: list[str] | None,
        slots: int,
    ) -> tuple[str, ...]:
        """Return the control as far as it can be served; an arm that is not eligible ends it."""
        asked = self._control_arm if request.control is None else request.control
        if asked is None:
            if self.serves_control:
                raise InvalidInput(
                    "this experiment serves the control: set control in its settings, or send the choice of "
                    "the existing system as control"
                )
            return ()
        arms = [asked] if isinstance(asked, str) else asked
        if len(set(arms)) != len(arms) or len(arms) > slots:
            raise InvalidInput(f"control must have at most {slots} different arms, got {arms}")
        candidates = self._candidates(request)
        able = set(candidates if eligible is None else eligible)
        for number, arm in enumerate(arms):
            if request.control is not None and arm not in candidates and arm not in self._bandit.arms:
                raise UnknownArm(f"control must be an arm of the experiment, got {arm!r}")
            if arm not in able:
                return tuple(arms[:number])
        return tuple(arms)

    # ---- after the draw -------------------------------------------------------------------------

    def bounds(self, arms: Sequence[str]) -> ShareBounds | None:
        """Return the bounds of the probabilities of arms."""
        if not self._shares:
            return None
        return share_bounds(self._shares, _places(arms))  # type: ignore[arg-type]

    def explained(self, arms: Sequence[Any], scores: Float64, eligible: list[str] | None) -> Float64:
        """Return the probabilities of arms without features, given their scores."""
        settings, bounds = self._settings, self.bounds(arms)
        allowed = None if eligible is None else _validation.eligible(eligible, _places(arms))
        rule = ChoiceRule(settings.exploration, settings.exploration_mode, bounds=bounds)
        return distribution(scores, np.zeros(scores.size), rule, allowed)

    def is_bounded(self, arms: Sequence[str], shares: Float64, eligible: Sequence[str] | None) -> bool:
        """Return whether an eligible arm has its minimum or maximum share."""
        bounds = self.bounds(arms)
        if bounds is None:
            return False
        reached = (bounds.low > 0) & (shares <= bounds.low) | (bounds.high < 1) & (shares >= bounds.high)
        places = _places(arms)
        return bool(reached[[places[arm] for arm in (arms if eligible is None else eligible)]].any())

    def records(
        self, slots: Sequence[SteeredSlot], arms: tuple[Any, ...], assignment: Assignment
    ) -> Iterator[tuple[SlotRecord, Shares]]:
        """Yield what is recorded of the slots, from the top, with the distributions over the arms.

        Parameters
        ----------
        slots
            What was drawn or served.
        arms
            All candidates.
        assignment
            How it was drawn.
        """
        settings, shared = self._settings, self._has_catalog
        guards = settings.metrics is not UNSET or settings.guardrails is not UNSET
        by_arm = not shared and self._arm_guards
        index = _places(arms)
        remaining = list(range(len(arms)))
        if assignment.eligible is not None and not shared:
            remaining = sorted({index[arm] for arm in assignment.eligible})
        held = self.holdout
        for number, slot in enumerate(slots):
            chosen, n = index[slot.arm], len(remaining)
            inside = slice(None) if n == len(arms) else remaining  # a slice is not copied
            bounds = self.bounds(arms) if number == 0 and self.has_shares else None
            rule = ChoiceRule(settings.exploration, settings.exploration_mode, False, shared, bounds)
            values, bonuses, _ = slot.estimates
            own = slot.probabilities
            if assignment.held_out or assignment.serve:  # what the bandit would have done
                own = distribution(values + bonuses, bonuses, rule, remaining)
            random = distribution(values, bonuses, rule._replace(uniform=True), remaining)
            control = None
            if number < len(assignment.control):
                control = certain(index[assignment.control[number]], own.size)
            elif assignment.control or settings.control is not UNSET:
                control = random
            shares = self._shares_of(own, random, control, slot.probabilities, held, assignment, chosen)
            shares = shares._replace(values=self._scaled(values))
            if number + 1 < len(slots) and shares.overall[chosen] > 0:
                base = control if self.serves_control and control is not None else random
                served = base if self.is_shadow else own
                held *= float(base[chosen]) / (
                    held * float(base[chosen]) + (1 - held) * float(served[chosen])
                )
            has_guard = guards or control is not None
            record = slot_record(
                slot.arm,
                slot.probabilities,
                slot.estimates,
                chosen,
                listed=not shared and number == 0,
                explored=1 - float(own[inside].max()),
                overlap=float(shares.logged[inside].min()) * n,
                weights=shares.over_random(),
                guarded=GuardedDecision.of(shares, with_arms=by_arm) if has_guard else None,
            )
            yield record, shares
            remaining.remove(chosen)

    def _scaled(self, values: Float64) -> Float64:
        """Return predicted rewards on a scale from 0 to 1."""
        low, high = self._rewards
        scaled: Float64 = np.nan_to_num(((values - low) / (high - low)).clip(0.0, 1.0))
        return scaled

    def _shares_of(
        self,
        own: Float64,
        random: Float64,
        control: Float64 | None,
        actual: Float64,
        held: float,
        assignment: Assignment,
        chosen: int,
    ) -> Shares:
        """Return the distributions of a slot; ``held`` is the probability of the holdout so far."""
        base = control if self.serves_control and control is not None else random
        overall = base if self.is_shadow else held * base + (1 - held) * own
        logged = actual if assignment.sticky and not self.is_shadow else overall
        return Shares(own, random, control, logged, overall, chosen)


def _places(arms: Sequence[Any]) -> dict[Any, int]:
    return {arm: place for place, arm in enumerate(arms)}


def effective_holdout(settings: ExperimentSettings) -> float:
    """Return the share of the decisions that are served the baseline.

    >>> effective_holdout(ExperimentSettings(arms=["a"], holdout=0.1, traffic=0.5))
    0.55
    """
    traffic = or_default(settings.traffic, 1.0)
    return settings.holdout if traffic == 1 else 1 - traffic * (1 - settings.holdout)


def check_settings(settings: ExperimentSettings, arms: Sequence[str]) -> None:
    """Raise InvalidSettings if the settings that say who is served what contradict each other.

    Parameters
    ----------
    settings
        The settings.
    arms
        The arms of the experiment.
    """
    shared = has_catalog(settings)
    paused, control = or_default(settings.paused_arms, []), or_default(settings.control, None)
    for arm in paused if control is None else [*paused, control]:
        if not shared and arm not in arms:
            known = ", ".join(map(repr, arms[:8]))
            field = "control" if arm == control else "paused_arms"
            raise InvalidSettings(f"{field} has {arm!r}, which is not an arm; the arms are {known}", field)
    if control in paused:
        raise InvalidSettings(
            f"{control!r} is the control: choose another one before you pause it", "paused_arms"
        )
    if arms and not set(arms) - set(paused):
        raise InvalidSettings(
            "at least one arm must not be paused: pause the experiment instead", "paused_arms"
        )
    start, end = or_default(settings.start_at, None), or_default(settings.end_at, None)
    if start is not None and end is not None and end <= start:
        raise InvalidSettings(
            f"end_at must be after start_at, got {start.isoformat()} and {end.isoformat()}", "end_at"
        )
    with about("metrics"):
        _check_metrics(settings)
    with about("guardrails"):
        _check_guardrails(settings, shared)


def _check_metrics(settings: ExperimentSettings) -> None:
    metrics = or_default(settings.metrics, {})
    if len(metrics) > _MAX_METRICS:
        raise InvalidSettings(f"there can be at most {_MAX_METRICS} metrics, got {len(metrics)}")
    for name, metric in metrics.items():
        low, high = metric.range
        if name == REWARD:
            raise InvalidSettings("'reward' is the reward itself: choose another name for a metric")
        if not (low < high and np.isfinite(high - low)):
            raise InvalidSettings(f"the range of {name!r} must be [low, high], got {list(metric.range)}")
        if metric.default is not None and not low <= metric.default <= high:
            raise InvalidSettings(f"the default of {name!r} must be within its range, got {metric.default:g}")


def _check_guardrails(settings: ExperimentSettings, shared: bool) -> None:
    guardrails = or_default(settings.guardrails, [])
    if len(guardrails) > _MAX_GUARDRAILS:
        raise InvalidSettings(f"there can be at most {_MAX_GUARDRAILS} guardrails, got {len(guardrails)}")
    if len(set(guardrails)) != len(guardrails):
        raise InvalidSettings("two guardrails are equal: remove one of them")
    for guardrail in guardrails:
        if (guardrail.max_fall is None) == (guardrail.max_rise is None):
            raise InvalidSettings(
                f"the guardrail of {guardrail.metric!r} must have either max_fall or max_rise"
            )
        low = metric_range(settings, guardrail.metric)[0]
        if guardrail.relative and low < 0:
            change = "rise" if guardrail.rises else "fall"
            raise InvalidSettings(
                f"{guardrail.metric!r} can be negative, so that a {change} has no share: pass relative=false"
            )
        if guardrail.relative and guardrail.max_fall is not None and guardrail.max_fall > 1:
            raise InvalidSettings(f"max_fall must be a share of at most 1, got {guardrail.max_fall:g}")
        if guardrail.pauses == "arm" and shared:
            raise InvalidSettings(
                'arms with features come and go: pass pauses="experiment" or "nothing" for a guardrail'
            )


def metric_range(settings: ExperimentSettings, name: str) -> tuple[float, float]:
    """Return the lowest and the highest value of a metric; raise InvalidSettings if there is none."""
    if name == REWARD:
        return reward_range(settings.rewards)
    metrics = or_default(settings.metrics, {})
    if name not in metrics:
        known = ", ".join(map(repr, [REWARD, *metrics]))
        raise InvalidSettings(f"there is no metric {name!r}; the metrics are {known}")
    return metrics[name].range
