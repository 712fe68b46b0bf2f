"""Looking up tasks by name. A task registers itself in its own file; adding one means adding a file."""

import pkgutil
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TypeVar

from glcb._errors import InvalidSettings
from glcb.tasks.base import Task

_tasks: dict[str, Callable[[], Task]] = {}

Registered = TypeVar("Registered", bound=Callable[[], Task])


def register(task: Registered) -> Registered:
    """Make the class ``task`` known by its name."""
    _tasks[task.name] = task  # type: ignore[attr-defined]
    return task


def names() -> list[str]:
    """Return the names of all tasks."""
    _import_all()
    return sorted(_tasks)


def get(name: str) -> Task:
    """Return the task called ``name``. Its data is not needed before its arms or a stream are asked for."""
    _import_all()
    if name not in _tasks:
        raise InvalidSettings(f"there is no task {name!r}; the tasks are {', '.join(names())}")
    return _tasks[name]()


@cache
def _import_all() -> None:
    """Import every file of this room, so that every task has registered itself."""
    room = import_module("glcb.tasks")
    for module in pkgutil.iter_modules(room.__path__, "glcb.tasks."):
        import_module(module.name)
