"""Changes by administrators: settings, arms and models. Each function is the handler of an event."""

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from glcb._api.requests import Catalog, CatalogChanges, ExperimentChanges, NewArm, encode
from glcb._errors import InvalidInput
from glcb.bandit import Bandit
from glcb.service.core import models
from glcb.service.core.idempotency import IdempotencyKeys, RepeatedAnswer
from glcb.service.core.rankings import NO_OUTCOME
from glcb.service.core.tally import Tally
from glcb.service.errors import ApiError

if TYPE_CHECKING:
    from glcb.service.core.experiment import Experiment

Result = tuple[bytes | None, bytes | RepeatedAnswer]
"""The outcome of an event, or None if nothing changed; and the answer."""


def change(experiment: "Experiment", request: ExperimentChanges) -> Result:
    """Change settings, or the state."""
    state = experiment.state
    changes = {
        name: value
        for name in ("exploration", "exploration_mode", "schema")
        if (value := getattr(request, name)) is not UNSET
    }
    if request.state in (UNSET, state.status) and (changes or request.holdout is not UNSET):
        experiment.reject_if("archived")
    if changes:
        experiment.bandit.set_params(**changes)
    if request.holdout is not UNSET:
        changes["holdout"] = request.holdout
    state.settings = msgspec.structs.replace(state.settings, **changes)
    if request.state is not UNSET:
        state.status = request.state
    return NO_OUTCOME, NO_OUTCOME


def add_arm(experiment: "Experiment", request: NewArm) -> Result:
    """Add an arm."""
    experiment.reject_if("archived")
    if request.name in experiment.bandit.arms:
        raise ApiError("arm_exists", f"the arm {request.name!r} already exists: choose another name")
    experiment.bandit.add_arm(request.name, like=request.like, features=request.features)
    return _arms_changed(experiment)


def remove_arm(experiment: "Experiment", request: NewArm) -> Result:
    """Remove an arm."""
    experiment.reject_if("archived")
    if request.name not in experiment.bandit.arms:
        arms = ", ".join(map(repr, experiment.bandit.arms[:8]))
        raise ApiError("unknown_arm", f"there is no arm {request.name!r}; the arms are {arms}", status=404)
    experiment.bandit.remove_arm(request.name)
    if not experiment.has_catalog:
        experiment.state.tally.remove_arm(request.name)
        experiment.open.remove_arm(request.name)
    return _arms_changed(experiment)


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
    catalog = experiment.bandit.catalog
    if catalog is None:
        raise InvalidInput(
            "the arms of this experiment have no features: add and remove them one by one, or create an "
            "experiment whose arms are an object of features by name"
        )
    return dict(catalog)


def _replace_catalog(experiment: "Experiment", before: dict[Any, Any], arms: dict[Any, Any]) -> Result:
    experiment.bandit.set_arms(arms)
    if list(before.items()) == list((experiment.bandit.catalog or {}).items()):
        return None, NO_OUTCOME
    return _arms_changed(experiment)


def _arms_changed(experiment: "Experiment") -> Result:
    catalog = experiment.bandit.catalog
    if catalog is None:
        arms = [str(arm) for arm in experiment.bandit.arms]
        experiment.state.settings = msgspec.structs.replace(experiment.state.settings, arms=arms)
        return encode(arms), NO_OUTCOME
    experiment.state.settings = msgspec.structs.replace(experiment.state.settings, arms=dict(catalog))
    return encode({"arms": len(catalog)}), NO_OUTCOME


def replace_model(experiment: "Experiment", content: bytes) -> Result:
    """Replace the bandit and restart the statistics. The ids of its decisions get a new prefix."""
    experiment.reject_if("archived")
    id_prefix = f"{experiment.keyed_digest(b'upload', experiment.state.sequence + 1, 5).hex()}-"
    return _use_model(experiment, models.parse_model(content, id_prefix))


def upload(experiment: "Experiment", content: bytes) -> Result:
    """Replay an upload of an earlier version, which also forgot the idempotency keys."""
    result = _use_model(experiment, models.parse_model(content))
    experiment.state.idempotency_keys = IdempotencyKeys()
    return result


def _use_model(experiment: "Experiment", bandit: Bandit) -> Result:
    state = experiment.state
    state.settings = models.settings_of(bandit, state.settings.holdout)
    state.creation = msgspec.structs.replace(state.creation, settings=state.settings)
    has_history, state.tally = state.tally.history is not UNSET, Tally()
    if has_history:
        state.tally.begin(experiment.now, state.settings.schema)
    state.extra_slots = UNSET if state.extra_slots is UNSET else 0
    state.presentations = UNSET
    experiment.attach(bandit, {})
    catalog = experiment.bandit.catalog  # exports need it
    return (NO_OUTCOME if catalog is None else encode({"arms": dict(catalog)})), NO_OUTCOME
