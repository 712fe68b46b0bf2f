"""Projection of wide vectors, such as embeddings, to their principal components, learned online.

A vector of more than ``MAX_WIDTH`` numbers is replaced by its first ``COMPONENTS`` principal components. The
directions are learned from the vectors themselves, one at a time, by candid covariance-free incremental
principal component analysis (Weng, Zhang & Hwang, 2003). Each direction moves less with every vector, so the
meaning of a component settles; after ``WINDOW`` vectors the rate stays the same, and the directions follow
slow changes.

Vectors are divided by their length before they move the directions, so that an outlier counts as one vector
among many. They are not centered: if all vectors have a direction in common, it becomes the first component.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from glcb._arrays import Arrays, Float64, Int64, check_values
from glcb._numba.compile import strict_kernel
from glcb._types import MAX_FEATURES
from glcb.bandit.encoding.structured import Unusable, add_parts, component, structure

MAX_WIDTH = 128
"""Vectors of at most this many numbers are features as they are."""
COMPONENTS = 24
"""Number of components of a wider vector."""
WINDOW = 10_000
"""The directions represent about this many of the latest vectors."""
MAX_COMPONENT = 1e100
"""Larger numbers cannot be used, so that squares are always finite."""
DENSE = "vector"
"""The name of a context that is itself a wide vector."""


class Projection:
    """The projection of the vectors of one feature.

    Parameters
    ----------
    name
        The name of the feature.
    width
        The length of its vectors.
    """

    def __init__(self, name: str, width: int) -> None:
        self.name = name
        self.names = [component(name, i) for i in range(COMPONENTS)]
        """The names of the components."""
        self._directions: Float64 = np.zeros((COMPONENTS, width))
        self._squares: Float64 = np.zeros(COMPONENTS)
        self._count: Int64 = np.zeros(1, np.int64)

    @property
    def width(self) -> int:
        """The length of the vectors."""
        return len(self._directions[0])

    def project(self, vector: Float64) -> dict[str, Any]:
        """Return the components of a vector, by name. Changes nothing.

        A direction that has not been learned yet gives 0. A vector of another length has no components.
        """
        if vector.size != self.width:
            return {self.names[0]: Unusable()}
        components: Float64 = np.empty(COMPONENTS)
        _project(self._directions, self._squares, vector, components)
        return dict(zip(self.names, components.tolist(), strict=True))

    def observe(self, vector: Float64) -> None:
        """Move the directions toward a vector."""
        if vector.size == self.width:
            _observe(self._directions, self._squares, self._count, vector.copy())

    def snapshot(self) -> Arrays:
        """Return the directions as arrays."""
        return {"directions": self._directions, "squares": self._squares, "count": self._count}

    @classmethod
    def from_snapshot(cls, name: str, arrays: Arrays) -> "Projection":
        """Restore a projection from a snapshot; raise ValueError or KeyError if it is invalid."""
        directions = arrays["directions"]
        if directions.ndim != 2:
            raise ValueError(f"directions must have 2 dimensions, got {directions.ndim}")
        projection = cls(name, directions.shape[1])
        for own_name, own in projection.snapshot().items():
            saved = check_values(own_name, arrays[own_name])
            if saved.dtype != own.dtype or saved.shape != own.shape:
                raise ValueError(
                    f"{own_name} must be {own.dtype} {own.shape}, got {saved.dtype} {saved.shape}"
                )
            own[...] = saved
        return projection


class Projected(NamedTuple):
    """A context whose wide vectors are replaced by their components."""

    row: dict[Any, Any]
    vectors: list[tuple[Projection, Float64]]
    """The wide vectors, from which their projections learn once the decision takes effect."""
    dropped: int
    """Number of new vectors that were left out because too few slots are free."""


class Projections:
    """The projections of all features of a context that are wide vectors."""

    def __init__(self) -> None:
        self._projections: dict[str, Projection] = {}

    def replace(
        self, row: Mapping[Any, Any], keys: Iterable[Any], known: Container[str], free: int
    ) -> Projected | None:
        """Return a context without wide vectors, or None if it has none. Changes nothing.

        Parameters
        ----------
        row
            The context.
        keys
            The features that can be vectors.
        known
            The plain features. A vector whose components are features stays as it is.
        free
            Number of slots that are free for the components of a new vector.
        """
        vectors: dict[Any, Float64] = {}
        for key in keys:
            name, value = str(key), row[key]
            is_new = name not in self._projections
            if is_new and (not _is_wide(value) or name in known or component(name, 0) in known):
                continue
            vector = to_vector(value)
            if vector is not None:
                vectors[key] = vector
        if not vectors:
            return None
        plain: dict[Any, Any] = {}
        learned, dropped = [], 0
        for key, value in row.items():
            if key not in vectors:
                add_parts(plain, {key: value})
                continue
            vector, name = vectors[key], str(key)
            if name not in self._projections and free < COMPONENTS:
                dropped += 1
                continue
            projection = self._projections.get(name) or Projection(name, vector.size)
            add_parts(plain, projection.project(vector))
            learned.append((projection, vector))
        return Projected(plain, learned, dropped)

    def replace_first(self, row: Mapping[Any, Any], declared: Container[str]) -> Mapping[Any, Any]:
        """Return the first context without wide vectors; keep a projection for each that is not declared."""
        projected = self.replace(row, row, declared, MAX_FEATURES)
        if projected is None:
            return row
        self._projections = {projection.name: projection for projection, _ in projected.vectors}
        return projected.row

    def learn(self, vectors: Iterable[tuple[Projection, Float64]]) -> None:
        """Learn from the vectors of a context, and keep the projections of new features."""
        for projection, vector in vectors:
            self._projections[projection.name] = projection
            projection.observe(vector)

    def snapshot(self) -> tuple[list[str], Arrays]:
        """Return the names of the features, and arrays."""
        arrays = {
            f"projection{number}.{name}": array
            for number, projection in enumerate(self._projections.values())
            for name, array in projection.snapshot().items()
        }
        return list(self._projections), arrays

    @classmethod
    def from_snapshot(cls, names: Iterable[str], arrays: Arrays) -> "Projections":
        """Restore the projections of a snapshot; raise ValueError or KeyError if it is invalid."""
        projections = cls()
        for number, name in enumerate(names):
            prefix = f"projection{number}."
            own = {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
            projections._projections[str(name)] = Projection.from_snapshot(str(name), own)
        return projections


def is_dense(values: Iterable[Any]) -> bool:
    """Return whether a list of values is one wide vector: numbers, most of which are not 0.

    >>> is_dense([0.5] * 200), is_dense([0.5] * 20), is_dense([0.0, 0.0, 1.0] * 100)
    (True, False, False)
    """
    listed = list(values)
    if len(listed) <= MAX_WIDTH:
        return False
    vector = to_vector(listed)
    return vector is not None and bool(2 * np.count_nonzero(vector) > vector.size)


def _is_wide(value: Any) -> bool:
    is_sequence = isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim == 1)
    return is_sequence and len(value) > MAX_WIDTH


def to_vector(value: Any) -> Float64 | None:
    """Return a vector of numbers; 0 replaces numbers that cannot be used. None if the value is no vector.

    >>> to_vector([1, None, 0.5]), to_vector("text"), to_vector(["a", "tag"])
    (array([1. , 0. , 0.5]), None, None)
    """
    if not isinstance(value, list | tuple | np.ndarray):
        return None
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):  # items of different shapes
        return None
    if array.dtype.kind == "O" and structure(value) == "vector":
        array = np.array([np.nan if item is None else item for item in value], np.float64)
    if array.ndim != 1 or array.dtype.kind not in "fiub" or not array.size:
        return None
    vector: Float64 = np.array(array, np.float64)
    unusable = ~(np.abs(vector) < MAX_COMPONENT)
    if unusable.any():
        vector[unusable] = 0
    return vector


@strict_kernel
def _dot(a: Float64, b: Float64) -> float:
    """Return a · b. Eight independent sums take half the time of one."""
    s0, s1, s2, s3, s4, s5, s6, s7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    whole = a.size - a.size % 8
    for i in range(0, whole, 8):
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
        s4 += a[i + 4] * b[i + 4]
        s5 += a[i + 5] * b[i + 5]
        s6 += a[i + 6] * b[i + 6]
        s7 += a[i + 7] * b[i + 7]
    for i in range(whole, a.size):
        s0 += a[i] * b[i]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@strict_kernel
def _project(directions: Float64, squares: Float64, vector: Float64, components: Float64) -> None:
    """Write the component of a vector in each direction."""
    for i in range(components.size):
        components[i] = _dot(directions[i], vector) / np.sqrt(squares[i]) if squares[i] > 0 else 0.0


@strict_kernel
def _observe(directions: Float64, squares: Float64, count: Int64, rest: Float64) -> None:
    """Move each direction toward what the directions before it leave of a vector, which is overwritten."""
    length = np.sqrt(_dot(rest, rest))
    if length == 0:
        return
    for j in range(rest.size):
        rest[j] /= length
    count[0] += 1
    rate = 1 / min(count[0], WINDOW)
    for i in range(squares.size):
        direction = directions[i]
        square = squares[i]
        if square == 0:  # the rest is the first estimate
            left = _dot(rest, rest)
            if left > 1e-12:
                for j in range(rest.size):
                    direction[j] = rest[j]
                squares[i] = left
            return
        pull = rate * _dot(direction, rest) / np.sqrt(square)
        for j in range(rest.size):
            direction[j] = (1 - rate) * direction[j] + pull * rest[j]
        square = _dot(direction, direction)
        squares[i] = square
        if square == 0:
            return
        share = _dot(direction, rest) / square
        for j in range(rest.size):
            rest[j] -= share * direction[j]
