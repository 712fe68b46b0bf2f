"""Connections to Ray, an optional dependency, and tasks that survive the loss of processes and nodes."""

import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from glcb._errors import InvalidSettings, LogError, MissingExtra, install_command
from glcb._version import __version__

T = TypeVar("T")
A = TypeVar("A")
R = TypeVar("R")

MAX_LOSSES = 5
"""A task fails after this many of its processes or nodes have died."""
_CONNECT_SECONDS = 5.0
_POLL_SECONDS = 1.0
"""Seconds between two readings of the number of cores while tasks run."""

ONE_THREAD: Mapping[str, str] = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "NPROC": "1",  # XLA sizes its thread pool by this
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_PLATFORMS": "cpu",
}
"""The environment of a task. Tasks run in parallel, but each uses one thread, because the last digit of a
matrix product can depend on the number of threads."""


def require_ray() -> None:
    """Raise MissingExtra if Ray is not installed."""
    if find_spec("ray") is None:
        raise MissingExtra(f"the executor ray needs Ray: {install_command('ray')}")


def check_jobs(jobs: int | None) -> None:
    """Raise InvalidSettings if there is no process to run tasks in."""
    if jobs is not None and jobs < 1:
        raise InvalidSettings(f"jobs must be at least 1, got {jobs!r}")


