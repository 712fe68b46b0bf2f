"""Changes by administrators: settings, arms and models. Each function is the handler of an event."""

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET

from glcb._api.guardrails import ArmPause, Breach, or_default
from glcb._api.requests import Catalog, CatalogChanges, ExperimentChanges, NewArm, SetAside, Takeover, encode
from glcb._errors import InvalidInput, InvalidSettings
from glcb.bandit import Bandit, recorded
from glcb.bandit.recorded import use_id_prefix
from glcb.service.core import models
from glcb.service.core.idempotency import RepeatedAnswer
from glcb.service.core.rankings import NO_OUTCOME
from glcb.service.core.steering import check_settings
from glcb.service.core.tally import Tally
from glcb.service.core.trail import setting_change, setting_changes
from glcb.service.errors import ApiError, MissingArm

if TYPE_CHECKING:
    from glcb.service.core.experiment import Experiment


class Result(NamedTuple):
    """The result of applying a request."""

    outcome: bytes | None
    """What the event stores for its readers; None if nothing changed, and there is no event."""
    answer: bytes | RepeatedAnswer
    """What the client gets."""
    record: bytes = b""
    """What recovery needs beside the request."""


DONE = Result(NO_OUTCOME, NO_OUTCOME)
UNCHANGED = Result(None, NO_OUTCOME)


def change(experiment: "Experiment", request: ExperimentChanges) -> Result:
    """Change settings, or the state."""
    state, before, status = experiment.state, experiment.state.settings, experiment.state.status
    changes = {
        name: value
        for name in request.__struct_fields__
        if name not in ("state", "reason") and (value := getattr(request, name)) is not UNSET
    }
    if request.state in (UNSET, state.status) and changes:
        experiment.reject_if("archived")
    after = msgspec.structs.replace(before, **changes)
    check_settings(after, _names(experiment))
    own = {name: value for name, value in changes.items() if name in models.BANDIT_SETTINGS}
    if own:
        experiment.bandit.set_params(**own)
    state.settings = after
    noted = setting_changes(before, after)
    if request.state is not UNSET:
        state.status = request.state
    if state.status != status:
        noted.append(setting_change("state", status, state.status))
        if state.status == "running" and state.guard is not UNSET:
            state.guard.restart(None)
    if changes:
        experiment.use_settings()
    if noted:
        experiment.note("settings_changed", reason=request.reason, changes=noted)
    return DONE


def change_arm(experiment: "Experiment", request: ArmPause) -> Result:
    """Pause or resume an arm."""
    experiment.reject_if("archived")
    _check_arm(experiment, request.name)
    paused = or_default(experiment.state.settings.paused_arms, [])
    if (request.name in paused) == request.paused:
        return UNCHANGED
    _set_paused(experiment, request.name, request.paused)
    if not request.paused and experiment.state.guard is not UNSET:
        experiment.state.guard.restart(request.name)
    experiment.note(
        "arm_paused" if request.paused else "arm_resumed", arm=request.name, reason=request.reason
    )
    return DONE


def stop(experiment: "Experiment", breach: Breach) -> Result:
    """Pause what a guardrail pauses. If it is the last arm that is not paused, pause the experiment."""
    state = experiment.state
    experiment.guard().mark_broken(breach)
    if breach.arm is not None:
        try:
            _set_paused(experiment, breach.arm, True)
        except InvalidSettings:
            state.status = "paused"
        else:
            experiment.note("arm_paused", arm=breach.arm, reason=breach.reason)
            return DONE
    elif breach.guardrail.pauses == "experiment":
        state.status = "paused"
    changes = [setting_change("state", "running", "paused")] if state.status == "paused" else []
    experiment.note("guardrail_broken", arm=breach.arm, reason=breach.reason, changes=changes)
    return DONE


def _set_paused(experiment: "Experiment", arm: str, paused: bool) -> None:
    settings = experiment.state.settings
    others = [one for one in or_default(settings.paused_arms, []) if one != arm]
    arms = [*others, arm] if paused else others
    after = msgspec.structs.replace(settings, paused_arms=arms or UNSET)
    check_settings(after, _names(experiment))
    experiment.state.settings = after
    experiment.use_settings()


def _names(experiment: "Experiment") -> list[str]:
    return [str(arm) for arm in experiment.bandit.arms]


def _check_arm(experiment: "Experiment", arm: str) -> None:
    if arm not in experiment.bandit.arms:
        arms = ", ".join(map(repr, experiment.bandit.arms[:8]))
        raise MissingArm(f"there is no arm {arm!r}; the arms are {arms}")


def add_arm(experiment: "Experiment", request: NewArm) -> Result:
    """Add an arm."""
    experiment.reject_if("archived")
    if request.name in experiment.bandit.arms:
        raise ApiError("arm_exists", f"the arm {request.name!r} already exists: choose another name")
    experiment.bandit.add_arm(request.name, like=request.like, features=request.features)
    experiment.note("arm_added", arm=request.name)
    return _arms_changed(experiment)


