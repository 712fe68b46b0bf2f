"""The door: everything that comes in from outside is checked here, before any state changes."""

import math
import numbers
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from glcb._errors import InvalidContext, InvalidInput, InvalidReward, InvalidSettings, UnknownArm
from glcb._numba.compile import kernel
from glcb._text import is_unicode
from glcb._types import Arm, Float32, Float64, Rewards

T = TypeVar("T")

MOST_ARMS = 100_000
MOST_FEATURES = 100_000
MOST_BYTES = 8 * 2**30
_NARROWEST, _FARTHEST = 1e-100, 1e100
"""Rewards within these limits can be squared."""
TOLERANCE = 1e-6
"""How far outside its range a value may lie and still be taken for rounding, and clipped."""
_NUMBERS = (numbers.Real, np.bool_)
_LIKE_INTEGERS = (bool, float, np.bool_, np.floating)
"""True and 1.0 would pass for 1 where an arm has that name."""


def whole_number(name: str, value: object, low: int, high: int) -> int:
    """Return ``value`` as an integer within [low, high]."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not low <= int(value) <= high:
        raise InvalidSettings(f"{name} must be a whole number from {low:,} to {high:,}, got {_shown(value)}")
    return int(value)


def several(name: str, value: object, check: Callable[[str, object], T]) -> tuple[T, ...]:
    """Return ``value``, a list of at least one, as a tuple of what ``check`` lets pass."""
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise InvalidSettings(f"{name} must be one or more numbers such as (1, 2), got {value!r}")
    return tuple(check(f"each number in {name}", part) for part in value)


def one_or_more(name: str, value: object, check: Callable[[str, object], T]) -> T | tuple[T, ...]:
    """Return ``value`` checked, whether it is one number or several."""
    return several(name, value, check) if isinstance(value, Sequence) else check(name, value)


def sizes(name: str, value: object) -> tuple[int, ...]:
    """Return ``value`` as a tuple of layer sizes."""
    return several(name, value, lambda what, size: whole_number(what, size, 1, 100_000))


def number(name: str, value: object, low: float, high: float = math.inf) -> float:
    """Return ``value`` as a finite number within [low, high]."""
    taken = _as_float(value)
    if not (low <= taken <= high and math.isfinite(taken)):
        limits = f"of at least {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
        raise InvalidSettings(f"{name} must be a number {limits}, got {_shown(value)}")
    return taken


def memory(needed: int, what: str) -> None:
    """Refuse sizes that no machine of ours could hold."""
    if needed > MOST_BYTES:
        raise InvalidSettings(
            f"{what} would need {needed / 2**30:,.0f} GiB at once, more than the {MOST_BYTES >> 30} GiB that "
            "glcb allows: use fewer arms, features, units or hyperplanes"
        )


def arms(given: object) -> tuple[Arm, ...]:
    """Return the names of the arms: those given, or 0, 1, 2, … for a number of arms."""
    if isinstance(given, numbers.Integral) and not isinstance(given, bool):
        return tuple(range(whole_number("arms", given, 1, MOST_ARMS)))
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidSettings(f"arms must be a number or a list of names, got {given!r}")
    names = tuple(name.item() if isinstance(name, np.generic) else name for name in given)
    if not 1 <= len(names) <= MOST_ARMS:
        raise InvalidSettings(f"there must be from 1 to {MOST_ARMS:,} arms, got {len(names):,}")
    for name in names:
        _arm_name(name)
    if len(set(names)) != len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise InvalidSettings(f"every arm needs a name of its own, {twice!r} occurs more than once")
    return names


def new_arm(given: object, index: Mapping[Arm, int]) -> Arm:
    """Return the name of an arm that is to join those in ``index``."""
    name = _arm_name(given.item() if isinstance(given, np.generic) else given)
    if name in index:
        raise InvalidSettings(f"there is an arm {name!r} already: every arm needs a name of its own")
    if len(index) == MOST_ARMS:
        raise InvalidSettings(f"there are {MOST_ARMS:,} arms already, more cannot be added")
    return name


def _arm_name(name: object) -> Arm:
    if isinstance(name, bool) or not isinstance(name, str | int):
        raise InvalidSettings(f"an arm's name must be a string or an integer, got {name!r}")
    if isinstance(name, str) and not is_unicode(name):
        raise InvalidSettings(f"an arm's name must be proper Unicode, which UTF-8 can hold, got {name!r}")
    return name


def rewards(given: object) -> Rewards:
    """Return the kind of reward, ``"binary"`` or a pair (lowest, highest)."""
    if isinstance(given, str) and given == "binary":
        return "binary"
    if isinstance(given, Sequence) and not isinstance(given, str) and len(given) == 2:
        low, high = map(_as_float, given)
        if high - low >= _NARROWEST and max(abs(low), abs(high)) <= _FARTHEST:
            return low, high
    raise InvalidSettings(
        f'rewards must be "binary" or (lowest, highest), at least {_NARROWEST:g} apart and within '
        f"±{_FARTHEST:g}, got {_shown(given)}"
    )


def arm(name: Arm, index: Mapping[Arm, int]) -> int:
    """Return the number of the arm called ``name``."""
    try:
        if isinstance(name, _LIKE_INTEGERS):
            raise TypeError
        return index[name]
    except (KeyError, TypeError):
        known = ", ".join(repr(arm) for arm in list(index)[:8]) + (", …" if len(index) > 8 else "")
        raise UnknownArm(f"there is no arm {name!r}; the arms are {known}") from None


def eligible(names: Iterable[Arm], index: Mapping[Arm, int]) -> list[int]:
    """Return the numbers of the eligible arms, in the order of the arms."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise UnknownArm(f"eligible must be a list of arms, got {names!r}")
    allowed = sorted({arm(name, index) for name in names})
    if not allowed:
        raise UnknownArm("eligible is empty: name at least one arm, or leave it out to allow all")
    return allowed


