"""How much was collected: the paper's table of cumulative rewards, ours beside the authors'."""

from collections.abc import Sequence

from glcb.bench import paper
from glcb.bench.report.document import Block, Cell, Group, Row, Section, Table
from glcb.bench.report.numbers import mean_and_error, number, span
from glcb.bench.report.selection import Column, Player, Selection


def section(selection: Selection, order: Sequence[Player]) -> Section:
    """Show what every policy collected on every task."""
    known = [player for player in order if player.in_paper]
    unknown = [player for player in order if not player.in_paper]
    groups = [
        _group(selection, known, "In the paper"),
        _group(selection, unknown, "Not among the paper's ten"),
    ]
    shown = [group for group in groups if group.rows]
    best_possible = Row(
        Cell("Best possible", ("the best arm at every step",)),
        tuple(
            Cell(number(selection.optimum(column), selection.places(column))) for column in selection.columns
        ),
    )
    blocks: list[Block] = [
        "Sum of the rewards of one run, mean over seeds ± standard error of that mean.",
        Table(
            "Bold marks the highest mean of each task." + (_SMALL if _compares(selection) else ""),
            ("policy", *(selection.title(column) for column in selection.columns)),
            (*shown, Group("", (best_possible,))),
        ),
    ]
    return Section("rewards", "Cumulative rewards", tuple(blocks))


_SMALL = (
    f" Small: the authors' number ({paper.SEEDS} seeds), and by how many per cent ours differs from it; "
    "only where they played the same task for as many steps."
)


def _compares(selection: Selection) -> bool:
    return any(column.in_paper and player.in_paper for column, player in selection.cells)


def _group(selection: Selection, players: Sequence[Player], title: str) -> Group:
    rows = []
    for player in players:
        seeds = [len(records) for (_, own), records in selection.cells.items() if own == player]
        cells = tuple(_cell(selection, column, player) for column in selection.columns)
        rows.append(Row(Cell(player.title, (span(seeds, "seed"),)), cells))
    return Group(title, tuple(rows))


def _cell(selection: Selection, column: Column, player: Player) -> Cell:
    score = selection.score(column, player)
    if score is None:
        return Cell()
    places = selection.places(column)
    means = selection.scores([column], selection.players)[column]
    notes: tuple[str, ...] = ()
    if column.in_paper and player.in_paper:
        theirs = paper.REWARDS[player.policy][column.task]
        change = number(100 * (score[0] / theirs.mean - 1), 1, sign=True)
        notes = (mean_and_error(*theirs, places=0), f"{change} %")
    # One run alone says little: it stands back, and is not called the best.
    alone = len(selection.cells[column, player]) == 1
    return Cell(
        mean_and_error(*score, places=places),
        (*notes, "1 seed only") if alone else notes,
        best=score[0] == max(means.values()) and not alone,
        doubtful=alone,
    )
