"""Benchmark plans: every policy on every task with every seed. Finished runs are skipped."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from glcb import _validation
from glcb._errors import InvalidSettings
from glcb.bench.executors import Executor
from glcb.bench.results import writing
from glcb.bench.run import Failure, Run, RunRecord
from glcb.policies import registry
from glcb.tasks import bakeoff, get
from glcb.tasks.base import NeedsData, default_steps

QUICK_TASKS = ("wheel", "linear", "sparse-linear")
QUICK_POLICIES = ("glcb", "linfullpost", "linucb", "lints", "uniform")
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
SCENARIOS = (
    "drift",
    "switch",
    "newcomer",
    "delay",
    "lost",
    "clicks-1",
    "clicks-2",
    "clicks-5",
    "many-arms",
    "many-features",
    "cold-start",
    "poisoned",
)
REVENUE = (
    *(f"revenue-{percent}-{high}" for percent in (2, 5, 20) for high in (60, 200, 2000)),
    "mails",
    "clicks-0.3",
    "clicks-0.1",
)
INTENTS = ("banking77", "banking77-words")
FAST_POLICIES = (
    "glcb",
    "glcb-paper",
    "linucb",
    "lints",
    "linfullpost",
    "squarecb",
    "rff-ucb",
    "rff-ucb-sd",
    "vw-squarecb",
    "vw-squarecb-quadratic",
    "vw-regcb",
    "vw-cover",
    "vw-epsilon-greedy",
    "epsilon-greedy",
    "uniform",
)
"""Policies that need at most about 300 µs per step, for plans with many runs."""


@dataclass(frozen=True)
class BenchmarkPlan:
    """Tasks × policies × seeds.

    Parameters
    ----------
    tasks : tuple of str
        Names of the tasks.
    policies : tuple of str
        Names of the policies.
    seeds : int
        Number of seeds; the seeds are 0, 1, 2, ….
    steps : int, optional
        Steps of each run. Default: the task's own length, which is 5,000 for most tasks.

    Raises
    ------
    InvalidSettings
        If a name is unknown or repeated, or a number is out of range.
    """

    tasks: tuple[str, ...]
    policies: tuple[str, ...]
    seeds: int
    steps: int | None = None

    def __post_init__(self) -> None:
        for kind, names in (("task", self.tasks), ("policy", self.policies)):
            repeated = [name for name, count in Counter(names).items() if count > 1]
            if repeated:
                raise InvalidSettings(f"the {kind} {repeated[0]!r} is listed more than once")
        for task in self.tasks:
            get(task)
        for policy in self.policies:
            registry.get(policy)
        _validation.integer("seeds", self.seeds, 1, 10_000)
        if self.steps is not None:
            _validation.integer("steps", self.steps, 1, 10**9)

    def runs(self) -> list[Run]:
        """Return all runs, ordered by seed, so that partial results are balanced."""
        steps = {task: self.steps or default_steps(get(task)) for task in self.tasks}
        return [
            Run(task, policy, seed, steps[task])
            for seed in range(self.seeds)
            for task in self.tasks
            for policy in self.policies
        ]


PRESETS: dict[str, Callable[[], BenchmarkPlan]] = {
    "quick": lambda: BenchmarkPlan(QUICK_TASKS, QUICK_POLICIES, seeds=10, steps=5000),
    "paper": lambda: BenchmarkPlan(PAPER_TASKS, PAPER_POLICIES, seeds=20, steps=5000),
    "bakeoff": lambda: BenchmarkPlan(tuple(bakeoff.data_sets()), FAST_POLICIES, seeds=10, steps=5000),
    "scenarios": lambda: BenchmarkPlan(SCENARIOS, FAST_POLICIES, seeds=10),
    "revenue": lambda: BenchmarkPlan(REVENUE, FAST_POLICIES, seeds=10),
    "intents": lambda: BenchmarkPlan(INTENTS, FAST_POLICIES, seeds=10),
}
"""Functions that return ready-made plans. The tasks of the bake-off depend on the data directory."""


def preset(name: str) -> BenchmarkPlan:
    """Return the ready-made plan called ``name``.

    Parameters
    ----------
    name : str
        ``"quick"`` is short and needs no data files, ``"paper"`` is the paper's experiment, ``"bakeoff"``
        runs all data sets in the folder ``bakeoff`` of the data directory, ``"scenarios"`` runs synthetic
        tasks with the difficulties of practice, each with its own length, ``"revenue"`` runs tasks with
        sparse revenue and very rare clicks, and ``"intents"`` has 77 arms and real texts.

    Returns
    -------
    BenchmarkPlan
        The plan. The bake-off has no tasks if there are no data sets.

    Raises
    ------
    InvalidSettings
        If there is no such preset.
    """
    if name not in PRESETS:
        raise InvalidSettings(f"there is no preset {name!r}; the presets are {', '.join(PRESETS)}")
    return PRESETS[name]()


def without_missing_packages(plan: BenchmarkPlan) -> tuple[BenchmarkPlan, dict[str, list[str]]]:
    """Return the plan without policies whose packages are missing, and the removed names by extra."""
    classes = {name: registry.get(name).policy_class for name in plan.policies}
    missing: dict[str, list[str]] = {}
    for name, policy_class in classes.items():
        if policy_class.missing_packages():
            missing.setdefault(str(policy_class.extra), []).append(name)
    removed = {name for names in missing.values() for name in names}
    present = tuple(name for name in plan.policies if name not in removed)
    return replace(plan, policies=present), missing


def without_missing_data(plan: BenchmarkPlan) -> tuple[BenchmarkPlan, list[str]]:
    """Return the plan without tasks whose data file is missing, and the removed names."""
    missing = tasks_without_data(plan.tasks)
    present = tuple(task for task in plan.tasks if task not in missing)
    return replace(plan, tasks=present), missing


def tasks_without_data(tasks: Sequence[str]) -> list[str]:
    """Return the ``tasks`` whose data file is missing."""
    pairs = ((name, get(name)) for name in tasks)
    return [name for name, task in pairs if isinstance(task, NeedsData) and not task.has_data()]


def run_missing(
    runs: Sequence[Run], folder: Path, executor: Executor
) -> Iterator[tuple[int, int, RunRecord | Failure | None]]:
    """Execute the runs that ``folder`` has no record of and record each one when it finishes.

    Parameters
    ----------
    runs : sequence of Run
        All runs of the plan.
    folder : Path
        Results folder; created if necessary.
    executor : Executor
        Executes the runs.

    Yields
    ------
    (int, int, RunRecord or Failure or None)
        Number of finished runs, number of all runs, and the latest outcome. The first item reports the runs
        that were already finished and has no outcome.
    """
    with writing(folder) as results:
        finished = results.keys()
        pending = [run for run in runs if run.key not in finished]
        before = len(runs) - len(pending)
        yield before, len(runs), None
        for done, outcome in enumerate(executor.run(pending), start=before + 1):
            results.append(outcome)
            yield done, len(runs), outcome
