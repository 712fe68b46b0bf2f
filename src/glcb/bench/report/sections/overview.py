"""Overview: the share of the best possible reward per task and policy, the leads, and a conclusion."""

from collections.abc import Sequence

from glcb._document.document import Block, Figure, Gallery, Section
from glcb.bench.comparison import ERRORS, conclusion, leaders
from glcb.bench.report.appearance import MUTED
from glcb.bench.report.figures import (
    Dots,
    LeadRow,
    PolicyBar,
    Series,
    draw_bars,
    draw_dots,
    draw_leads,
    strokes,
)
from glcb.bench.report.formatting import count_range
from glcb.bench.report.sections.comparison import LEADING
from glcb.bench.report.sections.leads import Lead
from glcb.bench.report.selection import Column, SelectedPolicy, Selection


def section(
    selection: Selection, order: Sequence[SelectedPolicy], reference: SelectedPolicy, found: Sequence[Lead]
) -> Section:
    """Draw the share of every policy on every task, and the lead of the reference on every task.

    Few tasks have a panel of bars each. Many tasks have a row of dots each, in the order of the leads.
    """
    columns = selection.positive_columns
    runs = [len(records) for records in selection.cells.values()]
    blocks: list[Block] = []
    figures: list[Figure] = []
    meaning = (
        "Share: total reward in percent of the reward of the best arm at every step, mean over "
        f"{count_range(runs, 'seed')}."
    )
    if columns and selection.has_many_tasks:
        figures.append(_dots(selection, columns, order, reference, found))
        meaning += (
            " The leading policies by mean rank are colored. A triangle at an edge marks a value beyond it."
        )
    elif columns:
        figures += [_panel(selection, column, order, index) for index, column in enumerate(columns, 1)]
        meaning += f" Error bars: ±{ERRORS} standard errors. Longer bars are better."
    leads = [lead for lead in found if lead.duel.relative is not None]
    if leads:
        figures.append(_leads(selection, leads, reference))
        meaning += (
            f" Lead: reward of {reference.title} minus the reward of the best other policy of the "
            "task (named at the right, chosen after the fact), in percent of the latter, seed by seed. "
            f"Error bars: ±{ERRORS} standard errors; a lead within them is a tie."
        )
    if figures:
        blocks += [Gallery("", tuple(figures)), meaning]
    return Section("overview", "Share of the best possible reward per task", tuple(blocks))


def summary(selection: Selection, reference: SelectedPolicy, found: Sequence[Lead]) -> str:
    """Return the conclusion of the report: which policy leads where, and how the reference compares."""
    means = selection.scores(selection.columns, selection.entries)
    led = leaders(
        {
            selection.title(column): {entry.title: mean for entry, mean in own.items()}
            for column, own in means.items()
        }
    )
    compared = sum(len(own) > 1 for own in means.values())
    duels = [lead.duel for lead in found]
    return conclusion(led, compared, reference.title, len(selection.entries) - 1, duels)


def _dots(
    selection: Selection,
    columns: Sequence[Column],
    order: Sequence[SelectedPolicy],
    reference: SelectedPolicy,
    found: Sequence[Lead],
) -> Figure:
    styles, leading = strokes(order), _leading(order, reference)
    entries = [*leading, *(entry for entry in order if entry not in leading)]
    series = [
        Series(entry.label, (styles[entry] if entry in leading else MUTED).color, entry in leading)
        for entry in entries
    ]
    by_lead = [lead.column for lead in found]
    ordered = sorted(columns, key=lambda own: by_lead.index(own) if own in by_lead else len(by_lead))
    rows = [
        Dots(
            selection.title(column),
            tuple(share[0] if (share := selection.share(column, entry)) else None for entry in entries),
        )
        for column in ordered
    ]
    return draw_dots("shares", "Share of the best possible reward (%)", series, rows)


def _leading(order: Sequence[SelectedPolicy], reference: SelectedPolicy) -> list[SelectedPolicy]:
    """Return the reference and the next policies by mean rank."""
    return [reference, *(entry for entry in order if entry != reference)][:LEADING]


def _leads(selection: Selection, found: Sequence[Lead], reference: SelectedPolicy) -> Figure:
    rows = [
        LeadRow(
            selection.title(lead.column),
            lead.other.label,
            lead.duel.relative or 0.0,
            lead.duel.relative_error,
            lead.duel.outcome,
        )
        for lead in found
    ]
    return draw_leads("leads", f"Lead of {reference.label} over the best other (%)", rows)


def _panel(selection: Selection, column: Column, order: Sequence[SelectedPolicy], index: int) -> Figure:
    styles = strokes(order)
    bars = [
        PolicyBar(entry.label, styles[entry], share[0], share[1] or 0.0)
        for entry in order
        if (share := selection.share(column, entry))
    ]
    title = selection.title(column)
    return draw_bars(f"share-{index}", f"{title}: % of the best possible reward", bars)
