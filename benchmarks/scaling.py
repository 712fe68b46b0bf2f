"""How times scale with steps, arms, features and hyperplanes: measured, fitted and drawn."""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypedDict

import numpy as np
from rich.table import Table

from benchmarks.bandits import Shape, full_bandit, public_step
from benchmarks.table import BANDITS
from benchmarks.targets import Target
from benchmarks.timing import Effort, Step, side_by_side
from glcb._arrays import Float64
from glcb.bench.figures import figure
from glcb.policies.glcb.policy import GLCB

Axis = Literal["steps", "arms", "features", "hyperplanes"]
Measured = Literal["decide_us", "learn_us"]
Key = tuple[str, int]
"""A policy and its position on the axis."""
Memory = Mapping[str, Sequence[tuple[int, float, int]]]
"""Steps, megabytes and allocated cells, for each policy."""


class Point(TypedDict):
    """One point of a curve; times are medians in µs."""

    axis: Axis
    policy: str
    at: int
    decide_us: float
    learn_us: float


@dataclass(frozen=True)
class Range:
    """The positions at which the curves are measured."""

    steps: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    arms: tuple[int, ...] = (2, 5, 10, 20, 50, 100, 200, 500, 1_000)
    features: tuple[int, ...] = (2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000)
    hyperplanes: tuple[int, ...] = (1, 2, 4, 6, 8, 10, 12)
    main: Shape = Shape("binary", 94, 14)  # noqa: RUF009 - immutable
    """The shape whose time and memory are measured over steps."""


_FEW_FEATURES, _FEW_ARMS = 16, 4
"""Sizes that stay fixed while another one grows."""
_FEW_HYPERPLANES = 4
"""Hyperplanes per unit, few enough that the full bank of the largest policy fits into memory."""


def measure(ranges: Range, effort: Effort) -> Iterator[list[Point]]:
    """Yield the points of one axis after the other."""
    rng = np.random.default_rng(0)
    yield _over_steps(ranges.main, ranges.steps, effort, rng)
    by_arms = {at: Shape("binary", _FEW_FEATURES, at) for at in ranges.arms}
    yield _over_shapes("arms", by_arms, effort, rng)
    by_features = {at: Shape("binary", at, _FEW_ARMS) for at in ranges.features}
    yield _over_shapes("features", by_features, effort, rng)
    shape = Shape("binary", 2 * _FEW_FEATURES, _FEW_ARMS)
    bandits = {
        ("glcb-paper", at): full_bandit("glcb-paper", shape, rng, hyperplanes=at) for at in ranges.hyperplanes
    }
    yield _points("hyperplanes", bandits, dict.fromkeys(bandits, shape), effort, rng)


def _over_steps(shape: Shape, steps: Sequence[int], effort: Effort, rng: np.random.Generator) -> list[Point]:
    """Train full policies, copy them at each position, and time the copies side by side at the end."""
    bandits: dict[Key, GLCB] = {}
    for policy in BANDITS:
        bandit = full_bandit(policy, shape, rng)
        for at in sorted(steps):
            while bandit.updates < at:
                arm = int(rng.integers(shape.arms))
                bandit.learn(rng.random(shape.features), arm, shape.reward(rng))
            bandits[policy, at] = copy.deepcopy(bandit)
    return _points("steps", bandits, dict.fromkeys(bandits, shape), effort, rng)


