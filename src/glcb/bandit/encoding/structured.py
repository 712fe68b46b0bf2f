"""Values with a structure: vectors, lists of tags, and dates become several plain values.

A vector ``{"topic": [0.2, 0.7]}`` becomes the numbers ``topic[0]`` and ``topic[1]``. A list of tags
``{"tags": ["new", "sale"]}`` becomes a boolean for each tag, ``tags=new`` and ``tags=sale``. A date
``{"published": datetime(…)}`` becomes the numbers ``published``, in seconds, ``published.weekday`` and, if it
has a time, ``published.hour``. In JSON, a date is ``{"date": "2026-11-17T09:30:00"}``.

The length of a vector is declared, or fixed by its first value. A vector of another length counts as one
unsupported value; a single component that cannot be used, such as NaN, counts as missing.

If a schema declares the structure of a feature, plain values are converted to it: a text is a date, and a
single value is a list of one tag.
"""

import datetime
import math
import re
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from glcb._errors import InvalidContext
from glcb.bandit.encoding.values import (
    DATE_KEY,
    ValueKind,
    classify_value,
    is_date,
    parse_date,
    to_text,
    unsupported,
)

MAX_TAGS = 100
"""Further tags of one value are ignored."""

Structure = Literal["vector", "tags", "date"]

_COMPONENT = re.compile(r"^(.*)\[(\d+)\]$", re.DOTALL)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SEQUENCES = (list, tuple, set, frozenset, np.ndarray)


class Unusable:
    """Stands for a vector of another length, or for a value of another kind than the declared structure."""

    def __repr__(self) -> str:
        return "a value of another length or structure"


def structure(value: Any) -> Structure | None:
    """Return the structure of a value, or None if it is plain or unsupported.

    Examples
    --------
    >>> structure([0.5, 1]), structure(["new"]), structure(datetime.date(2026, 11, 17))
    ('vector', 'tags', 'date')
    >>> structure(0.5), structure([]), structure([1, "a"]), structure({"nested": 1})
    (None, 'tags', None, None)
    """
    if isinstance(value, datetime.date):
        return "date" if value == value else None  # NaT of pandas is a date that is not equal to itself
    if isinstance(value, _SEQUENCES):
        if isinstance(value, np.ndarray):
            return "vector" if value.ndim == 1 and value.size and value.dtype.kind in "fiub" else None
        if all(isinstance(item, str) for item in value):
            return "tags"
        is_vector = isinstance(value, list | tuple) and all(_is_number(item) for item in value)
        return "vector" if is_vector else None
    return "date" if isinstance(value, Mapping) and is_date(value) else None


def classify_supported(name: str, value: Any) -> tuple[ValueKind, Any]:
    """Return the kind of a value, and the value as a float, a str or a bool.

    Raises
    ------
    InvalidContext
        If the value can be no feature, regardless of the feature's other values.
    """
    kind, plain = classify_value(value)
    if kind == "unsupported" and not isinstance(value, Unusable) and structure(value) is None:
        raise unsupported(name, value)
    return kind, plain


def to_declared(value: Any, declared: Structure | None) -> Any:
    """Return a value with the structure that is declared for its feature, or an `Unusable`.

    A value that already has it, and one that is missing, is returned unchanged. So is a text that is not a
    date: it is a plain value of another kind.

    Examples
    --------
    >>> to_declared("2026-11-17", "date"), to_declared("new", "tags"), to_declared((7, "sale"), "tags")
    ({'date': '2026-11-17'}, ['new'], ['7', 'sale'])
    >>> to_declared(0.5, "vector"), to_declared([0.5], "vector"), to_declared(None, "vector")
    (a value of another length or structure, [0.5], None)
    """
    if declared is None:
        return value
    form = structure(value)
    if form == declared or (form is None and classify_value(value)[0] == "missing"):
        return value
    if declared == "date":
        return {DATE_KEY: value} if isinstance(value, str) and parse_date(value) is not None else value
    if declared == "vector":
        return Unusable()
    items = [classify_value(item) for item in (value if isinstance(value, _SEQUENCES) else [value])]
    if any(kind not in ("number", "text", "boolean") for kind, _ in items):
        return Unusable()
    tags = [to_text(kind, item) for kind, item in items]
    return sorted(tags) if isinstance(value, set | frozenset) else tags  # sets have no order


def expand(name: str, value: Any, is_known: Callable[[str], bool]) -> dict[str, Any]:
    """Return the plain values of a structured value, by name; {} if it has none.

    Parameters
    ----------
    name
        The name of the feature.
    value
        A value with a structure.
    is_known
        Returns whether a feature with this name exists, which reveals the length of earlier vectors.
    """
    if isinstance(value, Unusable):
        return {component(name, 0): value}
    kind = structure(value)
    if kind == "vector":
        components = value.tolist() if isinstance(value, np.ndarray) else value
        count = len(components)
        has_other_length = not is_known(component(name, count - 1)) or is_known(component(name, count))
        if is_known(component(name, 0)) and has_other_length:
            return {component(name, 0): Unusable()}
        return {component(name, i): number for i, number in enumerate(components)}
    if kind == "tags":
        return {f"{name}={tag}": True for tag in _sorted_tags(value)}
    moment = parse_date(value[DATE_KEY] if isinstance(value, Mapping) else value)
    assert moment is not None  # the value has a structure
    parts = {name: to_seconds(moment), f"{name}.weekday": moment.weekday()}
    if isinstance(moment, datetime.datetime):
        parts[f"{name}.hour"] = moment.hour + moment.minute / 60
    return parts


