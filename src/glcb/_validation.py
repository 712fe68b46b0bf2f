"""Validation of inputs.

Each function is named after its input and returns the input in canonical form. All inputs are checked before
any state changes.
"""

import math
import numbers
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from glcb._arrays import Float32, Float64
from glcb._errors import InvalidContext, InvalidInput, InvalidReward, InvalidSettings, UnknownArm
from glcb._numba.compile import kernel
from glcb._text import is_unicode
from glcb._types import Arm, Rewards

T = TypeVar("T")

MAX_ARMS = 100_000
MAX_BYTES = 8 * 2**30
_memory_limit: ContextVar[int | None] = ContextVar("memory_limit", default=None)
_MIN_REWARD_SPAN, _MAX_REWARD = 1e-100, 1e100
"""Rewards within these limits can be squared without overflow or underflow."""
TOLERANCE = 1e-6
"""Values outside their range by at most this much are treated as rounding errors and clipped."""
_NUMBERS = (numbers.Real, np.bool_)
_EQUAL_TO_INTEGERS = (bool, float, np.bool_, np.floating)
"""Types that are not valid arm names, although True and 1.0 would match an arm named 1."""


def integer(name: str, value: object, low: int, high: int) -> int:
    """Return ``value`` as an integer within [low, high]."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not low <= int(value) <= high:
        raise InvalidSettings(f"{name} must be an integer from {low:,} to {high:,}, got {_shown(value)}")
    return int(value)


def number(name: str, value: object, low: float, high: float = math.inf) -> float:
    """Return ``value`` as a finite float within [low, high]."""
    converted = _as_float(value)
    if not (low <= converted <= high and math.isfinite(converted)):
        limits = f"of at least {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
        raise InvalidSettings(f"{name} must be a number {limits}, got {_shown(value)}")
    return converted


def tuple_of(name: str, value: object, check: Callable[[str, object], T]) -> tuple[T, ...]:
    """Return ``value``, a non-empty sequence of numbers, as a tuple of checked numbers."""
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise InvalidSettings(
            f"{name} must be a non-empty sequence of numbers such as (1, 2), got {_shown(value)}"
        )
    return tuple(check(f"each number in {name}", item) for item in value)


def one_or_more(name: str, value: object, check: Callable[[str, object], T]) -> T | tuple[T, ...]:
    """Return ``value``, a number or a non-empty sequence of numbers, checked."""
    return tuple_of(name, value, check) if isinstance(value, Sequence) else check(name, value)


def list_of_length(name: str, values: object, length: int) -> list[Any]:
    """Return ``values``, one per context, as a list."""
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise InvalidInput(f"{name} must be a list, got {_shown(values)}")
    converted = list(values)
    if len(converted) != length:
        raise InvalidInput(f"{name} must have one entry per context: expected {length}, got {len(converted)}")
    return converted


@contextmanager
def about(field: str) -> Iterator[None]:
    """Name the argument that causes any InvalidSettings raised in this block.

    >>> try:
    ...     with about("holdout"):
    ...         number("holdout", 2, 0, 1)
    ... except InvalidSettings as error:
    ...     error.field
    'holdout'
    """
    try:
        yield
    except InvalidSettings as error:
        error.field = error.field or field
        raise


@contextmanager
def memory_limit(limit: int) -> Iterator[None]:
    """Limit the memory, in bytes, to which a policy created in this block can grow."""
    token = _memory_limit.set(limit)
    try:
        yield
    finally:
        _memory_limit.reset(token)


def check_memory(needed: int, what: str, grown: int = 0) -> None:
    """Raise InvalidSettings if ``what`` needs more memory than glcb allows.

    Within :func:`memory_limit`, the memory after growth must not exceed the limit either.
    """
    limit, own_limit = MAX_BYTES, _memory_limit.get()
    if own_limit is not None:
        limit, needed = own_limit, max(needed, grown)
    if needed > limit:
        raise InvalidSettings(
            f"{what} would need {needed / 2**30:,.1f} GiB, more than the limit of {limit / 2**30:,.1f} GiB; "
            "use fewer arms, features, units or hyperplanes"
        )


def arms(value: object) -> tuple[Arm, ...]:
    """Return the names of the arms; for a number of arms, these are 0, 1, 2, …"""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return tuple(range(integer("arms", value, 1, MAX_ARMS)))
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidSettings(f"arms must be a number or a list of names, got {value!r}")
    names = tuple(name.item() if isinstance(name, np.generic) else name for name in value)
    if not 1 <= len(names) <= MAX_ARMS:
        raise InvalidSettings(f"arms must have 1 to {MAX_ARMS:,} names, got {len(names):,}")
    for name in names:
        _arm_name(name)
    if len(set(names)) != len(names):
        duplicate = next(name for name, count in Counter(names).items() if count > 1)
        raise InvalidSettings(f"the names of arms must be unique; {duplicate!r} occurs more than once")
    return names


def new_arm(value: object, index: Mapping[Arm, int]) -> Arm:
    """Return the name of a new arm that is not in ``index``."""
    name = _arm_name(value.item() if isinstance(value, np.generic) else value)
    if name in index:
        raise InvalidSettings(f"the names of arms must be unique; there is already an arm {name!r}")
    if len(index) == MAX_ARMS:
        raise InvalidSettings(f"cannot add an arm: there are already {MAX_ARMS:,} arms, the maximum")
    return name


def _arm_name(name: object) -> Arm:
    if isinstance(name, bool) or not isinstance(name, str | int):
        raise InvalidSettings(f"the name of an arm must be a string or an integer, got {name!r}")
    if isinstance(name, str) and not is_unicode(name):
        raise InvalidSettings(f"the name of an arm must be valid Unicode, got {name!r}")
    return name


def rewards(value: object) -> Rewards:
    """Return the range of rewards, ``"binary"`` or a pair (lowest, highest)."""
    if isinstance(value, str) and value == "binary":
        return "binary"
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2:
        low, high = map(_as_float, value)
        if high - low >= _MIN_REWARD_SPAN and max(abs(low), abs(high)) <= _MAX_REWARD:
            return low, high
    raise InvalidSettings(
        f'rewards must be "binary" or (low, high), at least {_MIN_REWARD_SPAN:g} apart and within '
        f"±{_MAX_REWARD:g}, got {_shown(value)}"
    )


def reward(value: object, rewards: Rewards) -> float:
    """Return ``value`` as a float within the range of rewards."""
    converted = _as_float(value)
    if rewards == "binary":
        if converted in (0, 1):
            return converted
        raise InvalidReward(
            f"reward must be 0 or 1, got {_shown(value)}; pass rewards=(low, high) for other ranges"
        )
    low, high = rewards
    slack = TOLERANCE * (high - low)
    if not low - slack <= converted <= high + slack:
        raise InvalidReward(f"reward must be a number from {low:g} to {high:g}, got {_shown(value)}")
    return min(max(converted, low), high)


def arm(name: Arm, index: Mapping[Arm, int]) -> int:
    """Return the index of the arm called ``name``."""
    try:
        if isinstance(name, _EQUAL_TO_INTEGERS):
            raise TypeError
        return index[name]
    except (KeyError, TypeError):
        names = ", ".join(repr(arm) for arm in list(index)[:8]) + (", …" if len(index) > 8 else "")
        raise UnknownArm(f"there is no arm {name!r}; the arms are {names}") from None


def eligible(names: Iterable[Arm], index: Mapping[Arm, int]) -> list[int]:
    """Return the indices of the eligible arms, in the order of the arms."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise UnknownArm(f"eligible must be a list of arms, got {names!r}")
    allowed = sorted({arm(name, index) for name in names})
    if not allowed:
        raise UnknownArm("eligible must have at least one arm, got none; omit it to allow all arms")
    return allowed


