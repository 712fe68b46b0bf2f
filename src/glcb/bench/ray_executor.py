"""Execute benchmark runs on a Ray cluster. Ray places the runs; which ones are repeated is decided here."""

import contextlib
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from glcb._errors import DataError, GlcbError, InvalidSettings
from glcb._ray import connected, require_ray
from glcb._version import __version__
from glcb.bench.run import Failure, Record, Run, execute
from glcb.tasks import get
from glcb.tasks.data.directory import data_directory
from glcb.tasks.file_task import FileTask

_MAX_LOSSES = 5
"""A run is given up after this many processes or nodes have died with it."""
_POLL_SECONDS = 1.0
"""How often the number of cores is read again while runs execute."""


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
    environment : mapping of str to str
        Environment variables of the runs.

    Raises
    ------
    MissingExtra
        Ray is not installed.
    """

    def __init__(self, jobs: int | None, address: str | None, environment: Mapping[str, str]) -> None:
        require_ray()
        self.jobs = jobs
        self.address = address
        self._environment = {**environment, "GLCB_DATA_DIR": str(data_directory().absolute())}

    def run(self, runs: Sequence[Run]) -> Iterator[Record | Failure]:
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
            yield from self._execute(runs)

    def _execute(self, runs: Sequence[Run]) -> Iterator[Record | Failure]:
        import ray
        from ray.exceptions import RayError

        task = ray.remote(execute).options(**self._options)
        queue, losses = deque(runs), Counter[str]()
        running: dict[Any, Run] = {}
        try:
            while queue or running:
                while queue and len(running) < self._capacity():
                    run = queue.popleft()
                    running[task.remote(run)] = run
                for reference in ray.wait(list(running), timeout=_POLL_SECONDS)[0]:
                    run = running.pop(reference)
                    try:
                        outcome = ray.get(reference)
                    except RayError:  # execute() raises nothing: its process or its node died
                        losses[run.key] += 1
                        if losses[run.key] < _MAX_LOSSES:
                            queue.append(run)
                            continue
                        error = (
                            f"its process or its node died {_MAX_LOSSES} times; it may have run out of memory"
                        )
                        outcome = Failure(**asdict(run), error=error)
                    yield outcome
        finally:
            for reference in running:
                with contextlib.suppress(RayError):
                    ray.cancel(reference, force=True)

    @property
    def _options(self) -> dict[str, Any]:
        return {"num_cpus": 1, "max_retries": 0, "runtime_env": {"env_vars": self._environment}}

    def _capacity(self) -> int:
        """Return how many runs may execute now; at least one, which waits for a core."""
        import ray

        cores = int(ray.cluster_resources().get("CPU", 0))
        return max(1, cores if self.jobs is None else min(cores, self.jobs))

    def _check_nodes(self, runs: Sequence[Run]) -> None:
        """Raise an error if a node would give other results than this machine."""
        import ray
        from ray.exceptions import NodeDiedError, RayError
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        names = sorted({run.task for run in runs})
        _, missing_here = _describe(names)
        task = ray.remote(_describe)
        probes = []
        for node in ray.nodes():
            if node["Alive"] and node["Resources"].get("CPU"):
                there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                probe = task.options(**self._options | {"num_cpus": 0}, scheduling_strategy=there)
                probes.append((node["NodeManagerHostname"], probe.remote(names)))
        for node, probe in probes:
            try:
                version, missing = ray.get(probe)
            except NodeDiedError:
                continue
            except RayError as error:
                first = str(error).strip().partition("\n")[0]
                raise InvalidSettings(
                    f"node {node} cannot execute runs ({first}): install glcb {__version__} there"
                ) from error
            if version != __version__:
                raise InvalidSettings(f"node {node} has glcb {version}: install glcb {__version__} there")
            if lacking := missing - missing_here:
                raise DataError(
                    f"node {node} has no data for {', '.join(sorted(lacking))} in "
                    f"{self._environment['GLCB_DATA_DIR']}: share this folder with all nodes, or copy it to "
                    "the same path"
                )


def _describe(tasks: Sequence[str]) -> tuple[str, set[str]]:
    """Return the version of glcb on this machine, and those of the tasks whose data is missing."""
    return __version__, {name for name in tasks if not _has_data(name)}


def _has_data(name: str) -> bool:
    try:
        task = get(name)
    except GlcbError:
        return False
    return not isinstance(task, FileTask) or task.find() is not None
