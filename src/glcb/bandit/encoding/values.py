"""Contexts and their values in plain types.

Data frames, rows and NumPy scalars are recognized by their methods, so no data frame library has to be
installed or imported.
"""

import datetime
import hashlib
import math
import numbers
import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

from glcb._errors import InvalidContext

MAX_NUMBER = 1e300
"""Larger numbers count as infinite, so that the difference of two numbers is always finite."""

MAX_LEVELS = 5
"""How deep the features of a context can be nested."""
DATE_KEY = "date"
"""The only key of a date in JSON."""

ValueKind = Literal["number", "text", "boolean", "missing", "infinite", "unsupported"]

Row = tuple[Mapping[Any, Any], int | None]
"""The values of a context by feature name, and their number if the features are named by position."""

_PANDAS_MISSING = ("NAType", "NaTType")
"""Types of the pandas markers for missing values, which are neither None nor NaN."""
_MAX_TEXT = 100
_NESTED = (list, tuple, dict, set)
_are_scalars = frozenset((str, int, float, bool, type(None))).issuperset
_NUMBER = re.compile(r"\s{0,9}[+-]?([0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})([eE][+-]?[0-9]{1,9})?\s{0,9}")
_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}


# ---- contexts ---------------------------------------------------------------------------------------


def to_row(context: Any) -> Row:
    """Return the values of one context by name; nested values by their path, as in ``user.country``.

    Parameters
    ----------
    context
        A mapping, a named tuple, a row of a data frame (or a frame of one row), a list or a 1-D array.

    Returns
    -------
    tuple
        The values by feature name, and the number of values if positions serve as names, else None.

    Raises
    ------
    InvalidContext
        If `context` has none of these forms, or its nested dicts cannot be flattened.

    Examples
    --------
    >>> to_row({"age": 31}), to_row([0.5, "FR"])
    (({'age': 31}, None), ({'0': 0.5, '1': 'FR'}, 2))
    """
    if type(context) is dict or isinstance(context, Mapping):
        return flatten(context), None
    if hasattr(context, "_asdict"):
        return flatten(context._asdict()), None
    if hasattr(context, "columns"):
        rows = _frame_rows(context)
        if len(rows) != 1:
            raise InvalidContext(f"a data frame used as a context must have one row, got {len(rows):,}")
        return flatten(rows[0]), None
    if hasattr(context, "to_dict"):
        return flatten(context.to_dict()), None
    listing = getattr(context, "tolist", None) or getattr(context, "to_list", None)
    values = context if listing is None else listing()
    if not isinstance(values, Sequence) or isinstance(values, str | bytes | bytearray):
        raise InvalidContext(
            "a context must be a dict, a row of a data frame or a list of values, got "
            f"{type(context).__name__}"
        )
    if any(isinstance(value, _NESTED) for value in values):
        raise InvalidContext("a context must be a flat list of values: pass one context at a time")
    return {str(position): value for position, value in enumerate(values)}, len(values)


