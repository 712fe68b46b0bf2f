"""Contexts as JSON values. Every context that ``Bandit`` accepts can be sent."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from glcb._errors import InvalidContext

_MAX_EXACT = 2**53
"""Integers up to this size are exact in floating point."""


def context_to_json(context: Any) -> dict[str, Any] | list[Any]:
    """Return a context as names or positions with plain values.

    Values that are missing, infinite or not scalar become null; the bandit treats them in the same way.

    >>> context_to_json({"age": 31, "height": float("nan")}), context_to_json((0.5, "FR"))
    ({'age': 31, 'height': None}, [0.5, 'FR'])
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
        return [_value_to_json(value) for value in row.values()]
    return {str(name): _value_to_json(value) for name, value in row.items()}


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


def _value_to_json(value: Any) -> Any:
    from glcb.bandit.encoding.values import classify_value

    return value if _is_plain(value) else classify_value(value)[1]