def _require_reachable(address: str) -> None:
    """Raise OSError if nothing listens at an address: Ray itself would try for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()


@contextmanager
def connected(
    address: str | None = None, cores: int | None = None, object_store: int | None = None
) -> Iterator[None]:
    """Connect this process to Ray within the block, unless it is already connected.

    Parameters
    ----------
    address : str, optional
        Address of the cluster, such as ``"10.0.0.1:6379"``. Default: the environment variable
        ``RAY_ADDRESS``, or an instance of Ray on this machine that ends with the block.
    cores : int, optional
        Number of cores of the instance on this machine. Default: all.
    object_store : int, optional
        Bytes of its object store. Default: a share of the memory.

    Raises
    ------
    InvalidSettings
        The cluster cannot be reached.
    MissingExtra
        Ray is not installed.
    """
    require_ray()
    # A local instance reports nothing to anybody, unless the user enables it.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    is_local = address == "local"
    try:
        _require_reachable(address)
        ray.init(
            address,
            num_cpus=cores if is_local else None,
            object_store_memory=object_store if is_local else None,
            include_dashboard=False if is_local else None,
            log_to_driver=False,
            logging_level="ERROR",
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise InvalidSettings(
            f"cannot connect to Ray at {address} ({_first_line(error)}): start a cluster with "
            "`ray start --head`, and pass the address that it prints"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


class TaskQueue(Protocol[T]):
    """The tasks that can start now. Tasks can be added while others run."""

    def __len__(self) -> int:
        """Return 0 if no task can start."""

    def popleft(self) -> T:
        """Remove and return the next task."""

    def append(self, task: T, /) -> None:
        """Add a task, including a lost task."""


class TaskFailure(NamedTuple):
    """A task without a result: it raised an error, or was lost too often."""

    reason: str
    error: Exception | None = None
    """The error raised by the task itself."""


def run_tasks(
    function: Callable[[T], R],
    queue: TaskQueue[T],
    jobs: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[tuple[T, R | TaskFailure]]:
    """Yield each task with its result, in order of completion. This process must be connected to Ray.

    A task whose process or node dies runs again elsewhere. Its first run can no longer deliver a result, so
    no result is delivered twice. If the caller stops early, running tasks are not canceled: they end when
    this process disconnects. With Ray 2.60, ``ray.cancel`` can end this process if a task completes just
    then.

    Parameters
    ----------
    function : callable
        The function to call with each task, in one thread.
    queue : TaskQueue
        The tasks.
    jobs : int, optional
        Maximum number of tasks at a time. Default: the number of cores of the cluster, which may change.
    environment : mapping of str to str, optional
        Environment variables of the tasks.

    Raises
    ------
    InvalidSettings
        A node, possibly a new one, has another version of glcb.
    """
    import ray
    from ray import cloudpickle
    from ray.exceptions import RayError, RayTaskError

    remote = ray.remote(_call).options(num_cpus=1, **_options(environment))
    running: dict[Any, T] = {}
    losses = Counter[int]()  # by identity: tasks need not be hashable
    while queue or running:
        while queue and len(running) < capacity(jobs):
            task = queue.popleft()
            running[remote.remote(__version__, cloudpickle.dumps((function, task)))] = task
        for reference in ray.wait(list(running), timeout=_POLL_SECONDS)[0]:
            task = running.pop(reference)
            try:
                outcome = _checked(*ray.get(reference))
            except RayTaskError as error:
                outcome = TaskFailure(_first_line(error.cause), error.cause)
            except RayError:
                losses[id(task)] += 1
                if losses[id(task)] < MAX_LOSSES:
                    queue.append(task)
                    continue
                outcome = TaskFailure(
                    f"its process or its node died {MAX_LOSSES} times; it may have run out of memory"
                )
            losses.pop(id(task), None)
            yield task, outcome


def capacity(jobs: int | None) -> int:
    """Return how many tasks may run now; at least one, which waits for a core."""
    import ray

    cores = int(ray.cluster_resources().get("CPU", 0))
    return max(1, cores if jobs is None else min(cores, jobs))


def ask_nodes(
    question: Callable[[A], R], argument: A, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[str, R]]:
    """Yield the name of each node that has cores, with its answer.

    Raises
    ------
    InvalidSettings
        A node cannot answer, or has another version of glcb.
    """
    import ray
    from ray import cloudpickle
    from ray.exceptions import NodeDiedError, RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    remote, call = ray.remote(_call), cloudpickle.dumps((question, argument))
    asked = []
    for node in ray.nodes():
        if node["Alive"] and node["Resources"].get("CPU"):
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            own = remote.options(num_cpus=0, scheduling_strategy=there, **_options(environment))
            asked.append((node["NodeManagerHostname"], own.remote(__version__, call)))
    for name, reference in asked:
        try:
            answer = _checked(*ray.get(reference))
        except NodeDiedError:
            continue
        except RayError as error:
            raise InvalidSettings(
                f"node {name} cannot run tasks ({_first_line(error)}): install glcb {__version__} there"
            ) from error
        yield name, answer


def require_files(paths: Sequence[Path]) -> None:
    """Raise LogError unless every node has identical copies of these files. Nothing is copied."""
    for path, size in zip(paths, here := _sizes(paths), strict=True):
        if isinstance(size, str):
            raise LogError(f"cannot read {path}: {size}")
    for node, there in ask_nodes(_sizes, paths):
        for path, own, size in zip(paths, here, there, strict=True):
            if own != size:
                problem = (
                    f"cannot read {path} ({size})" if isinstance(size, str) else f"has another file {path}"
                )
                raise LogError(
                    f"node {node} {problem}: share its folder with all nodes, or copy it to the same path"
                )


def _sizes(paths: Sequence[Path]) -> list[int | str]:
    """Return the size of each file on this machine, or why it cannot be read."""
    return [_size(path) for path in paths]


def _size(path: Path) -> int | str:
    try:
        if not path.is_file():
            return "there is no such file"
        with path.open("rb") as file:
            return os.fstat(file.fileno()).st_size
    except OSError as error:
        return error.strerror or str(error)


def _options(environment: Mapping[str, str] | None) -> dict[str, Any]:
    """Return the options of a task."""
    return {"max_retries": 0, "runtime_env": {"env_vars": {**ONE_THREAD, **(environment or {})}}}


def _call(version: str, call: bytes) -> tuple[str, str, Any]:
    """Return the node name, its version of glcb, and the result of a function if the version matches.

    The function is pickled, because another version may not be able to load it.
    """
    from ray import cloudpickle

    node = socket.gethostname()
    if version != __version__:
        return node, __version__, None
    function, argument = cloudpickle.loads(call)
    return node, __version__, function(argument)


def _checked(node: str, version: str, result: R) -> R:
    """Return the result of a task; raise InvalidSettings if its node has another version of glcb."""
    if version != __version__:
        raise InvalidSettings(f"node {node} has glcb {version}: install glcb {__version__} there")
    return result


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
