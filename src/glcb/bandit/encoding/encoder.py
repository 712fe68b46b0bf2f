"""From a context as it came to numbers within [0, 1], online and without looking ahead.

The width is fixed by the first context: a slot for every number and boolean, one for every declared value
of a category, and a spare_slots. Whatever turns up later takes a free slot of the reserve: a value of a
category, a feature, the indicator that a value is missing. When none is left, slots are shared by hash.

Slots with nothing in them are 0: so are those that are still free, and taking one changes no context that
came before. What is there is 1 (a category's value, a true boolean, an indicator), or a number's place on
its scale. Where an expected number or boolean is missing, ½ stands in for it.

Reading a context changes nothing; :meth:`Encoder.accept` does, once it is certain that it counts.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from glcb import _validation
from glcb._arrays import State
from glcb._errors import InvalidContext
from glcb.bandit.encoding.features import NOWHERE, Feature, expected_feature
from glcb.bandit.encoding.origins import Origins, origins
from glcb.bandit.encoding.reading import Reading
from glcb.bandit.encoding.rows import as_row
from glcb.bandit.encoding.scaling import Scales
from glcb.bandit.encoding.schema import Declared, FeatureReport, Kind, Schema
from glcb.bandit.encoding.slots import RESERVE, RESERVE_PER_CATEGORY, Slots
from glcb.bandit.encoding.values import LARGEST, Nature, as_text, nature, shortened

UNKNOWN = 0.5
"""Stands in for a number or a boolean that is missing."""

_KINDS: dict[Nature, Kind] = {"number": "number", "text": "category", "boolean": "boolean"}


class Encoder:
    """Turns contexts into ``width`` numbers within [0, 1]. ``first`` is the first of them."""

    def __init__(self, declarations: Mapping[str, Declared], first: Any, spare_slots: int | None) -> None:
        row, self._length = as_row(first)
        if len(row) > _validation.MOST_FEATURES:
            raise InvalidContext(
                f"a context has at most {_validation.MOST_FEATURES:,} features, got {len(row):,}"
            )
        said: dict[str, Declared | None] = dict(declarations)
        for key, value in row.items():
            kind = _KINDS.get(nature(value)[0])
            said.setdefault(_name(key), Declared(kind) if kind else None)
        self._features: dict[str, Feature] = {}
        used, self._scales = 0, Scales()
        for name, declaration in said.items():
            self._features[name] = feature = expected_feature(name, declaration, used, len(self._scales))
            used += len(feature.slots)
            if declaration is not None and feature.column != NOWHERE:
                self._scales.add(feature.slot, declaration.limits)
        if spare_slots is None:
            open_ended = [f for f in self._features.values() if f.kind == "category" and not f.values]
            spare_slots = RESERVE + RESERVE_PER_CATEGORY * len(open_ended)
        self._slots = Slots(used, max(1, used + spare_slots), used)
        self._strangers = 0

    @property
    def width(self) -> int:
        """Length of an encoded context."""
        return self._slots.width

    # ---- reading --------------------------------------------------------------------------------

    def read(self, context: Any) -> Reading:
        """Return the context as numbers; nothing is remembered before :meth:`accept`."""
        row, length = as_row(context)
        if length != self._length:
            before, now = ("names" if n is None else f"{n} positions" for n in (self._length, length))
            raise InvalidContext(f"contexts so far had values with {before}, this one has {now}")
        features = self._features
        numbers, lit, odd = [math.nan] * len(self._scales), [], []
        # The usual case in as little time as possible; everything else is looked at closely afterwards.
        for key, value in row.items():
            feature = features.get(key)
            if feature is not None:
                plain = type(value)
                if feature.column >= 0:
                    if (plain is float or plain is int) and -LARGEST < value < LARGEST:
                        numbers[feature.column] = value
                        continue
                elif plain is str:
                    slot = feature.values.get(value)
                    if slot is not None:
                        lit.append(slot)
                        continue
                elif plain is bool and feature.kind == "boolean":
                    if value:
                        lit.append(feature.slot)
                    continue
            odd.append((key, value))
        reading = Reading(np.zeros(self.width, np.float32), np.array(numbers, np.float64))
        if lit:
            reading.x[lit] = 1
        unnamed = self._read_closely(reading, row, odd) if odd else set()
        if len(row) - len(unnamed) < len(features):
            for feature in features.values():
                if feature.expected and feature.name not in row and feature.name not in unnamed:
                    self._miss(reading, feature, "missing")
        if numbers:
            for column in self._scales.place(reading.numbers, reading.x):
                stray = next(feature for feature in features.values() if feature.column == column)
                reading.problems.append((stray, "far"))
        return reading

    def _read_closely(self, reading: Reading, row: Mapping[Any, Any], odd: list[tuple[Any, Any]]) -> set[str]:
        """Read what is unusual; return the names that are new, or written differently in the context."""
        unnamed: set[str] = set()
        for key, value in odd:
            name = _name(key)
            feature = self._features.get(name)
            if feature is None or name != key:
                if name in unnamed or (name != key and name in row):
                    raise InvalidContext(f"the context has two features called {name!r}")
                unnamed.add(name)
            kind, plain = nature(value)
            if feature is None:
                self._meet(reading, name, kind, plain)
            elif kind not in _KINDS:
                self._miss(reading, feature, kind)
            elif feature.kind is None:
                self._decide_kind(reading, feature, kind, plain)
            else:
                self._take(reading, feature, kind, plain)
        return unnamed

    def _take(self, reading: Reading, feature: Feature, kind: Nature, value: Any) -> None:
        """Read a value that is not quite of the type that the feature usually has."""
        if feature.kind == "category":
            self._take_category(reading, feature, as_text(kind, value))
        elif feature.kind == "number" and kind != "text":
            reading.numbers[feature.column] = value
        elif feature.kind == "boolean" and kind != "text" and value in (0, 1):
            reading.x[feature.slot] = value
        else:
            self._miss(reading, feature, "changed")

    def _take_category(self, reading: Reading, feature: Feature, value: str) -> None:
        """Light the slot of a category's value; a value without one takes the next, or shares one."""
        slot = feature.values.get(value, NOWHERE)
        if slot == NOWHERE:
            taken = self._slots.taken(list(feature.values.values()))
            if len(taken) < self._slots.most_values:
                slot = self._claim(reading, feature, "value", value)
            if slot == NOWHERE:
                slot = self._slots.shared(f"{feature.name}={value}", taken)
                reading.problems.append((feature, "shared"))
        reading.light(slot, feature.name)

    def _miss(self, reading: Reading, feature: Feature, problem: str) -> None:
        """Let ½ stand in for the value, and say so in the indicator. Who was never expected is not missed."""
        if feature.expected or problem != "missing":
            reading.problems.append((feature, problem))
        if not feature.expected:
            return
        if feature.slot != NOWHERE:
            reading.x[feature.slot] = UNKNOWN
        slot = feature.indicator
        if slot == NOWHERE:
            slot = self._claim(reading, feature, "indicator", "")
        if slot == NOWHERE:
            slot = self._slots.shared(f"{feature.name} is missing")
        reading.light(slot, feature.name)

    def _meet(self, reading: Reading, name: str, kind: Nature, value: Any) -> None:
        """Take in a feature that has never been seen, if it has a value and there is a slot for it."""
        if kind in _KINDS and self._slots.free(len(reading.claims)) != NOWHERE:
            self._decide_kind(reading, Feature(name, None, expected=False), kind, value)
        elif kind != "missing":
            reading.unmapped += 1
            if kind in _KINDS:
                self._light_shared(reading, name, kind, value)

    def _decide_kind(self, reading: Reading, feature: Feature, kind: Nature, value: Any) -> None:
        """Let the first value of a feature decide what it is."""
        if kind == "text":
            slot = self._claim(reading, feature, "value", as_text(kind, value))
        else:
            slot = self._claim(reading, feature, kind, "")
        if slot == NOWHERE:
            reading.problems.append((feature, "shared"))
            self._light_shared(reading, feature.name, kind, value)
        elif kind == "number":
            reading.first_numbers.append(value)
            reading.x[slot] = UNKNOWN  # the middle of a scale on which there is nothing else yet
        else:
            reading.x[slot] = kind == "text" or value

    def _light_shared(self, reading: Reading, name: str, kind: Nature, value: Any) -> None:
        """Say that a value without a slot is there: which one of a category, but not which number."""
        # The hash of a long text is that of what a log keeps of it.
        what = f"{name}={as_text(kind, value)}" if kind == "text" else name
        reading.light(self._slots.shared(what), name)

    def _claim(self, reading: Reading, feature: Feature, what: str, value: str) -> int:
        """Return the next free slot, which will be the feature's once the reading is accepted."""
        slot = self._slots.free(len(reading.claims))
        if slot != NOWHERE:
            reading.claims.append((feature, what, value))
        return slot

    # ---- remembering ----------------------------------------------------------------------------

    def accept(self, reading: Reading) -> None:
        """Remember what was read; no other reading may have been accepted since."""
        for feature, what, value in reading.claims:
            slot = self._slots.used
            if what == "indicator":
                feature.indicator = slot
            elif what == "value":
                feature.kind = "category"
                feature.values[value] = slot
            elif what == "boolean":
                feature.kind, feature.slot = "boolean", slot
            else:
                feature.kind, feature.slot, feature.column = "number", slot, len(self._scales)
                self._scales.add(slot, None)
            self._features[feature.name] = feature
            self._slots.used += 1
        for feature, problem in reading.problems:
            feature.problems[problem] += 1
        self._strangers += reading.unmapped
        numbers = reading.numbers
        if reading.first_numbers:
            numbers = np.append(numbers, reading.first_numbers)
        if numbers.size:
            self._scales.observe(numbers)

    def origins(self, context: Any, reading: Reading) -> Origins:
        """Return which features the slots of a reading tell of, and what they were in its context."""
        row, _ = as_row(context)
        named = {_name(key): value for key, value in row.items()}
        return origins(self._features, self._slots, reading, named)

    @property
    def schema(self) -> Schema:
        """What is known of the contexts."""
        reports = {name: self._report(feature) for name, feature in self._features.items()}
        return Schema(reports, self.width, self.width - self._slots.used, self._strangers)

    def _report(self, feature: Feature) -> FeatureReport:
        limits = None if feature.column == NOWHERE else self._scales.limits(feature.column)
        problems = dict(feature.problems)
        return FeatureReport(feature.kind, len(feature.slots), limits, tuple(feature.values), problems)

    # ---- saving ---------------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """Return what JSON can hold; the rest is in :meth:`state`."""
        slots = self._slots
        return {
            "length": self._length,
            "slots": [slots.reserve, slots.width, slots.used],
            "unmapped": self._strangers,
            "features": [feature.about() for feature in self._features.values()],
        }

    def state(self) -> State:
        """Return the scales of the numbers."""
        return self._scales.state()

    @classmethod
    def restored(cls, about: dict[str, Any], state: State) -> "Encoder":
        """Return the encoder that was saved; raise ValueError, TypeError or KeyError if it is none."""
        encoder = cls.__new__(cls)
        encoder._length, encoder._strangers = about["length"], int(about["unmapped"])
        if encoder._length is not None and type(encoder._length) is not int:
            raise ValueError(f"contexts cannot have the length {encoder._length!r}")
        encoder._slots = slots = Slots(*about["slots"])
        encoder._scales = Scales()
        encoder._scales.restore(state, slots.used)
        features = [Feature.restored(one, slots.used) for one in about["features"]]
        encoder._features = {feature.name: feature for feature in features}
        columns = sorted(feature.column for feature in features if feature.column != NOWHERE)
        if columns != list(range(len(encoder._scales))):
            raise ValueError("the numbers of the encoder do not fit its features")
        return encoder


def _name(key: Any) -> str:
    """Return the name of a feature that is called ``key`` in a context."""
    if isinstance(key, str):
        return shortened(key)
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    raise InvalidContext(f"a feature's name must be a text or a whole number, got {key!r}")
