"""What a single value of a context is, whatever type it has."""

import hashlib
import math
import numbers
from decimal import Decimal
from typing import Any, Literal

LARGEST = 1e300
"""Numbers beyond this are taken for infinite: differences of two that are not must be finite too."""

Nature = Literal["number", "text", "boolean", "missing", "infinite", "unreadable"]

_MISSING = ("NAType", "NaTType")
"""What pandas calls its missing values, which are neither None nor NaN."""
_LONGEST = 100


def nature(value: Any) -> tuple[Nature, Any]:
    """Tell what ``value`` is, and return it as a float, a str or a bool.

    >>> nature(3), nature("FR"), nature(True)
    (('number', 3.0), ('text', 'FR'), ('boolean', True))
    >>> nature(float("nan")), nature(10**400), nature({"nested": 1})
    (('missing', None), ('infinite', None), ('unreadable', None))
    """
    if value is None or type(value).__name__ in _MISSING:
        return "missing", None
    if isinstance(value, str):
        return "text", str.__str__(value)
    if hasattr(value, "dtype") and hasattr(value, "item"):  # a scalar of NumPy
        return nature(value.item()) if not getattr(value, "shape", ()) else ("unreadable", None)
    if isinstance(value, bool):
        return "boolean", value
    if isinstance(value, numbers.Real | Decimal):
        return _number(value)
    return "unreadable", None


def _number(value: Any) -> tuple[Nature, Any]:
    try:
        number = float(value)
    except (OverflowError, ValueError):  # ValueError: a signalling NaN of decimal
        number = math.inf
    if math.isnan(number):
        return "missing", None
    return ("number", number) if abs(number) < LARGEST else ("infinite", None)


def as_text(kind: Nature, value: float | str | bool) -> str:
    """Return a number, a text or a boolean as the name of a category; whole numbers have no point.

    >>> as_text("number", 3.0), as_text("number", 0.5), as_text("boolean", True)
    ('3', '0.5', 'true')
    """
    if kind == "boolean":
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return shortened(str(value))


def shortened(text: str) -> str:
    """Return ``text``, or its beginning and a digest if it is too long to be kept.

    What is no proper Unicode is written out, for nobody could be told of it otherwise.

    >>> shortened("Straße"), shortened("Stra\\udcdfe")
    ('Straße', 'Stra\\\\udcdfe')
    """
    coded = text.encode("utf-8", "backslashreplace")
    text = coded.decode()
    if len(text) <= _LONGEST:
        return text
    return f"{text[:60]}…{hashlib.blake2b(coded, digest_size=8).hexdigest()}"
