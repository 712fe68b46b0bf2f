"""The online encoder: from a context to numbers in [0, 1].

The first context fixes the width: one slot for every number and boolean, one for every declared value of a
category, and a number of spare slots. Everything that appears later takes a spare slot: a value of a
category, a feature, the indicator of a missing value. When none is free, slots are shared by hash.

A slot without content is 0. A free slot is 0 too, so allocating it changes no earlier context. A present
category, a true boolean and an indicator are 1; a number is its position on its scale. A missing number or
boolean that was expected is replaced by ½.

:meth:`Encoder.encode` changes nothing. :meth:`Encoder.commit` does, once the decision takes effect.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from glcb._arrays import Arrays, Float32, Float64
from glcb._errors import InvalidContext
from glcb._types import MAX_FEATURES
from glcb.bandit.encoding.features import (
    NO_SLOT,
    SPARE_SLOTS,
    SPARE_SLOTS_PER_CATEGORY,
    Feature,
    Slots,
)
from glcb.bandit.encoding.origins import OTHER, Origins, trace_origins
from glcb.bandit.encoding.scaling import Scales
from glcb.bandit.encoding.schema import FeatureDeclaration, FeatureKind, FeatureReport, Schema
from glcb.bandit.encoding.values import (
    MAX_NUMBER,
    ValueKind,
    classify_value,
    feature_name,
    to_row,
    to_text,
)

IMPUTED = 0.5
"""Replaces a missing number or boolean."""

_KINDS: dict[ValueKind, FeatureKind] = {"number": "number", "text": "category", "boolean": "boolean"}


class Claim(NamedTuple):
    """A feature that takes the next spare slot."""

    feature: Feature
    purpose: Literal["value", "number", "boolean", "indicator"]
    value: str
    """The category, if the slot is for one."""


@dataclass(slots=True, eq=False)
class EncodedContext:
    """An encoded context, and the changes that committing it makes to the encoder."""

    x: Float32
    """The encoded context."""
    numbers: Float64
    """The numbers of the context by column, NaN where there is none."""
    claims: list[Claim] = field(default_factory=list)
    """The features that take the next spare slots, in order."""
    first_numbers: list[float] = field(default_factory=list)
    """The first numbers of features that become numbers with this context."""
    problems: list[tuple[Feature, str]] = field(default_factory=list)
    unmapped: int = 0
    """Number of values of features without a slot."""
    set_by: dict[int, str] = field(default_factory=dict)
    """The feature that set each slot that several features can share."""

    def set(self, slot: int, name: str) -> None:
        """Set a slot to 1 on behalf of the feature called `name`."""
        if slot != NO_SLOT:
            self.set_by[slot] = OTHER if self.x[slot] else name
            self.x[slot] = 1


class Encoder:
    """Encodes contexts as `width` numbers in [0, 1].

    Parameters
    ----------
    declarations
        The declared features, by name.
    first
        The first context. Its features are expected in all others.
    spare_slots
        Number of slots for values and features that appear later; None derives it from the number
        of categories.
    """

    def __init__(
        self, declarations: Mapping[str, FeatureDeclaration], first: Any, spare_slots: int | None
    ) -> None:
        row, self._length = to_row(first)
        if len(row) > MAX_FEATURES:
            raise InvalidContext(f"a context can have at most {MAX_FEATURES:,} features, got {len(row):,}")
        expected: dict[str, FeatureDeclaration | None] = dict(declarations)
        for key, value in row.items():
            kind = _KINDS.get(classify_value(value)[0])
            expected.setdefault(feature_name(key), FeatureDeclaration(kind) if kind else None)
        self._features: dict[str, Feature] = {}
        used, self._scales = 0, Scales()
        for name, declaration in expected.items():
            feature = Feature.from_declaration(name, declaration, used, len(self._scales))
            self._features[name] = feature
            used += len(feature.slots)
            if declaration is not None and feature.column != NO_SLOT:
                self._scales.add(feature.slot, declaration.limits)
        if spare_slots is None:
            open_ended = [f for f in self._features.values() if f.kind == "category" and not f.values]
            spare_slots = SPARE_SLOTS + SPARE_SLOTS_PER_CATEGORY * len(open_ended)
        self._slots = Slots(used, max(1, used + spare_slots), used)
        self._unmapped = 0

    @property
    def width(self) -> int:
        """Length of an encoded context."""
        return self._slots.width

    # ---- encoding -------------------------------------------------------------------------------

    def encode(self, context: Any) -> EncodedContext:
        """Encode a context. Changes nothing."""
        row, length = to_row(context)
        if length != self._length:
            before, now = ("named values" if n is None else f"{n} values" for n in (self._length, length))
            raise InvalidContext(f"earlier contexts had {before}, but this one has {now}")
        features = self._features
        numbers, lit, unusual = [math.nan] * len(self._scales), [], []
        # The fast path for values of the usual type; the rest is handled by _encode_unusual.
        for key, value in row.items():
            feature = features.get(key)
            if feature is not None:
                value_type = type(value)
                if feature.column >= 0:
                    if (value_type is float or value_type is int) and -MAX_NUMBER < value < MAX_NUMBER:
                        numbers[feature.column] = value
                        continue
                elif value_type is str:
                    slot = feature.values.get(value)
                    if slot is not None:
                        lit.append(slot)
                        continue
                elif value_type is bool and feature.kind == "boolean":
                    if value:
                        lit.append(feature.slot)
                    continue
            unusual.append((key, value))
        encoded = EncodedContext(np.zeros(self.width, np.float32), np.array(numbers, np.float64))
        if lit:
            encoded.x[lit] = 1
        new_names = self._encode_unusual(encoded, row, unusual) if unusual else set()
        if len(row) - len(new_names) < len(features):
            for feature in features.values():
                if feature.expected and feature.name not in row and feature.name not in new_names:
                    self._encode_missing(encoded, feature, "missing")
        if numbers:
            for column in self._scales.place(encoded.numbers, encoded.x):
                outlier = next(feature for feature in features.values() if feature.column == column)
                encoded.problems.append((outlier, "out_of_range"))
        return encoded

    def _encode_unusual(
        self, encoded: EncodedContext, row: Mapping[Any, Any], unusual: list[tuple[Any, Any]]
    ) -> set[str]:
        """Encode the values off the fast path; return the names that are new or spelled differently."""
        new_names: set[str] = set()
        for key, value in unusual:
            name = feature_name(key)
            feature = self._features.get(name)
            if feature is None or name != key:
                if name in new_names or (name != key and name in row):
                    raise InvalidContext(f"the context has two features named {name!r}")
                new_names.add(name)
            kind, plain = classify_value(value)
            if feature is None:
                self._encode_new_feature(encoded, name, kind, plain)
            elif kind not in _KINDS:
                self._encode_missing(encoded, feature, kind)
            elif feature.kind is None:
                self._encode_first_value(encoded, feature, kind, plain)
            else:
                self._encode_converted(encoded, feature, kind, plain)
        return new_names

    def _encode_converted(
        self, encoded: EncodedContext, feature: Feature, kind: ValueKind, value: Any
    ) -> None:
        """Encode a value that may have to be converted to the type of the feature."""
        if feature.kind == "category":
            self._encode_category(encoded, feature, to_text(kind, value))
        elif feature.kind == "number" and kind != "text":
            encoded.numbers[feature.column] = value
        elif feature.kind == "boolean" and kind != "text" and value in (0, 1):
            encoded.x[feature.slot] = value
        else:
            self._encode_missing(encoded, feature, "type_changed")

    def _encode_category(self, encoded: EncodedContext, feature: Feature, value: str) -> None:
        """Set the slot of a category; a new one takes a spare slot, or shares one by hash."""
        slot = feature.values.get(value, NO_SLOT)
        if slot == NO_SLOT:
            spare = self._slots.spare(list(feature.values.values()))
            if len(spare) < self._slots.max_category_slots:
                slot = self._claim(encoded, feature, "value", value)
            if slot == NO_SLOT:
                slot = self._slots.hashed(f"{feature.name}={value}", spare)
                encoded.problems.append((feature, "hashed"))
        encoded.set(slot, feature.name)

    def _encode_missing(self, encoded: EncodedContext, feature: Feature, problem: str) -> None:
        """Impute ½ for a value that cannot be used, and set the indicator if the feature is expected."""
        if feature.expected or problem != "missing":
            encoded.problems.append((feature, problem))
        if not feature.expected:
            return
        if feature.slot != NO_SLOT:
            encoded.x[feature.slot] = IMPUTED
        slot = feature.indicator
        if slot == NO_SLOT:
            slot = self._claim(encoded, feature, "indicator", "")
        if slot == NO_SLOT:
            slot = self._slots.hashed(f"{feature.name} is missing")
        encoded.set(slot, feature.name)

    def _encode_new_feature(self, encoded: EncodedContext, name: str, kind: ValueKind, value: Any) -> None:
        """Add a feature that has not occurred before, if it has a value and a slot is free."""
        if kind in _KINDS and self._slots.free(len(encoded.claims)) != NO_SLOT:
            self._encode_first_value(encoded, Feature(name, None, expected=False), kind, value)
        elif kind != "missing":
            encoded.unmapped += 1
            if kind in _KINDS:
                self._encode_hashed(encoded, name, kind, value)

    def _encode_first_value(
        self, encoded: EncodedContext, feature: Feature, kind: ValueKind, value: Any
    ) -> None:
        """Encode the first value of a feature, which determines the kind of the feature."""
        if kind == "text":
            slot = self._claim(encoded, feature, "value", to_text(kind, value))
        else:
            slot = self._claim(encoded, feature, "number" if kind == "number" else "boolean", "")
        if slot == NO_SLOT:
            encoded.problems.append((feature, "hashed"))
            self._encode_hashed(encoded, feature.name, kind, value)
        elif kind == "number":
            encoded.first_numbers.append(value)
            encoded.x[slot] = IMPUTED  # the middle of a scale without other numbers
        else:
            encoded.x[slot] = kind == "text" or value

    def _encode_hashed(self, encoded: EncodedContext, name: str, kind: ValueKind, value: Any) -> None:
        """Set a shared slot: by feature and value for a category, by feature for a number."""
        # A long text is hashed in its shortened form, which is what a log holds.
        text = f"{name}={to_text(kind, value)}" if kind == "text" else name
        encoded.set(self._slots.hashed(text), name)

    def _claim(
        self,
        encoded: EncodedContext,
        feature: Feature,
        purpose: Literal["value", "number", "boolean", "indicator"],
        value: str,
    ) -> int:
        """Return the next free slot, which belongs to the feature once the encoding is committed."""
        slot = self._slots.free(len(encoded.claims))
        if slot != NO_SLOT:
            encoded.claims.append(Claim(feature, purpose, value))
        return slot

    # ---- learning -------------------------------------------------------------------------------

    def commit(self, encoded: EncodedContext) -> None:
        """Apply the changes of an encoded context; nothing may have been committed since it was encoded."""
        for feature, purpose, value in encoded.claims:
            slot = self._slots.used
            if purpose == "indicator":
                feature.indicator = slot
            elif purpose == "value":
                feature.kind = "category"
                feature.values[value] = slot
            elif purpose == "boolean":
                feature.kind, feature.slot = "boolean", slot
            else:
                feature.kind, feature.slot, feature.column = "number", slot, len(self._scales)
                self._scales.add(slot, None)
            self._features[feature.name] = feature
            self._slots.used += 1
        for feature, problem in encoded.problems:
            feature.problems[problem] += 1
        self._unmapped += encoded.unmapped
        numbers = encoded.numbers
        if encoded.first_numbers:
            numbers = np.append(numbers, encoded.first_numbers)
        if numbers.size:
            self._scales.observe(numbers)

    # ---- reporting ------------------------------------------------------------------------------

    def origins(self, context: Any, encoded: EncodedContext) -> Origins:
        """Return the feature that each slot of an encoded context belongs to."""
        row, _ = to_row(context)
        named = {feature_name(key): value for key, value in row.items()}
        return trace_origins(self._features, self._slots, encoded, named)

    @property
    def schema(self) -> Schema:
        """The features as the encoder handles them now."""
        reports = {name: self._report(feature) for name, feature in self._features.items()}
        return Schema(reports, self.width, self.width - self._slots.used, self._unmapped)

    def _report(self, feature: Feature) -> FeatureReport:
        limits = None if feature.column == NO_SLOT else self._scales.limits(feature.column)
        problems = dict(feature.problems)
        return FeatureReport(feature.kind, len(feature.slots), limits, tuple(feature.values), problems)

    # ---- saving ---------------------------------------------------------------------------------

    def snapshot(self) -> tuple[dict[str, Any], Arrays]:
        """Return the encoder as JSON-serializable metadata and arrays."""
        slots = self._slots
        metadata = {
            "length": self._length,
            "slots": [slots.reserved, slots.width, slots.used],
            "unmapped": self._unmapped,
            "features": [feature.snapshot() for feature in self._features.values()],
        }
        return metadata, self._scales.snapshot()

    @classmethod
    def from_snapshot(cls, metadata: dict[str, Any], arrays: Arrays) -> "Encoder":
        """Return the encoder of a snapshot; raise ValueError, TypeError or KeyError if it is invalid."""
        encoder = cls.__new__(cls)
        encoder._length, encoder._unmapped = metadata["length"], int(metadata["unmapped"])
        if encoder._length is not None and type(encoder._length) is not int:
            raise ValueError(f"the number of values must be an integer, got {encoder._length!r}")
        encoder._slots = slots = Slots(*metadata["slots"])
        encoder._scales = Scales()
        encoder._scales.restore(arrays, slots.used)
        features = [Feature.from_snapshot(saved, slots.used) for saved in metadata["features"]]
        encoder._features = {feature.name: feature for feature in features}
        columns = sorted(feature.column for feature in features if feature.column != NO_SLOT)
        if columns != list(range(len(encoder._scales))):
            raise ValueError("the scales of the encoder do not match its features")
        return encoder
