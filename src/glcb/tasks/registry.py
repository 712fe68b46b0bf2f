"""Tasks by name."""

from collections.abc import Callable
from typing import TypeVar

from glcb._registry import Registry
from glcb.tasks.base import Task

_tasks: Registry[Callable[[], Task]] = Registry("task", "tasks", "glcb.tasks")

Registered = TypeVar("Registered", bound=Callable[[], Task])


def register(task: Registered) -> Registered:
    """Class decorator that registers a task under its ``name``.

    Parameters
    ----------
    task : type
        A class that follows the :class:`~glcb.tasks.Task` protocol and takes no required arguments.

    Returns
    -------
    type
        The same class.
    """
    _tasks.add(task.name, task)  # type: ignore[attr-defined]
    return task


def names() -> list[str]:
    """Return the names of all tasks.

    Returns
    -------
    list of str
        The names, sorted.
    """
    return _tasks.names()


def get(name: str) -> Task:
    """Return the task called ``name``.

    A task loads its data file when its arms, its features or a stream are first used, not here.

    Parameters
    ----------
    name : str
        One of :func:`names`.

    Returns
    -------
    Task
        The task.

    Raises
    ------
    InvalidSettings
        If there is no such task.
    """
    return _tasks.get(name)()