def flatten(context: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return a context in which the values of nested dicts are named by their path.

    A context without nested dicts is returned as it is. A date in its JSON form is one value.

    Raises
    ------
    InvalidContext
        If two values have the same name, or dicts are nested too deeply.

    Examples
    --------
    >>> flatten({"age": 31, "user": {"country": "FR", "since": {"date": "2026-11-17"}}})
    {'age': 31, 'user.country': 'FR', 'user.since': {'date': '2026-11-17'}}
    """
    values = context.values()
    if _are_scalars(map(type, values)) or not any(map(_is_nested, values)):
        return context
    flat: dict[str, Any] = {}
    _add_features(flat, context, "", 1)
    return flat


def _add_features(flat: dict[str, Any], values: Mapping[Any, Any], prefix: str, level: int) -> None:
    for key, value in values.items():
        # Each level is shortened, so that a long name is not repeated for every feature inside it.
        name = feature_name(prefix + feature_name(key))
        if not _is_nested(value):
            if name in flat:
                raise InvalidContext(f"the context has two features named {name!r}: rename one of them")
            flat[name] = value
        elif level == MAX_LEVELS:
            raise InvalidContext(
                f"a context can have at most {MAX_LEVELS} levels, but {name!r} has another one: send fewer"
            )
        else:
            _add_features(flat, value, f"{name}.", level + 1)


def count_features(
    context: Mapping[Any, Any] | Sequence[Any], components: bool = False, level: int = 1
) -> int:
    """Return the number of features of a context, also if some are nested, without naming them.

    Parameters
    ----------
    context
        The context.
    components
        Whether each component of a list counts.
    level
        The current nesting level. A deeper value than allowed counts as one feature.
    """
    if not isinstance(context, Mapping):
        return len(context)
    values = context.values()
    if _are_scalars(map(type, values)):
        return len(context)
    count = 0
    for value in values:
        if level < MAX_LEVELS and _is_nested(value):
            count += count_features(value, components, level + 1)
        else:
            count += len(value) if components and isinstance(value, list) else 1
    return count


def _is_nested(value: Any) -> bool:
    return isinstance(value, Mapping) and not is_date(value)


def to_contexts(contexts: Any) -> list[Any]:
    """Return many contexts as a list with one context each.

    Parameters
    ----------
    contexts
        A pandas or Polars frame with one context per row, a 2-D array, or an iterable of contexts of any form
        that :func:`to_row` accepts.

    Raises
    ------
    InvalidContext
        If `contexts` is a single context or not iterable.

    Examples
    --------
    >>> to_contexts([{"age": 31}, {"age": 45}])
    [{'age': 31}, {'age': 45}]
    """
    if hasattr(contexts, "columns"):
        return list(_frame_rows(contexts))
    if isinstance(contexts, str | bytes | bytearray | Mapping) or not isinstance(contexts, Iterable):
        raise InvalidContext(
            "contexts must be a data frame, a 2-D array or a list of contexts, got "
            f"{type(contexts).__name__}: pass a single context to decide"
        )
    dimensions = getattr(contexts, "ndim", 2)
    if dimensions != 2:
        raise InvalidContext(f"an array of contexts must have 2 dimensions, got {dimensions}")
    return list(contexts)


def _frame_rows(frame: Any) -> Sequence[Mapping[Any, Any]]:
    rows: Sequence[Mapping[Any, Any]] = (
        frame.to_dicts() if hasattr(frame, "to_dicts") else frame.to_dict("records")
    )
    return rows


# ---- single values ----------------------------------------------------------------------------------


def classify_value(value: Any) -> tuple[ValueKind, Any]:
    """Return the kind of a value, and the value as a float, a str or a bool.

    Examples
    --------
    >>> classify_value(3), classify_value("FR"), classify_value(True)
    (('number', 3.0), ('text', 'FR'), ('boolean', True))
    >>> classify_value(float("nan")), classify_value(10**400), classify_value({"nested": 1})
    (('missing', None), ('infinite', None), ('unsupported', None))
    """
    if value is None or type(value).__name__ in _PANDAS_MISSING:
        return "missing", None
    if isinstance(value, str):
        return "text", str.__str__(value)
    if hasattr(value, "dtype") and hasattr(value, "item"):  # a NumPy scalar
        if getattr(value, "shape", ()):
            return "unsupported", None
        plain = value.item()
        if type(plain) is not type(value):  # a long double has no other type
            return classify_value(plain)
    if isinstance(value, bool):
        return "boolean", value
    if isinstance(value, numbers.Real | Decimal):
        return _classify_number(value)
    return "unsupported", None


def _classify_number(value: Any) -> tuple[ValueKind, Any]:
    try:
        number = float(value)
    except (OverflowError, ValueError):  # ValueError: a signaling NaN of decimal
        number = math.inf
    if math.isnan(number):
        return "missing", None
    return ("number", number) if abs(number) < MAX_NUMBER else ("infinite", None)


def unsupported(name: object, value: Any) -> InvalidContext:
    """Return the error for a value that can be no feature."""
    return InvalidContext(
        f"feature {name!r} must be a number, a text, a boolean, a date, a list of numbers or of texts, or "
        f"a dict of these, got {type(value).__name__} {reprlib.repr(value)}: convert it, or leave it out"
    )


def is_date(value: Mapping[Any, Any]) -> bool:
    """Return whether a dict is a date in its JSON form.

    >>> is_date({"date": "2026-11-17"}), is_date({"date": "soon"}), is_date({"day": "2026-11-17"})
    (True, False, False)
    """
    return value.keys() == {DATE_KEY} and parse_date(value[DATE_KEY]) is not None


def parse_date(value: Any) -> datetime.date | None:
    """Return a date, or a text in ISO format, as a date or a time; None if it is neither."""
    if isinstance(value, datetime.date):
        return value
    if not isinstance(value, str):
        return None
    try:
        return (
            datetime.datetime.fromisoformat(value) if len(value) > 10 else datetime.date.fromisoformat(value)
        )
    except ValueError:
        return None


def parse_number(text: str) -> tuple[ValueKind, Any]:
    """Return the kind and the value of a text that may be a number.

    Examples
    --------
    >>> parse_number("3.5"), parse_number(" -1e3 "), parse_number("three")
    (('number', 3.5), ('number', -1000.0), ('text', 'three'))
    """
    return _classify_number(text) if _NUMBER.fullmatch(text) else ("text", text)


def parse_boolean(text: str) -> tuple[ValueKind, Any]:
    """Return the kind and the value of a text that may be a boolean.

    Examples
    --------
    >>> parse_boolean("True"), parse_boolean("0"), parse_boolean("perhaps")
    (('boolean', True), ('boolean', False), ('text', 'perhaps'))
    """
    value = _BOOLEANS.get(text.lower())
    return ("text", text) if value is None else ("boolean", value)


def to_text(kind: ValueKind, value: float | str | bool) -> str:
    """Return a number, a string or a boolean as a category; whole numbers have no decimal point.

    Examples
    --------
    >>> to_text("number", 3.0), to_text("number", 0.5), to_text("boolean", True)
    ('3', '0.5', 'true')
    """
    if kind == "boolean":
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return shorten(str(value))


def shorten(text: str) -> str:
    """Return `text`, or its beginning and a digest if it is longer than 100 characters.

    Characters that UTF-8 cannot represent are escaped, so that every name can be stored and sent.

    Examples
    --------
    >>> shorten("Straße"), shorten("Stra\\udcdfe")
    ('Straße', 'Stra\\\\udcdfe')
    """
    encoded = text.encode("utf-8", "backslashreplace")
    text = encoded.decode()
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[:60]}…{hashlib.blake2b(encoded, digest_size=8).hexdigest()}"


def feature_name(key: Any) -> str:
    """Return the name of the feature that a context calls `key`."""
    if isinstance(key, str):
        return shorten(key)
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    raise InvalidContext(f"the name of a feature must be a string or an integer, got {key!r}")
