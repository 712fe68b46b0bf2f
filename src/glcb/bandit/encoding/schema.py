"""What a context is made of: what a user declares, and what an encoder tells about itself."""

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from glcb._errors import InvalidSettings
from glcb.bandit.encoding.values import as_text, nature, shortened

Kind = Literal["number", "category", "boolean"]

PROBLEMS = {
    "missing": "no value, None or NaN",
    "infinite": "infinite, or beyond 1e300",
    "changed": "of another type than before",
    "unreadable": "a list, a dict, a date or another object",
    "far": "a number far out of range",
    "shared": "new when no slot was left of its own",
}
"""What can be wrong with a value, in words."""


@dataclass(frozen=True)
class Declared:
    """What a user says about one feature."""

    kind: Kind
    limits: tuple[float, float] | None = None
    """Of a number: the range that it is known to keep within."""
    values: tuple[str, ...] = ()
    """Of a category: the values that it is known to have."""

    def as_json(self) -> dict[str, Any]:
        """Return it in the form that JSON can hold."""
        if self.limits is not None:
            return {"kind": self.kind, "range": list(self.limits)}
        return {"kind": self.kind, **({"values": list(self.values)} if self.values else {})}


def declared(schema: object) -> dict[str, Declared]:
    """Return what ``schema`` says about each feature; it may be written in several ways.

    >>> schema = {"age": "number", "hour": (0, 23), "member": "boolean", "country": ["FR", "DE"]}
    >>> declared(schema)["hour"]
    Declared(kind='number', limits=(0.0, 23.0), values=())
    >>> declared(schema)["country"]
    Declared(kind='category', limits=None, values=('FR', 'DE'))

    The same in a form that JSON can hold:

    >>> declared({"hour": {"kind": "number", "range": [0, 23]}}) == declared({"hour": (0, 23)})
    True
    >>> declared({"country": {"kind": "category", "values": ["FR"]}}) == declared({"country": ["FR"]})
    True
    """
    if schema is None:
        return {}
    if not isinstance(schema, Mapping):
        raise InvalidSettings(f"schema must be a dict of features, got a {type(schema).__name__}")
    features = {}
    for name, said in schema.items():
        if not isinstance(name, str) or name != shortened(name):
            raise InvalidSettings(
                f"a feature's name must be a text of up to 100 letters of Unicode, got {name!r}"
            )
        features[name] = _one(name, said)
    return features


def _one(name: str, said: Any) -> Declared:
    form = said if isinstance(said, Mapping) else {"kind": said}
    kind, more = form.get("kind"), form.keys() - {"kind"}
    if not isinstance(kind, str):  # an array too can be compared with a text
        kind = None
    if kind in get_args(Kind) and not more:
        return Declared(cast(Kind, kind))
    if isinstance(said, tuple):
        return Declared("number", limits=_limits(name, said))
    if isinstance(said, list | set | frozenset):
        return Declared("category", values=_values(name, said))
    if kind == "number" and more == {"range"}:
        return Declared("number", limits=_limits(name, said["range"]))
    if kind == "category" and more == {"values"}:
        return Declared("category", values=_values(name, said["values"]))
    raise InvalidSettings(
        f'{name!r} must be declared as "number", "category", "boolean", a range such as (0, 100) or a list '
        f"of values, got {reprlib.repr(said)}"
    )


def _limits(name: str, said: Any) -> tuple[float, float]:
    ends = [nature(end) for end in said] if isinstance(said, list | tuple) else []
    if len(ends) != 2 or any(kind != "number" for kind, _ in ends) or not ends[0][1] < ends[1][1]:
        raise InvalidSettings(
            f"the range of {name!r} must be (lowest, highest) with lowest < highest, got {reprlib.repr(said)}"
        )
    return ends[0][1], ends[1][1]


def _values(name: str, said: Any) -> tuple[str, ...]:
    listed = isinstance(said, list | tuple | set | frozenset)
    known = [nature(value) for value in said] if listed else []
    if not listed or any(kind not in ("number", "text", "boolean") for kind, _ in known):
        raise InvalidSettings(
            f"the values of {name!r} must be a list of texts, numbers or booleans, got {reprlib.repr(said)}"
        )
    return tuple(dict.fromkeys(as_text(kind, value) for kind, value in known))


@dataclass(frozen=True)
class FeatureReport:
    """What an encoder knows about one feature."""

    kind: Kind | None
    """None as long as it never had a value."""
    slots: int
    """Length of its part of the encoded context."""
    limits: tuple[float, float] | None
    """Of a number: the range that was declared, or the lowest and highest in the sample of what was seen."""
    values: tuple[str, ...]
    """Of a category: the values that have a slot of their own."""
    problems: Mapping[str, int]
    """How often its value was not what it should have been, by the names in ``PROBLEMS``."""


@dataclass(frozen=True, repr=False)
class Schema:
    """What was declared or inferred of the contexts, and what could not be used as it came."""

    features: Mapping[str, FeatureReport]
    width: int
    """Length of an encoded context: fixed at the first decision."""
    free: int
    """Slots that are still free, for values and features yet to come."""
    unmapped: int
    """Values of features that came when no slot was left; they share slots by their hash."""

    @property
    def problems(self) -> dict[str, int]:
        """How often each problem occurred, over all features."""
        return {
            problem: sum(feature.problems.get(problem, 0) for feature in self.features.values())
            for problem in PROBLEMS
        }

    def __repr__(self) -> str:
        width = max((len(name) for name in self.features), default=0)
        lines = [f"{name:<{width}}  {described(feature)}" for name, feature in self.features.items()]
        slots = f"{self.width} slots, {self.free} of them free"
        if self.unmapped:
            slots += f"; {self.unmapped:,} values of features without a slot"
        return "\n".join([*lines, slots])


def described(feature: FeatureReport) -> str:
    """Return a feature in a line."""
    parts: list[str] = [feature.kind or "no value so far"]
    if feature.limits is not None:
        low, high = feature.limits
        parts.append(f"from {low:g} to {high:g}")
    if feature.kind == "category":
        listed = ", ".join(feature.values[:6]) + (", …" if len(feature.values) > 6 else "")
        count = f"{len(feature.values)} value{'s' if len(feature.values) > 1 else ''}"
        parts.append(f"{count}: {listed}" if feature.values else "no value so far")
    parts += [f"{problem} {count:,} ×" for problem, count in feature.problems.items() if count]
    return ", ".join(parts)
