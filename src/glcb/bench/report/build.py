"""From a results folder to a report."""

from collections.abc import Callable
from pathlib import Path

from glcb._document.document import Document, Fact, Section
from glcb._errors import ResultsError
from glcb.bench.report.formatting import count_range
from glcb.bench.report.sections import comparison, curves, leads, overview, setup, summary
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


class BenchmarkReport:
    """The parts of a report. Sections are built on demand, because their figures take time.

    Parameters
    ----------
    folder : Path
        Results folder.
    reference : str, optional
        Policy for paired differences. Default: the policy with the best mean rank.

    Raises
    ------
    ResultsError
        If there are no results.
    InvalidSettings
        If there are no runs of ``reference``.
    """

    def __init__(self, folder: Path, reference: str | None = None) -> None:
        selection = read(folder)
        order = comparison.order(selection)
        compared = comparison.find_entry(order, reference) if reference else order[0]
        found = leads.leads(selection, compared)
        self.selection = selection
        self.conclusion = overview.summary(selection, compared, found)
        self.sections: dict[str, Callable[[], Section]] = {
            "overview": lambda: overview.section(selection, order, compared, found),
            "summary": lambda: summary.section(selection, order, compared),
            "leads": lambda: leads.section(selection, compared, found),
            "ranks": lambda: comparison.rank_section(selection),
            "rewards": lambda: comparison.reward_section(selection, order),
            "differences": lambda: comparison.difference_section(selection, order, compared),
            "curves": lambda: curves.reward_section(selection, order),
            "times": lambda: curves.time_section(selection, order),
            "setup": lambda: setup.section(selection, order, setup.failures(folder, selection)),
        }

    def document(self) -> Document:
        """Return the complete report."""
        return Document(
            title="Contextual bandit benchmark",
            conclusion=self.conclusion,
            introduction=_INTRODUCTION,
            facts=_facts(self.selection),
            sections=tuple(build() for build in self.sections.values()),
        )


def _facts(selection: Selection) -> tuple[Fact, ...]:
    overall = comparison.main_standings(selection)
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
        tasks = len(best[0].ranks)
        scope = f"{tasks} tasks" + (" of the paper" if tasks < len(selection.columns) else "")
        facts.append(Fact(f"{best[0].mean:.2f}", f"best mean rank on {scope}: {titles}"))
    return tuple(facts)
