"""The law that each curve should follow, fitted to it: a constant, a line, or a line and one square."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from rich.table import Table

from benchmarks.growth import Axis, Point
from glcb._types import Float64

Measured = Literal["decide_us", "learn_us"]


class Panel(NamedTuple):
    """One kind of curve."""

    axis: Axis
    measured: Measured
    powers: dict[str, int]
    """The highest power in the law of each policy."""


PANELS = (
    Panel("steps", "decide_us", {"glcb": 0, "glcb-paper": 0}),
    Panel("arms", "decide_us", {"glcb": 1, "glcb-paper": 1}),
    Panel("features", "decide_us", {"glcb": 1, "glcb-paper": 1}),
    Panel("features", "learn_us", {"glcb": 2, "glcb-paper": 1}),
    Panel("hyperplanes", "decide_us", {"glcb-paper": 1}),
)


@dataclass(frozen=True, eq=False)
class Law:
    """A curve and the polynomial that comes nearest to it, in relative terms."""

    panel: Panel
    policy: str
    at: Float64
    us: Float64
    factors: Float64
    """Of each power, the constant first."""

    @property
    def fitted(self) -> Float64:
        """The µs that the law says."""
        return np.polynomial.polynomial.polyval(self.at, self.factors).astype(np.float64)

    @property
    def off(self) -> float:
        """By which share the farthest point lies off the law."""
        return float(np.abs(self.us / self.fitted - 1).max())

    def __str__(self) -> str:
        text = f"{self.factors[0]:.3g}"
        for factor, power in zip(self.factors[1:], ("", "²"), strict=False):
            text += f" {'−' if factor < 0 else '+'} {abs(factor):.3g}·{self.panel.axis}{power}"
        return text


def laws(points: Sequence[Point], panel: Panel) -> Iterator[Law]:
    """Return the laws of one kind of curve, fitted to what was measured."""
    for policy, power in panel.powers.items():
        curve = sorted(
            (point["at"], point[panel.measured])
            for point in points
            if point["axis"] == panel.axis and point["policy"] == policy
        )
        at, us = np.array(curve, np.float64).T
        yield Law(panel, policy, at, us, np.polynomial.polynomial.polyfit(at, us, power, w=1 / us))


def shown(points: Sequence[Point]) -> Table:
    """Return all laws for the screen."""
    table = Table(title="Growth", title_justify="left")
    for heading in ("of", "with", "policy", "µs", "farthest point off by"):
        table.add_column(heading)
    for panel in PANELS:
        for law in laws(points, panel):
            what = "decide" if panel.measured == "decide_us" else "learn"
            table.add_row(what, panel.axis, law.policy, str(law), f"{law.off:.0%}")
    return table
