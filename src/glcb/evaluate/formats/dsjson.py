"""Decision-service JSON lines, as logged by Azure Personalizer and Vowpal Wabbit.

Each JSON object is a decision: ``c`` holds the shared features, and the action features in ``_multi``; ``a``
and ``p`` the actions in ranking order and their probabilities; ``_label_cost`` and ``_label_probability`` the
outcome of the first action. An arm is named by the id of its action, if it has one, else by its number,
starting at 1. The other fields of an action are its features.

With several slots, ``_slots`` in ``c`` holds the slots, and ``_outcomes`` holds for each slot its
``_label_cost``, its actions in ``_a`` and their probabilities in ``_p``, the chosen one first. There, actions
count from 0.
The features of a slot are features of the context, as in requests of Personalizer: ``slot.ID.NAME``.
"""

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from glcb._errors import InvalidInput, LogError
from glcb._types import Arm
from glcb.bandit.encoding.values import to_row
from glcb.bandit.logs.format import LogColumns, plain_context
from glcb.bandit.logs.reader import open_log
from glcb.evaluate.rows import MIN_PROPENSITY, LoggedDecision, LogRow

_ID_FIELDS = ("id", "_id", "_tag")
_NAMELESS = ("FromUrl", "j")
"""Namespaces in which Personalizer logs all features of the context, and of an action."""


def matches(values: Mapping[str, object]) -> bool:
    """Return whether an object is a line of a decision-service log.

    >>> matches({"_label_cost": -1.0, "_label_probability": 0.5, "c": {}}), matches({"arm": 1})
    (True, False)
    """
    return "_label_cost" in values or ("c" in values and ("p" in values or "_outcomes" in values))


def read(path: Path, columns: LogColumns, default_reward: float | None) -> Iterator[LogRow]:
    """Yield the decisions of a file."""
    try:
        with open_log(path) as (file, position):
            for line in file:
                if not line.isspace():
                    yield from _read_line(line, position())
    except (OSError, EOFError) as error:
        raise LogError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


def _read_line(line: bytes, share: float) -> list[LogRow]:
    try:
        values = json.loads(line)
        decisions = _ranking(values) if "_outcomes" in values else [_decision(values)]
    except (ValueError, RecursionError) as error:
        return [LogRow(None, share, "invalid row", str(error))]
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        return [LogRow(None, share, "invalid row", f"it is not a complete decision: {error!r}")]
    return [LogRow(decision, share) for decision in decisions]


def _decision(values: Mapping[str, Any]) -> LoggedDecision:
    shared = values["c"]
    listed = shared.get("_multi", ())
    actions = _names(listed) or list(range(1, len(values["a"]) + 1))
    ranked = values.get("a") or [values["_label_Action"]]
    chosen = values.get("_label_Action", ranked[0])
    eligible = tuple(actions[number - 1] for number in sorted(ranked))
    return LoggedDecision(
        flatten([shared]) or {"constant": 1.0},
        actions[chosen - 1],
        0.0 - float(values["_label_cost"]),
        _probability(values["_label_probability"]),
        eligible,
        _candidates(actions, listed, eligible),
    )


def _ranking(values: Mapping[str, Any]) -> list[LoggedDecision]:
    """Return the decision of each slot."""
    shared, outcomes = values["c"], values["_outcomes"]
    listed, slots = shared["_multi"], shared["_slots"]
    if len(slots) != len(outcomes) or not slots:
        raise ValueError(
            f"every slot must have an outcome, got {len(slots)} slots and {len(outcomes)} outcomes"
        )
    actions = _names(listed)
    if any(slot.get("_inc", slots[0].get("_inc")) != slots[0].get("_inc") for slot in slots):
        raise ValueError("all slots must have the same actions in _inc: a ranking draws from one list")
    included = slots[0].get("_inc") or range(len(actions))
    eligible = tuple(actions[number] for number in sorted(included))
    context = flatten([shared])
    for position, slot in enumerate(slots):
        context |= flatten([{"slot": {str(slot.get("_id", position)): flatten([slot])}}])
    chosen = [actions[outcome["_a"][0]] for outcome in outcomes]
    if len(set(chosen)) != len(chosen) or not set(chosen) <= set(eligible):
        raise ValueError("every slot must have a different action that it may show")
    propensities = [_probability(outcome["_p"][0]) for outcome in outcomes]
    if math.prod(propensities) < MIN_PROPENSITY:
        raise ValueError(f"the probability of a ranking must be at least {MIN_PROPENSITY:g}")
    candidates = _candidates(actions, listed, eligible)
    return [
        LoggedDecision(
            context or {"constant": 1.0},
            arm,
            0.0 - float(outcome["_label_cost"]),
            propensities[position],
            eligible,
            candidates,
            tuple(chosen[:position]),
        )
        for position, (arm, outcome) in enumerate(zip(chosen, outcomes, strict=True))
    ]


