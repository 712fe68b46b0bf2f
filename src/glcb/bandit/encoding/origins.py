"""The way back from the slots of an encoded context to the features that it came with."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from glcb._types import Float32
from glcb.bandit.encoding.features import NOWHERE, Feature
from glcb.bandit.encoding.reading import OTHER, Reading
from glcb.bandit.encoding.slots import Slots
from glcb.bandit.encoding.values import as_text, nature


@dataclass(frozen=True, eq=False)
class Origins:
    """Which features the slots of one reading tell of."""

    owners: list[str | None]
    """The feature of each slot; none for slots that are still free."""
    baseline: Float32
    """What to compare with: ½ in every slot, which says nothing. A slot that is still free is 0 in every
    context, and no less constant than the bias: it stays 0."""
    given: dict[str, str]
    """What each feature was, in words."""


def origins(
    features: Mapping[str, Feature], slots: Slots, reading: Reading, row: Mapping[str, Any]
) -> Origins:
    """Return the origins of a reading of ``row``; what shares a slot is told of those that lit it now."""
    owners: list[str | None] = [None] * slots.width
    numbers = set()
    for feature in features.values():
        for slot in feature.slots:
            owners[slot] = feature.name
        if feature.column != NOWHERE and not math.isnan(reading.numbers[feature.column]):
            numbers.add(feature.slot)
    for place, (feature, _, _) in enumerate(reading.claims):
        owners[slots.used + place] = feature.name
    for slot, name in reading.lit_by.items():
        # A number is written last: where there is one, nothing else is to be seen.
        if slot not in numbers:
            owners[slot] = name
    baseline = np.array([0.0 if owner is None else 0.5 for owner in owners], np.float32)
    names = [*features, *(owner for owner in owners if owner is not None and owner != OTHER)]
    given = {name: _in_words(row[name]) if name in row else "missing" for name in dict.fromkeys(names)}
    if OTHER in owners:
        given.setdefault(OTHER, "several that share a slot")
    return Origins(owners, baseline, given)


def _in_words(value: Any) -> str:
    kind, plain = nature(value)
    if kind == "number":
        return f"{plain:.6g}"
    return as_text(kind, plain) if kind in ("text", "boolean") else kind
