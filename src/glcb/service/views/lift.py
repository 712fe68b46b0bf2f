"""The lift of an experiment over random assignment and over the control, in units of the reward."""

from typing import Any

from msgspec import UNSET
from msgspec.structs import asdict

from glcb._api.guardrails import ControlLift
from glcb._api.responses import GroupMean, Lift
from glcb._api.statistics import LiftEstimate
from glcb.service.core.experiment import Experiment
from glcb.service.core.lift import CONFIDENCE, LiftSums
from glcb.service.core.sums import Sums
from glcb.service.views.estimates import Range, lift_estimates


def lift(experiment: Experiment) -> Lift:
    """Return the lift over random assignment."""
    return lift_of(experiment.state.tally.whole, experiment.reward_range)


def lift_of(sums: Sums, rewards: Range) -> Lift:
    """Return the lift of some decisions over random assignment."""
    bandit, holdout = (GroupMean(group.n, group.mean) for group in (sums.bandit, sums.holdout))
    return Lift(bandit=bandit, holdout=holdout, **_fields(sums.lift, rewards, "random"))


def control_lift(experiment: Experiment) -> ControlLift | None:
    """Return the lift over the control; None if decisions have no control."""
    state, sums = experiment.state, experiment.state.tally.whole.control
    if state.guard is UNSET or (state.settings.control is UNSET and not sums.n):
        return None
    return ControlLift(**_fields(sums, experiment.reward_range, "control"))


def _fields(sums: LiftSums, rewards: Range, baseline: str) -> dict[str, Any]:
    """Return the fields of a lift, which are None without rewards; the baseline has a name of its own."""
    (found,) = lift_estimates([sums], rewards)
    fields = dict.fromkeys(LiftEstimate.__struct_fields__) if found is None else asdict(found)
    fields[baseline] = fields.pop("baseline")
    return {**fields, "n": sums.n, "confidence": CONFIDENCE}