def _over_shapes(
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


def targets(points: Iterable[Point]) -> Iterator[Target]:
    """Yield the targets for the time after the most steps, relative to the fewest."""
    along = [point for point in points if point["axis"] == "steps"]
    for policy in BANDITS:
        curve = sorted((point["at"], point["decide_us"]) for point in along if point["policy"] == policy)
        (first, early), (last, late) = curve[0], curve[-1]
        yield Target(f"{policy} decide after {last:,} steps ÷ after {first:,} steps", late / early, 1.1)


class Panel(NamedTuple):
    """One panel of the figure."""

    axis: Axis
    measured: Measured
    degrees: dict[str, int]
    """Degree of the polynomial expected for each policy."""


PANELS = (
    Panel("steps", "decide_us", {"glcb": 0, "glcb-paper": 0}),
    Panel("arms", "decide_us", {"glcb": 1, "glcb-paper": 1}),
    Panel("features", "decide_us", {"glcb": 1, "glcb-paper": 1}),
    Panel("features", "learn_us", {"glcb": 2, "glcb-paper": 1}),
    Panel("hyperplanes", "decide_us", {"glcb-paper": 1}),
)


@dataclass(frozen=True, eq=False)
class Fit:
    """A measured curve and the polynomial with the least relative squared error."""

    panel: Panel
    policy: str
    at: Float64
    us: Float64
    coefficients: Float64
    """In order of increasing power."""

    @property
    def fitted(self) -> Float64:
        """The µs predicted by the polynomial."""
        return np.polynomial.polynomial.polyval(self.at, self.coefficients).astype(np.float64)

    @property
    def max_error(self) -> float:
        """The largest relative error."""
        return float(np.abs(self.us / self.fitted - 1).max())

    def __str__(self) -> str:
        text = f"{self.coefficients[0]:.3g}"
        for factor, power in zip(self.coefficients[1:], ("", "²"), strict=False):
            text += f" {'−' if factor < 0 else '+'} {abs(factor):.3g}·{self.panel.axis}{power}"
        return text


def fits(points: Sequence[Point], panel: Panel) -> Iterator[Fit]:
    """Yield the fit of each policy in one panel."""
    for policy, degree in panel.degrees.items():
        curve = sorted(
            (point["at"], point[panel.measured])
            for point in points
            if point["axis"] == panel.axis and point["policy"] == policy
        )
        at, us = np.array(curve, np.float64).T
        yield Fit(panel, policy, at, us, np.polynomial.polynomial.polyfit(at, us, degree, w=1 / us))


def scaling_table(points: Sequence[Point]) -> Table:
    """Return a table of all fits for the terminal."""
    table = Table(title="Scaling", title_justify="left")
    for heading in ("call", "axis", "policy", "µs", "largest relative error"):
        table.add_column(heading)
    for panel in PANELS:
        for fit in fits(points, panel):
            call = "decide" if panel.measured == "decide_us" else "learn"
            table.add_row(call, panel.axis, fit.policy, str(fit), f"{fit.max_error:.0%}")
    return table


def draw(path: Path, points: Sequence[Point], memory: Memory) -> None:
    """Draw every curve with its fit as a dotted line, and memory over steps."""
    with figure(path, width=13, height=7.5, columns=3, rows=2) as panels:
        for ax, panel in zip(panels, PANELS, strict=False):
            for fit in fits(points, panel):
                line = ax.plot(fit.at, fit.us, marker="o", markersize=3, label=fit.policy)[0]
                ax.plot(fit.at, fit.fitted, ":", color=line.get_color(), label=f"{fit} µs")
            ax.set_xlabel(panel.axis)
            ax.set_ylabel("µs per decision" if panel.measured == "decide_us" else "µs per update")
            ax.set_xscale("linear" if panel.axis == "hyperplanes" else "log")
            ax.set_yscale("linear" if panel.axis in ("steps", "hyperplanes") else "log")
            ax.set_ylim(bottom=None if ax.get_yscale() == "log" else 0)
            ax.legend(frameon=False, fontsize="small")
        ax = panels[-1]
        for policy, curve in memory.items():
            steps, megabytes, _ = zip(*curve, strict=True)
            ax.plot(steps, megabytes, marker="o", markersize=3, label=policy)
        ax.set_xscale("symlog", linthresh=1)
        ax.set_xlabel("steps")
        ax.set_ylabel("resident MB of the policy")
        if memory:
            ax.legend(frameon=False, fontsize="small")
