"""How long decisions take, and whether that grows with experience."""

from collections.abc import Sequence

import numpy as np

from glcb.bench.curves import decision_time
from glcb.bench.report.document import Block, Cell, Gallery, Group, Picture, Row, Section, Table
from glcb.bench.report.figures import draw
from glcb.bench.report.numbers import number
from glcb.bench.report.sections.curves import lines_of
from glcb.bench.report.selection import Column, Player, Selection


def section(selection: Selection, order: Sequence[Player]) -> Section:
    """Draw the time of a decision along the run, and give the numbers."""
    blocks: list[Block] = [
        "Time of one decision in microseconds, on a logarithmic scale. A flat line does not pay for its "
        "experience; a rising one gets slower with every step. Times are medians over the steps of each "
        "twentieth of a run, and over seeds, on the machines named at the end.",
        Gallery("", tuple(_picture(selection, number) for number in range(len(selection.columns)))),
        Table(
            "Median µs per decision in the first and in the last twentieth of a run. Small: median µs per "
            "update (what a policy does only every so often, such as training a network, does not show in a "
            "median), and seconds for a whole run, loading and compiling included.",
            ("policy", *(selection.title(column) for column in selection.columns)),
            (Group("", tuple(_row(selection, player) for player in order)),),
        ),
    ]
    return Section("times", "Time per decision", tuple(blocks))


def _picture(selection: Selection, number: int) -> Picture:
    column, name = selection.columns[number], f"time-{number + 1}"
    lines = lines_of(selection, column, decision_time)
    title = f"µs per decision on {selection.title(column)}"
    return draw(name, title, lines, until=column.steps, logarithmic=True)


def _row(selection: Selection, player: Player) -> Row:
    return Row(Cell(player.title), tuple(_cell(selection, column, player) for column in selection.columns))


def _cell(selection: Selection, column: Column, player: Player) -> Cell:
    records = selection.cells.get((column, player))
    if not records:
        return Cell()
    first, last = (float(np.median([record.decide_us[end] for record in records])) for end in (0, -1))
    update = float(np.median([time for record in records for time in record.learn_us]))
    seconds = float(np.median([record.seconds for record in records]))
    return Cell(f"{number(first)} → {number(last)}", (f"{number(update)} µs; {number(seconds, 1)} s",))
