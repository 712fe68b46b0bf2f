"""Plans for encoding contexts with the same features as an earlier context.

Most contexts of an application have the same features, in the same order. A plan picks their values by
position, so that no feature has to be looked up. It changes nothing about the result.
"""

import math
from collections.abc import Callable, Mapping
from itertools import compress
from operator import getitem, itemgetter
from typing import Any, NamedTuple

from glcb.bandit.encoding.features import Feature
from glcb.bandit.encoding.values import MAX_NUMBER

_Pick = Callable[[tuple[Any, ...]], tuple[Any, ...]]

_are_numbers = frozenset((float, int)).issuperset
_are_booleans = frozenset((bool,)).issuperset


class EncodingPlan(NamedTuple):
    """How to encode contexts with the same features."""

    numbers: _Pick
    """Picks the numbers by column, and NaN for missing ones."""
    present: _Pick
    """Picks the numbers that it has."""
    categories: _Pick
    slots_of_values: tuple[Mapping[str, int], ...]
    """The slot of each value, for each category."""
    booleans: _Pick
    boolean_slots: tuple[int, ...]
    missing: tuple[Feature, ...]
    """The expected features that the context does not have."""

    def read(self, row: Mapping[Any, Any]) -> list[Any] | None:
        """Return the numbers by column, followed by the slots to set; None if a value is unusual."""
        values = (*row.values(), math.nan)
        numbers, booleans = self.numbers(values), self.booleans(values)
        if not (_are_numbers(map(type, numbers)) and _are_booleans(map(type, booleans))):
            return None
        try:
            if not -MAX_NUMBER < sum(self.present(values)) < MAX_NUMBER:  # a number is NaN or infinite
                return None
            slots = map(getitem, self.slots_of_values, self.categories(values))
            return [*numbers, *slots, *compress(self.boolean_slots, booleans)]
        except (KeyError, OverflowError, TypeError):  # a new value, a huge integer, or not a string
            return None


def make_plan(row: Mapping[Any, Any], features: Mapping[str, Feature], columns: int) -> EncodingPlan:
    """Return the plan for contexts with the features of `row`, all of which must be known."""
    positions = {name: position for position, name in enumerate(row)}
    present = [features[name] for name in row]
    number_at = {feature.column: positions[feature.name] for feature in present if feature.kind == "number"}
    categories = [feature for feature in present if feature.kind == "category"]
    booleans = [feature for feature in present if feature.kind == "boolean"]
    return EncodingPlan(
        # The value after the last one is NaN.
        _picker([number_at.get(column, len(row)) for column in range(columns)]),
        _picker(list(number_at.values())),
        _picker([positions[feature.name] for feature in categories]),
        tuple(feature.values for feature in categories),
        _picker([positions[feature.name] for feature in booleans]),
        tuple(feature.slot for feature in booleans),
        tuple(feature for feature in features.values() if feature.expected and feature.name not in row),
    )


def _picker(positions: list[int]) -> _Pick:
    """Return a function that picks the values at these positions.

    >>> _picker([2, 0])(("a", "b", "c")), _picker([1])(("a", "b", "c")), _picker([])(("a", "b", "c"))
    (('c', 'a'), ('b',), ())
    """
    if len(positions) > 1:
        return itemgetter(*positions)
    start = positions[0] if positions else 0
    return itemgetter(slice(start, start + len(positions)))  # a tuple, too