def _probability(value: Any) -> float:
    propensity = float(value)
    if not 0 < propensity <= 1:
        raise ValueError(f"a propensity must be in (0, 1], got {propensity}")
    return propensity


def _names(actions: Sequence[Mapping[str, Any]]) -> list[Arm]:
    names = [_name(action, number) for number, action in enumerate(actions, 1)]
    if len(set(names)) != len(names):
        raise ValueError("two actions have the same id")
    return names


def _candidates(
    actions: Sequence[Arm], listed: Iterable[Mapping[str, Any]], eligible: Iterable[Arm]
) -> dict[Arm, dict[str, Any]] | None:
    """Return the features of the actions that could be chosen; None if no action has any."""
    features = {
        name: flatten([action], without=("i", *_ID_FIELDS))
        for name, action in zip(actions, listed, strict=False)
    }
    return {name: features[name] for name in eligible} if any(features.values()) else None


def _name(action: Mapping[str, Any], number: int) -> Arm:
    """Return the id of an action, which may be in its namespace ``i``, or its number."""
    places = (action, action.get("i"))
    for place in places:
        for field in _ID_FIELDS:
            if isinstance(place, Mapping) and isinstance(place.get(field), str | int):
                name: Arm = place[field]
                return name
    return number


def flatten(
    objects: Iterable[Mapping[str, Any]], without: Collection[str] = (), max_characters: float = math.inf
) -> dict[str, Any]:
    """Return the features of nested namespaces by name, joined by dots.

    The strings of a list are tags, and its numbers are components of a vector. If a name occurs twice, the
    last value counts.

    Parameters
    ----------
    objects
        Objects with features.
    without
        Namespaces to leave out. Those whose names begin with ``_`` are always left out.
    max_characters
        Maximum total length of names. A long namespace is repeated in the name of each of its features, so
        that names can need much more memory than the objects.

    Returns
    -------
    dict
        Values by name.

    Raises
    ------
    InvalidInput
        The names are too long, or nested too deeply.

    Examples
    --------
    >>> flatten([{"user": {"age": 31, "tags": ["a", "b"]}}, {"hour": 14, "_multi": []}])
    {'user.age': 31, 'user.tags.a': True, 'user.tags.b': True, 'hour': 14}
    >>> flatten([{"FromUrl": [{"weather": "sunny"}]}])
    {'weather': 'sunny'}
    """
    pairs = (
        pair
        for one in objects
        for namespace, own in one.items()
        if namespace not in without and not namespace.startswith("_")
        for pair in _features("" if _is_nameless(namespace, own) else namespace, own, max_characters)
    )
    features: dict[str, Any] = {}
    characters = 0
    try:
        for name, value in pairs:
            characters += len(name)
            _check_characters(characters, max_characters)
            features[name] = value
    except RecursionError:
        raise InvalidInput("features are nested too deeply: send fewer levels") from None
    return features


def _is_nameless(namespace: str, value: Any) -> bool:
    return namespace in _NAMELESS and isinstance(value, list) and all(isinstance(o, Mapping) for o in value)


def _features(prefix: str, value: Any, max_characters: float) -> Iterator[tuple[str, Any]]:
    """Yield the features of a namespace."""
    _check_characters(len(prefix), max_characters)  # each level of nesting keeps one
    if isinstance(value, Mapping):
        for name, own in value.items():
            if not name.startswith("_"):
                yield from _features(f"{prefix}.{name}" if prefix else name, own, max_characters)
    elif isinstance(value, list):
        for position, own in enumerate(value):
            if isinstance(own, str):
                yield f"{prefix}.{own}", True
            else:
                name = prefix if isinstance(own, Mapping) else f"{prefix}.{position}"
                yield from _features(name, own, max_characters)
    else:
        yield prefix, value


