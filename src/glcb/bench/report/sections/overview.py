"""Overview: the share of the best possible reward per task and policy, and a conclusion."""

from collections.abc import Sequence

import numpy as np

from glcb.bench.comparison import conclusion, leaders
from glcb.bench.report.document import Block, Figure, Gallery, Section
from glcb.bench.report.figures import ERRORS, Bar, draw_bars, strokes
from glcb.bench.report.formatting import count_range
from glcb.bench.report.selection import Column, Entry, Selection
from glcb.bench.statistics import mean_and_error


def section(selection: Selection) -> Section:
    """Draw one panel of bars per task. Policies are ordered by their mean share."""
    columns = [column for column in selection.columns if selection.optimum(column) > 0]
    runs = [len(records) for records in selection.cells.values()]
    order = sorted(selection.entries, key=lambda entry: _order_key(selection, columns, entry))
    panels = tuple(_panel(selection, column, order, index) for index, column in enumerate(columns, 1))
    caption = (
        "Total reward as a percentage of the reward of the best arm at every step, mean over "
        f"{count_range(runs, 'seed')}. Error bars: ±{ERRORS} standard errors. Longer bars are better."
    )
    blocks: tuple[Block, ...] = (Gallery("", panels), caption) if panels else ()
    return Section("overview", "Share of the best possible reward per task", blocks)


def summary(selection: Selection) -> str:
    """Return the conclusion of the report: which policy leads on which task."""
    totals = {
        selection.title(column): {
            entry.title: {record.seed: record.total for record in records}
            for entry in selection.entries
            if (records := selection.cells.get((column, entry)))
        }
        for column in selection.columns
    }
    return conclusion(leaders(totals))


def _order_key(selection: Selection, columns: Sequence[Column], entry: Entry) -> tuple[bool, float]:
    """Sort by mean share over all tasks; entries that lack runs on a task come last."""
    shares = [
        np.mean([record.total / record.optimum for record in selection.cells[column, entry]])
        for column in columns
        if (column, entry) in selection.cells
    ]
    return len(shares) < len(columns), -float(np.mean(shares)) if shares else 0.0


def _panel(selection: Selection, column: Column, order: Sequence[Entry], index: int) -> Figure:
    styles = strokes(selection)
    bars = []
    for entry in order:
        records = selection.cells.get((column, entry))
        if records:
            mean, error = mean_and_error([100 * record.total / record.optimum for record in records])
            bars.append(Bar(entry.label, styles[entry], mean, error or 0.0))
    title = selection.title(column)
    return draw_bars(f"share-{index}", f"{title}: % of the best possible reward", bars)
