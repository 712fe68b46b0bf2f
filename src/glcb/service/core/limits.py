"""Size limits for new requests. Replay ignores them: limits may change, stored events must not."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from msgspec import UNSET

from glcb import _validation
from glcb._api import requests
from glcb._api.requests import Candidates, ExperimentSettings, NewArm, encode, named_features
from glcb.bandit import recorded
from glcb.bandit.catalog import EncodedCatalog
from glcb.bandit.encoding.encoder import Encoder
from glcb.bandit.encoding.schema import parse_schema
from glcb.bandit.encoding.values import count_features
from glcb.service.config import ServiceSettings
from glcb.service.core import models
from glcb.service.core.experiment import Experiment
from glcb.service.core.rankings import has_catalog
from glcb.service.errors import ApiError

MAX_EXPLAINED = 100
"""Arms with features that one explanation can list as eligible; each is explained."""


def check_settings(settings: ExperimentSettings, limits: ServiceSettings) -> None:
    """Reject an experiment that is too large for the service."""
    if isinstance(settings.arms, dict):
        _check_catalog(settings.arms, limits)
    else:
        _at_most("arms", len(settings.arms), limits.max_arms)
    _check_schema(settings.schema, limits)
    _check_schema(settings.arm_schema, limits)
    _at_most("slots", settings.slots, limits.max_slots)
    _at_most("spare slots", settings.spare_slots or 0, limits.max_features)
    _at_most("pending decisions", settings.max_pending, limits.max_pending)


def _check_schema(schema: Mapping[str, Any] | None, limits: ServiceSettings) -> None:
    declared = sum(_declared_slots(feature) for feature in (schema or {}).values())
    _at_most("features and values in the schema", declared, limits.max_features)


def _declared_slots(feature: object) -> int:
    values = feature.get("values") or feature.get("length") if isinstance(feature, dict) else feature
    return max(len(values) if isinstance(values, list) else values if isinstance(values, int) else 1, 1)


def _check_catalog(arms: Mapping[str, Any], limits: ServiceSettings) -> None:
    _at_most("arms", len(arms), limits.max_catalog)
    _check_features(arms.values(), limits)


def _check_features(arms: Iterable[Mapping[str, Any] | None], limits: ServiceSettings) -> None:
    for features in arms:
        if features:
            _at_most("bytes in the features of an arm", len(encode(features)), limits.max_context_bytes)
            _at_most("features of an arm", count_features(features, components=True), limits.max_features)


def _check_candidates(candidates: Candidates, limits: ServiceSettings) -> None:
    _at_most("candidates in one request", len(candidates), limits.max_candidates)
    if isinstance(candidates, list):
        _check_features((candidate.features for candidate in candidates), limits)
    else:
        _check_features(candidates.values(), limits)


def check(experiment: Experiment, kind: str, request: Any, payload: bytes, limits: ServiceSettings) -> None:
    """Reject a request that would make an experiment too large; ``payload`` is the encoded request."""
    if kind in ("decide", "rank", "explain"):
        if len(payload) > limits.max_context_bytes:
            _at_most("bytes in a context", len(encode(request.context)), limits.max_context_bytes)
        _at_most("features", count_features(request.context), limits.max_features)
        if request.arms is not None:
            _check_candidates(request.arms, limits)
        if kind == "rank":
            _at_most("slots", request.k, limits.max_slots)
        elif kind == "explain" and request.eligible is not None and has_catalog(experiment.state.settings):
            _at_most("arms to explain", len(request.eligible), MAX_EXPLAINED)
        if not experiment.has_decisions:
            _check_first(experiment, request, limits)
    elif kind == "change" and request.schema is not UNSET:
        _check_schema(request.schema, limits)
    elif kind in ("add_arm", "set_arms", "change_arms"):
        _check_arms(experiment, request, limits)


def _check_first(experiment: Experiment, request: Any, limits: ServiceSettings) -> None:
    """Reject a first decision that would create a model that is too large."""
    settings = experiment.state.settings
    slots = Encoder(parse_schema(settings.schema), request.context, settings.spare_slots).width
    slots += settings.slots if settings.slots > 1 else 0
    arms, catalog = len(experiment.bandit.arms), recorded.catalog(experiment.bandit)
    if catalog is not None:  # all arms share one model of context and arm
        arms = 1
        candidates = EncodedCatalog(catalog, settings.arm_schema).prepare(named_features(request.arms), None)
        slots += candidates.candidates.features.shape[1]
    _check_size(arms, slots, limits)


def _check_arms(experiment: Experiment, request: Any, limits: ServiceSettings) -> None:
    """Reject new arms that would make an experiment too large."""
    arms = experiment.bandit.arms
    if isinstance(request, NewArm) and not has_catalog(experiment.state.settings):
        _at_most("arms", len(arms) + 1, limits.max_arms)
        schema = experiment.bandit.schema
        if schema is not None:
            _check_size(len(arms) + 1, schema.width, limits)
        return
    new = {request.name: request.features} if isinstance(request, NewArm) else request.arms
    others = 0
    if not isinstance(request, requests.Catalog):  # which replaces all arms
        changed = {*new, *getattr(request, "remove", ())}
        others = sum(arm not in changed for arm in arms)
    _at_most("arms", others + len(new), limits.max_catalog)
    _check_features(new.values(), limits)


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
    """Reject too many decisions, rankings or rewards in one request."""
    _at_most("items in one request", count, limits.max_batch)


def check_model(content: bytes, limits: ServiceSettings) -> None:
    """Reject a model file that is unreadable or too large."""
    with memory(limits):
        settings = models.settings_of(models.parse_model(content), ExperimentSettings(arms=[]))
    check_settings(settings, limits)


def _at_most(what: str, count: int, limit: int) -> None:
    if count > limit:
        raise ApiError("too_many", f"there can be at most {limit:,} {what}, got {count:,}")
