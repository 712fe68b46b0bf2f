"""An experiment: every policy on every task with every seed. What is finished already is not run again."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from glcb import _validation
from glcb._errors import InvalidSettings
from glcb.bench.executors import Engine
from glcb.bench.results import writing
from glcb.bench.run import Failure, Record, Run
from glcb.policies import registry
from glcb.tasks import get
from glcb.tasks.file_task import FileTask

PAPER_TASKS = ("adult", "census", "covertype", "statlog", "financial", "jester", "wheel")
PAPER_POLICIES = (
    "glcb-paper",
    "bootrms",
    "dropout",
    "linfullpost",
    "neurallinear",
    "rms",
    "bbb",
    "paramnoise",
    "constsgd",
    "bbalphadiv",
)


@dataclass(frozen=True)
class Experiment:
    """Tasks × policies × seeds 0, 1, 2, …"""

    tasks: tuple[str, ...]
    policies: tuple[str, ...]
    seeds: int
    steps: int

    def __post_init__(self) -> None:
        for what, names in (("task", self.tasks), ("policy", self.policies)):
            twice = [name for name, count in Counter(names).items() if count > 1]
            if twice:
                raise InvalidSettings(f"every {what} plays once, {twice[0]!r} is named more than once")
        for task in self.tasks:
            get(task)
        for policy in self.policies:
            registry.get(policy)
        _validation.whole_number("seeds", self.seeds, 1, 10_000)
        _validation.whole_number("steps", self.steps, 1, 10**9)

    def runs(self) -> list[Run]:
        """Return all runs, seed by seed, so that whatever is finished early is balanced."""
        return [
            Run(task, policy, seed, self.steps)
            for seed in range(self.seeds)
            for task in self.tasks
            for policy in self.policies
        ]


PRESETS = {
    "paper": Experiment(PAPER_TASKS, PAPER_POLICIES, seeds=20, steps=5000),
    "quick": Experiment(
        ("wheel", "linear", "sparse-linear"), ("glcb", "linfullpost", "linucb", "lints", "uniform"), 10, 5000
    ),
}
"""Ready-made experiments: the paper's own, and a first impression that needs no data."""


def without_missing_packages(experiment: Experiment) -> tuple[Experiment, list[str]]:
    """Return the experiment without the policies whose packages are not installed, and the names of those."""
    absent = [
        name
        for name in experiment.policies
        if any(find_spec(package) is None for package in registry.get(name).make.requires)
    ]
    present = tuple(name for name in experiment.policies if name not in absent)
    return replace(experiment, policies=present), absent


def without_data(tasks: Sequence[str]) -> list[str]:
    """Return which of the tasks lack their data."""
    found = ((name, get(name)) for name in tasks)
    return [name for name, task in found if isinstance(task, FileTask) and task.find() is None]


def without_missing_data(experiment: Experiment) -> tuple[Experiment, list[str]]:
    """Return the experiment without the tasks whose data is not here, and the names of those."""
    absent = without_data(experiment.tasks)
    present = tuple(task for task in experiment.tasks if task not in absent)
    return replace(experiment, tasks=present), absent


def carry_out(
    runs: Sequence[Run], folder: Path, engine: Engine
) -> Iterator[tuple[int, int, Record | Failure | None]]:
    """Carry out the runs that ``folder`` has no record of; record each as soon as it is finished.

    Yields how many are done, how many there are, and what came of the latest (nothing at the start).
    """
    with writing(folder) as results:
        finished = results.keys()
        todo = [run for run in runs if run.key not in finished]
        before = len(runs) - len(todo)
        yield before, len(runs), None
        for done, outcome in enumerate(engine.run(todo), start=before + 1):
            results.append(outcome)
            yield done, len(runs), outcome
