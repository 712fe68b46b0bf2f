"""One feature of a context: where it stands in the encoded context, and what went wrong with it."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, get_args

from glcb._text import is_unicode
from glcb.bandit.encoding.schema import PROBLEMS, Declared, Kind

NOWHERE = -1
"""The slot or column of what has none."""


@dataclass(slots=True, eq=False)
class Feature:
    """A number or a boolean stands in a slot of its own, a category has one for each of its values."""

    name: str
    kind: Kind | None
    expected: bool
    """Whether it was declared or in the first context: then it is missed when it is not there."""
    slot: int = NOWHERE
    column: int = NOWHERE
    """Of a number: its column in the scales."""
    values: dict[str, int] = field(default_factory=dict)
    """Of a category: the slot of each value."""
    indicator: int = NOWHERE
    """The slot that is 1 when there is no usable value; it has none before that happens."""
    problems: Counter[str] = field(default_factory=Counter)

    @property
    def slots(self) -> list[int]:
        """All its slots."""
        return [slot for slot in (self.slot, *self.values.values(), self.indicator) if slot != NOWHERE]

    def about(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {
            "name": self.name,
            "kind": self.kind,
            "expected": self.expected,
            "slot": self.slot,
            "column": self.column,
            "values": dict(self.values),
            "indicator": self.indicator,
            "problems": dict(self.problems),
        }

    @classmethod
    def restored(cls, about: dict[str, Any], width: int) -> "Feature":
        """Return what :meth:`about` told; raise ValueError, TypeError or KeyError if it cannot be ours."""
        feature = cls(**{**about, "values": dict(about["values"]), "problems": Counter(about["problems"])})
        numbers = [feature.column, *feature.slots, *feature.problems.values()]
        texts: list[Any] = [feature.name, *feature.values]
        consistent = (
            all(type(number) is int and number >= NOWHERE for number in numbers)
            and all(slot < width for slot in feature.slots)
            and feature.kind in (None, *get_args(Kind))
            and (feature.kind == "number") == (feature.column != NOWHERE)
            and (feature.kind in ("number", "boolean")) == (feature.slot != NOWHERE)
            and feature.problems.keys() <= PROBLEMS.keys()
            and all(isinstance(text, str) and is_unicode(text) for text in texts)
        )
        if not consistent:
            raise ValueError(f"the feature {feature.name!r} makes no sense")
        return feature


def expected_feature(name: str, declaration: Declared | None, slot: int, column: int) -> Feature:
    """Return a feature that is declared, or in the first context, with its slots from ``slot`` on."""
    if declaration is None:
        return Feature(name, None, expected=True)
    if declaration.kind == "category":
        values = {value: slot + place for place, value in enumerate(declaration.values)}
        return Feature(name, "category", expected=True, values=values)
    own_column = column if declaration.kind == "number" else NOWHERE
    return Feature(name, declaration.kind, expected=True, slot=slot, column=own_column)
