"""Comparison of policies: ranks, cumulative rewards and paired differences, next to the paper's numbers.

Tables have one row per policy, or one row per task if there are many tasks.
"""

import math
from collections.abc import Sequence

import numpy as np

from glcb._document.document import Block, Gallery, Group, Row, Section, Table, TableCell
from glcb._errors import InvalidSettings
from glcb.bench import paper
from glcb.bench.comparison import Duel, Outcome
from glcb.bench.ranks import SIGNIFICANCE, Standing, compare_ranks, standings
from glcb.bench.report.figures import RankMark, draw_ranks, strokes
from glcb.bench.report.formatting import count, count_range, mean_and_error, number
from glcb.bench.report.selection import Column, SelectedPolicy, Selection
from glcb.bench.statistics import LEVEL, RESAMPLES

Standings = list[Standing[Column, SelectedPolicy]]

LEADING = 4
"""Number of policies, by mean rank, that figures highlight."""
_PAPER_POLICIES = len(paper.REWARDS)


# ---- ranks ----


def rank_section(selection: Selection) -> Section:
    """Rank the paper's policies among themselves, then all policies.

    Without at least two policies of the paper, there is a single table of all policies and tasks.
    """
    tables: list[tuple[Standings, Table]] = []
    paper_only = _paper_standings(selection)
    if paper_only:
        tables.append((paper_only, _paper_rank_table(selection, paper_only)))
    on_paper_tasks, on_other_tasks = overall_standings(selection)
    if not paper_only:
        tables.append((on_other_tasks, _rank_table(selection, on_other_tasks, {}, "The best is bold.")))
    elif len(on_paper_tasks) > len(paper_only):
        caption = "All policies, on the tasks of the paper. The best is bold."
        tables.append((on_paper_tasks, _rank_table(selection, on_paper_tasks, {}, caption)))
    if paper_only and on_other_tasks:
        caption = "All policies, on tasks not in the paper. The best is bold."
        tables.append((on_other_tasks, _rank_table(selection, on_other_tasks, {}, caption)))
    blocks: list[Block] = [
        *_diagram(selection),
        "Policies are ranked on each task by their mean cumulative reward: 1 is best. Equal means share the "
        "mean of their ranks"
        + (", except in the paper's table, where they share the better rank" if paper_only else "")
        + ". A rank does not show the size of a difference or its uncertainty.",
        *(selection.oriented(table) for _, table in tables),
    ]
    if not all(standing.complete for ranked, _ in tables for standing in ranked):
        blocks.append(
            "A dash means that there are no runs. The policy is not ranked on that task, and the mean of its "
            "other ranks (number of tasks in parentheses) is not comparable with complete rows."
        )
    return Section("ranks", "Ranks", tuple(blocks))


def overall_standings(selection: Selection) -> tuple[Standings, Standings]:
    """Rank all entries on the tasks of the paper and on the other tasks.

    If fewer than two policies of the paper were run, all tasks count as other tasks.
    """
    if not _paper_standings(selection):
        return [], standings(selection.scores(selection.columns, selection.entries), ties="mean")
    return (
        _standings(selection, selection.entries, in_paper=True),
        _standings(selection, selection.entries, in_paper=False),
    )


def main_standings(selection: Selection) -> Standings:
    """Rank all entries on the tasks of the paper if these are the majority, or else on all tasks."""
    on_paper_tasks, _ = overall_standings(selection)
    if on_paper_tasks and 2 * sum(column.in_paper for column in selection.columns) > len(selection.columns):
        return on_paper_tasks
    return standings(selection.scores(selection.columns, selection.entries), ties="mean")


def order(selection: Selection) -> list[SelectedPolicy]:
    """Return all entries, the best mean rank in the main ranking first."""
    _, on_other_tasks = overall_standings(selection)
    ranked = [*main_standings(selection), *on_other_tasks]
    return list(dict.fromkeys(standing.contestant for standing in ranked))


def _paper_standings(selection: Selection) -> Standings:
    """Rank the policies of the paper on its tasks; empty if there are fewer than two."""
    columns = (column for column in selection.columns if column.in_paper)
    ranked = standings(selection.scores(columns, [entry for entry in selection.entries if entry.in_paper]))
    return ranked if len(ranked) > 1 else []


def _standings(selection: Selection, entries: Sequence[SelectedPolicy], *, in_paper: bool) -> Standings:
    columns = (column for column in selection.columns if column.in_paper == in_paper)
    return standings(selection.scores(columns, entries), ties="mean")


