"""From a results folder to a report."""

from pathlib import Path

from glcb._errors import ResultsError
from glcb.bench.report.document import Document, Fact
from glcb.bench.report.formatting import count_range
from glcb.bench.report.sections import comparison, curves, overview, setup
from glcb.bench.report.selection import Selection, select
from glcb.bench.results import FILE, Results

_INTRODUCTION = (
    "At each step of a task a policy observes a context, chooses one of several arms and receives the reward "
    "of that arm only. A run is one policy on one task with one seed. With the same seed, all policies see "
    "the same contexts and rewards."
)


def read(folder: Path) -> Selection:
    """Return the records in ``folder``."""
    if not folder.is_dir():
        raise ResultsError(f"there is no folder {folder}; create one with `glcb bench --out {folder}`")
    records = Results(folder).records
    if not records:
        raise ResultsError(f"{folder / FILE} has no finished runs; add some with `glcb bench --out {folder}`")
    return select(records)


def build(folder: Path, reference: str | None = None) -> Document:
    """Return the report on ``folder``; differences are relative to ``reference``, or to the best policy."""
    selection = read(folder)
    order = comparison.order(selection)
    compared_with = comparison.find_entry(order, reference) if reference else order[0]
    return Document(
        title="Contextual bandit benchmark",
        conclusion=overview.summary(selection),
        introduction=_INTRODUCTION,
        facts=_facts(selection),
        sections=(
            overview.section(selection),
            comparison.rank_section(selection),
            comparison.reward_section(selection, order),
            curves.reward_section(selection),
            curves.time_section(selection, order),
            comparison.difference_section(selection, order, compared_with),
            setup.section(selection, order, setup.failures(folder, selection)),
        ),
    )


def _facts(selection: Selection) -> tuple[Fact, ...]:
    on_paper_tasks, on_other_tasks = comparison.overall_standings(selection)
    overall = on_paper_tasks or on_other_tasks
    runs = [len(records) for records in selection.cells.values()]
    best = [own for own in overall if own.complete and own.mean == overall[0].mean]
    facts = [
        Fact(f"{sum(runs):,}", "runs"),
        Fact(f"{len({column.task for column in selection.columns})}", "tasks"),
        Fact(f"{len(selection.entries)}", "policies"),
        Fact(count_range(runs), "seeds per task and policy"),
    ]
    if best and len(overall) > 1 and len(best[0].ranks) > 1:
        titles = " and ".join(own.contestant.title for own in best)
        scope = f"{len(best[0].ranks)} tasks{' of the paper' if on_paper_tasks else ''}"
        facts.append(Fact(f"{best[0].mean:.2f}", f"best mean rank on {scope}: {titles}"))
    return tuple(facts)
