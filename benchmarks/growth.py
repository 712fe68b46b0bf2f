"""How the time of a decision and of an update grows: with steps, arms, features and hyperplanes."""

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

import numpy as np

from benchmarks.bandits import Shape, full_bandit, public_step
from benchmarks.clock import Effort, Step, side_by_side
from benchmarks.promises import Promise
from benchmarks.table import BANDITS
from glcb.policies.glcb.policy import GLCB

Axis = Literal["steps", "arms", "features", "hyperplanes"]
Key = tuple[str, int]
"""A policy, and where it is on the axis."""


class Point(TypedDict):
    """One point of a curve; times are medians in µs."""

    axis: Axis
    policy: str
    at: int
    decide_us: float
    learn_us: float


_MAIN = Shape("binary", 94, 14)


@dataclass(frozen=True)
class Range:
    """Where the curves are measured."""

    steps: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    arms: tuple[int, ...] = (2, 5, 10, 20, 50, 100, 200, 500, 1_000)
    features: tuple[int, ...] = (2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000)
    hyperplanes: tuple[int, ...] = (1, 2, 4, 6, 8, 10, 12)
    main: Shape = _MAIN
    """What grows in steps, and in memory."""


_FEW_FEATURES, _FEW_ARMS = 16, 4
"""What stays as it is while something else grows."""
_FEW_HYPERPLANES = 4
"""The same, for all units: the full bank of the largest bandit must fit into memory."""


def measure(wanted: Range, effort: Effort) -> Iterator[list[Point]]:
    """Yield the points of one axis after the other."""
    rng = np.random.default_rng(0)
    yield _with_steps(wanted.main, wanted.steps, effort, rng)
    by_arms = {at: Shape("binary", _FEW_FEATURES, at) for at in wanted.arms}
    yield _with_shape("arms", by_arms, effort, rng)
    by_features = {at: Shape("binary", at, _FEW_ARMS) for at in wanted.features}
    yield _with_shape("features", by_features, effort, rng)
    shape = Shape("binary", 2 * _FEW_FEATURES, _FEW_ARMS)
    bandits = {
        ("glcb-paper", at): full_bandit("glcb-paper", shape, rng, hyperplanes=at) for at in wanted.hyperplanes
    }
    yield _points("hyperplanes", bandits, dict.fromkeys(bandits, shape), effort, rng)


def _with_steps(shape: Shape, steps: Sequence[int], effort: Effort, rng: np.random.Generator) -> list[Point]:
    """Let full bandits learn on, and measure copies of them, taken on the way, side by side at the end."""
    bandits: dict[Key, GLCB] = {}
    for policy in BANDITS:
        bandit = full_bandit(policy, shape, rng)
        for at in sorted(steps):
            while bandit.updates < at:
                arm = int(rng.integers(shape.arms))
                bandit.learn(rng.random(shape.features), arm, shape.reward(rng))
            bandits[policy, at] = copy.deepcopy(bandit)
    return _points("steps", bandits, dict.fromkeys(bandits, shape), effort, rng)


def _with_shape(
    axis: Axis, shapes: dict[int, Shape], effort: Effort, rng: np.random.Generator
) -> list[Point]:
    bandits = {
        (policy, at): full_bandit(policy, shape, rng, hyperplanes=_FEW_HYPERPLANES)
        for policy in BANDITS
        for at, shape in shapes.items()
    }
    return _points(axis, bandits, {key: shapes[key[1]] for key in bandits}, effort, rng)


def _points(
    axis: Axis,
    bandits: dict[Key, GLCB],
    shapes: dict[Key, Shape],
    effort: Effort,
    rng: np.random.Generator,
) -> list[Point]:
    steps: dict[Key, Step] = {key: public_step(bandits[key], shapes[key], rng) for key in bandits}
    times = side_by_side(steps, {key: shape.features for key, shape in shapes.items()}, effort, rng)
    return [
        {
            "axis": axis,
            "policy": policy,
            "at": at,
            "decide_us": taken["decide"].median,
            "learn_us": taken["learn"].median,
        }
        for (policy, at), taken in times.items()
    ]


def promises(points: Iterable[Point]) -> Iterator[Promise]:
    """Return what is promised about the last step as compared with the first."""
    along = [point for point in points if point["axis"] == "steps"]
    for policy in BANDITS:
        curve = sorted((point["at"], point["decide_us"]) for point in along if point["policy"] == policy)
        (first, early), (last, late) = curve[0], curve[-1]
        yield Promise(f"decide of {policy} after {last:,} steps ÷ after {first:,}", late / early, 1.1)
