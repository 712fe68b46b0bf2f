"""Decision-service JSON lines, as Azure Personalizer and Vowpal Wabbit log them.

One JSON object per decision: ``c`` holds the shared features, with those of the actions in ``_multi``; ``a``
and ``p`` the actions in the order of the ranking and their probabilities; ``_label_cost`` and
``_label_probability`` the outcome of the first one. An arm is named by the id of its action, if it has one,
else by its number, starting at 1. The other fields of an action are its features.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from glcb._errors import LogError
from glcb._types import Arm
from glcb.bandit.logs.format import LogColumns
from glcb.bandit.logs.reader import open_log
from glcb.evaluate.rows import LoggedDecision, LogRow

_ID_FIELDS = ("id", "_id", "_tag")
_NAMELESS = ("FromUrl", "j")
"""Namespaces in which Personalizer logs all features of the context, and of an action."""


def matches(values: Mapping[str, object]) -> bool:
    """Return whether an object is a line of such a log.

    >>> matches({"_label_cost": -1.0, "_label_probability": 0.5, "c": {}}), matches({"arm": 1})
    (True, False)
    """
    return "_label_cost" in values or ("c" in values and "p" in values)


def read(path: Path, columns: LogColumns, default_reward: float | None) -> Iterator[LogRow]:
    """Yield the decisions of a file."""
    try:
        with open_log(path) as (file, position):
            for line in file:
                if not line.isspace():
                    yield _read_line(line, position())
    except (OSError, EOFError) as error:
        raise LogError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


def _read_line(line: bytes, share: float) -> LogRow:
    try:
        values = json.loads(line)
        return LogRow(_decision(values), share)
    except (ValueError, RecursionError) as error:
        return LogRow(None, share, "invalid row", str(error))
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        return LogRow(None, share, "invalid row", f"it is not a complete decision: {error!r}")


def _decision(values: Mapping[str, Any]) -> LoggedDecision:
    cost, propensity = float(values["_label_cost"]), float(values["_label_probability"])
    if not 0 < propensity <= 1:
        raise ValueError(f"a propensity must be in (0, 1], got {propensity}")
    shared = values["c"]
    listed = shared.get("_multi", ())
    actions = [_name(action, number) for number, action in enumerate(listed, 1)]
    if not actions:
        actions = list(range(1, len(values["a"]) + 1))
    ranked = values.get("a") or [values["_label_Action"]]
    chosen = values.get("_label_Action", ranked[0])
    context = flatten([shared])
    eligible = tuple(actions[number - 1] for number in sorted(ranked))
    if len(set(actions)) != len(actions):
        raise ValueError("two actions have the same id")
    features = {
        name: flatten([action], without=("i", *_ID_FIELDS))
        for name, action in zip(actions, listed, strict=False)
    }
    candidates = {name: features[name] for name in eligible} if any(features.values()) else None
    arm = actions[chosen - 1]
    return LoggedDecision(context or {"constant": 1.0}, arm, 0.0 - cost, propensity, eligible, candidates)


def _name(action: Mapping[str, Any], number: int) -> Arm:
    """Return the id of an action, which may be in its namespace ``i``, or its number."""
    places = (action, action.get("i"))
    for place in places:
        for field in _ID_FIELDS:
            if isinstance(place, Mapping) and isinstance(place.get(field), str | int):
                name: Arm = place[field]
                return name
    return number


def flatten(objects: Iterable[Mapping[str, Any]], without: Collection[str] = ()) -> dict[str, Any]:
    """Return the features of nested namespaces by name, joined by dots.

    The strings of a list are tags, and its numbers are components of a vector. If a name occurs twice, the
    last value counts.

    Parameters
    ----------
    objects
        Objects with features.
    without
        Namespaces to leave out. Those whose names begin with ``_`` are always left out.

    Returns
    -------
    dict
        Values by name.

    Examples
    --------
    >>> flatten([{"user": {"age": 31, "tags": ["a", "b"]}}, {"hour": 14, "_multi": []}])
    {'user.age': 31, 'user.tags.a': True, 'user.tags.b': True, 'hour': 14}
    >>> flatten([{"FromUrl": [{"weather": "sunny"}]}])
    {'weather': 'sunny'}
    """
    return {
        name: value
        for one in objects
        for namespace, own in one.items()
        if namespace not in without and not namespace.startswith("_")
        for name, value in _features("" if _is_nameless(namespace, own) else namespace, own)
    }


def _is_nameless(namespace: str, value: Any) -> bool:
    return namespace in _NAMELESS and isinstance(value, list) and all(isinstance(o, Mapping) for o in value)


def _features(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the features of a namespace."""
    if isinstance(value, Mapping):
        for name, own in value.items():
            if not name.startswith("_"):
                yield from _features(f"{prefix}.{name}" if prefix else name, own)
    elif isinstance(value, list):
        for position, own in enumerate(value):
            if isinstance(own, str):
                yield f"{prefix}.{own}", True
            else:
                name = prefix if isinstance(own, Mapping) else f"{prefix}.{position}"
                yield from _features(name, own)
    else:
        yield prefix, value
