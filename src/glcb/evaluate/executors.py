"""Where a log is evaluated: in this process, or by the tasks of a Ray cluster. The results are the same."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from glcb._errors import InvalidSettings
from glcb.evaluate.evaluation import Evaluator
from glcb.evaluate.log import ChunkReader, LogFiles, Progress
from glcb.evaluate.rows import Survey

EXECUTORS = ("local", "ray")
"""The names of the executors."""
_USE_RAY = "pass executor='ray' (--executor ray) as well"


class LogExecutor(Protocol):
    """Reads and evaluates the files of a log."""

    def survey(self, log: LogFiles, progress: Progress | None) -> Survey:
        """Read the log once."""

    def run(self, evaluator: Evaluator, log: LogFiles, reader: ChunkReader) -> Iterator[float]:
        """Evaluate the chunks that the evaluator does not have yet; yield the completed share.

        The evaluator can be saved whenever this yields.
        """


class LocalLogExecutor:
    """Reads and evaluates one row after the other in this process."""

    def survey(self, log: LogFiles, progress: Progress | None) -> Survey:
        """Read the log once."""
        return log.joined(log.survey(number, progress) for number in range(len(log.paths)))

    def run(self, evaluator: Evaluator, log: LogFiles, reader: ChunkReader) -> Iterator[float]:
        """Evaluate the chunks that the evaluator does not have yet; yield the completed share."""
        chunks = (chunk for number in range(len(log.paths)) for chunk in reader.chunks(log.rows(number)))
        for rows in evaluator.run(chunks):
            yield rows / evaluator.rows


@contextmanager
def make_executor(name: str, jobs: int | None = None, address: str | None = None) -> Iterator[LogExecutor]:
    """Return the executor called ``name``, for the duration of the block.

    Parameters
    ----------
    name : str
        One of ``EXECUTORS``.
    jobs : int, optional
        Number of parallel tasks. Default: the number of cores.
    address : str, optional
        Address of the Ray cluster. Default: the environment variable ``RAY_ADDRESS``, or an instance of Ray
        on this machine.

    Raises
    ------
    InvalidSettings
        If there is no such executor, it takes no address or jobs, jobs is less than one, or the cluster
        cannot be reached.
    MissingExtra
        If Ray is not installed.
    """
    if name not in EXECUTORS:
        raise InvalidSettings(f"there is no executor {name!r}; the executors are {', '.join(EXECUTORS)}")
    if name == "ray":
        from glcb._ray import check_jobs, connected
        from glcb.evaluate.ray_executor import RayLogExecutor

        check_jobs(jobs)
        with connected(address, cores=jobs):
            yield RayLogExecutor(jobs)
        return
    if address is not None:
        raise InvalidSettings(f"the executor {name!r} has no address: {_USE_RAY}")
    if jobs is not None:
        raise InvalidSettings(f"the executor {name!r} uses one process: {_USE_RAY}")
    yield LocalLogExecutor()
