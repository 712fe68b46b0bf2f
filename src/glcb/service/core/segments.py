"""Lift and arms by segment: by the values of a category, or by ranges of a number.

Which features are segments is declared by the experiment. By default, up to eight of the first features are:
categories with few values, then numbers. Everything is decided by contexts alone, and a decision belongs to
the segments that existed when it was made. So the estimates of a segment have the same guarantees as those
of the whole experiment (:mod:`glcb.service.core.lift`).

There are many segments, so some would look better by chance. The error rate of 5 % is therefore divided by
the number of segments that there can be (Bonferroni): with 95 % confidence, all intervals of all segments are
right at all times.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Literal

from msgspec import Struct, field

from glcb.bandit.encoding.schema import parse_schema
from glcb.service.core.sums import Sums

MAX_FEATURES = 8
_MAX_CANDIDATES = 2 * MAX_FEATURES
"""As many features are followed until the best ones are chosen."""
_MAX_VALUES = 18
"""Values of a category with a segment of their own, once they are final."""
_MAX_CANDIDATE_VALUES = 100
_BINS = 5
_BIN_SAMPLE = 200
"""Values from whose quantiles the ranges of a number are made."""
_TRIAL = 1000
"""Decisions after which the features, and the values of a category, are final."""
_MAX_TEXT = 100
"""A longer value has no segment of its own."""
_MIN_SHARE = 0.5
"""A category is left out by default if its most frequent values are fewer decisions than this."""

_DROPPED = -1
SegmentKind = Literal["value", "range", "other", "missing"]


class Segment(Struct):
    """The decisions with one value of a feature."""

    value: str
    kind: SegmentKind = "value"
    sums: Sums = field(default_factory=Sums)


class SegmentedFeature(Struct):
    """A feature and its segments, by their place in ``Segments.segments``."""

    kind: Literal["category", "number"]
    since: float
    """Time of its first value."""
    other: int
    missing: int
    decisions: int = 0
    values: dict[str, int] = field(default_factory=dict)
    """Values of a category."""
    is_final: bool = False
    """Whether the rare values of a category have been merged."""
    sample: list[float] = field(default_factory=list)
    """The first values of a number."""
    edges: list[float] = field(default_factory=list)
    """Where the ranges of a number begin, except the first one."""
    ranges: list[int] = field(default_factory=list)

    @property
    def slots(self) -> int:
        """The most segments that it can have, those before its values are final included."""
        return _BINS + 2 if self.kind == "number" else 2 * (_MAX_VALUES + 2)

    @property
    def has_intervals(self) -> bool:
        """Whether its segments have intervals. Those of a category change while it has too many values."""
        return self.kind == "number" or self.is_final or len(self.values) <= _MAX_VALUES

    @property
    def is_settled(self) -> bool:
        """Whether its values or ranges are final."""
        return bool(self.ranges) if self.kind == "number" else self.is_final


class Segments(Struct):
    """The segments of all features of an experiment."""

    since: float
    """Time from which decisions are counted."""
    names: list[str] | None = None
    """The declared features; None to choose them."""
    categories: list[str] = field(default_factory=list)
    """Features that are categories even if their values are numbers."""
    first: int = 0
    """Number of the first segment. Segments before a change of the features have lower numbers."""
    decisions: int = 0
    is_final: bool = False
    """Whether no further feature becomes a segment."""
    features: dict[str, SegmentedFeature] = field(default_factory=dict)
    segments: list[Segment | int] = field(default_factory=list)
    """Segments; the place of the segment that has absorbed one, or −1 if its feature was dropped."""

    def changed(self, names: list[str] | None, schema: Mapping[str, Any] | None, at: float) -> "Segments":
        """Return the segments of other features, which start anew.

        Parameters
        ----------
        names
            The features; None to choose them.
        schema
            The declared kinds of features.
        at
            The time.
        """
        declared = parse_schema(schema).items()
        return Segments(
            since=at,
            names=names,
            categories=[name for name, feature in declared if feature.kind == "category"],
            first=self.first + len(self.segments),
            is_final=names == [],
        )

    def add_decision(
        self, context: Mapping[Any, Any] | list[Any], at: float
    ) -> tuple[tuple[int, ...], list[Sums]]:
        """Count a decision for each feature; return the numbers of its segments, and their sums."""
        if isinstance(context, list):
            context = {str(place): value for place, value in enumerate(context[:_MAX_CANDIDATES])}
        self.decisions += 1
        if not self.is_final:
            self._open_features(context, at)
        first, segments, numbers, sums = self.first, self.segments, [], []
        for name, feature in self.features.items():
            feature.decisions += 1
            place = self._place(feature, context.get(name))
            if place is None:
                continue
            segment = segments[place]
            assert isinstance(segment, Segment)  # features refer to segments that exist
            numbers.append(first + place)
            sums.append(segment.sums)
        return tuple(numbers), sums

    def sums_of(self, numbers: Iterable[int]) -> list[Sums]:
        """Return the sums of the segments with these numbers, as far as they still exist."""
        found = []
        for number in numbers:
            place = number - self.first
            if place < 0:
                continue  # the features have changed since
            segment = self.segments[place]
            if isinstance(segment, int):
                if segment == _DROPPED:
                    continue
                segment = self.segments[segment]
                assert isinstance(segment, Segment)  # those that absorb others stay
            found.append(segment.sums)
        return found

    def of(self, feature: SegmentedFeature) -> list[Segment]:
        """Return the segments of a feature that have decisions: in their order, or frequent values first."""
        found = [self.segments[place] for place in (*feature.values.values(), *feature.ranges)]
        own = [one for one in found if isinstance(one, Segment) and one.sums.decisions]
        if feature.kind == "category":
            own.sort(key=lambda segment: -segment.sums.decisions)
        rest = [self.segments[place] for place in (feature.other, feature.missing)]
        return own + [one for one in rest if isinstance(one, Segment) and one.sums.decisions]

    def chosen(self) -> dict[str, SegmentedFeature]:
        """Return the features that are segments now; more may be on trial."""
        if self.names is not None or self.is_final:
            return self.features
        useful = {name: one for name, one in self.features.items() if self._is_useful(one)}
        categories = [name for name, one in useful.items() if one.kind == "category"]
        numbers = [name for name, one in useful.items() if one.kind == "number"]
        return {name: useful[name] for name in (categories + numbers)[:MAX_FEATURES]}

    def comparisons(self, feature: SegmentedFeature) -> int:
        """Return the number by which the error rate of an interval of a feature is divided."""
        features = _MAX_CANDIDATES if self.names is None else len(self.names)
        return features * feature.slots

    def _is_useful(self, feature: SegmentedFeature) -> bool:
        """Return whether a feature on trial has several values, and not almost as many as decisions."""
        segments = self.of(feature)
        if feature.kind == "number":
            return len(feature.sample) < _BIN_SAMPLE or len(feature.edges) > 0
        named = [one.sums.decisions for one in segments if one.kind == "value"][:_MAX_VALUES]
        return len(segments) > 1 and sum(named) >= _MIN_SHARE * feature.decisions

    def _open_features(self, context: Mapping[Any, Any], at: float) -> None:
        if self.names is None:
            names: Iterable[Any] = islice(context, 10 * _MAX_CANDIDATES)
            limit = _MAX_CANDIDATES
        else:
            names, limit = self.names, MAX_FEATURES
        for name in names:
            if name not in self.features and len(self.features) < limit:
                kind = self._kind(str(name), context.get(name))
                if kind is not None:
                    self._open_feature(str(name), kind, at)
        if self.names is None and self.decisions > _TRIAL:
            self._choose_features()
        elif self.names is not None:
            self.is_final = len(self.features) == len(self.names)

    def _kind(self, name: str, value: Any) -> Literal["category", "number"] | None:
        if isinstance(value, str | bool) or (isinstance(value, int | float) and name in self.categories):
            return "category" if len(name) <= _MAX_TEXT else None
        return "number" if isinstance(value, int | float) and len(name) <= _MAX_TEXT else None

    def _open_feature(self, name: str, kind: Literal["category", "number"], at: float) -> None:
        other, missing = self._open("other", "other"), self._open("missing", "missing")
        self.features[name] = SegmentedFeature(kind, at, other, missing)

    def _open(self, value: str, kind: SegmentKind) -> int:
        self.segments.append(Segment(value, kind))
        return len(self.segments) - 1

    def _choose_features(self) -> None:
        kept = self.chosen()
        for name, feature in self.features.items():
            if name not in kept:
                for place in (*feature.values.values(), *feature.ranges, feature.other, feature.missing):
                    self.segments[place] = _DROPPED
        self.segments = [
            _DROPPED if isinstance(one, int) and one != _DROPPED and self.segments[one] == _DROPPED else one
            for one in self.segments
        ]
        self.features = kept
        self.is_final = True

    def _place(self, feature: SegmentedFeature, value: Any) -> int | None:
        """Return the place of the segment of a value; None while the ranges of a number are unknown."""
        if value is None:
            return feature.missing
        if feature.kind == "number":
            return self._place_of_number(feature, value)
        if not feature.is_final and feature.decisions > _TRIAL:
            self._merge_rare_values(feature)
        text = value if value.__class__ is str else _text(value)
        place = feature.values.get(text)
        if place is None:
            limit = _MAX_VALUES if feature.is_final else _MAX_CANDIDATE_VALUES
            if not 0 < len(text) <= _MAX_TEXT or len(feature.values) >= limit:
                return feature.other
            place = feature.values[text] = self._open(text, "value")
        return place

    def _place_of_number(self, feature: SegmentedFeature, value: Any) -> int | None:
        if not isinstance(value, int | float) or not -1e300 < value < 1e300:
            return feature.other
        if feature.ranges:
            return feature.ranges[bisect_right(feature.edges, value)]
        feature.sample.append(float(value))
        if len(feature.sample) == _BIN_SAMPLE:
            ordered = sorted(feature.sample)
            cuts = {ordered[len(ordered) * cut // _BINS] for cut in range(1, _BINS)}
            feature.edges = sorted(cuts - {ordered[0]})
            feature.ranges = [
                self._open(_describe_range(low, high), "range") for low, high in ranges(feature.edges)
            ]
        return None

    def _merge_rare_values(self, feature: SegmentedFeature) -> None:
        """Keep the most frequent values of a category; the others become one segment."""
        feature.is_final = True
        sizes = {text: self._decisions(place) for text, place in feature.values.items()}
        frequent = sorted(sizes, key=lambda text: -sizes[text])[:_MAX_VALUES]
        other = self.segments[feature.other]
        assert isinstance(other, Segment)  # it exists as long as its feature
        for text, place in feature.values.items():
            segment = self.segments[place]
            if text not in frequent and isinstance(segment, Segment):
                other.sums = Sums.of((other.sums, segment.sums))
                self.segments[place] = feature.other
        feature.values = {text: feature.values[text] for text in frequent}

    def _decisions(self, place: int) -> int:
        segment = self.segments[place]
        return segment.sums.decisions if isinstance(segment, Segment) else 0


def ranges(edges: list[float]) -> list[tuple[float | None, float | None]]:
    """Return the ranges between the edges: from the first number up to, but without, the second.

    >>> ranges([18.0, 40.0])
    [(None, 18.0), (18.0, 40.0), (40.0, None)]
    """
    return list(zip([None, *edges], [*edges, None], strict=True))


def _describe_range(low: float | None, high: float | None) -> str:
    if low is None:
        return "all" if high is None else f"below {high:g}"
    return f"{low:g} or more" if high is None else f"{low:g} to {high:g}"


def _text(value: Any) -> str:
    """Return a value of a category as text; an empty one if it cannot be one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if abs(value) < 2**63 else ""
    return f"{value:g}" if isinstance(value, float) and math.isfinite(value) else ""