def expand_first(
    row: Mapping[Any, Any], declared: Mapping[str, Structure], known: Container[str]
) -> tuple[Mapping[Any, Any], set[str]]:
    """Return the first context with plain values only, and the names that stand for tags."""
    plain: dict[Any, Any] = {}
    tags: set[str] = set()
    for key, original in row.items():
        value = to_declared(original, declared.get(str(key)))
        form = structure(value)
        if form is None and value is original:
            plain[key] = value
            continue
        parts = expand(str(key), value, known.__contains__)
        plain.update(parts)
        if form == "tags":
            tags.update(parts)
    return plain, tags


def expand_row(
    row: Mapping[Any, Any],
    unusual: Sequence[Any],
    declared: Mapping[str, Structure],
    known: Container[str],
    free: int,
) -> tuple[Mapping[Any, Any], int] | None:
    """Return a context with plain values only, or None if it has no others.

    The second part of the result is the number of values that are left out: new vectors for which fewer than
    `free` slots are free, and values that are not tags where tags are declared.
    """
    structured = {}
    for key in unusual:
        value = to_declared(row[key], declared.get(str(key)))
        if value is not row[key] or _is_structured(str(key), value, known):
            structured[key] = value
    if not structured:
        return None
    plain = {key: value for key, value in row.items() if key not in structured}
    dropped = 0
    for key, value in structured.items():
        parts = expand(str(key), value, known.__contains__)
        is_vector = isinstance(value, Unusable) or structure(value) == "vector"
        has_room = not isinstance(value, Unusable) and len(parts) <= free
        if is_vector and component(str(key), 0) not in known and not has_room:
            dropped += 1
        else:
            add_parts(plain, parts)
    return plain, dropped


def add_parts(plain: dict[Any, Any], parts: Mapping[Any, Any]) -> None:
    """Add the parts of a value to a context; raise InvalidContext if it has a feature of the same name."""
    for name in parts:
        if name in plain:
            raise InvalidContext(f"the context has two features named {name!r}: rename one of them")
    plain.update(parts)


def _is_structured(name: str, value: Any, known: Container[str]) -> bool:
    """Return whether a value is expanded: a plain feature does not become a structured one."""
    kind = structure(value)
    return kind is not None and (name not in known or (kind == "date" and f"{name}.weekday" in known))


def component(name: str, index: int) -> str:
    """Return the name of a component of a vector."""
    return f"{name}[{index}]"


def component_index(name: str) -> int | None:
    """Return the index of a component of a vector by its name, or None.

    >>> component_index("topic[3]"), component_index("topic")
    (3, None)
    """
    match = _COMPONENT.match(name)
    return None if match is None else int(match[2])


def feature_of(name: str) -> str:
    """Return the feature that a plain value came from.

    >>> feature_of("topic[3]"), feature_of("tags=new"), feature_of("published.hour"), feature_of("age")
    ('topic', 'tags', 'published', 'age')
    """
    match = _COMPONENT.match(name)
    if match is not None:
        return match[1]
    for ending in (".weekday", ".hour"):
        if name.endswith(ending):
            return name.removesuffix(ending)
    return name.partition("=")[0] or name


def to_plain(value: Any) -> Any:
    """Return a structured value in its JSON form.

    Examples
    --------
    >>> to_plain(np.array([0.5, np.nan])), to_plain(("new", "sale")), to_plain(datetime.date(2026, 11, 17))
    ([0.5, None], ['new', 'sale'], {'date': '2026-11-17'})
    """
    kind = structure(value)
    if kind == "vector":
        return [_storable(_plain_number(number)) for number in value]
    if kind == "tags":
        return _sorted_tags(value)
    moment = parse_date(value[DATE_KEY] if isinstance(value, Mapping) else value)
    assert moment is not None  # the value has a structure
    return {DATE_KEY: moment.isoformat()}


def fits_64_bits(value: int) -> bool:
    """Return whether every format can store an integer. Larger integers count as floats."""
    return -(2**63) <= value < 2**64


def _storable(number: Any) -> Any:
    """Return a number of a vector as every format can store it; None if it is too large."""
    if number is None or isinstance(number, bool):
        return number
    if isinstance(number, int) and not fits_64_bits(number):
        number = float(number) if abs(number) < 10**300 else math.inf
    return number if abs(number) < 1e300 else None


def _is_number(item: Any) -> bool:
    return item is None or isinstance(item, int | float | np.number | np.bool_)


def _plain_number(item: Any) -> Any:
    plain = item.item() if isinstance(item, np.generic) else item
    return float(plain) if isinstance(plain, np.floating) else plain  # a long double has no other type


def _sorted_tags(value: Sequence[str] | set[str] | frozenset[str]) -> list[str]:
    """Return the tags without duplicates; a set's tags in alphabetical order."""
    ordered = sorted(value) if isinstance(value, set | frozenset) else value
    return list(dict.fromkeys(ordered))[:MAX_TAGS]


def to_seconds(moment: datetime.date) -> float:
    """Return the seconds since 1970; a time without a zone counts as UTC."""
    if not isinstance(moment, datetime.datetime):
        moment = datetime.datetime(moment.year, moment.month, moment.day, tzinfo=datetime.UTC)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return (moment - _EPOCH).total_seconds()
