"""Schemas: what a user declares about the features, and what an encoder reports about them."""

import datetime
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

from glcb._errors import InvalidSettings
from glcb._types import MAX_FEATURES
from glcb.bandit.encoding.structured import Structure, component, to_seconds
from glcb.bandit.encoding.values import classify_value, parse_date, shorten, to_text

FeatureKind = Literal["number", "category", "boolean"]

PROBLEMS = {
    "missing": "no value, None or NaN",
    "infinite": "infinite, or larger than 1e300",
    "type_changed": "of a different type than the feature",
    "unsupported": "a list or a date where a plain value is expected, or a vector of another length",
    "out_of_range": "a number far outside the range",
    "hashed": "a new value without a free slot: it shares one by hash",
}
"""The problems that a value can have, with their meaning."""
MAX_WITHOUT_SLOT = 0.8
"""A category counts as an identifier if more than this share of its values has no slot."""
_MIN_CONTEXTS = 100


@dataclass(frozen=True)
class FeatureDeclaration:
    """One feature as declared by the user."""

    kind: FeatureKind
    limits: tuple[float, float] | None = None
    """The lowest and highest value of a number."""
    values: tuple[str, ...] = ()
    """The values of a category."""
    expected: bool = True
    """Whether it is missing in a context that does not have it. An absent tag is not."""

    def as_json(self) -> dict[str, Any]:
        """Return the declaration in its JSON form."""
        if self.limits is not None:
            return {"kind": self.kind, "range": list(self.limits)}
        return {"kind": self.kind, **({"values": list(self.values)} if self.values else {})}


@dataclass(frozen=True)
class StructureDeclaration:
    """A vector, a list of tags or a date as declared by the user."""

    kind: Structure
    length: int = 0
    """The length of a vector."""
    limits: tuple[float, float] | None = None
    """The lowest and highest number of a vector, or the first and last second of a date."""
    values: tuple[str, ...] = ()
    """The tags that get a slot in advance."""

    def as_json(self) -> dict[str, Any]:
        """Return the declaration in its JSON form."""
        form: dict[str, Any] = {"kind": self.kind}
        if self.kind == "vector":
            form["length"] = self.length
        if self.limits is not None:
            is_date = self.kind == "date"
            form["range"] = [_iso_time(end) for end in self.limits] if is_date else list(self.limits)
        return {**form, **({"values": list(self.values)} if self.values else {})}

    def parts(self, name: str) -> dict[str, FeatureDeclaration]:
        """Return the plain features that the feature called `name` becomes."""
        number = FeatureDeclaration("number", limits=self.limits)
        if self.kind == "vector":
            return {component(name, index): number for index in range(self.length)}
        if self.kind == "tags":
            tag = FeatureDeclaration("boolean", expected=False)
            return {shorten(f"{name}={value}"): tag for value in self.values}
        hour = FeatureDeclaration("number", limits=(0.0, 24.0), expected=False)
        weekday = replace(number, limits=(0.0, 6.0))
        return {name: number, f"{name}.weekday": weekday, f"{name}.hour": hour}


Declaration = FeatureDeclaration | StructureDeclaration


def plain_declarations(declarations: Mapping[str, Declaration]) -> dict[str, FeatureDeclaration]:
    """Return the declarations of plain features, including the parts of structured features.

    Raises
    ------
    InvalidSettings
        If a feature is declared twice: alone, and as a part of another one.
    """
    plain: dict[str, FeatureDeclaration] = {}
    for name, declaration in declarations.items():
        parts = (
            {name: declaration} if isinstance(declaration, FeatureDeclaration) else declaration.parts(name)
        )
        for part, own in parts.items():
            if part in plain:
                raise InvalidSettings(
                    f"feature {part!r} is declared twice: a vector, a list of tags or a date declares its "
                    "parts as well; remove one of the declarations"
                )
            plain[part] = own
    return plain


def structures_of(declarations: Mapping[str, Declaration]) -> dict[str, Structure]:
    """Return the declared structure of each feature that has one."""
    return {name: each.kind for name, each in declarations.items() if isinstance(each, StructureDeclaration)}


def restore_structures(saved: Mapping[str, Structure]) -> dict[str, Structure]:
    """Return the structures of a snapshot; raise ValueError if they are invalid."""
    if not set(saved.values()) <= set(get_args(Structure)):
        raise ValueError(f"{saved!r} are not structures")
    return dict(saved)


