"""From a folder of results to a report."""

from pathlib import Path

from glcb._errors import ResultsError
from glcb.bench.report.document import Document, Fact
from glcb.bench.report.numbers import span
from glcb.bench.report.sections import conditions, differences, ranks, rewards, times
from glcb.bench.report.sections import curves as courses
from glcb.bench.report.selection import Selection, select
from glcb.bench.results import FILE, Results

_LEAD = (
    "In each step of a task a policy sees a context, chooses one of several arms, and receives the reward of "
    "that arm alone. The more reward it collects, the better. A run is one policy on one task with one seed; "
    "the same seed means the same contexts and rewards for every policy."
)


def read(folder: Path) -> Selection:
    """Return the runs in ``folder``."""
    if not folder.is_dir():
        raise ResultsError(f"there is no folder {folder}: `glcb bench --out {folder}` makes one")
    records = Results(folder).records
    if not records:
        raise ResultsError(f"{folder / FILE} has no finished runs: `glcb bench --out {folder}` makes some")
    return select(records)


def build(folder: Path, reference: str | None = None) -> Document:
    """Return the report on ``folder``; all are compared with the policy ``reference``, or with the best."""
    selection = read(folder)
    order = ranks.order(selection)
    compared = differences.find(order, reference) if reference else order[0]
    return Document(
        title="Contextual bandits compared",
        lead=_LEAD,
        facts=_facts(selection),
        sections=(
            ranks.section(selection),
            rewards.section(selection, order),
            courses.section(selection),
            times.section(selection, order),
            differences.section(selection, order, compared),
            conditions.section(selection, order, conditions.failures(folder, selection)),
        ),
    )


def _facts(selection: Selection) -> tuple[Fact, ...]:
    on_papers, on_others = ranks.overall(selection)
    overall = on_papers or on_others
    runs = [len(records) for records in selection.cells.values()]
    best = [own for own in overall if own.complete and own.mean == overall[0].mean]
    facts = [
        Fact(f"{sum(runs):,}", "runs"),
        Fact(f"{len({column.task for column in selection.columns})}", "tasks"),
        Fact(f"{len(selection.players)}", "policies"),
        Fact(span(runs), "seeds for each task and policy"),
    ]
    if best and len(overall) > 1:
        titles = " and ".join(own.player.title for own in best)
        tasks = len(best[0].ranks)
        where = f"{tasks} {'task' if tasks == 1 else 'tasks'}{' of the paper' if on_papers else ''}"
        facts.append(Fact(f"{best[0].mean:.2f}", f"best mean rank on {where}: {titles}"))
    return tuple(facts)