def listed(name: str, values: object, length: int) -> list[Any]:
    """Return ``values`` as a list of that length."""
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise InvalidInput(f"{name} must be a list, got {_shown(values)}")
    taken = list(values)
    if len(taken) != length:
        raise InvalidInput(f"there must be as many {name} as contexts, {length}, got {len(taken)}")
    return taken


def reward(value: object, kind: Rewards) -> float:
    """Return ``value`` as a number that is a possible reward."""
    taken = _as_float(value)
    if kind == "binary":
        if taken in (0, 1):
            return taken
        raise InvalidReward(
            f"the reward must be 0 or 1, got {_shown(value)}; for other rewards say rewards=(lowest, highest)"
        )
    low, high = kind
    slack = TOLERANCE * (high - low)
    if not low - slack <= taken <= high + slack:
        raise InvalidReward(f"the reward must be a number from {low:g} to {high:g}, got {_shown(value)}")
    return min(max(taken, low), high)


def context(x: ArrayLike, features: int) -> Float32:
    """Return ``x`` as a fresh float32 array within [0, 1]."""
    given = x if type(x) is np.ndarray and x.dtype.kind == "f" else _numbers(x, features)
    if given.shape != (features,):
        raise InvalidContext(
            f"a context must have the shape ({features},), got {given.shape}: pass one context at a time, "
            "with one number per feature"
        )
    return _within_unit(given, features)


def contexts(rows: ArrayLike, features: int) -> Float32:
    """Return ``rows``, one context each, as a fresh float32 array within [0, 1]."""
    given = _numbers(rows, features)
    if given.shape == (0,):
        given = given.reshape(0, features)
    if given.ndim != 2 or given.shape[1] != features:
        raise InvalidContext(
            f"contexts must have the shape (number of contexts, {features}), got {given.shape}: pass one row "
            "per context, with one number per feature"
        )
    return _within_unit(given, features)


def _numbers(x: ArrayLike, features: int) -> np.ndarray:
    """Return ``x`` as an array of numbers of whatever shape."""
    try:
        given = np.asarray(x)
    except (ValueError, TypeError) as error:
        raise InvalidContext(f"a context must be {features} numbers: {error}") from None
    if isinstance(x, np.ma.MaskedArray):
        raise InvalidContext("a context must not have masked values: fill them in first")
    if given.dtype.kind not in "fiub":
        raise InvalidContext(
            f"a context must be {features} numbers, got {given.dtype} values: "
            "encode categories as numbers first"
        )
    return given


def _within_unit(given: np.ndarray, features: int) -> Float32:
    """Return the numbers as float32, clipped to [0, 1] if they are within but for rounding."""
    taken = np.empty(given.shape, np.float32)
    wrong = _take_unit(np.array(given, np.float64, order="C").reshape(-1), taken.reshape(-1))
    if wrong >= 0:
        row, feature = divmod(wrong, features)
        where = "the context" if given.ndim == 1 else f"context {row}"
        raise InvalidContext(
            f"feature {feature} of {where} must be a number within [0, 1], got "
            f"{_shown(given.ravel()[wrong])}: scale features to [0, 1] and fill in missing ones first"
        )
    return taken


@kernel
def _take_unit(x: Float64, taken: Float32) -> int:
    """Copy ``x``, clipped; return the first feature too far outside [0, 1] or not a number, or −1."""
    for i in range(x.size):
        if not (-TOLERANCE <= x[i] <= 1 + TOLERANCE):
            return i
        taken[i] = min(max(x[i], 0.0), 1.0)
    return -1


def _as_float(value: object) -> float:
    """Return ``value`` as a float; what is no number, or too large for one, becomes NaN."""
    if type(value) is float:
        return value
    try:
        return float(value) if isinstance(value, _NUMBERS) else math.nan
    except OverflowError:
        return math.nan


def _shown(value: object) -> str:
    """Return what came in, short enough for a message."""
    try:
        return reprlib.repr(value.item() if isinstance(value, np.generic) else value)
    except ValueError:  # thousands of digits
        return "something too long to be shown"