def _diagram(selection: Selection) -> tuple[Block, ...]:
    """Draw the critical difference diagram of the policies that ran on all tasks of the main ranking."""
    ranked = main_standings(selection)
    columns = [column for column in selection.columns if any(column in own.ranks for own in ranked)]
    compared = compare_ranks(selection.scores(columns, selection.entries))
    incomplete = [own.contestant.title for own in ranked if not own.complete]
    if compared is None:
        return (
            "The mean ranks are not tested: that needs two tasks and two policies that ran on all tasks.",
        )
    styles = strokes(order(selection))
    marks = [RankMark(entry.label, styles[entry].color, rank) for entry, rank in compared.means.items()]
    groups = [(compared.means[group[0]], compared.means[group[-1]]) for group in compared.groups]
    title = f"Mean rank on {compared.tasks} tasks"
    shown = f"= {compared.p_value:.2g}" if compared.p_value >= 0.001 else "< 0.001"
    text = (
        f"Mean ranks of {len(marks)} policies on {compared.tasks} tasks; left is better. A "
        "bar joins policies whose mean ranks differ by less than the critical difference of "
        f"{compared.critical_difference:.2f} (Nemenyi test at the {100 * SIGNIFICANCE:g}% level): the test "
        f"does not distinguish them. The Friedman test that all policies are equivalent has p {shown}. Each "
        "task counts once, whatever its number of seeds (Demšar, Journal of Machine Learning Research 7, "
        "2006)."
    )
    if incomplete:
        text += f" Left out, because runs on some tasks are missing: {', '.join(incomplete)}."
    figure = draw_ranks("mean-ranks", title, marks, groups, compared.critical_difference)
    return (Gallery("", (figure,)), text)


def _paper_rank_table(selection: Selection, ours: Standings) -> Table:
    """The paper's table of ranks; its ranks are computed among the policies that were run here."""
    published: dict[Column, dict[SelectedPolicy, float]] = {}
    for standing in ours:
        for column in standing.ranks:
            reward = paper.REWARDS[standing.contestant.policy][column.task]
            published.setdefault(column, {})[standing.contestant] = reward.mean
    all_here = len(ours) == _PAPER_POLICIES
    if all_here and all(standing.complete for standing in ours):
        basis = "as published"
    else:
        basis = "computed from its published rewards among the policies that were run here"
    subject = "The ten policies of the paper" if all_here else f"{len(ours)} of the paper's ten policies"
    return _rank_table(
        selection,
        ours,
        {standing.contestant: standing for standing in standings(published)},
        f"{subject}. Small print: rank in the paper, {basis}. The best is bold.",
    )


def _rank_table(
    selection: Selection,
    ours: Standings,
    published: dict[SelectedPolicy, Standing[Column, SelectedPolicy]],
    caption: str,
) -> Table:
    columns = [column for column in selection.columns if any(column in own.ranks for own in ours)]
    best_mean = min((own.mean for own in ours if own.complete), default=0.0)
    rows = []
    for own in ours:
        other = published.get(own.contestant)
        cells = [
            TableCell(f"{rank:g}", (f"{other.ranks[column]:g}",) if other else (), best=rank == 1)
            if (rank := own.ranks.get(column))
            else TableCell()
            for column in columns
        ]
        mean = f"{own.mean:.2f}" + ("" if own.complete else f" ({len(own.ranks)} of {len(columns)})")
        notes = (f"{other.mean:.2f}",) if other else ()
        cells.append(TableCell(mean, notes, best=own.complete and own.mean == best_mean))
        rows.append(Row(TableCell(own.contestant.title), tuple(cells)))
    headings = ("policy", *(selection.title(column) for column in columns), "mean rank")
    return Table(caption, headings, (Group("", tuple(rows)),))


# ---- cumulative rewards ----

_PAPER_NOTE = (
    f" Small print: the paper's number ({paper.SEEDS} seeds) and the relative difference of ours, where the "
    "paper reports the same task with the same number of steps."
)


def reward_section(selection: Selection, order: Sequence[SelectedPolicy]) -> Section:
    """List the cumulative reward of every policy on every task."""
    comparable = any(column.in_paper and entry.in_paper for column, entry in selection.cells)
    groups = (
        [
            _reward_group(selection, [entry for entry in order if entry.in_paper], "In the paper"),
            _reward_group(selection, [entry for entry in order if not entry.in_paper], "Not in the paper"),
        ]
        if comparable
        else [_reward_group(selection, order, "")]
    )
    optimum = Row(
        TableCell("Best possible"),
        tuple(
            TableCell(number(selection.optimum(column), selection.places(column)))
            for column in selection.columns
        ),
    )
    seeds = [len(records) for records in selection.cells.values()]
    table = Table(
        f"Mean over {count_range(seeds, 'seed')} ± standard error. The highest mean of each task is bold. "
        f"Best possible: the best arm at every step.{_PAPER_NOTE if comparable else ''}",
        ("policy", *(selection.title(column) for column in selection.columns)),
        (*(group for group in groups if group.rows), Group("", (optimum,))),
    )
    blocks: list[Block] = [
        "Sum of the rewards of one run.",
        selection.oriented(table),
    ]
    return Section("rewards", "Cumulative rewards", tuple(blocks))


