"""Contexts as JSON can hold them. Everything that ``Bandit`` takes can be sent."""

import math
from typing import Any

_EXACT = 2**53
"""Whole numbers up to this are the same as floating-point numbers."""

Sendable = dict[str, Any] | list[Any]


def sendable(context: Any) -> Sendable:
    """Return a context as names or positions with plain values.

    What is missing, infinite or no single value becomes null: the bandit treats them alike.

    >>> sendable({"age": 31, "height": float("nan")}), sendable((0.5, "FR"))
    ({'age': 31, 'height': None}, [0.5, 'FR'])
    """
    if type(context) is dict and all(type(name) is str for name in context):
        if all(map(_plain, context.values())):
            return context
    elif type(context) is list and all(map(_plain, context)):
        return context
    # Rows of data frames and odd values are the library's business, which is loaded for them alone.
    from glcb.bandit.encoding.rows import as_row

    row, length = as_row(context)
    if length is not None:
        return [_value(value) for value in row.values()]
    return {str(name): _value(value) for name, value in row.items()}


def _plain(value: Any) -> bool:
    kind = type(value)
    return (
        kind is str
        or kind is bool
        or value is None
        or (kind is float and math.isfinite(value))
        or (kind is int and -_EXACT <= value <= _EXACT)
    )


def _value(value: Any) -> Any:
    from glcb.bandit.encoding.values import nature

    return value if _plain(value) else nature(value)[1]
