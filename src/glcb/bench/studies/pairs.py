"""Two ways to play the same streams, side by side."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from glcb.bench.figures import figure
from glcb.bench.statistics import differences, mean_and_error
from glcb.bench.studies.base import gain, spread


@dataclass(frozen=True)
class Pair:
    """The total rewards on one task, seed by seed, in both ways."""

    task: str
    variant: str
    """Which policy played, or how."""
    before: list[float]
    after: list[float]

    @property
    def ratio(self) -> float:
        """Mean reward of the second way, as a share of the first."""
        return float(np.mean(self.after) / np.mean(self.before))

    @property
    def difference(self) -> str:
        """What the second way brings on average beyond the first, with an interval."""
        return gain(differences(self.after, self.before))


def table_of(pairs: Sequence[Pair], title: str, variant: str, before: str, after: str) -> Table:
    """Return both ways in columns; the other arguments are headings."""
    table = Table(title=f"{title}: mean ± s.e. of {len(pairs[0].before)} seeds")
    table.add_column("task")
    table.add_column(variant)
    for head in (before, after, "ratio", "difference, 95 %"):
        table.add_column(head, justify="right")
    for pair in pairs:
        rewards = (spread(pair.before, ",.0f"), spread(pair.after, ",.0f"))
        table.add_row(pair.task, pair.variant, *rewards, f"{pair.ratio:.1%}", pair.difference)
    return table


def drawing_of(pairs: Sequence[Pair], title: str, ylabel: str) -> Callable[[Path], None]:
    """Return what draws the ratio of both ways, by task and variant."""
    by_variant: Mapping[str, list[Pair]] = {
        variant: [pair for pair in pairs if pair.variant == variant]
        for variant in dict.fromkeys(pair.variant for pair in pairs)
    }
    tasks = list(dict.fromkeys(pair.task for pair in pairs))

    def draw(path: Path) -> None:
        with figure(path, width=1.5 + 1.6 * len(tasks), height=4) as (ax,):
            for shift, (variant, own) in enumerate(by_variant.items()):
                ratios = [
                    mean_and_error([100 * b / a for a, b in zip(one.before, one.after, strict=True)])
                    for one in own
                ]
                places = [tasks.index(pair.task) + 0.12 * (shift - (len(by_variant) - 1) / 2) for pair in own]
                means, errors = [mean for mean, _ in ratios], [error or 0.0 for _, error in ratios]
                ax.errorbar(places, means, errors, fmt="o", capsize=3, label=variant)
            ax.axhline(100, color="0.5", linewidth=0.8)
            ax.set(title=title, ylabel=ylabel)
            ax.set_xticks(range(len(tasks)), tasks)
            ax.legend(frameon=False)

    return draw
