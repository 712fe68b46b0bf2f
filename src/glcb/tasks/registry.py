"""Tasks by name."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from glcb._registry import Registry
from glcb.tasks.base import Task

_tasks: Registry[Callable[[], Task]] = Registry("task", "tasks", "glcb.tasks")

Registered = TypeVar("Registered", bound=Callable[[], Task])


class TaskFolder(Protocol):
    """A folder of data sets, each of which is a task. Task names begin with the folder name."""

    @property
    def name(self) -> str:
        """Name of the folder in the data directory."""

    def names(self) -> list[str]:
        """Return the names of the tasks, sorted."""

    def get(self, name: str) -> Task:
        """Return the task called ``name``."""


_folders: dict[str, TaskFolder] = {}


def register_folder(folder: TaskFolder) -> None:
    """Register the tasks of a folder."""
    _folders[folder.name] = folder


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
    """Return the names of all tasks, including the data sets in the folder ``bakeoff``.

    Returns
    -------
    list of str
        The names, sorted.
    """
    _tasks.import_all()
    return sorted([*_tasks.names(), *(name for folder in _folders.values() for name in folder.names())])


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
    _tasks.import_all()
    folder = _folders.get(str(name).partition("/")[0])
    return _tasks.get(name)() if folder is None else folder.get(name)
