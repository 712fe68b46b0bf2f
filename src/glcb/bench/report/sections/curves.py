"""Curves over the steps of a run: reward, regret, and the duration of a decision."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from glcb._document.document import Block, Figure, Gallery, Group, Row, Section, Table, TableCell
from glcb.bench.comparison import ERRORS
from glcb.bench.curves import Curve, cumulative_reward, decision_time, regret
from glcb.bench.report.figures import Line, draw_lines, strokes
from glcb.bench.report.formatting import count_range, number
from glcb.bench.report.selection import Column, SelectedPolicy, Selection
from glcb.bench.run import RunRecord

CurveOf = Callable[[Iterable[RunRecord]], Curve]


def reward_section(selection: Selection, order: Sequence[SelectedPolicy]) -> Section:
    """Draw the cumulative reward and the regret on every task; the regret only if there are many tasks."""
    definition = (
        "the difference between the reward of the best arm at every step and the received reward; lower is "
        "better, and a flat curve means that the policy has learned. Lines are means over seeds; "
        f"bands show ±{ERRORS} standard errors, about 95% confidence with 20 seeds or more."
    )
    columns = list(enumerate(selection.columns, start=1))
    if selection.has_many_tasks:
        figures = tuple(
            _figure(selection, order, column, index, "Regret", regret) for index, column in columns
        )
        return Section("curves", "Regret over time", (f"The regret is {definition}", Gallery("", figures)))
    explanation = (
        "The first figure of each pair shows the cumulative reward; higher is better. The second shows the "
        f"regret, {definition}"
    )
    galleries: list[Block] = [_gallery(selection, order, column, index) for index, column in columns]
    return Section("curves", "Reward and regret over time", (explanation, *galleries))


def time_section(selection: Selection, order: Sequence[SelectedPolicy]) -> Section:
    """List the duration of a decision on every task; draw it over the run if there are few tasks."""
    medians = (
        "Values are medians over the steps of each twentieth of a run and over seeds, on the machines listed "
        "at the end."
    )
    table = Table(
        "Median µs per decision in the first and in the last twentieth of a run. Small print: median µs "
        "per update (periodic work, such as training a network, does not show in a median), and seconds "
        "for a whole run including loading and compiling.",
        ("policy", *(selection.title(column) for column in selection.columns)),
        (Group("", tuple(_time_row(selection, entry) for entry in order)),),
    )
    if selection.has_many_tasks:
        return Section("times", "Time per decision", (medians, selection.oriented(table)))
    figures = (
        draw_lines(
            f"time-{index}",
            f"µs per decision on {selection.title(column)}",
            _lines(selection, order, column, decision_time),
            steps=column.steps,
            logarithmic=True,
        )
        for index, column in enumerate(selection.columns, start=1)
    )
    explanation = (
        "Duration of one decision in microseconds, on a logarithmic scale. A flat curve means constant cost; "
        f"a rising one means that decisions get slower with every step. {medians}"
    )
    return Section(
        "times", "Time per decision", (explanation, Gallery("", tuple(figures)), selection.oriented(table))
    )


def _gallery(selection: Selection, order: Sequence[SelectedPolicy], column: Column, index: int) -> Gallery:
    seeds = [len(records) for (other, _), records in selection.cells.items() if other == column]
    return Gallery(
        f"{selection.title(column)}: {column.steps:,} steps, {count_range(seeds, 'seed')}",
        (
            _figure(selection, order, column, index, "Cumulative reward", cumulative_reward),
            _figure(selection, order, column, index, "Regret", regret),
        ),
    )


def _figure(
    selection: Selection,
    order: Sequence[SelectedPolicy],
    column: Column,
    index: int,
    quantity: str,
    curve_of: CurveOf,
) -> Figure:
    lines = _lines(selection, order, column, curve_of)
    name = f"{quantity.split()[-1].lower()}-{index}"
    return draw_lines(name, f"{quantity} on {selection.title(column)}", lines, steps=column.steps)


def _lines(
    selection: Selection, order: Sequence[SelectedPolicy], column: Column, curve_of: CurveOf
) -> list[Line]:
    styles = strokes(order)
    return [
        Line(entry.label, styles[entry], curve_of(records))
        for entry in reversed(order)
        if (records := selection.cells.get((column, entry)))
    ]


def _time_row(selection: Selection, entry: SelectedPolicy) -> Row:
    cells = (_time_cell(selection.cells.get((column, entry))) for column in selection.columns)
    return Row(TableCell(entry.title), tuple(cells))


def _time_cell(records: list[RunRecord] | None) -> TableCell:
    if not records:
        return TableCell()
    first, last = (float(np.median([record.decide_us[end] for record in records])) for end in (0, -1))
    update = float(np.median([time for record in records for time in record.learn_us]))
    seconds = float(np.median([record.seconds for record in records]))
    return TableCell(f"{number(first)} → {number(last)}", (f"{number(update)} µs; {number(seconds, 1)} s",))
