"""Who comes first: the paper's table of ranks, ours beside the authors'."""

from collections.abc import Sequence

from glcb.bench import paper
from glcb.bench.ranks import Standing, standings
from glcb.bench.report.document import Block, Cell, Group, Row, Section, Table
from glcb.bench.report.selection import Column, Player, Selection

Standings = list[Standing[Column, Player]]

_TEN = len(paper.REWARDS)


def section(selection: Selection) -> Section:
    """Rank the paper's policies among themselves, then all there are."""
    shown: list[tuple[Standings, Table]] = []
    like_for_like = _ranked(selection, [player for player in selection.players if player.in_paper])
    if like_for_like:
        shown.append((like_for_like, _beside_theirs(selection, like_for_like)))
    on_papers, on_others = overall(selection)
    if len(on_papers) > len(like_for_like):
        caption = "All policies of this experiment, on the tasks of the paper. Bold marks the best."
        shown.append((on_papers, _table(selection, on_papers, {}, caption)))
    if on_others:
        caption = "All policies of this experiment, on tasks that the paper has not. Bold marks the best."
        shown.append((on_others, _table(selection, on_others, {}, caption)))
    blocks: list[Block] = [
        "On each task the policies are ranked by their mean cumulative reward: 1 is the best, equal means "
        "share the better rank. A rank says who is ahead, not by how much or how surely.",
        *(table for _, table in shown),
    ]
    if not all(standing.complete for ranked, _ in shown for standing in ranked):
        blocks.append(
            "A dash is a task that a policy has not played. It is not ranked there, and the mean of its "
            "other ranks, with the number of tasks in brackets, cannot be compared with complete rows."
        )
    return Section("ranks", "Ranks", tuple(blocks))


def overall(selection: Selection) -> tuple[Standings, Standings]:
    """Rank all policies, on the tasks of the paper and on other tasks."""
    return _ranked(selection, selection.players), _ranked(selection, selection.players, in_paper=False)


def order(selection: Selection) -> list[Player]:
    """Return all policies, best mean rank on the tasks of the paper first."""
    on_papers, on_others = overall(selection)
    return list(dict.fromkeys(standing.player for standing in [*on_papers, *on_others]))


def _ranked(selection: Selection, players: Sequence[Player], *, in_paper: bool = True) -> Standings:
    columns = (column for column in selection.columns if column.in_paper == in_paper)
    return standings(selection.scores(columns, players))


def _beside_theirs(selection: Selection, ours: Standings) -> Table:
    """The table of the paper; the authors' ranks are taken among the policies that are here."""
    theirs: dict[Column, dict[Player, float]] = {}
    for standing in ours:
        for column in standing.ranks:
            published = paper.REWARDS[standing.player.policy][column.task]
            theirs.setdefault(column, {})[standing.player] = published.mean
    if len(ours) == _TEN and all(standing.complete for standing in ours):
        who, how = "The ten policies of the paper", "as printed in the paper"
    else:
        who = (
            "The ten policies of the paper"
            if len(ours) == _TEN
            else f"{len(ours)} of the paper's ten policies"
        )
        how = "by their printed rewards, among the policies that played the task here"
    return _table(
        selection,
        ours,
        {standing.player: standing for standing in standings(theirs)},
        f"{who}. Small: the authors' rank, {how}. Bold marks the best.",
    )


def _table(
    selection: Selection, ours: Standings, theirs: dict[Player, Standing[Column, Player]], caption: str
) -> Table:
    columns = [column for column in selection.columns if any(column in own.ranks for own in ours)]
    least = min((own.mean for own in ours if own.complete), default=0.0)
    rows = []
    for own in ours:
        other = theirs.get(own.player)
        cells = [
            Cell(str(rank), (str(other.ranks[column]),) if other else (), best=rank == 1)
            if (rank := own.ranks.get(column))
            else Cell()
            for column in columns
        ]
        mean = f"{own.mean:.2f}" + ("" if own.complete else f" ({len(own.ranks)} of {len(columns)})")
        notes = (f"{other.mean:.2f}",) if other else ()
        cells.append(Cell(mean, notes, best=own.complete and own.mean == least))
        rows.append(Row(Cell(own.player.title), tuple(cells)))
    headings = ("policy", *(selection.title(column) for column in columns), "mean rank")
    return Table(caption, headings, (Group("", tuple(rows)),))