def _reward_group(selection: Selection, entries: Sequence[SelectedPolicy], title: str) -> Group:
    same = len({len(records) for records in selection.cells.values()}) == 1
    rows = []
    for entry in entries:
        seeds = [len(records) for (_, other), records in selection.cells.items() if other == entry]
        cells = tuple(_reward_cell(selection, column, entry) for column in selection.columns)
        rows.append(Row(TableCell(entry.title, () if same else (count_range(seeds, "seed"),)), cells))
    return Group(title, tuple(rows))


def _reward_cell(selection: Selection, column: Column, entry: SelectedPolicy) -> TableCell:
    score = selection.score(column, entry)
    if score is None:
        return TableCell()
    means = selection.scores([column], selection.entries)[column]
    notes: tuple[str, ...] = ()
    if column.in_paper and entry.in_paper:
        published = paper.REWARDS[entry.policy][column.task]
        change = number(100 * (score[0] / published.mean - 1), 1, sign=True)
        notes = (mean_and_error(*published, places=0), f"{change}%")
    # A single run has no error estimate, so it is never marked as the best.
    single = len(selection.cells[column, entry]) == 1
    return TableCell(
        mean_and_error(*score, places=selection.places(column)),
        (*notes, "1 seed only") if single else notes,
        best=score[0] == max(means.values()) and not single,
        uncertain=single,
    )


# ---- paired differences ----


def difference_section(
    selection: Selection, order: Sequence[SelectedPolicy], reference: SelectedPolicy
) -> Section:
    """Compare every policy with the reference, seed by seed."""
    others = [entry for entry in order if entry != reference]
    blocks: list[Block] = [
        "With the same seed, every policy sees the same contexts and rewards. Differences between two "
        "policies are therefore computed seed by seed, which cancels most of the noise.",
    ]
    if others:
        blocks.append(
            selection.oriented(
                Table(
                    f"Cumulative reward minus {reference.title}'s: mean over the common seeds. "
                    f"In brackets: {100 * LEVEL:g}% bootstrap interval of the mean (percentiles of "
                    f"{RESAMPLES:,} resamples, fixed seed); with fewer than ten seeds it is too narrow. "
                    "Italics: the mean is within two standard errors of 0, so the two policies are not "
                    "distinguishable.",
                    ("policy", *(selection.title(column) for column in selection.columns)),
                    (Group("", tuple(_difference_row(selection, entry, reference) for entry in others)),),
                )
            )
        )
    mismatched = sum(
        _pairs(selection, column, entry, reference)[1]
        for column in selection.columns
        for entry in selection.entries
    )
    if mismatched:
        blocks.append(
            f"Excluded: {count(mismatched, 'pair')} of runs with the same seed but different best possible "
            "rewards. They ran on different data or versions."
        )
    return Section("differences", f"Paired differences from {reference.title}", tuple(blocks))


def find_entry(entries: Sequence[SelectedPolicy], policy: str) -> SelectedPolicy:
    """Return the entry of ``policy``, preferably with default settings."""
    candidates = sorted(
        (entry for entry in entries if entry.policy == policy), key=lambda entry: bool(entry.settings)
    )
    if not candidates:
        available = ", ".join(dict.fromkeys(entry.policy for entry in entries))
        raise InvalidSettings(f"there are no runs of {policy!r}; there are runs of {available}")
    return candidates[0]


def duel(selection: Selection, column: Column, entry: SelectedPolicy, other: SelectedPolicy) -> Duel | None:
    """Compare two entries on their common seeds; None if there are none."""
    pairs, _ = _pairs(selection, column, entry, other)
    if not pairs:
        return None
    baseline = float(np.mean([their for _, their in pairs]))
    return Duel(tuple(own - their for own, their in pairs), baseline)


def _pairs(
    selection: Selection, column: Column, entry: SelectedPolicy, other: SelectedPolicy
) -> tuple[list[tuple[float, float]], int]:
    """Return the totals on common seeds, and the number of pairs that ran on different rewards."""
    by_seed = {record.seed: record for record in selection.cells.get((column, other), ())}
    pairs, mismatched = [], 0
    for record in selection.cells.get((column, entry), ()):
        their = by_seed.get(record.seed)
        if their is None:
            continue
        if math.isclose(record.optimum, their.optimum, rel_tol=1e-6, abs_tol=1e-3):
            pairs.append((record.total, their.total))
        else:
            mismatched += 1
    return pairs, mismatched


def _difference_row(selection: Selection, entry: SelectedPolicy, reference: SelectedPolicy) -> Row:
    cells = (
        _difference_cell(duel(selection, column, entry, reference), selection.places(column))
        for column in selection.columns
    )
    return Row(TableCell(entry.title), tuple(cells))


def _difference_cell(own: Duel | None, places: int) -> TableCell:
    if own is None:
        return TableCell()
    text, seeds = number(own.mean, places, sign=True), count(len(own.differences), "seed")
    uncertain = own.outcome in (Outcome.TIE, Outcome.UNDECIDED)
    if own.interval is None:
        return TableCell(text, (seeds,), uncertain=uncertain)
    low, high = (number(end, places, sign=True) for end in own.interval)
    return TableCell(text, (f"[{low}, {high}]", seeds), uncertain=uncertain)