def parse_schema(schema: object) -> dict[str, Declaration]:
    """Return the declaration of each feature in a schema.

    Parameters
    ----------
    schema : dict, optional
        Declarations by feature name. A declaration is a kind (``"number"``, ``"category"``, ``"boolean"``,
        ``"tags"`` or ``"date"``), a range such as ``(0, 100)``, a list of categories, or one of these in JSON
        form. A vector has only a JSON form, with its length.

    Raises
    ------
    InvalidSettings
        If `schema` is not a dict, or a declaration is none of these.

    Examples
    --------
    >>> schema = {"age": "number", "hour": (0, 23), "member": "boolean", "country": ["FR", "DE"]}
    >>> parse_schema(schema)["hour"]
    FeatureDeclaration(kind='number', limits=(0.0, 23.0), values=(), expected=True)
    >>> parse_schema(schema)["country"]
    FeatureDeclaration(kind='category', limits=None, values=('FR', 'DE'), expected=True)

    The JSON form:

    >>> parse_schema({"hour": {"kind": "number", "range": [0, 23]}}) == parse_schema({"hour": (0, 23)})
    True
    >>> parse_schema({"country": {"kind": "category", "values": ["FR"]}}) == parse_schema({"country": ["FR"]})
    True

    Values with a structure:

    >>> schema = {"topic": {"kind": "vector", "length": 8}, "tags": "tags", "published": "date"}
    >>> parse_schema(schema)["topic"]
    StructureDeclaration(kind='vector', length=8, limits=None, values=())
    """
    if schema is None:
        return {}
    if not isinstance(schema, Mapping):
        raise InvalidSettings(f"schema must be a dict of features, got {type(schema).__name__}")
    features = {}
    for name, declaration in schema.items():
        if not isinstance(name, str) or name != shorten(name):
            raise InvalidSettings(
                f"the name of a feature must be a Unicode string of at most 100 characters, got {name!r}"
            )
        features[name] = _parse_declaration(name, declaration)
    plain_declarations(features)
    return features


def _parse_declaration(name: str, declaration: Any) -> Declaration:
    form = declaration if isinstance(declaration, Mapping) else {"kind": declaration}
    kind, more = form.get("kind"), form.keys() - {"kind"}
    if not isinstance(kind, str):  # comparing an array with a string would give an array
        kind = None
    if kind in get_args(FeatureKind) and not more:
        return FeatureDeclaration(cast(FeatureKind, kind))
    if isinstance(declaration, tuple):
        return FeatureDeclaration("number", limits=_parse_limits(name, declaration))
    if isinstance(declaration, list | set | frozenset):
        return FeatureDeclaration("category", values=_parse_values(name, declaration))
    if kind == "number" and more == {"range"}:
        return FeatureDeclaration("number", limits=_parse_limits(name, declaration["range"]))
    if kind == "category" and more == {"values"}:
        return FeatureDeclaration("category", values=_parse_values(name, declaration["values"]))
    if kind in get_args(Structure):
        return _parse_structure(name, cast(Structure, kind), {key: form[key] for key in more})
    raise InvalidSettings(
        f'feature {name!r} must be declared as "number", "category", "boolean", "tags", "date", '
        'a vector such as {"kind": "vector", "length": 8}, a range such as (0, 100) or a list of values, '
        f"got {reprlib.repr(declaration)}"
    )


_STRUCTURE_KEYS: Mapping[Structure, set[str]] = {
    "vector": {"length", "range"},
    "tags": {"values"},
    "date": {"range"},
}


def _parse_structure(name: str, kind: Structure, more: Mapping[str, Any]) -> StructureDeclaration:
    unknown = sorted(map(str, more.keys() - _STRUCTURE_KEYS[kind]))
    if unknown:
        allowed = " and ".join(sorted(_STRUCTURE_KEYS[kind]))
        raise InvalidSettings(f"the {kind} {name!r} can be declared with {allowed}, got {', '.join(unknown)}")
    length = more.get("length", 0)
    if kind == "vector" and (type(length) is not int or not 1 <= length <= MAX_FEATURES):
        raise InvalidSettings(
            f"the vector {name!r} must be declared with its length, from 1 to {MAX_FEATURES:,}, such as "
            f'{{"kind": "vector", "length": 8}}, got {reprlib.repr(more.get("length", "no length"))}'
        )
    limits = None
    if "range" in more:
        limits = (_parse_dates if kind == "date" else _parse_limits)(name, more["range"])
    values = _parse_values(name, more["values"]) if "values" in more else ()
    return StructureDeclaration(kind, length, limits, values)


def _parse_dates(name: str, limits: Any) -> tuple[float, float]:
    ends = [parse_date(end) for end in limits] if isinstance(limits, list | tuple) else []
    seconds = [to_seconds(end) for end in ends if end is not None]
    if len(ends) != 2 or len(seconds) != 2 or not seconds[0] < seconds[1]:
        raise InvalidSettings(
            f'the range of {name!r} must be two dates, such as ["2026-01-01", "2026-12-31"], the earlier one '
            f"first, got {reprlib.repr(limits)}"
        )
    return seconds[0], seconds[1]


