"""The reference policy against the best other policy of each task."""

from collections.abc import Sequence
from dataclasses import dataclass

from glcb._document.document import Block, Group, Row, Section, Table, TableCell
from glcb.bench.comparison import ERRORS, Duel, Outcome, OutcomeCounts, best_other
from glcb.bench.report.formatting import count, number
from glcb.bench.report.sections.comparison import duel
from glcb.bench.report.selection import Column, SelectedPolicy, Selection
from glcb.bench.statistics import LEVEL


@dataclass(frozen=True)
class Lead:
    """The reference against the best other policy on one task."""

    column: Column
    other: SelectedPolicy
    duel: Duel


def leads(selection: Selection, reference: SelectedPolicy) -> list[Lead]:
    """Compare the reference with the best other policy of each task; the largest relative lead first.

    Tasks without another policy, or without a common seed, are left out.
    """
    result = []
    for column, means in selection.scores(selection.columns, selection.entries).items():
        other = best_other(means, reference)
        own = duel(selection, column, reference, other) if other else None
        if other and own:
            result.append(Lead(column, other, own))
    return sorted(result, key=lambda lead: _order(lead.duel))


def tally(found: Sequence[Lead]) -> OutcomeCounts:
    """Count wins, ties and losses."""
    return OutcomeCounts.of(lead.duel.outcome for lead in found)


def section(selection: Selection, reference: SelectedPolicy, found: Sequence[Lead]) -> Section:
    """List the difference of the reference from the best other policy of each task."""
    name = f"{reference.title} against the best other policy of each task"
    if not found:
        reason = "There is no task that another policy has run with the same seed, so there is no comparison."
        return Section("leads", name, (reason,))
    total = tally(found)
    undecided = f", and {count(total.undecided, 'task')} cannot be judged" if total.undecided else ""
    blocks: list[Block] = [
        f"{reference.title} has {count(total.wins, 'win')}, {count(total.ties, 'tie')} and "
        f"{total.losses} {'loss' if total.losses == 1 else 'losses'}{undecided}. A win or a loss is a mean "
        f"difference beyond {ERRORS} standard errors; anything else is a tie. The best other policy of a "
        "task is chosen after the fact, by its mean reward in the same runs, so together they are a stronger "
        "baseline than any single policy. There is no correction for the number of tasks.",
        Table(
            f"Cumulative reward of {reference.title} minus the best other policy's, seed by seed: mean "
            "± standard error; in percent of the other policy's reward; "
            f"{100 * LEVEL:g}% bootstrap interval of the mean (too narrow with fewer than ten seeds). The "
            "largest relative lead comes first. Italics: ties.",
            ("task", "best other policy", "difference", "relative", "interval", "outcome", "seeds"),
            (Group("", tuple(_row(selection, lead) for lead in found)),),
        ),
    ]
    missing = [column for column in selection.columns if column not in {lead.column for lead in found}]
    if missing:
        blocks.append(f"Not compared: {', '.join(map(selection.title, missing))}.")
    return Section("leads", name, tuple(blocks))


def _order(own: Duel) -> tuple[bool, float]:
    relative = own.relative
    return relative is None, -(own.mean if relative is None else relative)


def _row(selection: Selection, lead: Lead) -> Row:
    own, places = lead.duel, selection.places(lead.column)
    sign = number(own.mean, places, sign=True)
    difference = sign if own.error is None else f"{sign} ± {number(own.error, places)}"
    interval = "" if own.interval is None else _interval(own.interval, places)
    relative = "" if own.relative is None else f"{number(own.relative, 1, sign=True)}%"
    tie = own.outcome in (Outcome.TIE, Outcome.UNDECIDED)
    cells = (
        TableCell(lead.other.title),
        TableCell(difference, uncertain=tie),
        TableCell(relative, uncertain=tie),
        TableCell(interval, uncertain=tie),
        TableCell(own.outcome.value, best=own.outcome is Outcome.WIN, uncertain=tie),
        TableCell(str(len(own.differences))),
    )
    return Row(TableCell(selection.title(lead.column)), cells)


def _interval(interval: tuple[float, float], places: int) -> str:
    low, high = (number(end, places, sign=True) for end in interval)
    return f"[{low}, {high}]"
