"""Evaluate a log on a Ray cluster.

A policy that learns or draws random numbers must visit the rows of a log in order, and so must the reward
model. But they are independent of each other, so each goes over the files of the log in its own tasks, one
per file, which pass its state on. Other policies visit all files at once. This process adds up the outputs in
log order, with the same additions as without Ray, so the results are the same.
"""

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

from glcb._errors import InvalidSettings, LogError
from glcb._ray import TaskFailure, capacity, require_files, run_tasks
from glcb.evaluate.evaluation import Evaluator, Visitor
from glcb.evaluate.log import ChunkReader, LogFiles, Progress
from glcb.evaluate.rows import Chunk, Survey

_ROWS = "rows"
_AHEAD = 2
"""How many files per parallel task can be visited before they are added up."""


class RayLogExecutor:
    """Reads and evaluates the files of a log in tasks of one core each. This process is connected to Ray.

    A task whose process or node dies is repeated elsewhere. Every node must have the same version of glcb and
    the files under the same paths as this machine: nothing is copied.

    Parameters
    ----------
    jobs : int, optional
        Maximum number of tasks at a time. Default: the number of cores of the cluster, which may change.
    """

    def __init__(self, jobs: int | None) -> None:
        self.jobs = jobs

    def survey(self, log: LogFiles, progress: Progress | None) -> Survey:
        """Read the log once.

        Raises
        ------
        LogError
            A node lacks a file, or has a different one.
        InvalidSettings
            A node has another version of glcb.
        """
        log = _at_this_path(log)
        require_files([log.folder / path for path in log.paths])
        found: dict[int, Survey] = {}
        files = len(log.paths)
        for task, outcome in run_tasks(_survey, deque(_Survey(log, n) for n in range(files)), self.jobs):
            found[task.number] = _result(outcome, log, task.number)
            if progress is not None:
                progress("reading", len(found) / files)
        return log.joined(found[number] for number in range(files))

    def run(self, evaluator: Evaluator, log: LogFiles, reader: ChunkReader) -> Iterator[float]:
        """Evaluate the chunks that the evaluator does not have yet; yield the completed share."""
        from ray import cloudpickle

        if not evaluator.is_divisible:
            raise InvalidSettings(
                "iips draws random numbers for one policy after the other, so its policies cannot be divided "
                "over tasks: use rips, or the local executor"
            )
        log, files = _at_this_path(log), len(log.paths)
        visitors = {name: own for name, own in evaluator.visitors.items() if own.uses_contexts}
        visitors[_ROWS] = _RowVisitor()
        current, skip = _position(evaluator.chunks, log, reader)
        queue, done = _Queue(), current * len(visitors)
        for name, visitor in visitors.items():
            for number in range(current, current + 1 if visitor.has_state else files):
                left = skip if number == current else 0
                queue.append(_Visit(name, number, cloudpickle.dumps(visitor), log, reader, left))
        queue.limit = current + _AHEAD * capacity(self.jobs)
        finished: defaultdict[int, dict[str, _Visited]] = defaultdict(dict)
        for task, outcome in run_tasks(_visit, queue, self.jobs):
            visited = _result(outcome, log, task.number)
            finished[task.number][task.name] = visited
            if visited.visitor is not None and task.number + 1 < files:
                queue.append(replace(task, number=task.number + 1, visitor=visited.visitor, skip=0))
            while len(finished[current]) == len(visitors):
                _add(evaluator, finished.pop(current))
                current += 1
                queue.limit = current + _AHEAD * capacity(self.jobs)
            done += 1
            yield done / (files * len(visitors))


@dataclass(frozen=True, eq=False)
class _Survey:
    """A file to read once."""

    log: LogFiles
    number: int


def _survey(task: _Survey) -> Survey:
    return task.log.survey(task.number)


@dataclass(frozen=True, eq=False)
class _Visit:
    """A file to be visited."""

    name: str
    number: int
    visitor: bytes
    """The pickled visitor. Ray's own way to pass arrays makes them read-only, and visitors change theirs."""
    log: LogFiles
    reader: ChunkReader
    skip: int
    """Number of chunks at its beginning that have been evaluated."""


class _Visited(NamedTuple):
    visitor: bytes | None
    """The pickled visitor after the file; None if it has no state."""
    answers: list[Any]
    """The visitor's output for each chunk."""


def _visit(task: _Visit) -> _Visited:
    from ray import cloudpickle

    visitor: Visitor = cloudpickle.loads(task.visitor)
    chunks = islice(task.reader.chunks(task.log.rows(task.number)), task.skip, None)
    answers = [visitor.visit(chunk) for chunk in chunks]
    return _Visited(cloudpickle.dumps(visitor) if visitor.has_state else None, answers)


class _RowVisitor:
    """Returns the chunks without their contexts."""

    has_state = False
    uses_contexts = True

    def visit(self, chunk: Chunk) -> Chunk:
        return replace(chunk, contexts=(), features=())

    def snapshot(self) -> None:
        """Return None: there is no state."""

    def restore(self, state: Any) -> None:
        """Do nothing: there is no state."""


class _Queue:
    """Visits in the order of the files. Those from ``limit`` on must wait, so that results do not pile up."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, _Visit]] = []
        self._order = count()
        self.limit = 0

    def __len__(self) -> int:
        return len(self._heap) if self._heap and self._heap[0][0] < self.limit else 0

    def popleft(self) -> _Visit:
        return heappop(self._heap)[-1]

    def append(self, task: _Visit, /) -> None:
        heappush(self._heap, (task.number, next(self._order), task))


def _add(evaluator: Evaluator, visited: dict[str, _Visited]) -> None:
    """Add a file that all visitors have visited. Policies that do not use contexts visit it here."""
    from ray import cloudpickle

    here = {name: own for name, own in evaluator.visitors.items() if not own.uses_contexts}
    for position, chunk in enumerate(visited.pop(_ROWS).answers):
        visits = {name: own.answers[position] for name, own in visited.items()}
        evaluator.add(chunk, visits | {name: own.visit(chunk) for name, own in here.items()})
    for name, own in visited.items():
        if own.visitor is not None:
            evaluator.visitors[name] = cloudpickle.loads(own.visitor)


def _position(done: int, log: LogFiles, reader: ChunkReader) -> tuple[int, int]:
    """Return where a log continues after some chunks: the file, and the number of chunks to skip there."""
    for number in range(len(log.paths)):
        if not done:
            return number, 0
        chunks = sum(1 for _ in reader.chunks(log.rows(number)))
        if done < chunks:
            return number, done
        done -= chunks
    return len(log.paths), 0


def _at_this_path(log: LogFiles) -> LogFiles:
    """Return a log with absolute paths."""
    return replace(log, folder=Path.cwd())


def _result(outcome: Any, log: LogFiles, number: int) -> Any:
    """Return the result of a task; raise the error of a failed task."""
    if not isinstance(outcome, TaskFailure):
        return outcome
    if outcome.error is not None:
        raise outcome.error
    raise LogError(f"cannot evaluate {log.paths[number]}: the task failed because {outcome.reason}")
