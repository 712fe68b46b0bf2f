"""The policies of an evaluation: what a request names, as settings of an experiment."""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET

from glcb._api.requests import EvaluationRequest, ExperimentSettings, PolicyChanges
from glcb._errors import InvalidSettings, NotSupported, UnknownArm
from glcb.bandit import Bandit
from glcb.evaluate.api import check_arguments
from glcb.policies import registry
from glcb.service.config import ServiceSettings
from glcb.service.core import limits, models
from glcb.service.core.rankings import has_catalog
from glcb.service.errors import ApiError

Planned = str | ExperimentSettings
"""A policy that the library knows by name, or the settings of a bandit."""

MAX_POLICIES = 20
_FIXED = ("uniform", "best-fixed-arm")
_ARM_PREFIX = "arm="


def plan(
    request: EvaluationRequest, settings: ExperimentSettings, service: ServiceSettings
) -> dict[str, Planned]:
    """Return the policies of a request, by name.

    Parameters
    ----------
    request
        What to evaluate.
    settings
        The settings of the experiment.
    service
        The limits of the service.

    Raises
    ------
    GlcbError
        The request names an unknown policy or arm, or has invalid settings.
    """
    if settings.slots != 1 or has_catalog(settings):
        raise NotSupported(
            "experiments with rankings or with features of arms cannot be evaluated by the service: export "
            "the log and use glcb evaluate"
        )
    named = request.policies
    described: Mapping[str, str | PolicyChanges] = (
        named if isinstance(named, dict) else {name: name for name in named}
    )
    if len(described) > MAX_POLICIES:
        raise ApiError("too_many", f"there can be at most {MAX_POLICIES} policies, got {len(described)}")
    check_arguments(described, request.reference, None, request.max_ratio)
    planned = {name: _plan(policy, request, settings) for name, policy in described.items()}
    for policy in planned.values():
        if isinstance(policy, ExperimentSettings):
            limits.check_settings(policy, service)
            make_bandit(policy, list(policy.arms))
    return planned


def _plan(policy: str | PolicyChanges, request: EvaluationRequest, settings: ExperimentSettings) -> Planned:
    if isinstance(policy, PolicyChanges):
        return _changed(policy, request, settings)
    if policy in _FIXED:
        return policy
    if policy.startswith(_ARM_PREFIX):
        _check_arm(policy.removeprefix(_ARM_PREFIX), settings)
        return policy
    if policy not in registry.names():
        raise InvalidSettings(
            f"there is no policy {policy!r}: use uniform, best-fixed-arm, arm=NAME, a name that "
            '`glcb policies` lists, or an object with settings such as {"exploration": 0.02}'
        )
    return _changed(PolicyChanges(policy=policy), request, settings)


def _changed(
    changes: PolicyChanges, request: EvaluationRequest, settings: ExperimentSettings
) -> ExperimentSettings:
    """Return the settings of the experiment with changes."""
    values = {
        name: value
        for name, value in msgspec.structs.asdict(changes).items()
        if name != "without" and value is not UNSET
    }
    values.setdefault("seed", request.seed)
    if values.get("policy", settings.policy) != settings.policy:
        values.setdefault("policy_settings", None)
    for arm in changes.without:
        _check_arm(arm, settings)
    arms = [arm for arm in settings.arms if arm not in changes.without]
    if not arms:
        raise InvalidSettings("a policy needs at least one arm, but all are left out")
    return msgspec.structs.replace(settings, arms=arms, **values)


def _check_arm(arm: str, settings: ExperimentSettings) -> None:
    if arm not in settings.arms:
        known = ", ".join(map(repr, list(settings.arms)[:8]))
        raise UnknownArm(f"there is no arm {arm!r}; the arms are {known}")


def make_bandit(settings: ExperimentSettings, arms: list[str] | list[int | str]) -> Bandit:
    """Return an untrained bandit for logged data with these arms."""
    arguments = models.arguments_of(settings)
    for name in ("reward_timeout", "default_reward", "reward_aggregation"):  # applied to the log already
        del arguments[name]
    shares = {arm: share for arm, share in arguments.pop("shares", {}).items() if arm in arms}
    return Bandit(**{**arguments, "arms": arms, "shares": shares})
