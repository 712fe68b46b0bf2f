"""Size limits for new requests. Replay ignores them: limits may change, stored events must not."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from msgspec import UNSET

from glcb import _validation
from glcb._api.requests import ExperimentSettings, encode
from glcb.bandit.encoding.encoder import Encoder
from glcb.bandit.encoding.schema import parse_schema
from glcb.service.config import ServiceSettings
from glcb.service.core import models
from glcb.service.core.experiment import Experiment
from glcb.service.errors import ApiError


def check_settings(settings: ExperimentSettings, limits: ServiceSettings) -> None:
    """Reject an experiment that is too large for the service."""
    _at_most("arms", len(settings.arms), limits.max_arms)
    _check_schema(settings.schema, limits)
    _at_most("spare slots", settings.spare_slots or 0, limits.max_features)
    _at_most("pending decisions", settings.max_pending, limits.max_pending)


def _check_schema(schema: Mapping[str, Any] | None, limits: ServiceSettings) -> None:
    declared = sum(_declared_slots(feature) for feature in (schema or {}).values())
    _at_most("features and values in the schema", declared, limits.max_features)


def _declared_slots(feature: object) -> int:
    values = feature.get("values") or feature.get("length") if isinstance(feature, dict) else feature
    return max(len(values) if isinstance(values, list) else values if isinstance(values, int) else 1, 1)


def check(experiment: Experiment, kind: str, request: Any, payload: bytes, limits: ServiceSettings) -> None:
    """Reject a request that would make an experiment too large; ``payload`` is the encoded request."""
    if kind in ("decide", "explain"):
        _at_most("features", len(request.context), limits.max_features)
        if len(payload) > limits.max_context_bytes:
            _at_most("bytes in a context", len(encode(request.context)), limits.max_context_bytes)
        if not experiment.has_decisions:
            arms = len(experiment.bandit.arms)
            settings = experiment.state.settings
            encoder = Encoder(parse_schema(settings.schema), request.context, settings.spare_slots)
            _check_size(arms, encoder.width, limits)
    elif kind == "change" and request.schema is not UNSET:
        _check_schema(request.schema, limits)
    elif kind == "add_arm":
        arms = len(experiment.bandit.arms)
        _at_most("arms", arms + 1, limits.max_arms)
        schema = experiment.bandit.schema
        if schema is not None:
            _check_size(arms + 1, schema.width, limits)


def _check_size(arms: int, slots: int, limits: ServiceSettings) -> None:
    """Reject a model that is too large: many policies keep a slots × slots matrix for each arm."""
    if arms * slots**2 > limits.max_cells:
        raise ApiError(
            "too_many",
            f"arms × slots² can be at most {limits.max_cells:,}, got {arms:,} arms and {slots:,} slots: "
            "send fewer features in the first context, which fixes the number of slots, declare the values "
            "of categories in a schema, or set a smaller spare_slots",
        )


def memory(limits: ServiceSettings) -> AbstractContextManager[None]:
    """Return a context in which a policy that would grow too large cannot be created."""
    return _validation.memory_limit(limits.max_model_memory)


def check_batch(count: int, limits: ServiceSettings) -> None:
    """Reject too many decisions or rewards in one request."""
    _at_most("items in one request", count, limits.max_batch)


def check_model(content: bytes, limits: ServiceSettings) -> None:
    """Reject a model file that is unreadable or too large."""
    with memory(limits):
        settings = models.settings_of(models.parse_model(content), holdout=0.0)
    check_settings(settings, limits)


def _at_most(what: str, count: int, limit: int) -> None:
    if count > limit:
        raise ApiError("too_many", f"there can be at most {limit:,} {what}, got {count:,}")
