"""Arms with features as users pass them: to a new bandit, and as the candidates of one request."""

import math
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from glcb import _validation
from glcb._arrays import Float64
from glcb._errors import InvalidInput
from glcb._types import Arm

Features = dict[str, Any]
"""The features of an arm, by name."""

ARM_FIELD, FEATURES_FIELD = "arm", "features"
"""The fields of an arm in JSON, where only a string can be the name of a field."""


def parse_arms(arms: Any) -> dict[Arm, Mapping[Any, Any]]:
    """Return the features of each arm, by name.

    Parameters
    ----------
    arms
        A mapping from names to features, an iterable of pairs of a name and its features, or an iterable of
        objects ``{"arm": …, "features": …}``. Features are a mapping, or None for no features.

    Returns
    -------
    dict
        The features as they were passed.

    Raises
    ------
    InvalidInput
        If there is no arm, a name is invalid or occurs twice, or the features of an arm are not a mapping.

    Examples
    --------
    >>> parse_arms({"m17": {"genre": "noir"}}) == parse_arms([{"arm": "m17", "features": {"genre": "noir"}}])
    True
    """
    pairs = arms.items() if isinstance(arms, Mapping) else map(_parse_pair, _iterate(arms))
    parsed: dict[Arm, Mapping[Any, Any]] = {}
    for name, features in pairs:
        arm = _validation.new_arm(name, {})
        if arm in parsed:
            raise InvalidInput(f"the names of arms must be unique; {arm!r} occurs more than once")
        if features is None:
            features = {}
        if not isinstance(features, Mapping):
            raise InvalidInput(
                f"the features of the arm {arm!r} must be a dict such as {{'price': 3.0}}, got "
                f"{reprlib.repr(features)}"
            )
        parsed[arm] = features
    if not parsed:
        raise InvalidInput("there are no candidates: pass at least one arm, such as {'m17': {'price': 3.0}}")
    if len(parsed) > _validation.MAX_ARMS:
        raise InvalidInput(f"at most {_validation.MAX_ARMS:,} arms are possible, got {len(parsed):,}")
    return parsed


def _iterate(arms: Any) -> Iterable[Any]:
    if isinstance(arms, str | bytes) or not isinstance(arms, Iterable):
        raise InvalidInput(
            f"arms must be a dict of features by name, such as {{'m17': {{'price': 3.0}}}}, got "
            f"{reprlib.repr(arms)}"
        )
    return arms


def to_offsets(offsets: Any, arms: Sequence[Arm]) -> Float64:
    """Return the offset of each arm, in the order of `arms`; the default is 0.

    Raises
    ------
    InvalidInput
        If `offsets` is not a mapping to finite numbers.
    UnknownArm
        If it names another arm.

    Examples
    --------
    >>> to_offsets({"b": -0.5}, ("a", "b"))
    array([ 0. , -0.5])
    """
    if not isinstance(offsets, Mapping):
        raise InvalidInput(f"offsets must be a dict such as {{'a': -0.5}}, got {reprlib.repr(offsets)}")
    positions = {arm: position for position, arm in enumerate(arms)}
    result: Float64 = np.zeros(len(arms))
    for arm, offset in offsets.items():
        try:
            number = float(offset)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise InvalidInput(f"the offset of the arm {arm!r} must be a finite number, got {offset!r}")
        result[_validation.arm(arm, positions)] = number
    return result


def _parse_pair(item: Any) -> tuple[Any, Any]:
    if isinstance(item, Mapping) and ARM_FIELD in item and item.keys() <= {ARM_FIELD, FEATURES_FIELD}:
        return item[ARM_FIELD], item.get(FEATURES_FIELD)
    if isinstance(item, tuple) and len(item) == 2:
        return item
    raise InvalidInput(
        'a candidate must be a pair of a name and its features, or {"arm": name, "features": {…}}, got '
        f"{reprlib.repr(item)}"
    )


def has_features(arms: Any) -> bool:
    """Return whether arms are passed with features, not as names.

    >>> has_features({"m17": {}}), has_features([{"arm": "m17"}]), has_features(["m17"]), has_features(3)
    (True, True, False, False)
    """
    if isinstance(arms, Mapping):
        return True
    if not isinstance(arms, list | tuple) or not arms:
        return False
    return isinstance(arms[0], Mapping | tuple) and not isinstance(arms[0], np.generic)


def arms_as_json(arms: Mapping[Arm, Features]) -> list[dict[str, Any]]:
    """Return arms with features in a form that JSON can represent."""
    return [{ARM_FIELD: name, FEATURES_FIELD: features} for name, features in arms.items()]


def catalog_as_json(arms: Mapping[Arm, Features]) -> list[dict[str, Any]] | dict[str, Any]:
    """Return the arms of a catalog in the same form; {} if it is empty, to tell it from a list of names."""
    return arms_as_json(arms) or {}
