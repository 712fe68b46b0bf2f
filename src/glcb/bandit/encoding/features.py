"""Features and the slots that belong to them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

from glcb._text import is_unicode
from glcb.bandit.encoding.schema import PROBLEMS, FeatureDeclaration, FeatureKind, FeatureReport, parse_schema

NO_SLOT = -1
"""The slot of a feature that has none, and the column of a feature that is not a number."""


@dataclass(slots=True, eq=False)
class Feature:
    """A feature of the context. A number or a boolean has one slot, a category has one per value."""

    name: str
    kind: FeatureKind | None
    expected: bool
    """Whether it was declared or in the first context. Only an expected feature can be missing."""
    declaration: FeatureDeclaration | None = None
    """The declaration by the user. An undeclared feature can change its kind."""
    slot: int = NO_SLOT
    column: int = NO_SLOT
    """The column of a number in the scales."""
    values: dict[str, int] = field(default_factory=dict)
    """The slot of each value of a category."""
    indicator: int = NO_SLOT
    """The slot that is 1 when there is no usable value. It is allocated when that first happens."""
    problems: Counter[str] = field(default_factory=Counter)
    votes: Counter[str] = field(default_factory=Counter)
    """Recent values of another kind, by that kind."""

    @property
    def value_slots(self) -> list[int]:
        """The slots of the values, without the indicator."""
        return [*self.values.values()] if self.slot == NO_SLOT else [self.slot]

    @property
    def slots(self) -> list[int]:
        """All slots of the feature."""
        return self.value_slots if self.indicator == NO_SLOT else [*self.value_slots, self.indicator]

    @property
    def declared_slots(self) -> list[int]:
        """The slots that were declared; nothing else may take them."""
        if self.declaration is None:
            return []
        return [slot for value, slot in self.values.items() if value in self.declaration.values] or (
            [] if self.slot == NO_SLOT else [self.slot]
        )

    @property
    def inferred_slots(self) -> list[int]:
        """The slots of the values of a category that were not declared."""
        declared = () if self.declaration is None else self.declaration.values
        return [slot for value, slot in self.values.items() if value not in declared]

    def drop(self, slot: int) -> None:
        """Give up a slot. A number or a boolean without its slot has no kind."""
        if slot == self.indicator:
            self.indicator = NO_SLOT
        elif slot == self.slot:
            self.kind, self.slot, self.column = None, NO_SLOT, NO_SLOT
        else:
            self.values = {value: own for value, own in self.values.items() if own != slot}

    def snapshot(self) -> dict[str, Any]:
        """Return the feature in a JSON-serializable form."""
        return {
            "name": self.name,
            "kind": self.kind,
            "expected": self.expected,
            "declaration": None if self.declaration is None else self.declaration.as_json(),
            "slot": self.slot,
            "column": self.column,
            "values": dict(self.values),
            "indicator": self.indicator,
            "problems": dict(self.problems),
            "votes": dict(self.votes),
        }

    @classmethod
    def from_snapshot(cls, saved: dict[str, Any], width: int) -> "Feature":
        """Restore a feature from a snapshot; raise ValueError, TypeError or KeyError if it is invalid."""
        name, declaration = saved["name"], saved["declaration"]
        feature = cls(
            **{
                **saved,
                "declaration": None if declaration is None else _plain_declaration(name, declaration),
                "values": dict(saved["values"]),
                "problems": Counter(saved["problems"]),
                "votes": Counter(saved["votes"]),
            }
        )
        if not feature._is_consistent(width):
            raise ValueError(f"feature {feature.name!r} is inconsistent")
        return feature

    def report(self, limits: tuple[float, float] | None) -> FeatureReport:
        """Return the feature for a schema, with the limits of its scale if it is a number."""
        return FeatureReport(self.kind, len(self.slots), limits, tuple(self.values), dict(self.problems))

    def _is_consistent(self, width: int) -> bool:
        numbers = [self.column, *self.slots, *self.problems.values(), *self.votes.values()]
        texts: list[Any] = [self.name, *self.values]
        kinds = get_args(FeatureKind)
        return (
            all(type(number) is int and number >= NO_SLOT for number in numbers)
            and all(slot < width for slot in self.slots)
            and self.kind in (None, *kinds)
            and (self.kind == "number") == (self.column != NO_SLOT)
            and (self.kind in ("number", "boolean")) == (self.slot != NO_SLOT)
            and (self.kind == "category" or not self.values)
            and self.problems.keys() <= PROBLEMS.keys()
            and self.votes.keys() <= set(kinds)
            and all(isinstance(text, str) and is_unicode(text) for text in texts)
        )


def _plain_declaration(name: str, saved: Any) -> FeatureDeclaration:
    declaration = parse_schema({name: saved})[name]
    if not isinstance(declaration, FeatureDeclaration):
        raise ValueError(f"feature {name!r} has a structure")  # only its parts are features
    return declaration


def owner_of(slot: int, features: dict[str, Feature]) -> Feature | None:
    """Return the feature that has a slot."""
    owners: Iterator[Feature] = (feature for feature in features.values() if slot in feature.slots)
    return next(owners, None)


def restore_features(saved: Iterable[Any], width: int) -> tuple[dict[str, Feature], list[int]]:
    """Restore the features of a snapshot and their slots; raise ValueError if two have the same slot."""
    features = [Feature.from_snapshot(each, width) for each in saved]
    owned = [slot for feature in features for slot in feature.slots]
    if len(set(owned)) != len(owned):
        raise ValueError("two features have the same slot")
    return {feature.name: feature for feature in features}, owned
