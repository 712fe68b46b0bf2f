"""Contexts as they come: dicts, rows of data frames, named tuples, arrays and lists.

Rows are recognized by what they can do, so that no data frame library has to be installed, or loaded.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from glcb._errors import InvalidContext

NESTED = (list, tuple, dict, set)


def as_row(context: Any) -> tuple[Mapping[Any, Any], int | None]:
    """Return the values by their names, and how many there are if only their positions name them."""
    if isinstance(context, Mapping):
        return context, None
    if hasattr(context, "_asdict"):
        return context._asdict(), None
    if hasattr(context, "columns"):
        return _only_row(context), None
    if hasattr(context, "to_dict"):
        return context.to_dict(), None
    listing = getattr(context, "tolist", None) or getattr(context, "to_list", None)
    values = context if listing is None else listing()
    if not isinstance(values, Sequence) or isinstance(values, str | bytes | bytearray):
        raise InvalidContext(
            "a context must be a dict, a row of a data frame or a list of values, got a "
            f"{type(context).__name__}"
        )
    if any(isinstance(value, NESTED) for value in values):
        raise InvalidContext("a context must be a flat list of values: pass one context at a time")
    return {str(position): value for position, value in enumerate(values)}, len(values)


def _only_row(frame: Any) -> Mapping[Any, Any]:
    if len(frame) != 1:
        raise InvalidContext(f"a data frame must have one row to be a context, got {len(frame):,}")
    rows = frame.to_dicts() if hasattr(frame, "to_dicts") else frame.to_dict("records")
    row: Mapping[Any, Any] = rows[0]
    return row