def remove_arm(experiment: "Experiment", request: NewArm) -> Result:
    """Remove an arm."""
    experiment.reject_if("archived")
    _check_arm(experiment, request.name)
    _check_removal(experiment, {request.name})
    experiment.bandit.remove_arm(request.name)
    if not experiment.has_catalog:
        experiment.state.tally.remove_arm(request.name)
        experiment.open.remove_arm(request.name)
        if experiment.state.guard is not UNSET:
            experiment.state.guard.restart(request.name)
    experiment.note("arm_removed", arm=request.name)
    return _arms_changed(experiment)


def _check_removal(experiment: "Experiment", removed: set[str]) -> None:
    """Raise InvalidSettings if the control or all arms that are not paused would be removed."""
    settings = experiment.state.settings
    if settings.control in removed:
        raise InvalidSettings(f"{settings.control!r} is the control: choose another one before you remove it")
    paused = or_default(settings.paused_arms, [])
    if paused and not set(_names(experiment)) - {*paused, *removed}:
        raise InvalidSettings("all other arms are paused: resume one of them first")


def set_arms(experiment: "Experiment", request: Catalog) -> Result:
    """Replace all arms with features."""
    return _replace_catalog(experiment, _current_catalog(experiment), request.arms)


def change_arms(experiment: "Experiment", request: CatalogChanges) -> Result:
    """Add, change and remove arms with features."""
    catalog = _current_catalog(experiment)
    removed = set(request.remove)
    for name in request.remove:
        if name in request.arms:
            raise InvalidInput(f"the arm {name!r} cannot be added and removed at once")
        if name not in catalog:
            raise ApiError("unknown_arm", f"there is no arm {name!r} to remove")
    kept = {name: features for name, features in catalog.items() if name not in removed}
    return _replace_catalog(experiment, catalog, {**kept, **request.arms})


def _current_catalog(experiment: "Experiment") -> dict[Any, Any]:
    experiment.reject_if("archived")
    catalog = recorded.catalog(experiment.bandit)
    if catalog is None:
        raise InvalidInput(
            "the arms of this experiment have no features: add and remove them one by one, or create an "
            "experiment whose arms are an object of features by name"
        )
    return dict(catalog)


def _replace_catalog(experiment: "Experiment", before: dict[Any, Any], arms: dict[Any, Any]) -> Result:
    _check_removal(experiment, before.keys() - arms.keys())
    experiment.bandit.set_arms(arms)
    if list(before.items()) == list((recorded.catalog(experiment.bandit) or {}).items()):
        return UNCHANGED
    experiment.note("arms_changed", changes=[setting_change("number of arms", len(before), len(arms))])
    return _arms_changed(experiment)


def _arms_changed(experiment: "Experiment") -> Result:
    catalog, names = recorded.catalog(experiment.bandit), _names(experiment)
    settings = experiment.state.settings
    changes: dict[str, Any] = {"arms": names if catalog is None else dict(catalog)}
    if settings.paused_arms is not UNSET:
        changes["paused_arms"] = [arm for arm in settings.paused_arms if arm in names] or UNSET
    if catalog is None and settings.shares is not UNSET:
        changes["shares"] = {arm: one for arm, one in or_default(settings.shares, {}).items() if arm in names}
    experiment.state.settings = msgspec.structs.replace(settings, **changes)
    experiment.use_settings()
    return Result(encode(names if catalog is None else {"arms": len(catalog)}), NO_OUTCOME)


def take_over(experiment: "Experiment", request: Takeover) -> Result:
    """Let later decisions have ids that no other process has issued."""
    use_id_prefix(experiment.bandit, request.id_prefix)
    experiment.state.writer = request.writer
    return DONE


def set_aside(experiment: "Experiment", request: SetAside) -> Result:
    """Continue without the events after the last good one. Their decisions are unknown from now on."""
    lost = request.last - experiment.state.sequence - request.events
    reason = f"{request.reason}; {request.events:,} events were set aside"
    experiment.note("recovered", reason=f"{reason}, {lost:,} are lost" if lost > 0 else reason)
    return take_over(experiment, request)


def replace_model(experiment: "Experiment", content: bytes) -> Result:
    """Replace the bandit and restart the statistics. The ids of its decisions get a new prefix."""
    experiment.reject_if("archived")
    return _use_model(experiment, models.parse_model(content))


def _use_model(experiment: "Experiment", bandit: Bandit) -> Result:
    state = experiment.state
    settings = models.settings_of(bandit, state.settings)
    check_settings(settings, [str(arm) for arm in bandit.arms])
    state.settings = settings
    state.guard = UNSET
    state.creation = msgspec.structs.replace(state.creation, settings=state.settings)
    state.tally = Tally()
    state.tally.begin(experiment.now, state.settings)
    state.extra_slots = UNSET if state.extra_slots is UNSET else 0
    state.presentations = UNSET
    experiment.attach(bandit, {})
    experiment.note("model_uploaded")
    catalog = recorded.catalog(experiment.bandit)  # exports need it
    return Result(NO_OUTCOME if catalog is None else encode({"arms": dict(catalog)}), NO_OUTCOME)
