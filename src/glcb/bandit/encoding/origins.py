"""The feature that each slot of an encoded context belongs to, for explanations."""

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from glcb._arrays import Float32
from glcb.bandit.encoding.encoded import OTHER, EncodedContext
from glcb.bandit.encoding.features import NO_SLOT, Feature
from glcb.bandit.encoding.structured import component_index, feature_of, structure, to_plain
from glcb.bandit.encoding.values import classify_value, to_text


@dataclass(frozen=True, eq=False)
class Origins:
    """The feature of each slot, and the value of each feature."""

    owners: list[str | None]
    """The feature of each slot; None for free slots."""
    baseline: Float32
    """The context to compare with: ½ in every slot, which is neutral, but 0 in free slots, as in every
    context."""
    values: dict[str, str]
    """The value of each feature as text."""


def trace_origins(
    features: Mapping[str, Feature], width: int, encoded: EncodedContext, row: Mapping[str, Any]
) -> Origins:
    """Return the origins of an encoded `row`. A shared slot belongs to the feature that set it."""
    owners: list[str | None] = [None] * width
    number_slots = set()
    for feature in features.values():
        for slot in feature.slots:
            owners[slot] = feature.name
        if feature.column != NO_SLOT and not math.isnan(encoded.inputs[feature.column]):
            number_slots.add(feature.slot)
    for claim in encoded.claims:
        owners[claim.slot] = claim.feature.name
    for slot, name in () if encoded.changes is None else encoded.changes.set_by.items():
        # Numbers are written last and overwrite any other value in their slot.
        if slot not in number_slots:
            owners[slot] = name
    baseline = np.array([0.0 if owner is None else 0.5 for owner in owners], np.float32)
    names = [*features, *(owner for owner in owners if owner is not None and owner != OTHER)]
    values = {name: _describe(row[name]) if name in row else "missing" for name in dict.fromkeys(names)}
    if OTHER in owners:
        values.setdefault(OTHER, "several features that share a slot")
    return Origins(owners, baseline, values)


def merge_parts(origins: Origins, row: Mapping[str, Any], declared: Container[str]) -> Origins:
    """Return origins in which the parts of a vector, of tags or of a date belong to one feature."""
    whole = {
        name: feature_of(name)
        for name in origins.values
        if name not in row
        and (feature_of(name) in declared or structure(row.get(feature_of(name))) is not None)
    }
    whole |= {
        name: feature_of(name)
        for name in origins.values
        if component_index(name) is not None or ("=" in name and name not in row)
    }
    if not whole:
        return origins
    values = {whole.get(name, name): text for name, text in origins.values.items()}
    values |= {name: _describe_structure(row[name]) for name in whole.values() if name in row}
    owners = [None if owner is None else whole.get(owner, owner) for owner in origins.owners]
    return Origins(owners, origins.baseline, values)


def _describe_structure(value: Any) -> str:
    form = structure(value)
    if form == "vector":
        return f"a vector of length {len(value)}"
    if form == "tags":
        return ", ".join(to_plain(value)) or "none"
    if form == "date":
        return str(next(iter(to_plain(value).values())))
    return _describe(value)


def _describe(value: Any) -> str:
    kind, plain = classify_value(value)
    if kind == "number":
        return f"{plain:.6g}"
    return to_text(kind, plain) if kind in ("text", "boolean") else kind
