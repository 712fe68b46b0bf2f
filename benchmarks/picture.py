"""All curves in one picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.growth import Point
from benchmarks.laws import PANELS, laws
from glcb.bench.figures import figure

Memory = Mapping[str, Sequence[tuple[int, float, int]]]
"""Steps, megabytes and visited cells, for each policy."""


def draw(path: Path, points: Sequence[Point], memory: Memory) -> None:
    """Draw every curve with its law as a dotted line, and memory against steps."""
    with figure(path, width=13, height=7.5, columns=3, rows=2) as panels:
        for ax, panel in zip(panels, PANELS, strict=False):
            for law in laws(points, panel):
                line = ax.plot(law.at, law.us, marker="o", markersize=3, label=law.policy)[0]
                ax.plot(law.at, law.fitted, ":", color=line.get_color(), label=f"{law} µs")
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
        ax.set_ylabel("resident MB of the bandit")
        if memory:
            ax.legend(frameon=False, fontsize="small")