def _iso_time(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat()


def _parse_limits(name: str, limits: Any) -> tuple[float, float]:
    ends = [classify_value(end) for end in limits] if isinstance(limits, list | tuple) else []
    if len(ends) != 2 or any(kind != "number" for kind, _ in ends) or not ends[0][1] < ends[1][1]:
        raise InvalidSettings(
            f"the range of {name!r} must be (low, high) with low < high, got {reprlib.repr(limits)}"
        )
    return ends[0][1], ends[1][1]


def _parse_values(name: str, values: Any) -> tuple[str, ...]:
    is_list = isinstance(values, list | tuple | set | frozenset)
    classified = [classify_value(value) for value in values] if is_list else []
    if not is_list or any(kind not in ("number", "text", "boolean") for kind, _ in classified):
        raise InvalidSettings(
            f"the values of {name!r} must be a list of strings, numbers or booleans, "
            f"got {reprlib.repr(values)}"
        )
    texts = [to_text(kind, value) for kind, value in classified]
    # A set has another order in every process.
    return tuple(dict.fromkeys(sorted(texts) if isinstance(values, set | frozenset) else texts))


@dataclass(frozen=True)
class FeatureReport:
    """One feature as the encoder handles it.

    Attributes
    ----------
    kind : str or None
        ``"number"``, ``"category"`` or ``"boolean"``; None until the feature has had a value.
    slots : int
        Number of entries of the encoded context that belong to the feature.
    limits : tuple of float or None
        For a number, the declared range, or the lowest and highest number in its sample.
    values : tuple of str
        For a category, the values with their own slot.
    problems : mapping
        Number of values with each problem. The keys are the keys of ``PROBLEMS``.
    """

    kind: FeatureKind | None
    slots: int
    limits: tuple[float, float] | None
    values: tuple[str, ...]
    problems: Mapping[str, int]


@dataclass(frozen=True, repr=False)
class Schema:
    """The features of a bandit, declared and inferred, and the problems with their values.

    Attributes
    ----------
    features : mapping
        A :class:`FeatureReport` for each feature, by name.
    width : int
        Length of an encoded context. The first decision fixes it.
    free : int
        Slots that are free for new values and new features.
    unmapped : int
        Number of values of features that appeared when no slot was free. They share slots by hash.
    without_slot : mapping
        For features with values that have no slot of their own, the share of the recent contexts that have
        such a value. Rare values are not counted.
    arms : Schema or None
        The features of arms, if they have any.
    """

    features: Mapping[str, FeatureReport]
    width: int
    free: int
    unmapped: int
    without_slot: Mapping[str, float]
    arms: "Schema | None" = None

    @property
    def problems(self) -> dict[str, int]:
        """Number of values with each problem, over all features."""
        return {
            problem: sum(feature.problems.get(problem, 0) for feature in self.features.values())
            for problem in PROBLEMS
        }

    def __repr__(self) -> str:
        width = max((len(name) for name in self.features), default=0)
        lines = [f"{name:<{width}}  {describe(feature)}" for name, feature in self.features.items()]
        slots = f"{self.width} slots, {self.free} free"
        if self.unmapped:
            slots += f"; {self.unmapped:,} values of features without a slot"
        return "\n".join([*lines, slots])


def identifiers(schema: Schema, contexts: int) -> dict[str, float]:
    """Return the categories with another value in almost every context, such as ids and times.

    Nothing can be learned from them, and they take slots from other features.

    Parameters
    ----------
    schema : Schema
        The features of a bandit.
    Number of contexts that the bandit has decided on.
        Number of contexts that the bandit has decided for.

    Returns
    -------
    dict
        The share of values without a slot, by feature name.
    """
    if contexts < _MIN_CONTEXTS:
        return {}
    shares = {
        name: feature.problems.get("hashed", 0) / max(contexts - feature.problems.get("missing", 0), 1)
        for name, feature in schema.features.items()
        if feature.kind == "category"
    }
    return {name: min(share, 1.0) for name, share in shares.items() if share > MAX_WITHOUT_SLOT}


def describe(feature: FeatureReport) -> str:
    """Return a one-line description of a feature."""
    parts: list[str] = [feature.kind or "no value yet"]
    if feature.limits is not None:
        low, high = feature.limits
        parts.append(f"from {low:g} to {high:g}")
    if feature.kind == "category":
        listed = ", ".join(feature.values[:6]) + (", …" if len(feature.values) > 6 else "")
        count = f"{len(feature.values)} value{'s' if len(feature.values) > 1 else ''}"
        parts.append(f"{count}: {listed}" if feature.values else "no value yet")
    parts += [
        f"{count:,} {problem.replace('_', ' ')}" for problem, count in feature.problems.items() if count
    ]
    return ", ".join(parts)
