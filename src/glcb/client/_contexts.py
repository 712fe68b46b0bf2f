"""Contexts and arms as JSON values. Everything that ``Bandit`` accepts can be sent."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from glcb._errors import InvalidContext, InvalidInput

_MAX_EXACT = 2**53
"""Integers up to this size are exact in floating point."""


def context_to_json(context: Any) -> dict[str, Any] | list[Any]:
    """Return a context as names or positions with plain values.

    Vectors, tags and dates become lists and objects, and nested dicts are flattened. Missing or infinite
    values become null, which the bandit treats equally.

    >>> context_to_json({"age": 31, "user": {"height": float("nan")}}), context_to_json((0.5, "FR"))
    ({'age': 31, 'user.height': None}, [0.5, 'FR'])
    """
    if type(context) is dict and all(type(name) is str for name in context):
        if all(map(_is_plain, context.values())):
            return context
    elif type(context) is list and all(map(_is_plain, context)):
        return context
    # Data-frame rows and unusual values need the encoder, which loads NumPy.
    from glcb.bandit.encoding.values import to_row

    row, length = to_row(context)
    if length is not None:
        return [value if _is_plain(value) else _scalar_to_json(name, value) for name, value in row.items()]
    return {str(name): _value_to_json(name, value) for name, value in row.items()}


def arms_to_json(arms: Any) -> dict[str, Any] | list[dict[str, Any]]:
    """Return the features of arms by name, or as a list if they are passed as pairs or objects.

    >>> arms_to_json({"m17": {"price": 3.0}, "m4": None})
    {'m17': {'price': 3.0}, 'm4': None}
    >>> arms_to_json([("m17", {"price": 3.0})])
    [{'arm': 'm17', 'features': {'price': 3.0}}]
    """
    if isinstance(arms, Mapping):
        return {_checked_name(name): _features_to_json(name, features) for name, features in arms.items()}
    if isinstance(arms, str | bytes) or not isinstance(arms, Iterable):
        raise InvalidInput(
            f"arms must be a dict of features by name, such as {{'m17': {{'price': 3.0}}}}, got {arms!r}"
        )
    listed = []
    for item in arms:
        if isinstance(item, Mapping) and "arm" in item and item.keys() <= {"arm", "features"}:
            name, features = item["arm"], item.get("features")
        elif isinstance(item, tuple) and len(item) == 2:
            name, features = item
        else:
            raise InvalidInput(
                'a candidate must be a pair of a name and its features, or {"arm": name, "features": {…}}, '
                f"got {item!r}"
            )
        listed.append({"arm": _checked_name(name), "features": _features_to_json(name, features)})
    return listed


def _checked_name(name: object) -> str:
    if not isinstance(name, str):
        raise InvalidInput(f"the name of an arm of the service must be a string, got {name!r}")
    return name


def _features_to_json(name: object, features: Any) -> Any:
    if features is not None and not isinstance(features, Mapping):
        raise InvalidInput(
            f"the features of the arm {name!r} must be a dict such as {{'price': 3.0}}, got {features!r}"
        )
    return None if features is None else context_to_json(features)


def iterate_contexts(contexts: Any) -> Iterator[Any]:
    """Yield the contexts of a list, an array with one row per context, or a pandas or Polars data frame.

    >>> list(iterate_contexts([{"age": 31}, {"age": 40}]))
    [{'age': 31}, {'age': 40}]
    """
    if hasattr(contexts, "iter_rows"):  # Polars
        yield from contexts.iter_rows(named=True)
    elif hasattr(contexts, "itertuples"):  # pandas
        names = list(contexts.columns)
        for values in contexts.itertuples(index=False, name=None):
            yield dict(zip(names, values, strict=True))
    elif isinstance(contexts, str | bytes | Mapping) or not isinstance(contexts, Iterable):
        raise InvalidContext(
            f"contexts must be a list of contexts or a data frame, got {type(contexts).__name__}; "
            "for a single context use decide"
        )
    else:
        yield from contexts


def _is_plain(value: Any) -> bool:
    kind = type(value)
    return (
        kind is str
        or kind is bool
        or value is None
        or (kind is float and math.isfinite(value))
        or (kind is int and -_MAX_EXACT <= value <= _MAX_EXACT)
    )


def _value_to_json(name: object, value: Any) -> Any:
    if _is_plain(value):
        return value
    from glcb.bandit.encoding.structured import structure, to_plain

    if structure(value) is not None:
        return to_plain(value)
    if isinstance(value, list | tuple):  # a schema can make tags of mixed values
        return [_scalar_to_json(name, item) for item in value]
    return _scalar_to_json(name, value)


def _scalar_to_json(name: object, value: Any) -> Any:
    from glcb.bandit.encoding.values import classify_value, unsupported

    kind, plain = classify_value(value)
    if kind == "unsupported":
        raise unsupported(name, value)
    return plain
