"""The paper's Figure 1: the effect of training on one point on the predictions elsewhere.

A point shares the weights of a unit with all points on the same sides of the unit's hyperplanes. Training
therefore changes nearby predictions most, and other predictions less, the fewer half-spaces they share.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from rich.table import Table

from glcb._arrays import Float32, Float64
from glcb.bench.figures import figure
from glcb.bench.statistics import format_mean
from glcb.bench.studies.base import Progress, Study, StudyResult, unit_grid
from glcb.gln import Bank, Gates
from glcb.policies.glcb.settings import PAPER_BINARY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HYPERPLANES = (1, 2, 4, 8)
UPDATES = (1, 10)
POINT = np.array([0.7, 0.62], np.float32)
"""The training point; its target is 1."""
_NEAR, _FAR = 0.9, 0.5
"""Thresholds of the share of half-spaces shared with the training point."""


@dataclass(frozen=True, eq=False)
class Imprint:
    """Effect of the training on a network; maps have one value per grid point."""

    gates: Gates
    shared: Float64
    """Share of all half-spaces shared with the training point."""
    changes: tuple[Float64, ...]
    """Change of the prediction after each of ``UPDATES``."""

    @property
    def correlation(self) -> float:
        """Correlation of the change with the share of half-spaces, after the last update."""
        return float(np.corrcoef(self.shared.ravel(), np.abs(self.changes[-1]).ravel())[0, 1])

    def change(self, low: float, high: float) -> float:
        """Return the mean absolute change where the share lies between ``low`` and ``high``."""
        inside = (self.shared >= low) & (self.shared <= high)
        return float(np.abs(self.changes[-1][inside]).mean()) if inside.any() else 0.0


def imprint(hyperplanes: int, seed: int, resolution: int) -> Imprint:
    """Train a new network on the point and measure the changes on a grid of the unit square."""
    paper = PAPER_BINARY
    gates = Gates(2, [hyperplanes] * sum(paper.layers), paper.bias_scale, np.random.default_rng(seed))
    bank = Bank(2, 1, paper.layers, gates.max_signatures, clip=paper.clip, bias=paper.bias)
    points = unit_grid(resolution)
    before = _predictions(bank, gates, points)
    changes = []
    for update in range(max(UPDATES)):
        bank.learn(
            POINT,
            gates.signature(POINT),
            np.zeros(1, np.int64),
            np.ones(1, np.float32),
            paper.learning_rate / (1 + paper.learning_rate_decay * update),
            min(1.0, paper.switching_rate / (1 + paper.switching_rate_decay * update)),
        )
        if update + 1 in UPDATES:
            changes.append((_predictions(bank, gates, points) - before).reshape(resolution, resolution))
    shared = shared_half_spaces(gates, points).reshape(resolution, resolution)
    return Imprint(gates, shared, tuple(changes))


def shared_half_spaces(gates: Gates, points: Float32) -> Float64:
    """Return the share of all half-spaces that each point shares with the training point."""
    sides = np.vstack([points, POINT]) @ gates.normals.T > gates.thresholds
    shares: Float64 = (sides[:-1] == sides[-1]).mean(axis=1)
    return shares


def _predictions(bank: Bank, gates: Gates, points: Float32) -> Float64:
    return np.array([bank.predict(x, gates.signature(x))[0] for x in points], np.float64)


@dataclass(frozen=True, kw_only=True)
class Gating(Study):
    """Train networks with 1, 2, 4 and 8 hyperplanes per unit on one point."""

    name: ClassVar[str] = "gating"
    question: ClassVar[str] = "How does training on one point change predictions elsewhere?"

    seeds: int = 10
    resolution: int = 100
    """Grid points per side of the square."""

    @classmethod
    def quick(cls) -> Self:
        """Return a version with a coarse grid."""
        return cls(seeds=3, resolution=40)

    def run(self, progress: Progress) -> StudyResult:
        """Train one network for each number of hyperplanes and each seed."""
        total = len(HYPERPLANES) * self.seeds
        imprints: list[list[Imprint]] = []
        for hyperplanes in HYPERPLANES:
            imprints.append([])
            for seed in range(self.seeds):
                imprints[-1].append(imprint(hyperplanes, seed, self.resolution))
                progress(sum(map(len, imprints)), total)
        return StudyResult([_table(imprints)], _remarks(imprints), lambda path: _draw(path, imprints))


def _table(imprints: list[list[Imprint]]) -> Table:
    table = Table(
        title=f"Change of the prediction after {UPDATES[-1]} updates: mean ± s.e. of {len(imprints[0])} seeds"
    )
    for heading in (
        "hyperplanes",
        f"≥ {_NEAR:.0%} shared",
        f"{_FAR:.0%} to {_NEAR:.0%}",
        f"< {_FAR:.0%}",
        "correlation",
    ):
        table.add_column(heading, justify="right")
    for hyperplanes, own in zip(HYPERPLANES, imprints, strict=True):
        bands = ((_NEAR, 1.0), (_FAR, _NEAR), (0.0, _FAR))
        cells = [format_mean([one.change(low, high) for one in own], ".3f") for low, high in bands]
        table.add_row(str(hyperplanes), *cells, format_mean([one.correlation for one in own], ".2f"))
    return table


def _remarks(imprints: list[list[Imprint]]) -> list[str]:
    few, many = (float(np.mean([one.change(0.0, _FAR) for one in imprints[at]])) for at in (0, -1))
    falls = float(np.mean([(one.changes[-1] < 0).mean() for one in imprints[0]]))
    return [
        "Correlation: between the change of a prediction and the share of common half-spaces.",
        f"Where less than {_FAR:.0%} of the half-spaces are shared, predictions change by {few:.4f} with "
        f"{HYPERPLANES[0]} hyperplane per unit and by {many:.4f} with {HYPERPLANES[-1]}.",
        f"With {HYPERPLANES[0]} hyperplane, predictions decrease on {falls:.0%} of the square although the "
        "target was 1: where weights are shared, inputs of the opposite sign reverse the change.",
    ]


def _draw(path: Path, imprints: list[list[Imprint]]) -> None:
    first = [own[0] for own in imprints]
    columns, rows = len(first), 1 + len(UPDATES)
    with figure(path, width=3.3 * columns, height=3.1 * rows, columns=columns, rows=rows) as axes:
        for row, updates in enumerate(UPDATES):
            label = f"change after {updates} update{'s' if updates > 1 else ''}"
            maps = [one.changes[row] for one in first]
            largest = float(np.abs(maps).max())
            _draw_row(axes[row * columns : (row + 1) * columns], first, maps, label, (-largest, largest))
        _draw_row(axes[-columns:], first, [one.shared for one in first], "half-spaces shared with ×", (0, 1))
        for ax, hyperplanes in zip(axes, HYPERPLANES, strict=False):
            ax.set_title(f"{hyperplanes} hyperplane{'s' if hyperplanes > 1 else ''} per unit")


def _draw_row(
    axes: Sequence["Axes"],
    imprints: list[Imprint],
    maps: list[Float64],
    label: str,
    limits: tuple[float, float],
) -> None:
    """Draw one map per imprint, with the point, the hyperplanes of the first unit and one color bar."""
    colors = "RdBu_r" if limits[0] < 0 else "viridis"
    for ax, one, content in zip(axes, imprints, maps, strict=True):
        image = ax.imshow(
            content, origin="lower", extent=(0, 1, 0, 1), cmap=colors, vmin=limits[0], vmax=limits[1]
        )
        own = slice(int(one.gates.hyperplanes[0]))
        for normal, threshold in zip(one.gates.normals[own], one.gates.thresholds[own], strict=True):
            x, y = threshold * normal  # the point of the line closest to the origin
            second = (x - normal[1], y + normal[0])
            ax.axline((x, y), second, color="black", linewidth=0.8, linestyle="--")
        ax.plot(*POINT, marker="x", color="black", markersize=8, markeredgewidth=2)
        ax.set(xlim=(0, 1), ylim=(0, 1), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
        ax.grid(visible=False)
    axes[0].figure.colorbar(image, ax=list(axes), label=label, pad=0.01)
