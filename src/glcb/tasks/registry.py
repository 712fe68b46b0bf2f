"""The tasks by their names."""

from collections.abc import Callable
from typing import TypeVar

from glcb._registry import Registry
from glcb.tasks.base import Task

_tasks: Registry[Callable[[], Task]] = Registry("task", "tasks", "glcb.tasks")

Registered = TypeVar("Registered", bound=Callable[[], Task])


def register(task: Registered) -> Registered:
    """Make the class ``task`` known by its name."""
    _tasks.add(task.name, task)  # type: ignore[attr-defined]
    return task


def names() -> list[str]:
    """Return the names of all tasks."""
    return _tasks.names()


def get(name: str) -> Task:
    """Return the task called ``name``. Its data is not needed before its arms or a stream are asked for."""
    return _tasks.get(name)()
