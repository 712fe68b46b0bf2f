"""Execute benchmark runs on a Ray cluster."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from glcb._errors import DataError, GlcbError
from glcb._ray import TaskFailure, ask_nodes, connected, require_ray, run_tasks
from glcb.bench.run import Failure, Run, RunRecord, execute
from glcb.tasks import get
from glcb.tasks.data.directory import data_directory
from glcb.tasks.file_task import FileTask


class RayExecutor:
    """Executes runs as tasks of a Ray cluster, one core each.

    A run whose process or node dies is executed again elsewhere. Its first execution can no longer deliver a
    result, so it is never recorded twice. Every node must have the same version of glcb, and the data files
    under the same path as this machine: nothing is copied.

    Parameters
    ----------
    jobs : int, optional
        Maximum number of runs at a time. Default: the number of cores of the cluster, which may change.
    address : str, optional
        Address of the cluster. Default: the environment variable ``RAY_ADDRESS``, or a Ray instance that is
        started on this machine for these runs.

    Raises
    ------
    MissingExtra
        Ray is not installed.
    """

    def __init__(self, jobs: int | None, address: str | None) -> None:
        require_ray()
        self.jobs = jobs
        self.address = address
        self._environment = {"GLCB_DATA_DIR": str(data_directory().absolute())}

    def run(self, runs: Sequence[Run]) -> Iterator[RunRecord | Failure]:
        """Yield the outcome of each run in order of completion.

        Raises
        ------
        DataError
            A node lacks data files.
        InvalidSettings
            The cluster cannot be reached, or a node has another version of glcb.
        """
        if not runs:
            return
        with connected(self.address, cores=self.jobs):
            self._check_nodes(runs)
            for run, outcome in run_tasks(execute, deque(runs), self.jobs, self._environment):
                if isinstance(outcome, TaskFailure):
                    yield Failure(**asdict(run), error=outcome.reason)
                else:
                    yield outcome

    def _check_nodes(self, runs: Sequence[Run]) -> None:
        """Raise an error if a node would give results other than this machine's."""
        names = sorted({run.task for run in runs})
        missing_here = _without_data(names)
        for node, missing in ask_nodes(_without_data, names, self._environment):
            if lacking := missing - missing_here:
                raise DataError(
                    f"node {node} has no data for {', '.join(sorted(lacking))} in "
                    f"{self._environment['GLCB_DATA_DIR']}: share this folder with all nodes, or copy it to "
                    "the same path"
                )


def _without_data(tasks: Sequence[str]) -> set[str]:
    """Return the tasks whose data is missing on this machine."""
    return {name for name in tasks if not _has_data(name)}


def _has_data(name: str) -> bool:
    try:
        task = get(name)
    except GlcbError:
        return False
    return not isinstance(task, FileTask) or task.find() is not None
