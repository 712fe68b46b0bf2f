"""The online encoder: from a context to numbers in [0, 1].

The first context fixes the width: one slot for every number and boolean, one for every declared value of a
category, and a number of spare slots. Everything that appears later takes a free slot: a value of a
category, a feature, the indicator of a missing value. When none is free, slots are shared by hash, until the
newcomer is clearly more frequent than the owner of the least used slot, and takes it over (``slots.py``). In
the same way, a feature that was not declared changes its kind if most of its values have another one.

A slot without content is 0. A free slot is 0 too, so allocating it changes no earlier context. A present
category, a true boolean and an indicator are 1; a number is its position on its scale. A missing number or
boolean that was expected is replaced by ½. A wide vector is replaced by some of its components first
(``projection.py``).

:meth:`Encoder.encode` changes nothing. :meth:`Encoder.commit` does, once the decision takes effect.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glcb._arrays import Arrays, Float32, Float64
from glcb._errors import InvalidContext, InvalidSettings
from glcb._types import MAX_FEATURES
from glcb.bandit.encoding.encoded import Claim, ContextChanges, Draft, EncodedContext
from glcb.bandit.encoding.features import NO_SLOT, Feature, owner_of, restore_features
from glcb.bandit.encoding.origins import Origins, merge_parts, trace_origins
from glcb.bandit.encoding.plans import EncodingPlan, make_plan
from glcb.bandit.encoding.projection import DENSE, Projections, is_dense
from glcb.bandit.encoding.scaling import Scales
from glcb.bandit.encoding.schema import (
    Declaration,
    FeatureDeclaration,
    FeatureKind,
    Schema,
    plain_declarations,
    restore_structures,
    structures_of,
)
from glcb.bandit.encoding.slots import (
    HALVING_PERIOD,
    SPARE_SLOTS,
    SPARE_SLOTS_PER_CATEGORY,
    Purpose,
    SlotCandidate,
    SlotCandidates,
    Slots,
    beats,
)
from glcb.bandit.encoding.structured import classify_supported, component_index, expand_first, expand_row
from glcb.bandit.encoding.values import (
    MAX_NUMBER,
    Row,
    ValueKind,
    classify_value,
    feature_name,
    flatten,
    parse_boolean,
    parse_number,
    to_row,
    to_text,
)

IMPUTED = 0.5
"""Replaces a missing number or boolean."""
KIND_RATIO = 4
"""The kind of a feature changes if values of another kind are this many times as frequent."""
MAX_MISSING = 0.8
"""A feature of the first context is no longer expected if it is missing in more contexts than this."""
MAX_PLANS = 64

_KINDS: dict[ValueKind, FeatureKind] = {"number": "number", "text": "category", "boolean": "boolean"}
_PURPOSES: dict[FeatureKind, Purpose] = {"number": "number", "category": "value", "boolean": "boolean"}


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

    def __init__(self, declarations: Mapping[str, Declaration], first: Any, spare_slots: int | None) -> None:
        row, self._length = to_row(first)
        self._is_dense = self._length is not None and not declarations and is_dense(row.values())
        self._projections = Projections()
        self._structures = structures_of(declarations)
        declared = plain_declarations(declarations)
        (row, _), tags = self._to_row(first), set[str]()
        if self._length is None or self._is_dense:
            row = self._projections.replace_first(row, declared)
            row, tags = expand_first(row, self._structures, declared)
        if len(row) > MAX_FEATURES:
            raise InvalidContext(f"a context can have at most {MAX_FEATURES:,} features, got {len(row):,}")
        self._features: dict[str, Feature] = {}
        self._scales, self._candidates = Scales(), SlotCandidates()
        self._plans: dict[tuple[Any, ...], EncodingPlan] = {}
        self._contexts = self._unmapped = reserved = 0
        for name, declaration in declared.items():
            reserved = self._add_first(name, declaration.kind, declaration, reserved)
        for key, value in row.items():
            name = feature_name(key)
            if name not in self._features and key not in tags:  # an absent tag is not a missing value
                reserved = self._add_first(name, _KINDS.get(classify_value(value)[0]), None, reserved)
        if spare_slots is None:
            open_ended = [f for f in self._features.values() if f.kind == "category" and not f.values]
            spare_slots = SPARE_SLOTS + SPARE_SLOTS_PER_CATEGORY * len(open_ended)
        self._slots = Slots(reserved, max(1, reserved + spare_slots), range(reserved), self._declared_slots())

    def _add_first(
        self, name: str, kind: FeatureKind | None, declaration: FeatureDeclaration | None, slot: int
    ) -> int:
        """Add a declared feature, or one of the first context, with slots from `slot` on; return the next."""
        expected = declaration is None or declaration.expected
        feature = self._features[name] = Feature(name, kind, expected, declaration)
        if kind == "category" and declaration is not None:
            feature.values = {value: slot + place for place, value in enumerate(declaration.values)}
        elif kind in ("number", "boolean"):
            feature.slot = slot
            if kind == "number":
                feature.column = self._scales.add(slot, None if declaration is None else declaration.limits)
        return slot + len(feature.slots)

    def _declared_slots(self) -> list[int]:
        return [slot for feature in self._features.values() for slot in feature.declared_slots]

    @property
    def width(self) -> int:
        """Length of an encoded context."""
        return self._slots.width

    # ---- encoding -------------------------------------------------------------------------------

    def _to_row(self, context: Any) -> Row:
        """Return the values of a context by name, and their number if positions serve as names."""
        if not self._is_dense:
            return to_row(context)
        if isinstance(context, np.ndarray) and context.shape == (self._length,):
            return {DENSE: context}, self._length
        row, length = to_row(context)
        return {DENSE: list(row.values())}, length

    def encode(self, context: Any) -> EncodedContext:
        """Encode a context. Changes nothing."""
        row, length = (context, None) if type(context) is dict else self._to_row(context)
        if length != self._length:
            before, now = ("named values" if n is None else f"{n} values" for n in (self._length, length))
            raise InvalidContext(f"earlier contexts had {before}, but this one has {now}")
        return self._encode_row(row)

    def _encode_row(self, row: Mapping[Any, Any], dropped: int = 0) -> EncodedContext:
        plan = self._plans.get(tuple(row)) if not dropped else None
        encoded = None if plan is None else self._encode_by_plan(plan, row)
        return encoded or self._encode_by_feature(row, dropped)

    def _encode_by_plan(self, plan: EncodingPlan, row: Mapping[Any, Any]) -> EncodedContext | None:
        """Encode a context whose features are known; return None if a value is not of the usual type."""
        if (found := plan.read(row)) is None:
            return None
        x: Float32 = np.zeros(self._slots.width, np.float32)
        if plan.missing:
            numbers, slots = found[: len(self._scales)], found[len(self._scales) :]
            if any(abs(number) >= MAX_NUMBER for number in numbers):
                return None
            x[slots] = 1
            draft = Draft(x=x, numbers=numbers)
            for feature in plan.missing:
                self._encode_missing(draft, feature, "absent")
            return self._finish(draft)
        try:
            inputs: Float64 = np.array(found, np.float64)
        except OverflowError:  # an integer beyond the range of floats
            return None
        outliers = self._scales.place(inputs, x)
        if outliers is None:
            return None
        return EncodedContext(
            x, inputs, ContextChanges(problems=self._out_of_range(outliers)) if outliers else None
        )

    def _encode_by_feature(self, row: Mapping[Any, Any], dropped: int) -> EncodedContext:
        """Encode a context feature by feature, and make a plan for those like it.

        Nested dicts and structured values are expanded first; `dropped` of them were left out.
        """
        features = self._features
        numbers, slots, unusual = [math.nan] * len(self._scales), [], []
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
                        slots.append(slot)
                        continue
                elif value_type is bool and feature.kind == "boolean":
                    if value:
                        slots.append(feature.slot)
                    continue
            unusual.append((key, value))
        if unusual and self._length is None and (flat := flatten(row)) is not row:
            return self._encode_row(flat, dropped)
        if unusual and (self._length is None or self._is_dense):
            keys, free = [key for key, _ in unusual], len(self._slots.free)
            if (projected := self._projections.replace(row, keys, features, free)) is not None:
                encoded = self._encode_row(projected.row, dropped + projected.dropped)
                encoded.vectors = projected.vectors
                return encoded
            expanded = expand_row(row, keys, self._structures, features, free)
            if expanded is not None:
                return self._encode_row(expanded[0], dropped + expanded[1])
        draft = Draft(x=np.zeros(self.width, np.float32), numbers=numbers, unmapped=dropped)
        draft.x[slots] = 1
        new_names = self._encode_unusual(draft, row, unusual) if unusual else set()
        if not unusual and len(self._plans) < MAX_PLANS:
            self._plans[tuple(row)] = make_plan(row, features, len(numbers))
        if len(row) - len(new_names) < len(features):
            for feature in features.values():
                if feature.expected and feature.name not in row and feature.name not in new_names:
                    self._encode_missing(draft, feature, "absent")
        return self._finish(draft)

    def _finish(self, draft: Draft) -> EncodedContext:
        """Place the numbers, which overwrite any other value in their slots."""
        inputs = np.array(draft.numbers, np.float64)
        outliers = self._scales.place(inputs, draft.x)
        if draft.not_by_owner:
            draft.not_by_owner.difference_update(self._scales.slots_of(inputs))
        draft.problems += self._out_of_range(outliers or ())
        return EncodedContext(draft.x, inputs, draft)

    def _out_of_range(self, columns: Sequence[int]) -> list[tuple[Feature, str]]:
        return [(f, "out_of_range") for c in columns for f in self._features.values() if f.column == c]

    def _encode_unusual(
        self, draft: Draft, row: Mapping[Any, Any], unusual: list[tuple[Any, Any]]
    ) -> set[str]:
        """Encode unusual values; return the names that are new or spelled differently."""
        new_names: set[str] = set()
        for key, value in unusual:
            name = feature_name(key)
            feature = self._features.get(name)
            if feature is None or name != key:
                if name in new_names or (name != key and name in row):
                    raise InvalidContext(f"the context has two features named {name!r}")
                new_names.add(name)
            kind, plain = classify_supported(name, value)
            if feature is None:
                self._encode_new_feature(draft, name, kind, plain)
            elif kind not in _KINDS:
                self._encode_missing(draft, feature, kind)
            elif feature.kind is None:
                self._encode_first_value(draft, feature, kind, plain)
            else:
                self._encode_known(draft, feature, kind, plain)
        return new_names

    def _encode_known(self, draft: Draft, feature: Feature, kind: ValueKind, value: Any) -> None:
        """Encode a value that may have to be converted to the kind of the feature."""
        if kind == "text" and feature.kind != "category":
            parse = parse_number if feature.kind == "number" else parse_boolean
            kind, value = parse(value)
        if feature.kind == _KINDS.get(kind) or (feature.kind == "number" and kind == "boolean"):
            if feature.kind == "category":
                self._encode_category(draft, feature, to_text(kind, value), by_owner=True)
            elif feature.kind == "number":
                draft.numbers[feature.column] = value
            else:
                draft.overwrite(feature.slot, value)
        elif feature.kind == "boolean" and kind == "number" and value in (0, 1):
            draft.overwrite(feature.slot, value)
        elif kind not in _KINDS:
            self._encode_missing(draft, feature, kind)
        elif self._changes_kind(draft, feature, _KINDS[kind]):
            self._encode_first_value(draft, feature, kind, value)
        elif feature.kind == "category":
            by_owner = feature.declaration is not None
            self._encode_category(draft, feature, to_text(kind, value), by_owner)
        else:
            self._encode_missing(draft, feature, "type_changed")

    def _changes_kind(self, draft: Draft, feature: Feature, kind: FeatureKind) -> bool:
        """Return whether values of another kind are so frequent that the feature takes that kind."""
        if feature.declaration is not None:
            return False
        draft.votes.append((feature, kind))
        own = int(self._slots.uses[feature.value_slots].sum())
        return beats(feature.votes[kind] + 1, own, KIND_RATIO)

    def _encode_category(self, draft: Draft, feature: Feature, value: str, by_owner: bool) -> None:
        """Set the slot of a category; a new one claims a slot, or shares one by hash."""
        slot = feature.values.get(value, NO_SLOT)
        if slot == NO_SLOT:
            candidate, own = SlotCandidate(feature.name, "value", value), feature.inferred_slots
            full = len(own) >= self._slots.max_category_slots
            slot = self._claim(draft, feature, candidate, among=own if full else ())
            if slot == NO_SLOT:
                by_owner, slot = False, self._slots.hashed(candidate.text, own)
                draft.problems.append((feature, "hashed"))
        draft.set(slot, feature.name, by_owner)

    def _encode_missing(self, draft: Draft, feature: Feature, problem: str) -> None:
        """Impute ½ for a value that cannot be used, and set the indicator if the feature is expected.

        Only the first component of an absent vector has an indicator and is counted.
        """
        is_component = bool(component_index(feature.name))  # the first stands for the whole vector
        if (feature.expected or problem != "missing") and not (is_component and problem == "absent"):
            draft.problems.append((feature, "missing" if problem == "absent" else problem))
        if not feature.expected:
            return
        if feature.slot != NO_SLOT:
            draft.x[feature.slot] = IMPUTED
            draft.not_by_owner.add(feature.slot)
        if is_component:
            return
        if problem in ("missing", "absent") and feature.declaration is None:
            absent = feature.problems["missing"] + 1 - MAX_MISSING * self._contexts
            if beats(int(absent), 0):
                draft.unexpected.append(feature)
        slot = feature.indicator
        if slot == NO_SLOT:
            candidate = SlotCandidate(feature.name, "indicator", "")
            slot = self._claim(draft, feature, candidate)
            if slot == NO_SLOT:
                draft.set(self._slots.hashed(candidate.text), feature.name)
                return
        draft.set(slot, feature.name, by_owner=True)

    def _encode_new_feature(self, draft: Draft, name: str, kind: ValueKind, value: Any) -> None:
        """Encode a value of a feature without slots; a usable value claims a slot."""
        if kind in _KINDS:
            self._encode_first_value(draft, Feature(name, None, expected=False), kind, value)
        elif kind != "missing":
            draft.unmapped += self._slots.next_free(()) == NO_SLOT

    def _encode_first_value(self, draft: Draft, feature: Feature, kind: ValueKind, value: Any) -> None:
        """Encode the first value of a feature, or of a new kind, in a claimed slot or one shared by hash."""
        text = to_text(kind, value) if kind == "text" else ""
        candidate = SlotCandidate(feature.name, _PURPOSES[_KINDS[kind]], text)
        number, own = value if kind == "number" else math.nan, feature.value_slots
        slot = own[0] if own else self._claim(draft, feature, candidate, number=number)
        if own:
            draft.claims.append(Claim(feature, candidate, slot, number))
        if slot == NO_SLOT:
            if feature.name in self._features:
                draft.problems.append((feature, "hashed"))
            else:
                draft.unmapped += 1
            draft.set(self._slots.hashed(candidate.text), feature.name)
        elif kind == "number":
            draft.overwrite(slot, IMPUTED)  # the middle of a scale without other numbers
        else:
            draft.overwrite(slot, kind == "text" or value)

    def _claim(
        self,
        draft: Draft,
        feature: Feature,
        candidate: SlotCandidate,
        number: float = math.nan,
        among: Sequence[int] = (),
    ) -> int:
        """Return a slot that belongs to the candidate once the encoding is committed, or NO_SLOT.

        It is a free slot, or the least used slot (of `among`, if not empty) if the candidate is more
        frequent.
        """
        claimed = [claim.slot for claim in draft.claims]
        slot = NO_SLOT if among else self._slots.next_free(claimed)
        if slot == NO_SLOT:
            draft.candidates.append(candidate)
            count = self._candidates[candidate] + 1
            if beats(count, 0):
                least = self._slots.least_used(among, claimed)
                if least != NO_SLOT and beats(count, int(self._slots.uses[least])):
                    slot = least
        if slot != NO_SLOT:
            draft.claims.append(Claim(feature, candidate, slot, number))
        return slot

    def alters_others(self, encoded: EncodedContext) -> bool:
        """Return whether committing an encoded context changes how earlier contexts are encoded.

        True if a slot changes hands or a feature is no longer expected; scales are not considered.
        """
        taken_over = any(claim.slot not in self._slots.free for claim in encoded.claims)
        return taken_over or (encoded.changes is not None and bool(encoded.changes.unexpected))

    # ---- learning -------------------------------------------------------------------------------

    def commit(self, encoded: EncodedContext) -> None:
        """Apply the changes of an encoded context; nothing may have been committed since it was encoded."""
        self._scales.observe(encoded.inputs, encoded.x, self._slots.uses)
        if encoded.vectors:
            self._projections.learn(encoded.vectors)
        self._contexts += 1
        if encoded.changes is not None:
            self._apply(encoded.changes)
        if self._contexts % HALVING_PERIOD == 0:
            self._halve_counts()

    def _apply(self, changes: ContextChanges) -> None:
        for slot in changes.not_by_owner:
            self._slots.uses[slot] -= 1
        for feature, problem in changes.problems:
            feature.problems[problem] += 1
        for feature, kind in changes.votes:
            feature.votes[kind] += 1
        self._unmapped += changes.unmapped
        for candidate in changes.candidates:
            self._candidates.add(candidate)
        for claim in changes.claims:
            self._grant(claim)
        for feature in changes.unexpected:
            feature.expected = False
            if feature.indicator != NO_SLOT:
                self._vacate(feature.indicator)
            if not feature.slots:
                self._features.pop(feature.name, None)
        if changes.claims or changes.unexpected:
            self._plans.clear()

    def _grant(self, claim: Claim) -> None:
        """Make a feature the owner of a slot."""
        feature, (name, purpose, value), slot, number = claim
        self._vacate(slot)
        if purpose == "indicator":
            feature.indicator = slot
        else:
            kind = next(kind for kind, own in _PURPOSES.items() if own == purpose)
            if feature.kind != kind:
                self._clear(feature)
                feature.kind = kind
            if kind == "category":
                feature.values[value] = slot
            else:
                feature.slot = slot
        self._features[name] = feature
        self._slots.take(slot, self._candidates.remove(claim.candidate))
        if purpose == "number":
            feature.column = self._scales.add(slot, None)
            first = np.full(len(self._scales), np.nan)
            first[feature.column] = number
            self._scales.observe(first, np.zeros(0, np.float32), self._slots.uses)

    def _clear(self, feature: Feature) -> None:
        """Take all slots of a feature, except its indicator's."""
        for slot in feature.value_slots:
            self._vacate(slot)
        feature.votes.clear()

    def _vacate(self, slot: int) -> None:
        """Take a slot from its owner. A feature without slots is forgotten unless it is expected."""
        owner = owner_of(slot, self._features)
        if owner is None:
            return
        if slot == owner.slot and owner.column != NO_SLOT:
            self._scales.remove(owner.column)
        owner.drop(slot)
        self._slots.give(slot)
        if not owner.slots and not owner.expected:
            del self._features[owner.name]

    def _halve_counts(self) -> None:
        """Halve all counts, so that they describe the recent past."""
        np.right_shift(self._slots.uses, 1, out=self._slots.uses)
        self._candidates.halve()
        for feature in self._features.values():
            for kind in feature.votes:
                feature.votes[kind] >>= 1
        self._plans.clear()

    # ---- declaring ------------------------------------------------------------------------------

    def redeclared(self, declarations: Mapping[str, Declaration]) -> "Encoder":
        """Return a copy of this encoder with other declarations.

        A feature keeps its slots if its kind does not change. Slots for other features are taken from
        undeclared features, the least used ones first.

        Raises
        ------
        InvalidSettings
            If there are not enough slots.
        """
        encoder = Encoder.from_snapshot(*self.snapshot())
        features, declared = encoder._features, plain_declarations(declarations)
        encoder._structures = structures_of(declarations)
        for feature in features.values():
            feature.declaration = declared.get(feature.name)
        encoder._slots.protect(encoder._declared_slots())
        for name, declaration in declared.items():
            feature = features.setdefault(name, Feature(name, None, expected=True, declaration=declaration))
            feature.expected = declaration.expected
            if feature.kind != declaration.kind:
                encoder._clear(feature)
                feature.kind = "category" if declaration.kind == "category" else None
            encoder._allocate(feature, declaration)
        return encoder

    def _allocate(self, feature: Feature, declaration: FeatureDeclaration) -> None:
        """Allocate the declared slots of a feature."""
        if declaration.kind == "category":
            candidates = [
                SlotCandidate(feature.name, "value", value)
                for value in declaration.values
                if value not in feature.values
            ]
        else:
            candidates = [SlotCandidate(feature.name, _PURPOSES[declaration.kind], "")] * (
                feature.kind is None
            )
        for candidate in candidates:
            slot = self._slots.next_free(())
            if slot == NO_SLOT:
                slot = self._slots.least_used((), ())
            if slot == NO_SLOT:
                raise InvalidSettings(
                    f"the schema needs more than the {self.width} slots that the first decision fixed: "
                    "declare fewer features and values, or start anew with a larger spare_slots"
                )
            self._grant(Claim(feature, candidate, slot, math.nan))
            self._slots.protect(self._declared_slots())
        if feature.column != NO_SLOT:
            self._scales.set_limits(feature.column, declaration.limits)

    # ---- reporting ------------------------------------------------------------------------------

    def origins(self, context: Any, encoded: EncodedContext) -> Origins:
        """Return the feature that each slot of an encoded context belongs to."""
        row, _ = self._to_row(context)
        named = {feature_name(key): value for key, value in row.items()}
        origins = trace_origins(self._features, self.width, encoded, named)
        is_flat = self._length is not None and not self._is_dense
        return origins if is_flat else merge_parts(origins, named, self._structures)

    @property
    def schema(self) -> Schema:
        """The features as the encoder handles them now."""
        reports = {name: feature.report(self._limits(feature)) for name, feature in self._features.items()}
        halvings, contexts = divmod(self._contexts, HALVING_PERIOD)
        contexts += HALVING_PERIOD - (HALVING_PERIOD >> min(halvings, 60))
        without_slot = self._candidates.shares(contexts)
        return Schema(reports, self.width, len(self._slots.free), self._unmapped, without_slot)

    def _limits(self, feature: Feature) -> tuple[float, float] | None:
        return None if feature.column == NO_SLOT else self._scales.limits(feature.column)

    # ---- saving ---------------------------------------------------------------------------------

    def snapshot(self) -> tuple[dict[str, Any], Arrays]:
        """Return the encoder as JSON-serializable metadata and arrays."""
        projected, directions = self._projections.snapshot()
        metadata = {
            "length": self._length,
            "dense": self._is_dense,
            "projections": projected,
            "slots": [self._slots.reserved, self._slots.width],
            "contexts": self._contexts,
            "unmapped": self._unmapped,
            "candidates": self._candidates.snapshot(),
            "features": [feature.snapshot() for feature in self._features.values()],
            "structures": dict(self._structures),
        }
        return metadata, {**self._scales.snapshot(), **directions, "uses": self._slots.uses}

    @classmethod
    def from_snapshot(cls, metadata: dict[str, Any], arrays: Arrays) -> "Encoder":
        """Restore an encoder from a snapshot; raise ValueError, TypeError or KeyError if it is invalid."""
        encoder = cls.__new__(cls)
        encoder._length = metadata["length"]
        counts = encoder._contexts, encoder._unmapped = metadata["contexts"], metadata["unmapped"]
        if any(type(count) is not int or count < 0 for count in counts):
            raise ValueError(f"{counts} are not counts")
        if encoder._length is not None and type(encoder._length) is not int:
            raise ValueError(f"the number of values must be an integer, got {encoder._length!r}")
        encoder._structures = restore_structures(metadata["structures"])
        encoder._is_dense = metadata["dense"]
        encoder._projections = Projections.from_snapshot(metadata["projections"], arrays)
        encoder._plans = {}
        reserved, width = metadata["slots"]
        encoder._features, owned = restore_features(metadata["features"], width)
        encoder._slots = Slots(reserved, width, owned, encoder._declared_slots())
        encoder._slots.restore(arrays)
        encoder._candidates = SlotCandidates()
        encoder._candidates.restore(metadata["candidates"])
        encoder._scales = Scales()
        columns = [feature.column for feature in encoder._features.values() if feature.column != NO_SLOT]
        encoder._scales.restore(arrays, width, columns)
        return encoder
