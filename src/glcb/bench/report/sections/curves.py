"""How runs went along: reward and regret over the steps."""

from collections.abc import Callable, Iterable

from glcb.bench.curves import Curve, cumulative_reward, regret
from glcb.bench.report.document import Block, Gallery, Picture, Section
from glcb.bench.report.figures import ERRORS, Line, draw, strokes
from glcb.bench.report.numbers import span
from glcb.bench.report.selection import Column, Selection
from glcb.bench.run import Record


def section(selection: Selection) -> Section:
    """Draw two pictures for every task."""
    explained = (
        "Left, or above: the reward collected so far; higher is better. Right, or below: the regret, which "
        "is what the best arm of every step would have brought beyond that; lower is better, and a line that "
        "flattens has learned. Lines are means over seeds; bands reach "
        f"{ERRORS} standard errors to either side, about 95 % confidence if there are 20 seeds or more."
    )
    galleries: list[Block] = [_gallery(selection, number) for number in range(len(selection.columns))]
    return Section("curves", "Reward and regret over time", (explained, *galleries))


def _gallery(selection: Selection, number: int) -> Gallery:
    column = selection.columns[number]
    seeds = [len(records) for (own, _), records in selection.cells.items() if own == column]
    return Gallery(
        f"{column.task}: {column.steps:,} steps, {span(seeds, 'seed')}",
        (
            _picture(selection, column, f"reward-{number + 1}", "Cumulative reward", cumulative_reward),
            _picture(selection, column, f"regret-{number + 1}", "Regret", regret),
        ),
    )


def _picture(
    selection: Selection, column: Column, name: str, what: str, course: Callable[[Iterable[Record]], Curve]
) -> Picture:
    lines = lines_of(selection, column, course)
    return draw(name, f"{what} on {column.task}", lines, until=column.steps)


def lines_of(selection: Selection, column: Column, course: Callable[[Iterable[Record]], Curve]) -> list[Line]:
    """Return the lines of all who have played, as their pictures need them."""
    style = strokes(selection)
    return [
        Line(player.label, style[player], course(records))
        for player in selection.players
        if (records := selection.cells.get((column, player)))
    ]