def _check_characters(characters: int, limit: float) -> None:
    if characters > limit:
        raise InvalidInput(
            f"the names of features, with the namespaces around them, can have at most {limit:,} characters "
            "together: send fewer or shorter ones"
        )


# ---- writing ----------------------------------------------------------------------------------------


def write(decisions: Iterable[LoggedDecision], arms: Mapping[Arm, int]) -> Iterator[str]:
    """Yield a line for each decision, or for each ranking. The slots of a ranking are consecutive decisions.

    A log has only the probability of the chosen arm, so ``p`` has one entry. A slot that was not examined
    has a cost of 0.

    >>> row = LoggedDecision({"user.age": 31, "hour": 9}, "news", 1.0, 0.5)
    >>> print(*write([row], {"sports": 0, "news": 1}))  # doctest: +NORMALIZE_WHITESPACE
    {"_label_cost": -1.0, "_label_probability": 0.5, "_label_Action": 2, "_labelIndex": 1, "Version": "1",
    "a": [2, 1], "c": {"user": {"age": 31}, "hour": 9, "_multi": [{"_tag": "sports", "i": {"constant": 1,
    "id": "sports"}}, {"_tag": "news", "i": {"constant": 1, "id": "news"}}]}, "p": [0.5],
    "VWState": {"m": "N/A"}}
    """
    ranking: list[LoggedDecision] = []
    for decision in decisions:
        if ranking and not decision.above:
            yield _line(ranking, arms)
            ranking = []
        ranking.append(decision)
    if ranking:
        yield _line(ranking, arms)


def _line(ranking: Sequence[LoggedDecision], arms: Mapping[Arm, int]) -> str:
    first = ranking[0]
    names = list(
        map(str, first.features or first.eligible or sorted(set(map(str, arms)), key=arms.__getitem__))
    )
    features = {str(arm): own for arm, own in (first.features or {}).items()}
    actions = [
        # The id is a feature as well, to distinguish actions without other features.
        {"_tag": name, "i": {"constant": 1, "id": name}, **_namespaces(features.get(name, {}))}
        for name in names
    ]
    shared: dict[str, Any] = {**_namespaces(first.context), "_multi": actions}
    costs = [0.0 - decision.reward for decision in ranking]
    chosen = [names.index(str(decision.arm)) for decision in ranking]
    if len(ranking) == 1:
        others = (number for number in range(1, len(names) + 1) if number != chosen[0] + 1)
        values: dict[str, Any] = {  # Vowpal Wabbit needs the label before the actions
            "_label_cost": costs[0],
            "_label_probability": first.propensity,
            "_label_Action": chosen[0] + 1,
            "_labelIndex": chosen[0],
            "Version": "1",
            "a": [chosen[0] + 1, *others],
            "c": shared,
            "p": [first.propensity],
        }
    else:
        shared["_slots"] = [{"_id": str(position)} for position in range(len(ranking))]
        outcomes = [
            {"_label_cost": cost, "_id": str(position), "_a": [action], "_p": [decision.propensity]}
            for position, (cost, action, decision) in enumerate(zip(costs, chosen, ranking, strict=True))
        ]
        values = {"Version": "1", "c": shared, "_outcomes": outcomes}
    return json.dumps({**values, "VWState": {"m": "N/A"}}, ensure_ascii=False) + "\n"


def _namespaces(context: Any) -> dict[str, Any]:
    """Return features by namespace, the part of a name before its first dot.

    Fields whose names begin with ``_`` have a meaning in the format, so the prefix is removed from features.
    """
    row, _ = to_row(context)
    plain = {name.lstrip("_"): value for name, value in dict(plain_context(dict(row))).items()}
    nested: dict[str, Any] = {}
    for name, value in plain.items():
        space, dot, rest = name.partition(".")
        if value is None:
            continue
        if dot and space and rest and not rest.startswith("_") and space not in plain:
            nested.setdefault(space, {})[rest] = value
        else:
            nested[name] = value
    return nested