def context(x: ArrayLike, features: int) -> Float32:
    """Return ``x`` as a new float32 array within [0, 1]."""
    values = x if type(x) is np.ndarray and x.dtype.kind == "f" else _numeric(x, features)
    if values.shape != (features,):
        raise InvalidContext(
            f"a context must have the shape ({features},), got {values.shape}; pass a single context with "
            "one number per feature"
        )
    return _within_unit_interval(values, features)


def contexts(rows: ArrayLike, features: int) -> Float32:
    """Return ``rows``, one context each, as a new float32 array within [0, 1]."""
    values = _numeric(rows, features)
    if values.shape == (0,):
        values = values.reshape(0, features)
    if values.ndim != 2 or values.shape[1] != features:
        raise InvalidContext(
            f"contexts must have the shape (number of contexts, {features}), got {values.shape}; pass one "
            "row per context with one number per feature"
        )
    return _within_unit_interval(values, features)


def _numeric(x: ArrayLike, features: int) -> np.ndarray:
    """Return ``x`` as a numeric array of any shape."""
    try:
        values = np.asarray(x)
    except (ValueError, TypeError) as error:
        raise InvalidContext(f"a context must have {features} numbers: {error}") from None
    if isinstance(x, np.ma.MaskedArray):
        raise InvalidContext("a context must not be a masked array; fill in the masked values first")
    if values.dtype.kind not in "fiub":
        raise InvalidContext(
            f"a context must have {features} numbers, got {values.dtype} values; encode categories as numbers"
        )
    return values


def _within_unit_interval(values: np.ndarray, features: int) -> Float32:
    """Return ``values`` as float32, with rounding errors outside [0, 1] clipped."""
    result = np.empty(values.shape, np.float32)
    invalid = _clip_to_unit_interval(np.array(values, np.float64, order="C").reshape(-1), result.reshape(-1))
    if invalid >= 0:
        row, feature = divmod(invalid, features)
        where = "the context" if values.ndim == 1 else f"context {row}"
        raise InvalidContext(
            f"feature {feature} of {where} must be a number within [0, 1], got "
            f"{_shown(values.ravel()[invalid])}; scale features to [0, 1] and fill in missing values"
        )
    return result


@kernel
def _clip_to_unit_interval(x: Float64, result: Float32) -> int:
    """Write ``x``, clipped; return the first index that is NaN or too far outside [0, 1], or −1."""
    for i in range(x.size):
        if not (-TOLERANCE <= x[i] <= 1 + TOLERANCE):
            return i
        result[i] = min(max(x[i], 0.0), 1.0)
    return -1


def _as_float(value: object) -> float:
    """Return ``value`` as a float, or NaN if it is not a number or too large."""
    if type(value) is float:
        return value
    try:
        return float(value) if isinstance(value, _NUMBERS) else math.nan
    except OverflowError:
        return math.nan


def _shown(value: object) -> str:
    """Return a short representation of ``value`` for an error message."""
    try:
        return reprlib.repr(value.item() if isinstance(value, np.generic) else value)
    except ValueError:  # an integer with thousands of digits
        return "a value too long to show"
