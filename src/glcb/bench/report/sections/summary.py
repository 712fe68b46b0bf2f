"""Every policy in one table: rank, share, wins and losses, worst case, and reward per second."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glcb._document.document import Block, Gallery, Group, Row, Section, Table, TableCell
from glcb.bench.comparison import OutcomeCounts, pareto_front
from glcb.bench.report.figures import CostMark, draw_costs, strokes
from glcb.bench.report.formatting import digits, number
from glcb.bench.report.sections.comparison import LEADING, duel, main_standings
from glcb.bench.report.selection import Column, SelectedPolicy, Selection


@dataclass(frozen=True)
class WorstCase:
    """The task on which a policy falls furthest behind the best policy."""

    column: Column
    share: float
    """Mean reward in percent of the best policy's reward."""


@dataclass(frozen=True)
class Cost:
    """Time and reward of one policy on the tasks of the ranking."""

    share: float | None
    """Mean share of the best possible reward, in percent; None if it is undefined on some task."""
    microseconds: float
    """Median over tasks of the time of a decision and an update."""
    reward_per_second: float | None
    """Total reward divided by the seconds of all decisions and updates; None if too short to measure."""


def worst_case(selection: Selection, entry: SelectedPolicy) -> WorstCase | None:
    """Return the lowest share of the best policy's reward; None without a task with a positive reward."""
    found = [
        WorstCase(column, 100 * means[entry] / max(means.values()))
        for column, means in selection.scores(selection.columns, selection.entries).items()
        if entry in means and max(means.values()) > 0
    ]
    return min(found, key=lambda own: own.share, default=None)


def cost(selection: Selection, columns: Sequence[Column], entry: SelectedPolicy) -> Cost:
    """Return time and reward of ``entry`` on the columns that it has run."""
    own = [column for column in columns if (column, entry) in selection.cells]
    defined = set(own) <= set(selection.positive_columns)
    shares = [share[0] for column in own if defined and (share := selection.share(column, entry))]
    times = {column: time for column in own if (time := selection.step_time(column, entry)) is not None}
    seconds = sum(column.steps * time / 1e6 for column, time in times.items())
    reward = sum(score[0] for column in own if (score := selection.score(column, entry)))
    return Cost(
        share=float(np.mean(shares)) if shares else None,
        microseconds=float(np.median(list(times.values()))),
        reward_per_second=reward / seconds if seconds else None,
    )


def section(selection: Selection, order: Sequence[SelectedPolicy], reference: SelectedPolicy) -> Section:
    """List rank, share, wins and losses, worst case and cost of every policy."""
    ranked = main_standings(selection)
    columns = [column for column in selection.columns if any(column in own.ranks for own in ranked)]
    ranks = {own.contestant: own for own in ranked}
    present = [entry for entry in order if entry in ranks]
    costs = {entry: cost(selection, columns, entry) for entry in present}
    worst_cases = {entry: worst_case(selection, entry) for entry in present}
    complete = {entry: own for entry, own in costs.items() if ranks[entry].complete}
    best_rank = min((ranks[entry].mean for entry in complete), default=0.0)
    best_share = max((own.share for own in complete.values() if own.share is not None), default=None)
    least_bad = max((own.share for own in worst_cases.values() if own), default=0.0)
    rows = []
    for entry in present:
        own, worst = costs[entry], worst_cases[entry]
        partial = entry not in complete
        cells = (
            TableCell(
                f"{ranks[entry].mean:.2f}"
                + (f" ({len(ranks[entry].ranks)} of {len(columns)})" if partial else ""),
                best=not partial and ranks[entry].mean == best_rank,
                uncertain=partial,
            ),
            TableCell(
                "" if own.share is None else f"{own.share:.1f}%",
                best=not partial and own.share is not None and own.share == best_share,
                uncertain=partial,
            ),
            _tally_cell(selection, entry, reference),
            TableCell(
                f"{number(worst.share, 1)}%" if worst else "",
                best=worst is not None and worst.share == least_bad,
            ),
            TableCell(selection.title(worst.column) if worst else ""),
            TableCell(number(own.microseconds, digits(own.microseconds))),
            TableCell(
                "" if own.reward_per_second is None else number(own.reward_per_second), uncertain=partial
            ),
        )
        rows.append(Row(TableCell(entry.title), cells))
    scope = "the tasks of the paper" if len(columns) < len(selection.columns) else "all tasks"
    caption = (
        f"Mean rank and mean share of the best possible reward on {scope}; wins–ties–losses against "
        f"{reference.title} (two standard errors of the paired differences); the lowest share of the best "
        "policy's reward over tasks; median µs for one decision and one update; and reward per second of "
        "that time. The best mean rank comes first."
    )
    if any(not own.complete for own in ranked):
        caption += " Italics: the policy has no runs on some tasks, so its means are not comparable."
    headings = (
        "policy",
        "mean rank",
        "mean share",
        f"W–T–L against {reference.title}",
        "worst case",
        "worst task",
        "µs per step",
        "reward per second",
    )
    blocks: list[Block] = [Table(caption, headings, (Group("", tuple(rows)),))]
    return Section("summary", "Policies at a glance", (*blocks, *_cost_blocks(complete, order, len(columns))))


def _tally_cell(selection: Selection, entry: SelectedPolicy, reference: SelectedPolicy) -> TableCell:
    if entry == reference:
        return TableCell()
    duels = (duel(selection, column, entry, reference) for column in selection.columns)
    total = OutcomeCounts.of(own.outcome for own in duels if own)
    notes = (f"{total.undecided} not judged",) if total.undecided else ()
    return TableCell(f"{total.wins}–{total.ties}–{total.losses}", notes)


def _cost_blocks(
    costs: dict[SelectedPolicy, Cost], order: Sequence[SelectedPolicy], tasks: int
) -> tuple[Block, ...]:
    points = {
        entry: (own.microseconds, own.share)
        for entry, own in costs.items()
        if own.share is not None and own.microseconds > 0
    }
    if len(points) < 2:
        return ()
    front = pareto_front(points)
    styles, leading = strokes(order), order[:LEADING]
    marks = [
        CostMark(
            entry.label,
            styles[entry].color,
            *point,
            named=entry in front or entry in leading,
            front=entry in front,
        )
        for entry, point in points.items()
    ]
    over = f"{tasks} tasks" if tasks > 1 else "1 task"
    title = f"Mean share of the best possible reward (%), {over}"
    note = (
        "Reward against computing time; up and to the left is better. The line joins the Pareto front: every "
        "other policy is matched by one on the line with at least as much "
        "reward in at most the same time. Times include periodic work, such as training a network every "
        "few steps, except in records of older versions; they depend on the machine."
    )
    return (Gallery("Reward against computing time", (draw_costs("costs", title, marks),)), note)
