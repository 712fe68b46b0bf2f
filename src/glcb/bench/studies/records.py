"""Studies that are made of runs: carry them out, and find their records again."""

from collections.abc import Iterable

from glcb._errors import GlcbError
from glcb.bench.executors import LocalEngine
from glcb.bench.plan import carry_out
from glcb.bench.results import Results
from glcb.bench.run import Failure, Record, Run
from glcb.bench.studies.base import Workplace


def records_of(groups: Iterable[list[Run]], place: Workplace) -> dict[str, Record]:
    """Carry out what is missing, each run once, and return all records by their key."""
    runs = {run.key: run for group in groups for run in group}
    in_order = sorted(runs.values(), key=lambda run: run.seed)
    failures = []
    for done, total, outcome in carry_out(in_order, place.folder, LocalEngine(place.jobs)):
        place.progress(done, total)
        if isinstance(outcome, Failure):
            failures.append(outcome)
    if failures:
        one = failures[0]
        raise GlcbError(
            f"{len(failures)} of {total} runs failed, such as {one.task}, {one.policy}, seed {one.seed}: "
            f"{one.error}; the same command tries them again"
        )
    return {record.key: record for record in Results(place.folder).records}


def totals(records: Iterable[Record]) -> list[float]:
    """Return the reward of each run."""
    return [record.total for record in records]
