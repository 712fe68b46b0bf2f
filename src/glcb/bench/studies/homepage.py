"""Articles on a homepage, with clicks that are reported late or never, and articles that come and go."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

import numpy as np
from rich.table import Table

from glcb.bench.figures import figure
from glcb.bench.statistics import mean_and_error
from glcb.bench.studies.base import Study, StudyContext, StudyResult, format_mean
from glcb.bench.studies.homepage_visits import (
    MODEL,
    PARTLY_SIMILAR,
    SIMILAR,
    UNLIKE,
    VISITS,
    Setup,
    available_policies,
    lift,
    make_homepage,
)
from glcb.bench.studies.registry import register
from glcb.bench.studies.stored import StoredResults

WINDOWS: Mapping[str, float | None] = {"no delay": None, "30 min": 1800.0, "2 h": 7200.0, "24 h": 86_400.0}
CLICK_RATES = (0.05, 0.2)
_BASE = Setup(window=WINDOWS["2 h"])
"""The default policy with a window of two hours, which the smaller comparisons vary."""


class Cell(NamedTuple):
    """One lift of a table, for every seed."""

    setup: Setup
    click_rate: float = CLICK_RATES[0]
    similarity: float = UNLIKE
    delay_ratio: float = 1.0


Comparison = Mapping[str, Mapping[str, Cell]]
"""Cells by row and column."""


def policy_comparison(policies: Sequence[str], click_rate: float) -> Comparison:
    """Return the windows as rows and the policies as columns."""
    return {
        name: {policy: Cell(Setup(policy, window), click_rate) for policy in policies}
        for name, window in WINDOWS.items()
    }


NEW_ARTICLE: Comparison = {
    f"{name}, {rate:.0%}": {
        "not added": Cell(_BASE._replace(adds=False), rate, similarity),
        "untrained": Cell(_BASE, rate, similarity),
        "like=": Cell(_BASE._replace(like=MODEL), rate, similarity),
    }
    for rate in CLICK_RATES
    for name, similarity in (("similar", SIMILAR), ("partly similar", PARTLY_SIMILAR), ("unlike", UNLIKE))
}
LABEL_AGE: Comparison = {
    f"{name}, {rate:.0%}": {
        "label age": Cell(_BASE, rate, delay_ratio=ratio),
        "no delay": Cell(_BASE._replace(window=None), rate),
        "timeout": Cell(_BASE._replace(learned_at="timeout"), rate, delay_ratio=ratio),
        "as known": Cell(_BASE._replace(learned_at="as known"), rate, delay_ratio=ratio),
    }
    for rate in CLICK_RATES
    for name, ratio in (("the same", 1.0), ("slowest 16 × fastest", 16.0))
}
FORGETTING: Comparison = {
    f"{rate:.0%}": {
        "no half-life" if half_life is None else f"{half_life:,}": Cell(
            _BASE._replace(half_life=half_life), rate
        )
        for half_life in (None, 16_000, 4000)
    }
    for rate in CLICK_RATES
}


@register
@dataclass(frozen=True, kw_only=True)
class HomepageStudy(Study):
    """Compare policies, reward timeouts, new arms and half-lives on the same visits."""

    name: ClassVar[str] = "homepage"
    question: ClassVar[str] = "What do delayed clicks and changing articles cost on a homepage?"

    seeds: int = 10
    visits: int = VISITS

    @classmethod
    def quick(cls) -> Self:
        """Return a version with a few hundred visits."""
        return cls(seeds=2, visits=300)

    def run(self, context: StudyContext) -> StudyResult:
        """Measure the lift in every cell, seed by seed."""
        policies, remarks = available_policies()
        by_rate = {rate: policy_comparison(policies, rate) for rate in CLICK_RATES}
        comparisons = [*by_rate.values(), NEW_ARTICLE, LABEL_AGE, FORGETTING]
        cells = {cell: None for rows in comparisons for row in rows.values() for cell in row.values()}
        stored, total = StoredResults(context.folder), self.seeds * len(cells)
        lifts: dict[Cell, list[float]] = {cell: [] for cell in cells}
        for seed in range(self.seeds):
            for done, cell in enumerate(cells):
                context.progress(seed * len(cells) + done, total)
                key = f"homepage {self.visits} {seed} {cell}"
                lifts[cell].append(stored.get(cell.setup.policy, key, partial(self._measure, cell, seed)))
        context.progress(total, total)
        title = "Lift over random articles, mean ± s.e."
        tables = [
            _table(f"{title}, click rate {rate:.0%}", "window", rows, lifts, against=policies[0])
            for rate, rows in by_rate.items()
        ]
        tables += [
            _table(f"{title}: new article", "new, click rate", NEW_ARTICLE, lifts, against="not added"),
            _table(
                f"{title}: learned at",
                "delays of articles, click rate",
                LABEL_AGE,
                lifts,
                against="label age",
            ),
            _table(f"{title}: half-life", "click rate", FORGETTING, lifts, against="no half-life"),
        ]
        remark = (
            f"{self.visits:,} visits, one every nine seconds, {self.seeds} seeds. Clicks are reported after "
            "five minutes on average, 5% of them never. One article is added after a third of the visits, "
            "one is removed after two thirds. The lift is in expected clicks; differences are paired. "
            "Without delay, every outcome is reported at once; otherwise only clicks are, and the window is "
            "the reward timeout. In the last three tables it is two hours. A click that is learned as known "
            "is learned when it is reported, and its absence when the window ends."
        )
        return StudyResult(tables, [remark, *remarks], _figure(by_rate, lifts))

    def _measure(self, cell: Cell, seed: int) -> float:
        homepage = make_homepage(seed, cell.click_rate, self.visits, cell.similarity, cell.delay_ratio)
        return lift(homepage, cell.setup, seed)


def _table(
    title: str, heading: str, rows: Comparison, lifts: Mapping[Cell, Sequence[float]], against: str
) -> Table:
    """Return lifts in percent, and the paired difference of each column to the column ``against``."""
    table = Table(title=title)
    table.add_column(heading)
    columns = list(next(iter(rows.values())))
    for column in columns:
        table.add_column(column, justify="right")
    for name, row in rows.items():
        baseline = np.array(lifts[row[against]])
        texts = []
        for column in columns:
            percent = 100 * np.array(lifts[row[column]])
            text = format_mean(percent.tolist(), "+.1f")
            if column != against:
                text += f"\n({format_mean((percent - 100 * baseline).tolist(), '+.1f')})"
            texts.append(text)
        table.add_row(name, *texts)
    return table


def _figure(
    by_rate: Mapping[float, Comparison], lifts: Mapping[Cell, Sequence[float]]
) -> Callable[[Path], None]:
    """Return a function that draws the lift of every policy by window, one panel per click rate."""

    def draw(path: Path) -> None:
        with figure(path, width=4.5 * len(by_rate), height=4, columns=len(by_rate)) as panels:
            for panel, (rate, rows) in zip(panels, by_rate.items(), strict=True):
                for policy in next(iter(rows.values())):
                    points = [mean_and_error(lifts[row[policy]]) for row in rows.values()]
                    means, errors = [100 * mean for mean, _ in points], [100 * (e or 0.0) for _, e in points]
                    panel.errorbar(range(len(rows)), means, errors, fmt="o-", capsize=3, label=policy)
                panel.set_xticks(range(len(rows)), list(rows))
                panel.set(title=f"Click rate {rate:.0%}", xlabel="window", ylabel="lift, %")
            panels[0].legend(frameon=False)

    return draw
