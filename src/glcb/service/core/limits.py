"""How large things may be. What is on record is never measured by these: limits may change, events do not."""

from typing import Any

from glcb._api.requests import Settings
from glcb.bandit.encoding.encoder import Encoder
from glcb.bandit.encoding.schema import declared
from glcb.service.config import ServiceSettings
from glcb.service.core import models
from glcb.service.core.experiment import Experiment
from glcb.service.errors import Problem


def check_settings(settings: Settings, limits: ServiceSettings) -> None:
    """Refuse an experiment that is too large for the service."""
    _at_most("arms", len(settings.arms), limits.max_arms)
    declared = sum(len(_values(said)) or 1 for said in (settings.schema or {}).values())
    _at_most("features and values in the schema", declared, limits.max_features)
    _at_most("slots in the reserve", settings.spare_slots or 0, limits.max_features)
    _at_most("decisions that wait", settings.max_pending, limits.max_pending)


def _values(said: object) -> list[object]:
    values = said.get("values") if isinstance(said, dict) else said
    return values if isinstance(values, list) else []


def check(experiment: Experiment, kind: str, request: Any, limits: ServiceSettings) -> None:
    """Refuse an event that would make an experiment too large."""
    arms = len(experiment.bandit.arms)
    if kind in ("decide", "explain"):
        _at_most("features", len(request.context), limits.max_features)
        if not experiment.begun:
            settings = experiment.around.settings
            encoder = Encoder(declared(settings.schema), request.context, settings.spare_slots)
            _check_size(arms, encoder.width, limits)
    elif kind == "add_arm":
        _at_most("arms", arms + 1, limits.max_arms)
        schema = experiment.bandit.schema
        if schema is not None:
            _check_size(arms + 1, schema.width, limits)


def _check_size(arms: int, slots: int, limits: ServiceSettings) -> None:
    """Refuse a model that would be too large: many policies keep a matrix over all slots for each arm."""
    if arms * slots**2 > limits.max_cells:
        raise Problem(
            "too_many",
            f"arms × slots² can be at most {limits.max_cells:,}, got {arms:,} arms and {slots:,} slots: "
            "send fewer features in the first context, which decides on the slots, declare the values of "
            "categories in a schema, or set a smaller spare_slots",
        )


def check_items(count: int, limits: ServiceSettings) -> None:
    """Refuse too many decisions or rewards in one request."""
    _at_most("items in one request", count, limits.max_items)


def check_model(content: bytes, limits: ServiceSettings) -> None:
    """Refuse a model that cannot be read, or is too large."""
    settings = models.settings_of(models.parsed(content), holdout=0.0)
    check_settings(settings, limits)


def _at_most(what: str, count: int, most: int) -> None:
    if count > most:
        raise Problem("too_many", f"there can be at most {most:,} {what}, got {count:,}")
